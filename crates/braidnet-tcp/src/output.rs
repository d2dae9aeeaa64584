//! What to transmit next: RSTs, the handshake, what is sent again, new data, acknowledgments, probes, in this order.
//!
//! An acknowledgment rides on data where it can. One that must be counted or carries SACK blocks goes alone and first.

use crate::path::Turn;
use crate::recovery::Hole;
use crate::recovery::tail::Tail;
use crate::state::State;
use crate::{Payload, Tcb, ecn, urgent};
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
    /// Bytes of data, 0 for none; more than one segment's only where the outlet has [coupled](Outlet::couple) some.
    pub len: u32,
    /// Whether any of it was sent before.
    pub retransmission: bool,
}

impl Transmit {
    /// A segment without data that is sent for the first time.
    pub(crate) fn bare(header: TcpHeader) -> Transmit {
        Transmit {
            header,
            offset: 0,
            len: 0,
            retransmission: false,
        }
    }

    /// The segments of a train whose [outlet](Outlet::couple) has coupled segments of `bytes` bytes each; of a single
    /// segment, itself.
    pub fn segments(self, bytes: u32) -> impl Iterator<Item = Transmit> {
        let mut next = Some(self);
        core::iter::from_fn(move || {
            let mut segment = next.take()?;
            if segment.len > bytes {
                let mut rest = segment;
                rest.header.seq += bytes;
                rest.offset += bytes;
                rest.len -= bytes;
                rest.retransmission = false;
                segment.len = bytes;
                let end = TcpFlags::PSH.0 | TcpFlags::FIN.0;
                segment.header.flags.0 &= !end;
                next = Some(rest);
            }
            Some(segment)
        })
    }
}

/// Where segments to transmit go.
pub trait Outlet {
    /// The data of a segment, or a handle to it; what is asked for is handed back at once, with the segment's header.
    type Data;

    /// Data for a segment, from `offset` on: how many bytes, 1 to `max`, so that it may end where one of the caller's
    /// buffers does. Any other number is taken for the nearer end of that range.
    fn cut(&mut self, offset: u32, max: u32) -> (u32, Self::Data);

    /// The same for a segment that is to have `bytes` bytes, wherever buffers end: one by which is found out whether it arrives (RFC 4821).
    /// Where that cannot be, fewer do no harm.
    fn cut_whole(&mut self, offset: u32, bytes: u32) -> (u32, Self::Data) {
        self.cut(offset, bytes)
    }

    /// Couples the data of further segments to `data`, which makes them a train: one [`Transmit`] for consecutive segments,
    /// whose header is the first's, but that what it says of the end ([`TcpFlags::PSH`], [`TcpFlags::FIN`]) holds for the last.
    ///
    /// `offset` and `max` are as for [`cut`](Outlet::cut), which has given the first; how many bytes have been coupled. As long
    /// as `room` holds `max` bytes more than have been, another segment may be, of `max` bytes at most: of 3,500 bytes two of
    /// 1,460, and no third of the 580 that are left. All are as long as the first but the last, which may be shorter. 0 ends the
    /// train as it is: what is left goes on its own. Only new data of a connection without loss is ever offered, and only what
    /// could leave at once on its own.
    fn couple(&mut self, data: &mut Self::Data, offset: u32, max: u32, room: u32) -> u32 {
        let _ = (data, offset, max, room);
        0
    }

    /// Takes a segment. One that gets lost here is as good as lost on its way.
    fn transmit(&mut self, segment: Transmit, data: Option<Self::Data>);
}

impl<P: Payload> Tcb<P> {
    /// Whether [`transmit`](Tcb::transmit) is to be called: if not, it would give nothing and change nothing.
    #[inline]
    pub fn is_transmit_due(&self) -> bool {
        let (sender, receiver) = (&self.sender, &self.receiver);
        sender.unsent() > 0
            || sender.disordered
            || sender.probe_due
            || receiver.bare_acks > 0
            || receiver.is_ack_due()
            || !self.connection.state.is_synchronized()
    }

    /// Hands the next segment to transmit, or the next train of them, to `outlet`; to be called until it is false, which says that there was none.
    #[inline]
    pub fn transmit<O: Outlet>(&mut self, now: Instant, outlet: &mut O) -> bool {
        if self.is_orderly() {
            let octets = self.sender.allowance(now);
            if octets > 0 {
                self.transmit_new(now, octets, outlet);
                return true;
            }
        }
        self.transmit_other(now, outlet)
    }

    /// The next segment to transmit, for callers who would rather have it returned; `cut` is as in [`Outlet`].
    pub fn poll_transmit<C>(&mut self, now: Instant, cut: C) -> Option<Transmit>
    where
        C: FnMut(u32, u32) -> u32,
    {
        let mut polled = Polled { cut, segment: None };
        self.transmit(now, &mut polled);
        polled.segment
    }

    /// Hands on new sequence numbers from SND.NXT on: a segment, and what else may leave now as far as the outlet couples it.
    #[inline(always)]
    fn transmit_new<O: Outlet>(&mut self, now: Instant, octets: u32, outlet: &mut O) {
        let seq = self.sender.snd_nxt;
        debug_assert_eq!(seq, self.sender.snd_max, "a probe makes disorder");
        let filled = self.fill(seq, octets, outlet);
        self.sender.on_sent(now, filled.octets());
        if filled.last {
            let (segment, data) = self.segment(now, seq, filled, false);
            outlet.transmit(segment, data);
        } else {
            self.transmit_train(now, seq, filled, outlet);
        }
    }

    /// Whether new data goes before all else.
    #[inline]
    fn is_orderly(&self) -> bool {
        self.connection.state.is_synchronized()
            && self.receiver.bare_acks == 0
            && !self.sender.disordered
    }

    /// The same if it is not new data on an orderly connection.
    #[inline(never)]
    fn transmit_other<O: Outlet>(&mut self, now: Instant, outlet: &mut O) -> bool {
        let other = if self.is_orderly() {
            self.poll_rest(now, outlet)
        } else if self.transmit_beside_doubt(now, outlet) {
            return true;
        } else {
            self.poll_disorderly(now, outlet)
        };
        let Some((mut segment, data)) = other else {
            return false;
        };
        if let Some(up) = self.sender.snd_up {
            urgent::point(&mut segment.header, up);
        }
        outlet.transmit(segment, data);
        true
    }

    /// New data where only an answer is awaited, to a probe of the tail or to what was sent again before, and nothing in flight is lost: it leaves as on an orderly connection.
    #[inline]
    fn transmit_beside_doubt<O: Outlet>(&mut self, now: Instant, outlet: &mut O) -> bool {
        if !self.connection.state.is_synchronized()
            || self.receiver.bare_acks > 0
            || !self.sender.couples
            || self.sender.is_tail_due()
        {
            return false;
        }
        let octets = self.sender.allowance(now);
        if octets > 0 {
            self.transmit_new(now, octets, outlet);
        }
        octets > 0
    }

    #[inline(never)]
    fn poll_disorderly<O: Outlet>(&mut self, now: Instant, outlet: &mut O) -> Polling<O> {
        if !self.connection.state.is_synchronized() {
            return self.poll_unsynchronized(now, outlet);
        }
        if self.receiver.bare_acks > 0 {
            return Some((self.bare_ack(now), None));
        }
        if let Some(hole) = self.sender.next_lost(now) {
            return Some(self.again(now, hole, outlet));
        }
        if let Some(tail) = self.sender.take_tail_probe() {
            return Some(self.tail_probe(now, tail, outlet));
        }
        match self.sender.path_turn(now) {
            Some(Turn::Probe(bytes)) => return Some(self.path_probe(now, bytes, outlet)),
            Some(Turn::Wait) => return self.poll_rest(now, outlet),
            None => {}
        }
        // RFC 6675 §4, NextSeg rule 1: what is lost goes first, though something new is shorter and would fit. And what was found of the last that
        // left is not forgotten to make room for more.
        let flight = &self.sender.flight;
        if flight.lost() == 0 && flight.has_room() {
            let octets = self.sender.allowance(now);
            if octets > 0 {
                return Some(self.new_segment(now, octets, outlet));
            }
        }
        if let Some(hole) = self.sender.next_perhaps_lost(now) {
            return Some(self.again(now, hole, outlet));
        }
        self.poll_rest(now, outlet)
    }

    /// With no data to send: a probe, an acknowledgment on its own.
    #[inline]
    fn poll_rest<O: Outlet>(&mut self, now: Instant, outlet: &mut O) -> Polling<O> {
        if self.sender.probe_due {
            self.sender.probe_due = false;
            if self.sender.flight_size() == 0 && self.sender.unsent() > 0 {
                return Some(self.probe(now, outlet));
            }
            if let Some(header) = self.keepalive_probe(now) {
                return Some((Transmit::bare(header), None));
            }
        }
        if self.receiver.is_ack_due() {
            return Some((self.bare_ack(now), None));
        }
        if self.sender.must_persist() {
            self.sender.persist(now);
        }
        self.check_invariants();
        None
    }

    /// Before the handshake is over, and after the end.
    #[cold]
    fn poll_unsynchronized<O: Outlet>(&mut self, now: Instant, outlet: &mut O) -> Polling<O> {
        if let Some(reset) = self.connection.reset.take() {
            return Some((Transmit::bare(self.reset_header(now, reset)), None));
        }
        match self.connection.state {
            State::SynSent | State::SynReceived if self.connection.handshake_due => {
                return Some(self.handshake(now, outlet));
            }
            State::SynReceived => {}
            _ => return None,
        }
        if self.connection.early.is_some() {
            let octets = self.sender.allowance(now);
            if octets > 0 {
                return Some(self.early_segment(now, octets, outlet));
            }
        }
        (self.receiver.ack_now).then(|| (self.bare_ack(now), None))
    }

    /// New data behind our SYN-ACK, whose timer goes on (RFC 7413 §4.2.2).
    fn early_segment<O: Outlet>(&mut self, now: Instant, octets: u32, outlet: &mut O) -> Cut<O> {
        let sender = &self.sender;
        let timer = (sender.retransmit, sender.armed_at);
        let cut = self.new_segment(now, octets, outlet);
        (self.sender.retransmit, self.sender.armed_at) = timer;
        cut
    }

    /// Our SYN or SYN-ACK.
    fn handshake<O: Outlet>(&mut self, now: Instant, outlet: &mut O) -> Cut<O> {
        let connection = &mut self.connection;
        let again = connection.handshakes_sent > 0;
        match connection.state {
            State::SynSent if again => connection.ask_less_for_ecn(),
            _ if self.sender.unanswered > 1 => connection.ecn.agree_silently(),
            _ => {}
        }
        connection.handshakes_sent = connection.handshakes_sent.saturating_add(1);
        connection.handshake_due = false;
        let mut header = connection.syn(now);
        header.seq = self.sender.iss;
        if connection.state == State::SynReceived {
            header.flags = header.flags.union(TcpFlags::ACK);
            header.ack = self.receiver.rcv_nxt;
            header.window = self.receiver.announce_unscaled();
            if connection.timestamps {
                header.ts_echo = self.receiver.ts_recent;
            }
        }
        self.tell_user_timeout(&mut header);
        // Once more in the first segment that is no SYN: whoever answered with a cookie has forgotten it (RFC 5482 §3).
        self.connection.user_timeout.untold =
            self.connection.config.advertised_user_timeout.is_some();
        self.sender.on_handshake_sent(now, again);
        let header = self.put_fast_open(header);
        let room = self.room_on_syn(&header);
        let filled = self.fill(self.sender.snd_nxt, room, outlet);
        if filled.len > 0 {
            self.note_carried(filled.len);
        }
        let segment = Transmit {
            header,
            offset: filled.offset,
            len: filled.len,
            retransmission: again,
        };
        (segment, filled.data)
    }

    /// New sequence numbers from SND.NXT on, the FIN perhaps among them.
    #[inline(always)]
    fn new_segment<O: Outlet>(&mut self, now: Instant, octets: u32, outlet: &mut O) -> Cut<O> {
        let seq = self.sender.snd_nxt;
        let filled = self.fill(seq, octets, outlet);
        // A probe may have been here before.
        let retransmission = seq.is_before(self.sender.snd_max);
        self.sender.on_sent(now, filled.octets());
        self.sender.on_sent_in_recovery(filled.octets());
        let tells = self.sender.marks.cwr_due && filled.len > 0 && !retransmission;
        let (mut segment, data) = self.segment(now, seq, filled, retransmission);
        if tells {
            // RFC 3168 §6.1.2: the peer need not tell of it any more.
            self.sender.marks.cwr_due = false;
            segment.header.flags = segment.header.flags.union(TcpFlags::CWR);
        }
        (segment, data)
    }

    #[inline(never)]
    fn transmit_train<O: Outlet>(
        &mut self,
        now: Instant,
        seq: SeqNumber,
        mut filled: Filled<O::Data>,
        outlet: &mut O,
    ) {
        self.lengthen(now, &mut filled, outlet);
        let (segment, data) = self.segment(now, seq, filled, false);
        outlet.transmit(segment, data);
    }

    /// Couples segments to the one that is filled, as long as one more could leave on its own: windows and Nagle's rule see
    /// each of them. Full ones with more behind them are all alike; the last is looked at alone.
    #[inline]
    fn lengthen<O: Outlet>(&mut self, now: Instant, filled: &mut Filled<O::Data>, outlet: &mut O) {
        let segment = filled.len;
        let Some(data) = &mut filled.data else {
            return;
        };
        let pairs = self.connection.config.push_pairs;
        loop {
            let octets = self.sender.allowance(now);
            let left = self.sender.data_end() - self.sender.snd_nxt;
            let max = octets.min(left).min(self.connection.smss);
            if max == 0 {
                return;
            }
            let room = if left > max && !pairs {
                self.sender.room().min(left - 1).max(max)
            } else {
                max
            };
            let len = outlet.couple(data, filled.offset + filled.len, max, room);
            if len == 0 {
                return;
            }
            debug_assert!(len <= room);
            filled.len += len;
            filled.push = pairs;
            filled.last = len == left;
            filled.fin = self.sender.fin_queued && filled.last && octets > len;
            self.sender.on_sent(now, len + u32::from(filled.fin));
            if filled.last || len % segment != 0 || filled.push {
                return;
            }
        }
    }

    /// Sequence numbers once more.
    #[inline(never)]
    fn again<O: Outlet>(&mut self, now: Instant, hole: Hole, outlet: &mut O) -> Cut<O> {
        let filled = self.fill(hole.start, hole.octets, outlet);
        self.sender.on_retransmitted(now, hole, filled.octets());
        self.segment(now, hole.start, filled, true)
    }

    /// A probe of the tail (RFC 8985 §7.3).
    #[cold]
    fn tail_probe<O: Outlet>(&mut self, now: Instant, tail: Tail, outlet: &mut O) -> Cut<O> {
        let cut = match tail {
            Tail::New(octets) => self.new_segment(now, octets, outlet),
            Tail::Again(hole) => self.again(now, hole, outlet),
        };
        self.sender.on_tail_probe_sent(now, tail);
        cut
    }

    /// A segment that is longer than others, to find out whether it arrives (RFC 4821 §7). There is more behind it to send.
    #[cold]
    fn path_probe<O: Outlet>(&mut self, now: Instant, bytes: u32, outlet: &mut O) -> Cut<O> {
        let seq = self.sender.snd_nxt;
        let offset = seq - self.sender.queue_front;
        let (len, data) = outlet.cut_whole(offset, bytes);
        let filled = Filled {
            offset,
            len: len.clamp(1, bytes),
            data: Some(data),
            last: false,
            push: false,
            fin: false,
        };
        self.sender.on_sent(now, filled.len);
        self.sender.on_path_probe_sent(seq, filled.len);
        self.segment(now, seq, filled, false)
    }

    /// What the persist timer sends: as much as a silly window takes, or one sequence number past a closed one
    /// (RFC 9293 §3.8.6.1). That one is not in flight: SND.NXT stays, so that our ACKs stand where the peer expects them.
    #[cold]
    fn probe<O: Outlet>(&mut self, now: Instant, outlet: &mut O) -> Cut<O> {
        if self.sender.snd_wnd > 0 {
            let octets = self.sender.unsent().min(self.sender.snd_wnd);
            return self.new_segment(now, octets, outlet);
        }
        let seq = self.sender.snd_nxt;
        let filled = self.fill(seq, 1, outlet);
        let retransmission = self.sender.snd_max != seq;
        self.sender.on_probe_sent();
        let (mut segment, data) = self.segment(now, seq, filled, retransmission);
        // RFC 3168 §6.1.6: it may well be thrown away, and a mark with it.
        segment.header.present &= !TcpHeader::ECN;
        (segment, data)
    }

    /// Fills a segment of at most `octets` sequence numbers from `seq` on.
    #[inline(always)]
    fn fill<O: Outlet>(&self, seq: SeqNumber, octets: u32, outlet: &mut O) -> Filled<O::Data> {
        let sender = &self.sender;
        let left = sender.data_end() - seq;
        let max = octets.min(left).min(self.connection.smss);
        let offset = seq - sender.queue_front;
        let (len, data) = if max > 0 {
            let (len, data) = outlet.cut(offset, max);
            (len.clamp(1, max), Some(data))
        } else {
            (0, None)
        };
        Filled {
            offset,
            len,
            data,
            last: len == left,
            push: false,
            fin: sender.fin_queued && len == left && octets > len,
        }
    }

    /// The segment that is filled. What ends the data there is to send is pushed (RFC 9293 §3.9.1.2, MUST-61).
    #[inline(always)]
    fn segment<D>(
        &mut self,
        now: Instant,
        seq: SeqNumber,
        filled: Filled<D>,
        retransmission: bool,
    ) -> (Transmit, Option<D>) {
        let mut flags = TcpFlags::ACK.0;
        if (filled.last || filled.push) && filled.len > 0 {
            flags |= TcpFlags::PSH.0;
        }
        if filled.fin {
            flags |= TcpFlags::FIN.0;
        }
        let mut header = self.header(now, seq, TcpFlags(flags));
        if filled.len > 0 && !retransmission {
            header.present |= self.sender.marks.ecn;
        }
        let segment = Transmit {
            header,
            offset: filled.offset,
            len: filled.len,
            retransmission,
        };
        (segment, filled.data)
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
            // What arrived twice comes first, then what is held, the range that it is a part of before all (RFC 2883 §4).
            let twice = receiver.duplicate.take();
            let held = receiver.reassembly.sack_blocks(max);
            for (place, block) in header.sack[..max]
                .iter_mut()
                .zip(twice.into_iter().chain(held))
            {
                *place = block;
                header.sack_count += 1;
            }
        } else {
            receiver.bare_acks = receiver.bare_acks.saturating_sub(1);
        }
        if self.connection.user_timeout.untold {
            self.tell_user_timeout(&mut header);
        }
        if let Some(code) = self.connection.ecn.take_answer(header.sack_count) {
            ecn::put_count(&mut header, code);
        }
        Transmit::bare(header)
    }

    /// A header with everything that each segment after the handshake carries.
    #[inline]
    pub(crate) fn header(&mut self, now: Instant, seq: SeqNumber, flags: TcpFlags) -> TcpHeader {
        let mut header = TcpHeader {
            seq,
            ack: self.receiver.rcv_nxt,
            window: self.receiver.announce(),
            flags: flags.union(self.connection.ecn.flags),
            present: self.connection.ecn.ae,
            ..TcpHeader::default()
        };
        if self.connection.timestamps {
            header.present |= TcpHeader::HAS_TIMESTAMPS;
            header.ts_value = self.connection.ts_value(now);
            header.ts_echo = self.receiver.ts_recent;
        }
        header
    }
}

/// A segment and its data, on their way to an outlet.
type Cut<O> = (Transmit, Option<<O as Outlet>::Data>);

/// The same, if there is any.
type Polling<O> = Option<Cut<O>>;

/// What goes into a segment.
struct Filled<D> {
    /// Where its data starts, as in [`Transmit`].
    offset: u32,
    /// Bytes of data.
    len: u32,
    data: Option<D>,
    /// No data follows.
    last: bool,
    /// It is pushed even so.
    push: bool,
    /// The FIN is in it.
    fin: bool,
}

impl<D> Filled<D> {
    /// Sequence numbers that it takes.
    #[inline]
    fn octets(&self) -> u32 {
        self.len + u32::from(self.fin)
    }
}

/// The outlet of [`Tcb::poll_transmit`].
struct Polled<C> {
    cut: C,
    segment: Option<Transmit>,
}

impl<C: FnMut(u32, u32) -> u32> Outlet for Polled<C> {
    type Data = ();

    fn cut(&mut self, offset: u32, max: u32) -> (u32, ()) {
        ((self.cut)(offset, max), ())
    }

    fn transmit(&mut self, segment: Transmit, _: Option<()>) {
        self.segment = Some(segment);
    }
}
