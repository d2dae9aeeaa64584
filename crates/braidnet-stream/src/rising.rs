//! What leaves a shared bucket upwards, with another core above order-free functions: on its way there.
//!
//! Two processors that leave a bucket one after the other do their order-free work side by side, and the second may be done first. Where the
//! core above minds, what an entry sends up gets a number inside, an *up-ticket* (PLP §4.2): so what was dropped below, or held back, or is
//! no data, needs none, and what is reassembled or sent again has one like all else. The numbers count for one *exit*, a queue by which cores' results
//! leave for such a way, of one bucket. What came of one entry, by one exit, travels in one box, which is taken through the order-free functions by
//! itself; whatever has come of it by then, be it nothing, is brought to the end of the way under its number, and
//! [released](braidnet_sync::release) into the bucket in the order of the numbers: nobody waits, and whoever brings what was missing brings in also what
//! others had brought before.
//!
//! Each number is brought by the processor that carries its box, before its turn is over; a processor that comes to its end in an order-free function
//! brings the numbers that it has. What finds no place, because too much has come before what is missing, is brought again in the next turn.
//! How much that can be is bounded by the receive windows, which are given back above.
//!
//! Where each module has a perimeter of its own ([`Extent::Module`](crate::Extent::Module)) there are no numbers either: what one hands on is carried
//! by one processor until it has arrived.
//!
//! A bucket that is entered by one processor alone has no numbers. When a [lease](braidnet_sync::lease) is taken back, all have been brought: who has
//! one in hand does not leave; and what its home then still has in hand, it brings before it enters the bucket as its own.
//!
//! For comparison there is also the paper's own way ([`StreamBuilder::waiting_above`](crate::StreamBuilder::waiting_above)): whoever comes early
//! waits. A processor brings its boxes in the order in which it got them, and has brought the numbers of what it took from the device
//! before; so each waits only for numbers that were drawn before its own, and the one who has the oldest waits for nobody.

use crate::bucket::{BucketId, PerimeterId};
use crate::perimeter::shared::{Boxes, Piece};
use crate::queues::{QueueId, Queues};
use crate::stream::Stream;
use crate::visit::Visit;
use crate::work::Work;
use braidnet_message::Run;
use braidnet_sync::blocking_order::BlockingOrder;
use braidnet_sync::delegation::{Entry, Left};
use braidnet_sync::rejoin::NoPlace;
use braidnet_sync::release::Release;
use braidnet_sync::ticket::{Ticket, Tickets};

/// Where what left a bucket by one exit comes in order again.
pub(crate) struct Rise {
    exit: QueueId,
    tickets: Tickets,
    order: Order,
}

#[expect(
    clippy::large_enum_variant,
    reason = "the ring has its words on cache lines of their own; nobody has many of the other"
)]
enum Order {
    Released(Release<Risen>),
    Waiting(BlockingOrder),
}

/// What came of one entry, by one exit, on its way up.
pub(crate) struct Ascent {
    bucket: PerimeterId,
    /// Which exit of the bucket.
    exit: usize,
    ticket: Ticket,
    piece: Box<Left<Piece>>,
}

/// What of it has come to the end of the way.
pub(crate) struct Risen {
    piece: Box<Left<Piece>>,
    /// For more than one core.
    others: Boxes,
}

/// What found no place.
pub(crate) struct Held {
    bucket: PerimeterId,
    exit: usize,
    ticket: Ticket,
    risen: Risen,
}

/// Boxes of one bucket and exit that can come before one that is missing.
const PLACES: usize = 32;

/// One for each exit of the stream's, for a bucket.
pub(crate) fn rises(stream: &Stream) -> Box<[Rise]> {
    let rising = stream.rising();
    let mut exits = rising.exits;
    core::iter::from_fn(|| {
        let exit = QueueId::lowest(exits)?;
        exits &= !exit.bit();
        Some(Rise {
            exit,
            tickets: Tickets::default(),
            order: if rising.waits {
                Order::Waiting(BlockingOrder::new(PLACES))
            } else {
                Order::Released(Release::new(PLACES))
            },
        })
    })
    .collect()
}

/// How much waited in each exit before an entry.
pub(crate) fn mark(rises: &[Rise], queues: &Queues, marks: &mut Vec<usize>) {
    marks.clear();
    marks.extend(rises.iter().map(|rise| queues.len(rise.exit)));
}

impl Work {
    /// Inside bucket `id`: what has come to the exits since they were marked goes on under numbers.
    pub(crate) fn ascend(&mut self, rises: &[Rise], queues: &mut Queues, id: PerimeterId) {
        for (exit, rise) in rises.iter().enumerate() {
            let before = self.marks[exit];
            if queues.len(rise.exit) == before {
                continue;
            }
            let mut piece = self.piece(None, None);
            piece.work.queue = Some(rise.exit);
            queues.move_from(rise.exit, before, &mut piece.work.run);
            self.ascents.push_back(Ascent {
                bucket: id,
                exit,
                ticket: rise.tickets.draw(),
                piece,
            });
        }
    }

    /// The bucket of the first that is on its way up, which waits in its queue now.
    pub(crate) fn set_out(&mut self, queues: &mut Queues) -> Option<PerimeterId> {
        let ascent = self.ascents.front_mut()?;
        if let Some(exit) = ascent.piece.work.queue.take() {
            queues.append(exit, &mut ascent.piece.work.run);
        }
        Some(ascent.bucket)
    }

    /// What is waiting for the cores of a mask is what came of the first that is on its way up.
    pub(crate) fn arrive(&mut self, queues: &mut Queues, mut cores: u64) -> Option<Held> {
        let Ascent {
            bucket,
            exit,
            ticket,
            piece,
        } = self.ascents.pop_front()?;
        let mut risen = Risen {
            piece,
            others: Vec::new(),
        };
        while let Some(core) = QueueId::lowest(cores & queues.ready()) {
            cores &= !core.bit();
            if risen.piece.work.queue.is_some() {
                let next = self.piece(None, None);
                risen
                    .others
                    .push(core::mem::replace(&mut risen.piece, next));
            }
            risen.piece.work.queue = Some(core);
            take(queues, core, bucket.bucket(), &mut risen.piece.work.run);
        }
        Some(Held {
            bucket,
            exit,
            ticket,
            risen,
        })
    }

    /// Whether something of what this processor carries up has not been brought.
    #[inline]
    pub(crate) fn is_carrying_up(&self) -> bool {
        !self.ascents.is_empty()
    }

    /// Before the processor's end: all that has a number. What is still on its way is nothing by now.
    pub(crate) fn give_carrying_up(&mut self) -> Vec<Held> {
        let mut all = Vec::from(core::mem::take(&mut self.held));
        for ascent in self.ascents.drain(..) {
            let Ascent {
                bucket,
                exit,
                ticket,
                mut piece,
            } = ascent;
            piece.work.queue = None;
            piece.work.run.clear();
            let risen = Risen {
                piece,
                others: Vec::new(),
            };
            all.push(Held {
                bucket,
                exit,
                ticket,
                risen,
            });
        }
        all
    }
}

/// Takes what is waiting in a queue for one bucket. What order-free functions have made for others stays.
fn take(queues: &mut Queues, queue: QueueId, bucket: BucketId, run: &mut Run) {
    queues.exchange(queue, run);
    if run.iter().all(|message| message.bucket() == bucket.0) {
        return;
    }
    let mut own = Run::new();
    for message in run.drain() {
        if message.bucket() == bucket.0 {
            own.push(message);
        } else {
            queues.push(queue, message);
        }
    }
    *run = own;
}

impl Held {
    pub(crate) fn bucket(&self) -> PerimeterId {
        self.bucket
    }
}

impl Visit<'_, '_> {
    /// With what has come to the end of the way up: in its turn it enters, with all that waited for it.
    pub(crate) fn rise(&mut self, held: Held) {
        let Held {
            bucket,
            exit,
            ticket,
            risen,
        } = held;
        let entry = match &self.shared.rises[exit].order {
            Order::Waiting(turns) => {
                turns.pass(ticket, || self.enter_risen(risen));
                return;
            }
            Order::Released(ring) => {
                ring.bring(ticket, risen, PLACES, |risen| self.enter_risen(risen))
            }
        };
        match entry {
            Ok(entry) => self.leave(entry),
            Err(NoPlace {
                ticket,
                item: risen,
            }) => {
                self.work.held.push_back(Held {
                    bucket,
                    exit,
                    ticket,
                    risen,
                });
                self.leave(Entry::Unfinished);
            }
        }
    }

    /// Goes on where others have stopped, and with what found no place.
    pub(crate) fn rise_on(&mut self) {
        for rise in &self.shared.rises {
            if let Order::Released(ring) = &rise.order {
                let entry = ring.resume(PLACES, |risen| self.enter_risen(risen));
                self.leave(entry);
            }
        }
        // One by one: a panic inside takes none of the others with it.
        for _ in 0..self.work.held.len() {
            match self.work.held.pop_front() {
                Some(held) if held.bucket == self.id => self.rise(held),
                Some(held) => self.work.held.push_back(held),
                None => return,
            }
        }
    }

    fn enter_risen(&mut self, Risen { piece, others }: Risen) {
        for piece in others.into_iter().chain([piece]) {
            if piece.work.queue.is_some() {
                self.bring_piece(piece);
            } else {
                self.work.put_aside(piece);
            }
        }
    }
}
