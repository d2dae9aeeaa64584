//! An application above the order-free work: what PLP §4.2 measures order with.

use crate::config::{OrderAbove, Presentation, TtcpConfig};
use braidnet_codec::module::RecordNote;
use braidnet_message::{Kind, Message, Run};
use braidnet_stream::{
    BucketId, ConnectionId, Context, Counter, Direction, Key, Module, Stages, State,
};

/// The application of PLP §4.2, which "simply counts packets that arrive", in a critical section of its own above everything else that a stack has that
/// receives. It takes them in the order in which TCP handed them up, or has declined order; either way it counts how
/// many came out of it.
pub(crate) struct Consumer {
    declines: bool,
    /// Whether what comes is whole records, not pieces of a stream.
    counts_records: bool,
}

const CONSUMED: Counter = Counter(0);
const OVERTAKEN: Counter = Counter(1);

/// The connections of one bucket, by slot.
#[derive(Default)]
struct Counted {
    slots: Vec<Slot>,
}

#[derive(Clone, Copy, Default)]
struct Slot {
    id: ConnectionId,
    /// Where in the stream, or among the records, the next one belongs.
    next: u64,
}

impl Consumer {
    pub(crate) fn new(config: &TtcpConfig) -> Consumer {
        Consumer {
            declines: config.order_above == OrderAbove::Declined,
            counts_records: config.presentation == Presentation::Xdr,
        }
    }

    /// Where a message belongs, and what comes after it.
    fn place(&self, message: &Message) -> (u64, u64) {
        if self.counts_records {
            let number = message.note::<RecordNote>().number;
            (number, number + 1)
        } else {
            let position = message.position();
            (position, position + message.total_len() as u64)
        }
    }
}

impl Module for Consumer {
    fn name(&self) -> &'static str {
        "consumer"
    }

    fn stages(&self) -> Stages {
        if self.declines {
            Stages::CORE_UP | Stages::ANY_ORDER
        } else {
            Stages::CORE_UP
        }
    }

    fn key(&self) -> Key {
        Key::Connection
    }

    fn counters(&self) -> &'static [&'static str] {
        &["consumed", "overtaken"]
    }

    fn open(&self, _: BucketId) -> Box<dyn State> {
        Box::new(Counted::default())
    }

    fn core(&self, state: &mut dyn State, _: Direction, run: &mut Run, cx: &mut Context<'_>) {
        let counted = state.of::<Counted>();
        let (mut consumed, mut overtaken) = (0, 0);
        for message in run.drain() {
            if message.kind() != Kind::Data {
                continue;
            }
            let id = ConnectionId(message.connection());
            if counted.slots.len() <= id.slot() {
                counted.slots.resize(id.slot() + 1, Slot::default());
            }
            let slot = &mut counted.slots[id.slot()];
            if slot.id != id {
                *slot = Slot { id, next: 0 };
            }
            let (place, next) = self.place(&message);
            consumed += 1;
            overtaken += u64::from(place != slot.next);
            slot.next = next;
        }
        cx.count(CONSUMED, consumed);
        cx.count(OVERTAKEN, overtaken);
    }
}
