//! Dividing the work on one message among processors: what of a module can be done in pieces, and how the pieces come together.
//!
//! Where a cluster divides ([`Cluster::dividing`](crate::Cluster::dividing)), messages for a [divisible](Divisible) function stop in front of it. They
//! stand in *line* there, in the order in which they came; the pieces of each hang on a [board] at which the
//! processors of the stack sit. The owner of the line does pieces of its oldest message that has any, and so does who has nothing else
//! to do. Nobody waits: the message that stands first goes on, behind the function, with the first turn that finds all its
//! pieces done. So messages leave the line in the order in which they came to it, whoever did what.
//!
//! What the module does not divide, such as control messages, stands in the same line and goes through the function itself when its turn comes.

use crate::context::Context;
use crate::module::{Direction, Stages};
use crate::queues::{QueueId, Stage};
use crate::stream::{Site, Step, Stream};
use braidnet_message::{Divided, Message, Part, Run};
use braidnet_sync::board::{self, Helped, Seat};
use std::collections::VecDeque;
use std::sync::Arc;

/// Most pieces that the work on one message is divided into.
pub const MAX_PIECES: usize = 16;

/// Messages that stand in line at most: what a processor takes from its device in a turn.
const LINE: usize = 64;

/// What a module can do in pieces, with several processors at work on the same message: encryption within one packet, say (PPF §3.2).
///
/// For each message that it divides, these come in the place of its function over runs: [`pieces`](Divisible::pieces) and
/// [`join`](Divisible::join) on the processor that has the message, and in between, for each piece, [`work`](Divisible::work) on
/// any.
pub trait Divisible: Send + Sync {
    /// Which of the module's order-free functions it can do in pieces.
    fn functions(&self) -> Stages;

    /// Into how many pieces the work of one of them on this message is to be divided, at most [`MAX_PIECES`]. A piece is worth a
    /// microsecond or some; one alone may be done elsewhere as well. With 0 the message goes through the function itself.
    fn pieces(&self, function: Stages, message: &Message) -> usize;

    /// The work on one piece: on any processor, in any order, with others at the same time. The result is handed to
    /// [`join`](Divisible::join).
    fn work(&self, function: Stages, part: &mut Part) -> u128;

    /// What is left to do when all pieces are done, messages in the order in which they came. What is given back goes on in its
    /// direction.
    fn join(
        &self,
        function: Stages,
        message: Message,
        results: &[u128],
        cx: &mut Context<'_>,
    ) -> Option<Message>;
}

/// A piece on the board.
struct Task {
    function: QueueId,
    part: Part,
    result: u128,
}

/// A message in line.
enum Standing {
    /// Its pieces are on the board.
    Divided(Divided),
    Whole(Message),
}

/// One processor's line of messages whose work is divided, and its seat at the board.
pub struct Dividing {
    stream: Arc<Stream>,
    /// The queues in front of divisible functions, as a mask.
    queues: u64,
    seat: Seat<Task>,
    line: VecDeque<(QueueId, Standing)>,
    /// Empty between calls, kept for their memory.
    run: Run,
    parts: Vec<Part>,
    results: Vec<u128>,
}

impl Step {
    /// The function as a module names it.
    fn function(&self) -> Stages {
        match (self.direction, self.stage) {
            (Direction::Up, Stage::Before) => Stages::BEFORE_UP,
            (Direction::Up, Stage::Core) => Stages::CORE_UP,
            (Direction::Up, Stage::After) => Stages::AFTER_UP,
            (Direction::Down, Stage::Before) => Stages::BEFORE_DOWN,
            (Direction::Down, Stage::Core) => Stages::CORE_DOWN,
            (Direction::Down, Stage::After) => Stages::AFTER_DOWN,
        }
    }
}

impl Dividing {
    /// For each of so many processors that turn this stream, its line and its seat at one board.
    pub fn among(stream: &Arc<Stream>, processors: usize) -> Vec<Dividing> {
        let queues = stream
            .steps()
            .filter(|(queue, step)| {
                let code = stream.site(*queue).and_then(|site| site.code.divisible());
                step.stage != Stage::Core
                    && code.is_some_and(|code| code.functions().contains(step.function()))
            })
            .fold(0, |mask, (queue, _)| mask | queue.bit());
        board::seats(processors, LINE, MAX_PIECES)
            .into_iter()
            .map(|seat| Dividing {
                stream: stream.clone(),
                queues,
                seat,
                line: VecDeque::with_capacity(LINE),
                run: Run::with_capacity(1),
                parts: Vec::with_capacity(MAX_PIECES),
                results: Vec::with_capacity(MAX_PIECES),
            })
            .collect()
    }

    /// The queues in front of divisible functions, as a mask.
    pub(crate) fn queues(&self) -> u64 {
        self.queues
    }

    /// Lets stand in line what has come to a divisible function, as much as there is room for.
    pub(crate) fn line_up(&mut self, cx: &mut Context<'_>) {
        let mut mask = cx.queues.ready() & self.queues;
        while let Some(queue) = QueueId::lowest(mask) {
            mask &= !queue.bit();
            let Some(site) = cx.stream.site(queue) else {
                continue;
            };
            cx.queues.offer(queue, |run| {
                let room = run.len().min(LINE - self.line.len());
                for message in run.drain_front(room) {
                    let standing = divide(site, message, &mut self.seat);
                    self.line.push_back((queue, standing));
                }
            });
        }
    }

    /// Lets go on what stands first and is done.
    pub(crate) fn go_on(&mut self, cx: &mut Context<'_>) {
        while let Some((queue, standing)) = self.line.front() {
            if matches!(standing, Standing::Divided(_)) && !self.seat.is_joined() {
                return;
            }
            let queue = *queue;
            let Some(site) = cx.stream.site(queue) else {
                return;
            };
            cx.direction = site.step.direction;
            cx.links = &site.links;
            self.leave_line(queue, site, cx);
        }
    }

    /// Lets leave what stands first and is done, as long as it is for this function.
    fn leave_line(&mut self, of: QueueId, site: &Site, cx: &mut Context<'_>) {
        while let Some((_, standing)) = self.line.pop_front_if(|(queue, standing)| {
            *queue == of && (matches!(standing, Standing::Whole(_)) || self.seat.is_joined())
        }) {
            match standing {
                Standing::Divided(divided) => {
                    let message = take_back(&mut self.seat, divided, &mut self.parts, |result| {
                        self.results.push(result);
                    });
                    let code = site.code.divisible();
                    let Some((message, code)) = message.zip(code) else {
                        unreachable!("a job has all parts of its message");
                    };
                    let message = code.join(site.step.function(), message, &self.results, cx);
                    self.results.clear();
                    if let Some(message) = message {
                        cx.queues.push(site.stay, message);
                    }
                }
                Standing::Whole(message) => {
                    self.run.push(message);
                    match site.step.stage {
                        Stage::After => site.code.after(site.step.direction, &mut self.run, cx),
                        _ => site.code.before(site.step.direction, &mut self.run, cx),
                    }
                    cx.queues.append(site.stay, &mut self.run);
                }
            }
        }
    }

    /// Whether messages stand in line for which there is something to do now.
    pub(crate) fn is_ready(&self) -> bool {
        self.seat.is_open() || self.can_go_on()
    }

    fn can_go_on(&self) -> bool {
        match self.line.front() {
            Some((_, Standing::Divided(_))) => self.seat.is_joined(),
            Some((_, Standing::Whole(_))) => true,
            None => false,
        }
    }

    /// Whether there is a piece to do of a message of the own line.
    #[inline]
    pub(crate) fn has_pieces(&self) -> bool {
        self.seat.is_open()
    }

    /// Whether there is a piece to do anywhere, or something to go on with here.
    pub(crate) fn has_work(&self) -> bool {
        self.seat.is_any_open() || self.can_go_on()
    }

    /// Does a piece of a message of the own line; false if there is none.
    pub(crate) fn work(&mut self) -> bool {
        self.seat.work(|task| task.perform(&self.stream))
    }

    /// Does a piece for another.
    pub(crate) fn help(&mut self) -> Option<Helped> {
        self.seat.help(|task| task.perform(&self.stream))
    }
}

/// Puts the pieces of a message on the board, if its module divides it.
fn divide(site: &Site, message: Message, seat: &mut Seat<Task>) -> Standing {
    let Some(code) = site.code.divisible() else {
        return Standing::Whole(message);
    };
    let pieces = code.pieces(site.step.function(), &message).min(MAX_PIECES);
    if pieces == 0 {
        return Standing::Whole(message);
    }
    let (divided, parts) = message.divide(pieces);
    seat.post(parts.map(|part| Task {
        function: site.queue,
        part,
        result: 0,
    }));
    Standing::Divided(divided)
}

/// Takes the oldest message back from the board: whole, with the results of its pieces.
fn take_back(
    seat: &mut Seat<Task>,
    divided: Divided,
    parts: &mut Vec<Part>,
    mut result: impl FnMut(u128),
) -> Option<Message> {
    seat.take_back(|task| {
        result(task.result);
        parts.push(task.part);
    });
    divided.join(parts.drain(..))
}

impl Task {
    fn perform(&mut self, stream: &Stream) {
        let site = stream.site(self.function);
        if let Some((site, code)) = site.and_then(|site| Some((site, site.code.divisible()?))) {
            self.result = code.work(site.step.function(), &mut self.part);
        }
    }
}

impl Drop for Dividing {
    /// Takes back what stands in line, so that its memory is not lost. What others are at work on cannot be taken back.
    fn drop(&mut self) {
        while self.seat.work(|_| ()) {}
        while let Some((_, standing)) = self.line.pop_front() {
            if let Standing::Divided(divided) = standing
                && self.seat.is_joined()
            {
                drop(take_back(&mut self.seat, divided, &mut self.parts, |_| ()));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::{Cluster, ModuleSet};
    use crate::module::{Module, ModuleId};
    use crate::perimeter::Buckets;
    use braidnet_message::{Arena, Pool};
    use braidnet_wire::time::Instant;

    /// Adds one to each byte of what it divides: messages whose number is no multiple of five.
    struct Adding;

    impl Module for Adding {
        fn name(&self) -> &'static str {
            "adding"
        }

        fn stages(&self) -> Stages {
            Stages::BEFORE_UP | Stages::AFTER_UP
        }

        fn divisible(&self) -> Option<&dyn Divisible> {
            Some(self)
        }

        fn before(&self, _: Direction, run: &mut Run, _: &mut Context<'_>) {
            assert!(run.iter().all(|message| message.position() % 5 == 0));
        }

        fn after(&self, _: Direction, _: &mut Run, _: &mut Context<'_>) {}
    }

    impl Divisible for Adding {
        fn functions(&self) -> Stages {
            Stages::BEFORE_UP
        }

        fn pieces(&self, function: Stages, message: &Message) -> usize {
            assert_eq!(function, Stages::BEFORE_UP);
            (message.position() % 5) as usize
        }

        fn work(&self, _: Stages, part: &mut Part) -> u128 {
            let slices = part.slices_mut().into_iter().flatten();
            slices.flatten().for_each(|byte| *byte += 1);
            1
        }

        fn join(
            &self,
            _: Stages,
            message: Message,
            results: &[u128],
            _: &mut Context<'_>,
        ) -> Option<Message> {
            assert_eq!(results, vec![1; (message.position() % 5) as usize]);
            Some(message)
        }
    }

    /// Two clusters at one board, the memory of their messages, and the module.
    fn clusters() -> ([Cluster; 2], Pool, ModuleId, Arc<Arena>) {
        let mut builder = Stream::builder();
        let module = builder.push(Adding);
        let stream = builder.build().unwrap();
        let arena = Arena::new(1 << 22);
        let mut seats = Dividing::among(&stream, 2).into_iter();
        let clusters = core::array::from_fn(|_| {
            let buckets = Buckets::private(&stream, 2, |_| true, |_| true);
            Cluster::dividing(&stream, ModuleSet::ALL, buckets, &arena, seats.next())
        });
        (clusters, Pool::new(&arena), module, arena)
    }

    fn put(cluster: &mut Cluster, pool: &mut Pool, module: ModuleId, count: u64) {
        for position in 0..count {
            let mut message = pool.copy_from_slice(0, &[7; 300]).unwrap();
            message.set_position(position);
            cluster.put_one(module, Direction::Up, message);
        }
    }

    fn turn(cluster: &mut Cluster) {
        cluster.turn(Instant::ZERO, &mut |_: &mut Run| {});
    }

    #[test]
    fn messages_go_on_in_order_whoever_does_their_pieces() {
        let ([mut owner, mut other], mut pool, module, _arena) = clusters();
        put(&mut owner, &mut pool, module, 200);
        let mut arrived = 0;
        for round in 0.. {
            turn(&mut owner);
            for message in owner.head().drain() {
                assert_eq!(message.position(), arrived);
                let added = u8::from(arrived % 5 != 0);
                assert!(message.bytes().iter().all(|byte| *byte == 7 + added));
                arrived += 1;
            }
            if arrived == 200 {
                break;
            }
            assert_eq!(
                owner.outbound().count(),
                0,
                "what waits in front stays here"
            );
            assert_eq!(owner.has_overlong_line(), arrived + 64 < 200, "{arrived}");
            for _ in 0..=round % 7 {
                let owned = round % 3 == 0 && owner.work_piece();
                assert!(
                    owned
                        || other.help().is_some_and(|helped| helped.owner == 0)
                        || owner.is_ready()
                );
            }
        }
        assert!(!owner.has_divided_work() && !owner.is_ready() && other.help().is_none());
    }

    #[test]
    fn what_stands_in_line_is_given_back_with_the_cluster() {
        let ([mut owner, mut other], mut pool, module, arena) = clusters();
        put(&mut owner, &mut pool, module, 40);
        turn(&mut owner);
        assert!(other.help().is_some() && owner.has_pieces());
        drop(owner);
        assert!(other.help().is_none());
        drop((other, pool));
        assert_eq!(arena.used_bytes(), 0);
    }
}
