//! The ACK field (RFC 9293 §3.10.7.4, fifth check; RFC 5961 §5).

use super::Segment;
use crate::recovery::Ack;
use crate::state::{State, Step};
use crate::{DropReason, Events, Payload, Tcb};
use braidnet_wire::tcp::{TcpFlags, TcpHeader};
use braidnet_wire::time::Instant;

impl<P: Payload> Tcb<P> {
    pub(super) fn check_ack(
        &mut self,
        now: Instant,
        segment: &mut Segment<'_, P>,
        events: &mut Events,
    ) -> Result<(), DropReason> {
        if !segment.has(TcpFlags::ACK) {
            return Err(DropReason::NoAck);
        }
        let opens = self.connection.state == State::SynReceived;
        if opens {
            self.check_handshake_ack(now, segment, events)?;
            if segment.header.ack == self.sender.snd_una && self.sender.flight_size() > 0 {
                // It was for our SYN only, and is no duplicate of any (RFC 7413 §4.2.2: data followed the SYN-ACK).
                return Ok(());
            }
        }
        self.check_ack_range(now, segment)?;
        if segment.header.ack.is_before(self.sender.snd_una) {
            self.take_overtaken_ack(now, segment);
            return Ok(());
        }
        self.take_ack(now, segment, opens, events);
        Ok(())
    }

    /// SYN-RECEIVED: an ACK of our SYN completes the handshake, any other is answered with a RST.
    fn check_handshake_ack(
        &mut self,
        now: Instant,
        segment: &Segment<'_, P>,
        events: &mut Events,
    ) -> Result<(), DropReason> {
        let ack = segment.header.ack;
        if !self.sender.is_of_handshake(ack) {
            self.refuse_ack(segment.header);
            return Err(DropReason::BadHandshakeAck);
        }
        self.connection.advance(now, Step::SynAcked);
        // Only a segment without SYN has its window scaled (RFC 7323 §2.3).
        let scaled = !segment.has(TcpFlags::SYN);
        let shift = if scaled {
            self.sender.snd_wind_shift
        } else {
            0
        };
        self.sender
            .start_window(segment.seq, ack, u32::from(segment.header.window) << shift);
        if segment.bare {
            self.connection.take_ecn_answer(segment.header);
        }
        if self.connection.early.is_none() {
            self.take_handshake_ack(segment.header, events);
        }
        self.complete_handshake(now, events);
        Ok(())
    }

    /// SND.UNA - MAX.SND.WND <= SEG.ACK <= SND.NXT (RFC 5961 §5), where SND.NXT includes what a probe has sent.
    fn check_ack_range(
        &mut self,
        now: Instant,
        segment: &Segment<'_, P>,
    ) -> Result<(), DropReason> {
        let ack = segment.header.ack;
        if ack.is_after(self.sender.snd_max) {
            self.challenge(now);
            return Err(DropReason::AckOfUnsent);
        }
        if ack.is_before(self.sender.snd_una - self.sender.max_snd_wnd) {
            self.challenge(now);
            return Err(DropReason::AckTooOld);
        }
        Ok(())
    }

    /// An ACK of long ago: its SACK blocks, and data that comes with it, are as good as any (RFC 6675 §5).
    fn take_overtaken_ack(&mut self, now: Instant, segment: &mut Segment<'_, P>) {
        let header = segment.header;
        let mut news = false;
        if self.connection.sack && header.sack_count > 0 {
            let ack = Ack {
                header,
                // It counts as a duplicate only by what its blocks say, and marks that it counts are old.
                bare: false,
                sack: true,
                marked: false,
                echo_age: self.echo_age(now, header),
            };
            let taken = self.sender.on_overtaken_ack(now, ack);
            if !taken.sane {
                segment.note(DropReason::BadSackBlock);
            }
            news = taken.news;
        }
        if segment.bare && !news {
            segment.note(DropReason::OldAck);
        }
    }

    /// How many milliseconds ago we sent the timestamp that a segment echoes, if it echoes one.
    fn echo_age(&self, now: Instant, header: &TcpHeader) -> Option<u32> {
        (self.connection.timestamps && header.ts_echo != 0)
            .then(|| self.connection.ts_value(now).wrapping_sub(header.ts_echo))
            // What we have not sent yet is no echo.
            .filter(|ticks| *ticks as i32 >= 0)
    }

    /// `opens`: it has ended the handshake, and acknowledges what has left before (RFC 7413 §4.2.2).
    fn take_ack(
        &mut self,
        now: Instant,
        segment: &mut Segment<'_, P>,
        opens: bool,
        events: &mut Events,
    ) {
        let header = segment.header;
        if header.flags.contains(TcpFlags::SYN) {
            // The SYN-ACK of a simultaneous open: its window is taken already, and is not to be scaled.
            return;
        }
        let acked_before = self.sender.acked();
        let ack = Ack {
            header,
            bare: segment.bare,
            sack: self.connection.sack,
            // Alone it says how our SYN-ACK came, and counts nothing (RFC 9768 §3.2.2.1).
            marked: !(opens && segment.bare && header.sack_count == 0)
                && self.connection.tells_of_marks(header),
            echo_age: self.echo_age(now, header),
        };
        let taken = self.sender.on_ack(now, ack);
        if !taken.sane {
            segment.note(DropReason::BadSackBlock);
        }
        if ack.marked && taken.news {
            self.connection.hear_of_marks(header);
        }
        let found = self.sender.path.take_found();
        if !found.is_empty() {
            *events |= found;
            self.follow_path(now);
        }
        if self.sender.acked() != acked_before {
            *events |= Events::ACKED;
        }
        if self.sender.is_fin_acked() {
            self.connection.advance(now, Step::FinAcked);
            if self.connection.state == State::Closed {
                self.end(events);
            }
        }
    }
}
