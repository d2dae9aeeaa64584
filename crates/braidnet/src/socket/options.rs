//! How a socket is set.

use super::error::SocketError;
use braidnet_tcp::{
    Config, CongestionControl, EcnMode, MAX_WINDOW_BYTES, PathMtuDiscovery, PathProbing, Setting,
};
use braidnet_wire::time::Duration;

/// An option of a socket and its value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SocketOption {
    /// Whether the port may be bound by others who allow it, too, as long as nobody listens there (`SO_REUSEADDR`). What is in
    /// TIME-WAIT is in nobody's way in any case.
    ReuseAddress(bool),
    /// The first and the last of the ports that one is chosen from where the socket's owner names none (`IP_LOCAL_PORT_RANGE`): 49,152 to 65,535, and so it stays
    /// on a side of which the port lies elsewhere, 0 say.
    LocalPorts(u16, u16),
    /// Whether a socket that is bound to an address and port 0 gets its port when it is connected or listens (`IP_BIND_ADDRESS_NO_PORT`), so that one port may be
    /// of several connections to different peers. Until then its port is 0.
    BindWithoutPort(bool),
    /// Whether small segments leave at once (`TCP_NODELAY`; RFC 9293 §3.7.4). What a corked socket holds back goes when this is set.
    NoDelay(bool),
    /// Whether what does not fill a segment is held back until it does, or for 200 ms, or until this is taken back (`TCP_CORK`).
    Cork(bool),
    /// Upper bound of the segment size that is announced and sent, 88 to 32,767 bytes (`TCP_MAXSEG`; RFC 9293 §3.7.1). Before the
    /// connection.
    MaximumSegment(u16),
    /// `Some(0)`: closing resets the connection. Any other time is for whoever waits for a close: the socket does not wait
    /// (`SO_LINGER`).
    Linger(Option<Duration>),
    /// Bytes that may wait to be received; the window, therefore (`SO_RCVBUF`).
    ReceiveBuffer(u32),
    /// Bytes that may wait to be acknowledged (`SO_SNDBUF`). While connected it only grows.
    SendBuffer(u32),
    /// While so many bytes wait to leave for the first time, or more, the socket takes none and is not writable, though the send buffer has room: what is
    /// written last leaves soon (`TCP_NOTSENT_LOWAT`). Where fewer wait, it takes up to as many, or 64 KiB if that is more. 0 leaves it to the send buffer.
    NotSentLowWater(u32),
    /// Whether a silent peer is asked whether it is still there (`SO_KEEPALIVE`; RFC 9293 §3.8.4).
    KeepAlive(bool),
    /// Silence before the first such question, 1 to 32,767 seconds (`TCP_KEEPIDLE`).
    KeepIdle(Duration),
    /// Between one and the next, as long (`TCP_KEEPINTVL`).
    KeepInterval(Duration),
    /// How many without an answer end the connection, 1 to 127 (`TCP_KEEPCNT`).
    KeepCount(u8),
    /// How long the oldest that there is to send may go unacknowledged; `None` leaves it to the number of timeouts
    /// (`TCP_USER_TIMEOUT`; RFC 5482 §3).
    UserTimeout(Option<Duration>),
    /// Hops that a packet may take, 1 to 255 (`IP_TTL`; RFC 9293 §3.9.2).
    TimeToLive(u8),
    /// The Differentiated Services Code Point of every packet, 0 to 63: the six highest bits of `IP_TOS` (RFC 9293 §3.9.1.9).
    DifferentiatedServices(u8),
    /// Whether the network may mark data in place of dropping it, where the peer wants that, too (RFC 3168). Before the connection. No
    /// number stands for it: elsewhere it is said for the whole host, or for a route.
    Ecn(EcnMode),
    /// The rule by which the congestion window grows and shrinks (`TCP_CONGESTION`). Before the connection; later without effect. A name stands for it
    /// in place of a number.
    CongestionControl(CongestionControl),
    /// Whether routers may fragment packets, and whether it is heeded what they say of those that are too long (`IP_MTU_DISCOVER`; RFC 1191). TCP begins with
    /// [`PathMtuDiscovery::Want`], datagram sockets with [`PathMtuDiscovery::Dont`], as RFC 768 has it. A connected datagram socket is told
    /// ([`SocketError::TooLong`]) where the network has dropped what was too long, unless it is set so, and knows of the path what was said in the last [ten
    /// minutes](braidnet_inet::Paths::lifetime); of others only the device's MTU is known.
    PathMtuDiscovery(PathMtuDiscovery),
    /// Whether the length of segments that the path carries is found out by trying (RFC 4821). Linux has it for all sockets only, as
    /// `tcp_mtu_probing`: no number stands for it.
    PathProbing(PathProbing),
    /// How many connections of a listener may be open by data on their SYN and not have ended their handshake (`TCP_FASTOPEN`; RFC 7413 §4.2);
    /// with 0, none is opened so.
    FastOpen(u32),
    /// Whether a listener takes data on a SYN without a good cookie, too (`TCP_FASTOPEN_NO_COOKIE`, which says nothing of a connection here);
    /// [only where](Config::fast_open_without_cookie) nobody can forge an address.
    FastOpenWithoutCookie(bool),
    /// Whether a connection waits for the first bytes that are sent, which travel with its SYN, where the server is known to take such
    /// (`TCP_FASTOPEN_CONNECT`; RFC 7413): connecting is done at once then. Before the connection, and only on a stack whose connections [use
    /// Fast Open](braidnet_tcp::FastOpen::Connect).
    FastOpenConnect(bool),
    /// Whether datagrams may go to every host of a network (`SO_BROADCAST`). Of datagram sockets, which have this option,
    /// [`PathMtuDiscovery`](SocketOption::PathMtuDiscovery) and [`LocalPorts`](SocketOption::LocalPorts) here.
    Broadcast(bool),
}

/// An option, without a value.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum OptionName {
    /// [`SocketOption::ReuseAddress`].
    ReuseAddress,
    /// [`SocketOption::LocalPorts`].
    LocalPorts,
    /// [`SocketOption::BindWithoutPort`].
    BindWithoutPort,
    /// [`SocketOption::NoDelay`].
    NoDelay,
    /// [`SocketOption::Cork`].
    Cork,
    /// [`SocketOption::MaximumSegment`].
    MaximumSegment,
    /// [`SocketOption::Linger`].
    Linger,
    /// [`SocketOption::ReceiveBuffer`].
    ReceiveBuffer,
    /// [`SocketOption::SendBuffer`].
    SendBuffer,
    /// [`SocketOption::NotSentLowWater`].
    NotSentLowWater,
    /// [`SocketOption::KeepAlive`].
    KeepAlive,
    /// [`SocketOption::KeepIdle`].
    KeepIdle,
    /// [`SocketOption::KeepInterval`].
    KeepInterval,
    /// [`SocketOption::KeepCount`].
    KeepCount,
    /// [`SocketOption::UserTimeout`].
    UserTimeout,
    /// [`SocketOption::TimeToLive`].
    TimeToLive,
    /// [`SocketOption::DifferentiatedServices`].
    DifferentiatedServices,
    /// [`SocketOption::Ecn`].
    Ecn,
    /// [`SocketOption::CongestionControl`].
    CongestionControl,
    /// [`SocketOption::PathMtuDiscovery`].
    PathMtuDiscovery,
    /// [`SocketOption::PathProbing`].
    PathProbing,
    /// [`SocketOption::FastOpen`].
    FastOpen,
    /// [`SocketOption::FastOpenWithoutCookie`].
    FastOpenWithoutCookie,
    /// [`SocketOption::FastOpenConnect`].
    FastOpenConnect,
    /// [`SocketOption::Broadcast`].
    Broadcast,
}

/// Levels and numbers that Linux gives options on x86-64 and most other machines (`asm-generic/socket.h`, `linux/in.h`, `linux/tcp.h`).
const NUMBERS: [(i32, i32, OptionName); 22] = [
    (0, 1, OptionName::DifferentiatedServices),
    (0, 2, OptionName::TimeToLive),
    (0, 10, OptionName::PathMtuDiscovery),
    (0, 24, OptionName::BindWithoutPort),
    (0, 51, OptionName::LocalPorts),
    (1, 2, OptionName::ReuseAddress),
    (1, 7, OptionName::SendBuffer),
    (1, 8, OptionName::ReceiveBuffer),
    (1, 13, OptionName::Linger),
    (6, 1, OptionName::NoDelay),
    (6, 2, OptionName::MaximumSegment),
    (6, 3, OptionName::Cork),
    (1, 9, OptionName::KeepAlive),
    (6, 4, OptionName::KeepIdle),
    (6, 5, OptionName::KeepInterval),
    (6, 6, OptionName::KeepCount),
    (6, 18, OptionName::UserTimeout),
    (6, 25, OptionName::NotSentLowWater),
    (6, 23, OptionName::FastOpen),
    (6, 34, OptionName::FastOpenWithoutCookie),
    (6, 30, OptionName::FastOpenConnect),
    (1, 6, OptionName::Broadcast),
];

impl OptionName {
    /// The option that setsockopt(2) knows by these numbers on Linux.
    ///
    /// # Errors
    /// [`SocketError::NoSuchOption`] if sockets here have none.
    pub fn from_numbers(level: i32, name: i32) -> Result<OptionName, SocketError> {
        let known = NUMBERS
            .into_iter()
            .find(|known| (known.0, known.1) == (level, name));
        known
            .map(|(_, _, option)| option)
            .ok_or(SocketError::NoSuchOption)
    }
}

/// The least segment size that may be asked for; see `docs/rfc-departures.md`.
const LEAST_SEGMENT: u16 = 88;
/// The greatest, as Linux has it.
const GREATEST_SEGMENT: u16 = 32_767;

/// All options of one socket.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Options {
    pub(super) reuse_address: bool,
    pub(super) local_ports: (u16, u16),
    pub(super) bind_without_port: bool,
    pub(super) cork: bool,
    pub(super) linger: Option<Duration>,
    pub(super) fast_open_connect: bool,
    pub(super) broadcast: bool,
    /// What the engine is to know.
    pub(super) engine: Config,
}

impl Options {
    pub(super) fn new(engine: &Config) -> Options {
        Options {
            reuse_address: false,
            local_ports: (0, 0),
            bind_without_port: false,
            cork: false,
            linger: None,
            fast_open_connect: false,
            broadcast: false,
            engine: *engine,
        }
    }

    /// Notes an option; what the engine has to be told, if anything.
    pub(super) fn set(&mut self, option: SocketOption) -> Result<Option<Setting>, SocketError> {
        let setting = match option {
            SocketOption::ReuseAddress(on) => {
                self.reuse_address = on;
                return Ok(None);
            }
            SocketOption::LocalPorts(first, last) => {
                if last > 0 && first > last {
                    return Err(SocketError::Invalid);
                }
                self.local_ports = (first, last);
                return Ok(None);
            }
            SocketOption::BindWithoutPort(on) => {
                self.bind_without_port = on;
                return Ok(None);
            }
            SocketOption::Cork(on) => {
                self.cork = on;
                return Ok(None);
            }
            SocketOption::Linger(time) => {
                self.linger = time;
                return Ok(None);
            }
            SocketOption::FastOpenConnect(on) => {
                self.fast_open_connect = on;
                return Ok(None);
            }
            SocketOption::Broadcast(on) => {
                self.broadcast = on;
                return Ok(None);
            }
            SocketOption::NoDelay(on) => Setting::Nagle(!on),
            SocketOption::MaximumSegment(bytes) => {
                if !(LEAST_SEGMENT..=GREATEST_SEGMENT).contains(&bytes) {
                    return Err(SocketError::Invalid);
                }
                Setting::MaximumSegment(bytes)
            }
            SocketOption::ReceiveBuffer(bytes) => {
                Setting::ReceiveBuffer(bytes.clamp(1, MAX_WINDOW_BYTES))
            }
            SocketOption::SendBuffer(bytes) => {
                Setting::SendBuffer(bytes.clamp(1, MAX_WINDOW_BYTES))
            }
            SocketOption::NotSentLowWater(bytes) => Setting::NotSentLowWater(bytes),
            SocketOption::KeepAlive(on) => Setting::KeepAlive(on),
            SocketOption::KeepIdle(time) => Setting::KeepIdle(seconds(time)?),
            SocketOption::KeepInterval(time) => Setting::KeepInterval(seconds(time)?),
            SocketOption::KeepCount(probes @ 1..=127) => Setting::KeepProbes(probes),
            SocketOption::KeepCount(_) => return Err(SocketError::Invalid),
            SocketOption::UserTimeout(time) => Setting::UserTimeout(time.unwrap_or_default()),
            SocketOption::TimeToLive(hops @ 1..) => Setting::TimeToLive(hops),
            SocketOption::TimeToLive(0) => return Err(SocketError::Invalid),
            SocketOption::DifferentiatedServices(point @ 0..=63) => {
                Setting::DifferentiatedServices(point)
            }
            SocketOption::DifferentiatedServices(_) => return Err(SocketError::Invalid),
            SocketOption::Ecn(mode) => Setting::Ecn(mode),
            SocketOption::CongestionControl(control) => Setting::Congestion(control),
            SocketOption::PathMtuDiscovery(discovery) => Setting::PathMtuDiscovery(discovery),
            SocketOption::PathProbing(probing) => Setting::PathProbing(probing),
            SocketOption::FastOpen(pending) => Setting::FastOpen(pending),
            SocketOption::FastOpenWithoutCookie(on) => Setting::FastOpenWithoutCookie(on),
        };
        setting.apply(&mut self.engine);
        Ok(Some(setting))
    }

    pub(super) fn get(&self, name: OptionName) -> SocketOption {
        match name {
            OptionName::ReuseAddress => SocketOption::ReuseAddress(self.reuse_address),
            OptionName::LocalPorts => {
                SocketOption::LocalPorts(self.local_ports.0, self.local_ports.1)
            }
            OptionName::BindWithoutPort => SocketOption::BindWithoutPort(self.bind_without_port),
            OptionName::NoDelay => SocketOption::NoDelay(!self.engine.nagle),
            OptionName::Cork => SocketOption::Cork(self.cork),
            OptionName::MaximumSegment => SocketOption::MaximumSegment(self.engine.maximum_segment),
            OptionName::Linger => SocketOption::Linger(self.linger),
            OptionName::ReceiveBuffer => {
                SocketOption::ReceiveBuffer(self.engine.receive_buffer_bytes)
            }
            OptionName::SendBuffer => SocketOption::SendBuffer(self.engine.send_buffer_bytes),
            OptionName::NotSentLowWater => {
                SocketOption::NotSentLowWater(self.engine.not_sent_low_water)
            }
            OptionName::KeepAlive => SocketOption::KeepAlive(self.engine.keepalive.on),
            OptionName::KeepIdle => SocketOption::KeepIdle(self.engine.keepalive.idle),
            OptionName::KeepInterval => SocketOption::KeepInterval(self.engine.keepalive.interval),
            OptionName::KeepCount => SocketOption::KeepCount(self.engine.keepalive.probes),
            OptionName::UserTimeout => SocketOption::UserTimeout(self.engine.user_timeout),
            OptionName::TimeToLive => SocketOption::TimeToLive(self.engine.time_to_live),
            OptionName::DifferentiatedServices => {
                SocketOption::DifferentiatedServices(self.engine.differentiated_services)
            }
            OptionName::Ecn => SocketOption::Ecn(self.engine.ecn),
            OptionName::CongestionControl => {
                SocketOption::CongestionControl(self.engine.congestion)
            }
            OptionName::PathMtuDiscovery => {
                SocketOption::PathMtuDiscovery(self.engine.path_mtu_discovery)
            }
            OptionName::PathProbing => SocketOption::PathProbing(self.engine.path_probing),
            OptionName::FastOpen if !self.engine.fast_open.listens() => SocketOption::FastOpen(0),
            OptionName::FastOpen => SocketOption::FastOpen(self.engine.fast_open_pending),
            OptionName::FastOpenWithoutCookie => {
                SocketOption::FastOpenWithoutCookie(self.engine.fast_open_without_cookie)
            }
            OptionName::FastOpenConnect => SocketOption::FastOpenConnect(self.fast_open_connect),
            OptionName::Broadcast => SocketOption::Broadcast(self.broadcast),
        }
    }

    /// What an engine that is set as `common` has to be told to be set like this.
    pub(super) fn settings(&self, common: &Config) -> Vec<Setting> {
        let own = &self.engine;
        let all = [
            Setting::Nagle(own.nagle),
            Setting::MaximumSegment(own.maximum_segment),
            Setting::ReceiveBuffer(own.receive_buffer_bytes),
            Setting::SendBuffer(own.send_buffer_bytes),
            Setting::NotSentLowWater(own.not_sent_low_water),
            Setting::KeepAlive(own.keepalive.on),
            Setting::KeepIdle(own.keepalive.idle),
            Setting::KeepInterval(own.keepalive.interval),
            Setting::KeepProbes(own.keepalive.probes),
            Setting::UserTimeout(own.user_timeout.unwrap_or_default()),
            Setting::TimeToLive(own.time_to_live),
            Setting::DifferentiatedServices(own.differentiated_services),
            Setting::Ecn(own.ecn),
            Setting::Congestion(own.congestion),
            Setting::PathMtuDiscovery(own.path_mtu_discovery),
            Setting::PathProbing(own.path_probing),
            Setting::FastOpen(match own.fast_open.listens() {
                true => own.fast_open_pending,
                false => 0,
            }),
            Setting::FastOpenWithoutCookie(own.fast_open_without_cookie),
        ];
        let differs = |setting: &Setting| {
            let mut told = *common;
            setting.apply(&mut told);
            // A receive buffer that was not set may still grow.
            let is_own = !matches!(setting, Setting::ReceiveBuffer(_))
                || own.receive_buffer_max_bytes == told.receive_buffer_max_bytes;
            is_own && told != *common
        };
        all.into_iter().filter(differs).collect()
    }
}

/// A time that Linux takes for keepalive.
fn seconds(time: Duration) -> Result<Duration, SocketError> {
    match time.as_secs() {
        1..=32_767 => Ok(time),
        _ => Err(SocketError::Invalid),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_set_is_what_is_found_and_what_the_engine_is_told() {
        let common = Config::default();
        let mut options = Options::new(&common);
        let rows = [
            (OptionName::ReuseAddress, SocketOption::ReuseAddress(true)),
            (OptionName::LocalPorts, SocketOption::LocalPorts(50_000, 0)),
            (
                OptionName::BindWithoutPort,
                SocketOption::BindWithoutPort(true),
            ),
            (OptionName::NoDelay, SocketOption::NoDelay(true)),
            (OptionName::Cork, SocketOption::Cork(true)),
            (
                OptionName::MaximumSegment,
                SocketOption::MaximumSegment(700),
            ),
            (
                OptionName::Linger,
                SocketOption::Linger(Some(Duration::from_secs(3))),
            ),
            (
                OptionName::ReceiveBuffer,
                SocketOption::ReceiveBuffer(9_000),
            ),
            (OptionName::SendBuffer, SocketOption::SendBuffer(8_000)),
            (
                OptionName::NotSentLowWater,
                SocketOption::NotSentLowWater(6_000),
            ),
            (OptionName::KeepAlive, SocketOption::KeepAlive(true)),
            (
                OptionName::KeepIdle,
                SocketOption::KeepIdle(Duration::from_secs(9)),
            ),
            (
                OptionName::KeepInterval,
                SocketOption::KeepInterval(Duration::from_secs(8)),
            ),
            (OptionName::KeepCount, SocketOption::KeepCount(7)),
            (
                OptionName::UserTimeout,
                SocketOption::UserTimeout(Some(Duration::from_secs(6))),
            ),
            (OptionName::TimeToLive, SocketOption::TimeToLive(7)),
            (
                OptionName::DifferentiatedServices,
                SocketOption::DifferentiatedServices(46),
            ),
            (OptionName::Ecn, SocketOption::Ecn(EcnMode::On)),
            (
                OptionName::CongestionControl,
                SocketOption::CongestionControl(CongestionControl::NewReno),
            ),
            (
                OptionName::PathMtuDiscovery,
                SocketOption::PathMtuDiscovery(PathMtuDiscovery::Probe),
            ),
            (
                OptionName::PathProbing,
                SocketOption::PathProbing(PathProbing::Off),
            ),
            (OptionName::FastOpen, SocketOption::FastOpen(9)),
            (
                OptionName::FastOpenWithoutCookie,
                SocketOption::FastOpenWithoutCookie(true),
            ),
            (
                OptionName::FastOpenConnect,
                SocketOption::FastOpenConnect(true),
            ),
            (OptionName::Broadcast, SocketOption::Broadcast(true)),
        ];
        for (name, value) in rows {
            assert_ne!(options.get(name), value);
            options.set(value).unwrap();
            assert_eq!(options.get(name), value);
        }
        let mut told = common;
        for setting in options.settings(&common) {
            setting.apply(&mut told);
        }
        assert_eq!(told, options.engine);
        assert_eq!(Options::new(&common).settings(&common), []);
    }

    #[test]
    fn what_is_no_option_and_what_is_no_value_is_refused() {
        assert_eq!(OptionName::from_numbers(6, 1), Ok(OptionName::NoDelay));
        assert_eq!(
            OptionName::from_numbers(6, 99),
            Err(SocketError::NoSuchOption)
        );
        let mut options = Options::new(&Config::default());
        for bytes in [0, 87, 32_768] {
            let set = options.set(SocketOption::MaximumSegment(bytes));
            assert_eq!(set, Err(SocketError::Invalid), "{bytes}");
        }
        let none = Duration::from_millis(999);
        for option in [
            SocketOption::KeepIdle(none),
            SocketOption::KeepInterval(none),
            SocketOption::KeepCount(0),
            SocketOption::KeepCount(128),
            SocketOption::TimeToLive(0),
            SocketOption::LocalPorts(50_001, 50_000),
            SocketOption::DifferentiatedServices(64),
        ] {
            assert_eq!(options.set(option), Err(SocketError::Invalid));
        }
    }
}
