//! `braidnet ttcp`: one measurement with every knob.

use crate::choices::one_of;
use crate::failure::Failure;
use crate::knobs::Knobs;
use crate::output;
use braidnet::Architecture;
use braidnet::device::impair::Impairments;
use braidnet::inet::tcp::TcpLocks;
use braidnet_lab::compare::{ThisMachine, describe, single};
use braidnet_lab::{Direction, LabError, Mode, Presentation, Span, Transport, TtcpConfig};
use clap::Args;

const MORE: &str = "\
Every busy thread counts as a processor, the simulated far end's work included. Nothing leaves the process: no root, \
no device, no network.

Examples:
  braidnet ttcp
      4 KiB messages up the stack, one connection on one processor
  braidnet ttcp --architecture message --processors 2 --connections 20 --presentation xdr
      twenty connections shared by two processors, decoded and summed
  braidnet ttcp --mode echo --size 1
      how long one byte takes to the other stack and back
  braidnet ttcp --direction both --mtu 1500 --window 64K --json
      down one whole stack and up another, as one JSON object
  braidnet ttcp --direction both --impair loss=1%,delay=10ms --impair-back delay=10ms
      the same over a wire that loses one packet in a hundred, and takes 20 ms there and back";

/// Measure one architecture under one load
#[derive(Args, Debug)]
#[command(after_help = MORE)]
pub struct Ttcp {
    /// How processors are bound to protocol work; function needs --work [CP/MP §3.3, ASX §3.3; function: PPF §3.2]
    #[arg(long, value_name = "NAME", default_value_t = Architecture::Connection, value_parser = one_of(&Architecture::ALL, Architecture::name))]
    architecture: Architecture,

    /// How many processors [CP/MP §3.4]
    #[arg(long, value_name = "N", default_value_t = 1)]
    processors: usize,

    /// How many connections, dealt to processors evenly [PLP §4.3]
    #[arg(long, value_name = "N", default_value_t = 1)]
    connections: usize,

    /// Give each connection an agent of its own, over so many processors; needs `connection` [CP/MP §3.3.1]
    #[arg(long)]
    thread_per_connection: bool,

    /// What carries the messages [PLP §2.2]
    #[arg(long, value_name = "NAME", default_value_t = Transport::Tcp, value_parser = one_of(Transport::ALL, Transport::name))]
    transport: Transport,

    /// What stands between transport and application [CP/MP §3.2]
    #[arg(long, value_name = "NAME", default_value_t = Presentation::None, value_parser = one_of(Presentation::ALL, Presentation::name))]
    presentation: Presentation,

    /// Up the stack from a simulated sender, down to a simulated receiver, or both between two whole stacks [PLP §2.3]
    #[arg(long, value_name = "NAME", default_value_t = Direction::Receive, value_parser = one_of(Direction::ALL, Direction::name))]
    direction: Direction,

    /// As many messages as possible, or one-message round trips between two whole stacks [DEMUX §4.4]
    #[arg(long, value_name = "NAME", default_value_t = Mode::Bulk, value_parser = one_of(Mode::ALL, Mode::name))]
    mode: Mode,

    /// With how many locks `message` guards a connection: 6 as in the paper, 6-repaired with checksums outside [PLP §5.1]
    #[arg(long, value_name = "N", default_value_t = TcpLocks::One, value_parser = one_of(&TcpLocks::ALL, TcpLocks::name))]
    tcp_locks: TcpLocks,

    /// What one perimeter covers under `message`: all modules of one or of all connections, or one module of one or of all [DEMUX §3.2.2]
    #[arg(long, value_name = "NAME", default_value_t = Span::Connection, value_parser = one_of(Span::ALL, Span::name))]
    span: Span,

    /// Do this to packets with messages on the wire between two whole stacks, which loses nothing else [PLP §2.3]; `braidnet relay --help`
    /// lists the words
    #[arg(long, value_name = "WORD=VALUE,...")]
    impair: Option<Impairments>,

    /// Do this to packets that go back [PLP §2.3]
    #[arg(long, value_name = "WORD=VALUE,...")]
    impair_back: Option<Impairments>,

    /// Measure again with locks metered by class and delegation, and on one processor what share of its time needs no order [CP/MP §3.4.3]
    #[arg(long)]
    sync: bool,

    /// Print one run object as JSON
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    knobs: Knobs,
}

impl Ttcp {
    /// Measures and prints.
    pub fn run(self) -> Result<(), Failure> {
        let config = self.config();
        config
            .validate()
            .map_err(|error| Failure::Usage(error.to_string()))?;
        let run = single(&mut ThisMachine::new(), &config, self.sync).map_err(failure)?;
        if self.json {
            output::json(&run)
        } else {
            output::text(&describe(&run))
        }
    }

    fn config(&self) -> TtcpConfig {
        TtcpConfig {
            architecture: self.architecture,
            processors: self.processors,
            connections: self.connections,
            thread_per_connection: self.thread_per_connection,
            transport: self.transport,
            presentation: self.presentation,
            direction: self.direction,
            mode: self.mode,
            tcp_locks: self.tcp_locks,
            span: self.span,
            impair: match (&self.impair, &self.impair_back) {
                (None, None) => None,
                (there, back) => Some(Box::new((
                    there.clone().unwrap_or_default(),
                    back.clone().unwrap_or_default(),
                ))),
            },
            ..self.knobs.config()
        }
    }
}

fn failure(error: LabError) -> Failure {
    match error {
        LabError::Config(error) => Failure::Usage(error.to_string()),
        error => Failure::Runtime(error.to_string()),
    }
}
