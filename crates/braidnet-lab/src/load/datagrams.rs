//! The loads of UDP.

use super::records::decode_and_sum;
use super::{Numbers, with_buffer};
use crate::config::{Presentation, TtcpConfig};
use crate::content::{Content, NUMBER_BYTES, samples};
use crate::load::echo::Times;
use crate::measure::Phase;
use crate::tally::{Scope, Tally};
use braidnet_codec::xdr::{Sample, encode_batch};
use braidnet_inet::HEADROOM;
use braidnet_inet::notes::UdpFlow;
use braidnet_message::{Message, Pool, Run};
use braidnet_process::Application;
use braidnet_stream::{Cluster, Context, Counter, Direction, Module, ModuleId, Next, Stages};
use braidnet_sync::clock::Clock;
use braidnet_wire::address::Tuple;
use braidnet_wire::time::Instant;
use std::sync::Arc;

const BYTES: Counter = Counter(0);
const HASH: Counter = Counter(1);
const SAMPLES: Counter = Counter(2);
const UNDECODED: Counter = Counter(3);

/// What receives datagrams: copies each out, or decodes and sums it.
pub(crate) struct DatagramSink {
    numbers: Numbers,
    scope: Scope,
    presentation: Presentation,
    /// Whether there is a module above for what has been taken.
    hands_on: bool,
}

impl DatagramSink {
    pub(crate) fn new(
        numbers: Numbers,
        scope: Scope,
        presentation: Presentation,
        hands_on: bool,
    ) -> DatagramSink {
        DatagramSink {
            numbers,
            scope,
            presentation,
            hands_on,
        }
    }

    #[inline]
    fn take(&self, message: &Message, tally: &mut Tally) -> bool {
        let line = self.numbers.of(&message.note::<UdpFlow>().tuple);
        let len = message.total_len();
        match self.presentation {
            Presentation::None => with_buffer(len, |buffer| {
                message.copy_to_slice(&mut buffer[..len]);
                let (number, content) = split_number(&buffer[..len]);
                tally.datagram(&self.scope, line, number, content);
                true
            }),
            Presentation::Xdr => {
                let mut front = [0; NUMBER_BYTES];
                message.copy_to_slice(&mut front);
                let totals = decode_and_sum(message, NUMBER_BYTES);
                if let Ok(totals) = &totals {
                    tally.record(&self.scope, line, u64::from_be_bytes(front), totals);
                }
                totals.is_ok()
            }
        }
    }
}

/// The number in front of a datagram, and what follows it.
#[inline]
pub(crate) fn split_number(datagram: &[u8]) -> (u64, &[u8]) {
    match datagram.split_first_chunk::<NUMBER_BYTES>() {
        Some((number, content)) => (u64::from_be_bytes(*number), content),
        None => (u64::MAX, datagram),
    }
}

impl Module for DatagramSink {
    fn name(&self) -> &'static str {
        "datagrams"
    }

    fn stages(&self) -> Stages {
        Stages::BEFORE_UP
    }

    fn counters(&self) -> &'static [&'static str] {
        &["bytes", "hash", "samples", "undecoded"]
    }

    fn before(&self, _: Direction, run: &mut Run, cx: &mut Context<'_>) {
        let mut bytes = 0;
        let mut tally = Tally::default();
        for message in run.iter() {
            if self.take(message, &mut tally) {
                bytes += message.total_len() as u64;
            } else {
                cx.count(UNDECODED, 1);
            }
        }
        cx.count(HASH, tally.hash);
        cx.count(SAMPLES, tally.samples);
        cx.count(BYTES, bytes);
        if !self.hands_on {
            run.clear();
        }
    }
}

/// What sends datagrams: an application on its connections' processor, which puts a batch down with every turn.
pub(crate) struct DatagramSource {
    udp: ModuleId,
    size: usize,
    checksum: bool,
    batch: usize,
    content: Arc<Content>,
    /// Samples of every datagram of the cycle, if they are encoded.
    records: Arc<Vec<Vec<Sample>>>,
    /// Pairs of ports, seen from this stack, with the bucket of each and the number of its next datagram.
    lines: Vec<(Tuple, u16, u64)>,
    turn: usize,
    run: Run,
}

/// Samples of every datagram of the cycle; none if they are raw.
pub(crate) fn datagram_records(config: &TtcpConfig, content: &Content) -> Arc<Vec<Vec<Sample>>> {
    let body = config.size.saturating_sub(NUMBER_BYTES);
    let count = match config.presentation {
        Presentation::None => 0,
        Presentation::Xdr => content.cycle() / body,
    };
    Arc::new(
        (0..count as u64)
            .map(|record| samples(record, body))
            .collect(),
    )
}

impl DatagramSource {
    pub(crate) fn new(
        udp: ModuleId,
        config: &TtcpConfig,
        content: Arc<Content>,
        records: Arc<Vec<Vec<Sample>>>,
        lines: Vec<(Tuple, u16)>,
    ) -> DatagramSource {
        DatagramSource {
            udp,
            size: config.size,
            checksum: config.checksum,
            batch: config.batch,
            content,
            records,
            lines: lines
                .into_iter()
                .map(|(tuple, bucket)| (tuple, bucket, 0))
                .collect(),
            turn: 0,
            run: Run::with_capacity(config.batch),
        }
    }

    #[inline]
    fn make(&self, tuple: &Tuple, number: u64, pool: &mut Pool) -> Option<Message> {
        let body = self.size - NUMBER_BYTES;
        let mut message = pool.allocate(HEADROOM, self.size)?;
        if self.records.is_empty() {
            let content = self.content.at(number.wrapping_mul(body as u64), body);
            self.fill(&mut message, number, content);
        } else {
            let samples = &self.records[(number % self.records.len() as u64) as usize];
            with_buffer(body, |buffer| {
                encode_batch(samples, &mut buffer[..body]).ok()?;
                self.fill(&mut message, number, &buffer[..body]);
                Some(())
            })?;
        }
        message.set_note(UdpFlow {
            tuple: *tuple,
            ..UdpFlow::default()
        });
        Some(message)
    }

    #[inline]
    fn fill(&self, message: &mut Message, number: u64, content: &[u8]) {
        if self.checksum {
            message.extend_from_slice_summed(&number.to_be_bytes());
            message.extend_from_slice_summed(content);
        } else if let Some(to) = message.append(NUMBER_BYTES + content.len()) {
            let (front, rest) = to.split_at_mut(NUMBER_BYTES);
            front.copy_from_slice(&number.to_be_bytes());
            rest.copy_from_slice(content);
        }
    }
}

impl Application for DatagramSource {
    fn turn(&mut self, cluster: &mut Cluster, _: Instant) -> Next {
        if self.lines.is_empty() {
            return Next::Idle;
        }
        if cluster.is_backed_up() {
            return Next::Again;
        }
        let mut run = core::mem::take(&mut self.run);
        {
            let pool = cluster.pool();
            while run.len() < self.batch {
                let (tuple, bucket, number) = self.lines[self.turn];
                let Some(mut message) = self.make(&tuple, number, pool) else {
                    break;
                };
                message.set_bucket(bucket);
                run.push(message);
                self.lines[self.turn].2 = number + 1;
                self.turn = if self.turn + 1 == self.lines.len() {
                    0
                } else {
                    self.turn + 1
                };
            }
        }
        cluster.put(self.udp, Direction::Down, &mut run);
        self.run = run;
        Next::Again
    }
}

/// The end of UDP that asks: one datagram there and back, one outstanding for each pair of ports.
pub(crate) struct DatagramClient {
    udp: ModuleId,
    content: Arc<Content>,
    size: usize,
    lines: Vec<(Tuple, u16)>,
    started: bool,
}

impl DatagramClient {
    pub(crate) fn new(
        udp: ModuleId,
        config: &TtcpConfig,
        content: Arc<Content>,
        lines: Vec<(Tuple, u16)>,
    ) -> Self {
        DatagramClient {
            udp,
            content,
            size: config.size,
            lines,
            started: false,
        }
    }
}

impl Application for DatagramClient {
    fn turn(&mut self, cluster: &mut Cluster, _: Instant) -> Next {
        if !core::mem::replace(&mut self.started, true) {
            for (tuple, bucket) in self.lines.drain(..) {
                let message = {
                    let pool = cluster.pool();
                    question(&self.content, self.size, &tuple, pool)
                };
                if let Some(mut message) = message {
                    message.set_bucket(bucket);
                    cluster.put_one(self.udp, Direction::Down, message);
                }
            }
        }
        Next::Idle
    }
}

/// A datagram that asks, with the time at which it does in front.
fn question(content: &Content, size: usize, tuple: &Tuple, pool: &mut Pool) -> Option<Message> {
    let mut message = pool.allocate(HEADROOM, size)?;
    message.extend_from_slice_summed(&Clock::shared().now_nanos().to_be_bytes());
    message.extend_from_slice_summed(content.at(0, size - NUMBER_BYTES));
    message.set_note(UdpFlow {
        tuple: *tuple,
        ..UdpFlow::default()
    });
    Some(message)
}

/// Above UDP: sends back what comes, or takes what comes back and asks again.
pub(crate) struct DatagramEcho {
    /// The asking end's: content and size of a message, whether it counts, and where.
    asks: Option<(Arc<Content>, usize, Arc<Phase>, Times)>,
}

impl DatagramEcho {
    pub(crate) fn server() -> DatagramEcho {
        DatagramEcho { asks: None }
    }

    pub(crate) fn client(
        config: &TtcpConfig,
        content: Arc<Content>,
        phase: Arc<Phase>,
        times: Times,
    ) -> DatagramEcho {
        DatagramEcho {
            asks: Some((content, config.size, phase, times)),
        }
    }
}

impl Module for DatagramEcho {
    fn name(&self) -> &'static str {
        if self.asks.is_some() {
            "client"
        } else {
            "server"
        }
    }

    fn stages(&self) -> Stages {
        Stages::BEFORE_UP
    }

    fn counters(&self) -> &'static [&'static str] {
        &["bytes", "lost", "unsent"]
    }

    fn before(&self, _: Direction, run: &mut Run, cx: &mut Context<'_>) {
        for message in run.drain() {
            let flow = message.note::<UdpFlow>();
            let len = message.total_len();
            let answer = with_buffer(len, |buffer| {
                message.copy_to_slice(&mut buffer[..len]);
                match &self.asks {
                    Some((content, size, phase, times)) => {
                        let (asked_at, _) = split_number(&buffer[..len]);
                        if phase.is_measuring() {
                            times.record(Clock::shared().now_nanos().saturating_sub(asked_at));
                        }
                        question(content, *size, &flow.tuple, cx.pool())
                    }
                    None => {
                        let mut answer = cx.pool().allocate(HEADROOM, len);
                        if let Some(answer) = &mut answer {
                            answer.extend_from_slice_summed(&buffer[..len]);
                            answer.set_note(flow);
                        }
                        answer
                    }
                }
            });
            cx.count(BYTES, len as u64);
            let bucket = message.bucket();
            drop(message);
            match answer {
                Some(mut answer) => {
                    answer.set_bucket(bucket);
                    cx.reply(answer);
                }
                None => cx.count(Counter(2), 1),
            }
        }
    }
}
