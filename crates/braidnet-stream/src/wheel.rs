//! Alarms: the timing wheel of one processor.
//!
//! A hierarchical timing wheel (Varghese and Lauck, *Hashed and Hierarchical Timing Wheels*, scheme 7; the event manager
//! of the parallel x-kernel, PLP §2.1). Time is counted in ticks of a power of two nanoseconds, written as a number to
//! base 64. A timer sits on the level of the highest digit in which its tick differs from the wheel's own, in the chain
//! which that digit names. As time reaches a chain above the lowest level, the chain's timers move down, each at most once
//! per level; a chain on the lowest level holds one tick and expires whole.
//!
//! - [`start`](Wheel::start), [`cancel`](Wheel::cancel) and [`restart`](Wheel::restart) cost the same whatever is in the
//!   wheel, and allocate only while the wheel holds more timers than ever before.
//! - [`next_deadline`](Wheel::next_deadline) reads two bitmaps.
//! - A timer never expires early, and at most one tick late. Timers expire in the order of their ticks, those of one tick
//!   in the order in which they were started.
//! - Eleven levels span all 64 bits: no deadline is too far, and a clock that jumps ahead by years costs only the timers
//!   that it expires or brings nearer. A clock that steps back takes the wheel with it: deadlines are points on the
//!   caller's clock, and none expires before that clock shows it.
//!
//! A wheel belongs to one processor and has no lock. An expiry enters its connection's perimeter as a message, so what
//! is due needs no lock either (DEMUX §3.2.2). The variant with a lock per chain (PLP §2.1) belongs to wheels that several
//! processors share; there is none here.

use braidnet_wire::time::{Duration, Instant};

/// Bits of a digit: each level has a chain for each value of its digit.
const DIGIT_BITS: u32 = 6;
/// Chains per level.
const CHAINS: usize = 1 << DIGIT_BITS;
/// Digits of a 64-bit tick.
const LEVELS: usize = u64::BITS.div_ceil(DIGIT_BITS) as usize;
/// The chain of timers that are due and not yet taken.
const EXPIRED: u16 = (LEVELS * CHAINS) as u16;
/// The chain of a timer that is not in the wheel.
const NOWHERE: u16 = u16::MAX;
/// No timer: the end of the free list, the head of an empty chain.
const NIL: u32 = u32::MAX;

/// The name of a started timer, until it expires or is cancelled; after that it names nothing, even once its place in the
/// wheel is used again (places are told apart by a 32-bit count of their uses). It means nothing to another wheel.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct TimerId {
    index: u32,
    uses: u32,
}

/// What a wheel has done since it was made.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct WheelCounters {
    /// Timers started.
    pub started: u64,
    /// Timers moved to another deadline by [`Wheel::restart`].
    pub restarted: u64,
    /// Timers cancelled.
    pub cancelled: u64,
    /// Timers handed to the caller because their time had come.
    pub expired: u64,
    /// Moves of a timer to a lower level (at most one per level and timer), or, after the clock stepped back, to a higher.
    pub moved: u64,
}

/// A timer, or a free place.
#[derive(Debug)]
struct Timer<K> {
    at: Instant,
    /// Neighbours in the circular chain; in a free place `next` links the free list.
    next: u32,
    previous: u32,
    uses: u32,
    chain: u16,
    key: K,
}

/// A hierarchical timing wheel for one processor, whose expiries hand back a key of type `K`.
///
/// See the [module's text](self) for the laws it keeps.
///
/// ```
/// use braidnet_stream::wheel::Wheel;
/// use braidnet_wire::time::Instant;
///
/// let mut wheel = Wheel::new(Instant::ZERO);
/// let retransmit = wheel.start(Instant::from_millis(200), "retransmit");
/// wheel.start(Instant::from_millis(40), "delayed ACK");
///
/// let mut due = Vec::new();
/// wheel.advance(Instant::from_millis(50), |key| due.push(key));
/// assert_eq!(due, ["delayed ACK"]);
/// assert_eq!(wheel.cancel(retransmit), Some("retransmit"));
/// assert_eq!(wheel.next_deadline(), None);
/// ```
#[derive(Debug)]
pub struct Wheel<K: Copy> {
    /// The tick up to which everything has expired.
    elapsed: u64,
    /// A tick lasts two to the power of this, in nanoseconds.
    tick_log2: u32,
    /// Which levels have a chain that is not empty.
    levels: u16,
    /// Which chains of a level are not empty.
    occupied: [u64; LEVELS],
    /// The first timer of every chain, level by level; last the chain of the expired.
    heads: [u32; LEVELS * CHAINS + 1],
    timers: Vec<Timer<K>>,
    free: u32,
    len: usize,
    counters: WheelCounters,
}

impl<K: Copy> Wheel<K> {
    /// The usual tick as a power of two of nanoseconds: 2^20 ns, about 1.05 ms.
    pub const TICK_LOG2: u32 = 20;

    /// An empty wheel that stands at `now` and has the usual tick of 2^20 ns.
    pub fn new(now: Instant) -> Self {
        Wheel::with_tick(now, Self::TICK_LOG2)
    }

    /// An empty wheel that stands at `now`, whose tick is 2^`log2` nanoseconds; more than 2^32 ns (4.3 s) is taken as
    /// 2^32.
    ///
    /// A tick of 2^0 ns makes expiry exact, which a simulated clock may want, and costs more moves per timer.
    pub fn with_tick(now: Instant, log2: u32) -> Self {
        let tick_log2 = log2.min(32);
        Wheel {
            elapsed: now.nanos() >> tick_log2,
            tick_log2,
            levels: 0,
            occupied: [0; LEVELS],
            heads: [NIL; LEVELS * CHAINS + 1],
            timers: Vec::new(),
            free: NIL,
            len: 0,
            counters: WheelCounters::default(),
        }
    }

    /// Makes room for `timers` more timers, so that starting them does not allocate.
    pub fn reserve(&mut self, timers: usize) {
        let places_free = self.timers.len() - self.len;
        self.timers.reserve(timers.saturating_sub(places_free));
    }

    /// Starts a timer: `key` is handed out by the first [`advance`](Self::advance) that reaches `at`.
    ///
    /// A time that has passed already expires at the next `advance`. [`Instant::MAX`] is reached only by an `advance` to
    /// `Instant::MAX`.
    ///
    /// # Panics
    /// If the wheel holds 2^32 - 1 timers.
    #[inline]
    pub fn start(&mut self, at: Instant, key: K) -> TimerId {
        let index = self.take_place(at, key);
        self.file(index);
        self.len += 1;
        self.counters.started += 1;
        TimerId {
            index,
            uses: self.timer(index).uses,
        }
    }

    /// Takes a timer out of the wheel and hands its key back; `None` if it has expired or was cancelled before.
    #[inline]
    pub fn cancel(&mut self, id: TimerId) -> Option<K> {
        if !self.is_live(id) {
            return None;
        }
        self.unlink(id.index);
        self.counters.cancelled += 1;
        Some(self.release(id.index))
    }

    /// Moves a timer to another deadline, earlier or later, under the same name; false if it has expired or was cancelled.
    ///
    /// The timer then counts as started now in the order within its tick.
    #[inline]
    pub fn restart(&mut self, id: TimerId, at: Instant) -> bool {
        if !self.is_live(id) {
            return false;
        }
        self.unlink(id.index);
        self.timer_mut(id.index).at = at;
        self.file(id.index);
        self.counters.restarted += 1;
        true
    }

    /// The deadline that a timer was started for; `None` if it has expired or was cancelled.
    pub fn deadline(&self, id: TimerId) -> Option<Instant> {
        self.is_live(id).then(|| self.timer(id.index).at)
    }

    /// Brings the wheel to `now` and calls `expire` with the key of every timer that is due; returns how many.
    ///
    /// `expire` cannot reach the wheel. A caller who wants to start and cancel timers in between uses
    /// [`collect`](Self::collect) and [`take_expired`](Self::take_expired) instead. Should `expire` panic, the timers not
    /// yet handed out are handed out by the next call.
    pub fn advance(&mut self, now: Instant, mut expire: impl FnMut(K)) -> usize {
        self.collect(now);
        let mut count = 0;
        while let Some(key) = self.take_expired() {
            expire(key);
            count += 1;
        }
        count
    }

    /// Brings the wheel to `now` and sets aside what is due, for [`take_expired`](Self::take_expired).
    ///
    /// A timer set aside can be cancelled or restarted until it is taken. A timer started after this call, even for a time
    /// that has passed, waits for the next one, so that a handler which rearms itself does not keep its caller for ever.
    pub fn collect(&mut self, now: Instant) {
        let target = self.tick_reached(now);
        if target < self.elapsed {
            self.step_back(target);
        }
        while let Some((level, chain, tick)) = self.first_chain() {
            if tick > target {
                break;
            }
            self.elapsed = tick;
            if level == 0 {
                self.move_chain(chain, |wheel, index| wheel.link(index, EXPIRED));
            } else {
                self.move_chain(chain, Self::refile);
            }
        }
        self.elapsed = target;
    }

    /// The key of the next timer that [`collect`](Self::collect) set aside.
    #[inline]
    pub fn take_expired(&mut self) -> Option<K> {
        let index = self.heads[EXPIRED as usize];
        if index == NIL {
            return None;
        }
        self.unlink(index);
        self.counters.expired += 1;
        Some(self.release(index))
    }

    /// When to call [`advance`](Self::advance) next, rounded up to a tick; `None` if no timer is started.
    ///
    /// Never later than the first expiry. It is the expiry itself if that timer is on the lowest level; otherwise it is the
    /// earlier time at which the timer moves down, which happens at most once per level. A time that the wheel has reached
    /// already means that something is due now.
    #[inline]
    pub fn next_deadline(&self) -> Option<Instant> {
        if self.heads[EXPIRED as usize] != NIL {
            return Some(self.instant(self.elapsed));
        }
        self.first_chain().map(|(_, _, tick)| self.instant(tick))
    }

    /// Timers in the wheel, those set aside and not yet taken included.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether no timer is in the wheel.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// How long a tick lasts: a timer expires at most this much late.
    pub fn tick(&self) -> Duration {
        Duration::from_nanos(1 << self.tick_log2)
    }

    /// What the wheel has done so far.
    pub fn counters(&self) -> WheelCounters {
        self.counters
    }
}

/// Ticks.
impl<K: Copy> Wheel<K> {
    /// The tick at which `at` has certainly been reached: rounded up.
    fn tick_due(&self, at: Instant) -> u64 {
        let below = (1 << self.tick_log2) - 1;
        (at.nanos() >> self.tick_log2) + u64::from(at.nanos() & below != 0)
    }

    /// The tick that `now` has reached: rounded down, except that the end of time ends its tick.
    fn tick_reached(&self, now: Instant) -> u64 {
        if now == Instant::MAX {
            self.tick_due(now)
        } else {
            now.nanos() >> self.tick_log2
        }
    }

    /// When `tick` begins. Only the tick after the last one does not fit, and ends time.
    fn instant(&self, tick: u64) -> Instant {
        if tick > u64::MAX >> self.tick_log2 {
            Instant::MAX
        } else {
            Instant::from_nanos(tick << self.tick_log2)
        }
    }

    /// The first chain in time that is not empty: its level, its number, and the tick at which it begins, or the wheel's
    /// own if that is later (timers started for a time that had passed).
    ///
    /// Timers on a level agree with the wheel in all higher digits and are ahead in their own, so each level as a whole is
    /// earlier than the next, and a level's chains are in the order of time.
    #[inline]
    fn first_chain(&self) -> Option<(usize, u16, u64)> {
        if self.levels == 0 {
            return None;
        }
        let level = self.levels.trailing_zeros();
        let digit = self.occupied[level as usize].trailing_zeros();
        let shift = level * DIGIT_BITS;
        let above = self.elapsed.unbounded_shr(shift + DIGIT_BITS);
        let tick = (above << DIGIT_BITS | u64::from(digit)) << shift;
        Some((level as usize, (level << DIGIT_BITS | digit) as u16, tick))
    }

    /// The chain for a timer that is due at `tick`.
    #[inline]
    fn chain_of(&self, tick: u64) -> u16 {
        let tick = tick.max(self.elapsed);
        let level = (tick ^ self.elapsed).checked_ilog2().unwrap_or(0) / DIGIT_BITS;
        let digit = (tick >> (level * DIGIT_BITS)) as usize % CHAINS;
        (level as usize * CHAINS + digit) as u16
    }

    /// The clock stepped back to `target`: files anew the timers that were near and now are further away.
    ///
    /// Those on the level of the highest digit that differs, and above, stand where they should. Those below go, in their
    /// order, to the chain of that digit, which is empty as its time had come. The chain of the wheel's own tick, on the
    /// lowest level, also holds those started late, which may be ahead again.
    fn step_back(&mut self, target: u64) {
        let level = (self.elapsed ^ target).ilog2() / DIGIT_BITS;
        let own = (self.elapsed % CHAINS as u64) as u16;
        self.elapsed = target;
        if level == 0 {
            self.move_chain(own, Self::refile);
        }
        for below in 0..level as usize {
            let mut chains = self.occupied[below];
            while chains != 0 {
                let digit = chains.trailing_zeros() as usize;
                chains &= chains - 1;
                self.move_chain((below * CHAINS + digit) as u16, Self::refile);
            }
        }
    }
}

/// Chains and places.
impl<K: Copy> Wheel<K> {
    #[inline]
    fn timer(&self, index: u32) -> &Timer<K> {
        &self.timers[index as usize]
    }

    #[inline]
    fn timer_mut(&mut self, index: u32) -> &mut Timer<K> {
        &mut self.timers[index as usize]
    }

    fn is_live(&self, id: TimerId) -> bool {
        self.timers
            .get(id.index as usize)
            .is_some_and(|timer| timer.uses == id.uses && timer.chain != NOWHERE)
    }

    #[inline]
    fn take_place(&mut self, at: Instant, key: K) -> u32 {
        if self.free == NIL {
            return self.add_place(at, key);
        }
        let index = self.free;
        let timer = &mut self.timers[index as usize];
        self.free = timer.next;
        timer.at = at;
        timer.key = key;
        index
    }

    #[cold]
    fn add_place(&mut self, at: Instant, key: K) -> u32 {
        let index = self.timers.len();
        assert!(
            index < NIL as usize,
            "a wheel holds at most 2^32 - 1 timers"
        );
        self.timers.push(Timer {
            at,
            next: NIL,
            previous: NIL,
            uses: 0,
            chain: NOWHERE,
            key,
        });
        index as u32
    }

    #[inline]
    fn release(&mut self, index: u32) -> K {
        let free = self.free;
        let timer = self.timer_mut(index);
        timer.uses = timer.uses.wrapping_add(1);
        timer.next = free;
        let key = timer.key;
        self.free = index;
        self.len -= 1;
        key
    }

    /// Puts a timer that is in no chain into the one that its deadline asks for.
    #[inline]
    fn file(&mut self, index: u32) {
        let chain = self.chain_of(self.tick_due(self.timer(index).at));
        self.link(index, chain);
    }

    fn refile(&mut self, index: u32) {
        self.counters.moved += 1;
        self.file(index);
    }

    /// Empties a chain and hands its timers, each in no chain, to `to`, in order.
    #[inline]
    fn move_chain(&mut self, chain: u16, to: impl Fn(&mut Self, u32)) {
        let first = core::mem::replace(&mut self.heads[chain as usize], NIL);
        if first == NIL {
            return;
        }
        self.mark_empty(chain);
        let mut index = first;
        loop {
            let next = self.timer(index).next;
            to(self, index);
            if next == first {
                break;
            }
            index = next;
        }
    }

    /// Appends a timer to a chain.
    #[inline]
    fn link(&mut self, index: u32, chain: u16) {
        let head = self.heads[chain as usize];
        let (previous, next) = if head == NIL {
            self.heads[chain as usize] = index;
            self.mark_occupied(chain);
            (index, index)
        } else {
            let last = core::mem::replace(&mut self.timer_mut(head).previous, index);
            self.timer_mut(last).next = index;
            (last, head)
        };
        let timer = self.timer_mut(index);
        timer.previous = previous;
        timer.next = next;
        timer.chain = chain;
    }

    /// Takes a timer out of its chain.
    #[inline]
    fn unlink(&mut self, index: u32) {
        let timer = self.timer_mut(index);
        let (previous, next) = (timer.previous, timer.next);
        let chain = core::mem::replace(&mut timer.chain, NOWHERE);
        if next == index {
            self.heads[chain as usize] = NIL;
            self.mark_empty(chain);
            return;
        }
        self.timer_mut(previous).next = next;
        self.timer_mut(next).previous = previous;
        if self.heads[chain as usize] == index {
            self.heads[chain as usize] = next;
        }
    }

    #[inline]
    fn mark_occupied(&mut self, chain: u16) {
        if chain != EXPIRED {
            let (level, digit) = (chain as usize / CHAINS, chain as usize % CHAINS);
            self.occupied[level] |= 1 << digit;
            self.levels |= 1 << level;
        }
    }

    #[inline]
    fn mark_empty(&mut self, chain: u16) {
        if chain != EXPIRED {
            let (level, digit) = (chain as usize / CHAINS, chain as usize % CHAINS);
            self.occupied[level] &= !(1 << digit);
            self.levels &= !(u16::from(self.occupied[level] == 0) << level);
        }
    }
}

#[cfg(test)]
mod tests;
