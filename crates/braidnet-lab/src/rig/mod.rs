//! Puts the stacks of a measurement together: one with a far end below it, or two joined by a wire.

mod host;
mod loads;
mod warm;
mod watch;

pub(crate) use host::Opening;
pub(crate) use warm::warm;
pub(crate) use watch::Watch;

use crate::config::{Direction, Mode, Presentation, Transport, TtcpConfig};
use crate::content::Content;
use crate::deal::{Deal, FAR, NEAR, deal};
use crate::far::FarEnd;
use crate::load::Numbers;
use crate::load::echo::Times;
use crate::measure::Phase;
use crate::result::LabError;
use crate::tally::Scope;
use braidnet_device::impair::Impairment;
use braidnet_device::memory::wire;
use braidnet_device::{Capabilities, Device};
use braidnet_process::{Architecture, NoApplication, Worker};
use braidnet_sync::parker::Unparker;
use braidnet_wire::address::Tuple;
use host::Host;
use std::sync::Arc;
use watch::Received;

/// Packets that a direction of a wire holds.
const WIRE_DEPTH: usize = 2048;

/// Stacks that are ready to be turned.
pub(crate) struct Rig {
    /// The workers of each processor.
    pub(crate) processors: Vec<Vec<Worker>>,
    pub(crate) watch: Watch,
    /// What opens the connections, once processors run.
    pub(crate) opening: Option<Opening>,
    /// Where round trips are noted.
    pub(crate) times: Times,
}

impl Rig {
    /// The rig of a configuration that was validated, with a waker for each processor.
    ///
    /// # Errors
    /// [`LabError`], if anything cannot be made.
    pub(crate) fn new(
        config: &TtcpConfig,
        phase: &Arc<Phase>,
        wakers: &[Unparker],
    ) -> Result<Rig, LabError> {
        if config.mode == Mode::Echo || config.direction == Direction::Both {
            two_stacks(config, phase, wakers)
        } else {
            one_stack(config, wakers)
        }
    }
}

/// The device queue of a connection: that of the processor which takes packets for it.
fn queue_of(config: &TtcpConfig, number: usize, processor: Option<usize>) -> usize {
    let taker = match (config.architecture, processor) {
        (Architecture::Connection | Architecture::Function, Some(processor)) => processor,
        (Architecture::Task, Some(processor)) => {
            (processor.saturating_sub(1) / 2).min(config.takers() - 1)
        }
        _ => number,
    };
    taker % config.device_queues
}

/// A stack with a simulated far end.
fn one_stack(config: &TtcpConfig, wakers: &[Unparker]) -> Result<Rig, LabError> {
    let host = Host::new(config, NEAR)?;
    let Deal {
        lines,
        processors: dealt,
    } = deal(host.dealer(config), None, config.connections)?;
    let content = Arc::new(Content::of(config));
    let receives = config.direction == Direction::Receive;
    let scope = Scope::of(config, receives && config.presentation == Presentation::Xdr);
    let queues = (0..lines.len())
        .map(|line| queue_of(config, line, dealt[line]))
        .collect();
    let far = FarEnd::new(config, content.clone(), scope, &lines, queues);
    let far_watch = far.watch();
    let queues = Box::new(far.device(config.transport)).open()?;
    let numbers = Numbers::new(&lines);
    let stack = host.stack(config, queues, |stream, layout| {
        if receives {
            loads::receiving(config, stream, layout, numbers, scope)
        } else {
            loads::sending(config, stream, layout, numbers, content.clone())
        }
    })?;
    stack.listen(config.transport, config.connections)?;
    let mut applications = loads::datagram_sources(config, &stack, &content, &lines, &dealt);
    let turned = stack.workers(config, wakers, "", &mut applications)?;
    let received = match receives {
        true => Received::Module(loads::receiver_name(config)),
        false => Received::Far,
    };
    Ok(Rig {
        processors: turned.processors,
        watch: Watch::new(
            config,
            vec![turned.watched],
            Some(far_watch),
            received,
            scope,
        ),
        opening: None,
        times: Times::new(),
    })
}

/// Two whole stacks, joined by a wire: the near one receives or answers, the other sends or asks.
fn two_stacks(
    config: &TtcpConfig,
    phase: &Arc<Phase>,
    wakers: &[Unparker],
) -> Result<Rig, LabError> {
    let echo = config.mode == Mode::Echo;
    let (near, far) = (Host::new(config, NEAR)?, Host::new(config, FAR)?);
    let Deal {
        lines,
        processors: dealt,
    } = deal(
        near.dealer(config),
        Some(far.dealer(config)),
        config.connections,
    )?;
    let far_lines: Vec<Tuple> = lines.iter().map(Tuple::reversed).collect();
    let content = Arc::new(Content::of(config));
    let scope = Scope::of(config, config.presentation == Presentation::Xdr);
    let (numbers, times) = (Numbers::new(&lines), Times::new());
    let capabilities = Capabilities::ip(config.mtu).with_queues(config.device_queues);
    let (near_end, far_end) = wire(capabilities, WIRE_DEPTH);
    // Around the end of who sends or asks: what that sends goes there.
    let far_end: Box<dyn Device> = match &config.impair {
        None => Box::new(far_end),
        Some(wire) => Box::new(Impairment::new(&wire.0, &wire.1).around(far_end)),
    };

    let near = near.stack(
        config,
        Box::new(near_end).open()?,
        |stream, layout| match echo {
            true => loads::answering(config, stream, layout),
            false => loads::receiving(config, stream, layout, numbers.clone(), scope),
        },
    )?;
    near.listen(config.transport, config.connections)?;
    let far = far.stack(config, far_end.open()?, |stream, layout| match echo {
        true => {
            let noting = (phase.clone(), times.clone());
            loads::asking(config, stream, layout, content.clone(), noting)
        }
        false => loads::sending(config, stream, layout, numbers.clone(), content.clone()),
    })?;
    if config.transport == Transport::Udp {
        far.bind_all(&far_lines)?;
    }
    let (flows, tcp) = (far.flows, far.layout.tcp);
    let make = if echo {
        loads::datagram_clients
    } else {
        loads::datagram_sources
    };
    let mut applications = make(config, &far, &content, &far_lines, &dealt);
    let (near_name, far_name) = if echo {
        ("server.", "client.")
    } else {
        ("receiver.", "sender.")
    };
    let near = near.workers(config, wakers, near_name, &mut |_| Box::new(NoApplication))?;
    let far = far.workers(config, wakers, far_name, &mut applications)?;
    let opening = match config.transport {
        Transport::Tcp => Opening::new(&far, tcp, &flows, far_lines.into_iter()),
        Transport::Udp => None,
    };
    let (received, stacks) = match echo {
        true => (Received::Module("client"), vec![far.watched, near.watched]),
        false => (
            Received::Module(loads::receiver_name(config)),
            vec![near.watched, far.watched],
        ),
    };
    let together = near.processors.into_iter().zip(far.processors);
    Ok(Rig {
        processors: together
            .map(|(near, far)| near.into_iter().chain(far).collect())
            .collect(),
        watch: Watch::new(config, stacks, None, received, scope),
        opening,
        times,
    })
}
