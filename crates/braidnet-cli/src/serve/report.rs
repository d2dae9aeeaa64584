//! What a person sees of a running server.

use super::settings::{Offer, Setup, What};
use crate::impaired;
use braidnet::Server;
use braidnet::device::Offloads;
use braidnet::device::capture::Seen;
use braidnet::device::impair::Impairment;
use braidnet_service::meter::{Meter, Traffic};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::collections::BTreeMap;
use std::io::Write;
use std::time::Instant;

/// Says what is offered where.
pub fn started(
    setup: &Setup,
    names: &[String],
    title: &str,
    (queues, offloads): (usize, &[Offloads]),
) {
    let mut text = format!(
        "{title}: {} on {}, {}, {}\n",
        setup.placing.architecture,
        count(setup.placing.processors as u64, "processor"),
        count(queues as u64, "queue"),
        offloaded(offloads, names),
    );
    for offer in &setup.services {
        text.push_str(&line(offer, setup));
    }
    let mut own = (setup.devices.iter()).flat_map(|attached| &attached.addresses);
    if let Some(first) = own.next() {
        let first = first.address;
        text.push_str(&format!("ping on {first}; try: ping {first}\n"));
    }
    for own in own {
        text.push_str(&format!("everything on {} as well\n", own.address));
    }
    for (attached, device) in setup.devices.iter().zip(names) {
        let Some(host) = attached.host else { continue };
        let beyond = (attached.addresses.iter()).filter(|own| !host.holds(own.address));
        for own in beyond {
            text.push_str(&format!(
                "{0} is not on the host's network: to reach it, run `ip route add {0} dev {device}`\n",
                own.address
            ));
        }
    }
    text.push_str("stop with Ctrl-C\n");
    say(&text);
}

/// What is offloaded, device by device where that differs.
fn offloaded(offloads: &[Offloads], names: &[String]) -> String {
    let words = |offloads: &Offloads| match offloads {
        Offloads {
            datagrams: true, ..
        } => "checksums, segments and datagrams offloaded",
        Offloads { segments: true, .. } => "checksums and segments offloaded",
        Offloads { checksum: true, .. } => "checksums offloaded",
        _ => "without offloads",
    };
    match offloads {
        [first, others @ ..] if others.iter().all(|other| other == first) => {
            words(first).to_owned()
        }
        _ => {
            let each = offloads.iter().zip(names);
            let each = each.map(|(offloads, name)| format!("{name} {}", words(offloads)));
            Vec::from_iter(each).join(", ")
        }
    }
}

/// How to reach a service.
fn line(offer: &Offer, setup: &Setup) -> String {
    let (address, port) = (setup.devices[0].addresses[0].address, offer.port);
    let attempt = match &offer.what {
        What::Echo | What::Daytime => format!("nc {address} {port}"),
        What::Discard => format!("head -c 100M /dev/zero | nc -N {address} {port}"),
        What::Chargen => format!("nc {address} {port} | head"),
        What::Http(_) if port == 80 => format!("curl http://{address}/"),
        What::Http(_) => format!("curl http://{address}:{port}/"),
    };
    let what = match &offer.what {
        What::Http(directory) => format!("http ({})", directory.display()),
        other => other.name().to_owned(),
    };
    format!("{what} on {address}:{port}; try: {attempt}\n")
}

/// Says what it came to.
pub fn ended(counters: &BTreeMap<String, u64>, meter: &Meter, open: u64) {
    let (received, sent) = (meter.received(), meter.sent());
    let served = counters.get("services.opened").copied().unwrap_or(0);
    let mut text = format!(
        "served {}{}; in {}, {}; out {}, {}\n",
        count(served, "connection"),
        if open > 0 {
            format!(" ({open} left open)")
        } else {
            String::new()
        },
        count(received.packets, "packet"),
        size(received.bytes),
        count(sent.packets, "packet"),
        size(sent.bytes),
    );
    text.push_str(&queues(counters, meter));
    let drops = drops(counters, &received, &sent);
    text.push_str(if drops.is_empty() {
        "nothing was dropped\n"
    } else {
        "dropped, by reason:\n"
    });
    for (reason, count) in drops {
        text.push_str(&format!("  {count:>10}  {reason}\n"));
    }
    say(&text);
}

/// What came by which queue, where there are several.
fn queues(counters: &BTreeMap<String, u64>, meter: &Meter) -> String {
    let by_queue = meter.received_by_queue();
    if by_queue.len() < 2 {
        return String::new();
    }
    let packets: Vec<String> = by_queue
        .iter()
        .map(|traffic| traffic.packets.to_string())
        .collect();
    let handed = counters.get("shared.handed").copied().unwrap_or(0);
    format!(
        "in by queue: {} packets; {handed} handed to another processor\n",
        packets.join(", ")
    )
}

/// Says what was done to packets.
pub fn impaired(impairment: &Impairment) {
    let mut text = String::new();
    text.push_str(&impaired::line("out", &impairment.outgoing()));
    text.push_str(&impaired::line("in", &impairment.incoming()));
    say(&text);
}

/// Says what was recorded, and what was not.
pub fn captured(interfaces: &[Seen]) {
    let sum = |of: fn(&Seen) -> u64| interfaces.iter().map(of).sum::<u64>();
    let (packets, lost) = (sum(|seen| seen.packets), sum(|seen| seen.lost));
    let mut text = format!("recorded {}", count(packets - lost, "packet"));
    if lost > 0 {
        text.push_str(&format!(
            "; {lost} not: the disk was too slow or took no more"
        ));
    }
    text.push('\n');
    say(&text);
}

/// The line that shows how it goes.
pub struct Status {
    bar: ProgressBar,
    before: Sample,
}

#[derive(Clone, Copy)]
struct Sample {
    at: Instant,
    received: Traffic,
    sent: Traffic,
}

impl Sample {
    fn take(meter: &Meter) -> Sample {
        Sample {
            at: Instant::now(),
            received: meter.received(),
            sent: meter.sent(),
        }
    }
}

impl Status {
    /// On the terminal that standard error is, or hidden.
    pub fn new(meter: &Meter) -> Status {
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
        if let Ok(style) = ProgressStyle::with_template("{wide_msg}") {
            bar.set_style(style);
        }
        let before = Sample::take(meter);
        Status { bar, before }
    }

    /// Shows what has happened since it was last shown.
    pub fn show(&mut self, server: &Server, meter: &Meter) {
        if self.bar.is_hidden() {
            return;
        }
        let sample = Sample::take(meter);
        let before = core::mem::replace(&mut self.before, sample);
        let seconds = sample.at.duration_since(before.at).as_secs_f64();
        let rate = |now: Traffic, then: Traffic| {
            let per_second = |count: u64| (count as f64 / seconds.max(f64::EPSILON)) as u64;
            let packets = per_second(now.packets.saturating_sub(then.packets));
            let bytes = per_second(now.bytes.saturating_sub(then.bytes));
            format!("{packets} packets/s {}/s", size(bytes))
        };
        self.bar.set_message(format!(
            "{}, in {}, out {}, {}",
            count(server.connections(), "connection"),
            rate(sample.received, before.received),
            rate(sample.sent, before.sent),
            summary(&drops(&server.counters(), &sample.received, &sample.sent)),
        ));
    }
}

impl Drop for Status {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

/// Counters that count work, news of others and what is only put off, not what was dropped.
const WORK: &[&str] = &[
    "arp.evicted",
    "arp.learned",
    "arp.moved",
    "arp.replies",
    "arp.requests",
    "arp.taken",
    "fragments.reassembled",
    "fragments.used",
    "icmp.echo_answered",
    "icmp.fragmentation_needed_received",
    "icmp.parameter_problem_received",
    "icmp.time_exceeded_received",
    "icmp.time_exceeded_sent",
    "icmp.unreachable_received",
    "icmp.unreachable_sent",
    "ip.forwarded",
    "ip.fragmented",
    "ip.fragments_sent",
    "order.late",
    "order.passed_over",
    "services.closed",
    "services.no_buffer",
    "services.opened",
    "shared.admitted",
    "shared.handed",
    "shared.moved",
    "tcp.closed",
    "tcp.cookies_sent",
    "tcp.cookies_taken",
    "tcp.data_segments_in",
    "tcp.fast_open_accepted",
    "tcp.fast_open_asked",
    "tcp.fast_open_cookies",
    "tcp.fast_open_taken",
    "tcp.growth_refused",
    "tcp.opened",
    "tcp.out_of_order",
    "tcp.path_black_holes",
    "tcp.path_forgotten",
    "tcp.path_probes_lost",
    "tcp.path_shortened",
    "tcp.path_widened",
    "tcp.resets_out",
    "tcp.retransmitted",
    "tcp.segments_in",
    "tcp.segments_out",
    "tcp.undelivered",
    "tcp.unreachable",
    "tcp.untold",
    "tcp.walks",
    "udp.received_in_trains",
    "udp.sent_in_trains",
];

/// What was dropped or refused, the most frequent reason first.
fn drops(
    counters: &BTreeMap<String, u64>,
    received: &Traffic,
    sent: &Traffic,
) -> Vec<(String, u64)> {
    let of_stack = counters
        .iter()
        .filter(|(name, count)| **count > 0 && !WORK.contains(&name.as_str()))
        .map(|(name, count)| (name.clone(), *count));
    let of_device = received
        .drops()
        .chain(sent.drops())
        .map(|(reason, count)| (format!("device.{}", reason.name()), count));
    let mut drops: Vec<_> = of_stack.chain(of_device).collect();
    drops.sort_by(|(name, count), (other, others)| others.cmp(count).then(name.cmp(other)));
    drops
}

/// The largest reasons.
fn summary(drops: &[(String, u64)]) -> String {
    let total: u64 = drops.iter().map(|(_, count)| count).sum();
    if total == 0 {
        return "no drops".to_owned();
    }
    let largest: Vec<String> = drops
        .iter()
        .take(3)
        .map(|(name, count)| format!("{name} {count}"))
        .collect();
    format!("{total} dropped ({})", largest.join(", "))
}

fn count(number: u64, what: &str) -> String {
    if number == 1 {
        format!("1 {what}")
    } else {
        format!("{number} {what}s")
    }
}

/// A number of bytes for a person.
fn size(bytes: u64) -> String {
    const UNITS: [&str; 5] = ["kB", "MB", "GB", "TB", "PB"];
    if bytes < 1000 {
        return format!("{bytes} B");
    }
    let mut value = bytes as f64 / 1000.0;
    let mut unit = 0;
    while value >= 999.95 && unit + 1 < UNITS.len() {
        value /= 1000.0;
        unit += 1;
    }
    format!("{value:.1} {}", UNITS[unit])
}

/// To standard output, whose reader may be gone: that is no reason to stop serving.
fn say(text: &str) {
    let mut out = std::io::stdout().lock();
    let _ = out.write_all(text.as_bytes());
    let _ = out.flush();
}

#[cfg(test)]
mod tests {
    use super::*;
    use braidnet::device::{Capabilities, MacAddress, memory};
    use braidnet::{ServerBuilder, StackConfig};

    #[test]
    fn drops_are_named_most_frequent_first_and_work_is_none() {
        let counters: BTreeMap<String, u64> = [
            ("tcp.segments_in".to_owned(), 1000),
            ("tcp.tcp_checksum_wrong".to_owned(), 2),
            ("udp.port_closed".to_owned(), 7),
            ("ip.empty".to_owned(), 2),
        ]
        .into();
        let nothing = Traffic::default();
        let drops = drops(&counters, &nothing, &nothing);
        let names: Vec<&str> = drops.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(
            names,
            ["udp.port_closed", "ip.empty", "tcp.tcp_checksum_wrong"]
        );
        assert_eq!(
            summary(&drops),
            "11 dropped (udp.port_closed 7, ip.empty 2, tcp.tcp_checksum_wrong 2)"
        );
        assert_eq!(summary(&[]), "no drops");
    }

    /// What modules drop, beside the refusals of parsers and of TCP's engine, whose names begin with the protocol's.
    const DROPS: &[(&str, &str)] = &[
        (
            "arp",
            "address_conflict bad_sender flapping host_unreachable misdirected no_buffer own_packet table_full unsolicited waiting_full",
        ),
        ("datagrams", "from_a_service no_service undelivered"),
        (
            "fragments",
            "duplicate ecn_differs empty ends_differ first_too_small full memory_short misdirected options_differ overlap poisoned source_full timed_out too_long too_many_pieces",
        ),
        (
            "icmp",
            "echo_reply echo_to_broadcast error_to_broadcast no_buffer quoted_not_ours quoted_not_too_long unreachable_forbidden unreachable_limited unreachable_unquotable",
        ),
        (
            "ip",
            "above_mtu bad_destination bad_source empty forward_martian forward_no_host forward_no_route forward_too_long group_frame ipv6_not_yet multicast_not_joined no_buffer no_route not_data not_ours source_is_ours to_ourselves ttl_exceeded unknown_protocol",
        ),
        (
            "link",
            "no_buffer other_station own_frame unknown_type unresolved",
        ),
        ("services", "no_service no_session poisoned"),
        ("stream", "poisoned"),
        (
            "tcp",
            "accept_queue_full bad_address cookies_awaited cookies_limited cookies_spent cookies_wrong fast_open_cookies_wrong fast_open_forgotten fast_open_limited fast_open_paused fast_open_refused fast_open_reset fast_open_unanswered no_buffer no_connection no_memory not_sendable poisoned poisoned_unsent report_doubted report_not_on_its_way report_short_enough report_stale report_unheeded stale syn_queue_full table_full text_refused",
        ),
        (
            "udp",
            "no_buffer not_data port_closed port_zero report_stale too_long",
        ),
    ];
    const REFUSALS: &[&str] = &[
        "arp.arp_",
        "icmp.icmpv4_",
        "ip.ipv4_",
        "link.ethernet_",
        "tcp.tcp_",
        "udp.udp_",
    ];

    #[test]
    fn every_counter_is_known_as_work_or_as_a_drop() {
        let mac = MacAddress([2, 0, 0, 0, 0, 1]);
        let (device, _far) = memory::wire(Capabilities::ethernet(mac, 1500), 1);
        let config = StackConfig::new([10, 0, 0, 1].into());
        let server = ServerBuilder::new(config).turned(device).unwrap();
        let is_refusal = |name: &String| REFUSALS.iter().any(|begin| name.starts_with(begin));
        let mut names: Vec<String> = server
            .counter_names()
            .filter(|name| !is_refusal(name))
            .collect();
        names.sort();
        let dropped = DROPS.iter().flat_map(|(module, names)| {
            let names = names.split_whitespace();
            names.map(move |name| format!("{module}.{name}"))
        });
        let mut known: Vec<String> = dropped
            .chain(WORK.iter().map(|name| name.to_string()))
            .collect();
        known.sort();
        assert_eq!(names, known);
    }

    #[test]
    fn sizes_are_short() {
        let rows = [
            (0, "0 B"),
            (999, "999 B"),
            (1000, "1.0 kB"),
            (999_949, "999.9 kB"),
            (999_950, "1.0 MB"),
            (u64::MAX, "18446.7 PB"),
        ];
        for (bytes, text) in rows {
            assert_eq!(size(bytes), text);
        }
    }
}
