//! What a caller-turned stack tells its owner.

use crate::error::CloseReason;
use crate::stack::Connection;

/// Something that happened to a connection of a [`Stack`](crate::Stack).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Event {
    /// A peer has connected to a port that is listened on. Taking this accepts the connection, and makes room for another to
    /// wait; of one that dies before, nothing is told.
    Accepted(Connection),
    /// A connection that was asked for is established.
    Connected(Connection),
    /// The peer calls data urgent, or more than it did before: [`Stack::urgent`](crate::Stack::urgent) says how far.
    Urgent(Connection),
    /// The peer has not answered several timeouts in a row (`silent_retransmissions` of the engine's configuration, 3 unless set). It may yet;
    /// if not, the connection will be closed for this reason.
    Silent(Connection, CloseReason),
    /// The peer has sent everything it will.
    EndOfData(Connection),
    /// The connection is gone. What it had received can still be read; then [forget](crate::Stack::forget) it.
    Closed(Connection, CloseReason),
}

impl Event {
    /// The connection that it happened to.
    pub fn connection(&self) -> Connection {
        match *self {
            Event::Accepted(connection)
            | Event::Connected(connection)
            | Event::Urgent(connection)
            | Event::Silent(connection, _)
            | Event::EndOfData(connection)
            | Event::Closed(connection, _) => connection,
        }
    }
}
