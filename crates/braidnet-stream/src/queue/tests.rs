use super::*;
use braidnet_message::{Arena, Pool};
use proptest::collection::vec;
use proptest::prelude::*;
use std::cmp::Reverse;
use std::collections::{BTreeMap, VecDeque};
use std::thread;

const NOW: Option<Duration> = Some(Duration::ZERO);

fn pool() -> Pool {
    Pool::new(&Arena::new(64 << 20))
}

/// A message of so many bytes that bears a number.
fn message(pool: &mut Pool, number: u64, bytes: usize) -> Message {
    let mut message = pool.copy_from_slice(0, &vec![0; bytes]).unwrap();
    message.set_position(number);
    message
}

fn numbers(run: &mut Run) -> Vec<u64> {
    run.drain().map(|message| message.position()).collect()
}

/// Lets other threads run until `is_true`.
fn until(mut is_true: impl FnMut() -> bool) {
    for _ in 0..20_000_000 {
        if is_true() {
            return;
        }
        thread::yield_now();
    }
    panic!("waited for what does not happen");
}

/// Lets no thread sleep on when a test fails.
struct Closing<'a>(&'a MessageQueue);

impl Drop for Closing<'_> {
    fn drop(&mut self) {
        self.0.close();
    }
}

fn nobody_waits(queue: &MessageQueue) -> bool {
    queue
        .state
        .with(|state| state.putters.is_empty() && state.getters.is_empty())
}

#[test]
fn water_marks_that_make_no_sense_are_mended() {
    for (given, understood) in [
        ((0, 0), (0, 1)),
        ((5, 5), (4, 5)),
        ((9, 3), (2, 3)),
        ((2, 3), (2, 3)),
    ] {
        assert_eq!(
            MessageQueue::new(given.0, given.1).water_marks(),
            understood
        );
    }
}

#[test]
fn full_from_the_high_water_mark_down_to_the_low_one() {
    let mut pool = pool();
    let queue = MessageQueue::new(100, 300);
    // (bytes put, or none to get one; bytes then; full then)
    let rows = [
        (Some(100), 100, false),
        (Some(199), 299, false),
        (Some(0), 300, true),
        (Some(50), 350, true),
        (None, 250, true),
        (Some(49), 299, true),
        (None, 100, false),
        (Some(199), 299, false),
        (Some(1), 300, true),
    ];
    for (row, (put, bytes, full)) in rows.into_iter().enumerate() {
        match put {
            Some(bytes) => queue.putq(message(&mut pool, 0, bytes)).unwrap(),
            None => drop(queue.getq().unwrap()),
        }
        assert_eq!((queue.bytes(), queue.is_full()), (bytes, full), "row {row}");
    }
    let counters = queue.counters();
    assert_eq!(
        (counters.times_full, counters.putq, counters.getq),
        (2, 7, 2)
    );
    assert_eq!((counters.peak_bytes, counters.peak_len), (350, 5));
}

#[test]
fn a_full_queue_turns_back_those_who_ask_except_high_priority() {
    let mut pool = pool();
    let queue = MessageQueue::new(0, 10);
    queue.try_put(message(&mut pool, 1, 10)).unwrap();
    let refused = queue.try_put(message(&mut pool, 2, 10)).unwrap_err();
    assert_eq!(
        (refused.message.position(), refused.reason),
        (2, Refusal::Full)
    );
    let refused = queue.put_wait(refused.message, NOW).unwrap_err();
    assert_eq!(
        (refused.message.position(), refused.reason),
        (2, Refusal::TimedOut)
    );
    let mut urgent = refused.message;
    urgent.set_kind(Kind::HighPriority);
    queue.try_put(urgent).unwrap();
    let mut urgent = message(&mut pool, 3, 10);
    urgent.set_kind(Kind::HighPriority);
    queue.put_wait(urgent, None).unwrap();
    queue.putq(message(&mut pool, 4, 10)).unwrap();
    let mut run = Run::new();
    assert_eq!(
        (queue.get_run(&mut run, 9), numbers(&mut run)),
        (4, vec![2, 3, 1, 4])
    );
    let counters = queue.counters();
    assert_eq!(
        (counters.refused, counters.put_waits, counters.times_full),
        (1, 1, 1)
    );
}

#[test]
fn a_run_that_does_not_fit_keeps_the_rest() {
    let mut pool = pool();
    let queue = MessageQueue::new(0, 20);
    let mut run: Run = (0..5)
        .map(|number| message(&mut pool, number, 10))
        .collect();
    assert_eq!(queue.put_run_wait(&mut run, NOW), Err(Refusal::TimedOut));
    assert_eq!((queue.len(), numbers(&mut run)), (2, vec![2, 3, 4]));
    assert_eq!(
        queue.put_run_wait(&mut run, NOW),
        Ok(()),
        "there is room for nothing"
    );
    queue.close();
    run.push(message(&mut pool, 9, 10));
    assert_eq!(queue.put_run(&mut run), Err(Refusal::Closed));
    assert_eq!(queue.put_run_wait(&mut run, None), Err(Refusal::Closed));
    assert_eq!(numbers(&mut run), [9]);
}

#[test]
fn what_was_got_can_be_put_back_in_place() {
    let mut pool = pool();
    let queue = MessageQueue::new(0, 100);
    for number in 0..6 {
        queue.putq(message(&mut pool, number, 1)).unwrap();
    }
    let mut run = Run::new();
    queue.get_run(&mut run, 4);
    queue.put_back_run(&mut run);
    assert!(run.is_empty());
    let first = queue.getq().unwrap();
    queue.close();
    queue.put_back(first);
    assert_eq!(
        (queue.get_run(&mut run, 9), numbers(&mut run)),
        (6, vec![0, 1, 2, 3, 4, 5])
    );
    assert_eq!(queue.counters().put_back, 5);
}

#[test]
fn a_closed_queue_takes_nothing_and_gives_what_it_has() {
    let mut pool = pool();
    let queue = MessageQueue::new(0, 100);
    assert_eq!(queue.get_wait(NOW).unwrap_err(), Refusal::TimedOut);
    assert!(
        nobody_waits(&queue),
        "a wake-up would be lost on who has gone"
    );
    queue.putq(message(&mut pool, 1, 1)).unwrap();
    queue.close();
    assert!(queue.is_closed());
    let refused = queue.putq(message(&mut pool, 2, 1)).unwrap_err();
    assert_eq!(
        queue.try_put(refused.message).unwrap_err().reason,
        Refusal::Closed
    );
    assert_eq!(queue.get_wait(None).unwrap().position(), 1);
    assert_eq!(queue.get_wait(None).unwrap_err(), Refusal::Closed);
    assert_eq!(
        queue.get_run_wait(&mut Run::new(), 5, None),
        Err(Refusal::Closed)
    );
    assert_eq!(queue.get_run_wait(&mut Run::new(), 0, None), Ok(0));
    assert_eq!(queue.counters().get_waits, 1);
}

#[test]
fn a_producer_sleeps_from_the_high_water_mark_until_the_low_one() {
    for kind in LockKind::all() {
        let mut pool = pool();
        let queue = MessageQueue::with_lock(kind, 10, 30);
        for number in 0..3 {
            queue.putq(message(&mut pool, number, 10)).unwrap();
        }
        let last = message(&mut pool, 3, 10);
        thread::scope(|scope| {
            let _closing = Closing(&queue);
            scope.spawn(|| queue.put_wait(last, None).unwrap());
            until(|| queue.counters().put_waits == 1);
            assert_eq!(queue.getq().unwrap().position(), 0);
            assert_eq!((queue.bytes(), queue.is_full()), (20, true));
            queue.state.with(|state| {
                assert!(
                    !state.putters.is_empty(),
                    "above the low water mark nobody is woken"
                )
            });
            assert_eq!(queue.getq().unwrap().position(), 1);
            assert_eq!(queue.get_run_wait(&mut Run::new(), 1, None), Ok(1));
            assert_eq!(queue.get_wait(None).unwrap().position(), 3);
        });
        let counters = queue.counters();
        assert_eq!(
            (counters.put_waits, counters.putq, counters.getq),
            (1, 4, 4),
            "{kind}"
        );
        assert!(nobody_waits(&queue));
    }
}

#[test]
fn a_server_sleeps_until_there_is_work_and_as_many_wake_as_messages_come() {
    let mut pool = pool();
    let queue = MessageQueue::new(0, 1 << 20);
    thread::scope(|scope| {
        let _closing = Closing(&queue);
        let servers: Vec<_> = (0..3)
            .map(|_| scope.spawn(|| queue.get_wait(None).map(|message| message.position())))
            .collect();
        until(|| queue.state.with(|state| state.getters.len()) == 3);
        let mut run: Run = (0..2).map(|number| message(&mut pool, number, 1)).collect();
        queue.put_run(&mut run).unwrap();
        until(|| queue.counters().getq == 2);
        assert_eq!(queue.state.with(|state| state.getters.len()), 1);
        queue.close();
        let mut outcomes: Vec<_> = servers
            .into_iter()
            .map(|server| server.join().unwrap())
            .collect();
        outcomes.sort_by_key(|outcome| outcome.unwrap_or(u64::MAX));
        assert_eq!(outcomes, [Ok(0), Ok(1), Err(Refusal::Closed)]);
    });
    assert_eq!(queue.counters().get_waits, 3);
}

#[test]
fn closing_wakes_a_producer_and_hands_its_message_back() {
    let mut pool = pool();
    let queue = MessageQueue::new(0, 1);
    queue.putq(message(&mut pool, 0, 1)).unwrap();
    let waiting = message(&mut pool, 7, 1);
    thread::scope(|scope| {
        let _closing = Closing(&queue);
        let producer = scope.spawn(|| queue.put_wait(waiting, None));
        until(|| queue.counters().put_waits == 1);
        queue.close();
        let refused = producer.join().unwrap().unwrap_err();
        assert_eq!(
            (refused.message.position(), refused.reason),
            (7, Refusal::Closed)
        );
    });
}

#[test]
fn nothing_is_lost_or_reordered_among_producers_and_servers_that_wait() {
    const PRODUCERS: u64 = 2;
    const SERVERS: usize = 2;
    const EACH: u64 = if cfg!(miri) { 40 } else { 4000 };
    for kind in LockKind::all() {
        let queue = MessageQueue::with_lock(kind, 3, 8);
        let got: Vec<Vec<u64>> = thread::scope(|scope| {
            let _closing = Closing(&queue);
            let producers: Vec<_> = (0..PRODUCERS)
                .map(|producer| {
                    scope.spawn({
                        let queue = &queue;
                        move || produce(queue, producer, EACH)
                    })
                })
                .collect();
            let servers: Vec<_> = (0..SERVERS)
                .map(|server| {
                    scope.spawn({
                        let queue = &queue;
                        move || serve(queue, server)
                    })
                })
                .collect();
            producers
                .into_iter()
                .for_each(|producer| producer.join().unwrap());
            queue.close();
            servers
                .into_iter()
                .map(|server| server.join().unwrap())
                .collect()
        });
        for numbers in &got {
            for producer in 0..PRODUCERS {
                let own: Vec<_> = numbers
                    .iter()
                    .filter(|&number| number % PRODUCERS == producer)
                    .collect();
                assert!(
                    own.is_sorted(),
                    "{kind}: what one server gets of one producer is in order"
                );
            }
        }
        let mut all = got.concat();
        all.sort_unstable();
        assert!(all.into_iter().eq(0..PRODUCERS * EACH), "{kind}");
        assert_eq!(queue.counters().putq, PRODUCERS * EACH);
    }
}

/// Puts `each` messages, one by one and in runs.
fn produce(queue: &MessageQueue, producer: u64, each: u64) {
    let mut pool = pool();
    let mut run = Run::new();
    for number in 0..each {
        let message = message(&mut pool, number * 2 + producer, 1);
        if number % 8 < 4 {
            queue.put_run_wait(&mut run, None).unwrap();
            queue.put_wait(message, None).unwrap();
        } else {
            run.push(message);
        }
    }
    queue.put_run_wait(&mut run, None).unwrap();
}

/// Gets what there is until the queue is closed.
fn serve(queue: &MessageQueue, server: usize) -> Vec<u64> {
    let mut got = Vec::new();
    let mut run = Run::new();
    loop {
        let outcome = match server {
            0 => queue.get_run_wait(&mut run, 3, None).map(drop),
            _ => queue.get_wait(None).map(|message| run.push(message)),
        };
        if outcome.is_err() {
            return got;
        }
        got.append(&mut numbers(&mut run));
    }
}

#[derive(Clone, Debug)]
enum Action {
    Put {
        kind: u8,
        band: u8,
        bytes: usize,
    },
    PutRun(Vec<(u8, u8, usize)>),
    Get,
    GetRun(usize),
    /// Gets so many and puts all but the first back.
    PutBack(usize),
}

fn kind() -> impl Strategy<Value = u8> {
    prop_oneof![6 => Just(0u8), 2 => Just(1), 1 => Just(2)]
}

fn band() -> impl Strategy<Value = u8> {
    prop_oneof![6 => Just(0u8), 2 => 1..4u8, 1 => any::<u8>()]
}

fn action() -> impl Strategy<Value = Action> {
    prop_oneof![
        5 => (kind(), band(), 0..200usize).prop_map(|(kind, band, bytes)| Action::Put { kind, band, bytes }),
        2 => vec((kind(), band(), 0..200usize), 0..6).prop_map(Action::PutRun),
        4 => Just(Action::Get),
        2 => (0..8usize).prop_map(Action::GetRun),
        2 => (1..5usize).prop_map(Action::PutBack),
    ]
}

/// The queue's laws, written down with a sorted map.
#[derive(Default)]
struct Model {
    /// By rank, highest first: numbers and sizes.
    ranks: BTreeMap<Reverse<u16>, VecDeque<(u64, usize)>>,
    full: bool,
    next: u64,
}

impl Model {
    const LOW: usize = 150;
    const HIGH: usize = 500;

    fn bytes(&self) -> usize {
        self.ranks
            .values()
            .flatten()
            .map(|(_, bytes)| bytes.max(&1))
            .sum()
    }

    fn put(&mut self, pool: &mut Pool, kind: u8, band: u8, bytes: usize) -> Message {
        let number = self.next;
        self.next += 1;
        let mut message = message(pool, number, bytes);
        message.set_kind([Kind::Data, Kind::Control, Kind::HighPriority][kind as usize]);
        message.set_band(band);
        let rank = if kind == 2 { 256 } else { band.into() };
        self.ranks
            .entry(Reverse(rank))
            .or_default()
            .push_back((number, bytes));
        self.full |= self.bytes() >= Self::HIGH;
        message
    }

    fn first(&self, max: usize) -> Vec<u64> {
        self.ranks
            .values()
            .flatten()
            .take(max)
            .map(|(number, _)| *number)
            .collect()
    }

    fn get(&mut self, max: usize) -> Vec<u64> {
        let got = self.first(max);
        for queue in self.ranks.values_mut() {
            queue.retain(|(number, _)| !got.contains(number));
        }
        self.full &= self.bytes() > Self::LOW;
        got
    }
}

/// What a message put back changes, besides leaving the order as it was: fullness.
fn put_back(
    model: &mut Model,
    queue: &MessageQueue,
    run: &mut Run,
    max: usize,
) -> Result<(), TestCaseError> {
    let order = model.first(usize::MAX);
    let got = queue.get_run(run, max);
    prop_assert_eq!(got, order.len().min(max));
    let bytes_left = queue.bytes();
    model.full &= bytes_left > Model::LOW;
    queue.put_back_run(run);
    model.full |= model.bytes() >= Model::HIGH;
    prop_assert_eq!(model.first(usize::MAX), order);
    Ok(())
}

fn check_against_model(actions: Vec<Action>) -> Result<(), TestCaseError> {
    let mut pool = pool();
    let queue = MessageQueue::new(Model::LOW, Model::HIGH);
    let mut model = Model::default();
    let mut run = Run::new();
    for action in actions {
        match action {
            Action::Put { kind, band, bytes } => {
                queue.putq(model.put(&mut pool, kind, band, bytes)).unwrap()
            }
            Action::PutRun(messages) => {
                run.extend(
                    messages
                        .into_iter()
                        .map(|(kind, band, bytes)| model.put(&mut pool, kind, band, bytes)),
                );
                queue.put_run(&mut run).unwrap();
                prop_assert!(run.is_empty());
            }
            Action::Get => {
                let got: Vec<_> = queue.getq().iter().map(Message::position).collect();
                prop_assert_eq!(got, model.get(1));
            }
            Action::GetRun(max) => {
                queue.get_run(&mut run, max);
                prop_assert_eq!(numbers(&mut run), model.get(max));
            }
            Action::PutBack(max) => put_back(&mut model, &queue, &mut run, max)?,
        }
        prop_assert_eq!(queue.bytes(), model.bytes());
        prop_assert_eq!(queue.len(), model.first(usize::MAX).len());
        prop_assert_eq!(queue.is_full(), model.full);
    }
    queue.get_run(&mut run, usize::MAX);
    prop_assert_eq!(numbers(&mut run), model.get(usize::MAX));
    prop_assert_eq!((queue.bytes(), queue.is_empty()), (0, true));
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn agrees_with_a_sorted_map(actions in vec(action(), 1..120)) {
        check_against_model(actions)?;
    }
}

#[test]
fn a_thread_is_on_the_list_once() {
    let mut waiters = Waiters::default();
    waiters.enter();
    waiters.enter();
    assert_eq!(
        waiters.len(),
        1,
        "it would be woken twice for one message, and another not at all"
    );
    waiters.leave();
    assert!(waiters.is_empty());
}
