use super::*;
use proptest::collection::vec;
use proptest::prelude::*;
use std::collections::BTreeMap;

const TICK: u64 = 1 << Wheel::<u32>::TICK_LOG2;
/// The end of time.
const END: u64 = Instant::MAX.nanos();

/// Everything that expires at `now`.
fn expired(wheel: &mut Wheel<u32>, now: u64) -> Vec<u32> {
    let mut keys = Vec::new();
    let count = wheel.advance(Instant::from_nanos(now), |key| keys.push(key));
    assert_eq!(count, keys.len());
    keys
}

#[test]
fn expires_at_the_first_tick_that_is_not_early() {
    // (deadline, last time at which nothing is due, first time at which it is)
    let rows = [
        (1, TICK - 1, TICK),
        (TICK - 1, TICK - 1, TICK),
        (TICK, TICK - 1, TICK),
        (TICK + 1, 2 * TICK - 1, 2 * TICK),
        (64 * TICK, 64 * TICK - 1, 64 * TICK),
        (
            3_600_000_000_000,
            3_600_000_000_000,
            3_600_000_000_000 / TICK * TICK + TICK,
        ),
        (END - 1, END - 1, END),
        (END, END - 1, END),
    ];
    for (at, before, first) in rows {
        let mut wheel = Wheel::new(Instant::ZERO);
        wheel.start(Instant::from_nanos(at), 7);
        assert_eq!(expired(&mut wheel, before), [], "deadline {at}");
        assert_eq!(expired(&mut wheel, first), [7], "deadline {at}");
        assert!(wheel.is_empty());
    }
}

#[test]
fn a_deadline_that_has_passed_is_due_at_once() {
    let mut wheel = Wheel::new(Instant::from_nanos(100 * TICK + 1));
    wheel.start(Instant::from_nanos(3 * TICK), 1);
    wheel.start(Instant::ZERO, 2);
    assert_eq!(wheel.next_deadline(), Some(Instant::from_nanos(100 * TICK)));
    assert_eq!(expired(&mut wheel, 100 * TICK + 1), [1, 2]);
}

#[test]
fn ticks_in_order_then_order_of_start() {
    let mut wheel = Wheel::new(Instant::ZERO);
    let ticks = [70, 5, 4100, 5, 70, 4100, 1, 70];
    for (key, tick) in (0..).zip(ticks) {
        wheel.start(Instant::from_nanos(tick * TICK), key);
    }
    // Moves the timers of tick 70 to the lowest level, where a new one must come last.
    assert_eq!(expired(&mut wheel, 64 * TICK), [6, 1, 3]);
    wheel.start(Instant::from_nanos(70 * TICK), 8);
    assert_eq!(expired(&mut wheel, 5000 * TICK), [0, 4, 7, 8, 2, 5]);
}

#[test]
fn a_name_outlives_its_timer_harmlessly() {
    let mut wheel = Wheel::new(Instant::ZERO);
    let first = wheel.start(Instant::from_millis(10), 1);
    assert_eq!(wheel.cancel(first), Some(1));
    let second = wheel.start(Instant::from_millis(20), 2);
    assert_eq!(second.index, first.index, "the place is used again");
    assert_eq!((wheel.cancel(first), wheel.deadline(first)), (None, None));
    assert!(!wheel.restart(first, Instant::ZERO));
    assert_eq!(wheel.deadline(second), Some(Instant::from_millis(20)));
    assert_eq!(expired(&mut wheel, 30_000_000), [2]);
    assert_eq!(wheel.cancel(second), None);
}

#[test]
fn a_timer_set_aside_can_be_cancelled_or_moved_until_it_is_taken() {
    let mut wheel = Wheel::new(Instant::ZERO);
    let ids: Vec<_> = (0..4)
        .map(|key| wheel.start(Instant::from_nanos(TICK), key))
        .collect();
    wheel.collect(Instant::from_nanos(TICK));
    assert_eq!(wheel.take_expired(), Some(0));
    assert_eq!(wheel.cancel(ids[1]), Some(1));
    assert!(wheel.restart(ids[2], Instant::from_nanos(9 * TICK)));
    assert_eq!(wheel.next_deadline(), Some(Instant::from_nanos(TICK)));
    wheel.start(Instant::ZERO, 4);
    assert_eq!(
        (wheel.take_expired(), wheel.take_expired()),
        (Some(3), None),
        "what starts late waits for the next turn"
    );
    assert_eq!(expired(&mut wheel, TICK), [4]);
    assert_eq!(expired(&mut wheel, 9 * TICK), [2]);
}

#[test]
fn a_clock_that_steps_back_makes_nothing_early() {
    let mut wheel = Wheel::new(Instant::ZERO);
    let hour = 3_600_000_000_000;
    assert_eq!(expired(&mut wheel, 2 * hour), []);
    wheel.start(Instant::from_nanos(2 * hour + 10 * TICK), 1);
    wheel.start(Instant::from_nanos(2 * hour - 10 * TICK), 2);
    assert_eq!(expired(&mut wheel, hour), []);
    wheel.start(Instant::from_nanos(hour + 2 * TICK), 3);
    assert_eq!(expired(&mut wheel, hour + 3 * TICK), [3]);
    assert_eq!(expired(&mut wheel, 2 * hour), [2]);
    assert_eq!(expired(&mut wheel, u64::MAX), [1]);
}

#[test]
fn following_next_deadline_reaches_a_far_timer_in_a_few_steps() {
    let mut wheel = Wheel::new(Instant::ZERO);
    let year = 365 * 86_400_000_000_000;
    assert_eq!(expired(&mut wheel, 12_345_678_901), []);
    wheel.start(Instant::from_nanos(year), 9);
    let mut steps = 0;
    while let Some(next) = wheel.next_deadline() {
        steps += 1;
        if expired(&mut wheel, next.nanos()) == [9] {
            assert!((year..year + TICK).contains(&next.nanos()));
        }
    }
    assert!((1..=LEVELS).contains(&steps), "{steps}");
    assert_eq!(wheel.counters().expired, 1);
}

#[test]
fn nothing_is_allocated_once_the_places_are_there() {
    let mut wheel = Wheel::new(Instant::ZERO);
    wheel.reserve(100);
    let room = wheel.timers.capacity();
    for round in 0..50 {
        let ids: Vec<_> = (0..100)
            .map(|key| wheel.start(Instant::from_nanos(round * key * TICK), key as u32))
            .collect();
        ids.iter()
            .step_by(2)
            .for_each(|&id| assert!(wheel.cancel(id).is_some()));
        wheel.advance(Instant::from_nanos(round * 200 * TICK), |_| ());
    }
    assert_eq!(wheel.timers.capacity(), room);
    assert_eq!(wheel.counters().started, 5000);
    assert_eq!(wheel.counters().cancelled, 2500);
}

#[derive(Clone, Debug)]
enum Action {
    Start(u64),
    Cancel(prop::sample::Index),
    Restart(prop::sample::Index, u64),
    Advance(u64),
    StepBack(u64),
    FollowDeadline,
}

/// Distances in nanoseconds over every level, many of them near, some in the past (see `around`).
fn distance() -> impl Strategy<Value = u64> {
    prop_oneof![8 => 0..200 * TICK, 4 => 0..1u64 << 40, 2 => 0..1u64 << 52, 1 => any::<u64>()]
}

fn action() -> impl Strategy<Value = Action> {
    prop_oneof![
        6 => distance().prop_map(Action::Start),
        2 => any::<prop::sample::Index>().prop_map(Action::Cancel),
        2 => (any::<prop::sample::Index>(), distance()).prop_map(|(which, by)| Action::Restart(which, by)),
        4 => distance().prop_map(Action::Advance),
        1 => distance().prop_map(Action::StepBack),
        2 => Just(Action::FollowDeadline),
    ]
}

/// The wheel's laws, written down with a sorted map.
#[derive(Default)]
struct Model {
    /// By the tick that counts and the order of start: the deadline's own tick and the key.
    timers: BTreeMap<(u128, u64), (u128, u32)>,
    elapsed: u128,
    orders: u64,
}

impl Model {
    fn start(&mut self, at: u64, tick: u64, key: u32) {
        let due = u128::from(at).div_ceil(tick.into());
        self.timers
            .insert((due.max(self.elapsed), self.orders), (due, key));
        self.orders += 1;
    }

    fn cancel(&mut self, key: u32) -> Option<u32> {
        let place = *self.timers.iter().find(|(_, (_, other))| *other == key)?.0;
        self.timers.remove(&place).map(|(_, key)| key)
    }

    fn advance(&mut self, now: u64, tick: u64) -> Vec<u32> {
        let target = if now == END {
            u128::from(now).div_ceil(tick.into())
        } else {
            u128::from(now / tick)
        };
        if target < self.elapsed {
            let timers = core::mem::take(&mut self.timers);
            self.timers = timers
                .into_iter()
                .map(|((_, order), (due, key))| ((due.max(target), order), (due, key)))
                .collect();
        }
        self.elapsed = target;
        let later = self.timers.split_off(&(target + 1, 0));
        core::mem::replace(&mut self.timers, later)
            .into_values()
            .map(|(_, key)| key)
            .collect()
    }
}

/// A time near `now`: mostly after it, sometimes before.
fn around(now: u64, by: u64) -> u64 {
    if by.is_multiple_of(7) {
        now.saturating_sub(by)
    } else {
        now.saturating_add(by).min(END)
    }
}

fn check_against_model(actions: Vec<Action>, log2: u32) -> Result<(), TestCaseError> {
    let mut wheel = Wheel::with_tick(Instant::ZERO, log2);
    let tick = 1 << log2;
    let mut model = Model::default();
    let mut ids = Vec::new();
    let mut clock = 0;
    for action in actions {
        let mut now = None;
        match action {
            Action::Start(by) => {
                let at = around(clock, by);
                let key = ids.len() as u32;
                ids.push(wheel.start(Instant::from_nanos(at), key));
                model.start(at, tick, key);
            }
            Action::Cancel(which) if !ids.is_empty() => {
                let key = which.index(ids.len());
                prop_assert_eq!(wheel.cancel(ids[key]), model.cancel(key as u32));
            }
            Action::Restart(which, by) if !ids.is_empty() => {
                let key = which.index(ids.len());
                let at = around(clock, by);
                let live = model.cancel(key as u32).is_some();
                prop_assert_eq!(wheel.restart(ids[key], Instant::from_nanos(at)), live);
                if live {
                    model.start(at, tick, key as u32);
                    prop_assert_eq!(wheel.deadline(ids[key]), Some(Instant::from_nanos(at)));
                }
            }
            Action::Cancel(_) | Action::Restart(..) => {}
            Action::Advance(by) => now = Some(clock.saturating_add(by).min(END)),
            Action::StepBack(by) => now = Some(clock.saturating_sub(by)),
            Action::FollowDeadline => {
                now = Some(
                    wheel
                        .next_deadline()
                        .map_or(clock, |next| clock.max(next.nanos())),
                )
            }
        }
        if let Some(now) = now {
            clock = now;
            prop_assert_eq!(expired(&mut wheel, now), model.advance(now, tick));
        }
        prop_assert_eq!(wheel.len(), model.timers.len());
        let first = model
            .timers
            .keys()
            .next()
            .map(|(due, _)| due * u128::from(tick));
        let next = wheel.next_deadline();
        prop_assert_eq!(next.is_some(), first.is_some());
        if let (Some(next), Some(first)) = (next, first) {
            prop_assert!(
                u128::from(next.nanos()) <= first && (now.is_none() || next.nanos() > clock)
            );
        }
    }
    let left: Vec<u32> = model.advance(END, tick);
    prop_assert_eq!(expired(&mut wheel, END), left);
    prop_assert!(wheel.is_empty());
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn agrees_with_a_sorted_map(actions in vec(action(), 1..120), log2 in prop_oneof![Just(20), Just(0), 0..=32u32]) {
        check_against_model(actions, log2)?;
    }
}
