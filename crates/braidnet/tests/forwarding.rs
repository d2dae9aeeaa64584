//! A stack between two others, which speak through it, under every architecture.

use braidnet::device::memory::{self, WireEnd};
use braidnet::device::several::Several;
use braidnet::device::{Capabilities, Device, DeviceError, MacAddress, Medium, QueuePair};
use braidnet::stream::Processor;
use braidnet::{
    Architecture, Connection, Duration, Event, Instant, ServerBuilder, Stack, StackConfig,
    StackError,
};
use std::net::IpAddr;

const BETWEEN: [[u8; 4]; 2] = [[10, 1, 0, 2], [10, 2, 0, 2]];
const LEFT: [u8; 4] = [10, 1, 0, 1];
const RIGHT: [u8; 4] = [10, 2, 0, 1];
const PORT: u16 = 7;

fn between() -> StackConfig {
    let mut config = StackConfig::new(BETWEEN[0].into());
    config.addresses = vec![(BETWEEN[0].into(), Some(24))];
    config.further_addresses = vec![vec![(BETWEEN[1].into(), Some(24))]];
    config.forwards = true;
    config
}

const BARE: Capabilities = Capabilities::ip(1500);
/// The same station on any link: they do not meet.
const FRAMES: Capabilities = Capabilities::ethernet(MacAddress([2, 0, 0, 0, 0, 2]), 1500);

fn wire(medium: Capabilities) -> (WireEnd, WireEnd) {
    memory::wire(medium, 1024)
}

/// Who is on one side, and sends by the one between what is for the other.
fn far(address: [u8; 4], between: [u8; 4], end: WireEnd) -> Stack {
    let mut config = StackConfig::new(address.into());
    config.addresses = vec![(IpAddr::from(address), Some(24))];
    config.gateway = match end.capabilities().medium {
        Medium::Ip => None,
        Medium::Ethernet { .. } => Some(between.into()),
    };
    Stack::new(&config, end).unwrap()
}

/// A link that carries less from here than its other end believes.
struct Narrow(WireEnd, Capabilities);

impl Narrow {
    fn new(end: WireEnd, mtu: usize) -> Narrow {
        let capabilities = Capabilities {
            mtu,
            ..*end.capabilities()
        };
        Narrow(end, capabilities)
    }
}

impl Device for Narrow {
    fn capabilities(&self) -> &Capabilities {
        &self.1
    }

    fn open(self: Box<Self>) -> Result<Vec<QueuePair>, DeviceError> {
        Box::new(self.0).open()
    }
}

/// The two ends of a connection.
struct Ends {
    call: Connection,
    answer: Option<Connection>,
    sent: [usize; 2],
    heard: [Vec<u8>; 2],
}

/// Bytes go both ways on several connections, byte for byte, over these media, where the way to the right is of this MTU.
fn speak(
    architecture: Architecture,
    (processors, is_apart): (usize, bool),
    media: [Capabilities; 2],
    mtu: usize,
) {
    let case = format!("{architecture} {processors} {is_apart} {media:?} {mtu}");
    let [(one, far_one), (two, far_two)] = media.map(wire);
    let mut left = far(LEFT, BETWEEN[0], far_one);
    let mut right = far(RIGHT, BETWEEN[1], far_two);
    let several = Several::of(one).and(Narrow::new(two, mtu));
    let several = if is_apart { several.apart() } else { several };
    if several.capabilities().queues > architecture.takers(processors) {
        return;
    }
    let builder = ServerBuilder::new(between()).architecture(architecture, processors);
    let mut server = builder.turned(several).unwrap();
    right.listen(PORT, 64).unwrap();
    let bytes: Vec<u8> = (0..60_000u32).map(|n| (n * n / 7) as u8).collect();
    let mut ends: Vec<Ends> = (0..6)
        .map(|_| Ends {
            call: left.connect((RIGHT, PORT).into()).unwrap(),
            answer: None,
            sent: [0; 2],
            heard: [Vec::new(), Vec::new()],
        })
        .collect();
    let is_over = |ends: &Ends| ends.heard.iter().all(|heard| heard.len() >= bytes.len());
    let mut now = Instant::from_millis(5);
    while !ends.iter().all(is_over) {
        now += Duration::from_micros(100);
        assert!(
            now < Instant::from_millis(100_000),
            "{case}: it does not end"
        );
        left.turn(now);
        server.turn(now, usize::MAX);
        right.turn(now);
        while let Some(event) = right.event() {
            if let Event::Accepted(answer) = event {
                let port = right.tuple(answer).unwrap().remote_port;
                let its = |ends: &&mut Ends| left.tuple(ends.call).unwrap().local_port == port;
                ends.iter_mut().find(its).unwrap().answer = Some(answer);
            }
        }
        for ends in &mut ends {
            let both = [(&mut left, Some(ends.call)), (&mut right, ends.answer)];
            for (side, (stack, connection)) in both.into_iter().enumerate() {
                let Some(connection) = connection else {
                    continue;
                };
                let rest = &bytes[ends.sent[side]..];
                ends.sent[side] += stack.send(connection, rest).unwrap_or(0);
                let mut room = [0; 4096];
                if let Ok(n) = stack.receive(connection, &mut room) {
                    ends.heard[side].extend_from_slice(&room[..n]);
                }
            }
        }
    }
    for ends in &ends {
        assert!(ends.heard.iter().all(|heard| *heard == bytes), "{case}");
    }
    let counters = server.counters();
    assert!(
        counters["ip.forwarded"] >= 2 * 6 * 60_000 / 1460,
        "{case}: {counters:?}"
    );
    let is_short = mtu < 1500;
    assert_eq!(
        counters.contains_key("ip.forward_too_long"),
        is_short,
        "{case}"
    );
    assert!(!counters.contains_key("ip.not_ours"), "{case}");
}

#[test]
fn two_stacks_speak_through_a_third_under_every_architecture() {
    for architecture in Architecture::UNDIVIDED {
        for (processors, is_apart) in [(1, false), (2, false), (2, true)] {
            speak(architecture, (processors, is_apart), [BARE, BARE], 1500);
        }
    }
}

#[test]
fn frames_and_bare_packets_pass_under_every_architecture() {
    for architecture in Architecture::UNDIVIDED {
        for media in [[FRAMES, BARE], [FRAMES, FRAMES]] {
            speak(architecture, (2, false), media, 1500);
            speak(architecture, (2, true), media, 1400);
        }
    }
}

/// The segments of who thinks that the path is longer than it is are told of (RFC 1191), and then fit.
#[test]
fn a_shorter_link_is_found() {
    for architecture in Architecture::UNDIVIDED {
        speak(architecture, (2, false), [BARE, BARE], 1400);
    }
}

#[test]
fn there_must_be_somewhere_to_forward_to() {
    let mut config = between();
    config.further_addresses.clear();
    let refused = Stack::new(&config, wire(BARE).0).map(drop).unwrap_err();
    assert!(matches!(refused, StackError::Interface(_)));
    assert_eq!(
        refused.to_string(),
        "there is nowhere to forward to: the stack stands on one device"
    );
}
