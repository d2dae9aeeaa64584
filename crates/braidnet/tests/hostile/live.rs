//! Limits that change while a stack is under attack: what is there stays, what comes is refused by name until it fits.

use crate::packet::{SYN, Segment, fragment, ipv4, udp};
use crate::rig::{BACKLOG, EVIL, NARROW_PORT, PORT, Rig, TARGET};
use braidnet::device::{Capabilities, memory};
use braidnet::socket::{SocketError, Sockets};
use braidnet::{Connection, Duration, Limits, Stack, StackConfig};

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
        });
        let mut ends: Vec<Connection> =
            (0..15).map(|n| rig.connect_from(4000 + n, &[]).1).collect();
        let refused = |rig: &mut Rig, port: u16| {
            let before = rig.count("tcp.table_full");
            assert_eq!(rig.segment(&syn(port, PORT)).len(), 0);
            assert_eq!(rig.count("tcp.table_full"), before + 1);
            rig.assert_undisturbed();
        };
        refused(&mut rig, 5000);
        let more = Limits {
            connections: 8,
            ..limits()
        };
        rig.target.set_limits(&more);
        ends.extend((0..6).map(|n| rig.connect_from(5000 + n, &[]).1));
        let fewer = Limits {
            connections: 0,
            ..limits()
        };
        rig.target.set_limits(&fewer);
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
            rig.target.set_limits(&none);
            for n in 0..10 {
                assert_eq!(rig.segment(&syn(5000 + n, PORT)).len(), 0);
                assert_eq!(rig.attack(std::slice::from_ref(&query)).len(), 0);
            }
            assert_eq!(rig.count("tcp.no_memory"), 10 * round);
            assert_eq!(rig.count("udp.receive_queue_full"), 10 * round);
            rig.assert_undisturbed();
            assert!(rig.target.tuple(end).is_some());
            assert_eq!(rig.target.used_bytes(), used, "nothing is taken");
            rig.target.set_limits(&limits());
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
        rig.target.set_limits(&with(100, 30));
        assert_eq!(rig.count("fragments.source_full"), 0);
        rig.attack(&[halves(2)[0].clone()]);
        assert_eq!(rig.count("fragments.source_full"), 2);
        rig.assert_undisturbed();
        rig.target.set_limits(&with(1 << 20, 30));
        rig.attack(&[first.clone(), second]);
        assert_eq!(rig.count("fragments.reassembled"), 1);
        // A shorter life counts for what is held as well, once its table is looked at.
        rig.attack(std::slice::from_ref(&first));
        rig.target.set_limits(&with(1 << 20, 1));
        rig.attack(&[halves(3)[0].clone()]);
        rig.pass(Duration::from_secs(2));
        assert_eq!(rig.count("fragments.timed_out"), 2);
        // And so does a longer one.
        rig.introduce();
        rig.attack(&[halves(4)[0].clone()]);
        rig.target.set_limits(&with(1 << 20, 60));
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
    rig.target.set_limits(&limits());
    assert_eq!((ask(&mut rig), rig.count("tcp.cookies_sent")), (1, 1));
    let mut slow = limits();
    slow.listening.syn_cookies_per_second = 0;
    rig.target.set_limits(&slow);
    assert_eq!((ask(&mut rig), rig.count("tcp.cookies_limited")), (0, 1));
    slow.listening.syn_cookies = false;
    rig.target.set_limits(&slow);
    assert_eq!((ask(&mut rig), rig.count("tcp.syn_queue_full")), (0, 2));
    rig.assert_undisturbed();
}

#[test]
fn fewer_and_more_sockets() {
    let (here, _there) = memory::wire(Capabilities::ip(1500), 16);
    let mut sockets = Sockets::new(&StackConfig::new(TARGET.into()), here).unwrap();
    let at_most = |sockets: &mut Sockets, most: usize| {
        sockets.set_limits(&Limits {
            sockets: most,
            ..limits()
        });
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

/// The limits of a stack whose memory and tables are as small as they can be: nothing works, nothing panics, and all does again.
#[test]
fn limits_of_nothing() {
    let mut rig = Rig::new(true);
    let mut none = limits();
    (none.memory_bytes, none.connections, none.sockets) = (0, 0, 0);
    (none.reassembly.bytes, none.reassembly.source_part) = (0, 0);
    none.reassembly.lifetime = Duration::ZERO;
    (none.paths.hosts, none.paths.least_mtu) = (0, 0);
    none.listening.syn_cookies_per_second = 0;
    rig.target.set_limits(&none);
    rig.attack(&halves(1));
    assert_eq!(rig.segment(&syn(4001, PORT)).len(), 0);
    rig.assert_undisturbed();
    let mut all = limits();
    (all.memory_bytes, all.connections, all.sockets) = (usize::MAX, usize::MAX, usize::MAX);
    (all.reassembly.bytes, all.reassembly.source_part) = (usize::MAX, 1);
    all.reassembly.lifetime = Duration::MAX;
    all.paths.hosts = usize::MAX;
    all.listening.syn_cookies_per_second = u32::MAX;
    rig.target.set_limits(&all);
    rig.attack(&halves(2));
    rig.connect_from(4001, &[]);
    rig.assert_undisturbed();
    let stack: &mut Stack = &mut rig.target;
    assert!(stack.used_bytes() > 0);
}
