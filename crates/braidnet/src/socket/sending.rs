//! What is sent, and what holds it back: a cork, and what has not left yet.

use super::error::SocketError;
use super::table::{Role, Socket};
use super::{CORKED_FOR, Sockets};
use crate::error::SendError;
use crate::stack::{Connection, Stack};
use core::mem;

/// What a socket takes at once however little may wait unsent: as Linux, which fills the buffer that it has begun.
const LEAST_ROOM: u32 = 64 << 10;

impl Sockets {
    /// Takes bytes to send, as many as there is room for; how many. On a datagram socket they are one datagram to whom it is connected with.
    ///
    /// # Errors
    /// [`SocketError::WouldBlock`] if there is room for none; what has befallen the connection, the first time, then
    /// [`SocketError::BrokenPipe`]. [`SocketError::InProgress`] if a connection begins by it that has [waited](super::SocketOption::FastOpenConnect) for
    /// data, and none are taken; else as many are as travel with the SYN.
    pub fn send(&mut self, socket: Socket, bytes: &[u8]) -> Result<usize, SocketError> {
        self.write(socket, bytes, false)
    }

    /// The same, with the promise of more: what does not fill a segment is held back until that comes, or for as long as a
    /// [corked](super::SocketOption::Cork) socket would (`MSG_MORE`).
    ///
    /// # Errors
    /// As [`send`](Sockets::send).
    pub fn send_more(&mut self, socket: Socket, bytes: &[u8]) -> Result<usize, SocketError> {
        self.write(socket, bytes, true)
    }

    /// As [`send`](Sockets::send). Where all are taken, a record ends with them: what is sent later never shares a segment with them, and the last is pushed
    /// (`MSG_EOR`). Not of what travels with a SYN.
    ///
    /// # Errors
    /// As [`send`](Sockets::send).
    pub fn send_record(&mut self, socket: Socket, bytes: &[u8]) -> Result<usize, SocketError> {
        let sent = self.send(socket, bytes)?;
        if sent > 0
            && sent == bytes.len()
            && let Role::Open(connection, _) = self.table.get(socket)?.role
        {
            self.stack.end_record(connection);
        }
        Ok(sent)
    }

    fn write(&mut self, socket: Socket, bytes: &[u8], more: bool) -> Result<usize, SocketError> {
        let entry = self.table.get(socket)?;
        match entry.role {
            Role::Opening(..) if entry.is_held && !entry.write_shut => {
                return self.start(socket, Some(bytes));
            }
            Role::Datagrams(_) => return self.send_datagram(socket, bytes),
            _ => {}
        }
        let send = |stack: &mut Stack, connection| stack.send(connection, bytes);
        self.send_by(socket, more, bytes.is_empty(), send)
    }

    /// Has `send` take what is to be sent on an open connection, which is nothing or not; how many bytes.
    #[inline]
    pub(super) fn send_by(
        &mut self,
        socket: Socket,
        more: bool,
        is_nothing: bool,
        send: impl FnOnce(&mut Stack, Connection) -> Result<usize, SendError>,
    ) -> Result<usize, SocketError> {
        let entry = self.table.get(socket)?;
        let connection = match entry.role {
            Role::Opening(..) if entry.write_shut => return Err(SocketError::BrokenPipe),
            Role::Opening(..) => return Err(SocketError::WouldBlock),
            Role::Open(connection, _) if entry.error.is_none() && !entry.write_shut => connection,
            _ => return Err(entry.error.take().unwrap_or(SocketError::BrokenPipe)),
        };
        let corked = entry.options.cork || more;
        let low_water = entry.options.engine.not_sent_low_water;
        self.stack.hold_back(connection, corked);
        let withheld = match low_water {
            0 => 0,
            _ => self.withhold(connection, low_water)?,
        };
        let sent = send(&mut self.stack, connection);
        if withheld > 0 {
            self.stack.give_room_back(connection, withheld);
        }
        match sent {
            Ok(0) if !is_nothing => Err(SocketError::WouldBlock),
            Ok(sent) => {
                if corked && self.stack.is_holding_back(connection) {
                    self.hold_back(socket);
                }
                Ok(sent)
            }
            Err(SendError::Closing | SendError::Gone) => Err(SocketError::BrokenPipe),
        }
    }

    /// Leaves only the room that there is while less than [`low_water`](super::SocketOption::NotSentLowWater) waits unsent; how much is to be given back.
    fn withhold(&mut self, connection: Connection, low_water: u32) -> Result<u32, SocketError> {
        match self.stack.room_below(connection, low_water) {
            0 => Err(SocketError::WouldBlock),
            room => Ok(self.stack.withhold_room(connection, room.max(LEAST_ROOM))),
        }
    }

    /// A corked socket holds something back. Since when, the next turn says: the time of the last may be long past.
    fn hold_back(&mut self, socket: Socket) {
        if let Ok(entry) = self.table.get(socket)
            && !mem::replace(&mut entry.holds_back, true)
        {
            self.newly_corked.push(socket);
        }
    }

    /// Lets go of what corked sockets have held back for long enough, and notes when those will have that do so since the last turn.
    pub(super) fn uncork_due(&mut self) {
        self.uncork();
        let until = self.now + CORKED_FOR;
        let newly = self.newly_corked.drain(..);
        self.corked.extend(newly.map(|socket| (until, socket)));
    }

    fn uncork(&mut self) {
        while let Some((at, socket)) = self.corked.first().copied()
            && at <= self.now
        {
            self.corked.pop_first();
            if let Ok(entry) = self.table.get(socket)
                && let Some(connection) = entry.connection()
            {
                let corked = entry.options.cork;
                entry.holds_back = false;
                self.stack.cork(connection, false);
                self.stack.hold_back(connection, corked);
            }
        }
    }
}
