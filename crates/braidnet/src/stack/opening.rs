//! How a stack opens connections.

use super::{Connection, FIRST_EPHEMERAL, PROTOCOL_TCP, Stack, ephemeral};
use crate::endpoints::unopened;
use crate::error::ConnectError;
use braidnet_message::Scarcity;
use braidnet_stream::{Control, Verb};
use braidnet_tcp::Setting;
use braidnet_wire::address::{Address, Tuple};
use core::net::{IpAddr, SocketAddr};

/// Most bytes that a SYN's options take of its segment (RFC 9293 §3.1). Which there will be is not known before it leaves.
const SYN_OPTIONS_MAX: usize = 40;

/// Where a connection comes from.
#[derive(Clone, Copy, Default)]
pub(crate) struct LocalEnd {
    /// The address and the port, where these are chosen; the unspecified one, and 0, are not.
    pub(crate) bound: Option<(Address, u16)>,
    /// From which port and up to which one is chosen where it is not, as far as these can be.
    pub(crate) ports: (u16, u16),
}

/// What a connection begins with.
#[derive(Clone, Copy, Default)]
pub(crate) struct Opening<'a> {
    /// How it is set, where not as all are.
    pub(crate) settings: &'a [Setting],
    /// What is sent first, if it is opened with data at all.
    pub(crate) data: Option<FirstData<'a>>,
}

/// What a connection sends first.
#[derive(Clone, Copy)]
pub(crate) struct FirstData<'a> {
    pub(crate) bytes: &'a [u8],
    /// Only what travels with the SYN.
    pub(crate) with_syn_only: bool,
}

impl Stack {
    /// Opens a connection to `to`, with the next turn, whose time is that of the SYN; [`Event::Connected`](crate::Event::Connected) or
    /// [`Event::Closed`](crate::Event::Closed) says how it went.
    ///
    /// # Errors
    /// If no other host can have that address, no source port is left, or no room for another connection.
    pub fn connect(&mut self, to: SocketAddr) -> Result<Connection, ConnectError> {
        let connection = self.hold(LocalEnd::default(), to, false)?;
        self.begin(connection, Opening::default());
        Ok(connection)
    }

    /// The same with `bytes` to begin with, as many as fit the send buffer; how many.
    ///
    /// Where [Fast Open](braidnet_tcp::FastOpen::Connect) is on, a segment of them travels with the SYN if the server has taken such before, and
    /// may be read before the handshake is over (RFC 7413); if nothing is known of the server, the SYN asks for a cookie for the next
    /// time. What does not travel so follows the handshake. Whoever replays the SYN brings what it carries to the server once
    /// more: it should ask for nothing that must not be done twice (§6.1).
    ///
    /// # Errors
    /// As [`connect`](Stack::connect).
    pub fn connect_with(
        &mut self,
        to: SocketAddr,
        bytes: &[u8],
    ) -> Result<(Connection, usize), ConnectError> {
        let data = FirstData {
            bytes,
            with_syn_only: false,
        };
        let opening = Opening {
            settings: &[],
            data: Some(data),
        };
        let connection = self.hold(LocalEnd::default(), to, true)?;
        Ok((connection, self.begin(connection, opening)))
    }

    /// A connection of which nothing leaves before it is [begun](Stack::begin). Whether it is to begin
    /// with data is known.
    pub(crate) fn hold(
        &mut self,
        from: LocalEnd,
        to: SocketAddr,
        with_data: bool,
    ) -> Result<Connection, ConnectError> {
        if matches!(to.ip(), IpAddr::V6(_)) {
            return Err(ConnectError::NotIpv4);
        }
        let bound = from.bound.filter(|(address, _)| !address.is_unspecified());
        let remote = to.ip().into();
        let local = bound.map_or_else(|| self.source_for(&remote), |(address, _)| address);
        let tuple = |local_port| Tuple {
            local,
            remote,
            local_port,
            remote_port: to.port(),
        };
        if let Some((_, port @ 1..)) = from.bound {
            let tuple = tuple(port);
            return self.try_hold(tuple, with_data)?.ok_or(ConnectError::NoPort);
        }
        let ports = ephemeral(from.ports);
        for _ in FIRST_EPHEMERAL..=u16::MAX {
            let port = self.next_port;
            self.next_port = port.checked_add(1).unwrap_or(FIRST_EPHEMERAL);
            if ports.contains(&port)
                && let Some(connection) = self.try_hold(tuple(port), with_data)?
            {
                return Ok(connection);
            }
        }
        Err(ConnectError::NoPort)
    }

    /// `None` if the tuple is taken, or its bucket full.
    fn try_hold(
        &mut self,
        tuple: Tuple,
        with_data: bool,
    ) -> Result<Option<Connection>, ConnectError> {
        if !self.interface.is_peer(&tuple.remote) {
            return Err(ConnectError::NoPeer);
        }
        if !self.interface.reaches(&tuple.remote) {
            return Err(ConnectError::NoRoute);
        }
        let (bucket, _) = self.wiring.flows.bucket_of(&tuple, PROTOCOL_TCP);
        let message = {
            let pool = self.cluster.pool();
            let control = Control::new(Verb::Connect)
                .detail(match with_data {
                    false => Control::HELD,
                    true => Control::HELD_WITH_DATA,
                })
                .tuple(tuple);
            control.message(unopened(bucket), pool)
        };
        let Some(message) = message else {
            return Err(ConnectError::NoMemory);
        };
        self.endpoints.opened = None;
        self.pass_alone(message);
        match self.endpoints.opened {
            Some(Ok(connection)) => Ok(Some(connection)),
            Some(Err(Control::NO_MEMORY)) => Err(ConnectError::NoMemory),
            Some(Err(_)) | None => Ok(None),
        }
    }

    /// Begins a connection that was held, with the next turn; how many bytes of data it takes.
    pub(crate) fn begin(&mut self, connection: Connection, opening: Opening<'_>) -> usize {
        for setting in opening.settings {
            self.set(connection, *setting);
        }
        let sent = self.send_first(connection, opening);
        self.ask(connection, Control::new(Verb::Start));
        sent
    }

    /// Hands down what a connection sends first, before it begins; how many bytes.
    fn send_first(&mut self, connection: Connection, opening: Opening<'_>) -> usize {
        let (Some(data), Some(endpoint)) = (opening.data, self.endpoints.get(connection)) else {
            return 0;
        };
        let Some(beginning) = endpoint.take_beginning() else {
            return 0;
        };
        let is_short = self.cluster.pool().scarcity() != Scarcity::Ample;
        if is_short || data.with_syn_only && !beginning.goes_with_syn {
            return 0;
        }
        // As TCP has it, unless it has just been set otherwise.
        let buffers = opening.settings.iter().filter_map(|setting| match setting {
            Setting::SendBuffer(bytes) => Some(*bytes),
            _ => None,
        });
        let mut space = buffers.fold(beginning.space, u32::min) as usize;
        if data.with_syn_only {
            space = space.min(usize::from(beginning.mss).saturating_sub(SYN_OPTIONS_MAX));
        }
        let bytes = &data.bytes[..data.bytes.len().min(space)];
        let down = &mut self.down;
        let pool = self.cluster.pool();
        pool.withhold_reserve(true);
        let sent = endpoint.write_first(bytes, beginning.mss, pool, |segment| down.push(segment));
        pool.withhold_reserve(false);
        sent
    }
}
