//! How a stack opens connections.

use super::{Connection, FIRST_EPHEMERAL, PROTOCOL_TCP, Stack};
use crate::endpoints::unopened;
use crate::error::ConnectError;
use braidnet_message::Scarcity;
use braidnet_stream::{Control, Verb};
use braidnet_tcp::Setting;
use braidnet_wire::address::Tuple;
use core::net::{IpAddr, SocketAddr};

/// What a connection begins with.
#[derive(Clone, Copy, Default)]
pub(super) struct Opening<'a> {
    /// How it is set, where not as all are.
    pub(super) settings: &'a [Setting],
    /// What is sent first, if it is opened with data at all.
    pub(super) data: Option<FirstData<'a>>,
}

/// What a connection sends first.
#[derive(Clone, Copy)]
pub(super) struct FirstData<'a> {
    pub(super) bytes: &'a [u8],
    /// Only if they travel with the SYN.
    pub(super) with_syn_only: bool,
}

/// A connection, and how many bytes it begins with.
pub(super) type Opened = (Connection, usize);

impl Stack {
    /// Opens a connection to `to`, with the next turn, whose time is that of the SYN; [`Event::Connected`](crate::Event::Connected) or
    /// [`Event::Closed`](crate::Event::Closed) says how it went.
    ///
    /// # Errors
    /// If no other host can have that address, no source port is left, or no room for another connection.
    pub fn connect(&mut self, to: SocketAddr) -> Result<Connection, ConnectError> {
        let (connection, _) = self.connect_as(to, Opening::default())?;
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
        self.connect_as(to, opening)
    }

    pub(super) fn connect_as(
        &mut self,
        to: SocketAddr,
        opening: Opening<'_>,
    ) -> Result<Opened, ConnectError> {
        if matches!(to.ip(), IpAddr::V6(_)) {
            return Err(ConnectError::NotIpv4);
        }
        for _ in FIRST_EPHEMERAL..=u16::MAX {
            let port = self.next_port;
            self.next_port = port.checked_add(1).unwrap_or(FIRST_EPHEMERAL);
            let tuple = Tuple {
                local: self.local,
                remote: to.ip().into(),
                local_port: port,
                remote_port: to.port(),
            };
            if let Some(opened) = self.try_connect(tuple, opening)? {
                return Ok(opened);
            }
        }
        Err(ConnectError::NoPort)
    }

    /// `None` if the tuple is taken, or its bucket full.
    pub(super) fn try_connect(
        &mut self,
        tuple: Tuple,
        opening: Opening<'_>,
    ) -> Result<Option<Opened>, ConnectError> {
        if !self.interface.is_peer(&tuple.remote) {
            return Err(ConnectError::NoPeer);
        }
        let (bucket, _) = self.wiring.flows.bucket_of(&tuple, PROTOCOL_TCP);
        let message = {
            let pool = self.cluster.pool();
            let control = Control::new(Verb::Connect)
                .detail(match opening.data {
                    None => Control::HELD,
                    Some(_) => Control::HELD_WITH_DATA,
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
            Some(Ok(connection)) => {
                for setting in opening.settings {
                    self.set(connection, *setting);
                }
                let sent = self.send_first(connection, opening);
                self.ask(connection, Control::new(Verb::Start));
                Ok(Some((connection, sent)))
            }
            Some(Err(Control::NO_MEMORY)) => Err(ConnectError::NoMemory),
            Some(Err(_)) | None => Ok(None),
        }
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
            Setting::SendBuffer(bytes) => Some(*bytes as usize),
            _ => None,
        });
        let space = buffers.fold(beginning.space, usize::min);
        let bytes = &data.bytes[..data.bytes.len().min(space)];
        let down = &mut self.down;
        let pool = self.cluster.pool();
        pool.withhold_reserve(true);
        let sent = endpoint.write_first(bytes, beginning.mss, pool, |segment| down.push(segment));
        pool.withhold_reserve(false);
        sent
    }
}
