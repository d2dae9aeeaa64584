//! Which SYN cookies have opened a connection: one that comes again is no answer to anything any more.
//!
//! A cookie is good for two to three minutes, and nothing is kept of it meanwhile (RFC 4987 §3.6). An old ACK that comes late, or twice, would bring
//! it back when its connection is over, and open another that the peer knows nothing of; what three steps of a handshake are there to
//! prevent (RFC 9293 §3.5). So marks of those that were brought back are kept. Nobody can forge an address to get there, who brings a cookie back
//! having been sent it. With fewer than 30,000 connections in three minutes hardly a line runs over; a cookie whose mark is gone is good once more,
//! as if nothing were kept.

use super::marks::Marks;

/// The cookies that were brought back last, for all listeners of a stack.
///
/// All that one pair of ends sends is seen by one processor at a time.
#[derive(Default)]
pub(super) struct Spent(Marks);

impl Spent {
    /// Notes by its keyed hash a cookie that has opened a connection; so many are kept.
    pub(super) fn note(&self, cookie: u64, most: usize) {
        self.0.make(mark(cookie), most);
    }

    /// Whether it is among those that were noted last.
    pub(super) fn has(&self, cookie: u64) -> bool {
        self.0.has(cookie, |noted| noted == mark(cookie))
    }
}

/// 0 is no mark.
fn mark(cookie: u64) -> u64 {
    cookie.max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cookie_is_spent_once_it_is_noted() {
        let spent = Spent::default();
        for cookie in [0, 7, u64::MAX] {
            assert!(!spent.has(cookie));
            spent.note(cookie, 64);
            assert!(spent.has(cookie) && !spent.has(cookie ^ 1 << 32));
        }
    }
}
