//! Since when what brings a SYN cookie back is awaited: what follows it is let go for a while only.
//!
//! Of a flight whose first segment was lost, which brings the cookie back, or for which there was no room, the others are answered with a RST if they
//! are taken for what they look like, segments for nobody (RFC 9293 §3.10.7.2), and that would end an honest handshake. So what acknowledges a cookie
//! that these ends may have been given is dropped: its first segment comes again. But one stray segment in 170 looks the same by chance, and whoever
//! sends that to a connection that is gone, a FIN say, waits for an answer until his patience is over. So of each such cookie a mark is
//! kept, with the time when it was first acknowledged, and after [half a minute](PATIENCE) what acknowledges it is answered.
//!
//! By then who has something to bring has brought it, having tried six times and more (RFC 6298 §5), and who waits for an answer still does: nobody
//! should give up before a hundred seconds (RFC 9293 §3.8.3). A mark that is pushed out begins anew; so a flood of guesses, one in 170 of which leaves one,
//! may have a stray segment go without an answer for as long as it lasts, and nothing else. Nobody ends a handshake by it who does not know the cookie.

use super::marks::Marks;
use braidnet_wire::time::{Duration, Instant};
use core::sync::atomic::{AtomicU64, Ordering};

/// How long what follows a cookie is let go.
const PATIENCE: Duration = Duration::from_secs(30);
/// Bits of a mark that say when it was made, in seconds; the others are the hash's.
const TIME: u64 = 0xffff;
/// Of every mark, so that none is 0.
const MARKED: u64 = 1 << 63;

/// The cookies that were acknowledged last without being brought back, for all listeners of a stack.
#[derive(Default)]
pub(super) struct Awaited(Marks);

impl Awaited {
    /// Something acknowledges a cookie, known by its keyed hash, and does not bring it back: whether that may still come. So many are kept.
    pub(super) fn may_come(&self, cookie: u64, now: Instant, most: usize) -> bool {
        let made = |mark: &AtomicU64| mark.load(Ordering::Relaxed);
        let Some(mark) = self.0.find(cookie, |mark| is_of(mark, cookie), made) else {
            self.0.make(mark(cookie, now), most);
            return true;
        };
        // Processors' times differ, so that a mark may be younger than the present.
        let age = (seconds(now) as u16).wrapping_sub(mark as u16);
        i64::from(age as i16) <= PATIENCE.as_secs() as i64
    }

    /// It has been brought back; if there is no room for its connection, what follows it waits from now on.
    pub(super) fn has_come(&self, cookie: u64, now: Instant) {
        let renew = |place: &AtomicU64| place.store(mark(cookie, now), Ordering::Relaxed);
        let _ = self.0.find(cookie, |mark| is_of(mark, cookie), renew);
    }
}

fn mark(cookie: u64, now: Instant) -> u64 {
    MARKED | cookie & !TIME | seconds(now) & TIME
}

fn is_of(mark: u64, cookie: u64) -> bool {
    mark & !TIME == MARKED | cookie & !TIME
}

fn seconds(now: Instant) -> u64 {
    now.nanos() / 1_000_000_000
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(seconds: u64) -> Instant {
        Instant::ZERO + Duration::from_secs(seconds)
    }

    #[test]
    fn what_follows_is_let_go_for_half_a_minute() {
        for start in [0, 1, 65_520, 1 << 20] {
            for cookie in [0, 7 << 40, u64::MAX] {
                let awaited = Awaited::default();
                let may_come = |later| awaited.may_come(cookie, after(start + later), 64);
                for later in [0, 1, 29, 30] {
                    assert!(may_come(later), "{start} {later}");
                }
                for later in [31, 60, 200, 30_000] {
                    assert!(!may_come(later), "{start} {later}");
                }
                assert!(awaited.may_come(cookie ^ 1 << 40, after(start + 60), 64));
            }
        }
    }

    #[test]
    fn what_finds_no_room_is_waited_for_anew() {
        let awaited = Awaited::default();
        awaited.has_come(5, after(0));
        assert!(awaited.may_come(5, after(100), 64), "nothing had followed");
        awaited.has_come(5, after(120));
        assert!(awaited.may_come(5, after(150), 64));
        assert!(!awaited.may_come(5, after(151), 64));
    }

    #[test]
    fn a_mark_of_a_processor_that_is_ahead_is_no_old_one() {
        let awaited = Awaited::default();
        assert!(awaited.may_come(5, after(10), 64));
        assert!(awaited.may_come(5, after(9), 64));
    }
}
