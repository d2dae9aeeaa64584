//! The states of a connection (RFC 9293 §3.3.2) and what moves it from one to the next.

use core::fmt;

/// A state of RFC 9293 §3.3.2. LISTEN is not among them: a listener has no connection yet.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(u8)]
pub enum State {
    /// No connection.
    Closed,
    /// Our SYN waits for the peer's.
    SynSent,
    /// Both SYNs are there; ours is not acknowledged.
    SynReceived,
    /// Data may flow both ways.
    Established,
    /// We have closed; our FIN is not acknowledged.
    FinWait1,
    /// We have closed and the peer knows.
    FinWait2,
    /// The peer has closed.
    CloseWait,
    /// Both have closed at once; our FIN is not acknowledged.
    Closing,
    /// The peer closed, then we; our FIN is not acknowledged.
    LastAck,
    /// Both are done; old segments are waited for.
    TimeWait,
}

/// What moves a connection from one state to another.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Step {
    /// SYN-SENT: the peer's SYN came without an ACK of ours (simultaneous open).
    SynTaken,
    /// Our SYN is acknowledged and the peer's is there.
    SynAcked,
    /// The user closes.
    Close,
    /// The peer's FIN is in order.
    FinTaken,
    /// Our FIN is acknowledged.
    FinAcked,
}

impl State {
    /// Every state.
    pub const ALL: [State; 10] = [
        State::Closed,
        State::SynSent,
        State::SynReceived,
        State::Established,
        State::FinWait1,
        State::FinWait2,
        State::CloseWait,
        State::Closing,
        State::LastAck,
        State::TimeWait,
    ];

    /// The state after `step` (RFC 9293 figure 5), or the same where the step means nothing.
    pub(crate) const fn after(self, step: Step) -> State {
        match (self, step) {
            (State::SynSent, Step::SynTaken) => State::SynReceived,
            (State::SynSent | State::SynReceived, Step::SynAcked) => State::Established,
            (State::SynSent, Step::Close) => State::Closed,
            (State::Established, Step::Close) => State::FinWait1,
            (State::CloseWait, Step::Close) => State::LastAck,
            (State::Established, Step::FinTaken) => State::CloseWait,
            (State::FinWait1, Step::FinTaken) => State::Closing,
            (State::FinWait2, Step::FinTaken) => State::TimeWait,
            (State::FinWait1, Step::FinAcked) => State::FinWait2,
            (State::Closing, Step::FinAcked) => State::TimeWait,
            (State::LastAck, Step::FinAcked) => State::Closed,
            (state, _) => state,
        }
    }

    /// Whether both SYNs are acknowledged (RFC 9293 §4, "synchronized").
    pub const fn is_synchronized(self) -> bool {
        !matches!(self, State::Closed | State::SynSent | State::SynReceived)
    }

    /// Whether the peer may still send data.
    pub(crate) const fn takes_text(self) -> bool {
        matches!(self, State::Established | State::FinWait1 | State::FinWait2)
    }

    /// Whether the user may still send data, which waits for the handshake if need be.
    pub const fn may_send(self) -> bool {
        matches!(
            self,
            State::SynSent | State::SynReceived | State::Established | State::CloseWait
        )
    }

    /// The RFC's spelling.
    pub const fn name(self) -> &'static str {
        match self {
            State::Closed => "CLOSED",
            State::SynSent => "SYN-SENT",
            State::SynReceived => "SYN-RECEIVED",
            State::Established => "ESTABLISHED",
            State::FinWait1 => "FIN-WAIT-1",
            State::FinWait2 => "FIN-WAIT-2",
            State::CloseWait => "CLOSE-WAIT",
            State::Closing => "CLOSING",
            State::LastAck => "LAST-ACK",
            State::TimeWait => "TIME-WAIT",
        }
    }
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use State::*;

    /// RFC 9293 figure 5 over all states and steps; `_` stands for "stays".
    #[test]
    fn every_state_and_step() {
        let steps = [
            Step::SynTaken,
            Step::SynAcked,
            Step::Close,
            Step::FinTaken,
            Step::FinAcked,
        ];
        let table = [
            (Closed, [Closed, Closed, Closed, Closed, Closed]),
            (
                SynSent,
                [SynReceived, Established, Closed, SynSent, SynSent],
            ),
            // A close waits here until the handshake is over (RFC 9293 §3.10.4).
            (
                SynReceived,
                [
                    SynReceived,
                    Established,
                    SynReceived,
                    SynReceived,
                    SynReceived,
                ],
            ),
            (
                Established,
                [Established, Established, FinWait1, CloseWait, Established],
            ),
            (FinWait1, [FinWait1, FinWait1, FinWait1, Closing, FinWait2]),
            (FinWait2, [FinWait2, FinWait2, FinWait2, TimeWait, FinWait2]),
            (
                CloseWait,
                [CloseWait, CloseWait, LastAck, CloseWait, CloseWait],
            ),
            (Closing, [Closing, Closing, Closing, Closing, TimeWait]),
            (LastAck, [LastAck, LastAck, LastAck, LastAck, Closed]),
            (TimeWait, [TimeWait, TimeWait, TimeWait, TimeWait, TimeWait]),
        ];
        assert_eq!(table.map(|(state, _)| state), State::ALL);
        for (state, after) in table {
            assert_eq!(steps.map(|step| state.after(step)), after, "{state}");
        }
    }
}
