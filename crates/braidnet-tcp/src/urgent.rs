//! Urgent data (RFC 9293 §3.8.5, RFC 6093): a mark in the stream, up to which the sender would have it read without delay.
//!
//! Data stays where it is in the stream, as RFC 6093 §6 advises applications to ask for; all there is beside is where the mark
//! stands: at the byte after the last urgent one (RFC 6093 §4, MUST-62). A connection on which a mark is on its way goes without
//! header prediction.

use crate::{Events, Payload, Tcb};
use braidnet_wire::seq::SeqNumber;
use braidnet_wire::tcp::{TcpFlags, TcpHeader};

/// Points to `up` from a segment that stands before it; one that is further away than the field can say is pointed at later, by a
/// pointer as far as it goes (RFC 9293 §3.8.5).
pub(crate) fn point(header: &mut TcpHeader, up: SeqNumber) {
    const NEVER: u8 = TcpFlags::SYN.0 | TcpFlags::RST.0;
    if header.flags.0 & NEVER == 0 && header.seq.is_before(up) {
        header.flags.0 |= TcpFlags::URG.0;
        header.urgent = u16::try_from(up - header.seq).unwrap_or(u16::MAX);
    }
}

impl<P: Payload> Tcb<P> {
    /// SEND with the URGENT flag, of what was sent before (RFC 9293 §3.9.1.2): all that waits to be acknowledged is urgent, up to
    /// the last byte that there is now. Nothing if nothing waits, or the user has closed.
    pub fn mark_urgent(&mut self) {
        if self.connection.state.may_send() && self.sender.queued() > 0 {
            self.sender.snd_up = Some(self.sender.data_end());
            (self.sender.disordered, self.sender.couples) = (true, false);
        }
    }

    /// Where the urgent mark stands that [`Events::URGENT`] told of, counted from the end of what has been delivered: positive, and
    /// the data before it is still to come, or not.
    pub fn urgent_mark(&self) -> i32 {
        self.receiver.urgent_mark
    }

    /// Sixth check (RFC 9293 §3.10.7.4): RCV.UP moves on to what the segment points to, unless that is here already. A pointer
    /// past the data is one to data that is still to come, and 0, or one without data, is no less (HOSTILE-INPUT 10).
    pub(crate) fn check_urgent(&mut self, header: &TcpHeader, events: &mut Events) {
        let mark = header.seq + u32::from(header.urgent);
        let receiver = &mut self.receiver;
        let is_news =
            mark.is_after(receiver.rcv_nxt) && receiver.rcv_up.is_none_or(|up| mark.is_after(up));
        if is_news && self.connection.state.takes_text() {
            receiver.rcv_up = Some(mark);
            receiver.refresh();
            *events |= Events::URGENT;
        }
    }

    /// Once the data before it has been delivered, a mark is its reader's affair.
    #[inline]
    pub(crate) fn pass_urgent(&mut self) {
        let receiver = &mut self.receiver;
        if let Some(up) = receiver.rcv_up {
            let end = receiver.rcv_nxt - u32::from(receiver.finished);
            receiver.urgent_mark = (up - end) as i32;
            if up.is_at_or_before(end) || receiver.finished {
                receiver.rcv_up = None;
                receiver.refresh();
            }
        }
    }
}

#[cfg(test)]
mod tests;
