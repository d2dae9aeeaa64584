//! Services over UDP, and their module.

use braidnet_inet::notes::UdpFlow;
use braidnet_message::{Kind, Message, Run};
use braidnet_stream::{Context, Counter, Direction, Module, Stages};
use braidnet_wire::address::Tuple;
use std::collections::HashMap;

/// Something that answers datagrams to a UDP port. It keeps no state for a flow, and so runs on any processor.
///
/// Datagrams from a port that is served here too are dropped by name before they come here: two services that answer each
/// other would never stop.
pub trait DatagramService: Send + Sync + 'static {
    /// A datagram has come; `Some` sends that back to where it came from.
    fn datagram(&self, message: Message, flow: &Tuple) -> Option<Message>;
}

/// The module above UDP: a server's datagram services.
pub(crate) struct Datagrams {
    by_port: HashMap<u16, Box<dyn DatagramService>>,
}

/// Dropped: nothing answers to the port.
const NO_DATAGRAM_SERVICE: Counter = Counter(0);
/// Dropped: from a port that is served here too.
const FROM_A_SERVICE: Counter = Counter(1);
/// What the network says of an answer.
const UNDELIVERED: Counter = Counter(2);

impl Datagrams {
    pub(crate) fn new(by_port: HashMap<u16, Box<dyn DatagramService>>) -> Datagrams {
        Datagrams { by_port }
    }
}

impl Module for Datagrams {
    fn name(&self) -> &'static str {
        "datagrams"
    }

    fn stages(&self) -> Stages {
        Stages::BEFORE_UP
    }

    fn counters(&self) -> &'static [&'static str] {
        &["no_service", "from_a_service", "undelivered"]
    }

    fn before(&self, _: Direction, run: &mut Run, cx: &mut Context<'_>) {
        for message in run.drain() {
            if message.kind() != Kind::Data {
                // An answer that nobody waited for: services keep nothing of who has asked.
                cx.drop(message, UNDELIVERED);
                continue;
            }
            let flow = message.note::<UdpFlow>();
            match self.by_port.get(&flow.tuple.local_port) {
                Some(_) if self.by_port.contains_key(&flow.tuple.remote_port) => {
                    cx.drop(message, FROM_A_SERVICE);
                }
                Some(service) => {
                    if let Some(mut answer) = service.datagram(message, &flow.tuple) {
                        answer.set_note(flow);
                        cx.reply(answer);
                    }
                }
                None => cx.drop(message, NO_DATAGRAM_SERVICE),
            }
        }
    }
}
