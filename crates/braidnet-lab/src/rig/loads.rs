//! Which modules and applications stand on a stack.

use super::host::Stack;
use crate::config::{Direction, OrderAbove, Presentation, Transport, TtcpConfig};
use crate::content::Content;
use crate::load::Numbers;
use crate::load::compose::Compose;
use crate::load::consumer::Consumer;
use crate::load::datagrams::{
    DatagramClient, DatagramEcho, DatagramSink, DatagramSource, datagram_records,
};
use crate::load::echo::{Client, Server, Times};
use crate::load::records::Samples;
use crate::load::sink::Sink;
use crate::load::source::Source;
use crate::load::work::Work;
use crate::measure::Phase;
use crate::tally::Scope;
use braidnet_codec::module::Records;
use braidnet_inet::{Flows, Layout};
use braidnet_process::{Application, NoApplication};
use braidnet_stream::{ModuleId, StreamBuilder};
use braidnet_wire::address::Tuple;
use braidnet_wire::udp;
use std::sync::Arc;

/// The module that counts what a receiving stack's application has received.
pub(super) fn receiver_name(config: &TtcpConfig) -> &'static str {
    match (config.transport, config.presentation) {
        (Transport::Udp, _) => "datagrams",
        (Transport::Tcp, Presentation::None) => "sink",
        (Transport::Tcp, Presentation::Xdr) => "records",
    }
}

/// The modules of a stack that receives.
pub(super) fn receiving(
    config: &TtcpConfig,
    stream: &mut StreamBuilder,
    layout: &Layout,
    numbers: Numbers,
    scope: Scope,
) -> ModuleId {
    let works = !config.work.is_zero();
    let consumes = config.order_above != OrderAbove::None;
    let hands_on = works || consumes;
    let (below, receiver) = match (config.transport, config.presentation) {
        (Transport::Udp, presentation) => {
            let sink = DatagramSink::new(numbers, scope, presentation, hands_on);
            (layout.udp, stream.module(sink))
        }
        (Transport::Tcp, Presentation::None) => {
            let sink = Sink::new(numbers, scope, hands_on);
            (layout.tcp, stream.module(sink))
        }
        (Transport::Tcp, Presentation::Xdr) => {
            let samples = Samples::new(numbers, scope, hands_on);
            let records = Records::new(config.size as u32, samples);
            (layout.tcp, stream.module(records))
        }
    };
    stream.link(below, receiver);
    let mut top = receiver;
    if works {
        let work = stream.module(Work::filling(config.work, config.size, consumes));
        stream.link(top, work);
        top = work;
    }
    if consumes {
        let consumer = stream.module(Consumer::new(config));
        stream.link(top, consumer);
    }
    if config.order_above == OrderAbove::Waiting {
        stream.waiting_above();
    }
    receiver
}

/// The modules of a stack that sends.
pub(super) fn sending(
    config: &TtcpConfig,
    stream: &mut StreamBuilder,
    layout: &Layout,
    numbers: Numbers,
    content: Arc<Content>,
) -> ModuleId {
    match config.transport {
        Transport::Tcp => {
            let compose = stream.module(Compose::new(config, content));
            let source = stream.module(Source::new(numbers, config));
            stream.link(layout.tcp, compose);
            stream.link(compose, source);
            compose
        }
        // Datagrams come from an application; what comes back ends here.
        Transport::Udp => {
            let sink = stream.module(DatagramSink::new(
                numbers,
                Scope::NONE,
                Presentation::None,
                false,
            ));
            stream.link(layout.udp, sink);
            sink
        }
    }
}

/// The lines of each processor, seen from `stack`, with the bucket of each.
fn lines_of(
    flows: &Flows,
    processors: usize,
    lines: &[Tuple],
    dealt: &[Option<usize>],
) -> Vec<Vec<(Tuple, u16)>> {
    let mut all = vec![Vec::new(); processors];
    for (number, (tuple, processor)) in lines.iter().zip(dealt).enumerate() {
        let (bucket, _) = flows.bucket_of(tuple, udp::PROTOCOL);
        all[processor.unwrap_or(number % processors)].push((*tuple, bucket.0));
    }
    all
}

pub(super) type Applications = Box<dyn FnMut(usize) -> Box<dyn Application>>;

/// The applications that send datagrams, where there are any.
pub(super) fn datagram_sources(
    config: &TtcpConfig,
    stack: &Stack,
    content: &Arc<Content>,
    lines: &[Tuple],
    dealt: &[Option<usize>],
) -> Applications {
    if config.transport == Transport::Tcp || config.direction == Direction::Receive {
        return Box::new(|_| Box::new(NoApplication));
    }
    let mut mine = lines_of(&stack.flows, config.carried(), lines, dealt);
    let (udp, config, content) = (stack.layout.udp, config.clone(), content.clone());
    let records = datagram_records(&config, &content);
    Box::new(move |processor| {
        let lines = core::mem::take(&mut mine[processor]);
        Box::new(DatagramSource::new(
            udp,
            &config,
            content.clone(),
            records.clone(),
            lines,
        ))
    })
}

/// The applications that ask over UDP.
pub(super) fn datagram_clients(
    config: &TtcpConfig,
    stack: &Stack,
    content: &Arc<Content>,
    lines: &[Tuple],
    dealt: &[Option<usize>],
) -> Applications {
    if config.transport == Transport::Tcp {
        return Box::new(|_| Box::new(NoApplication));
    }
    let mut mine = lines_of(&stack.flows, config.carried(), lines, dealt);
    let (udp, config, content) = (stack.layout.udp, config.clone(), content.clone());
    Box::new(move |processor| {
        let lines = core::mem::take(&mut mine[processor]);
        Box::new(DatagramClient::new(udp, &config, content.clone(), lines))
    })
}

/// The module of the stack that answers round trips.
pub(super) fn answering(
    config: &TtcpConfig,
    stream: &mut StreamBuilder,
    layout: &Layout,
) -> ModuleId {
    let (below, module) = match config.transport {
        Transport::Tcp => (layout.tcp, stream.module(Server)),
        Transport::Udp => (layout.udp, stream.module(DatagramEcho::server())),
    };
    stream.link(below, module);
    module
}

/// The module of the stack that asks.
pub(super) fn asking(
    config: &TtcpConfig,
    stream: &mut StreamBuilder,
    layout: &Layout,
    content: Arc<Content>,
    (phase, times): (Arc<Phase>, Times),
) -> ModuleId {
    let (below, module) = match config.transport {
        Transport::Tcp => (
            layout.tcp,
            stream.module(Client::new(config, content, phase, times)),
        ),
        Transport::Udp => (
            layout.udp,
            stream.module(DatagramEcho::client(config, content, phase, times)),
        ),
    };
    stream.link(below, module);
    module
}
