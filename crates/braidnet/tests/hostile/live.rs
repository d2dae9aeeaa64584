//! Limits that change while a stack is under attack: what is there stays, what comes is refused by name until it fits.

use crate::packet::{SYN, Segment, arp, fragment, frame, icmp_error, ipv4, udp};
use crate::rig::{BACKLOG, CLOSED_PORT, EVIL, NARROW_PORT, PORT, Rig, TARGET};
use braidnet::device::{Capabilities, memory};
use braidnet::inet::tcp::TcpParts;
use braidnet::inet::{ErrorRate, Reassembly, Resolution};
use braidnet::socket::{SocketError, Sockets};
use braidnet::tcp::FastOpen;
use braidnet::{
    BindError, Connection, DatagramPorts, Duration, Limits, MemoryParts, Stack, StackConfig,
};
use std::net::SocketAddr;

const UDP: u8 = 17;

fn limits() -> Limits {
    StackConfig::new(TARGET.into()).limits()
}

fn syn(port: u16, to: u16) -> Segment {
    Segment::new((EVIL, port), (TARGET, to)).flags(SYN)
}

#[test]
fn fewer_and_more_connections() {
    for ethernet in [false, true] {
        // One bucket for all, which has room for sixteen; the friend is the first.
        let mut rig = Rig::with(ethernet, |config| {
            config.buckets = 2;
            config.connections = 0;
            config.tcp.fast_open = FastOpen::Listen;
        });
        let mut ends: Vec<Connection> =
            (0..15).map(|n| rig.connect_from(4000 + n, &[]).1).collect();
        let refused = |rig: &mut Rig, port: u16| {
            let before = rig.count("tcp.table_full");
            // A cookie of Fast Open that leaves with no SYN-ACK is not counted.
            let asks = syn(port, PORT).options(&[34, 2, 1, 1]);
            assert_eq!(rig.segment(&asks).len(), 0);
            assert_eq!(rig.count("tcp.fast_open_cookies"), 0);
            assert_eq!(rig.count("tcp.table_full"), before + 1);
            rig.assert_undisturbed();
        };
        refused(&mut rig, 5000);
        let more = Limits {
            connections: 8,
            ..limits()
        };
        rig.target.set_limits(&more).unwrap();
        ends.extend((0..6).map(|n| rig.connect_from(5000 + n, &[]).1));
        let fewer = Limits {
            connections: 0,
            ..limits()
        };
        rig.target.set_limits(&fewer).unwrap();
        refused(&mut rig, 6000);
        let all = ends.iter().map(|end| rig.target.tuple(*end));
        assert!(all.flatten().count() == 21, "all of them are still there");
        // Of twenty-two, seven must go before there is room for another.
        for end in ends.drain(..6) {
            rig.hang_up(end);
        }
        refused(&mut rig, 6000);
        rig.hang_up(ends[0]);
        rig.introduce();
        rig.connect_from(6001, &[]);
        refused(&mut rig, 6002);
    }
}

#[test]
fn less_and_more_memory() {
    for ethernet in [false, true] {
        let mut rig = Rig::new(ethernet);
        rig.target.bind(53).unwrap();
        let query = udp((EVIL, 4000), (TARGET, 53), b"who?");
        let (_, end) = rig.connect_from(4001, &[]);
        let (used, opened) = (rig.target.used_bytes(), rig.count("tcp.opened"));
        for round in 1..=2 {
            let none = Limits {
                memory_bytes: 1000,
                ..limits()
            };
            rig.target.set_limits(&none).unwrap();
            for n in 0..10 {
                assert_eq!(rig.segment(&syn(5000 + n, PORT)).len(), 0);
                assert_eq!(rig.attack(std::slice::from_ref(&query)).len(), 0);
            }
            assert_eq!(rig.count("tcp.no_memory"), 10 * round);
            assert_eq!(rig.count("udp.receive_queue_full"), 10 * round);
            rig.assert_undisturbed();
            assert!(rig.target.tuple(end).is_some());
            assert_eq!(rig.target.used_bytes(), used, "nothing is taken");
            rig.target.set_limits(&limits()).unwrap();
            let (_, end) = rig.connect_from(6000 + round as u16, &[]);
            assert_eq!(rig.count("tcp.opened"), opened + round);
            rig.attack(std::slice::from_ref(&query));
            let mut heard = [0; 8];
            let received = rig.target.receive_from(53, &mut heard).unwrap();
            assert_eq!(&heard[..received.copied], b"who?");
            rig.hang_up(end);
            rig.introduce();
        }
    }
}

/// The first half of a datagram, and the second.
fn halves(number: u8) -> [Vec<u8>; 2] {
    let mut packet = ipv4(EVIL, TARGET, UDP, &[0; 1024]);
    packet[5] = number;
    let (first, second) = (packet[..20 + 512].to_vec(), packet[20 + 512..].to_vec());
    let mut rest = packet[..20].to_vec();
    rest.extend(second);
    let sized = |mut part: Vec<u8>, offset, more| {
        let len = (part.len() as u16).to_be_bytes();
        part[2..4].copy_from_slice(&len);
        fragment(part, offset, more)
    };
    [sized(first, 0, true), sized(rest, 512, false)]
}

#[test]
fn less_and_more_of_fragments() {
    for ethernet in [false, true] {
        let mut rig = Rig::new(ethernet);
        let with = |bytes: usize, seconds: u64| {
            let mut changed = limits();
            changed.reassembly.bytes = bytes;
            changed.reassembly.lifetime = Duration::from_secs(seconds);
            changed
        };
        let [first, second] = halves(1);
        rig.attack(std::slice::from_ref(&first));
        // What is held stays until another needs room, of which there is none.
        rig.target.set_limits(&with(100, 30)).unwrap();
        assert_eq!(rig.count("fragments.source_full"), 0);
        rig.attack(&[halves(2)[0].clone()]);
        assert_eq!(rig.count("fragments.source_full"), 2);
        rig.assert_undisturbed();
        rig.target.set_limits(&with(1 << 20, 30)).unwrap();
        rig.attack(&[first.clone(), second]);
        assert_eq!(rig.count("fragments.reassembled"), 1);
        // A shorter life counts for what is held as well, once its table is looked at.
        rig.attack(std::slice::from_ref(&first));
        rig.target.set_limits(&with(1 << 20, 1)).unwrap();
        rig.attack(&[halves(3)[0].clone()]);
        rig.pass(Duration::from_secs(2));
        assert_eq!(rig.count("fragments.timed_out"), 2);
        // And so does a longer one.
        rig.introduce();
        rig.attack(&[halves(4)[0].clone()]);
        rig.target.set_limits(&with(1 << 20, 60)).unwrap();
        rig.pass(Duration::from_secs(50));
        assert_eq!(rig.count("fragments.timed_out"), 2);
        rig.pass(Duration::from_secs(15));
        assert_eq!(rig.count("fragments.timed_out"), 3);
        rig.assert_undisturbed();
    }
}

#[test]
fn cookies_that_are_forbidden_and_allowed_again() {
    let mut rig = Rig::with(false, |config| config.listening.syn_cookies = false);
    let mut port = 1024;
    let mut ask = |rig: &mut Rig| {
        port += 1;
        rig.segment(&syn(port, NARROW_PORT)).len()
    };
    let answered: usize = (0..=BACKLOG).map(|_| ask(&mut rig)).sum();
    assert_eq!(answered, BACKLOG as usize);
    assert_eq!(rig.count("tcp.syn_queue_full"), 1);
    rig.target.set_limits(&limits()).unwrap();
    assert_eq!((ask(&mut rig), rig.count("tcp.cookies_sent")), (1, 1));
    let mut slow = limits();
    slow.listening.syn_cookies_per_second = 0;
    rig.target.set_limits(&slow).unwrap();
    assert_eq!((ask(&mut rig), rig.count("tcp.cookies_limited")), (0, 1));
    slow.listening.syn_cookies = false;
    rig.target.set_limits(&slow).unwrap();
    assert_eq!((ask(&mut rig), rig.count("tcp.syn_queue_full")), (0, 2));
    rig.assert_undisturbed();
}

#[test]
fn fewer_and_more_sockets() {
    let (here, _there) = memory::wire(Capabilities::ip(1500), 16);
    let mut sockets = Sockets::new(&StackConfig::new(TARGET.into()), here).unwrap();
    let at_most = |sockets: &mut Sockets, most: usize| {
        sockets
            .set_limits(&Limits {
                sockets: most,
                ..limits()
            })
            .unwrap();
    };
    let open: Vec<_> = (0..3).map(|_| sockets.socket().unwrap()).collect();
    at_most(&mut sockets, 2);
    assert_eq!(sockets.socket(), Err(SocketError::TooMany));
    assert!(open.iter().all(|one| sockets.readiness(*one).is_ok()));
    at_most(&mut sockets, 4);
    assert!(sockets.socket().is_ok());
    assert_eq!(sockets.socket(), Err(SocketError::TooMany));
    assert_eq!(sockets.counters().get("socket.table_full"), Some(&2));
}

#[test]
fn fewer_and_more_neighbours() {
    let mut rig = Rig::new(true);
    let at_most = |rig: &mut Rig, neighbours: usize| {
        let mut changed = limits();
        changed.resolution.neighbours = neighbours;
        rig.target.set_limits(&changed).unwrap();
    };
    let ask = |rig: &mut Rig, n: u8| {
        let (station, address) = ([2, 1, 0, 0, 0, n], [10, 77, 0, 100 + n]);
        let request = arp(1, (station, address), ([0; 6], TARGET));
        rig.inject_frame(&frame(station, [0xff; 6], 0x0806, &request));
        rig.settle();
        rig.captured.clear();
    };
    // With the friend and the attacker there are ten.
    (0..8).for_each(|n| ask(&mut rig, n));
    at_most(&mut rig, 4);
    assert_eq!(rig.count("arp.evicted"), 0, "all of them stay");
    ask(&mut rig, 8);
    assert_eq!(rig.count("arp.evicted"), 7);
    ask(&mut rig, 9);
    assert_eq!(rig.count("arp.evicted"), 8);
    rig.assert_undisturbed();
    let evicted = rig.count("arp.evicted");
    at_most(&mut rig, 100);
    (10..60).for_each(|n| ask(&mut rig, n));
    assert_eq!(rig.count("arp.evicted"), evicted);
    rig.assert_undisturbed();
}

#[test]
fn fewer_and_more_packets_that_wait_for_neighbours() {
    let mut rig = Rig::new(true);
    rig.target.bind(5000).unwrap();
    let say = |rig: &mut Rig, times: usize| {
        for _ in 0..times {
            let nobody = SocketAddr::from(([10, 77, 0, 200], 9));
            rig.target.send_to(5000, nobody, b"anybody?").unwrap();
        }
        rig.settle();
        rig.count("arp.waiting_full")
    };
    let at_most = |rig: &mut Rig, waiting: usize, waiting_in_all: usize| {
        let mut changed = limits();
        changed.resolution.waiting = waiting;
        changed.resolution.waiting_in_all = waiting_in_all;
        rig.target.set_limits(&changed).unwrap();
    };
    assert_eq!(say(&mut rig, 20), 4);
    at_most(&mut rig, 4, 512);
    assert_eq!(say(&mut rig, 1), 4 + 13);
    at_most(&mut rig, 100, 10);
    assert_eq!(say(&mut rig, 8), 17 + 2);
    at_most(&mut rig, 100, 512);
    assert_eq!(say(&mut rig, 50), 19);
    rig.pass(Duration::from_secs(5));
    assert_eq!(rig.count("arp.host_unreachable"), 60);
    rig.assert_undisturbed();
}

#[test]
fn slower_and_faster_errors() {
    let mut rig = Rig::new(false);
    let mut errors = |per_second: u32, burst: u32| {
        let mut changed = limits();
        changed.icmp_errors = ErrorRate { per_second, burst };
        rig.target.set_limits(&changed).unwrap();
        let limited = rig.count("icmp.unreachable_limited");
        let asked = vec![udp((EVIL, 4000), (TARGET, CLOSED_PORT), b"?"); 150];
        let answers = rig.attack(&asked).len();
        let limited = rig.count("icmp.unreachable_limited") - limited;
        assert_eq!(limited + answers as u64, 150);
        rig.pass(Duration::from_secs(1));
        rig.assert_undisturbed();
        answers
    };
    assert_eq!(errors(50, 5), 5);
    assert_eq!(errors(50, 100), 100);
    assert_eq!(errors(0, 100), 0);
    assert_eq!(errors(1, 20), 20);
    assert_eq!(errors(1, 20), 1);
    // A second's worth of what there is now, and no waiting for what was used up before.
    assert_eq!(errors(10_000, 20), 0);
    assert_eq!(errors(10_000, 20), 20);
}

#[test]
fn fewer_and_more_pieces_of_a_datagram() {
    let mut rig = Rig::new(false);
    let mut apart = |number: u8, pieces: usize| {
        let mut changed = limits();
        changed.reassembly.pieces = pieces;
        rig.target.set_limits(&changed).unwrap();
        let [first, _] = halves(number);
        let later = [1024, 2048, 3072].map(|offset| fragment(first.clone(), offset, true));
        rig.attack(std::slice::from_ref(&first));
        rig.attack(&later);
        rig.assert_undisturbed();
        rig.count("fragments.too_many_pieces")
    };
    assert_eq!(apart(1, 256), 0);
    assert_eq!(apart(2, 2), 3);
    assert_eq!(apart(3, 4), 3);
}

#[test]
fn less_and_more_that_is_kept_at_ports() {
    let mut rig = Rig::new(false);
    let change = |rig: &mut Rig, ports: DatagramPorts, part: usize| {
        let mut changed = limits();
        changed.datagram_ports = ports;
        changed.parts.datagrams_of_port = part;
        changed.parts.datagrams = part;
        rig.target.set_limits(&changed).unwrap();
    };
    let few = DatagramPorts {
        bound: 1,
        destinations: 1,
        reports: 1,
    };
    for port in [53, 54] {
        rig.target.bind(port).unwrap();
    }
    change(&mut rig, few, 4);
    assert_eq!(rig.target.bind(55), Err(BindError::TableFull(1)));
    rig.target.release(54);
    assert_eq!(rig.target.bind(54), Err(BindError::TableFull(1)));

    // What is said of a datagram that went to the last destination, and of the one before.
    let send = |rig: &mut Rig, to: u16| {
        let to = SocketAddr::from((EVIL, to));
        rig.target.send_to(53, to, b"hello").unwrap();
        rig.settle();
        let sent = rig.captured.pop().expect("it leaves");
        icmp_error(EVIL, TARGET, 3, 1, [0; 4], &sent[..28])
    };
    let of_first = send(&mut rig, 9);
    let of_second = send(&mut rig, 10);
    rig.attack(&[of_first.clone(), of_second.clone(), of_second.clone()]);
    assert_eq!(rig.count("udp.report_not_sent_there"), 1);
    assert_eq!(rig.count("udp.reports_full"), 1);
    let many = DatagramPorts {
        bound: 2,
        destinations: 2,
        reports: 3,
    };
    change(&mut rig, many, 4);
    rig.target.bind(54).unwrap();
    assert_eq!(rig.target.bind(55), Err(BindError::TableFull(2)));
    send(&mut rig, 9);
    rig.attack(&[of_first, of_second.clone(), of_second]);
    assert_eq!(rig.count("udp.report_not_sent_there"), 1);
    assert_eq!(rig.count("udp.reports_full"), 2);
    let told = std::iter::from_fn(|| rig.target.undelivered(53)).count();
    assert_eq!(told, 3);

    // Of 256 MiB, 4 KiB.
    change(&mut rig, many, 65_536);
    let query = udp((EVIL, 4000), (TARGET, 53), b"who?");
    rig.attack(&vec![query.clone(); 100]);
    let refused = rig.count("udp.receive_queue_full");
    assert!((84..100).contains(&refused), "{refused}");
    change(&mut rig, many, 4);
    rig.attack(&vec![query; 100]);
    assert_eq!(rig.count("udp.receive_queue_full"), refused);
    let mut heard = [0; 8];
    let waited = std::iter::from_fn(|| rig.target.receive_from(53, &mut heard).ok()).count();
    assert_eq!(waited as u64, 200 - refused);
    rig.assert_undisturbed();
}

#[test]
fn a_smaller_and_a_larger_part_for_what_is_out_of_order() {
    let mut rig = Rig::new(false);
    let (next, end) = rig.connect_from(4000, &[]);
    let out_of_order = |rig: &mut Rig, part: usize, from: i64| {
        let mut changed = limits();
        changed.parts.tcp.out_of_order = part;
        rig.target.set_limits(&changed).unwrap();
        for n in from..from + 10 {
            let after_gap = next.clone().ahead(1 + 1000 * n).data(&[2; 1000]);
            rig.segment(&after_gap);
        }
        rig.assert_undisturbed();
        rig.count("tcp.tcp_allowance_used_up")
    };
    // Of 256 MiB, 4 KiB.
    assert_eq!(out_of_order(&mut rig, 4, 0), 0);
    assert_eq!(
        out_of_order(&mut rig, 65_536, 10),
        10,
        "what is there stays"
    );
    assert_eq!(out_of_order(&mut rig, 4, 10), 10);
    rig.segment(&next.data(&[2]));
    assert_eq!(rig.read(end).len(), 20_001);
}

/// Each limit as low as it may be, and as high: nothing works, nothing panics, and all does again.
#[test]
fn limits_of_nothing() {
    let mut rig = Rig::new(true);
    let mut none = limits();
    (none.memory_bytes, none.connections, none.sockets) = (0, 0, 0);
    none.ended_connections = 0;
    none.parts = MemoryParts {
        fragments: 65_536,
        tcp: TcpParts {
            out_of_order: 65_536,
            growth: 65_536,
        },
        datagrams: 65_536,
        datagrams_of_port: 65_536,
    };
    none.resolution = Resolution {
        neighbours: 1,
        waiting: 1,
        waiting_in_all: 1,
    };
    none.reassembly = Reassembly {
        bytes: 0,
        source_part: 65_536,
        pieces: 1,
        lifetime: Duration::ZERO,
    };
    none.icmp_errors = ErrorRate {
        per_second: 0,
        burst: 1,
    };
    none.datagram_ports = DatagramPorts {
        bound: 0,
        destinations: 1,
        reports: 0,
    };
    (none.paths.hosts, none.paths.least_mtu) = (1, 0);
    none.listening.syn_cookies_per_second = 0;
    (none.listening.spent_cookies, none.listening.awaited_cookies) = (8, 8);
    none.fast_opening.servers = 0;
    rig.target.set_limits(&none).unwrap();
    rig.attack(&halves(1));
    assert_eq!(rig.segment(&syn(4001, PORT)).len(), 0);
    rig.assert_undisturbed();
    let mut all = limits();
    (all.memory_bytes, all.connections, all.sockets) = (usize::MAX, usize::MAX, usize::MAX);
    all.ended_connections = 65_536;
    all.parts = MemoryParts {
        fragments: 1,
        tcp: TcpParts {
            out_of_order: 1,
            growth: 1,
        },
        datagrams: 1,
        datagrams_of_port: 1,
    };
    all.resolution = Resolution {
        neighbours: 16_384,
        waiting: 1024,
        waiting_in_all: 65_536,
    };
    all.reassembly = Reassembly {
        bytes: usize::MAX,
        source_part: 1,
        pieces: 8192,
        lifetime: Duration::MAX,
    };
    all.icmp_errors = ErrorRate {
        per_second: 1_000_000,
        burst: 1_000_000,
    };
    all.datagram_ports = DatagramPorts {
        bound: 65_535,
        destinations: 4096,
        reports: 4096,
    };
    all.paths.hosts = 65_536;
    all.listening.syn_cookies_per_second = u32::MAX;
    (all.listening.spent_cookies, all.listening.awaited_cookies) = (1 << 22, 1 << 22);
    all.fast_opening.servers = 65_536;
    rig.target.set_limits(&all).unwrap();
    rig.attack(&halves(2));
    rig.connect_from(4001, &[]);
    rig.assert_undisturbed();
    let stack: &mut Stack = &mut rig.target;
    assert!(stack.used_bytes() > 0);
}

/// What lies outside of a range is refused with what may be, while it runs as at start, and changes nothing.
#[test]
fn limits_that_make_no_sense() {
    type Change = fn(&mut Limits);
    let rows: [(Change, &str); 19] = [
        (
            |l| l.ended_connections = 65_537,
            "ended_connections may be 0 to 65536",
        ),
        (
            |l| l.parts.fragments = 0,
            "parts.fragments may be 1 to 65536",
        ),
        (
            |l| l.parts.tcp.out_of_order = 0,
            "parts.tcp.out_of_order may be 1 to 65536",
        ),
        (
            |l| l.parts.tcp.growth = 65_537,
            "parts.tcp.growth may be 1 to 65536",
        ),
        (
            |l| l.parts.datagrams = 0,
            "parts.datagrams may be 1 to 65536",
        ),
        (
            |l| l.parts.datagrams_of_port = 0,
            "parts.datagrams_of_port may be 1 to 65536",
        ),
        (
            |l| l.resolution.neighbours = 0,
            "resolution.neighbours may be 1 to 16384",
        ),
        (
            |l| l.resolution.waiting = 0,
            "resolution.waiting may be 1 to 1024",
        ),
        (
            |l| l.resolution.waiting_in_all = 0,
            "resolution.waiting_in_all may be 1 to 65536",
        ),
        (
            |l| l.reassembly.source_part = 0,
            "reassembly.source_part may be 1 to 65536",
        ),
        (
            |l| l.reassembly.pieces = 0,
            "reassembly.pieces may be 1 to 8192",
        ),
        (
            |l| l.icmp_errors.per_second = 1_000_001,
            "icmp_errors.per_second may be 0 to 1000000",
        ),
        (
            |l| l.icmp_errors.burst = 0,
            "icmp_errors.burst may be 1 to 1000000",
        ),
        (
            |l| l.datagram_ports.bound = 65_536,
            "datagram_ports.bound may be 0 to 65535",
        ),
        (
            |l| l.datagram_ports.destinations = 0,
            "datagram_ports.destinations may be 1 to 4096",
        ),
        (
            |l| l.datagram_ports.reports = 4097,
            "datagram_ports.reports may be 0 to 4096",
        ),
        (|l| l.paths.hosts = 0, "paths.hosts may be 1 to 65536"),
        (
            |l| l.listening.spent_cookies = 7,
            "listening.spent_cookies may be 8 to 4194304",
        ),
        (
            |l| l.listening.awaited_cookies = 1 << 23,
            "listening.awaited_cookies may be 8 to 4194304",
        ),
    ];
    let mut rig = Rig::new(true);
    for (change, said) in rows {
        let mut changed = limits();
        change(&mut changed);
        changed.connections = 0;
        let error = rig.target.set_limits(&changed).unwrap_err().to_string();
        assert!(error.starts_with(said), "{error}");
    }
    rig.connect_from(4001, &[]);
    let mut config = StackConfig::new(TARGET.into());
    config.fast_opening.servers = 65_537;
    let (here, _there) = memory::wire(Capabilities::ip(1500), 16);
    let error = Stack::new(&config, here).err().expect("it is refused");
    let said = "fast_opening.servers may be 0 to 65536, and 65537 is asked for";
    assert_eq!(error.to_string(), said);
}
