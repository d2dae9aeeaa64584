//! What a cluster's passes need beside the buckets, the buffers and the queues.

use crate::bucket::{Bucket, BucketId, PerimeterId};
use crate::cluster::Parcel;
use crate::groups::Groups;
use crate::migration::Tally;
use crate::pass::Came;
use crate::perimeter::shared::{Boxes, Piece, SharedBucket};
use crate::queues::{QueueId, Queues, reserve};
use crate::rising::{Ascent, Held};
use crate::stream::{Step, Stream};
use crate::wheel::{TimerId, Wheel};
use braidnet_message::{Message, Run};
use braidnet_sync::delegation::Left;
use braidnet_sync::ticket::Ticket;
use braidnet_wire::time::Instant;
use std::collections::VecDeque;

/// What a cluster's passes need beside the buckets, the buffers and the queues.
pub(crate) struct Work {
    pub(crate) wheel: Wheel<PerimeterId>,
    /// The entry of each perimeter in the wheel, live or not: there is never more than one. Where it is shared, the
    /// entries that other processors have may have made it stale; it then fires for nothing, once.
    entries: Vec<Option<TimerId>>,
    /// Nothing in the wheel is due before this time.
    pub(crate) due_at: Instant,
    pub(crate) due: VecDeque<PerimeterId>,
    pub(crate) groups: Groups,
    /// The queue that they came out of.
    pub(crate) grouped: QueueId,
    /// Empty between uses; kept for its memory.
    spare: Run,
    /// Likewise, for what waits for the cores of other buckets while one is entered.
    pub(crate) aside: Vec<(QueueId, Run)>,
    /// The queues of the cores that the last visit to a shared bucket has turned, as a mask.
    pub(crate) inside: u64,
    /// Shared perimeters that this processor carries messages of.
    pub(crate) draining: Vec<PerimeterId>,
    /// Shared perimeters in which work has been left undone, for this processor to go on with.
    pub(crate) unfinished: Vec<PerimeterId>,
    /// What this processor carries up from shared buckets: see [`rising`](crate::rising).
    pub(crate) ascents: VecDeque<Ascent>,
    /// What of it found no place.
    pub(crate) held: VecDeque<Held>,
    /// How much waited in the exits before an entry.
    pub(crate) marks: Vec<usize>,
    pub(crate) numbers: Numbers,
    /// Boxes for work that is brought to shared buckets.
    pieces: Boxes,
    /// What is brought to shared buckets, where that is counted.
    pub(crate) tally: Tally,
    /// Where this processor sits, if what comes of its work is to come back to it.
    pub(crate) seat: Option<u16>,
    /// What came of work that others have left.
    pub(crate) answers: Vec<Answer>,
    /// What belongs to other processors.
    pub(crate) foreign: Vec<Parcel>,
}

impl Work {
    pub(crate) fn new(buckets: u32, perimeters: u32) -> Work {
        Work {
            wheel: Wheel::new(Instant::ZERO),
            entries: vec![None; perimeters as usize],
            due_at: Instant::MAX,
            due: VecDeque::with_capacity(64),
            groups: Groups::new(buckets),
            grouped: QueueId::TAIL,
            spare: Run::new(),
            aside: Vec::new(),
            inside: 0,
            draining: Vec::with_capacity(64),
            unfinished: Vec::with_capacity(64),
            ascents: VecDeque::with_capacity(64),
            held: VecDeque::new(),
            marks: Vec::with_capacity(8),
            numbers: Numbers::default(),
            pieces: Vec::new(),
            tally: Tally::default(),
            seat: None,
            answers: Vec::new(),
            foreign: Vec::with_capacity(64),
        }
    }

    /// Takes memory for runs of so many messages.
    pub(crate) fn reserve(&mut self, messages: usize) {
        reserve(&mut self.spare, messages);
        // One for each core that could wait while another is entered.
        self.aside
            .resize_with(self.aside.len().max(8), || (QueueId::TAIL, Run::new()));
        for (_, run) in &mut self.aside {
            reserve(run, messages);
        }
        self.groups.reserve(messages);
        self.wheel.reserve(self.entries.len());
        self.foreign.reserve(messages);
    }

    /// Takes memory for what is brought to shared buckets, in runs of so many messages.
    pub(crate) fn reserve_shared(&mut self, messages: usize) {
        self.numbers.of.resize_with(self.entries.len(), || None);
        self.numbers.drawn.reserve(self.entries.len());
        self.tally.reserve(self.entries.len());
        self.pieces.reserve(4 * PIECES);
        self.answers.reserve(PIECES);
        while self.pieces.len() < PIECES {
            self.pieces.push(Left::new(Piece::default()));
        }
        for piece in &mut self.pieces {
            reserve(&mut piece.work.run, messages);
        }
    }

    /// Sees to it that the bucket's deadline is in some processor's wheel.
    #[inline]
    pub(crate) fn arm(&mut self, bucket: &mut Bucket) {
        self.arm_for(bucket, bucket.deadline);
    }

    /// Sees to it that the bucket is entered at `at` or before, which none of its modules has asked for.
    #[inline]
    pub(crate) fn arm_for(&mut self, bucket: &mut Bucket, at: Instant) {
        if at < bucket.armed {
            self.arm_earlier(bucket, at);
        }
    }

    #[inline(never)]
    fn arm_earlier(&mut self, bucket: &mut Bucket, at: Instant) {
        let entry = &mut self.entries[bucket.perimeter.index()];
        if !entry.is_some_and(|timer| self.wheel.restart(timer, at)) {
            *entry = Some(self.wheel.start(at, bucket.perimeter));
        }
        self.due_at = self.due_at.min(at);
        bucket.armed = at;
    }

    /// Sends what waits in a queue to whoever has its bucket or its module.
    pub(crate) fn send_away(&mut self, stream: &Stream, queues: &mut Queues, queue: QueueId) {
        let mut run = core::mem::take(&mut self.spare);
        queues.exchange(queue, &mut run);
        self.send_run_away(stream, queue, &mut run);
        self.spare = run;
    }

    /// Sends what came for a bucket that is not here to whoever has it. An expiry of a bucket that has moved is void.
    #[cold]
    pub(crate) fn send_on(&mut self, stream: &Stream, came: Option<Came<'_, '_>>) {
        if let Some((site, run)) = came {
            self.send_run_away(stream, site.queue, run);
        }
    }

    fn send_run_away(&mut self, stream: &Stream, queue: QueueId, run: &mut Run) {
        if let Some(site) = stream.site(queue) {
            let Step {
                module, direction, ..
            } = site.step;
            let parcels = run.drain().map(|message| Parcel {
                queue,
                module,
                direction,
                message,
            });
            self.foreign.extend(parcels);
        }
    }

    /// Sets aside what waits in the queues of a mask, where it is not all for bucket `but`; how many queues that are.
    pub(crate) fn set_aside(
        &mut self,
        queues: &mut Queues,
        mut mask: u64,
        but: Option<BucketId>,
    ) -> usize {
        let mut count = 0;
        while let Some(queue) = QueueId::lowest(mask) {
            mask &= !queue.bit();
            let mut waiting = queues.run_mut(queue).iter();
            if but.is_some_and(|but| waiting.all(|message| message.bucket() == but.0)) {
                continue;
            }
            if count == self.aside.len() {
                self.aside.push((queue, Run::new()));
            }
            let (of, run) = &mut self.aside[count];
            *of = queue;
            queues.exchange(queue, run);
            count += 1;
        }
        count
    }

    /// Puts back what waited in `count` queues and was set aside; they are empty meanwhile.
    #[cold]
    pub(crate) fn put_back(&mut self, queues: &mut Queues, count: usize) {
        for (queue, run) in &mut self.aside[..count] {
            queues.append(*queue, run);
        }
    }

    /// What came for a core, in a box.
    pub(crate) fn piece(
        &mut self,
        came: Option<Came<'_, '_>>,
        number: Option<Ticket>,
    ) -> Box<Left<Piece>> {
        let mut piece = self
            .pieces
            .pop()
            .unwrap_or_else(|| Left::new(Piece::default()));
        piece.work.number = number;
        piece.work.from = self.seat;
        if let Some((site, run)) = came {
            piece.work.queue = Some(site.queue);
            piece.work.run.take_over(run);
        }
        piece
    }

    /// Puts an empty box by.
    pub(crate) fn put_aside(&mut self, piece: Box<Left<Piece>>) {
        if self.pieces.len() <= PIECES {
            self.pieces.push(piece);
        }
    }

    /// Puts a box by, whose work is done. Boxes stay with whoever does the work, and so pile up with one and run out with another:
    /// what one has too many of it leaves in `spare`, where others that come by find it. What there is no room for goes back to whoever
    /// brought it, if that can be.
    pub(crate) fn put_by(&mut self, mut piece: Box<Left<Piece>>, spare: &mut Boxes) {
        let Piece {
            queue,
            run,
            number,
            from,
        } = &mut piece.work;
        run.clear();
        let from = from.take();
        (*queue, *number) = (None, None);
        if self.pieces.len() <= PIECES {
            self.pieces.push(piece);
        } else if spare.len() < PIECES {
            spare.push(piece);
        } else if let Some(seat) = from.filter(|_| from != self.seat) {
            self.answers.push(Answer { seat, piece });
        }
        while self.pieces.len() < PIECES / 2
            && let Some(piece) = spare.pop()
        {
            self.pieces.push(piece);
        }
    }

    /// Takes what was sent down for bucket `id` back out of the queues of a mask, in order.
    pub(crate) fn give_up(
        &mut self,
        queues: &mut Queues,
        mask: u64,
        id: BucketId,
        mut leave: impl FnMut(QueueId, Message),
    ) {
        let mut mask = queues.ready() & mask;
        let mut run = core::mem::take(&mut self.spare);
        while let Some(queue) = QueueId::lowest(mask) {
            mask &= !queue.bit();
            queues.exchange(queue, &mut run);
            for message in run.drain() {
                if message.bucket() == id.0 {
                    leave(queue, message);
                } else {
                    queues.push(queue, message);
                }
            }
        }
        self.spare = run;
    }
}

/// How much waited in some queues.
pub(crate) type Lengths = [(Option<QueueId>, usize); 8];

impl Work {
    /// How much waits in the queues of a mask, or in the first eight of them.
    pub(crate) fn lengths(queues: &Queues, mut mask: u64) -> Lengths {
        core::array::from_fn(|_| {
            let queue = QueueId::lowest(mask);
            mask &= !queue.map_or(0, QueueId::bit);
            (queue, queue.map_or(0, |queue| queues.len(queue)))
        })
    }

    /// Sends a box back to whoever left it, with what has come of it: what waits in the first of the queues that have grown.
    /// Gives the box back if nothing has.
    pub(crate) fn answer(
        &mut self,
        queues: &mut Queues,
        lengths: &Lengths,
        mut piece: Box<Left<Piece>>,
    ) -> Option<Box<Left<Piece>>> {
        let grown = lengths.iter().find_map(|(queue, len)| {
            let queue = (*queue)?;
            (queues.len(queue) > *len).then_some((queue, *len))
        });
        let (Some((queue, len)), Some(seat)) = (grown, piece.work.from) else {
            return Some(piece);
        };
        piece.work.run.clear();
        queues.move_from(queue, len, &mut piece.work.run);
        piece.work.queue = Some(queue);
        self.answers.push(Answer { seat, piece });
        None
    }

    /// Goes on with what has come of work that was left with another.
    pub(crate) fn take_back(&mut self, queues: &mut Queues, answer: Answer) {
        let mut piece = answer.piece;
        if let Some(queue) = piece.work.queue.take() {
            queues.append(queue, &mut piece.work.run);
        }
        piece.work.run.clear();
        piece.work.from = None;
        self.pieces.push(piece);
    }
}

/// What came of work that a processor has left in a bucket with whoever was inside, on its way back: messages whose bytes the one who left
/// them has at hand, and above which there is no core any more.
pub struct Answer {
    seat: u16,
    piece: Box<Left<Piece>>,
}

impl Answer {
    /// Who left the work.
    pub fn seat(&self) -> usize {
        usize::from(self.seat)
    }
}

/// Boxes that each processor has at hand.
pub(crate) const PIECES: usize = 128;

/// The numbers that have been drawn for what was taken from the device in this turn.
#[derive(Default)]
pub(crate) struct Numbers {
    /// By bucket.
    of: Vec<Option<Ticket>>,
    /// Buckets for which one was drawn.
    drawn: Vec<BucketId>,
    /// Packets that have been claimed in this turn for buckets of others.
    pub(crate) away: usize,
}

impl Numbers {
    /// Draws a number for a run of this bucket, unless it has one already.
    #[inline]
    pub(crate) fn draw(&mut self, id: BucketId, shared: &SharedBucket) {
        if self.of.len() <= id.index() {
            self.of.resize_with(id.index() + 1, || None);
        }
        let number = &mut self.of[id.index()];
        if number.is_none() {
            *number = shared.draw();
            if number.is_some() {
                self.drawn.push(id);
            }
        }
    }

    /// The number of the bucket's run, once.
    #[inline]
    pub(crate) fn take(&mut self, id: BucketId) -> Option<Ticket> {
        self.of.get_mut(id.index())?.take()
    }

    /// Whether any have been drawn.
    #[inline]
    pub(crate) fn are_drawn(&self) -> bool {
        !self.drawn.is_empty()
    }

    /// A bucket for which a number was drawn that nothing has taken, and that number.
    pub(crate) fn take_unused(&mut self) -> Option<(BucketId, Ticket)> {
        while let Some(id) = self.drawn.pop() {
            if let Some(number) = self.take(id) {
                return Some((id, number));
            }
        }
        None
    }
}
