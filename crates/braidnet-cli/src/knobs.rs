//! The knobs that `compare` and `ttcp` share.

use crate::choices::{Switch, one_of};
use crate::units;
use braidnet::sync::lock::LockKind;
use braidnet::tcp::CongestionControl;
use braidnet_lab::{Agents, Counts, Order, OrderAbove, Perimeter, Place, Share, TtcpConfig, Wait};
use clap::Args;
use std::time::Duration;

/// What is sent, through what, and how the stack is set.
#[derive(Args, Debug)]
pub struct Knobs {
    #[command(flatten)]
    pub load: Load,
    #[command(flatten)]
    pub stack: Stack,
}

#[derive(Args, Debug)]
#[command(next_help_heading = "Load")]
pub struct Load {
    /// Messages that are measured, at least [CP/MP §3.4]
    #[arg(long, value_name = "N", default_value_t = TtcpConfig::default().messages)]
    messages: u64,

    /// Messages that go before and are not measured, so that caches are warm [CP/MP §3.4]
    #[arg(long, value_name = "N", default_value_t = TtcpConfig::default().warmup)]
    warmup: u64,

    /// Time that a measurement fills, at least: it goes on beyond its messages until then [PLP §3.1]
    #[arg(long, value_name = "TIME", default_value = "300ms", value_parser = units::duration)]
    fill: Duration,

    /// Bytes of a message [CP/MP §3.4]
    #[arg(long, value_name = "SIZE", default_value = "4K", value_parser = units::size::<usize>)]
    size: usize,

    /// Order-free work on each message that a stack receives: about so much processor time, above all else [PPF §3.2, figure 6]
    #[arg(long, value_name = "TIME", default_value = "0us", value_parser = units::duration)]
    work: Duration,

    /// Share of one connection in all messages, 0.8 say, the others having the rest evenly: a mix kept to by the sender [PLP §4.3]
    #[arg(long, value_name = "SHARE")]
    skew: Option<Share>,
}

#[derive(Args, Debug)]
#[command(next_help_heading = "Stack and device")]
pub struct Stack {
    /// Longest IP packet; 4352 is FDDI's, as in the papers [PLP §2.3]
    #[arg(long, value_name = "SIZE", default_value = "4352", value_parser = units::size::<usize>)]
    mtu: usize,

    /// Receive and send window of each connection [CP/MP §3.4]
    #[arg(long, value_name = "SIZE", default_value = "1M", value_parser = units::size::<u32>)]
    window: u32,

    /// Make and verify TCP and UDP checksums; off: as if the device did [PLP §3.2]
    #[arg(
        long,
        value_name = "on|off",
        default_value = "on",
        hide_possible_values = true
    )]
    checksum: Switch,

    /// Congestion control of our own senders [PLP §2.2]
    #[arg(long, value_name = "NAME", default_value_t = CongestionControl::Cubic, value_parser = one_of(&CongestionControl::ALL, CongestionControl::name))]
    congestion: CongestionControl,

    /// What connections are locked with under `message` [PLP §4.1]
    #[arg(long, value_name = "NAME", default_value_t = LockKind::Adaptive, value_parser = one_of(&LockKind::all(), LockKind::name))]
    lock: LockKind,

    /// How references to buffers, modules and sessions are counted: where shared only, or always, atomically or under locks [PLP §5.2]
    #[arg(long, value_name = "NAME", default_value_t = Counts::Lean, value_parser = one_of(Counts::ALL, Counts::name))]
    counts: Counts,

    /// Free buffers in a cache of each processor's; off: all in one store under a lock [PLP §6, CP/MP §3.3.2]
    #[arg(
        long,
        value_name = "on|off",
        default_value = "on",
        hide_possible_values = true
    )]
    caches: Switch,

    /// Ask first if a segment's connection is that of the one before; off: look each up in the map [PLP §2.1]
    #[arg(
        long,
        value_name = "on|off",
        default_value = "on",
        hide_possible_values = true
    )]
    one_behind: Switch,

    /// Under `message`, wait for that lock, or leave the work with whoever is inside [DEMUX §3.2.2]
    #[arg(long, value_name = "NAME", default_value_t = Perimeter::Locked, value_parser = one_of(Perimeter::ALL, Perimeter::name))]
    perimeter: Perimeter,

    /// What of the order of arrival reaches TCP under `message`, and whether processors wait for their turns [PLP §4.1, §4.2]
    #[arg(long, value_name = "NAME", default_value_t = Order::None, value_parser = one_of(Order::ALL, Order::name))]
    order: Order,

    /// An application above the order-free work, and what of TCP's order reaches it [PLP §4.2, fig 11]
    #[arg(long, value_name = "NAME", default_value_t = OrderAbove::None, value_parser = one_of(OrderAbove::ALL, OrderAbove::name))]
    order_above: OrderAbove,

    /// Most messages taken at once; 1 is how the papers did it [PLP §1, CP/MP §3.3.2]
    #[arg(long, value_name = "N", default_value_t = TtcpConfig::default().batch)]
    batch: usize,

    /// Queues of the device: 1 to as many as processors take from it [CP/MP §3.3.1]
    #[arg(long, value_name = "N", default_value_t = TtcpConfig::default().device_queues)]
    device_queues: usize,

    /// What carries processors: a thread each, or user-level tasks that threads take turns at [CP/MP §3.1, ASX §2.1]
    #[arg(long, value_name = "NAME", default_value_t = Agents::Threads, value_parser = one_of(Agents::ALL, Agents::name))]
    agents: Agents,

    /// How many threads carry the tasks; by default one for each processor [CP/MP §3.1]
    #[arg(long, value_name = "N")]
    threads: Option<usize>,

    /// How whoever serves a queue waits: asleep, asking on, or asking first [ASX §2.6.1]
    #[arg(long, value_name = "NAME", default_value_t = Wait::SpinSleep, value_parser = one_of(Wait::ALL, Wait::name))]
    wait: Wait,

    /// In whose memory one processor's queues, buckets, timers and buffers lie: all in the starter's, or each in its own [PPF §3.2, figures 4, 5]
    #[arg(long, value_name = "NAME", default_value_t = Place::Together, value_parser = one_of(Place::ALL, Place::name))]
    state: Place,

    /// Keep each thread on a processor of its own [PLP §3]
    #[arg(long)]
    pin: bool,
}

impl Knobs {
    /// A configuration in which these are set, and all else is as by default.
    pub fn config(&self) -> TtcpConfig {
        TtcpConfig {
            messages: self.load.messages,
            warmup: self.load.warmup,
            min_duration: self.load.fill,
            size: self.load.size,
            work: self.load.work,
            skew: self.load.skew,
            mtu: self.stack.mtu,
            window_bytes: self.stack.window,
            checksum: self.stack.checksum.is_on(),
            congestion: self.stack.congestion,
            lock: self.stack.lock,
            counts: self.stack.counts,
            caches: self.stack.caches.is_on(),
            one_behind: self.stack.one_behind.is_on(),
            perimeter: self.stack.perimeter,
            order: self.stack.order,
            order_above: self.stack.order_above,
            batch: self.stack.batch,
            device_queues: self.stack.device_queues,
            agents: self.stack.agents,
            threads: self.stack.threads,
            wait: self.stack.wait,
            state: self.stack.state,
            pin: self.stack.pin,
            ..TtcpConfig::default()
        }
    }
}
