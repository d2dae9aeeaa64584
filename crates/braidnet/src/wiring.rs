//! Wires the streams of this crate.

use crate::config::StackConfig;
use crate::error::StackError;
use crate::limits::Bounds;
use crate::services::{DatagramService, Datagrams, Service, Services};
use braidnet_device::several::MAX_DEVICES;
use braidnet_device::{Capabilities, DeviceError, Offloads, RECEIVE_HEADROOM};
use braidnet_inet::flows::Flows;
use braidnet_inet::tcp::{Listeners, Tcp, TcpLocks};
use braidnet_inet::udp::UdpPorts;
use braidnet_inet::{Inet, Interface, Offload};
use braidnet_message::Arena;
use braidnet_stream::{Module, ModuleId, Stream, StreamBuilder};
use braidnet_sync::lock::LockKind;
use std::collections::HashMap;
use std::sync::Arc;

/// A wired stream and the modules that matter from outside.
pub(crate) struct Wiring {
    pub(crate) stream: Arc<Stream>,
    /// What the head's data and verbs enter at on their way down: TCP, or the highest module above it.
    pub(crate) top: ModuleId,
    /// UDP, where datagrams enter on their way down.
    pub(crate) udp: ModuleId,
    pub(crate) flows: Flows,
}

/// A caller-turned stack's stream.
pub(crate) struct Plain {
    pub(crate) wiring: Wiring,
    pub(crate) tcp: ModuleId,
    pub(crate) listeners: Arc<Listeners>,
    pub(crate) ports: Arc<UdpPorts>,
    pub(crate) bounds: Bounds,
}

/// A server's stream.
pub(crate) struct Wired {
    pub(crate) wiring: Wiring,
    pub(crate) services: ModuleId,
    pub(crate) listeners: Arc<Listeners>,
    pub(crate) ports: Arc<UdpPorts>,
    pub(crate) bounds: Bounds,
}

/// Everything up to the transports, and above TCP only what `push` puts there: the head is the caller's.
pub(crate) fn plain(
    config: &StackConfig,
    devices: &[Capabilities],
    memory: &Arc<Arena>,
    push: impl FnOnce(&mut Above<'_>),
) -> Result<Plain, StackError> {
    let transports = Transports {
        config,
        devices,
        memory,
        locks: Default::default(),
    };
    let Below {
        mut inet,
        flows,
        listeners,
        bounds,
    } = transports.wire()?;
    let mut above = Above {
        stream: &mut inet.stream,
        top: inet.layout.tcp,
    };
    push(&mut above);
    let top = above.top;
    let wiring = Wiring {
        stream: inet.stream.build()?,
        top,
        udp: inet.layout.udp,
        flows,
    };
    Ok(Plain {
        wiring,
        tcp: inet.layout.tcp,
        listeners,
        ports: inet.ports,
        bounds,
    })
}

/// The stream above TCP, while modules are pushed onto it.
pub struct Above<'a> {
    stream: &'a mut StreamBuilder,
    top: ModuleId,
}

impl Above<'_> {
    /// Puts a module on top: between what is there and the application.
    pub fn push(&mut self, module: impl Module) -> ModuleId {
        let pushed = self.stream.module(module);
        self.stream.link(self.top, pushed);
        self.top = pushed;
        pushed
    }
}

/// A stream with services on top.
pub(crate) fn server(
    transports: Transports<'_>,
    tcp: HashMap<u16, Box<dyn Service>>,
    udp: HashMap<u16, Box<dyn DatagramService>>,
) -> Result<Wired, StackError> {
    let Below {
        mut inet,
        flows,
        listeners,
        bounds,
    } = transports.wire()?;
    let services = inet.stream.module(Services::new(tcp));
    let datagrams = inet.stream.module(Datagrams::new(udp));
    inet.stream.link(inet.layout.tcp, services);
    inet.stream.link(inet.layout.udp, datagrams);
    let wiring = Wiring {
        stream: inet.stream.build()?,
        top: services,
        udp: inet.layout.udp,
        flows,
    };
    Ok(Wired {
        wiring,
        services,
        listeners,
        ports: inet.ports,
        bounds,
    })
}

/// What everything up to the transports is wired for.
pub(crate) struct Transports<'a> {
    pub(crate) config: &'a StackConfig,
    /// What each device that it stands on can do: at least one.
    pub(crate) devices: &'a [Capabilities],
    pub(crate) memory: &'a Arc<Arena>,
    /// With how many locks TCP guards a connection, and of which kind they are.
    pub(crate) locks: (TcpLocks, LockKind),
}

/// Everything up to the transports.
struct Below {
    inet: Inet,
    flows: Flows,
    listeners: Arc<Listeners>,
    bounds: Bounds,
}

impl Transports<'_> {
    fn wire(self) -> Result<Below, StackError> {
        let Transports {
            config,
            devices,
            memory,
            locks: (locks, kind),
        } = self;
        let interface = interface(config, devices)?;
        let flows = Flows::new(config.secrets.flow_key, config.buckets, &interface);
        let tcp = Tcp::new(config.tcp(interface.mtu()), flows)
            .offloading(offloads(devices).into_iter().max().unwrap_or_default())
            .within(memory);
        let listeners = tcp.listeners().clone();
        let (memory, tcp_limits) = (tcp.memory().clone(), tcp.limits().clone());
        let mut inet = Inet::assemble_locked(interface, flows, tcp, locks, kind);
        if let Some(watch) = &config.drop_watch {
            inet.stream.watch_drops(watch.clone());
        }
        let bounds = Bounds {
            memory,
            tcp: tcp_limits,
            inet: inet.limits.clone(),
            buckets: config.buckets,
        };
        bounds.set(&config.limits());
        Ok(Below {
            inet,
            flows,
            listeners,
            bounds,
        })
    }
}

/// The interface that the stack has on these devices, if all of that makes sense, and the stack's limits do.
pub(crate) fn interface(
    config: &StackConfig,
    devices: &[Capabilities],
) -> Result<Interface, StackError> {
    if !(2..=1 << 16).contains(&config.buckets) {
        return Err(StackError::Buckets(config.buckets));
    }
    config.limits().check()?;
    if devices.len() > MAX_DEVICES {
        return Err(DeviceError::TooMany(devices.len()).into());
    }
    let (given, there) = (1 + config.further_addresses.len(), devices.len());
    if given != there {
        return Err(StackError::Devices { given, there });
    }
    let interface = config.interface(devices)?;
    Ok(interface.offloading(&offloads(devices)))
}

/// What each device does of the transports' work.
fn offloads(devices: &[Capabilities]) -> Vec<Offload> {
    let devices = devices.iter().map(|device| match device.offloads {
        Offloads {
            datagrams: true, ..
        } => Offload::Datagrams,
        Offloads { segments: true, .. } => Offload::Segments,
        Offloads { checksum: true, .. } => Offload::Checksums,
        _ => Offload::Nothing,
    });
    devices.collect()
}

/// Bytes of a buffer for the longest packet that one of the devices receives.
pub(crate) fn packet_bytes(devices: &[Capabilities]) -> usize {
    let longest = devices.iter().map(Capabilities::packet_max).max();
    RECEIVE_HEADROOM + longest.unwrap_or_default()
}
