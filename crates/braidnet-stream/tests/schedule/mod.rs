//! Threads that go on one at a time, as a seed says.

use std::cell::RefCell;
use std::sync::{Arc, Condvar, Mutex};

/// Whose turn it is, of some threads.
pub struct Schedule(Arc<Turns>);

struct Turns {
    state: Mutex<State>,
    changed: Condvar,
}

struct State {
    random: u64,
    /// The first seat is passed by so often when it is drawn.
    slighted: u64,
    /// The seat whose turn it is; none before all sit.
    turn: Option<usize>,
    seated: Vec<bool>,
    /// How many are still to sit down.
    missing: usize,
}

thread_local! {
    static SEAT: RefCell<Option<(Arc<Turns>, usize)>> = const { RefCell::new(None) };
}

/// A thread's place in a schedule, until it is dropped.
pub struct Seat(());

impl Schedule {
    /// Of so many threads.
    pub fn new(seed: u64, threads: usize) -> Schedule {
        let state = State {
            random: seed.wrapping_mul(0x9e37_79b9_7f4a_7c15),
            slighted: 0,
            turn: None,
            seated: vec![false; threads],
            missing: threads,
        };
        Schedule(Arc::new(Turns {
            state: Mutex::new(state),
            changed: Condvar::new(),
        }))
    }

    /// The same, in which the first is passed by so often when its turn is drawn.
    pub fn slighting(self, times: u64) -> Schedule {
        self.0.state.lock().unwrap().slighted = times;
        self
    }

    /// The calling thread takes part from now on. Waits until all do, and for its turn.
    pub fn sit(&self, seat: usize) -> Seat {
        {
            let mut state = self.0.state.lock().unwrap();
            state.seated[seat] = true;
            state.missing -= 1;
            if state.missing == 0 {
                state.draw();
                self.0.changed.notify_all();
            }
        }
        self.0.wait(seat);
        SEAT.set(Some((self.0.clone(), seat)));
        Seat(())
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        if let Some((turns, seat)) = SEAT.take() {
            turns.state.lock().unwrap().seated[seat] = false;
            turns.hand_on();
        }
    }
}

impl State {
    /// Draws whose turn is next, of those that sit.
    fn draw(&mut self) {
        let all = 0..self.seated.len();
        let mut seated: Vec<usize> = all.filter(|seat| self.seated[*seat]).collect();
        self.random = (self.random)
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        let drawn = self.random >> 33;
        if seated.len() > 1 && seated[0] == 0 && !drawn.is_multiple_of(self.slighted + 1) {
            seated.remove(0);
        }
        self.turn = seated
            .get(drawn as usize / 1024 % seated.len().max(1))
            .copied();
    }
}

impl Turns {
    fn wait(&self, seat: usize) {
        let mut state = self.state.lock().unwrap();
        while state.turn != Some(seat) {
            state = self.changed.wait(state).unwrap();
        }
    }

    fn hand_on(&self) {
        self.state.lock().unwrap().draw();
        self.changed.notify_all();
    }
}

/// Lets others go first: those that the schedule says, or, where there is none, whoever the system does, now and then, as `salt` says.
pub fn pause(salt: u64) {
    let seat = SEAT.with_borrow(Option::clone);
    match seat {
        Some((turns, seat)) => {
            turns.hand_on();
            turns.wait(seat);
        }
        None => {
            for _ in 0..salt.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 62 {
                std::thread::yield_now();
            }
        }
    }
}
