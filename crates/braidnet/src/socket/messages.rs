//! What is sent and received as messages, without a copy.
//!
//! # What is taken of a message
//!
//! As of bytes, what there is room for: a message that is longer stays in its owner's hands with what is left of it, in an `Option` that is empty when all has
//! been taken. It is not all or nothing, because [readiness](super::Readiness) says that there is some room, never how much: who is woken by it always
//! gets on, also with a message that is longer than the send buffer. And whoever gives up waiting, by time or by dropping a future, still has all that was not taken.

use super::Sockets;
use super::error::SocketError;
use super::table::{Role, Socket};
use braidnet_inet::HEADROOM;
use braidnet_message::{MAX_BLOCK, Message};

impl Sockets {
    /// An empty message for at most `size` bytes to [send](Sockets::send_message), from the stack's memory, which it has until it is dropped or its bytes are
    /// acknowledged. What goes into one segment ([`TcpInfo::smss`](braidnet_tcp::TcpInfo::smss)) leaves in the buffer that it is in. What is longer leaves in trains of
    /// views; of a train that begins in the middle of it, the first segment is copied, as headers go in front of it.
    ///
    /// # Errors
    /// [`SocketError::NoMemory`] if the stack's is used up, but for what is kept to hear of what frees it; [`SocketError::Invalid`] if no buffer is so long.
    pub fn allocate(&mut self, size: usize) -> Result<Message, SocketError> {
        if self.table.is_down() {
            return Err(SocketError::Down);
        }
        if size > MAX_BLOCK - HEADROOM {
            return Err(SocketError::Invalid);
        }
        self.stack.allocate(size).ok_or(SocketError::NoMemory)
    }

    /// Takes bytes off the front of `message` to send them, as many as there is room for, in the buffers that they are in; how many. What is left of it stays
    /// there: nothing where all is taken. The message may be from anywhere, and its memory goes back there when its bytes are acknowledged
    /// ([`Stack::send_message`](crate::Stack::send_message)).
    ///
    /// Copied are bytes of a block that has less than a fourth of its buffer, those that travel with a SYN, and on a [corked](super::SocketOption::Cork)
    /// socket all; and as they leave, those of a segment that finds no room for its headers in front of it ([`allocate`](Sockets::allocate)).
    ///
    /// # Errors
    /// As [`send`](Sockets::send): nothing is taken then. [`SocketError::NotSupported`] of a socket of UDP.
    pub fn send_message(
        &mut self,
        socket: Socket,
        message: &mut Option<Message>,
    ) -> Result<usize, SocketError> {
        let entry = self.table.get(socket)?;
        match entry.role {
            Role::Opening(..) if entry.is_held && !entry.write_shut => {
                return self.start_with(socket, message);
            }
            Role::Datagrams(_) => return Err(SocketError::NotSupported),
            _ => {}
        }
        let is_nothing = (message.as_ref()).is_none_or(|message| message.total_len() == 0);
        self.send_by(socket, false, is_nothing, |stack, connection| {
            stack.send_message(connection, message)
        })
    }

    /// Begins the connection that a socket opens, with what of a message travels with the SYN; how many bytes.
    fn start_with(
        &mut self,
        socket: Socket,
        message: &mut Option<Message>,
    ) -> Result<usize, SocketError> {
        let blocks = message.iter().flat_map(Message::blocks);
        let first = blocks.into_iter().find(|block| !block.is_empty());
        let sent = self.start(socket, Some(first.unwrap_or_default()))?;
        if let Some(message) = message {
            message.strip(sent);
        }
        message.take_if(|message| message.total_len() == 0);
        Ok(sent)
    }

    /// Takes the next received bytes out whole, as they came, without copying them; `None` says that there will be no more. The message has its memory from
    /// the stack's until it is dropped.
    ///
    /// # Errors
    /// As [`recv`](Sockets::recv); [`SocketError::NotSupported`] of a socket of UDP.
    pub fn recv_message(&mut self, socket: Socket) -> Result<Option<Message>, SocketError> {
        let connection = match self.table.get(socket)?.role {
            Role::Open(connection, _) => connection,
            Role::Datagrams(_) => return Err(SocketError::NotSupported),
            // It says why there is none.
            _ => return self.receive(socket, &mut [0], false).map(|_| None),
        };
        if let Some(message) = self.stack.receive_message(connection) {
            return Ok(Some(message));
        }
        let nothing = self.stack.receive(connection, &mut [0]);
        self.or_why_not(socket, nothing).map(|_| None)
    }
}
