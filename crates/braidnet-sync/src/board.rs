//! A board on which processors put jobs in pieces, for whoever has time: the pieces of a job are claimed one by one, and joined
//! by count (PPF §3.2: one message's encryption on several processors).
//!
//! # The protocol
//!
//! Each processor has a [`Seat`], and with it a line of places for jobs, used in turn; only the seat posts jobs in its line, and takes
//! them back, oldest first. A job is a number, some *pieces*, and two words:
//!
//! * *claims* says of which job the place is, by the lower half of its number, how many pieces that has, and how many of them have been
//!   claimed;
//! * *left* counts the pieces that are not done.
//!
//! *Post*: the seat writes the pieces and *left*, then *claims* (release), then the line's *posted* (release), the number behind the last
//! job. Until then nobody else touches the place: its last job has no piece to claim.
//!
//! *Claim*: whoever wants a piece looks at a line from its first *open* job on, and raises what has been claimed by a compare-and-swap
//! (acquire) that succeeds only on the word that was looked at. Every word that *claims* goes through comes from the one
//! that the seat stored by read-modify-writes alone, so whoever claims sees the pieces as they were posted. The number in the word makes
//! a claim valid however late it comes: it is for the job that is there now, or fails. A claimed piece is the claimer's alone.
//! Who claims a job's last piece moves *open* behind it. That is a hint (relaxed) and only ever grows; it never passes a piece that nobody
//! has claimed, since *posted* was read first (acquire), so that no word of an older job is found in a place before it.
//!
//! *Join*: who has done a piece subtracts it from *left* (release). When the seat reads nought (acquire) it sees all that was done to all
//! pieces, and nobody else touches them any more: it takes them back. Whoever subtracts the last one is told so, and wakes the
//! seat's processor if that may sleep.
//!
//! Nobody waits. A processor that is stopped in the midst of a piece holds up that job and those that its owner posted after it, and
//! no processor. A piece whose work panics is never done, and its job never taken back.

use core::fmt;

use crossbeam_utils::CachePadded;

use crate::primitives::{Arc, AtomicU32, AtomicU64, Ordering, UnsafeCell};

/// Most pieces of a job.
pub const MAX_PIECES: usize = 64;

/// The seats of so many processors at a board with room for `jobs` jobs of each, of at most `pieces` pieces.
///
/// ```
/// let mut seats = braidnet_sync::board::seats::<(u64, u64)>(2, 4, 3);
/// let [owner, other] = &mut seats[..] else { unreachable!() };
/// owner.post([(1, 0), (2, 0), (3, 0)].into_iter());
/// let mut double = |piece: &mut (u64, u64)| piece.1 = 2 * piece.0;
/// assert_eq!(other.help(&mut double).map(|helped| helped.is_joined), Some(false));
/// while owner.work(&mut double) {}
/// let mut sum = 0;
/// assert!(owner.take_back(|(_, doubled)| sum += doubled));
/// assert_eq!(sum, 12);
/// ```
///
/// # Panics
/// Without a place or a piece, or with more than [`MAX_PIECES`].
pub fn seats<P: Send>(processors: usize, jobs: usize, pieces: usize) -> Vec<Seat<P>> {
    assert!(jobs > 0, "a line has a place");
    assert!((1..=MAX_PIECES).contains(&pieces), "1 to 64 pieces");
    let lines = (0..processors).map(|_| CachePadded::new(Line::new(jobs, pieces)));
    let lines: Arc<Box<[_]>> = Arc::new(lines.collect());
    (0..processors)
        .map(|me| Seat {
            lines: lines.clone(),
            me,
            oldest: 0,
            posted: 0,
        })
        .collect()
}

/// One processor's seat at a board.
pub struct Seat<P> {
    lines: Arc<Box<[CachePadded<Line<P>>]>>,
    me: usize,
    /// The first job that has not been taken back.
    oldest: u64,
    /// The number behind the last job.
    posted: u64,
}

/// What a processor did for another.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Helped {
    /// For which.
    pub owner: usize,
    /// Whether all pieces of that job are done now.
    pub is_joined: bool,
}

/// The jobs of one seat.
struct Line<P> {
    /// Behind the last job that was posted: written by the seat.
    posted: AtomicU64,
    /// No job before it has a piece to claim.
    open: AtomicU64,
    places: Box<[Place<P>]>,
}

/// A place for a job.
struct Place<P> {
    claims: CachePadded<AtomicU64>,
    left: AtomicU32,
    /// Nothing where no job has a piece.
    pieces: Box<[UnsafeCell<Option<P>>]>,
}

// SAFETY: a shared line yields a piece to one thread at a time, the seat's or who has claimed it, which amounts to sending it.
unsafe impl<P: Send> Sync for Place<P> {}

/// The word of a job's claims: number, pieces, and how many of these have been claimed.
const PIECES_SHIFT: u32 = 16;
const NUMBER_SHIFT: u32 = 32;
const COUNT_MASK: u64 = 0xffff;

impl<P> Line<P> {
    fn new(jobs: usize, pieces: usize) -> Line<P> {
        let place = |_| Place {
            // No pieces, and so none to claim, whatever the number.
            claims: CachePadded::new(AtomicU64::new(0)),
            left: AtomicU32::new(0),
            pieces: (0..pieces).map(|_| UnsafeCell::new(None)).collect(),
        };
        Line {
            posted: AtomicU64::new(0),
            open: AtomicU64::new(0),
            places: (0..jobs).map(place).collect(),
        }
    }

    fn place(&self, job: u64) -> &Place<P> {
        &self.places[(job % self.places.len() as u64) as usize]
    }

    /// Whether there may be a piece to claim.
    #[inline]
    fn is_open(&self) -> bool {
        self.open.load(Ordering::Relaxed) < self.posted.load(Ordering::Acquire)
    }

    /// Does a piece, if there is one to claim; whether its job is joined by that.
    fn work(&self, work: impl FnOnce(&mut P)) -> Option<bool> {
        // In this order: see above.
        let posted = self.posted.load(Ordering::Acquire);
        let mut job = self.open.load(Ordering::Relaxed);
        while job < posted {
            let place = self.place(job);
            let Some((piece, is_last)) = place.claim(job) else {
                job += 1;
                continue;
            };
            if is_last {
                self.open.fetch_max(job + 1, Ordering::Relaxed);
            }
            return Some(place.work(piece, work));
        }
        None
    }
}

impl<P> Place<P> {
    /// Claims a piece of this job: which, and whether it is the last. `None` if there is none to claim.
    fn claim(&self, job: u64) -> Option<(usize, bool)> {
        let mut word = self.claims.load(Ordering::Relaxed);
        loop {
            let (count, claimed) = (word >> PIECES_SHIFT & COUNT_MASK, word & COUNT_MASK);
            if word >> NUMBER_SHIFT != job & u64::from(u32::MAX) || claimed == count {
                return None;
            }
            let claim = self.claims.compare_exchange_weak(
                word,
                word + 1,
                Ordering::Acquire,
                Ordering::Relaxed,
            );
            match claim {
                Ok(_) => return Some((claimed as usize, claimed + 1 == count)),
                Err(found) => word = found,
            }
        }
    }

    /// Does a piece that the caller has claimed; whether it was the last to be done.
    fn work(&self, piece: usize, work: impl FnOnce(&mut P)) -> bool {
        self.pieces[piece].with_mut(|piece| {
            // SAFETY: claimed by the caller alone, and not taken back before it is counted as done below.
            let piece = unsafe { &mut *piece };
            if let Some(piece) = piece {
                work(piece);
            }
        });
        self.left.fetch_sub(1, Ordering::Release) == 1
    }
}

impl<P: Send> Seat<P> {
    /// How many more jobs there is room for.
    pub fn room(&self) -> usize {
        self.lines[self.me].places.len() - (self.posted - self.oldest) as usize
    }

    /// Posts a job.
    ///
    /// # Panics
    /// If there is no [room](Seat::room), or the job has no piece or more than there can be.
    pub fn post(&mut self, mut pieces: impl Iterator<Item = P>) {
        assert!(self.room() > 0, "the line is full");
        let line = &self.lines[self.me];
        let place = line.place(self.posted);
        let mut count = 0;
        for (cell, piece) in place.pieces.iter().zip(&mut pieces) {
            cell.with_mut(|cell| {
                // SAFETY: the place's last job has been taken back, so that nobody else touches its pieces.
                unsafe { *cell = Some(piece) }
            });
            count += 1;
        }
        assert!(
            count > 0 && pieces.next().is_none(),
            "a job has a piece, and not too many"
        );
        place.left.store(count, Ordering::Relaxed);
        let number = (self.posted & u64::from(u32::MAX)) << NUMBER_SHIFT;
        let word = number | u64::from(count) << PIECES_SHIFT;
        place.claims.store(word, Ordering::Release);
        self.posted += 1;
        line.posted.store(self.posted, Ordering::Release);
    }

    /// Whether the oldest job can be taken back.
    #[inline]
    pub fn is_joined(&self) -> bool {
        let place = self.lines[self.me].place(self.oldest);
        self.oldest < self.posted && place.left.load(Ordering::Acquire) == 0
    }

    /// Takes the oldest job back if all its pieces are done, and hands these out in the order in which they were posted; whether it did.
    pub fn take_back(&mut self, mut each: impl FnMut(P)) -> bool {
        if !self.is_joined() {
            return false;
        }
        let place = self.lines[self.me].place(self.oldest);
        self.oldest += 1;
        for cell in &place.pieces {
            let piece = cell.with_mut(|cell| {
                // SAFETY: all pieces are done, as was read by an acquiring load, and nobody can claim another.
                unsafe { (*cell).take() }
            });
            let Some(piece) = piece else { break };
            each(piece);
        }
        true
    }

    /// Whether a job of this seat's may have a piece that nobody has claimed.
    #[inline]
    pub fn is_open(&self) -> bool {
        self.lines[self.me].is_open()
    }

    /// The same of any seat.
    #[inline]
    pub fn is_any_open(&self) -> bool {
        self.lines.iter().any(|line| line.is_open())
    }

    /// Does a piece of this seat's oldest job that has one; false if there is none.
    pub fn work(&mut self, work: impl FnOnce(&mut P)) -> bool {
        self.lines[self.me].work(work).is_some()
    }

    /// Does a piece for another seat, the next that has one; `None` if none has.
    pub fn help(&mut self, mut work: impl FnMut(&mut P)) -> Option<Helped> {
        let count = self.lines.len();
        let mut others = (1..count).map(|distance| (self.me + distance) % count);
        others.find_map(|owner| {
            let is_joined = self.lines[owner].work(&mut work)?;
            Some(Helped { owner, is_joined })
        })
    }
}

impl<P> fmt::Debug for Seat<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Seat")
            .field("me", &self.me)
            .field("posted", &self.posted)
            .field("oldest", &self.oldest)
            .finish_non_exhaustive()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn back<P: Send>(seat: &mut Seat<P>) -> Option<Vec<P>> {
        let mut pieces = Vec::new();
        seat.take_back(|piece| pieces.push(piece)).then_some(pieces)
    }

    #[test]
    fn jobs_come_back_whole_and_in_order_whoever_did_the_pieces() {
        let mut seats = seats::<u32>(3, 2, 3);
        let [owner, one, two] = &mut seats[..] else {
            panic!("three seats")
        };
        let mut next = 0;
        let mut oldest = 0;
        // Long enough for every place to be used again and again.
        for round in 0..50 {
            while owner.room() > 0 {
                owner.post((0..1 + next % 3).map(|_| next));
                next += 1;
            }
            assert_eq!(back(owner), None);
            let helped = one.help(|piece| *piece += 1000).unwrap();
            assert_eq!(helped.owner, 0);
            while two.help(|piece| *piece += 1000).is_some() && round % 2 == 0 {}
            while owner.work(|piece| *piece += 1000) {}
            assert!(!one.is_any_open() && one.help(|_| ()).is_none());
            while let Some(pieces) = back(owner) {
                assert_eq!(pieces, vec![1000 + oldest; 1 + oldest as usize % 3]);
                oldest += 1;
            }
            assert_eq!(oldest, next);
        }
    }

    #[test]
    fn whoever_does_the_last_piece_is_told() {
        let mut seats = seats::<()>(2, 1, 2);
        let [owner, other] = &mut seats[..] else {
            panic!("two seats")
        };
        owner.post([(), ()].into_iter());
        assert!(owner.is_open() && other.is_any_open() && !other.is_open());
        let told = |helped: Option<Helped>| helped.map(|helped| helped.is_joined);
        assert_eq!(told(other.help(|()| ())), Some(false));
        assert!(!owner.is_joined());
        assert_eq!(told(other.help(|()| ())), Some(true));
        assert!(owner.is_joined() && !owner.is_open());
        assert_eq!(told(other.help(|()| ())), None);
        assert_eq!(owner.room(), 0);
        assert!(owner.take_back(|()| ()) && owner.room() == 1);
    }

    #[test]
    fn a_piece_that_panics_is_never_joined_and_stops_nobody() {
        let mut seats = seats::<u8>(1, 2, 2);
        let seat = &mut seats[0];
        seat.post([1, 2].into_iter());
        seat.post([3].into_iter());
        let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            seat.work(|_| panic!("planted"))
        }));
        assert!(outcome.is_err());
        assert!(seat.work(|_| ()) && seat.work(|_| ()) && !seat.work(|_| ()));
        assert!(!seat.is_joined() && back(seat).is_none());
    }
}

#[cfg(all(test, loom))]
mod model {
    use super::*;
    use crate::primitives::thread;

    /// Every piece is done once, by somebody, and whoever takes the job back sees all that was done; places are used again.
    #[test]
    fn pieces_are_done_once_and_joined() {
        loom::model(|| {
            let mut seats = seats::<u32>(2, 1, 2);
            let mut other = seats.pop().unwrap();
            let mut owner = seats.pop().unwrap();
            owner.post([1, 1].into_iter());
            let helper = thread::spawn(move || {
                let mut helped = 0;
                for _ in 0..2 {
                    helped += u32::from(other.help(|piece| *piece += 10).is_some());
                }
                helped
            });
            let mut done = 0;
            let mut jobs = 0;
            while owner.work(|piece| *piece += 10) {
                done += 1;
            }
            let mut back = |owner: &mut Seat<u32>| {
                let taken = owner.take_back(|piece| assert_eq!(piece, 11));
                jobs += u32::from(taken);
                taken
            };
            if back(&mut owner) {
                // The same place, while the other may still be looking at the job before.
                owner.post([1].into_iter());
                while owner.work(|piece| *piece += 10) {
                    done += 1;
                }
            }
            done += helper.join().unwrap();
            while back(&mut owner) {}
            assert_eq!(done, if jobs == 2 { 3 } else { 2 });
            assert!(jobs >= 1);
        });
    }

    /// The last to do a piece is told, and is only one.
    #[test]
    fn one_is_told_of_the_last_piece() {
        loom::model(|| {
            let mut seats = seats::<u32>(3, 1, 2);
            let mut owner = seats.remove(0);
            owner.post([0, 0].into_iter());
            let helpers: Vec<_> = seats
                .into_iter()
                .map(|mut seat| {
                    thread::spawn(move || match seat.help(|piece| *piece += 1) {
                        Some(helped) => {
                            assert_eq!(helped.owner, 0);
                            u32::from(helped.is_joined)
                        }
                        None => 0,
                    })
                })
                .collect();
            let told: u32 = (helpers.into_iter())
                .map(|helper| helper.join().unwrap())
                .sum();
            assert_eq!(told, 1);
            let mut sum = 0;
            assert!(owner.take_back(|piece| sum += piece));
            assert_eq!(sum, 2);
        });
    }
}
