//! Which locks are taken for what, how often, and in which order.

use super::*;
use crate::tcp::TcpConfig;
use crate::testing::{self, MTU, PEER, Stack, US};
use braidnet_message::{Arena, Pool};
use braidnet_stream::ConnectionId;
use braidnet_sync::lock::{LockSnapshot, Metering, set_metering, set_rank_check};
use braidnet_wire::checksum::Sum;
use braidnet_wire::seq::SeqNumber;
use braidnet_wire::tcp::{self, PROTOCOL, TcpHeader};

const PORT: u16 = 7;

/// The classes that are counted here, as [`Counts`] has them.
const CLASSES: [LockClass; 5] = [
    LockClass::Reassembly,
    LockClass::Send,
    LockClass::Retransmission,
    LockClass::HeaderRemove,
    LockClass::HeaderPrepend,
];

/// Acquisitions of each class.
type Counts = [u64; 5];

fn stack(locks: TcpLocks) -> Stack {
    Stack::with(testing::ip_interface(), |flows| {
        let config = TcpConfig {
            engine: braidnet_tcp::Config::default(),
            mtu: MTU,
            connections_per_bucket: 4,
            listening: Default::default(),
            fast_opening: Default::default(),
            isn_secret: [3, 4],
        };
        let tcp = Tcp::new(config, flows);
        tcp.listeners().listen(None, PORT, 4).unwrap();
        LockedTcp::new(tcp, locks, LockKind::Mcs)
    })
}

/// A segment of the peer's, `at` bytes into its stream, which begins with the SYN at 0.
fn packet(at: u32, ack: u32, flags: TcpFlags, data: &[u8]) -> Vec<u8> {
    let header = TcpHeader {
        seq: SeqNumber::new(at),
        ack: SeqNumber::new(ack),
        window: 1000,
        flags,
        ..TcpHeader::default()
    };
    let len = tcp::MIN_HEADER_LEN + data.len();
    let mut segment = vec![0; tcp::MIN_HEADER_LEN];
    let rest = Sum::pseudo_header(&PEER, &US, PROTOCOL, len as u32) + Sum::of(data);
    tcp::emit_sealed(&header, 4000, PORT, rest, &mut segment);
    segment.extend_from_slice(data);
    testing::ipv4(PEER, US, PROTOCOL, &segment)
}

/// What `work` takes.
fn taken<R>(work: impl FnOnce() -> R) -> (R, Counts) {
    set_metering(Metering::Counts);
    let before = LockSnapshot::thread();
    let result = work();
    let after = LockSnapshot::thread();
    set_metering(Metering::Off);
    let counts = CLASSES.map(|class| (after - before).of(class).acquisitions);
    (result, counts)
}

#[test]
fn each_step_takes_what_it_needs() {
    // Handshake and what leaves for it; data, which waits for company; damaged; credit; data to send, which leaves.
    let rows: [(TcpLocks, [Counts; 6]); 3] = [
        (
            TcpLocks::Two,
            [
                [0, 2, 0, 0, 0],
                [0, 2, 0, 0, 0],
                [0, 2, 0, 0, 0],
                [0, 0, 0, 0, 0],
                [0, 1, 0, 0, 0],
                [0, 2, 0, 0, 0],
            ],
        ),
        (
            TcpLocks::Six,
            [
                [2, 2, 2, 1, 1],
                [2, 2, 2, 1, 0],
                [2, 2, 2, 1, 0],
                [0, 0, 0, 1, 0],
                [1, 1, 1, 0, 0],
                [1, 2, 2, 0, 1],
            ],
        ),
        (
            TcpLocks::SixRepaired,
            [
                [2, 2, 2, 1, 1],
                [2, 2, 2, 1, 0],
                [2, 2, 2, 1, 0],
                // A checksum that is made outside keeps what is damaged from the lock.
                [0, 0, 0, 0, 0],
                [1, 1, 1, 0, 0],
                [1, 2, 2, 0, 1],
            ],
        ),
    ];
    for (locks, expected) in rows {
        let mut stack = stack(locks);
        let (sent, syn) = taken(|| stack.receive(&packet(0, 0, TcpFlags::SYN, b"")));
        let iss = tcp::parse(&sent[0][20..]).unwrap().header.seq.value();
        let ack = iss.wrapping_add(1);
        let (_, established) = taken(|| stack.receive(&packet(1, ack, TcpFlags::ACK, b"")));
        let id = ConnectionId(stack.head()[0].connection());
        let (sent, data) = taken(|| stack.receive(&packet(1, ack, TcpFlags::ACK, b"data")));
        assert!(sent.is_empty());
        assert_eq!(stack.head()[0].bytes(), b"data");
        let mut damaged = packet(5, ack, TcpFlags::ACK, b"more");
        damaged[40] ^= 1;
        let (_, dropped) = taken(|| stack.receive(&damaged));
        assert_eq!(stack.count("tcp", "tcp_checksum_wrong"), 1);
        let tcp = stack.inet.layout.tcp;
        let credit = Control::new(Verb::Credit).value(4);
        let credit = credit.message(id, stack.pool()).unwrap();
        let (_, read) = taken(|| stack.send(tcp, credit));
        let mut answer = stack
            .pool()
            .copy_from_slice(crate::HEADROOM, b"answer")
            .unwrap();
        answer.set_kind(Kind::Data);
        answer.set_connection(id.0);
        answer.set_bucket(id.bucket().0);
        // A sum that is wrong: nobody who makes his own looks at it.
        answer.set_sum(Some(Sum(0x1234)));
        let (sent, written) = taken(|| stack.send(tcp, answer));
        let [sent] = &sent[..] else {
            panic!("one segment leaves")
        };
        let segment = &sent[20..];
        let pseudo = Sum::pseudo_header(&US, &PEER, PROTOCOL, segment.len() as u32);
        let is_own = (pseudo + Sum::of(segment)).is_valid();
        assert_eq!(is_own, locks == TcpLocks::Six, "{locks}");
        let counts = [syn, established, data, dropped, read, written];
        assert_eq!(counts, expected, "{locks}");
    }
}

#[test]
fn user_calls_need_what_they_touch() {
    let mut pool = Pool::new(&Arena::new(1 << 20));
    let id = ConnectionId::new(BucketId(1), 0, 0);
    let data = Needs::SEND | Needs::RETRANSMISSION;
    let rows = [
        (&[][..], false, Needs::empty()),
        (&[Verb::Credit], false, Needs::empty()),
        (&[Verb::Credit], true, data),
        (&[Verb::Credit, Verb::Close], false, Needs::all()),
        (&[Verb::Abort], true, Needs::all()),
        (&[Verb::Connect], false, Needs::all()),
    ];
    for (verbs, with_data, expected) in rows {
        let mut run: Run = verbs
            .iter()
            .map(|verb| Control::new(*verb).message(id, &mut pool).unwrap())
            .collect();
        if with_data {
            run.push(pool.copy_from_slice(0, b"data").unwrap());
        }
        assert_eq!(Needs::of_calls(&run), expected, "{verbs:?}");
    }
}

/// The ranks of their classes are checked: whoever takes one out of order is refused.
#[test]
fn locks_are_taken_in_one_order_and_given_back() {
    set_rank_check(true);
    let rows = [
        (Needs::all(), [true, true, true]),
        (Needs::SEND | Needs::RETRANSMISSION, [false, true, true]),
        (Needs::SEND, [false, true, false]),
        (Needs::empty(), [false, false, false]),
    ];
    for (kind, (needs, expected)) in LockKind::all()
        .into_iter()
        .flat_map(|kind| rows.map(|row| (kind, row)))
    {
        let perimeter = Lock::new(kind, LockClass::Connection, ());
        let locks = Locks::new(TcpLocks::Six, kind);
        let are_held = || {
            let is_held = |(_, lock): &(Needs, Lock<()>)| lock.try_with(|()| ()).is_none();
            locks.inner.iter().map(is_held).collect::<Vec<_>>()
        };
        let mut held = Vec::new();
        perimeter.with(|()| hold(&locks.inner, needs, &mut || held = are_held()));
        assert_eq!(held, expected, "{kind}");
        assert_eq!(are_held(), [false; 3], "{kind}");
    }
}
