//! What [sockets](crate::socket) ask of a stack beyond what its owner does.

use super::{Connection, FIRST_EPHEMERAL, PROTOCOL_TCP, Stack, ephemeral};
use crate::endpoint::Phase;
use crate::error::{CloseReason, ReceiveError};
use crate::event::Event;
use braidnet_inet::Paths;
use braidnet_inet::tcp::{self, ListenError, RECORD_END};
use braidnet_message::{Kind, Scarcity};
use braidnet_stream::{Control, Verb};
use braidnet_sync::parker::Unparker;
use braidnet_tcp::{Config, Setting, State, TcpInfo};
use braidnet_wire::address::Address;
use std::os::fd::BorrowedFd;

/// How things stand with a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Standing {
    /// Bytes that can be read.
    pub(crate) readable: usize,
    /// Bytes that can be sent.
    pub(crate) space: usize,
    /// The peer has sent all that it will.
    pub(crate) end_of_data: bool,
    /// The connection is no more.
    pub(crate) is_gone: bool,
    /// And why.
    pub(crate) ended: Option<CloseReason>,
}

impl Stack {
    /// From now on it is noted which connections and ports have got something to read or room to send, and TCP hears of every byte that
    /// is read.
    pub(crate) fn watch(&mut self) {
        self.endpoints.watch();
        self.inboxes.watch();
        self.credit_threshold = 1;
    }

    /// Whether something waits to be handed down with the next turn.
    pub(crate) fn has_work(&self) -> bool {
        !self.down.is_empty() || !self.listed.is_empty() || self.unasked.len() > self.put_off
    }

    /// Whether something that was sent, the end of data included, waits to be handed down, to leave, or to be acknowledged.
    pub(crate) fn is_sending(&mut self) -> bool {
        let waits = |info: &TcpInfo| match info.state {
            State::Established | State::CloseWait => {
                info.unsent_bytes > 0 || info.flight_size() > 0
            }
            State::FinWait1 | State::Closing | State::LastAck => true,
            State::Closed | State::SynSent | State::SynReceived => false,
            State::FinWait2 | State::TimeWait => false,
        };
        self.has_work() || !self.unasked.is_empty() || self.any(waits)
    }

    /// Whether a packet waits, as far as that can be told without a system call.
    pub(crate) fn has_waiting(&self) -> bool {
        self.device.receiver.has_waiting()
    }

    /// Whether memory is short: what has arrived may wait for some.
    pub(crate) fn is_short_of_memory(&mut self) -> bool {
        self.cluster.pool().scarcity() != Scarcity::Ample
    }

    /// What becomes readable when a packet arrives.
    pub(crate) fn device_fd(&self) -> Option<BorrowedFd<'_>> {
        self.device.receiver.fd()
    }

    /// As [`Receiver::wake_with`](braidnet_device::Receiver::wake_with).
    pub(crate) fn wake_with(&mut self, unparker: Unparker) -> bool {
        self.device.receiver.wake_with(unparker)
    }

    /// Whoever turns the stack is about to sleep: others get the buffers back that are theirs. Whether anything can still arrive.
    pub(crate) fn rest(&mut self) -> bool {
        self.cluster.pool().send_home();
        !self.device.receiver.is_gone()
    }

    /// The next connection that has got something to read or room to send.
    pub(crate) fn stirred(&mut self) -> Option<Connection> {
        self.endpoints.stirred()
    }

    /// The next thing that happened. A connection that has come in is not accepted thereby.
    pub(crate) fn unaccepted_event(&mut self) -> Option<Event> {
        self.endpoints.event()
    }

    /// Accepts a connection.
    pub(crate) fn take_up(&mut self, connection: Connection) {
        self.accept(connection);
    }

    /// A socket has this connection: what is kept of it is, until it is [forgotten](Stack::forget).
    pub(crate) fn claim(&mut self, connection: Connection) {
        self.endpoints.claim(connection);
    }

    pub(crate) fn standing(&mut self, connection: Connection) -> Standing {
        let Some(endpoint) = self.endpoints.get(connection) else {
            return Standing {
                is_gone: true,
                ..Standing::default()
            };
        };
        let ended = match endpoint.state {
            Phase::Gone(detail) => Some(CloseReason::from_detail(detail)),
            _ => None,
        };
        Standing {
            readable: endpoint.readable(),
            space: endpoint.space(),
            end_of_data: endpoint.end_of_data,
            is_gone: ended.is_some(),
            ended,
        }
    }

    /// How many bytes more may wait to be sent for the first time until those are `low_water`, which TCP has not taken yet among them; all if that is 0.
    pub(crate) fn room_below(&mut self, connection: Connection, low_water: u32) -> u32 {
        let endpoint = self.endpoints.get(connection).filter(|_| low_water > 0);
        let Some(endpoint) = endpoint else {
            return u32::MAX;
        };
        let (tuple, space) = (endpoint.tuple, endpoint.space() as u32);
        let (bucket, hash) = self.wiring.flows.bucket_of(&tuple, PROTOCOL_TCP);
        let bucket = self.cluster.buckets().private_bucket(bucket);
        let unsent = bucket.map_or(0, |bucket| {
            tcp::unsent(bucket.state(self.tcp), hash, &tuple, space)
        });
        low_water.saturating_sub(unsent)
    }

    /// Has a connection take no more than `most` bytes; of how many the room is withheld, until it is [given back](Stack::give_room_back).
    pub(crate) fn withhold_room(&mut self, connection: Connection, most: u32) -> u32 {
        let endpoint = self.endpoints.get(connection);
        endpoint.map_or(0, |endpoint| endpoint.withhold(most))
    }

    pub(crate) fn give_room_back(&mut self, connection: Connection, withheld: u32) {
        if let Some(endpoint) = self.endpoints.get(connection) {
            endpoint.grant(withheld.into());
        }
    }

    /// How long what is said of a path is believed, and what is not.
    pub(crate) fn path_limits(&self) -> Paths {
        self.bounds.tcp.now().paths
    }

    /// [`Stack::listen`] on one address, or on all.
    pub(crate) fn listen_at(
        &mut self,
        address: Option<Address>,
        port: u16,
        backlog: u32,
    ) -> Result<(), ListenError> {
        self.listeners.listen(address, port, backlog)
    }

    /// [`Stack::set_backlog`] of one address, or of all.
    pub(crate) fn set_backlog_at(&mut self, address: Option<Address>, port: u16, backlog: u32) {
        self.listeners.set_backlog(address, port, backlog);
    }

    /// How a listener's connections are set from now on.
    pub(crate) fn configure_listener(
        &mut self,
        address: Option<Address>,
        port: u16,
        engine: &Config,
    ) {
        self.listeners.configure(address, port, engine);
    }

    pub(crate) fn stop_listening(&mut self, address: Option<Address>, port: u16) {
        self.listeners.stop(address, port);
    }

    /// Whether data would travel with the SYN of a connection that has not begun.
    pub(crate) fn takes_data_with_syn(&mut self, connection: Connection) -> bool {
        let endpoint = self.endpoints.get(connection);
        endpoint.is_some_and(|endpoint| endpoint.goes_with_syn())
    }

    /// Has a connection set otherwise, with the next turn.
    pub(crate) fn set(&mut self, connection: Connection, setting: Setting) {
        let (which, value) = setting.words();
        self.ask(
            connection,
            Control::new(Verb::Set).detail(which).value(value),
        );
    }

    /// Whether what does not fill a segment is held back until it does. What was, goes with the next turn where it is no more.
    pub(crate) fn cork(&mut self, connection: Connection, corked: bool) {
        if let Some(endpoint) = self.endpoints.get(connection) {
            endpoint.hold_back(corked, |segment| self.down.push(segment));
            self.flush_one(connection);
        }
    }

    /// The same of what is written from now on: what was held back goes with it.
    pub(crate) fn hold_back(&mut self, connection: Connection, holds: bool) {
        if let Some(endpoint) = self.endpoints.get(connection) {
            endpoint.hold_back(holds, |segment| self.down.push(segment));
        }
    }

    /// A record ends with what has been sent last: nothing that follows shares a segment with it.
    pub(crate) fn end_record(&mut self, connection: Connection) {
        let Some(endpoint) = self.endpoints.get(connection) else {
            return;
        };
        let down = &mut self.down;
        if !endpoint.end_record(|segment| down.push(segment))
            && let Some(last) = down.as_mut_slice().last_mut()
            && last.connection() == connection.0
            && last.kind() == Kind::Data
        {
            last.set_position(RECORD_END);
        }
    }

    pub(crate) fn is_holding_back(&mut self, connection: Connection) -> bool {
        self.endpoints
            .get(connection)
            .is_some_and(|endpoint| endpoint.is_filling())
    }

    /// [`Stack::receive`] that leaves what it copies.
    pub(crate) fn peek(
        &mut self,
        connection: Connection,
        to: &mut [u8],
    ) -> Result<usize, ReceiveError> {
        let Some(endpoint) = self.endpoints.get(connection) else {
            return Err(ReceiveError::Gone);
        };
        match (endpoint.peek(to), endpoint.end_of_data, endpoint.state) {
            (0, false, Phase::Gone(_)) => Err(ReceiveError::Gone),
            (0, false, _) => Err(ReceiveError::Empty),
            (n, _, _) => Ok(n),
        }
    }

    /// Ports to choose from, the least recently used first, of those from one to another where these can be chosen.
    pub(crate) fn ports(&mut self, ports: (u16, u16)) -> impl Iterator<Item = u16> + use<> {
        let from = self.next_port;
        self.next_port = from.checked_add(1).unwrap_or(FIRST_EPHEMERAL);
        let ports = ephemeral(ports);
        let all = (from..=u16::MAX).chain(FIRST_EPHEMERAL..from);
        all.filter(move |port| ports.contains(port))
    }
}
