//! Who lets routers fragment, who heeds what they say of lengths, and who does neither (`PathMtuDiscovery`).

use super::*;
use braidnet::socket::{How, OptionName, Socket, SocketError, SocketOption, Sockets};
use braidnet::tcp::PathMtuDiscovery;
use std::collections::VecDeque;

/// Two hosts with sockets and a router between them, which says that packets of more than 1,000 bytes are too long, if they may not be cut or it `lies`.
struct Hosts {
    client: Sockets,
    server: Sockets,
    now: Instant,
    /// Of each of the client's packets, the last first: whether it may not be cut, and its length.
    seen: Arc<Mutex<VecDeque<(bool, usize)>>>,
}

impl Hosts {
    fn new(lies: bool) -> Hosts {
        let seen = Arc::<Mutex<VecDeque<(bool, usize)>>>::default();
        let sees = seen.clone();
        let verdict = move |packet: &[u8]| {
            let is_uncut = packet[6] & 0x40 != 0;
            sees.lock().unwrap().push_front((is_uncut, packet.len()));
            (packet.len() > 1000 && (is_uncut || lies)).then_some((3, 4, 1000))
        };
        let (near, far) = memory::wire(Capabilities::ip(1500), 256);
        let routed = Routed {
            inner: Box::new(near),
            verdict: Arc::new(verdict),
        };
        let client = Sockets::new(&StackConfig::new(CLIENT.into()), routed).unwrap();
        let server = Sockets::new(&StackConfig::new(SERVER.into()), far).unwrap();
        Hosts {
            client,
            server,
            now: Instant::from_millis(1000),
            seen,
        }
    }

    fn settle(&mut self) {
        for _ in 0..12 {
            self.now += Duration::from_millis(1);
            self.client.turn(self.now);
            self.server.turn(self.now);
        }
    }

    /// A socket for datagrams that is set so, and connected with one of the server's.
    fn asker(&mut self, discovery: PathMtuDiscovery) -> Socket {
        let asker = self.client.datagram_socket().unwrap();
        let name = OptionName::PathMtuDiscovery;
        let first = SocketOption::PathMtuDiscovery(PathMtuDiscovery::Dont);
        assert_eq!(self.client.option(asker, name), Ok(first));
        let option = SocketOption::PathMtuDiscovery(discovery);
        self.client.set_option(asker, option).unwrap();
        assert_eq!(self.client.option(asker, name), Ok(option));
        let oracle = self.server.datagram_socket().unwrap();
        self.server.bind(oracle, (SERVER, 53).into()).unwrap();
        self.client.connect(asker, (SERVER, 53).into()).unwrap();
        asker
    }

    /// Sends so many bytes; the packets of it.
    fn sends(&mut self, asker: Socket, len: usize) -> Result<Vec<(bool, usize)>, SocketError> {
        self.seen.lock().unwrap().clear();
        self.client.send(asker, &vec![7; len])?;
        self.settle();
        Ok(self.seen.lock().unwrap().drain(..).rev().collect())
    }

    fn told(&mut self, asker: Socket) -> Option<SocketError> {
        self.client.take_error(asker).unwrap()
    }
}

const UNCUT: bool = true;
const MAY_BE_CUT: bool = false;
const TOO_LONG: SocketError = SocketError::TooLong;

#[test]
fn datagrams_that_may_be_cut_are_of_any_length_and_nothing_is_believed() {
    let mut hosts = Hosts::new(true);
    let asker = hosts.asker(PathMtuDiscovery::Dont);
    for _ in 0..2 {
        assert_eq!(hosts.sends(asker, 1472), Ok(vec![(MAY_BE_CUT, 1500)]));
        assert_eq!(hosts.told(asker), None);
        let fragments = vec![(MAY_BE_CUT, 1500), (MAY_BE_CUT, 21)];
        assert_eq!(hosts.sends(asker, 1473), Ok(fragments));
    }
}

#[test]
fn datagrams_that_do_not_fit_may_be_cut_where_that_is_wanted() {
    let mut hosts = Hosts::new(false);
    let asker = hosts.asker(PathMtuDiscovery::Want);
    let fragments = vec![(MAY_BE_CUT, 1500), (MAY_BE_CUT, 21)];
    assert_eq!(hosts.sends(asker, 1473), Ok(fragments));
    assert_eq!(hosts.sends(asker, 1472), Ok(vec![(UNCUT, 1500)]));
    assert_eq!(hosts.told(asker), Some(TOO_LONG));
    assert_eq!(hosts.sends(asker, 1472), Ok(vec![(MAY_BE_CUT, 1500)]));
    assert_eq!(hosts.sends(asker, 973), Ok(vec![(MAY_BE_CUT, 1001)]));
    assert_eq!(hosts.sends(asker, 972), Ok(vec![(UNCUT, 1000)]));
    assert_eq!(hosts.told(asker), None);
}

#[test]
fn datagrams_that_do_not_fit_are_refused_where_none_may_be_cut() {
    let mut hosts = Hosts::new(false);
    let asker = hosts.asker(PathMtuDiscovery::Do);
    assert_eq!(hosts.sends(asker, 1473), Err(TOO_LONG));
    assert_eq!(hosts.sends(asker, 1472), Ok(vec![(UNCUT, 1500)]));
    assert_eq!(hosts.sends(asker, 1), Err(TOO_LONG), "of the one before");
    assert_eq!(hosts.sends(asker, 973), Err(TOO_LONG));
    assert_eq!(hosts.told(asker), None);
    assert_eq!(hosts.sends(asker, 972), Ok(vec![(UNCUT, 1000)]));
    // All of a train are as long as the first.
    let sent = hosts.client.send_segments(asker, &[7; 3000], 973);
    assert_eq!(sent, Err(TOO_LONG));
    let sent = hosts.client.send_segments(asker, &[7; 3000], 972);
    assert_eq!(sent, Ok(3000));
    hosts.settle();
    let train: Vec<_> = hosts.seen.lock().unwrap().drain(..4).collect();
    assert_eq!(train[0], (UNCUT, 112));
    assert_eq!(train[1..], [(UNCUT, 1000); 3]);
    // Of another destination, nothing was said.
    let elsewhere = (SERVER, 54).into();
    let sent = hosts.client.send_to(asker, &[7; 1472], elsewhere);
    assert_eq!(sent, Ok(1472));
    hosts.settle();
    assert_eq!(
        hosts.told(asker),
        None,
        "and what is said of it is not of the peer"
    );
    // It is forgotten with time, and with the peer.
    hosts.now += Duration::from_secs(600);
    hosts.settle();
    assert_eq!(hosts.sends(asker, 1472), Ok(vec![(UNCUT, 1500)]));
    assert_eq!(hosts.told(asker), Some(TOO_LONG));
    assert_eq!(hosts.sends(asker, 973), Err(TOO_LONG));
    hosts.client.connect(asker, (SERVER, 53).into()).unwrap();
    assert_eq!(hosts.sends(asker, 973), Ok(vec![(UNCUT, 1001)]));
}

#[test]
fn whoever_probes_sends_what_the_device_carries_whatever_is_said() {
    let mut hosts = Hosts::new(false);
    let asker = hosts.asker(PathMtuDiscovery::Probe);
    assert_eq!(hosts.sends(asker, 1473), Err(TOO_LONG));
    for _ in 0..2 {
        assert_eq!(hosts.sends(asker, 1472), Ok(vec![(UNCUT, 1500)]));
        assert_eq!(hosts.told(asker), Some(TOO_LONG), "that is for it to know");
    }
}

/// A socket may say so of its own connection, before it is opened: what is known of the path is nothing to it.
#[test]
fn one_connection_heeds_what_is_known_and_another_does_not() {
    let mut hosts = Hosts::new(false);
    let listener = hosts.server.socket().unwrap();
    hosts.server.bind(listener, (SERVER, 7).into()).unwrap();
    hosts.server.listen(listener, 16).unwrap();
    let opened = |hosts: &mut Hosts, discovery| {
        let call = hosts.client.socket().unwrap();
        let option = SocketOption::PathMtuDiscovery(discovery);
        hosts.client.set_option(call, option).unwrap();
        let to = (SERVER, 7).into();
        assert_eq!(hosts.client.connect(call, to), Err(SocketError::InProgress));
        hosts.settle();
        let info = hosts.client.info(call).unwrap();
        (call, info.path_mtu)
    };
    let (call, path_mtu) = opened(&mut hosts, PathMtuDiscovery::Want);
    assert_eq!(path_mtu, 1500);
    hosts.client.send(call, &[7; 2000]).unwrap();
    hosts.settle();
    assert_eq!(hosts.client.info(call).unwrap().path_mtu, 1000);
    let rows = [
        (PathMtuDiscovery::Want, 1000, UNCUT),
        (PathMtuDiscovery::Do, 1000, UNCUT),
        (PathMtuDiscovery::Probe, 1500, UNCUT),
        (PathMtuDiscovery::Dont, 1500, MAY_BE_CUT),
    ];
    for (discovery, path_mtu, may_be_cut) in rows {
        let (call, found) = opened(&mut hosts, discovery);
        assert_eq!(found, path_mtu, "{discovery:?}");
        hosts.seen.lock().unwrap().clear();
        hosts.client.send(call, &[7; 3000]).unwrap();
        hosts.client.turn(hosts.now);
        let first = hosts.seen.lock().unwrap().back().copied();
        assert_eq!(
            first,
            Some((may_be_cut, path_mtu as usize)),
            "{discovery:?}"
        );
        hosts.client.shutdown(call, How::Both).unwrap();
        hosts.settle();
    }
    let counters = hosts.client.counters();
    assert_eq!(counters.get("tcp.path_shortened"), Some(&1));
    assert!(
        counters
            .get("tcp.report_unheeded")
            .is_some_and(|count| *count > 0)
    );
}

/// RFC 6864 §4.1: what may be cut has a number, and no other of a while has the same.
#[test]
fn segments_that_may_be_cut_are_numbered_one_by_one() {
    let numbers = Arc::<Mutex<Vec<u16>>>::default();
    let seen = numbers.clone();
    let mut world = World::new(
        |config| config.tcp.path_mtu_discovery = PathMtuDiscovery::Dont,
        move |packet| {
            assert_eq!(packet[6] & 0x40, 0);
            let number = u16::from_be_bytes([packet[4], packet[5]]);
            seen.lock().unwrap().push(number);
            None
        },
    );
    assert!(world.transfer(&text()) == text());
    let numbers = numbers.lock().unwrap();
    assert!(numbers.len() > 200);
    let mut pairs = numbers.windows(2);
    assert!(pairs.all(|pair| pair[1] == pair[0].wrapping_add(1)));
}
