//! How fast the window shrinks in fast recovery: Proportional Rate Reduction (RFC 6937).
//!
//! For what arrives, the share of it may leave that the new window is of the old flight, so that at the end of the recovery as much is
//! on its way as the window allows, whatever was lost meanwhile; and if more than that was lost, the window fills up as in slow start, a
//! segment for each that arrives.

use super::{Heard, Phase};
use crate::sender::Sender;

/// The variables of RFC 6937 §3, in bytes.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Reduction {
    /// `prr_delivered`: what has arrived since recovery began.
    delivered: u32,
    /// `prr_out`: what has left since.
    out: u32,
    /// `RecoverFS`: what was in flight when it began.
    flight_size: u32,
}

impl Reduction {
    pub(crate) fn begin(flight_size: u32) -> Reduction {
        Reduction {
            delivered: 0,
            out: 0,
            flight_size: flight_size.max(1),
        }
    }

    pub(crate) fn on_sent(&mut self, octets: u32) {
        self.out = self.out.saturating_add(octets);
    }

    /// What may leave now that `delivered` more have arrived, `pipe` are on their way and `ssthresh` is where the window goes. With
    /// `progress`, SND.UNA moves and nothing more was found lost: then the window may fill up (slow start reduction bound).
    fn room(
        &mut self,
        delivered: u32,
        pipe: u32,
        (ssthresh, smss): (u32, u32),
        progress: bool,
    ) -> u32 {
        self.delivered = self.delivered.saturating_add(delivered);
        if pipe > ssthresh {
            let share = u64::from(self.delivered) * u64::from(ssthresh);
            let share = share.div_ceil(u64::from(self.flight_size)) as u32;
            return share.saturating_sub(self.out);
        }
        let mut limit = self.delivered.saturating_sub(self.out).max(delivered);
        if progress {
            limit = limit.saturating_add(smss);
        }
        limit.min(ssthresh - pipe)
    }
}

impl Sender {
    /// The window after an ACK in fast recovery by SACK, or of marks; `progress` as for [`Reduction::room`].
    pub(super) fn reduce(&mut self, heard: &Heard, progress: bool) {
        let applies = match self.recovery.phase {
            Phase::Marked => true,
            Phase::Fast => self.recovery.by_sack && !self.modelled,
            Phase::Open | Phase::Timeout => false,
        };
        if !applies {
            return;
        }
        let pipe = self.pipe();
        let target = (self.congestion.ssthresh(), self.congestion.smss());
        let reduction = &mut self.recovery.reduction;
        let room = reduction.room(heard.delivery.octets, pipe, target, progress);
        self.congestion.reduce_to(pipe.saturating_add(room));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 6937 §4, figure 2: twenty segments in flight, the first lost, the window halved. About every other ACK sends one.
    #[test]
    fn one_loss_sends_for_every_other_arrival() {
        let mut reduction = Reduction::begin(20);
        let (mut pipe, mut sent) = (19, Vec::new());
        for _ in 1..20 {
            pipe -= 1;
            let room = reduction.room(1, pipe, (10, 1), false);
            reduction.on_sent(room);
            pipe += room;
            sent.push(room);
        }
        assert_eq!(sent[..16], [1, 0].repeat(8));
        assert_eq!((sent.iter().sum::<u32>(), pipe), (10, 10));
    }

    /// Most of the flight is lost: what arrives is replaced, and with progress one more leaves for it, up to the threshold.
    #[test]
    fn heavy_losses_fill_up_slowly() {
        for (progress, expected) in [(false, 1), (true, 2)] {
            let mut reduction = Reduction::begin(20);
            assert_eq!(reduction.room(1, 4, (10, 1), progress), expected);
            reduction.on_sent(expected);
            assert_eq!(
                reduction.room(1, 9, (10, 1), progress),
                1,
                "the threshold bounds it"
            );
        }
    }
}
