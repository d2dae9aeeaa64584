//! What leaves of a train, and of the same segments one by one.

use crate::interface::Interface;
use crate::notes::Departure;
use crate::offload::Offload;
use crate::tcp::locked::LockedTcp;
use crate::tcp::{HEADROOM, Tcp, TcpConfig, TcpLocks};
use crate::testing::{MTU, PEER, Stack, US, ethernet_interface, ip_interface};
use braidnet_message::{Message, Run};
use braidnet_stream::{Context, Direction, Module, Stages};
use braidnet_sync::lock::LockKind;
use braidnet_wire::address::{Address, Tuple};
use braidnet_wire::ipv4::MIN_HEADER_LEN;
use braidnet_wire::seq::SeqNumber;
use braidnet_wire::tcp::{TcpFlags, TcpHeader};
use proptest::prelude::*;

/// TCP's order-free part on the way down, alone.
struct After(Box<dyn Module>);

impl Module for After {
    fn name(&self) -> &'static str {
        "tcp"
    }

    fn stages(&self) -> Stages {
        Stages::AFTER_DOWN
    }

    fn counters(&self) -> &'static [&'static str] {
        self.0.counters()
    }

    fn after(&self, direction: Direction, run: &mut Run, cx: &mut Context<'_>) {
        self.0.after(direction, run, cx);
    }
}

fn stack(interface: Interface, offload: Offload) -> Stack {
    stack_locked(interface, offload, TcpLocks::One)
}

fn stack_locked(interface: Interface, offload: Offload, locks: TcpLocks) -> Stack {
    Stack::with(interface, |flows| {
        let config = TcpConfig {
            engine: braidnet_tcp::Config::default(),
            mtu: MTU,
            connections_per_bucket: 1,
            listening: Default::default(),
            fast_opening: Default::default(),
            isn_secret: [1, 2],
        };
        let tcp = Tcp::new(config, flows).offloading(offload);
        After(match locks {
            TcpLocks::One => Box::new(tcp),
            _ => Box::new(LockedTcp::new(tcp, locks, LockKind::Mcs)),
        })
    })
}

/// Bytes of a stream that were copied in, their sum known or not.
fn payload(stack: &mut Stack, bytes: &[u8], summed: bool) -> Message {
    let mut message = stack.pool().allocate(HEADROOM, bytes.len()).unwrap();
    assert_eq!(message.extend_from_slice_summed(bytes), bytes.len());
    if !summed {
        message.set_sum(None);
    }
    message
}

fn bytes(len: usize, seed: usize) -> Vec<u8> {
    (0..len).map(|i| (i * 31 + i / 251 + seed) as u8).collect()
}

#[derive(Clone, Debug)]
struct Case {
    segment: usize,
    full: usize,
    last: usize,
    header: TcpHeader,
    summed: bool,
    /// A view that others share, as the queue of what may be sent again has it.
    shared: bool,
    /// How many segments lie in one block, but for the first.
    together: usize,
}

impl Case {
    fn tuple(remote: Address) -> Tuple {
        Tuple {
            local: US,
            remote,
            local_port: 7,
            remote_port: 40_000,
        }
    }

    fn lengths(&self) -> impl Iterator<Item = usize> {
        core::iter::repeat_n(self.segment, self.full).chain([self.last])
    }

    /// The segments one by one, whose headers the engine would make so.
    fn singles(&self, stack: &mut Stack, remote: Address) -> Vec<Message> {
        let end = TcpFlags::PSH.0 | TcpFlags::FIN.0;
        let mut offset = 0;
        let mut singles = Vec::new();
        for (number, len) in self.lengths().enumerate() {
            let mut header = self.header;
            header.seq += offset;
            if number < self.full {
                header.flags = TcpFlags(header.flags.0 & !end);
            }
            let mut message = payload(stack, &bytes(len, number), self.summed);
            let tuple = Case::tuple(remote);
            message.set_note(Departure {
                tuple,
                header,
                ..Departure::default()
            });
            singles.push(message);
            offset += len as u32;
        }
        singles
    }

    /// The train, and what is kept of it with its bytes.
    fn train(&self, stack: &mut Stack, remote: Address) -> (Message, Vec<(Message, Vec<u8>)>) {
        let segments: Vec<Vec<u8>> = self
            .lengths()
            .zip(0..)
            .map(|(len, seed)| bytes(len, seed))
            .collect();
        let (first, others) = segments.split_at(1);
        let pieces = first.chunks(1).chain(others.chunks(self.together));
        let mut kept = Vec::new();
        let mut blocks = Vec::new();
        for piece in pieces {
            let bytes = piece.concat();
            let mut block = payload(stack, &bytes, self.summed);
            if self.shared || piece.len() > 1 {
                let view = if piece.len() > 1 {
                    block.share_range(0, bytes.len(), stack.pool())
                } else {
                    block.share_with_headroom(stack.pool())
                };
                kept.push((core::mem::replace(&mut block, view.unwrap()), bytes));
            }
            blocks.push(block);
        }
        let mut blocks = blocks.into_iter();
        let mut train = blocks.next().unwrap();
        blocks.for_each(|block| train.push_continuation(block));
        train.set_segment_bytes(self.segment as u32);
        let tuple = Case::tuple(remote);
        train.set_note(Departure {
            tuple,
            header: self.header,
            ..Departure::default()
        });
        (train, kept)
    }
}

/// What leaves of a run in which the train, or its segments, stand between others; and what was counted.
fn sent(
    case: &Case,
    as_train: bool,
    framed: bool,
    offload: Offload,
    locks: TcpLocks,
) -> Vec<Vec<u8>> {
    let (interface, remote) = if framed {
        // A group's station need not be asked for.
        (ethernet_interface(), Address::v4([10, 77, 0, 255]))
    } else {
        (ip_interface(), PEER)
    };
    let mut stack = stack_locked(interface.offloading(&[offload]), offload, locks);
    let other = Case {
        full: 0,
        segment: 3,
        last: 3,
        ..case.clone()
    };
    let mut run = other.singles(&mut stack, remote);
    let kept = if as_train {
        let (train, kept) = case.train(&mut stack, remote);
        run.push(train);
        kept
    } else {
        run.extend(case.singles(&mut stack, remote));
        Vec::new()
    };
    // It is dropped, and the run taken apart.
    run.extend(other.singles(&mut stack, US));
    run.extend(other.singles(&mut stack, remote));
    let sent = stack.send_run(run);
    for (kept, bytes) in &kept {
        assert_eq!(kept.bytes(), bytes, "what is kept is as it was");
    }
    assert_eq!(stack.count("ip", "to_ourselves"), 1);
    assert_eq!(stack.counted().len(), 1, "{:?}", stack.counted());
    sent
}

const OFFLOADS: [Offload; 4] = [
    Offload::Nothing,
    Offload::Checksums,
    Offload::Segments,
    Offload::LeftOut,
];

proptest! {
    #[test]
    fn a_train_leaves_as_its_segments_would(
        segment in prop_oneof![1usize..20, 500usize..=1448, Just(1448)],
        full in 0usize..40, last in 0.0..=1.0f64,
        (flags, seq, ack) in (any::<u8>(), any::<u32>(), any::<u32>()),
        timestamps in proptest::option::of(any::<[u32; 2]>()),
        (window, summed, shared) in (any::<u16>(), any::<bool>(), any::<bool>()),
        together in prop_oneof![Just(1usize), 2usize..50],
        framed in any::<bool>(),
        offload in prop::sample::select(&OFFLOADS[..]),
        locks in prop::sample::select(&TcpLocks::ALL[..]),
    ) {
        // A train holds data of an established connection.
        let never = TcpFlags::SYN.0 | TcpFlags::RST.0 | TcpFlags::URG.0;
        let header = TcpHeader {
            seq: SeqNumber::new(seq),
            ack: SeqNumber::new(ack),
            window,
            flags: TcpFlags(flags & !never | TcpFlags::ACK.0),
            present: timestamps.map_or(0, |_| TcpHeader::HAS_TIMESTAMPS),
            ts_value: timestamps.map_or(0, |[value, _]| value),
            ts_echo: timestamps.map_or(0, |[_, echo]| echo),
            ..TcpHeader::default()
        };
        let last = 1 + ((segment - 1) as f64 * last) as usize;
        // If it is one segment it says how long that is.
        let segment = if full == 0 { last } else { segment };
        let full = full.min(64_000 / segment);
        let case = Case { segment, full, last, header, summed, shared, together };
        let train = sent(&case, true, framed, offload, locks);
        // A device makes of either what is made here without one.
        let alone = if offload == Offload::LeftOut { offload } else { Offload::Nothing };
        let singles = sent(&case, false, framed, alone, TcpLocks::One);
        prop_assert_eq!(&sent(&case, false, framed, offload, locks), &singles);
        prop_assert_eq!(train.len(), full + 3);
        prop_assert_eq!(train, singles);
    }
}

fn plain(segment: usize, full: usize, last: usize) -> Case {
    let header = TcpHeader {
        flags: TcpFlags::ACK,
        ..TcpHeader::default()
    };
    Case {
        segment,
        full,
        last,
        header,
        summed: true,
        shared: true,
        together: 1,
    }
}

#[test]
fn what_a_device_cannot_carry_is_dropped_whole() {
    for (segment, counted) in [(MTU - 40, 0), (MTU - 39, 1)] {
        let mut stack = stack(ip_interface(), Offload::Nothing);
        let (train, _kept) = plain(segment, 3, 9).train(&mut stack, PEER);
        assert_eq!(stack.send_run(vec![train]).len(), 4 - 4 * counted);
        assert_eq!(stack.count("ip", "above_mtu"), 4 * counted as u64);
    }
}

#[test]
fn a_segment_without_room_for_headers_has_them_in_a_block_apart() {
    let mut stack = stack(ip_interface(), Offload::Nothing);
    let (mut train, _kept) = plain(100, 3, 9).train(&mut stack, PEER);
    let rest = train.take_continuation().unwrap();
    let cramped = stack.pool().copy_from_slice(0, &[7; 100]).unwrap();
    train.push_continuation(cramped);
    train.push_continuation(rest);
    let sent = stack.send_run(vec![train]);
    assert_eq!(sent.len(), 5);
    assert_eq!(sent[1][40..], [7; 100]);
}

#[test]
fn without_buffers_segments_of_one_block_are_dropped_and_the_others_leave() {
    let mut stack = stack(ip_interface(), Offload::Nothing);
    let case = Case {
        together: 4,
        ..plain(100, 6, 9)
    };
    let (train, _kept) = case.train(&mut stack, PEER);
    let mut all = Vec::new();
    while let Some(buffer) = stack.pool().allocate(0, 1) {
        all.push(buffer);
    }
    assert_eq!(stack.send_run(vec![train]).len(), 1, "the first has room");
    assert_eq!(stack.count("ip", "no_buffer"), 6);
}

#[test]
fn without_buffers_the_first_segment_does_not_end_what_the_last_would() {
    for locks in TcpLocks::ALL {
        let mut stack = stack_locked(ip_interface(), Offload::Nothing, locks);
        let mut case = Case {
            together: 7,
            ..plain(100, 6, 9)
        };
        case.header.flags = TcpFlags::ACK.union(TcpFlags::PSH).union(TcpFlags::FIN);
        let (train, _kept) = case.train(&mut stack, PEER);
        let mut all = Vec::new();
        while let Some(buffer) = stack.pool().allocate(0, 1) {
            all.push(buffer);
        }
        let sent = stack.send_run(vec![train]);
        assert_eq!(sent.len(), 1, "{locks:?}: the first has room");
        let flags = TcpFlags(sent[0][MIN_HEADER_LEN + 13]);
        assert_eq!(flags, TcpFlags::ACK, "{locks:?}");
    }
}
