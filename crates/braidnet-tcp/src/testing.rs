//! What the crate's tests share: a payload of bytes, a user at one end of a connection, numbers drawn by a seed, and one
//! end whose peer is the test.

use crate::{Config, DropReason, Events, Outlet, Payload, State, Tcb, Transmit};
use braidnet_wire::seq::SeqNumber;
use braidnet_wire::tcp::{SackBlock, TcpFlags, TcpHeader};
use braidnet_wire::time::{Duration, Instant};
use std::sync::Arc;

/// A payload that owns its bytes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Bytes(pub(crate) Vec<u8>);

impl Payload for Bytes {
    fn len(&self) -> usize {
        self.0.len()
    }

    fn trim_front(&mut self, n: usize) {
        self.0.drain(..n);
    }

    fn truncate(&mut self, n: usize) {
        assert!(n <= self.0.len());
        self.0.truncate(n);
    }
}

/// A segment on the wire.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Wire {
    pub(crate) header: TcpHeader,
    pub(crate) data: Vec<u8>,
}

/// One end: the engine, and a user who has `stream` to send and keeps what is received.
pub(crate) struct End {
    pub(crate) tcb: Tcb<Bytes>,
    /// All that was given to the engine.
    pub(crate) stream: Vec<u8>,
    /// Bytes of it that the engine has let go of.
    released: usize,
    pub(crate) received: Vec<u8>,
    /// Bytes of it that the user has taken.
    pub(crate) taken: usize,
    pub(crate) events: Events,
    pub(crate) drops: Vec<DropReason>,
    /// Longest piece that `cut` gives, as a caller with small buffers does.
    pub(crate) longest_cut: u32,
    /// Bytes of a train that it takes at most, and cuts.
    pub(crate) longest_train: u32,
    /// Whether trains are cut, or go over the wire whole.
    pub(crate) cuts_trains: bool,
    /// Segments and trains that were transmitted.
    pub(crate) transmitted: usize,
    /// Those that had been sent before.
    pub(crate) repeated: usize,
}

/// A device that takes trains.
struct Trains {
    longest_cut: u32,
    longest_train: u32,
    /// What was transmitted, and how long its first segment is.
    sent: Option<(Transmit, u32)>,
}

impl Outlet for Trains {
    /// How long the first segment is, and how much there is in all.
    type Data = (u32, u32);

    fn cut(&mut self, _: u32, max: u32) -> (u32, (u32, u32)) {
        let len = max.min(self.longest_cut);
        (len, (len, len))
    }

    fn couple(&mut self, (first, all): &mut (u32, u32), _: u32, max: u32, room: u32) -> u32 {
        let len = max.min(*first);
        let mut coupled = 0;
        while coupled + max <= room && *all + len <= self.longest_train {
            coupled += len;
            *all += len;
        }
        coupled
    }

    fn transmit(&mut self, segment: Transmit, data: Option<(u32, u32)>) {
        if let Some((_, all)) = data {
            assert_eq!(segment.len, all, "all that was coupled");
        }
        self.sent = Some((segment, data.map_or(0, |(first, _)| first)));
    }
}

impl End {
    pub(crate) fn new(tcb: Tcb<Bytes>) -> End {
        End {
            tcb,
            stream: Vec::new(),
            released: 0,
            received: Vec::new(),
            taken: 0,
            events: Events::empty(),
            drops: Vec::new(),
            longest_cut: u32::MAX,
            longest_train: 0,
            cuts_trains: true,
            transmitted: 0,
            repeated: 0,
        }
    }

    pub(crate) fn connect(config: &Config, iss: u32, now: Instant) -> End {
        End::new(Tcb::connect(
            &Arc::new(*config),
            SeqNumber::new(iss),
            1460,
            now,
        ))
    }

    pub(crate) fn accept(config: &Config, iss: u32, syn: &Wire, now: Instant) -> End {
        End::new(Tcb::accept(
            &Arc::new(*config),
            SeqNumber::new(iss),
            1460,
            &syn.header,
            now,
        ))
    }

    pub(crate) fn send(&mut self, data: &[u8]) {
        assert!(self.tcb.send(data.len() as u32));
        self.stream.extend_from_slice(data);
    }

    /// The user takes `bytes` of what is there.
    pub(crate) fn take(&mut self, bytes: usize) {
        let bytes = bytes.min(self.received.len() - self.taken);
        self.taken += bytes;
        self.tcb.receive(bytes as u32);
    }

    pub(crate) fn arrive(&mut self, now: Instant, wire: &Wire) -> Events {
        let mut sink = Vec::new();
        let payload = Bytes(wire.data.clone());
        let outcome = self
            .tcb
            .on_segment(now, &wire.header, Some(payload), &mut sink);
        self.received
            .extend(sink.into_iter().flat_map(|payload| payload.0));
        let acked = self.tcb.take_acked() as usize;
        assert_eq!(acked > 0, outcome.events.contains(Events::ACKED));
        self.released += acked;
        assert!(
            self.released <= self.stream.len(),
            "more acknowledged than sent"
        );
        self.events |= outcome.events;
        self.drops.extend(outcome.drop);
        outcome.events
    }

    pub(crate) fn poll(&mut self, now: Instant) -> Vec<Wire> {
        let mut trains = Trains {
            longest_cut: self.longest_cut,
            longest_train: self.longest_train,
            sent: None,
        };
        let mut out = Vec::new();
        let (due, before) = (self.tcb.is_transmit_due(), self.tcb.status());
        crate::info::tests::check(&before);
        let deadline = self.tcb.deadline();
        while self.tcb.transmit(now, &mut trains) {
            let (train, first) = trains.sent.take().expect("it was transmitted");
            self.transmitted += 1;
            self.repeated += usize::from(train.retransmission);
            let bytes = if self.cuts_trains { first } else { train.len };
            for transmit in train.segments(bytes) {
                let from = self.released + transmit.offset as usize;
                let data = if transmit.len == 0 {
                    Vec::new()
                } else {
                    self.stream[from..from + transmit.len as usize].to_vec()
                };
                out.push(Wire {
                    header: transmit.header,
                    data,
                });
            }
            assert!(out.len() < 100_000, "transmits without end");
        }
        if !due {
            assert!(out.is_empty(), "transmits what is not due");
            assert_eq!(before, self.tcb.status());
            assert_eq!(deadline, self.tcb.deadline());
        }
        out
    }

    pub(crate) fn expire(&mut self, now: Instant) -> Events {
        let events = self.tcb.on_deadline(now);
        self.events |= events;
        events
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.tcb.state() == State::Closed
    }
}

/// Numbers drawn by a seed (xorshift64*).
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Random {
        Random(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    /// 0 to `bound` - 1.
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 33) % bound
    }

    /// True `per_mille` times in a thousand.
    pub(crate) fn chance(&mut self, per_mille: u64) -> bool {
        self.below(1000) < per_mille
    }
}

pub(crate) const SYN: u8 = TcpFlags::SYN.0;
pub(crate) const ACK: u8 = TcpFlags::ACK.0;
pub(crate) const FIN: u8 = TcpFlags::FIN.0;
pub(crate) const RST: u8 = TcpFlags::RST.0;
pub(crate) const PSH: u8 = TcpFlags::PSH.0;
pub(crate) const URG: u8 = TcpFlags::URG.0;
pub(crate) const ECN: u8 = TcpFlags::ECE.0 | TcpFlags::CWR.0;

/// Our and the peer's initial sequence numbers: both streams wrap after their SYN.
pub(crate) const ISS: u32 = u32::MAX;
pub(crate) const IRS: u32 = u32::MAX - 3;
/// The window that we announce.
pub(crate) const WINDOW: u16 = 1000;

/// A segment by offsets: `seq` from the peer's first byte, `ack` from ours.
pub(crate) fn segment(flags: u8, seq: i32, ack: i32, len: usize) -> Wire {
    let header = TcpHeader {
        seq: SeqNumber::new(IRS.wrapping_add(1).wrapping_add_signed(seq)),
        ack: SeqNumber::new(ISS.wrapping_add(1).wrapping_add_signed(ack)),
        flags: TcpFlags(flags),
        window: 60000,
        ..TcpHeader::default()
    };
    Wire {
        header,
        data: vec![b'x'; len],
    }
}

/// What we sent, by offsets: flags, `seq` from our first byte, `ack` from the peer's, length.
pub(crate) type Reply = (u8, i32, i32, usize);

pub(crate) fn reply(wire: &Wire) -> Reply {
    let header = &wire.header;
    let offset = |seq: SeqNumber, start: u32| (seq - (SeqNumber::new(start) + 1)) as i32;
    let ack = if header.flags.contains(TcpFlags::ACK) {
        offset(header.ack, IRS)
    } else {
        0
    };
    (
        header.flags.0,
        offset(header.seq, ISS),
        ack,
        wire.data.len(),
    )
}

/// One end whose peer is the test.
pub(crate) struct Host {
    pub(crate) end: End,
    pub(crate) now: Instant,
}

impl Host {
    pub(crate) fn connect(config: &Config) -> Host {
        let now = Instant::from_millis(5000);
        let mut host = Host {
            end: End::connect(config, ISS, now),
            now,
        };
        assert_eq!(host.sent(), [(SYN, -1, 0, 0)]);
        host
    }

    pub(crate) fn accept(config: &Config, syn: &Wire) -> Host {
        let now = Instant::from_millis(5000);
        let mut host = Host {
            end: End::accept(config, ISS, syn, now),
            now,
        };
        assert_eq!(host.sent(), [(SYN | ACK, -1, 0, 0)]);
        host
    }

    pub(crate) fn plain() -> Config {
        Config {
            timestamps: false,
            sack: false,
            window_scale: false,
            silent_retransmissions: 0,
            receive_buffer_bytes: u32::from(WINDOW),
            ..Config::default()
        }
    }

    /// A connection in `state`, in which we have sent `in_flight` bytes that are not acknowledged.
    pub(crate) fn in_state(state: State, in_flight: usize) -> Host {
        let mut host = match state {
            State::SynSent => return Host::connect(&Host::plain()),
            _ => Host::accept(&Host::plain(), &segment(SYN, -1, 0, 0)),
        };
        if state == State::SynReceived {
            return host;
        }
        let now = host.now;
        assert_eq!(
            host.end.arrive(now, &segment(ACK, 0, 0, 0)),
            Events::CONNECTED
        );
        host.end.send(&vec![b'y'; in_flight]);
        host.sent();
        let flight = in_flight as i32;
        let steps: &[(bool, Option<Wire>)] = match state {
            State::FinWait1 => &[(true, None)],
            State::FinWait2 => &[(true, Some(segment(ACK, 0, flight + 1, 0)))],
            State::CloseWait => &[(false, Some(segment(FIN | ACK, 0, 0, 0)))],
            State::Closing => &[(true, Some(segment(FIN | ACK, 0, 0, 0)))],
            State::LastAck => &[(false, Some(segment(FIN | ACK, 0, 0, 0))), (true, None)],
            State::TimeWait => &[(true, Some(segment(FIN | ACK, 0, flight + 1, 0)))],
            _ => &[],
        };
        for (close, wire) in steps {
            if *close {
                host.end.tcb.close(now);
                host.sent();
            }
            if let Some(wire) = wire {
                host.end.arrive(now, wire);
                host.sent();
            }
        }
        assert_eq!(host.end.tcb.state(), state);
        host.end.drops.clear();
        host.end.events = Events::empty();
        host
    }

    pub(crate) fn arrive(&mut self, wire: &Wire) -> Events {
        self.end.arrive(self.now, wire)
    }

    pub(crate) fn sent(&mut self) -> Vec<Reply> {
        self.end.poll(self.now).iter().map(reply).collect()
    }

    pub(crate) fn wait(&mut self, duration: Duration) -> Events {
        self.now += duration;
        self.end.expire(self.now)
    }
}

/// A connection over which the peer takes segments of 1000 bytes, without timestamps, Nagle or delayed ACKs to think of.
pub(crate) fn thousand(config: &Config) -> Host {
    let mut syn = segment(SYN, -1, 0, 0);
    syn.header.mss = 1000;
    syn.header.present = TcpHeader::HAS_MSS | TcpHeader::HAS_SACK_PERMITTED;
    let mut host = Host::accept(config, &syn);
    host.arrive(&segment(ACK, 0, 0, 0));
    assert_eq!(host.sent(), []);
    host
}

/// The peer's ACK with SACK blocks, by offsets in our stream.
pub(crate) fn sack(ack: i32, blocks: &[(i32, i32)]) -> Wire {
    let mut wire = segment(ACK, 0, ack, 0);
    let at = |offset: i32| SeqNumber::new(ISS.wrapping_add(1).wrapping_add_signed(offset));
    wire.header.sack_count = blocks.len() as u8;
    for (place, &(left, right)) in wire.header.sack.iter_mut().zip(blocks) {
        *place = SackBlock {
            left: at(left),
            right: at(right),
        };
    }
    wire
}

/// The peer's ACK with a window in bytes.
pub(crate) fn window(ack: i32, bytes: u16) -> Wire {
    let mut wire = segment(ACK, 0, ack, 0);
    wire.header.window = bytes;
    wire
}

/// Where the segments begin that were sent.
pub(crate) fn starts(replies: &[Reply]) -> Vec<i32> {
    replies.iter().map(|reply| reply.1).collect()
}
