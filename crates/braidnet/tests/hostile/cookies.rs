//! Class 20 once more: honest peers while forged SYNs take every place that a listener has, and those who would forge a cookie
//! (RFC 4987 §3.6).

use crate::packet::{ACK, End, FIN, Ip, RST, SYN, Segment};
use crate::rig::{BACKLOG, EVIL, NARROW_PORT, PORT, Rig, TARGET, echoed};
use braidnet::tcp::FastOpen;
use braidnet::{CloseReason, Duration, Event, StackConfig};

/// An address that nobody has forged.
const HONEST: Ip = [10, 77, 0, 67];
const MSS: &[u8] = &[2, 4, 0x05, 0xb4];
const ALL: &[u8] = &[
    2, 4, 0x05, 0xb4, 4, 2, 8, 10, 0, 0, 0x0b, 0xb7, 0, 0, 0, 0, 1, 3, 3, 7,
];

fn knock(from: End) -> Segment {
    Segment::new(from, (TARGET, NARROW_PORT)).flags(SYN)
}

/// Takes every place for half-open connections of the narrow port, and more.
fn fill(rig: &mut Rig, syns: u16) {
    for port in 1024..1024 + syns {
        rig.attack(&[knock((EVIL, port)).packet()]);
    }
}

/// An honest peer's segment behind the SYN-ACK that it got.
fn answer(syn: &Segment, syn_ack: &Segment) -> Segment {
    assert_eq!((syn_ack.flags, syn_ack.ack), (SYN | ACK, syn.seq + 1));
    Segment {
        seq: syn_ack.ack,
        ack: syn_ack.seq.wrapping_add(1),
        options: echoed(syn_ack),
        flags: ACK,
        ..syn.clone()
    }
}

#[test]
fn class_20_honest_peers_get_in_while_every_place_is_taken() {
    let mut rig = Rig::with(false, |config| {
        config.listening.syn_cookies_per_second = 1_000_000;
    });
    fill(&mut rig, 2000);
    let used = rig.target.used_bytes();
    assert_eq!(rig.count("tcp.cookies_sent"), 2000 - u64::from(BACKLOG));
    for (port, options) in (4000..).zip([&[][..], MSS, ALL]) {
        // With an ACK alone first, or with data at once, since that ACK was lost.
        for (bare, port) in [(true, port), (false, port + 100)] {
            let syn = Segment {
                seq: 99,
                ..knock((HONEST, port))
            }
            .options(options);
            let answers = rig.segment(&syn);
            let next = answer(&syn, &answers[0]);
            assert_eq!(next.options.is_empty(), options != ALL);
            fill(&mut rig, 100);
            if bare {
                rig.segment(&next);
            }
            rig.segment(&next.clone().data(b"hello"));
            let end = rig.accepted().expect("it is let in");
            assert_eq!(rig.read(end), b"hello");
            assert_eq!(rig.target.send(end, &[7; 500]), Ok(500));
            rig.settle();
            let sent = std::mem::take(&mut rig.captured);
            let sent: Vec<_> = sent
                .iter()
                .filter_map(|p| crate::packet::parse(p))
                .collect();
            let bytes: usize = sent.iter().map(|segment| segment.data.len()).sum();
            assert_eq!(bytes, 500);
            assert!(
                sent.iter()
                    .all(|segment| segment.options.len() == next.options.len())
            );
            rig.hang_up(end);
        }
    }
    assert_eq!(rig.count("tcp.cookies_taken"), 6);
    assert_eq!(rig.count("tcp.cookies_wrong"), 0);
    assert!(rig.target.used_bytes() <= used, "nothing is kept");
    rig.assert_undisturbed();
}

#[test]
fn class_13_and_20_cookies_that_nobody_was_given() {
    let mut rig = Rig::new(false);
    let guess = |n: u32| Segment {
        seq: 100,
        ack: n.wrapping_mul(0x9e37_79b9),
        ..Segment::new((EVIL, 4000), (TARGET, NARROW_PORT))
    };
    let is_reset = |answers: &[Segment]| matches!(answers, [reset] if reset.flags == RST);
    // While none are out, nobody looks for them.
    assert!(is_reset(&rig.segment(&guess(1))));
    assert_eq!(rig.count("tcp.cookies_wrong"), 0);
    fill(&mut rig, 100);
    for n in 0..5000 {
        let answers = rig.segment(&guess(n));
        // One in 170 looks like what is behind a cookie, and is dropped.
        assert!(is_reset(&answers) || answers.is_empty(), "{answers:?}");
    }
    let awaited = rig.count("tcp.cookies_awaited");
    assert!(awaited < 60, "{awaited}");
    assert_eq!(rig.count("tcp.cookies_wrong"), 5000 - awaited);
    // One that was given to another, and one that is too old.
    let syn = Segment {
        seq: 99,
        ..knock((HONEST, 4000))
    };
    let answers = rig.segment(&syn);
    let next = answer(&syn, &answers[0]);
    let stolen = Segment {
        from: (EVIL, 4000),
        ..next.clone()
    };
    let answers = rig.segment(&stolen);
    // One in sixteen looks like what is behind a cookie of the thief's own.
    assert!(is_reset(&answers) || answers.is_empty(), "{answers:?}");
    assert!(rig.accepted().is_none());
    rig.pass(Duration::from_secs(200));
    rig.captured.clear();
    fill(&mut rig, 100);
    assert!(is_reset(&rig.segment(&next)));
    assert_eq!(rig.count("tcp.cookies_taken"), 0);
    assert_eq!(rig.accepted(), None);
    rig.assert_undisturbed();
}

/// An old ACK opens nothing: each cookie opens one connection.
#[test]
fn class_13_and_20_a_cookie_opens_one_connection() {
    let mut rig = Rig::new(false);
    fill(&mut rig, BACKLOG as u16);
    for port in 4000..4010 {
        let syn = knock((HONEST, port));
        let answers = rig.segment(&syn);
        let next = answer(&syn, &answers[0]).data(b"once");
        rig.segment(&next);
        let end = rig.accepted().expect("it is let in");
        assert_eq!(rig.read(end), b"once");
        let reset = Segment {
            seq: next.seq.wrapping_add(4),
            flags: RST,
            data: Vec::new(),
            ..next.clone()
        };
        rig.segment(&reset);
        rig.hang_up(end);
        let answers = rig.segment(&next);
        let [reset] = &answers[..] else {
            panic!("{answers:?}")
        };
        assert_eq!((reset.flags, reset.seq), (RST, next.ack));
        assert_eq!(rig.accepted(), None);
    }
    assert_eq!(rig.count("tcp.cookies_taken"), 10);
    assert_eq!(rig.count("tcp.cookies_spent"), 10);
    rig.assert_undisturbed();
}

/// As many are known to have opened one as are to be remembered; of one that is forgotten comes another.
#[test]
fn class_13_and_20_fewer_and_more_cookies_that_are_remembered() {
    let mut rig = Rig::new(false);
    fill(&mut rig, BACKLOG as u16);
    let mut changed = StackConfig::new(TARGET.into()).limits();
    // Opens a connection by the cookie in a segment, and ends it; whether it could.
    let opens = |rig: &mut Rig, next: &Segment| {
        rig.segment(next);
        let end = rig.accepted();
        if let Some(end) = end {
            rig.hang_up(end);
        }
        end.is_some()
    };
    let given = |rig: &mut Rig, port: u16| {
        let syn = knock((HONEST, port));
        let answers = rig.segment(&syn);
        answer(&syn, &answers[0]).data(b"once")
    };
    let mut cookies: Vec<Segment> = (4000..4020).map(|port| given(&mut rig, port)).collect();
    assert!(cookies.iter().all(|next| opens(&mut rig, next)));
    assert!(!cookies.iter().any(|next| opens(&mut rig, next)));
    assert_eq!(rig.count("tcp.cookies_spent"), 20);
    // With the next that is taken, eight are left.
    changed.listening.spent_cookies = 8;
    rig.target.set_limits(&changed).unwrap();
    cookies.push(given(&mut rig, 4020));
    let latest = &cookies[20];
    assert!(opens(&mut rig, latest) && !opens(&mut rig, latest));
    let again = cookies.iter().filter(|next| opens(&mut rig, next)).count();
    assert!((13..=21).contains(&again), "{again}");
    assert_eq!(rig.count("tcp.cookies_spent"), 20 + 1 + 21 - again as u64);
    // With room for more again none is forgotten.
    changed.listening.spent_cookies = 1000;
    rig.target.set_limits(&changed).unwrap();
    for next in &cookies {
        opens(&mut rig, next);
    }
    assert!(!cookies.iter().any(|next| opens(&mut rig, next)));
    rig.assert_undisturbed();
}

/// A SYN that the network repeats is answered by a cookie, and then, when there is room, by a connection with another number: the
/// peer may answer either.
#[test]
fn class_20_either_answer_to_a_syn_fits() {
    for (port, of_cookie) in [(4000, true), (4001, false)] {
        let mut rig = Rig::new(false);
        fill(&mut rig, BACKLOG as u16);
        let syn = Segment {
            seq: 99,
            ..knock((HONEST, port))
        }
        .options(ALL);
        let first = rig.segment(&syn);
        // The forged ones are given up.
        rig.pass(Duration::from_secs(100));
        rig.captured.clear();
        let second = rig.segment(&syn);
        let taken = if of_cookie { &first } else { &second };
        assert_ne!(first[0].seq, second[0].seq);
        let next = answer(&syn, &taken[0]);
        // Not what lies behind, of which the first may be late.
        let later = Segment {
            seq: next.seq + 5,
            ..next.clone()
        }
        .data(b" there");
        let too_soon = rig.segment(&later);
        assert!(too_soon.iter().all(|answer| answer.flags != RST));
        rig.segment(&next.clone().data(b"hello"));
        let end = rig.accepted().expect("it is let in");
        rig.segment(&later);
        assert_eq!(rig.read(end), b"hello there");
        assert_eq!(rig.count("tcp.cookies_taken"), u64::from(of_cookie));
        rig.assert_undisturbed();
    }
}

/// The same where the SYN brings data and a good cookie of Fast Open (RFC 7413): the second answer is that of a connection whose
/// application has been told, and if it is not the one that the peer has taken, hears that it is over.
#[test]
fn class_20_either_answer_to_a_syn_with_data_fits() {
    for (port, of_cookie) in [(4000, true), (4001, false)] {
        let mut rig = Rig::with(false, |config| config.tcp.fast_open = FastOpen::Listen);
        let asks = knock((HONEST, 3999)).options(&[34, 2, 1, 1]);
        let given = rig.segment(&asks)[0].options.clone();
        let at = given.windows(2).position(|pair| pair == [34, 10]);
        let at = at.expect("it is given a cookie");
        fill(&mut rig, BACKLOG as u16);
        let syn = Segment {
            seq: 99,
            ..knock((HONEST, port))
        }
        .options(&[&given[at..at + 10], &[1, 1]].concat());
        let fast = syn.clone().data(b"hello");
        let first = rig.segment(&fast);
        let next = answer(&syn, &first[0]).data(b"hello");
        // The others are given up.
        rig.pass(Duration::from_secs(100));
        rig.captured.clear();
        let second = rig.segment(&fast);
        assert_eq!((second[0].flags, second[0].ack), (SYN | ACK, 105));
        let early = rig.accepted().expect("it is open at once");
        assert_eq!(rig.read(early), b"hello");
        let later = Segment {
            seq: 105,
            ack: second[0].seq.wrapping_add(1),
            ..next.clone()
        };
        let end = if of_cookie {
            let later = Segment {
                ack: next.ack,
                ..later.clone()
            };
            let too_soon = rig.segment(&later.data(b" there"));
            assert!(too_soon.iter().all(|answer| answer.flags != RST));
            let answers = rig.segment(&next);
            assert!(answers.iter().all(|answer| answer.flags == ACK));
            let closed = rig.take_event(|event| match event {
                Event::Closed(gone, reason) if gone == early => Some(reason),
                _ => None,
            });
            assert_eq!(closed, Some(CloseReason::Reset));
            let end = rig.accepted().expect("it is let in");
            assert_eq!(rig.read(end), b"hello");
            end
        } else {
            rig.segment(&later.clone().data(b" there"));
            assert_eq!(rig.read(early), b" there");
            early
        };
        assert_eq!(rig.count("tcp.cookies_taken"), u64::from(of_cookie));
        assert_eq!(rig.count("tcp.cookies_wrong"), 0);
        rig.hang_up(end);
        rig.assert_undisturbed();
    }
}

/// Places in the accept queue are as few for those who bring cookies; who waits gets in when there is one.
#[test]
fn class_20_cookies_while_the_accept_queue_is_full() {
    let mut rig = Rig::new(false);
    rig.nobody_accepts = true;
    fill(&mut rig, BACKLOG as u16);
    let peers: Vec<Segment> = (0..=BACKLOG as u16)
        .map(|n| {
            let syn = knock((HONEST, 4000 + n));
            let answers = rig.segment(&syn);
            answer(&syn, &answers[0])
        })
        .collect();
    let opened = rig.count("tcp.opened");
    for peer in &peers {
        rig.segment(peer);
    }
    assert_eq!(rig.count("tcp.opened") - opened, u64::from(BACKLOG));
    assert_eq!(rig.count("tcp.accept_queue_full"), 1);
    rig.nobody_accepts = false;
    rig.settle();
    let late = peers.last().unwrap().clone().data(b"late");
    rig.segment(&late);
    let ends: Vec<_> = std::iter::from_fn(|| rig.accepted()).collect();
    assert_eq!(ends.len(), peers.len());
    assert_eq!(rig.read(ends[ends.len() - 1]), b"late");
    rig.assert_undisturbed();
}

/// What forged SYNs make a listener say is limited, if it is to be; and there are none where nobody wants them.
#[test]
fn class_20_cookies_are_limited() {
    for (wanted, rate, at_once) in [(true, 1000, 51), (true, 0, 0), (false, 1000, 0)] {
        let mut rig = Rig::with(false, |config| {
            config.listening.syn_cookies = wanted;
            config.listening.syn_cookies_per_second = rate;
        });
        fill(&mut rig, 1000 + BACKLOG as u16);
        assert_eq!(rig.count("tcp.cookies_sent"), at_once, "{wanted} {rate}");
        let refused = ["tcp.syn_queue_full", "tcp.cookies_limited"].map(|name| rig.count(name));
        let expected = if wanted {
            [0, 1000 - at_once]
        } else {
            [1000, 0]
        };
        assert_eq!(refused, expected, "{wanted} {rate}");
        // As many as have come free meanwhile, and those that are for SYNs that come again.
        rig.pass(Duration::from_millis(50));
        fill(&mut rig, 1000);
        let later = if at_once > 0 { at_once + 100 } else { 0 };
        assert_eq!(rig.count("tcp.cookies_sent"), later, "{wanted} {rate}");
        rig.assert_undisturbed();
    }
}

/// While a flood takes all cookies that there may be, a host whose SYN comes again after a second is served before the flood.
#[test]
fn class_20_who_asks_again_goes_first() {
    let mut rig = Rig::with(false, |config| {
        config.listening.syn_cookies_per_second = 1000;
    });
    let mut forged = 0;
    let mut flood = |rig: &mut Rig| {
        for _ in 0..100 {
            forged += 1;
            let from = ([198, 18, (forged >> 8) as u8, forged as u8], 1024);
            rig.attack(&[knock(from).packet()]);
        }
    };
    let pause = Duration::from_millis(10);
    let mut served_at_once = 0;
    for port in 4000..4010 {
        let syn = knock((HONEST, port));
        flood(&mut rig);
        let first = rig.segment(&syn);
        served_at_once += first.len();
        for _ in 0..100 {
            rig.pass(pause);
            flood(&mut rig);
        }
        let again = rig.segment(&syn);
        assert_eq!(again.len(), 1, "port {port}, asked again");
        rig.segment(&answer(&syn, &again[0]));
        let end = rig.accepted().expect("it is let in");
        rig.hang_up(end);
    }
    assert_eq!(served_at_once, 0, "the flood takes all");
    assert!(rig.count("tcp.cookies_limited") > 80_000);
    rig.assert_undisturbed();
}

/// What acknowledges a cookie and does not bring it back may follow what does, and is let go; but not for ever: who sends it to a connection that is
/// gone gets his RST (RFC 9293 §3.10.7.2).
#[test]
fn class_20_what_follows_no_cookie_is_reset_in_the_end() {
    let mut rig = Rig::new(false);
    fill(&mut rig, BACKLOG as u16);
    let syn = knock((HONEST, 4000));
    let answers = rig.segment(&syn);
    let first = answer(&syn, &answers[0]);
    let fin = Segment {
        seq: first.seq.wrapping_add(9),
        flags: FIN | ACK,
        ..first.clone()
    };
    let mut waited = 0;
    for seconds in [0, 1, 2, 4, 8, 15] {
        rig.pass(Duration::from_secs(seconds));
        waited += seconds;
        rig.captured.clear();
        assert!(rig.segment(&fin).is_empty(), "after {waited} s");
    }
    rig.pass(Duration::from_secs(2));
    rig.captured.clear();
    let answers = rig.segment(&fin);
    let [reset] = &answers[..] else {
        panic!("{answers:?}")
    };
    assert_eq!((reset.flags, reset.seq), (RST, fin.ack));
    assert_eq!(rig.count("tcp.cookies_awaited"), 6);
    assert_eq!(rig.count("tcp.cookies_wrong"), 1);
    // The cookie itself is as good as ever.
    rig.segment(&first.clone().data(b"nine more"));
    let end = rig.accepted().expect("it is let in");
    assert_eq!(rig.read(end), b"nine more");
    rig.assert_undisturbed();
}

/// What follows a cookie that has opened a connection, which is gone, waits for nothing.
#[test]
fn class_20_what_follows_a_spent_cookie_is_reset() {
    let mut rig = Rig::new(false);
    fill(&mut rig, BACKLOG as u16);
    let syn = knock((HONEST, 4000));
    let answers = rig.segment(&syn);
    let first = answer(&syn, &answers[0]).data(b"first");
    rig.segment(&first);
    let end = rig.accepted().expect("it is let in");
    rig.hang_up(end);
    rig.captured.clear();
    let next = Segment {
        seq: first.seq.wrapping_add(5),
        ..first.clone()
    };
    let answers = rig.segment(&next);
    assert!(
        matches!(&answers[..], [reset] if (reset.flags, reset.seq) == (RST, next.ack)),
        "{answers:?}"
    );
    assert_eq!(rig.count("tcp.cookies_awaited"), 0);
    rig.assert_undisturbed();
}

/// Where the accept queue is full for long, what follows the cookie is let go for as long as the cookie comes again.
#[test]
fn class_20_what_follows_a_cookie_without_a_place_waits_with_it() {
    let mut rig = Rig::new(false);
    rig.nobody_accepts = true;
    fill(&mut rig, BACKLOG as u16);
    let peers: Vec<Segment> = (0..=BACKLOG as u16)
        .map(|n| {
            let syn = knock((HONEST, 4000 + n));
            let answers = rig.segment(&syn);
            answer(&syn, &answers[0])
        })
        .collect();
    for peer in &peers[..usize::from(BACKLOG as u16)] {
        rig.segment(peer);
    }
    let first = peers.last().unwrap().clone().data(b"first");
    let next = Segment {
        seq: first.seq.wrapping_add(5),
        ..first.clone()
    }
    .data(b" next");
    for round in 0..4 {
        for segment in [&first, &next] {
            rig.captured.clear();
            assert!(rig.segment(segment).is_empty(), "round {round}");
        }
        rig.pass(Duration::from_secs(20));
    }
    assert_eq!(rig.count("tcp.cookies_awaited"), 4);
    rig.nobody_accepts = false;
    rig.settle();
    rig.segment(&first);
    rig.segment(&next);
    let ends: Vec<_> = std::iter::from_fn(|| rig.accepted()).collect();
    assert_eq!(ends.len(), peers.len());
    assert_eq!(rig.read(ends[ends.len() - 1]), b"first next");
    rig.assert_undisturbed();
}

/// Who needs no cookie of Fast Open is no better off than with one: as many as may be are open early, and others open as any do.
#[test]
fn class_20_data_on_syns_that_need_no_cookie() {
    for ethernet in [false, true] {
        let mut rig = Rig::with(ethernet, |config| {
            config.tcp.fast_open = FastOpen::Listen;
            config.tcp.fast_open_pending = 16;
            config.tcp.fast_open_without_cookie = true;
        });
        let used = rig.target.used_bytes();
        for n in 0..2000u32 {
            let [.., high, low] = n.to_be_bytes();
            let forged = Segment::new(([10, 78, high, low], 1024), (TARGET, PORT));
            rig.segment(&forged.flags(SYN).data(&[7; 1000]));
        }
        let early: Vec<_> = std::iter::from_fn(|| rig.accepted()).collect();
        assert_eq!(early.len(), 16);
        assert_eq!(rig.count("tcp.fast_open_accepted"), 16);
        assert!(rig.count("tcp.fast_open_limited") >= 1000);
        assert!(rig.target.used_bytes() <= used + (2 << 20));
        rig.assert_undisturbed();
        for end in early {
            assert_eq!(rig.read(end).len(), 1000);
            rig.hang_up(end);
        }
        // Nobody answers for them, so that they are given up; then there is room again.
        rig.pass(Duration::from_secs(300));
        rig.introduce();
        let honest = knock((HONEST, 4000)).data(b"hello");
        rig.segment(&honest);
        let end = rig.accepted().expect("it is open at once");
        assert_eq!(rig.read(end), b"hello");
        rig.assert_undisturbed();
    }
}
