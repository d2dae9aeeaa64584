//! Bulk flows from one side of a bottleneck to the other, in virtual time: engines, the impairment wrapper's own link, no bytes.

use braidnet_impair::{Impairments, Line, Link};
use braidnet_tcp::{Config, Payload, State, Tcb, Transmit};
use braidnet_wire::seq::SeqNumber;
use braidnet_wire::tcp::TcpHeader;
use braidnet_wire::time::{Duration, Instant};
use std::sync::Arc;

/// IP's header and TCP's with timestamps, which take time on the line too.
const HEADER_BYTES: usize = 52;
const MSS: u16 = 1460;
/// Room for any window that a flow needs here.
const BUFFER_BYTES: u32 = 16 << 20;
/// What the clock of every host shows when a run begins.
const START: u64 = 5_000_000_000;

/// Data of which only the length is known.
struct Len(usize);

impl Payload for Len {
    fn len(&self) -> usize {
        self.0
    }

    fn trim_front(&mut self, n: usize) {
        self.0 -= n;
    }

    fn truncate(&mut self, n: usize) {
        self.0 = n;
    }
}

/// A segment on the line: which flow's, to which end, its header and how much data it has.
#[derive(Clone, Copy)]
struct Segment {
    flow: usize,
    to: usize,
    header: TcpHeader,
    len: u32,
}

/// How a flow differs from others.
#[derive(Clone, Copy)]
pub struct Flow {
    pub config: Config,
    /// It begins so late, in nanoseconds.
    pub starts_at: u64,
}

/// What became of a flow.
#[derive(Clone, Copy, Default, Debug)]
pub struct Outcome {
    /// Bytes of its stream delivered by the end of the run, and by each mark.
    pub delivered: u64,
    pub by_mark: u64,
    pub segments: u64,
    pub repeated: u64,
}

struct Ends {
    /// The sender, then the receiver; none before the flow begins.
    tcbs: [Option<Tcb<Len>>; 2],
    starts_at: u64,
    config: Config,
    outcome: Outcome,
}

/// Both directions of a path, and the flows over it.
pub struct Net {
    now: u64,
    /// The hosts' clocks move in steps of so many nanoseconds.
    step: u64,
    links: [Link; 2],
    line: Line<Segment>,
    flows: Vec<Ends>,
}

impl Net {
    pub fn new(forth: &Impairments, back: &Impairments, flows: &[Flow], step: Duration) -> Net {
        let ends = |flow: &Flow| Ends {
            tcbs: [None, None],
            starts_at: flow.starts_at,
            config: Config {
                send_buffer_bytes: BUFFER_BYTES,
                receive_buffer_bytes: BUFFER_BYTES,
                clock_granularity: step,
                ..flow.config
            },
            outcome: Outcome::default(),
        };
        Net {
            now: 0,
            step: step.as_nanos() as u64,
            links: [Link::new(forth, 0), Link::new(back, 1)],
            line: Line::default(),
            flows: flows.iter().map(ends).collect(),
        }
    }

    /// Runs for so long; what is delivered by `mark` is told apart. Times are in nanoseconds.
    pub fn run(mut self, mark: u64, until: u64) -> Vec<Outcome> {
        while let Some(next) = self.next().filter(|next| *next <= until) {
            if self.now < mark && next >= mark {
                for flow in &mut self.flows {
                    flow.outcome.by_mark = flow.outcome.delivered;
                }
            }
            self.now = self.now.max(next);
            self.turn();
        }
        self.flows.iter().map(|flow| flow.outcome).collect()
    }

    fn clock(&self) -> Instant {
        Instant::from_nanos((START + self.now) / self.step * self.step)
    }

    /// When a clock shows `at` or later.
    fn when(&self, at: Instant) -> u64 {
        let shown = at.nanos().div_ceil(self.step).saturating_mul(self.step);
        shown.saturating_sub(START)
    }

    fn next(&self) -> Option<u64> {
        let of_flow = |flow: &Ends| match &flow.tcbs[0] {
            None => Some(flow.starts_at),
            Some(_) => {
                let deadlines = flow.tcbs.iter().flatten().filter_map(Tcb::deadline);
                // One that has come already waits for the clock to move.
                deadlines.map(|at| self.when(at).max(self.now + 1)).min()
            }
        };
        let flows = self.flows.iter().filter_map(of_flow).min();
        [flows, self.line.next()].into_iter().flatten().min()
    }

    fn turn(&mut self) {
        while let Some(delivery) = self.line.take(self.now) {
            let mut segment = delivery.packet;
            if delivery.marked && segment.header.ecn() != 0 {
                segment.header.present |= TcpHeader::CE;
            }
            self.arrive(segment);
        }
        let now = self.clock();
        for at in 0..self.flows.len() {
            let flow = &mut self.flows[at];
            if flow.tcbs[0].is_none() && flow.starts_at <= self.now {
                let iss = SeqNumber::new(at as u32);
                flow.tcbs[0] = Some(Tcb::connect(&Arc::new(flow.config), iss, MSS, now));
                self.transmit(at, 0);
            }
            for end in [0, 1] {
                let Some(tcb) = &mut self.flows[at].tcbs[end] else {
                    continue;
                };
                if tcb.deadline().is_some_and(|deadline| deadline <= now) {
                    let _ = tcb.on_deadline(now);
                    self.transmit(at, end);
                }
            }
        }
    }

    fn arrive(&mut self, segment: Segment) {
        let now = self.clock();
        let Segment {
            flow,
            to,
            header,
            len,
        } = segment;
        let ends = &mut self.flows[flow];
        let config = &ends.config;
        let tcb = ends.tcbs[to].get_or_insert_with(|| {
            let iss = SeqNumber::new(flow as u32 + 77);
            Tcb::accept(&Arc::new(*config), iss, MSS, &header, now)
        });
        let mut sink = Vec::new();
        let outcome = tcb.on_segment(now, &header, Some(Len(len as usize)), &mut sink);
        assert!(tcb.state() != State::Closed, "{outcome:?}");
        let delivered: usize = sink.iter().map(Payload::len).sum();
        tcb.receive(delivered as u32);
        ends.outcome.delivered += delivered as u64;
        self.transmit(flow, to);
    }

    /// The sender has always more to send.
    fn transmit(&mut self, flow: usize, end: usize) {
        let now = self.clock();
        let ends = &mut self.flows[flow];
        let Some(tcb) = &mut ends.tcbs[end] else {
            return;
        };
        let _ = tcb.take_acked();
        if end == 0 && tcb.state().may_send() {
            let space = tcb.send_space();
            tcb.send(space);
        }
        while let Some(Transmit {
            header,
            len,
            retransmission,
            ..
        }) = tcb.poll_transmit(now, |_, max| max)
        {
            ends.outcome.segments += u64::from(len > 0);
            ends.outcome.repeated += u64::from(len > 0 && retransmission);
            let segment = Segment {
                flow,
                to: 1 - end,
                header,
                len,
            };
            let sent = (self.now, len as usize + HEADER_BYTES);
            // What is dropped is the point of it.
            let _ = self
                .line
                .offer(&mut self.links[end], sent, segment, |segment| {
                    Some(*segment)
                });
        }
    }
}
