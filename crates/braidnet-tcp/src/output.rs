//! What to transmit next: RSTs, the handshake, what is sent again, new data, acknowledgments, probes, in this order.
//!
//! An acknowledgment rides on data where it can. One that must be counted or carries SACK blocks goes alone and first.

use crate::recovery::Hole;
use crate::state::State;
use crate::{Payload, Tcb};
use braidnet_wire::seq::SeqNumber;
use braidnet_wire::tcp::{TcpFlags, TcpHeader};
use braidnet_wire::time::Instant;

/// A segment to transmit: its header, and which of the caller's bytes go into it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Transmit {
    /// All of the header but ports and checksum.
    pub header: TcpHeader,
    /// Where its data starts in what the caller has to send, counted from the first byte not released.
    pub offset: u32,
    /// Bytes of data, 0 for none.
    pub len: u32,
    /// Whether any of it was sent before.
    pub retransmission: bool,
}

impl<P: Payload> Tcb<P> {
    /// The next segment to transmit; to be called until there is none.
    ///
    /// For data, `cut(offset, max)` says how many bytes from `offset` on the segment is to hold, 1 to `max`, so that it may
    /// end where one of the caller's buffers does. Anything else is taken for the nearer end of that range.
    #[inline]
    pub fn poll_transmit<C>(&mut self, now: Instant, mut cut: C) -> Option<Transmit>
    where
        C: FnMut(u32, u32) -> u32,
    {
        if !self.connection.state.is_synchronized() {
            return self.poll_unsynchronized(now);
        }
        if self.receiver.bare_acks > 0 {
            return Some(self.bare_ack(now));
        }
        if self.sender.disordered
            && let Some(hole) = self.sender.next_lost()
        {
            return Some(self.again(now, hole, &mut cut));
        }
        let octets = self.sender.allowance(now);
        if octets > 0 {
            return Some(self.new_segment(now, octets, &mut cut));
        }
        self.poll_rest(now, &mut cut)
    }

    /// With no new data to send: what may be lost, a probe, an acknowledgment on its own.
    fn poll_rest<C: FnMut(u32, u32) -> u32>(
        &mut self,
        now: Instant,
        cut: &mut C,
    ) -> Option<Transmit> {
        if self.sender.disordered
            && let Some(hole) = self.sender.next_perhaps_lost()
        {
            return Some(self.again(now, hole, cut));
        }
        if self.sender.probe_due {
            self.sender.probe_due = false;
            if self.sender.flight_size() == 0 && self.sender.unsent() > 0 {
                return Some(self.probe(now, cut));
            }
        }
        if self.receiver.is_ack_due() {
            return Some(self.bare_ack(now));
        }
        if self.sender.must_persist() {
            self.sender.persist(now);
        }
        self.check_invariants();
        None
    }

    /// Before the handshake is over, and after the end.
    #[cold]
    fn poll_unsynchronized(&mut self, now: Instant) -> Option<Transmit> {
        if let Some(reset) = self.connection.reset.take() {
            let mut header = TcpHeader {
                seq: reset.seq,
                flags: TcpFlags::RST,
                ..TcpHeader::default()
            };
            if reset.with_ack {
                header.flags = TcpFlags::RST.union(TcpFlags::ACK);
                header.ack = self.receiver.rcv_nxt;
            }
            return Some(Transmit {
                header,
                offset: 0,
                len: 0,
                retransmission: false,
            });
        }
        match self.connection.state {
            State::SynSent | State::SynReceived if self.connection.handshake_due => {
                Some(self.handshake(now))
            }
            State::SynReceived if self.receiver.ack_now => Some(self.bare_ack(now)),
            _ => None,
        }
    }

    /// Our SYN or SYN-ACK with what we offer, or agree to (RFC 9293 §3.7.1, RFC 7323 §2.2 and §3.2, RFC 2018 §2).
    fn handshake(&mut self, now: Instant) -> Transmit {
        let connection = &mut self.connection;
        let again = connection.handshakes_sent > 0;
        connection.handshakes_sent = connection.handshakes_sent.saturating_add(1);
        connection.handshake_due = false;
        let config = &connection.config;
        let mut header = TcpHeader {
            seq: self.sender.iss,
            flags: TcpFlags::SYN,
            window: connection.announced_in_syn as u16,
            present: TcpHeader::HAS_MSS,
            mss: connection.mss,
            ..TcpHeader::default()
        };
        let (mut scale, mut sack, mut timestamps) =
            (config.window_scale, config.sack, config.timestamps);
        if connection.state == State::SynReceived {
            scale &= connection.peer_scales;
            sack = connection.sack;
            timestamps = connection.timestamps;
            header.flags = TcpFlags::SYN.union(TcpFlags::ACK);
            header.ack = self.receiver.rcv_nxt;
            header.ts_echo = self.receiver.ts_recent;
            header.window = self.receiver.announce_unscaled();
        }
        if scale {
            header.present |= TcpHeader::HAS_WINDOW_SCALE;
            header.window_scale = config.wanted_shift();
        }
        if sack {
            header.present |= TcpHeader::HAS_SACK_PERMITTED;
        }
        if timestamps {
            header.present |= TcpHeader::HAS_TIMESTAMPS;
            header.ts_value = connection.ts_value(now);
        } else {
            header.ts_echo = 0;
        }
        self.sender.on_handshake_sent(now, again);
        Transmit {
            header,
            offset: 0,
            len: 0,
            retransmission: again,
        }
    }

    /// New sequence numbers from SND.NXT on, the FIN perhaps among them.
    #[inline(always)]
    fn new_segment<C: FnMut(u32, u32) -> u32>(
        &mut self,
        now: Instant,
        octets: u32,
        cut: &mut C,
    ) -> Transmit {
        let seq = self.sender.snd_nxt;
        let (offset, len, fin) = self.fill(seq, octets, cut);
        // A probe may have been here before.
        let retransmission = seq.is_before(self.sender.snd_max);
        self.sender.on_sent(now, len + u32::from(fin));
        Transmit {
            header: self.data_header(now, seq, len, fin),
            offset,
            len,
            retransmission,
        }
    }

    /// Sequence numbers once more.
    #[inline(never)]
    fn again<C: FnMut(u32, u32) -> u32>(
        &mut self,
        now: Instant,
        hole: Hole,
        cut: &mut C,
    ) -> Transmit {
        let (offset, len, fin) = self.fill(hole.start, hole.octets, cut);
        self.sender
            .on_retransmitted(now, hole, len + u32::from(fin));
        Transmit {
            header: self.data_header(now, hole.start, len, fin),
            offset,
            len,
            retransmission: true,
        }
    }

    /// What the persist timer sends: as much as a silly window takes, or one sequence number past a closed one
    /// (RFC 9293 §3.8.6.1). That one is not in flight: SND.NXT stays, so that our ACKs stand where the peer expects them.
    #[cold]
    fn probe<C: FnMut(u32, u32) -> u32>(&mut self, now: Instant, cut: &mut C) -> Transmit {
        if self.sender.snd_wnd > 0 {
            let octets = self.sender.unsent().min(self.sender.snd_wnd);
            return self.new_segment(now, octets, cut);
        }
        let seq = self.sender.snd_nxt;
        let (offset, len, fin) = self.fill(seq, 1, cut);
        let retransmission = self.sender.snd_max != seq;
        self.sender.on_probe_sent();
        Transmit {
            header: self.data_header(now, seq, len, fin),
            offset,
            len,
            retransmission,
        }
    }

    /// What a segment of at most `octets` sequence numbers from `seq` on holds: offset and length of its data, and
    /// whether the FIN.
    #[inline(always)]
    fn fill<C: FnMut(u32, u32) -> u32>(
        &self,
        seq: SeqNumber,
        octets: u32,
        cut: &mut C,
    ) -> (u32, u32, bool) {
        let sender = &self.sender;
        let left = sender.data_end() - seq;
        let max = octets.min(left).min(self.connection.smss);
        let offset = seq - sender.queue_front;
        let len = if max > 0 {
            cut(offset, max).clamp(1, max)
        } else {
            0
        };
        let fin = sender.fin_queued && len == left && octets > len;
        (offset, len, fin)
    }

    /// The header of a segment from `seq` on. What ends the data there is to send is pushed (RFC 9293 §3.9.1, MUST-60).
    #[inline]
    fn data_header(&mut self, now: Instant, seq: SeqNumber, len: u32, fin: bool) -> TcpHeader {
        let mut flags = TcpFlags::ACK.0;
        if len > 0 && seq + len == self.sender.data_end() {
            flags |= TcpFlags::PSH.0;
        }
        if fin {
            flags |= TcpFlags::FIN.0;
        }
        self.header(now, seq, TcpFlags(flags))
    }

    /// An acknowledgment alone, with SACK blocks if data is held out of order (RFC 2018 §4).
    #[inline(never)]
    fn bare_ack(&mut self, now: Instant) -> Transmit {
        let mut header = self.header(now, self.sender.snd_nxt, TcpFlags::ACK);
        let receiver = &mut self.receiver;
        if self.connection.sack {
            receiver.bare_acks = 0;
            // Forty bytes of options hold four blocks, or three beside timestamps.
            let max = if self.connection.timestamps { 3 } else { 4 };
            for (place, block) in header
                .sack
                .iter_mut()
                .zip(receiver.reassembly.sack_blocks(max))
            {
                *place = block;
                header.sack_count += 1;
            }
        } else {
            receiver.bare_acks = receiver.bare_acks.saturating_sub(1);
        }
        Transmit {
            header,
            offset: 0,
            len: 0,
            retransmission: false,
        }
    }

    /// A header with everything that each segment after the handshake carries.
    #[inline]
    fn header(&mut self, now: Instant, seq: SeqNumber, flags: TcpFlags) -> TcpHeader {
        let mut header = TcpHeader {
            seq,
            ack: self.receiver.rcv_nxt,
            window: self.receiver.announce(),
            flags,
            ..TcpHeader::default()
        };
        if self.connection.timestamps {
            header.present = TcpHeader::HAS_TIMESTAMPS;
            header.ts_value = self.connection.ts_value(now);
            header.ts_echo = self.receiver.ts_recent;
        }
        header
    }
}
