//! What is sent and received as messages, in the buffers that it is in.

use super::{Connection, Stack};
use crate::endpoint::Phase;
use crate::error::SendError;
use braidnet_inet::HEADROOM;
use braidnet_message::{Message, Scarcity};

impl Stack {
    /// An empty message for at most `size` bytes to send, with [`HEADROOM`] in front; `None` if the stack's memory is used up, but for what is kept
    /// to hear of what frees it, or no buffer is so long. What goes into one [segment](braidnet_tcp::TcpInfo::smss) travels in the buffer that it is in.
    ///
    /// ```
    /// use braidnet::device::{memory, Capabilities};
    /// use braidnet::{Stack, StackConfig};
    ///
    /// let (here, _there) = memory::wire(Capabilities::ip(1500), 64);
    /// let mut stack = Stack::new(&StackConfig::new("10.0.0.1".parse()?), here)?;
    /// let mut message = stack.allocate(1460).ok_or("no memory")?;
    /// assert_eq!(message.extend_from_slice_summed(b"hello"), 5);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn allocate(&mut self, size: usize) -> Option<Message> {
        let pool = self.cluster.pool();
        if pool.scarcity() != Scarcity::Ample {
            return None;
        }
        pool.withhold_reserve(true);
        let message = pool.allocate(HEADROOM, size);
        pool.withhold_reserve(false);
        message
    }

    /// Takes bytes off the front of a message to send them, as many as the connection's send buffer has room for, in the buffers that they are in; how
    /// many. What is left of the message stays there, nothing where all is taken; it can be taken when [`Stack::send_space`] has grown. The
    /// message may be from [here](Stack::allocate), from what was [received](Stack::receive_message), here or by another stack, or from any other
    /// pool; its buffers go back where they come from when the peer has acknowledged what is in them.
    ///
    /// Copied are only bytes of a block that has less than a fourth of its buffer, so that what waits for acknowledgments holds four times the
    /// send buffer's memory at most, and on a connection that holds back what does not fill a segment. Where memory is short, they are not either: it
    /// is freed by what leaves. As it leaves, so is a segment that begins a train in the middle of a block, for its headers to go in front.
    ///
    /// # Errors
    /// If the connection is not open for sending.
    pub fn send_message(
        &mut self,
        connection: Connection,
        message: &mut Option<Message>,
    ) -> Result<usize, SendError> {
        let Some(endpoint) = self.endpoints.get(connection) else {
            return Err(SendError::Gone);
        };
        if endpoint.state != Phase::Open {
            return endpoint.refuse();
        }
        let down = &mut self.down;
        let pool = self.cluster.pool();
        pool.withhold_reserve(true);
        let taken = endpoint.hand_over(message, pool, |block| down.push(block));
        pool.withhold_reserve(false);
        if !endpoint.listed {
            endpoint.listed = true;
            self.listed.push(connection);
        }
        Ok(taken)
    }

    /// Takes the next received message out whole, without copying.
    pub fn receive_message(&mut self, connection: Connection) -> Option<Message> {
        let endpoint = self.endpoints.get(connection)?;
        let message = endpoint.take()?;
        if !endpoint.listed {
            endpoint.listed = true;
            self.listed.push(connection);
        }
        Some(message)
    }
}
