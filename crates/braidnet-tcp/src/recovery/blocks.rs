//! What SACK blocks say (RFC 2018, RFC 2883).
//!
//! They are as good as ever where another ACK has overtaken theirs, and the only thing in it that is: each ACK with SACK updates what is
//! known (RFC 6675 §5). What they say may be all that is heard for a round trip where the later one carries data, and no blocks.

use super::{Ack, Delivery, Heard, Taken};
use crate::sender::Sender;
use braidnet_wire::tcp::{SackBlock, TcpHeader};
use braidnet_wire::time::Instant;

/// What the SACK blocks of one ACK come to.
#[derive(Clone, Copy, Debug)]
pub(super) struct Report {
    /// All of them made sense.
    pub(super) sane: bool,
    /// What arrived twice (RFC 2883 §4).
    pub(super) duplicate: Option<SackBlock>,
}

impl Sender {
    /// Takes an ACK with SACK blocks that is below SND.UNA.
    pub(crate) fn on_overtaken_ack(&mut self, now: Instant, ack: Ack<'_>) -> Taken {
        let mut delivery = Delivery::default();
        let report = self.take_sack(ack.header, &mut delivery);
        let heard = Heard {
            moved: 0,
            bare: false,
            delivery,
            duplicate: report.duplicate,
            echo_age: ack.echo_age,
        };
        let news = delivery.octets > 0;
        self.look_at_time(now, &heard);
        self.look_for_doubt(now, &heard);
        if news && self.snd_wnd != 0 {
            self.on_duplicate(ack.sack);
        }
        self.end_tail_probe(now, &heard);
        self.conclude(now, &heard, ack.sack);
        Taken {
            sane: report.sane,
            news: news || report.duplicate.is_some(),
        }
    }

    /// Takes the SACK blocks of an ACK. Blocks that SND.UNA has overtaken say nothing here and are no fault.
    pub(super) fn take_sack(&mut self, header: &TcpHeader, delivery: &mut Delivery) -> Report {
        let blocks = header.sack_blocks();
        let mut report = Report {
            sane: true,
            duplicate: None,
        };
        for (place, &block) in blocks.iter().enumerate() {
            let SackBlock { left, right } = block;
            let flight_size = self.snd_nxt - self.snd_una;
            let (from, to) = (left - self.snd_una, right - self.snd_una);
            // RFC 2883 §4: the first block tells of what arrived twice if it lies below the ACK or inside the second one.
            let inside_next = place == 0
                && (blocks.get(1)).is_some_and(|next| {
                    next.left.is_at_or_before(left) && right.is_at_or_before(next.right)
                });
            if from < to && to <= flight_size {
                if inside_next {
                    report.duplicate = Some(block);
                }
                self.flight.arrive(block, delivery);
            } else if left.is_before(right)
                && left.is_before(self.snd_una)
                && right.is_at_or_before(self.snd_nxt)
            {
                if place == 0 && right.is_at_or_before(header.ack) {
                    report.duplicate = Some(block);
                }
            } else {
                report.sane = false;
            }
        }
        report
    }
}
