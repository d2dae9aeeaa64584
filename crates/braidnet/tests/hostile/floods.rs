//! Much of it: what one peer, or ten thousand forged ones, can make the stack hold or say.

use crate::packet::{ACK, End, FIN, Ip, RST, SYN, Segment, arp, echo, fragment, frame, ipv4, udp};
use crate::rig::{BACKLOG, EVIL, EVIL_MAC, NARROW_PORT, PORT, Rig, TARGET};
use braidnet::stream::ConnectionId;
use braidnet::wire::address::{Address, Tuple};
use braidnet::{Connection, Duration, Secrets};

/// Sends many packets, some at a time, so that the wire holds them; how many answers come.
fn flood(rig: &mut Rig, count: u32, packet: impl Fn(u32) -> Vec<u8>) -> usize {
    let mut answers = 0;
    for start in (0..count).step_by(500) {
        let packets: Vec<_> = (start..count.min(start + 500)).map(&packet).collect();
        answers += rig.attack(&packets).len();
    }
    answers
}

/// The `n`-th of many hosts that do not exist.
fn nobody(n: u32) -> Ip {
    (0x0a4e_0000 + n).to_be_bytes()
}

#[test]
fn class_15_challenges_are_limited_per_connection() {
    let mut rig = Rig::new(false);
    let (one, _) = rig.connect_from(4001, &[]);
    let (two, _) = rig.connect_from(4002, &[]);
    let blind = |of: &Segment, n: u32| of.clone().flags(RST).ahead(1 + i64::from(n)).packet();
    // One at a time, so that no answer serves for two.
    let drip = |rig: &mut Rig, count: u32, packet: &dyn Fn(u32) -> Vec<u8>| -> usize {
        (0..count).map(|n| rig.attack(&[packet(n)]).len()).sum()
    };
    assert_eq!(drip(&mut rig, 1000, &|n| blind(&one, n)), 10);
    assert_eq!(rig.count("tcp.tcp_reset_in_window"), 1000);
    // The other connection's limit is its own, and tells nothing of the first's (CVE-2016-5696).
    assert_eq!(drip(&mut rig, 9, &|n| blind(&two, n)), 9);
    rig.pass(Duration::from_secs(5));
    assert_eq!(drip(&mut rig, 100, &|n| blind(&one, n)), 10);
    assert_eq!(
        drip(&mut rig, 100, &|n| one
            .clone()
            .acking(1 + i64::from(n))
            .packet()),
        0
    );
    rig.assert_undisturbed();
}

#[test]
fn class_16_one_byte_segments_out_of_order() {
    for ethernet in [false, true] {
        let mut rig = Rig::new(ethernet);
        let (next, end) = rig.connect_from(4001, &[]);
        let byte = |n: u32| next.clone().ahead(i64::from(n)).data(&[n as u8]);
        flood(&mut rig, 500, |n| byte(2 + 2 * n).packet());
        let used = rig.target.used_bytes();
        let answers = flood(&mut rig, 30_000, |n| byte(2 + 2 * n).packet());
        assert!(answers <= 30_000);
        assert!(rig.count("tcp.tcp_reassembly_full") >= 29_000);
        assert_eq!(rig.target.used_bytes(), used, "what is held is bounded");
        rig.assert_undisturbed();
        // The peer may still do it right.
        let expected: Vec<u8> = (0..60_000).map(|n| n as u8).collect();
        let mut heard = Vec::new();
        while heard.len() < expected.len() {
            let at = heard.len();
            let until = (at + 1000).min(expected.len());
            rig.segment(&next.clone().ahead(at as i64).data(&expected[at..until]));
            heard.extend(rig.read(end));
            assert!(heard.len() > at, "stuck at {at}");
        }
        assert!(heard == expected);
        rig.assert_undisturbed();
    }
}

/// Each of many peers leaves a gap in front of all that its window takes: together more than there is memory.
#[test]
fn class_16_gaps_of_many_peers() {
    let mut rig = Rig::with(false, |config| config.memory_bytes = 8 << 20);
    let peers: Vec<_> = (4000..4200)
        .map(|port| rig.connect_from(port, &[]))
        .collect();
    for (next, end) in &peers {
        flood(&mut rig, 40, |n| {
            let after_gap = 1 + 1400 * i64::from(n);
            next.clone().ahead(after_gap).data(&[2; 1400]).packet()
        });
        assert_eq!(rig.target.readable(*end), 0);
    }
    let refused = rig.count("tcp.tcp_allowance_used_up");
    assert!(refused > 4000, "{:?}", rig.counted());
    assert!(rig.target.used_bytes() <= 8 << 20);
    // Those who send in order find as much room as ever.
    for _ in 0..10 {
        let before = rig.now;
        rig.assert_undisturbed();
        assert_eq!(rig.now, before, "nothing has to be sent again");
    }
    assert_eq!(rig.count("tcp.text_refused"), 0);
    // Who fills his gap is heard, as far as he was kept; with those who go, there is room again.
    let (next, end) = &peers[0];
    rig.segment(&next.clone().data(&[2]));
    assert_eq!(rig.read(*end).len(), 1 + 40 * 1400);
    for (next, _) in &peers[1..] {
        rig.inject(
            &Segment {
                flags: RST,
                ..next.clone()
            }
            .packet(),
        );
    }
    rig.pass(Duration::from_secs(1));
    rig.attack(&[]);
    let (next, end) = rig.connect_from(4300, &[]);
    rig.segment(&next.clone().ahead(1).data(&[2; 1400]));
    rig.segment(&next.clone().data(&[2]));
    assert_eq!(rig.read(end).len(), 1401);
    assert_eq!(rig.count("tcp.tcp_allowance_used_up"), refused);
}

#[test]
fn class_13_and_17_storms_of_old_segments() {
    let mut rig = Rig::new(false);
    let (next, end) = rig.connect_from(4001, &[]);
    rig.segment(&next.clone().data(b"first"));
    let used = rig.target.used_bytes();
    assert_eq!(
        flood(&mut rig, 5000, |_| next
            .clone()
            .ahead(5)
            .acking(-1)
            .packet()),
        0
    );
    assert_eq!(rig.count("tcp.tcp_old_ack"), 5000);
    let answers = flood(&mut rig, 5000, |_| next.clone().data(b"other").packet());
    assert!(answers <= 5000);
    assert_eq!(rig.count("tcp.tcp_old_segment"), 5000);
    assert_eq!(rig.read(end), b"first");
    assert_eq!(rig.target.used_bytes(), used);
    rig.assert_undisturbed();
}

#[test]
fn class_19_peers_that_hold_connections_open() {
    let mut rig = Rig::with(false, |config| config.memory_bytes = 64 << 20);
    let ends: Vec<_> = (4000..4040)
        .map(|port| {
            let (next, end) = rig.connect_from(port, &[]);
            rig.segment(&next.window(0));
            end
        })
        .collect();
    for end in &ends {
        let taken = rig.target.send(*end, &[7; 1 << 20]).unwrap();
        assert!(taken <= 256 << 10, "a send buffer is bounded");
    }
    rig.assert_undisturbed();
    for end in ends {
        rig.hang_up(end);
    }
    rig.assert_undisturbed();
}

#[test]
fn class_20_syn_flood() {
    for (ethernet, cookies) in [(false, false), (true, false), (false, true), (true, true)] {
        let mut rig = Rig::with(ethernet, |config| {
            config.listening.syn_cookies = cookies;
            config.listening.syn_cookies_per_second = 1_000_000;
        });
        let syn = |n: u32| Segment::new((EVIL, 1024 + n as u16), (TARGET, NARROW_PORT)).flags(SYN);
        let used = rig.target.used_bytes();
        let answers = flood(&mut rig, 20_000, |n| syn(n).packet());
        let (answered, counter) = match cookies {
            true => (20_000, "tcp.cookies_sent"),
            false => (BACKLOG, "tcp.syn_queue_full"),
        };
        assert_eq!(answers, answered as usize);
        assert_eq!(rig.count(counter), u64::from(20_000 - BACKLOG));
        assert!(rig.target.used_bytes() <= used + (1 << 20));
        rig.assert_undisturbed();
        // Other ports are none the worse.
        let (_, end) = rig.connect_from(4001, &[]);
        rig.hang_up(end);
        // Half-open connections do not last, and say little meanwhile.
        rig.pass(Duration::from_secs(300));
        let said = std::mem::take(&mut rig.captured).len();
        assert!(said <= 8 * BACKLOG as usize, "{said} segments");
        rig.introduce();
        assert_eq!(rig.segment(&syn(0)).len(), 1, "there is room again");
        rig.assert_undisturbed();
    }
}

/// From hosts that do not exist: on Ethernet, each is a neighbour to be asked for.
#[test]
fn class_20_syn_flood_from_forged_hosts() {
    for ethernet in [false, true] {
        let mut rig = Rig::with(ethernet, |config| {
            config.listening.syn_cookies_per_second = 1_000_000;
        });
        let local = |n: u32| -> Ip { [10, 77, 0, 100 + (n % 100) as u8] };
        for host in [&local as &dyn Fn(u32) -> Ip, &nobody] {
            flood(&mut rig, 10_000, |n| {
                Segment::new((host(n), 1024), (TARGET, NARROW_PORT))
                    .flags(SYN)
                    .packet()
            });
            rig.assert_undisturbed();
            rig.pass(Duration::from_secs(300));
            rig.captured.clear();
            rig.assert_undisturbed();
        }
        assert!(rig.count("tcp.cookies_sent") >= 15_000);
        assert!(rig.target.used_bytes() <= 8 << 20);
    }
}

/// Opens a connection to the narrow port by hand; what its peer sends next, if it is let in as far as that.
fn shake_hands(rig: &mut Rig, port: u16) -> Option<Segment> {
    let syn = Segment::new((EVIL, port), (TARGET, NARROW_PORT)).flags(SYN);
    let answers = rig.segment(&syn);
    let next = Segment {
        seq: 1,
        ack: answers.first()?.seq.wrapping_add(1),
        ..syn.flags(ACK)
    };
    rig.segment(&next);
    Some(next)
}

/// A connection in TIME-WAIT gives way to a new incarnation only if there is room for that.
#[test]
fn class_18_a_syn_in_time_wait_while_the_accept_queue_is_full() {
    for ethernet in [false, true] {
        let mut rig = Rig::new(ethernet);
        let next = shake_hands(&mut rig, 4001).expect("there is room");
        let end = rig.accepted().expect("the peer is let in");
        rig.target.close(end);
        rig.settle();
        rig.captured.clear();
        let over = next.flags(FIN | ACK).acking(1);
        assert_eq!(rig.segment(&over).len(), 1);
        rig.target.forget(end);

        rig.nobody_accepts = true;
        let others: Vec<Segment> = (0..BACKLOG as u16)
            .filter_map(|port| shake_hands(&mut rig, 10_000 + port))
            .collect();
        assert_eq!(others.len(), BACKLOG as usize);
        let syn = over.clone().flags(SYN).ahead(100);
        assert!(rig.segment(&syn).is_empty());
        assert_eq!(rig.count("tcp.accept_queue_full"), 1);
        // TIME-WAIT goes on: the FIN again is acknowledged again.
        let answers = rig.segment(&over);
        assert_eq!((answers.len(), answers[0].flags), (1, ACK));
        for other in &others {
            rig.segment(&other.clone().flags(RST));
        }
        assert_eq!(rig.segment(&syn)[0].flags, SYN | ACK);
        rig.assert_undisturbed();
    }
}

#[test]
fn class_20_handshakes_that_nobody_accepts() {
    for ethernet in [false, true] {
        let mut rig = Rig::new(ethernet);
        rig.nobody_accepts = true;
        let (opened, used) = (rig.count("tcp.opened"), rig.target.used_bytes());
        let ports = 10_000..20_000;
        let mut peers: Vec<Segment> = Vec::new();
        for port in ports.clone() {
            peers.extend(shake_hands(&mut rig, port));
        }
        assert_eq!(peers.len(), BACKLOG as usize);
        assert_eq!(rig.count("tcp.opened") - opened, u64::from(BACKLOG));
        let refused = ports.len() as u64 - u64::from(BACKLOG);
        assert_eq!(rig.count("tcp.accept_queue_full"), refused);
        assert!(rig.target.used_bytes() <= used + (1 << 20));
        rig.assert_undisturbed();
        // Who goes makes room, and leaves nothing: neither place, nor memory, nor news.
        for peer in &peers {
            rig.segment(&peer.clone().flags(RST));
        }
        let used = rig.target.used_bytes();
        for port in ports.clone() {
            let peer = shake_hands(&mut rig, port).expect("there is room");
            rig.segment(&peer.clone().data(b"word"));
            rig.segment(&peer.ahead(4).flags(RST));
        }
        assert_eq!(rig.target.used_bytes(), used);
        assert_eq!(rig.target.event(), None);
        rig.assert_undisturbed();
    }
}

#[test]
fn class_20_and_47_every_place_for_a_connection_taken() {
    let mut rig = Rig::with(false, |config| {
        config.connections = 64;
        config.buckets = 3;
    });
    // Two buckets of 64 / 3 and a half more, and 16, for the two that hold connections.
    let most = 2 * (21 + 10 + 16);
    let mut ends: Vec<Connection> = Vec::new();
    let mut refused = 0;
    for port in 4000..4400 {
        let from: End = (EVIL, port);
        let syn = Segment::new(from, (TARGET, PORT)).flags(SYN);
        let answers = rig.segment(&syn);
        let Some(answer) = answers.first() else {
            refused += 1;
            continue;
        };
        assert_eq!(answer.flags, SYN | ACK);
        rig.segment(&Segment {
            seq: 1,
            ack: answer.seq.wrapping_add(1),
            ..syn.flags(ACK)
        });
        ends.extend(rig.accepted());
    }
    assert!(ends.len() < most, "{} connections", ends.len());
    assert_eq!(
        (ends.len() + refused, rig.count("tcp.table_full")),
        (400, refused as u64)
    );
    rig.assert_undisturbed();
    assert!(
        rig.target.connect((EVIL, 9999).into()).is_err(),
        "no room for our own either"
    );
    for end in ends {
        rig.hang_up(end);
    }
    let (_, end) = rig.connect_from(4000, &[]);
    rig.hang_up(end);
    rig.assert_undisturbed();
}

/// Peers that nobody accepts, or reads: what they may send is their window, and no more.
#[test]
fn class_20_data_for_connections_that_nobody_reads() {
    let mut rig = Rig::new(false);
    for port in 4000..4020 {
        let (next, end) = rig.connect_from(port, &[]);
        flood(&mut rig, 300, |n| {
            next.clone()
                .ahead(1400 * i64::from(n))
                .data(&[1; 1400])
                .packet()
        });
        assert!(rig.target.readable(end) <= 65_535);
    }
    assert!(rig.count("tcp.tcp_beyond_window") >= 20 * 200);
    assert!(
        rig.target.used_bytes() <= 8 << 20,
        "{}",
        rig.target.used_bytes()
    );
    rig.assert_undisturbed();
}

#[test]
fn class_23_fragments_without_their_rest() {
    for ethernet in [false, true] {
        let mut rig = Rig::new(ethernet);
        let used = rig.target.used_bytes();
        let answers = flood(&mut rig, 20_000, |n| {
            let mut packet = ipv4(EVIL, TARGET, 17, &[0; 512]);
            packet[4..6].copy_from_slice(&(n as u16).to_be_bytes());
            fragment(packet, 0, true)
        });
        let dropped = rig.count("fragments.source_full");
        assert!(
            answers == 0 && (19_000..20_000).contains(&dropped),
            "{dropped}"
        );
        assert!(rig.target.used_bytes() <= used + (2 << 20));
        rig.assert_undisturbed();
        // What is left is forgotten in time, and its sender told as often as anybody is told anything.
        rig.pass(Duration::from_secs(60));
        assert_eq!(dropped + rig.count("fragments.timed_out"), 20_000);
        let told = rig.count("icmp.time_exceeded_sent");
        assert!((1..=20).contains(&told), "{told}");
        assert_eq!(rig.captured.len() as u64, told);
    }
}

#[test]
fn class_34_floods_of_neighbours() {
    let mut rig = Rig::new(true);
    let everybody = [0xff; 6];
    let asks = |n: u32| {
        arp(
            1,
            ([2, 1, 0, 0, (n >> 8) as u8, n as u8], nobody(n)),
            ([0; 6], TARGET),
        )
    };
    let claims = |n: u32| {
        arp(
            2,
            ([2, 1, 0, 0, (n >> 8) as u8, n as u8], nobody(n)),
            (everybody, nobody(n)),
        )
    };
    let flips = |n: u32| {
        arp(
            2,
            ([2, 1, 0, 0, (n >> 8) as u8, n as u8], EVIL),
            (everybody, EVIL),
        )
    };
    let used = rig.target.used_bytes();
    for packet in [&asks as &dyn Fn(u32) -> Vec<u8>, &claims, &flips] {
        rig.introduce();
        for start in (0..10_000).step_by(500) {
            for n in start..start + 500 {
                rig.inject_frame(&frame(EVIL_MAC, everybody, 0x0806, &packet(n)));
            }
            rig.settle();
            rig.captured.clear();
        }
        rig.assert_undisturbed();
    }
    for name in ["arp.evicted", "arp.unsolicited", "arp.flapping"] {
        assert!(rig.count(name) >= 8000, "{name}: {}", rig.count(name));
    }
    // Packets from addresses beyond our network, each to be remembered.
    flood(&mut rig, 10_000, |n| {
        echo(nobody(n), TARGET, b"remember me")
    });
    rig.assert_undisturbed();
    assert!(rig.target.used_bytes() <= used + (2 << 20));
    rig.pass(Duration::from_secs(200));
    rig.captured.clear();
    rig.assert_undisturbed();
}

#[test]
fn class_35_and_38_errors_are_limited() {
    let mut rig = Rig::new(false);
    let answers = flood(&mut rig, 5000, |n| {
        udp((EVIL, 4000), (TARGET, n as u16 + 1), b"?")
    });
    assert_eq!(answers as u64, rig.count("icmp.unreachable_sent"));
    assert!(answers <= 20, "{answers}");
    assert_eq!(rig.count("icmp.unreachable_limited"), 5000 - answers as u64);
    rig.assert_undisturbed();
}

/// The buckets that connections from these ports fall into.
fn buckets(secrets: Option<Secrets>) -> Vec<u16> {
    let mut rig = Rig::with(false, |config| {
        if let Some(secrets) = secrets {
            config.secrets = secrets;
        }
    });
    (4000..4032)
        .map(|port| {
            let (_, end): (_, ConnectionId) = rig.connect_from(port, &[]);
            let expected = Tuple {
                local: Address::v4(TARGET),
                remote: Address::v4(EVIL),
                local_port: PORT,
                remote_port: port,
            };
            assert_eq!(rig.target.tuple(end), Some(expected));
            end.bucket().0
        })
        .collect()
}

#[test]
fn class_47_the_flow_hash_is_keyed() {
    let fixed = Secrets {
        flow_key: [1, 2],
        isn_key: [3, 4],
    };
    assert_eq!(buckets(Some(fixed)), buckets(Some(fixed)));
    let (one, two) = (buckets(None), buckets(None));
    let same = one.iter().zip(&two).filter(|(a, b)| a == b).count();
    assert!(
        same <= 8,
        "of 32 flows {same} fall into the same of 255 buckets on two stacks"
    );
    let mut distinct = one.clone();
    distinct.sort_unstable();
    distinct.dedup();
    assert!(distinct.len() >= 20, "{one:?}");
}

/// RFC 6528: initial sequence numbers of two stacks, or two flows, say nothing about each other.
#[test]
fn class_47_initial_sequence_numbers_differ() {
    let first = |port| {
        let mut rig = Rig::new(false);
        rig.segment(&Segment::new((EVIL, port), (TARGET, PORT)).flags(SYN))[0].seq
    };
    let numbers = [first(4000), first(4000), first(4001)];
    for pair in [[0, 1], [0, 2], [1, 2]] {
        let [a, b] = pair.map(|at| numbers[at]);
        assert!(a.abs_diff(b) > 1000, "{numbers:?}");
    }
}
