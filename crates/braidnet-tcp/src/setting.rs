//! What can be chosen for a single connection.

use crate::{
    Config, CongestionControl, EcnMode, MAX_WINDOW_BYTES, PathMtuDiscovery, PathProbing, Payload,
    Tcb,
};
use braidnet_wire::time::{Duration, Instant};

/// One choice for a single connection, or for those that a listener takes, in place of what [`Config`] says for all.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Setting {
    /// [`Config::nagle`]; at any time.
    Nagle(bool),
    /// [`Config::maximum_segment`]; before the first segment is sent, later without effect.
    MaximumSegment(u16),
    /// [`Config::receive_buffer_bytes`]. Before the first segment is sent it decides on the window scale, too; later the window
    /// follows as far as that scale can say, and never moves back. It does not grow any more by itself.
    ReceiveBuffer(u32),
    /// [`Config::send_buffer_bytes`]; once the application has been told what room there is, only for more.
    SendBuffer(u32),
    /// [`Config::not_sent_low_water`]; at any time.
    NotSentLowWater(u32),
    /// [`Keepalive::on`](crate::Keepalive::on); at any time.
    KeepAlive(bool),
    /// [`Keepalive::idle`](crate::Keepalive::idle); at any time.
    KeepIdle(Duration),
    /// [`Keepalive::interval`](crate::Keepalive::interval); at any time.
    KeepInterval(Duration),
    /// [`Keepalive::probes`](crate::Keepalive::probes); at any time.
    KeepProbes(u8),
    /// [`Config::user_timeout`], of which zero is none; at any time.
    UserTimeout(Duration),
    /// [`Config::time_to_live`]; at any time.
    TimeToLive(u8),
    /// [`Config::differentiated_services`]; at any time.
    DifferentiatedServices(u8),
    /// [`Config::ecn`]; before the first segment is sent, later without effect.
    Ecn(EcnMode),
    /// [`Config::congestion`]; before the first segment is sent, later without effect.
    Congestion(CongestionControl),
    /// [`Config::path_mtu_discovery`]; at any time. What was heard of the path before stays heard once data has left.
    PathMtuDiscovery(PathMtuDiscovery),
    /// [`Config::path_probing`]; at any time.
    PathProbing(PathProbing),
    /// [`Config::fast_open_pending`], and that the listener [uses](crate::FastOpen::Listen) Fast Open unless it is 0; of a connection it says nothing.
    FastOpen(u32),
    /// [`Config::fast_open_without_cookie`]; of a connection it says nothing.
    FastOpenWithoutCookie(bool),
}

impl Setting {
    /// The setting as two words, for messages that carry such: which it is, and its value.
    pub fn words(self) -> (u32, u64) {
        match self {
            Setting::Nagle(on) => (1, on.into()),
            Setting::MaximumSegment(bytes) => (2, bytes.into()),
            Setting::ReceiveBuffer(bytes) => (3, bytes.into()),
            Setting::SendBuffer(bytes) => (4, bytes.into()),
            Setting::NotSentLowWater(bytes) => (16, bytes.into()),
            Setting::KeepAlive(on) => (5, on.into()),
            Setting::KeepIdle(time) => (6, nanos(time)),
            Setting::KeepInterval(time) => (7, nanos(time)),
            Setting::KeepProbes(probes) => (8, probes.into()),
            Setting::UserTimeout(time) => (9, nanos(time)),
            Setting::Ecn(mode) => (20, mode as u64),
            Setting::Congestion(control) => (14, control as u64),
            Setting::PathMtuDiscovery(discovery) => (17, discovery as u64),
            Setting::PathProbing(probing) => (10, probing as u64),
            Setting::TimeToLive(hops) => (11, hops.into()),
            Setting::DifferentiatedServices(point) => (12, point.into()),
            Setting::FastOpen(pending) => (13, pending.into()),
            Setting::FastOpenWithoutCookie(on) => (15, on.into()),
        }
    }

    /// The setting that [`words`](Setting::words) has made these of; `None` if it has not. A value past its type's range counts
    /// as the end of that.
    pub fn from_words(which: u32, value: u64) -> Option<Setting> {
        let bytes = u32::try_from(value).unwrap_or(u32::MAX);
        Some(match which {
            1 => Setting::Nagle(value != 0),
            2 => Setting::MaximumSegment(u16::try_from(value).unwrap_or(u16::MAX)),
            3 => Setting::ReceiveBuffer(bytes),
            4 => Setting::SendBuffer(bytes),
            16 => Setting::NotSentLowWater(bytes),
            5 => Setting::KeepAlive(value != 0),
            6 => Setting::KeepIdle(Duration::from_nanos(value)),
            7 => Setting::KeepInterval(Duration::from_nanos(value)),
            8 => Setting::KeepProbes(u8::try_from(value).unwrap_or(u8::MAX)),
            9 => Setting::UserTimeout(Duration::from_nanos(value)),
            13 => Setting::FastOpen(bytes),
            20 => Setting::Ecn(EcnMode::ALL[(value as usize).min(EcnMode::ALL.len() - 1)]),
            14 => {
                let control = CongestionControl::ALL.get(usize::try_from(value).ok()?);
                Setting::Congestion(*control?)
            }
            17 => {
                let discovery = PathMtuDiscovery::ALL.get(usize::try_from(value).ok()?);
                Setting::PathMtuDiscovery(*discovery?)
            }
            10 => {
                let probing = PathProbing::ALL.get(usize::try_from(value).ok()?);
                Setting::PathProbing(*probing?)
            }
            11 => Setting::TimeToLive(u8::try_from(value).unwrap_or(u8::MAX)),
            15 => Setting::FastOpenWithoutCookie(value != 0),
            12 => Setting::DifferentiatedServices(u8::try_from(value).unwrap_or(u8::MAX)),
            _ => return None,
        })
    }

    /// Chooses this in `config`.
    pub fn apply(self, config: &mut Config) {
        match self {
            Setting::Nagle(on) => config.nagle = on,
            Setting::MaximumSegment(bytes) => config.maximum_segment = bytes,
            Setting::ReceiveBuffer(bytes) => {
                config.receive_buffer_bytes = bytes;
                config.receive_buffer_max_bytes = 0;
            }
            Setting::SendBuffer(bytes) => config.send_buffer_bytes = bytes,
            Setting::NotSentLowWater(bytes) => config.not_sent_low_water = bytes,
            Setting::KeepAlive(on) => config.keepalive.on = on,
            Setting::KeepIdle(time) => config.keepalive.idle = time,
            Setting::KeepInterval(time) => config.keepalive.interval = time,
            Setting::KeepProbes(probes) => config.keepalive.probes = probes,
            Setting::UserTimeout(time) => {
                config.user_timeout = (time > Duration::ZERO).then_some(time);
            }
            Setting::Ecn(mode) => config.ecn = mode,
            Setting::Congestion(control) => config.congestion = control,
            Setting::PathMtuDiscovery(discovery) => config.path_mtu_discovery = discovery,
            Setting::PathProbing(probing) => config.path_probing = probing,
            Setting::TimeToLive(hops) => config.time_to_live = hops,
            Setting::DifferentiatedServices(point) => config.differentiated_services = point,
            Setting::FastOpen(pending) => {
                config.fast_open = config.fast_open.listening(pending > 0);
                if pending > 0 {
                    config.fast_open_pending = pending;
                }
            }
            Setting::FastOpenWithoutCookie(on) => config.fast_open_without_cookie = on,
        }
    }
}

/// What IP is to say of each packet of a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PacketFields {
    /// [`Config::time_to_live`].
    pub time_to_live: u8,
    /// [`Config::differentiated_services`].
    pub differentiated_services: u8,
    /// Routers may fragment it ([`PathMtuDiscovery::Dont`]).
    pub may_be_cut: bool,
}

impl<P: Payload> Tcb<P> {
    /// What IP is to say of each packet.
    #[inline]
    pub fn packet_fields(&self) -> PacketFields {
        let config = &self.connection.config;
        PacketFields {
            time_to_live: config.time_to_live,
            differentiated_services: config.differentiated_services,
            may_be_cut: config.path_mtu_discovery == PathMtuDiscovery::Dont,
        }
    }

    /// Changes how this connection is set, as far as it still can be; each [`Setting`] says.
    pub fn set(&mut self, now: Instant, setting: Setting) {
        let begun = self.connection.handshakes_sent > 0;
        match setting {
            Setting::Nagle(on) => self.sender.nagle = on,
            Setting::MaximumSegment(bytes) if !begun => {
                let mss = self.connection.limit_segments(bytes);
                self.receiver.limit_segments(mss);
            }
            Setting::MaximumSegment(_) => {}
            Setting::ReceiveBuffer(bytes) => {
                let bytes = bytes.clamp(1, MAX_WINDOW_BYTES);
                self.receiver.set_buffer(bytes);
                if !begun {
                    self.connection.set_receive_buffer(bytes);
                }
            }
            Setting::SendBuffer(bytes) => {
                let bytes = bytes.clamp(1, MAX_WINDOW_BYTES);
                // What opens early has promised its room before the handshake is over (RFC 7413 §4.2.2).
                let in_use =
                    self.connection.state.is_synchronized() || self.connection.early.is_some();
                self.sender.set_buffer(bytes, in_use);
            }
            Setting::NotSentLowWater(bytes) => {
                setting.apply(self.connection.set());
                self.sender.has_low_water = bytes > 0;
            }
            Setting::KeepAlive(_)
            | Setting::KeepIdle(_)
            | Setting::KeepInterval(_)
            | Setting::KeepProbes(_) => {
                let mut config = *self.connection.config;
                setting.apply(&mut config);
                self.set_keepalive(now, config.keepalive);
            }
            Setting::UserTimeout(time) => {
                self.set_user_timeout((time > Duration::ZERO).then_some(time));
            }
            Setting::Ecn(mode) if !begun => self.connection.set().ecn = mode,
            Setting::Ecn(_) => {}
            Setting::Congestion(_) if !begun => {
                setting.apply(self.connection.set());
                self.sender.set_congestion(&self.connection.config);
            }
            Setting::Congestion(_) => {}
            Setting::PathMtuDiscovery(_) | Setting::PathProbing(_) => {
                setting.apply(self.connection.set());
                self.sender
                    .set_path_probing(self.connection.config.probing());
                if !begun && !self.connection.config.path_mtu_discovery.heeds() {
                    self.connection.path_mtu = u32::MAX;
                }
            }
            Setting::TimeToLive(_) | Setting::DifferentiatedServices(_) => {
                setting.apply(self.connection.set());
            }
            Setting::FastOpen(_) | Setting::FastOpenWithoutCookie(_) => {}
        }
    }
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Bytes;
    use braidnet_wire::seq::SeqNumber;
    use std::sync::Arc;

    const ALL: [Setting; 18] = [
        Setting::Nagle(false),
        Setting::MaximumSegment(700),
        Setting::ReceiveBuffer(9_000),
        Setting::SendBuffer(7_000),
        Setting::NotSentLowWater(6_000),
        Setting::KeepAlive(true),
        Setting::KeepIdle(Duration::from_secs(60)),
        Setting::KeepInterval(Duration::from_secs(5)),
        Setting::KeepProbes(3),
        Setting::UserTimeout(Duration::from_secs(90)),
        Setting::Ecn(EcnMode::On),
        Setting::Congestion(CongestionControl::NewReno),
        Setting::PathMtuDiscovery(PathMtuDiscovery::Probe),
        Setting::PathProbing(PathProbing::Always),
        Setting::TimeToLive(7),
        Setting::DifferentiatedServices(46),
        Setting::FastOpen(16),
        Setting::FastOpenWithoutCookie(true),
    ];

    fn connection(config: &Config) -> Tcb<Bytes> {
        Tcb::connect(&Arc::new(*config), SeqNumber::new(1), 1460, Instant::ZERO)
    }

    fn syn(tcb: &mut Tcb<Bytes>) -> (u16, u16, u8) {
        let syn = tcb.poll_transmit(Instant::ZERO, |_, _| 0).expect("a SYN");
        (syn.header.mss, syn.header.window, syn.header.window_scale)
    }

    #[test]
    fn every_setting_travels_in_two_words() {
        for setting in ALL {
            let (which, value) = setting.words();
            assert_eq!(Setting::from_words(which, value), Some(setting));
        }
        assert_eq!(Setting::from_words(0, 1), None);
        let most = Setting::from_words(2, u64::MAX);
        assert_eq!(most, Some(Setting::MaximumSegment(u16::MAX)));
    }

    #[test]
    fn set_before_the_syn_it_is_as_if_configured() {
        let mut config = Config::default();
        let mut late = connection(&config);
        for setting in ALL {
            setting.apply(&mut config);
            late.set(Instant::ZERO, setting);
        }
        let mut early = connection(&config);
        assert_eq!(syn(&mut late), (700, 9_000, 0));
        assert_eq!(syn(&mut early), (700, 9_000, 0));
        assert_eq!((late.send_space(), early.send_space()), (7_000, 7_000));
        assert_eq!(late.keepalive(), early.keepalive());
        for tcb in [&late, &early] {
            let control = tcb.sender.congestion.control();
            assert_eq!(control, CongestionControl::NewReno);
        }
        assert_eq!(
            late.connection.config.user_timeout,
            early.connection.config.user_timeout
        );
    }

    #[test]
    fn after_the_syn_the_scale_is_what_was_offered() {
        let mut tcb = connection(&Config::default());
        let (_, _, scale) = syn(&mut tcb);
        tcb.set(Instant::ZERO, Setting::ReceiveBuffer(1 << 30));
        tcb.set(Instant::ZERO, Setting::MaximumSegment(700));
        tcb.set(Instant::ZERO, Setting::Congestion(CongestionControl::Bbr));
        assert_eq!(tcb.sender.congestion.control(), CongestionControl::Cubic);
        assert_eq!(tcb.connection.config.wanted_shift(), scale);
        assert_eq!(tcb.mss(), 1460);
    }

    #[test]
    fn a_send_buffer_in_use_only_grows() {
        let mut tcb = connection(&Config::default());
        tcb.set(Instant::ZERO, Setting::SendBuffer(5_000));
        assert_eq!(tcb.send_space(), 5_000);
        tcb.connection.state = crate::State::Established;
        tcb.set(Instant::ZERO, Setting::SendBuffer(4_000));
        assert_eq!(tcb.send_space(), 5_000);
        tcb.set(Instant::ZERO, Setting::SendBuffer(6_000));
        assert_eq!(tcb.send_space(), 6_000);
    }
}
