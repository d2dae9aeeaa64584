//! What must hold, by name.

use std::fmt;

/// The laws, each with a checker of its own.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Law {
    /// What is delivered is the other side's stream, in order, byte for byte, and its end comes once, after all of it (RFC 9293 §3.4).
    Bytes,
    /// A talk that nothing has befallen ends as its applications end it; one that something has befallen ends all the same.
    Ends,
    /// Nothing but single octets is sent beyond the right edge that the peer has announced (RFC 9293 §3.8.6).
    Window,
    /// No more is on the way than the congestion window allows, which grows by what is acknowledged, and is cut by what is lost or marked
    /// (RFC 5681 §3.1, RFC 6675 §5, RFC 3168 §6.1.2).
    Congestion,
    /// Congestion marks: nothing of them where it was not agreed on; new data alone may be marked, and who gets a mark tells of it
    /// (RFC 3168 §6.1, RFC 9768 §3).
    Ecn,
    /// The retransmission timeout follows the round trip, doubles, and does not come early (RFC 6298 §2, §5).
    Timeout,
    /// Something is brought about while the network lets packets through (RFC 9293 §3.8.1).
    Stall,
    /// What is kept stays within what was set.
    Memory,
    /// ACKs never go back, acknowledge nothing that was not sent, and come for every second full segment and within half a second
    /// (RFC 9293 §3.8.6.3).
    Acknowledgment,
    /// TIME-WAIT lasts as long as it should, unless a new connection takes its place (RFC 9293 §3.4.2, §3.6.1).
    TimeWait,
    /// Nothing is sent on a connection that has been reset (RFC 9293 §3.10.7.4).
    Reset,
    /// What was sent in an earlier incarnation, or is forged, and lies outside the window changes nothing (RFC 9293 §3.4.1, RFC 5961).
    Incarnation,
    /// Everything ends.
    Endless,
    /// Nothing panics.
    Panic,
}

/// A law that was broken, and how.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Violation {
    pub(crate) law: Law,
    pub(crate) detail: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {}", self.law, self.detail)
    }
}

pub(crate) type Verdict = Result<(), Violation>;

/// `holds`, or this law is broken.
pub(crate) fn demand(holds: bool, law: Law, detail: impl FnOnce() -> String) -> Verdict {
    if holds {
        return Ok(());
    }
    let detail = detail();
    Err(Violation { law, detail })
}
