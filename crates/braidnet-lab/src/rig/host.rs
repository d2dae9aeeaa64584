//! One stack: what is known of it before it has a device, and how it is planned.

use super::warm::warm;
use super::watch::WatchedStack;
use crate::config::{Place, Span, Transport, TtcpConfig};
use crate::deal::{Dealer, SERVICE_PORT};
use crate::result::LabError;
use braidnet::StackError;
use braidnet_device::QueuePair;
use braidnet_inet::tcp::{Listeners, Tcp, TcpConfig};
use braidnet_inet::udp::UdpPorts;
use braidnet_inet::{Flows, Inet, Interface, InterfaceConfig, Layout, Offload};
use braidnet_message::{Arena, Counts, Keeping, Pool};
use braidnet_process::{Application, Architecture, Mailboxes, Plan, Worker};
use braidnet_stream::{
    BucketId, ConnectionId, Control, Direction, ModuleId, OrderFree, Parcel, References, Stream,
    StreamBuilder, Verb,
};
use braidnet_sync::parker::Unparker;
use braidnet_wire::address::{Address, Tuple};
use braidnet_wire::{tcp, udp};
use std::sync::Arc;

/// Buckets of a stack: some hundreds (DESIGN.md).
const BUCKETS: u32 = 256;
/// One for all connections, beside the device's.
const ONE_BUCKET: u32 = 2;
/// Segments out of order that a connection has memory for from the beginning.
const REASSEMBLY: u32 = 256;
/// Bytes in a queue between clusters at which its feeder goes on, and at which it stops.
const WATER_MARKS: (usize, usize) = (128 << 10, 512 << 10);

/// A stack before it has a device: what is known of it when connections are dealt.
pub(super) struct Host {
    interface: Interface,
    pub(super) flows: Flows,
}

/// A stack that can be planned.
pub(super) struct Stack {
    plan: Plan,
    pub(super) flows: Flows,
    pub(super) layout: Layout,
    pub(super) ports: Arc<UdpPorts>,
    listeners: Arc<Listeners>,
    references: References,
    order_free: Option<OrderFree>,
}

/// A stack that can be turned.
pub(super) struct Turned {
    /// The workers of each processor.
    pub(super) processors: Vec<Vec<Worker>>,
    pub(super) watched: WatchedStack,
}

impl Host {
    pub(super) fn new(config: &TtcpConfig, address: [u8; 4]) -> Result<Host, LabError> {
        let mut interface = Interface::new(InterfaceConfig {
            addresses: vec![(Address::v4(address), Some(24))],
            mtu: config.mtu,
            mac: None,
            routes: Vec::new(),
            others: Vec::new(),
            forwards: false,
        })
        .map_err(StackError::from)?;
        if !config.checksum {
            interface = interface.offloading(&[Offload::LeftOut]);
        }
        // The same with every run: a measurement can be repeated.
        let key = [0x6272_6169_646e_6574, u64::from(address[3])];
        Ok(Host {
            flows: Flows::new(key, buckets(config), &interface),
            interface,
        })
    }

    pub(super) fn dealer(&self, config: &TtcpConfig) -> Dealer<'_> {
        Dealer {
            flows: &self.flows,
            architecture: config.architecture,
            processors: config.carried(),
            protocol: match config.transport {
                Transport::Tcp => tcp::PROTOCOL,
                Transport::Udp => udp::PROTOCOL,
            },
        }
    }

    /// The stack on these queues; `top` puts the load's modules on and says which is the lowest.
    pub(super) fn stack(
        self,
        config: &TtcpConfig,
        queues: Vec<QueuePair>,
        top: impl FnOnce(&mut StreamBuilder, &Layout) -> ModuleId,
    ) -> Result<Stack, LabError> {
        let mut module = Tcp::new(tcp_config(config), self.flows);
        if !config.checksum {
            module = module.offloading(Offload::LeftOut);
        }
        if !config.one_behind {
            module = module.without_one_behind();
        }
        let listeners = module.listeners().clone();
        let Inet {
            mut stream,
            layout,
            ports,
            ..
        } = Inet::assemble_locked(
            self.interface,
            self.flows,
            module,
            config.tcp_locks,
            config.lock,
        );
        let split = top(&mut stream, &layout);
        let counts = counts(config);
        let references = stream.counting(counts, config.lock, buckets(config));
        let order_free = config.order_free_sampling.then(|| stream.timing());
        let keeping = Keeping {
            caches: config.caches,
            counts,
            lock: config.lock,
        };
        let plan = Plan {
            stream: stream.build().map_err(StackError::from)?,
            split: Some(split),
            buckets: buckets(config),
            arena: Arena::keeping(memory_bytes(config), keeping),
            queues,
            classify: Arc::new(self.flows),
            exclusion: config.exclusion(),
            extent: config.span.extent(),
            arrival: config.order.arrival(),
            sharing: Default::default(),
            batch: config.batch,
            water_marks: WATER_MARKS,
        };
        Ok(Stack {
            plan,
            flows: self.flows,
            layout,
            ports,
            listeners,
            references,
            order_free,
        })
    }
}

fn buckets(config: &TtcpConfig) -> u32 {
    match config.span {
        Span::Connection | Span::QueuePair => BUCKETS,
        Span::Stream | Span::Module => ONE_BUCKET,
    }
}

fn counts(config: &TtcpConfig) -> Counts {
    match config.counts {
        crate::config::Counts::Lean => Counts::Lean,
        crate::config::Counts::Atomic => Counts::Atomic,
        crate::config::Counts::Locked => Counts::Locked,
    }
}

fn tcp_config(config: &TtcpConfig) -> TcpConfig {
    TcpConfig {
        engine: braidnet_tcp::Config {
            receive_buffer_bytes: config.window_bytes,
            send_buffer_bytes: config.window_bytes,
            congestion: config.congestion,
            nagle: false,
            reassembly_reserve: REASSEMBLY,
            ..braidnet_tcp::Config::default()
        },
        mtu: config.mtu,
        // Twice the even share, and some.
        connections_per_bucket: config.connections * 2 / (buckets(config) as usize - 1) + 32,
        listening: Default::default(),
        fast_opening: Default::default(),
        isn_secret: [1, 2],
    }
}

/// Room for every window to be full both ways, headers and rounding included, and for what is on its way.
fn memory_bytes(config: &TtcpConfig) -> usize {
    let windows = config
        .connections
        .saturating_mul(config.window_bytes as usize);
    windows.saturating_mul(6).saturating_add(512 << 20)
}

impl Stack {
    pub(super) fn listen(&self, transport: Transport, connections: usize) -> Result<(), LabError> {
        match transport {
            Transport::Tcp => {
                let backlog = connections as u32 + 16;
                self.listeners
                    .listen(None, SERVICE_PORT, backlog)
                    .map_err(StackError::from)?;
            }
            Transport::Udp => {
                self.ports.bind(SERVICE_PORT).map_err(StackError::from)?;
            }
        }
        Ok(())
    }

    /// Opens the UDP ports of these lines.
    pub(super) fn bind_all(&self, lines: &[Tuple]) -> Result<(), LabError> {
        for line in lines {
            self.ports.bind(line.local_port).map_err(StackError::from)?;
        }
        Ok(())
    }

    /// The workers, and what can be seen of them.
    pub(super) fn workers(
        self,
        config: &TtcpConfig,
        wakers: &[Unparker],
        prefix: &'static str,
        application: &mut dyn FnMut(usize) -> Box<dyn Application>,
    ) -> Result<Turned, LabError> {
        let (stream, arena) = (self.plan.stream.clone(), self.plan.arena.clone());
        let architecture = match config.architecture {
            // Of two stacks, the one that sends has no work to divide.
            Architecture::Function if self.plan.stream.divisible().next().is_none() => {
                Architecture::Connection
            }
            architecture => architecture,
        };
        let mut processors = self.plan.workers(architecture, wakers, application)?;
        if config.state == Place::Together {
            for worker in processors.iter_mut().flatten() {
                warm(worker, config);
            }
        }
        let counters = processors
            .iter_mut()
            .flatten()
            .map(|worker| worker.cluster().counters().clone())
            .collect();
        Ok(Turned {
            processors,
            watched: WatchedStack {
                prefix,
                stream,
                counters,
                arena,
                references: self.references,
                order_free: self.order_free,
            },
        })
    }
}

/// Verbs that open a stack's connections, and the way to whoever takes them.
pub(crate) struct Opening {
    mailboxes: Mailboxes,
    stream: Arc<Stream>,
    tcp: ModuleId,
    calls: Vec<(Tuple, BucketId)>,
}

impl Opening {
    /// Opens these connections of a stack, seen from it.
    pub(super) fn new(
        turned: &Turned,
        tcp: ModuleId,
        flows: &Flows,
        lines: impl Iterator<Item = Tuple>,
    ) -> Option<Opening> {
        let mailboxes = turned.processors.first()?.first()?.mailboxes();
        let calls = lines
            .map(|tuple| (tuple, flows.bucket_of(&tuple, tcp::PROTOCOL).0))
            .collect();
        Some(Opening {
            mailboxes,
            stream: turned.watched.stream.clone(),
            tcp,
            calls,
        })
    }

    /// Asks for every connection (RFC 9293 §3.9.1.1). Processors must run: their mailboxes are bounded.
    pub(crate) fn call(mut self) {
        let mut pool = Pool::new(&Arena::new(usize::MAX >> 1));
        for (tuple, bucket) in self.calls.drain(..) {
            let id = ConnectionId::new(bucket, u32::MAX, 0);
            // Without memory for it the connection stays away, and the measurement says that nothing passes.
            if let Some(message) = Control::new(Verb::Connect)
                .tuple(tuple)
                .message(id, &mut pool)
            {
                self.mailboxes.send(Parcel::new(
                    &self.stream,
                    self.tcp,
                    Direction::Down,
                    message,
                ));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Order, Perimeter};
    use braidnet_device::{Capabilities, Device, memory};
    use braidnet_process::Architecture;
    use braidnet_stream::junction;
    use braidnet_sync::lock::LockKind;

    fn planned(config: &TtcpConfig) -> Plan {
        let (near, _far) = memory::wire(Capabilities::ip(config.mtu), 16);
        let queues = Box::new(near).open().unwrap();
        let top = |_: &mut StreamBuilder, layout: &Layout| layout.tcp;
        let host = Host::new(config, [10, 0, 0, 2]).unwrap();
        host.stack(config, queues, top).unwrap().plan
    }

    /// Whatever is not handed on would be measured as if it had not been asked for.
    #[test]
    fn what_processors_share_is_shared_as_it_was_asked_for() {
        let orders = [
            (Order::None, junction::Order::None),
            (Order::Waiting, junction::Order::Waiting),
            (Order::Numbered, junction::Order::Numbered),
        ];
        let perimeters = [
            (
                Perimeter::Locked,
                junction::Perimeter::Locked(LockKind::Mcs),
            ),
            (Perimeter::Delegated, junction::Perimeter::Delegated),
        ];
        for (order, ordered) in orders {
            for (perimeter, entered) in perimeters {
                let config = TtcpConfig {
                    architecture: Architecture::Message,
                    lock: LockKind::Mcs,
                    order,
                    perimeter,
                    batch: 7,
                    ..TtcpConfig::default()
                };
                let plan = planned(&config);
                let placement = plan.placement(config.architecture, 2).unwrap();
                let above_driver = &placement.junctions[0];
                assert_eq!(
                    (above_driver.order, placement.perimeter),
                    (ordered, entered)
                );
                assert_eq!(plan.batch, 7);
            }
        }
    }

    #[test]
    fn a_perimeter_for_the_stream_is_one_bucket_for_all_connections() {
        for (span, buckets) in [(Span::Connection, BUCKETS), (Span::Stream, ONE_BUCKET)] {
            let config = TtcpConfig {
                architecture: Architecture::Message,
                span,
                ..TtcpConfig::default()
            };
            assert_eq!(planned(&config).buckets, buckets);
        }
    }
}
