//! When the window is cut for a loss: as fast recovery begins, once more where what that has sent again is lost, too, and late where what
//! was lost seemed to be a probe of the path only.

use super::Phase;
use super::reduction::Reduction;
use super::tail::TailProbe;
use crate::path::Spared;
use crate::sender::Sender;
use braidnet_wire::seq::SeqNumber;
use braidnet_wire::time::Instant;

impl Sender {
    /// What is lost is to be repaired; the window is cut for it unless it is a probe of the path, and nothing else.
    pub(super) fn enter_fast_recovery(
        &mut self,
        now: Instant,
        sack: bool,
        probe: Option<(SeqNumber, SeqNumber)>,
    ) {
        let flight_size = self.flight_size();
        if let Some(range) = probe {
            // RFC 4821 §7.5. Nothing is in doubt: the probe's length was.
            self.recovery.doubt.take();
            self.recovery.spared = Some(Spared::new(range, self.congestion.spare()));
            self.recovery.reduction = Reduction::begin(flight_size);
        } else {
            self.begin_doubt(Phase::Fast);
            // RFC 3168 §6.1.2: marks and losses of one window are one sign.
            let is_cut = self.recovery.phase == Phase::Marked;
            if !is_cut {
                self.congestion.on_loss(flight_size);
                self.recovery.reduction = Reduction::begin(flight_size);
            }
            self.note_cut();
        }
        let recovery = &mut self.recovery;
        recovery.phase = Phase::Fast;
        recovery.cut_at = now;
        recovery.point = self.snd_nxt;
        recovery.forced = true;
        recovery.rescued = false;
        recovery.by_sack = sack;
        recovery.tail = TailProbe::default();
        if sack && !self.modelled {
            // What may leave now beyond the first is what ACKs will say.
            self.congestion.reduce_to(self.flight.flying());
        }
    }

    /// Not only a probe is lost: the window is cut in the midst of recovery.
    pub(super) fn cut_after_all(&mut self, now: Instant) {
        let Some(spared) = self.recovery.spared.take() else {
            return;
        };
        self.congestion.resume(spared.window);
        self.cut(now, self.flight_size());
    }

    /// What fast recovery has sent again, last at `sent`, is lost, too, which only time tells of. If it left since the window was cut, that is
    /// a second sign of congestion (RFC 5681 §4.3, RFC 8985 §3.4): the window that the recovery leads to is cut once more.
    pub(super) fn on_lost_again(&mut self, now: Instant, sent: Instant) {
        // Where the clock has moved by less, nobody knows which of two left first.
        let passed = now.nanos().saturating_sub(sent.nanos());
        let certain = sent >= self.recovery.cut_at && passed > self.rtt.granularity();
        // A model counts what is lost itself, and the loss of a probe of the path is no sign yet.
        let tells = !self.modelled && self.recovery.spared.is_none();
        if certain && tells && self.recovery.phase == Phase::Fast {
            self.congestion.end_reduction();
            self.cut(now, self.pipe());
        }
    }

    /// Cuts the window in the midst of fast recovery, with so much in flight.
    fn cut(&mut self, now: Instant, in_flight: u32) {
        self.congestion.on_loss(self.flight_size());
        self.note_cut();
        self.recovery.cut_at = now;
        self.recovery.reduction = Reduction::begin(in_flight);
        if self.recovery.by_sack && !self.modelled {
            self.congestion.reduce_to(self.flight.flying());
        }
    }
}
