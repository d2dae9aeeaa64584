//! What the peer says of marks: the network was near losing something, and the window is cut as after a loss, without one
//! (RFC 3168 §6.1.2).
//!
//! Once in a window: what was on its way when it was cut may tell of the same congestion, and so may the peer until it has been told
//! (CWR on what leaves next). The window shrinks as in fast recovery (RFC 6937), so that something leaves all the while.

use super::{Phase, Reduction};
use crate::sender::Sender;
use braidnet_wire::seq::SeqNumber;
use braidnet_wire::tcp::TcpHeader;
use braidnet_wire::time::Instant;

/// How a sender deals with marks.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Marks {
    /// What new data says in the field of [`TcpHeader::ECN`].
    pub(crate) ecn: u8,
    /// SND.NXT when the window was last cut, until more than that is acknowledged.
    heeded: Option<SeqNumber>,
    /// The next new data tells the peer of it.
    pub(crate) cwr_due: bool,
    /// What the peer says of them is heeded.
    heeds: bool,
    /// The peer waits for that: it does not count.
    tells: bool,
}

impl Marks {
    /// Whether the peer says all it has to say of marks on each acknowledgment, new or not: it does not count.
    pub(super) fn are_repeated(&self) -> bool {
        self.tells
    }

    /// Whether the fast paths must look closer.
    pub(super) fn is_pending(&self) -> bool {
        self.heeded.is_some() || self.cwr_due
    }
}

impl Sender {
    /// What the peer says of marks counts from now on; it wants to be told (CWR) what came of it, or only counts.
    pub(crate) fn heed_marks(&mut self, tells: bool) {
        self.marks.heeds = true;
        self.marks.tells = tells;
    }

    /// New data may be marked from now on.
    pub(crate) fn bear_marks(&mut self) {
        self.marks.ecn = TcpHeader::ECT_0;
    }

    /// The window has just been cut, for whatever reason.
    pub(super) fn note_cut(&mut self) {
        if self.marks.heeds {
            self.marks.heeded = Some(self.snd_nxt);
            self.marks.cwr_due = self.marks.tells;
        }
    }

    /// SND.UNA has moved.
    pub(super) fn forget_cut(&mut self) {
        let una = self.snd_una;
        self.marks.heeded = self.marks.heeded.filter(|end| una.is_at_or_before(*end));
    }

    /// An acknowledgment tells of marks; it has moved SND.UNA by `moved`.
    pub(super) fn heed_mark(&mut self, now: Instant, moved: u32) {
        if !self.marks.heeds {
            return;
        }
        // Whatever becomes of losses, there is congestion.
        self.congestion.forget();
        if self.recovery.spared.is_some() {
            // It was not cut for what is being repaired.
            return self.cut_after_all(now);
        }
        if self.recovery.phase == Phase::Marked && self.marks.heeded.is_none() {
            // More than that window is acknowledged, and this tells of another.
            self.recover();
        }
        if self.marks.heeded.is_some() || self.recovery.phase != Phase::Open {
            return;
        }
        self.note_cut();
        let flight_size = self.flight_size().saturating_add(moved);
        if self.congestion.is_least() {
            // Less than one segment for a round trip: one for a timeout.
            return self.congestion.hold();
        }
        self.congestion.on_mark(flight_size);
        if !self.modelled {
            self.congestion.reduce_to(self.pipe());
            self.recovery.phase = Phase::Marked;
            self.recovery.point = self.snd_nxt;
            self.recovery.reduction = Reduction::begin(flight_size);
        }
    }
}
