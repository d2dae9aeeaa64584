//! Two stacks on a wire, turned together.

use crate::wire::{Impaired, Impairment};
use braidnet::device::{Capabilities, memory};
use braidnet::stream::Next;
use braidnet::wire::ethernet::MacAddress;
use braidnet::{CloseReason, Connection, Duration, Event, Instant, Stack, StackConfig};
use std::net::SocketAddr;

pub const CLIENT: [u8; 4] = [10, 77, 0, 1];
pub const SERVER: [u8; 4] = [10, 77, 0, 2];
pub const PORT: u16 = 7;
pub const BOTH_MEDIA: [Capabilities; 2] = [
    Capabilities::ip(1500),
    Capabilities::ethernet(MacAddress([2, 0, 0, 0, 0, 1]), 1500),
];

/// Two stacks on a wire.
pub struct Pair {
    pub client: Stack,
    pub server: Stack,
    pub now: Instant,
    /// What happened at the client, and at the server.
    pub events: [Vec<Event>; 2],
    /// The server's owner is busy elsewhere and takes no events.
    pub nobody_accepts: bool,
}

impl Pair {
    pub fn new(capabilities: Capabilities) -> Pair {
        Pair::with(capabilities, |_| {}, Impairment::default())
    }

    pub fn with(
        capabilities: Capabilities,
        change: impl Fn(&mut StackConfig),
        impairment: Impairment,
    ) -> Pair {
        let (here, there) = memory::wire(capabilities, 1024);
        let stack = |address: [u8; 4], inner| {
            let mut config = StackConfig::new(address.into());
            config.addresses = vec![(address.into(), Some(24))];
            change(&mut config);
            Stack::new(&config, Impaired { inner, impairment }).unwrap()
        };
        let mut pair = Pair {
            client: stack(CLIENT, here),
            server: stack(SERVER, there),
            now: Instant::from_millis(5),
            events: [Vec::new(), Vec::new()],
            nobody_accepts: false,
        };
        pair.server.listen(PORT, 4096).unwrap();
        pair
    }

    /// Turns both until neither has anything to do now; when one of them will.
    pub fn settle(&mut self) -> Option<Instant> {
        for _ in 0..100_000 {
            let next = [self.server.turn(self.now), self.client.turn(self.now)];
            self.events[0].extend(std::iter::from_fn(|| self.client.event()));
            if !self.nobody_accepts {
                self.events[1].extend(std::iter::from_fn(|| self.server.event()));
            }
            if next.contains(&Next::Again) {
                continue;
            }
            // What the client has just sent may be waiting.
            let next = [self.server.turn(self.now), next[1]];
            if next.contains(&Next::Again) {
                continue;
            }
            let at = next.into_iter().filter_map(|next| match next {
                Next::At(at) => Some(at),
                _ => None,
            });
            return at.min();
        }
        panic!("the stacks do not come to rest");
    }

    /// Lets time pass, stopping wherever something is due.
    pub fn pass(&mut self, time: Duration) {
        let end = self.now + time;
        while let Some(due) = self.settle().filter(|due| *due <= end) {
            self.now = due.max(self.now + Duration::from_nanos(1));
        }
        self.now = end;
        self.settle();
    }

    /// A connection from the client to the server: its two ends.
    pub fn connected(&mut self) -> (Connection, Connection) {
        let call = self.client.connect(server(PORT)).unwrap();
        for _ in 0..100 {
            self.settle();
            let accepted = self.events[1].iter().find_map(|event| match event {
                Event::Accepted(answer) => Some(*answer),
                _ => None,
            });
            let is_open = self.events[0].contains(&Event::Connected(call));
            if let Some(answer) = accepted.filter(|_| is_open) {
                self.events = Default::default();
                return (call, answer);
            }
            self.pass(Duration::from_millis(500));
        }
        panic!("nobody answers");
    }

    pub fn client_closed(&self, call: Connection) -> Option<CloseReason> {
        closed(&self.events[0], call)
    }

    pub fn server_closed(&self, answer: Connection) -> Option<CloseReason> {
        closed(&self.events[1], answer)
    }
}

pub fn closed(events: &[Event], connection: Connection) -> Option<CloseReason> {
    events.iter().find_map(|event| match event {
        Event::Closed(gone, reason) if *gone == connection => Some(*reason),
        _ => None,
    })
}

pub fn server(port: u16) -> SocketAddr {
    (SERVER, port).into()
}

pub fn text(len: usize) -> Vec<u8> {
    (0..len).map(|i| (i * 7 + i / 253) as u8).collect()
}

/// All that can be read now.
pub fn read(stack: &mut Stack, connection: Connection) -> Vec<u8> {
    let mut bytes = vec![0; stack.readable(connection)];
    if !bytes.is_empty() {
        let n = stack.receive(connection, &mut bytes).unwrap();
        assert_eq!(n, bytes.len());
    }
    bytes
}
