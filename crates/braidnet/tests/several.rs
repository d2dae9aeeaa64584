//! A stack on several devices: what it answers, and by which device it does.

use braidnet::device::memory::{self, WireEnd};
use braidnet::device::several::Several;
use braidnet::device::{Capabilities, Device, MacAddress, Medium};
use braidnet::inet::Route;
use braidnet::message::Message;
use braidnet::process::PlanError;
use braidnet::stream::{Next, Processor};
use braidnet::wire::address::{Address, Tuple};
use braidnet::{
    Architecture, ConnectError, Duration, Event, Instant, Io, ServerBuilder, Service, Session,
    Stack, StackConfig, StackError,
};
use std::net::IpAddr;

/// On the devices to the left and to the right: ours and the far end's, and an address behind the right one.
const OURS: [[u8; 4]; 2] = [[10, 1, 0, 2], [10, 2, 0, 2]];
const FAR: [[u8; 4]; 2] = [[10, 1, 0, 1], [10, 2, 0, 1]];
const BEHIND: [u8; 4] = [10, 9, 0, 1];
const PORT: u16 = 7;

fn config() -> StackConfig {
    let mut config = StackConfig::new(OURS[0].into());
    config.addresses = vec![(OURS[0].into(), Some(24))];
    config.further_addresses = vec![vec![(OURS[1].into(), Some(24))]];
    let beyond = Route::via("10.9.0.0/16".parse().unwrap(), Address::v4(FAR[1]));
    config.routes = vec![beyond];
    config
}

fn wire(mtu: usize, queues: usize) -> (WireEnd, WireEnd) {
    memory::wire(Capabilities::ip(mtu).with_queues(queues), 1024)
}

/// An Ethernet. Stations of ours on two of them may have one address: they do not meet.
fn ethernet(mtu: usize) -> (WireEnd, WireEnd) {
    let station = MacAddress([2, 0, 0, 0, 0, 2]);
    memory::wire(Capabilities::ethernet(station, mtu), 1024)
}

/// The far ends of both devices.
fn far(ends: [WireEnd; 2]) -> [Stack; 2] {
    let mut addresses = FAR.map(|far| vec![(IpAddr::from(far), Some(24))]);
    addresses[1].push((BEHIND.into(), None));
    let mut ends = ends.into_iter();
    addresses.map(|addresses| {
        let mut config = StackConfig::new(addresses[0].0);
        config.addresses = addresses;
        let mut stack = Stack::new(&config, ends.next().unwrap()).unwrap();
        stack.listen(PORT, 16).unwrap();
        stack
    })
}

fn events(stack: &mut Stack) -> Vec<Event> {
    std::iter::from_fn(|| stack.event()).collect()
}

fn settle(stacks: &mut [&mut Stack], now: Instant) {
    let mut quiet = 0;
    while quiet < 2 {
        let next: Vec<Next> = stacks.iter_mut().map(|stack| stack.turn(now)).collect();
        quiet = if next.contains(&Next::Again) {
            0
        } else {
            quiet + 1
        };
    }
}

#[test]
fn what_is_sent_leaves_by_its_route_and_from_there() {
    leave_by_their_routes(wire(1500, 1), wire(600, 1));
}

#[test]
fn what_is_sent_leaves_in_frames_where_its_device_carries_such() {
    leave_by_their_routes(ethernet(1500), wire(600, 1));
    leave_by_their_routes(wire(1500, 1), ethernet(600));
    leave_by_their_routes(ethernet(1500), ethernet(600));
}

/// Connections open by the one and the other device, and datagrams leave by them.
fn leave_by_their_routes(
    (left, far_left): (WireEnd, WireEnd),
    (right, far_right): (WireEnd, WireEnd),
) {
    let addresses = match far_left.capabilities().medium {
        Medium::Ip => 2,
        Medium::Ethernet { .. } => 1,
    };
    let mut stack = Stack::new(&config(), Several::of(left).and(right)).unwrap();
    let [mut one, mut two] = far([far_left, far_right]);
    stack.listen(PORT, 16).unwrap();
    let now = Instant::from_millis(5);
    for (to, from) in [(FAR[0], OURS[0]), (FAR[1], OURS[1]), (BEHIND, OURS[1])] {
        let call = stack.connect((to, PORT).into()).unwrap();
        settle(&mut [&mut stack, &mut one, &mut two], now);
        assert_eq!(events(&mut stack), [Event::Connected(call)], "{to:?}");
        assert_eq!(stack.tuple(call).unwrap().local, Address::v4(from));
    }
    let accepted = [&mut one, &mut two].map(|far| events(far).len());
    assert_eq!(accepted, [1, 2]);
    let nowhere = ([192, 0, 2, 1], PORT).into();
    assert_eq!(stack.connect(nowhere), Err(ConnectError::NoRoute));
    // It answers to each of its addresses by each device (RFC 1122 §3.3.4.2); but on an Ethernet nobody finds those of others there without a route.
    for address in OURS.into_iter().take(addresses) {
        let call = one.connect((address, PORT).into()).unwrap();
        settle(&mut [&mut stack, &mut one, &mut two], now);
        assert_eq!(events(&mut one), [Event::Connected(call)], "{address:?}");
    }
    // Fragments fit either device.
    stack.bind(PORT).unwrap();
    let bytes: Vec<u8> = (0..4000).map(|n| (n * 7 / 3) as u8).collect();
    for (far, address) in [(&mut one, FAR[0]), (&mut two, FAR[1])] {
        far.bind(PORT).unwrap();
        stack.send_to(PORT, (address, PORT).into(), &bytes).unwrap();
        settle(&mut [&mut stack, far], now);
        let mut came = vec![0; 5000];
        let received = far.receive_from(PORT, &mut came).unwrap();
        assert_eq!(&came[..received.copied], bytes);
    }
    assert_eq!(stack.counters()["ip.fragmented"], 2);
    assert_eq!(
        stack.counters()["ip.fragments_sent"],
        2 * 4008u64.div_ceil(576)
    );
}

/// Both links have the same network, and ours on the second no address at all: the routes tell them apart.
#[test]
fn a_route_names_the_device_where_networks_overlap() {
    for wires in [
        [wire(1500, 1), wire(1500, 1)],
        [ethernet(1500), ethernet(1500)],
    ] {
        let [(left, far_left), (right, far_right)] = wires;
        let addresses = [[10, 1, 0, 1], [10, 1, 0, 200]];
        let mut config = config();
        config.further_addresses = vec![vec![]];
        config.routes = vec![Route::by("10.1.0.128/25".parse().unwrap(), 1)];
        let mut stack = Stack::new(&config, Several::of(left).and(right)).unwrap();
        let mut far = [far_left, far_right].into_iter();
        let [mut one, mut two] = addresses.map(|address| {
            let mut config = StackConfig::new(address.into());
            config.addresses = vec![(address.into(), Some(24))];
            let mut stack = Stack::new(&config, far.next().unwrap()).unwrap();
            stack.listen(PORT, 16).unwrap();
            stack
        });
        let now = Instant::from_millis(5);
        for to in addresses {
            let call = stack.connect((to, PORT).into()).unwrap();
            settle(&mut [&mut stack, &mut one, &mut two], now);
            assert_eq!(events(&mut stack), [Event::Connected(call)], "{to:?}");
            assert_eq!(stack.tuple(call).unwrap().local, Address::v4(OURS[0]));
        }
        assert_eq!([&mut one, &mut two].map(|far| events(far).len()), [1, 1]);
    }
}

#[test]
fn one_whose_reader_stalls_keeps_nobody_from_the_others() {
    let (left, far_left) = wire(1500, 1);
    let (right, far_right) = memory::wire(Capabilities::ip(1500), 4);
    let mut stack = Stack::new(&config(), Several::of(left).and(right)).unwrap();
    let [mut one, _stalls] = far([far_left, far_right]);
    stack.listen(PORT, 16).unwrap();
    stack.bind(PORT).unwrap();
    for _ in 0..10 {
        let to = (FAR[1], PORT).into();
        stack.send_to(PORT, to, b"for whom nobody reads").unwrap();
    }
    let now = Instant::from_millis(5);
    stack.turn(now);
    let call = one.connect((OURS[0], PORT).into()).unwrap();
    settle(&mut [&mut stack, &mut one], now);
    assert_eq!(events(&mut one), [Event::Connected(call)]);
}

/// Sends back what it receives.
struct Echo;

impl Service for Echo {
    fn open(&self, _: &Tuple) -> Box<dyn Session> {
        Box::new(Echo)
    }
}

impl Session for Echo {
    fn data(&mut self, message: Message, io: &mut Io<'_, '_>) {
        io.took(message.total_len());
        let _ = io.send(message);
    }
}

/// Whether the device's queues are shared by all processors, or each device has processors of its own, its bytes come back, of connections by either device
/// to either address.
#[test]
fn every_architecture_serves_several_devices() {
    for architecture in Architecture::UNDIVIDED {
        for (processors, is_apart) in [(1, false), (2, false), (2, true)] {
            let case = format!("{architecture} {processors} {is_apart}");
            let (left, far_left) = wire(1500, 1);
            let (right, far_right) = wire(1400, 1);
            let several = Several::of(left).and(right);
            let several = if is_apart { several.apart() } else { several };
            let needed = several.capabilities().queues;
            let builder = ServerBuilder::new(config())
                .architecture(architecture, processors)
                .tcp(PORT, Echo);
            let takers = architecture.takers(processors);
            let server = builder.turned(several);
            if needed > takers {
                let Err(StackError::Plan(PlanError::TooManyQueues { .. })) = server else {
                    panic!("{case}: not refused");
                };
                continue;
            }
            let mut server = server.unwrap();
            let [mut one, mut two] = far([far_left, far_right]);
            let mut calls = Vec::new();
            for (index, far) in [&mut one, &mut two].into_iter().enumerate() {
                for address in OURS.iter().cycle().take(6) {
                    let call = far.connect((*address, PORT).into()).unwrap();
                    calls.push((index, call, Vec::new(), 0));
                }
            }
            let bytes: Vec<u8> = (0..30_000u32).map(|n| (n * n / 7) as u8).collect();
            let mut far = [one, two];
            let mut now = Instant::from_millis(5);
            while calls
                .iter()
                .any(|(_, _, heard, _)| heard.len() < bytes.len())
            {
                now += Duration::from_micros(100);
                assert!(
                    now < Instant::from_millis(60_000),
                    "{case}: it does not end"
                );
                server.turn(now, usize::MAX);
                for far in &mut far {
                    far.turn(now);
                }
                for (index, call, heard, sent) in &mut calls {
                    *sent += far[*index].send(*call, &bytes[*sent..]).unwrap_or(0);
                    let mut room = [0; 4096];
                    if let Ok(n) = far[*index].receive(*call, &mut room) {
                        heard.extend_from_slice(&room[..n]);
                    }
                }
            }
            assert!(
                calls.iter().all(|(_, _, heard, _)| *heard == bytes),
                "{case}"
            );
        }
    }
}

#[test]
fn devices_that_do_not_go_together_are_refused_with_a_sentence() {
    let refused = |config: &StackConfig, device: Several| {
        let refused = Stack::new(config, device).map(drop);
        refused.unwrap_err().to_string()
    };
    let bare = || wire(1500, 1).0;
    assert_eq!(
        refused(&config(), Several::of(bare())),
        "the stack is given addresses on 2 devices, and stands on 1"
    );
    assert_eq!(
        refused(&config(), Several::of(bare()).and(wire(1500, 2).0)),
        "the device has 2 receive queues, but only 1 processors take from it: ask for 1 at most"
    );
    let mut nowhere = config();
    nowhere.routes = vec![Route::by("10.9.0.0/16".parse().unwrap(), 2)];
    assert_eq!(
        refused(&nowhere, Several::of(bare()).and(bare())),
        "the route for 10.9.0.0/16 is by device number 3, and there are not so many"
    );
    let mut same = config();
    same.further_addresses = vec![vec![([10, 1, 0, 3].into(), Some(24))]];
    assert_eq!(
        refused(&same, Several::of(bare()).and(bare())),
        "two devices are on the network 10.1.0.0/24: give each a network of its own, or say by a route what the second is for"
    );
    let mut none = config();
    none.further_addresses = vec![vec![]];
    assert_eq!(
        refused(&none, Several::of(bare()).and(bare())),
        "each of several devices needs an address with its network's prefix, such as 10.77.0.2/24, or a route that names it, and number 2 has none"
    );
}
