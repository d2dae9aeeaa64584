//! How much may be under way: RFC 5681, RFC 6928, RFC 3042.

use braidnet_scripts::scripts;

scripts! {
    /// Ten segments at first (RFC 6928 §2).
    rfc6928_2_initial_window on both {
        opened by syn(0).mss(1000);
        host.send(12_000);
        -> data(1, 1, 1000);
        -> data(1001, 1, 1000);
        -> data(2001, 1, 1000);
        -> data(3001, 1, 1000);
        -> data(4001, 1, 1000);
        -> data(5001, 1, 1000);
        -> data(6001, 1, 1000);
        -> data(7001, 1, 1000);
        -> data(8001, 1, 1000);
        -> data(9001, 1, 1000);
        nothing for 50.ms();
    }

    /// Slow start: for each segment acknowledged, two (RFC 5681 §3.1).
    rfc5681_3_1_slow_start on both {
        opened by syn(0).mss(1000);
        host.send(14_000);
        -> data(1, 1, 1000);
        -> data(1001, 1, 1000);
        -> data(2001, 1, 1000);
        -> data(3001, 1, 1000);
        -> data(4001, 1, 1000);
        -> data(5001, 1, 1000);
        -> data(6001, 1, 1000);
        -> data(7001, 1, 1000);
        -> data(8001, 1, 1000);
        -> data(9001, 1, 1000);
        <- ack(1, 1001);
        -> data(10_001, 1, 1000);
        -> data(11_001, 1, 1000);
        <- ack(1, 2001);
        -> data(12_001, 1, 1000);
        -> data(13_001, 1, 1000);
        <- ack(1, 14_001);
    }

    /// The first two duplicates let a new segment go each (RFC 3042 §2).
    rfc3042_2_limited_transmit on ours("Linux lets both go at the first") {
        opened by syn(0).mss(1000);
        host.send(12_000);
        -> data(1, 1, 1000);
        -> data(1001, 1, 1000);
        -> data(2001, 1, 1000);
        -> data(3001, 1, 1000);
        -> data(4001, 1, 1000);
        -> data(5001, 1, 1000);
        -> data(6001, 1, 1000);
        -> data(7001, 1, 1000);
        -> data(8001, 1, 1000);
        -> data(9001, 1, 1000);
        <- ack(1, 1);
        -> data(10_001, 1, 1000);
        <- ack(1, 1);
        -> data(11_001, 1, 1000);
        <- ack(1, 1);
        -> data(1, 1, 1000);
        <- ack(1, 12_001);
    }

    /// A timeout leaves one segment (RFC 5681 §3.1), and slow start from there.
    rfc5681_3_1_timeout_leaves_one_segment on ours("Linux lets three go at the first acknowledgment") {
        opened by syn(0).mss(1000);
        host.send(4000);
        -> data(1, 1, 1000);
        -> data(1001, 1, 1000);
        -> data(2001, 1, 1000);
        -> data(3001, 1, 1000);
        after 200.ms();
        -> data(1, 1, 1000);
        <- ack(1, 1001);
        -> data(1001, 1, 1000);
        -> data(2001, 1, 1000);
        <- ack(1, 4001);
    }

    /// When the SYN was lost, one segment at first (RFC 5681 §3.1).
    rfc5681_3_1_after_a_lost_syn_one_segment on ours("Linux forgives the first loss") {
        host.connect() fails EINPROGRESS;
        -> syn(0);
        after 1.s();
        -> syn(0);
        <- syn_ack(0, 1).mss(1000);
        -> ack(1, 1);
        host.send(5000);
        -> data(1, 1, 1000);
        nothing for 50.ms();
        <- ack(1, 1001);
        -> data(1001, 1, 1000);
        -> data(2001, 1, 1000);
    }

    /// As long as less is under way than may be, what a user sends leaves at once.
    rfc5681_3_1_within_the_window_data_leaves_at_once on both {
        opened by syn(0).mss(1000);
        host.send(2000);
        -> data(1, 1, 1000);
        -> data(1001, 1, 1000);
        <- ack(1, 2001);
        host.send(3000);
        -> data(2001, 1, 1000);
        -> data(3001, 1, 1000);
        -> data(4001, 1, 1000);
        <- ack(1, 5001);
    }
}
