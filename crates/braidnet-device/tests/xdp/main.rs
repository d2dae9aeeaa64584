//! Interfaces that are a stack's alone: one end of a veth pair each, in a network namespace of the test's own. Its driver redirects, and copies.
//!
//! Where that is not allowed the tests print SKIPPED and why; with `CI=true` in the environment they fail instead.

#[allow(dead_code)]
#[path = "../tun/system.rs"]
mod system;
#[allow(dead_code)]
#[path = "../packet/veth.rs"]
mod veth;

use braidnet_device::xdp::{XdpConfig, XdpDevice};
use braidnet_device::{Device, DropReason, QueuePair};
use braidnet_message::Run;
use braidnet_sync::clock::Clock;
use std::process::Command;
use std::time::{Duration, Instant};
use system::{PATIENCE, ip, pool, receive, wait};
use veth::*;

/// How often the interface is looked after.
const GLANCE: Duration = Duration::from_millis(250);

fn on(name: &str) -> XdpConfig {
    XdpConfig {
        station: Some(STATION),
        ..XdpConfig::on(name)
    }
}

fn open(name: &str) -> QueuePair {
    let device = XdpDevice::attach(on(name)).unwrap_or_else(|error| panic!("{error}"));
    assert!(!device.is_zero_copy(), "veth copies");
    let mut pairs = Box::new(device).open().expect("it opens");
    assert_eq!(pairs.len(), 1);
    pairs.remove(0)
}

fn is_test(frame: &[u8]) -> bool {
    frame[12..14] == [0x88, 0xb5]
}

/// What `ip` says of an interface.
fn shown(name: &str) -> String {
    let output = Command::new("ip")
        .args(["-d", "link", "show", name])
        .output();
    String::from_utf8(output.expect("`ip` runs").stdout).expect("text")
}

#[test]
fn frames_pass_both_ways_in_order() {
    over_veth("both ways over XDP", || {
        let (mut left, mut right) = (open("v0"), open("v1"));
        let mut pool = pool();
        let lengths = [60, 61, 590, 1514];
        // More than there are frames, so that they come back and are used again.
        for round in 0..40 {
            let frames: Vec<_> = (0..100)
                .map(|number| {
                    let length = lengths[number as usize % lengths.len()];
                    frame(&mut pool, STATION, round * 100 + number, length)
                })
                .collect();
            let (from, to) = if round % 2 == 0 {
                (&mut left, &mut right)
            } else {
                (&mut right, &mut left)
            };
            send(from, frames);
            for number in 0..100 {
                let got = receive(to, &mut pool, is_test);
                let expected = (round * 100 + number).to_be_bytes();
                assert_eq!(got.bytes()[14..18], expected);
                assert_eq!(got.len(), lengths[number as usize % lengths.len()]);
            }
        }
        for pair in [left, right] {
            assert_eq!(pair.receiver.counters().drops().next(), None);
            assert_eq!(pair.transmitter.counters().packets, 2000);
        }
    });
}

#[test]
fn what_the_system_sends_comes_and_the_program_goes_with_the_device() {
    over_veth("detached", || {
        let before = shown("v1");
        assert!(!before.contains("xdp"), "{before}");
        let socket = towards_stack();
        for round in [1, 2] {
            let mut pair = open("v1");
            assert!(shown("v1").contains("xdp"), "{}", shown("v1"));
            socket.send(&[round]).expect("it is routed");
            let got = receive(&mut pair, &mut pool(), is_udp);
            assert_eq!(got.bytes()[42..], [round]);
            drop(pair);
            assert_eq!(shown("v1"), before);
        }
    });
}

#[test]
fn long_frames_have_room_and_longer_ones_are_refused() {
    over_veth("long frames over XDP", || {
        for name in ["v0", "v1"] {
            ip(&["link", "set", name, "mtu", "3000"]);
        }
        let (mut left, mut right) = (open("v0"), open("v1"));
        let mut pool = pool();
        send(&mut left, [frame(&mut pool, STATION, 1, 3014)]);
        assert_eq!(receive(&mut right, &mut pool, is_test).len(), 3014);
        let mut run = Run::from_iter([frame(&mut pool, STATION, 1, 3019)]);
        left.transmitter.transmit(&mut run);
        let counters = left.transmitter.counters();
        assert_eq!(counters.dropped(DropReason::TransmitOversize), 1);
    });
}

#[test]
fn what_finds_no_room_is_counted() {
    over_veth("full ring of XDP", || {
        let (mut left, mut right) = (open("v0"), open("v1"));
        let mut pool = pool();
        let sent = 4000;
        for first in (0..sent).step_by(50) {
            let frames: Vec<_> = (first..first + 50)
                .map(|number| frame(&mut pool, STATION, number, 60))
                .collect();
            send(&mut left, frames);
        }
        let lost = |pair: &QueuePair| {
            pair.receiver
                .counters()
                .dropped(DropReason::ReceiveRingFull)
        };
        let (mut run, mut got) = (Run::new(), Vec::new());
        let begun = Instant::now();
        while lost(&right) == 0 {
            assert!(
                begun.elapsed() < PATIENCE,
                "nothing was lost: {}",
                got.len()
            );
            right.receiver.receive(&mut pool, &mut run, 64);
            got.extend(
                run.drain()
                    .filter(|frame| is_test(frame.bytes()))
                    .map(|frame| {
                        u32::from_be_bytes(*frame.bytes()[14..].first_chunk().expect("a number"))
                    }),
            );
        }
        assert!(got.is_sorted() && got.len() >= 1000, "{}", got.len());
        assert!(got.len() as u64 + lost(&right) <= sent.into());
        // And it goes on.
        send(&mut left, [frame(&mut pool, STATION, sent, 60)]);
        wait(right.receiver.fd().expect("a socket"));
        assert_eq!(receive(&mut right, &mut pool, is_test).len(), 60);
    });
}

#[test]
fn an_interface_that_is_removed_is_gone() {
    over_veth("removed under XDP", || {
        let mut pair = open("v1");
        let mut pool = pool();
        pair.receiver.receive(&mut pool, &mut Run::new(), 8);
        assert!(!pair.receiver.is_gone());
        assert!(pair.receiver.alarm().expect("an alarm").next().is_some());
        ip(&["link", "del", "v0"]);
        let begun = Instant::now();
        while !pair.receiver.is_gone() {
            assert!(begun.elapsed() < PATIENCE);
            pair.receiver.receive(&mut pool, &mut Run::new(), 8);
            std::thread::yield_now();
        }
        assert!(pair.receiver.alarm().expect("an alarm").next().is_none());
        // The system says it once; it is so for good.
        let begun = Instant::now();
        while begun.elapsed() < 3 * GLANCE {
            pair.receiver.receive(&mut pool, &mut Run::new(), 8);
            assert!(pair.receiver.is_gone());
            std::thread::yield_now();
        }
    });
}

#[test]
fn what_an_interface_does_not_take_is_dropped_once_it_is_down_or_gone() {
    over_veth("full ring that leaves nowhere", || {
        let mut pair = open("v1");
        let mut pool = pool();
        // More than there are frames.
        let mut transmit = |pair: &mut QueuePair| {
            let mut run: Run = (0..3000)
                .map(|number| frame(&mut pool, OTHER, number, 60))
                .collect();
            for _ in 0..3 {
                pair.transmitter.transmit(&mut run);
            }
            assert!(run.is_empty(), "{} wait", run.iter().count());
        };
        let dropped = |pair: &QueuePair| {
            let counters = pair.transmitter.counters();
            [DropReason::InterfaceDown, DropReason::DeviceGone].map(|why| counters.dropped(why))
        };
        ip(&["link", "set", "v1", "down"]);
        transmit(&mut pair);
        let down = dropped(&pair);
        assert!(down[0] >= 3000 - 2048 && down[1] == 0, "{down:?}");
        let alarm = pair.receiver.alarm().expect("an alarm");
        pair.receiver
            .receive(&mut system::pool(), &mut Run::new(), 8);
        let before = Clock::shared().now_nanos();
        pair.receiver
            .receive(&mut system::pool(), &mut Run::new(), 8);
        let next = alarm.next().expect("it is looked after").nanos();
        assert!(next > before + 10_000_000, "{next} is soon after {before}");
        // What waits in the ring leaves once it is up, and what comes then is not dropped.
        ip(&["link", "set", "v1", "up"]);
        transmit(&mut pair);
        assert_eq!(dropped(&pair), down);
        ip(&["link", "set", "v1", "down"]);
        transmit(&mut pair);
        ip(&["link", "del", "v1"]);
        transmit(&mut pair);
        assert!(dropped(&pair)[1] >= 3000 - 2048, "{:?}", dropped(&pair));
        let begun = Instant::now();
        while !pair.receiver.is_gone() {
            assert!(begun.elapsed() < PATIENCE);
            pair.receiver
                .receive(&mut system::pool(), &mut Run::new(), 8);
        }
    });
}

#[test]
fn interfaces_that_cannot_be_taken_over_are_refused() {
    over_veth("refused under XDP", || {
        ip(&["link", "add", "v2", "type", "veth", "peer", "name", "v3"]);
        let wide = "link add v4 numrxqueues 2 numtxqueues 2 type veth peer name v5 numrxqueues 2 numtxqueues 2";
        ip(&wide.split(' ').collect::<Vec<_>>());
        ip(&["link", "set", "v4", "up"]);
        let _held = open("v1");
        let sized = |mtu| XdpConfig {
            mtu: Some(mtu),
            ..on("v0")
        };
        let rows = [
            (on("absent0"), "no interface \"absent0\""),
            (on("lo"), "lo is no Ethernet interface"),
            (on("v2"), "v2 is down"),
            (on("v1"), "v1 has an XDP program already"),
            (sized(67), "use 68 to 1500"),
            (sized(1501), "use 68 to 1500"),
            (
                XdpConfig {
                    queues: 1,
                    ..on("v4")
                },
                "v4 has 2 queues, and 1 are to be served",
            ),
        ];
        for (config, part) in rows {
            let refused = XdpDevice::attach(config).map(drop);
            let refused = refused.map_err(|error| error.to_string());
            assert!(
                matches!(&refused, Err(said) if said.contains(part)),
                "{refused:?}"
            );
        }
        assert!(!shown("v0").contains("xdp"), "nothing is left behind");
        let two = XdpDevice::attach(on("v4")).expect("it has as many as it may");
        assert_eq!(two.capabilities().queues, 2);
    });
}
