//! Options: RFC 9293 §3.2 and §3.7.1, RFC 7323, RFC 2018 §2.

use braidnet_scripts::scripts;

scripts! {
    /// What the peer does not offer is not agreed to.
    rfc7323_1_3_no_option_unless_offered on both {
        host.listen();
        <- syn(0).mss(1460);
        -> syn_ack(0, 1).mss(1460).no_wscale().no_sack_ok().no_ts();
    }

    /// What it offers is.
    rfc7323_1_3_options_offered_are_agreed_to on both {
        host.listen();
        <- syn(0).mss(1460).sack_ok().ts(700).wscale(3);
        -> syn_ack(0, 1).mss(1460).sack_ok().echoes(700);
    }

    /// A window scale alone.
    rfc7323_2_2_window_scale_by_itself on both {
        host.listen();
        <- syn(0).mss(1460).wscale(0);
        -> syn_ack(0, 1).no_sack_ok().no_ts();
    }

    /// Who opens offers them all.
    rfc7323_1_3_opener_offers on both {
        host.connect() fails EINPROGRESS;
        -> syn(0).mss(1460).sack_ok().echoes(0);
        <- syn_ack(0, 1).mss(1460);
        -> ack(1, 1).no_ts();
    }

    /// Timestamps that both have agreed on stand in each segment.
    rfc7323_3_2_timestamps_in_every_segment on both {
        host.connect() fails EINPROGRESS;
        -> syn(0).echoes(0);
        <- syn_ack(0, 1).mss(1460).ts(5000);
        -> ack(1, 1).echoes(5000);
        host.send(10);
        -> data(1, 1, 10).echoes(5000);
        <- ack(1, 11).ts(5001);
        host.close();
        -> fin(11, 1).echoes(5001);
    }

    /// And on a reset, which RFC 7323 §3.2 asks for (SHOULD): here of what the application leaves unread.
    rfc7323_3_2_timestamps_on_a_reset on both {
        opened by syn(0).mss(1460).ts(5000);
        <- data(1, 1, 10).ts(5001);
        within 500.ms();
        -> ack(1, 11).echoes(5001);
        host.close();
        -> rst_ack(1, 11).echoes(5001);
    }

    /// Without an MSS option the peer takes 536 bytes (RFC 9293 §3.7.1, MUST-15).
    rfc9293_3_7_1_default_mss on both {
        opened by syn(0);
        host.nodelay(true);
        host.send(1000);
        -> data(1, 1, 536);
        -> data(537, 1, 464);
        <- ack(1, 1001);
    }

    /// No segment is longer than what the peer takes (MUST-16).
    rfc9293_3_7_1_mss_of_the_peer_bounds on both {
        opened by syn(0).mss(700);
        host.nodelay(true);
        host.send(1500);
        -> data(1, 1, 700);
        -> data(701, 1, 700);
        -> data(1401, 1, 100);
        <- ack(1, 1501);
    }

    /// Options take their room from the data (RFC 6691 §2).
    rfc6691_2_timestamps_take_room on both {
        opened by syn(0).mss(1000).ts(1);
        host.nodelay(true);
        host.send(1000);
        -> data(1, 1, 988).echoes(2);
        -> data(989, 1, 12).echoes(2);
        <- ack(1, 1001).ts(3);
    }

    /// The end of the list, NOPs and options that nobody knows (RFC 9293 §3.2, MUST-4 to MUST-6).
    rfc9293_3_2_unknown_options_are_skipped on both {
        host.listen();
        <- syn(0).raw_options(&[1, 1, 253, 4, 0, 0, 1, 2, 4, 3, 232, 0]);
        -> syn_ack(0, 1).no_wscale();
        <- ack(1, 1).raw_options(&[1, 254, 3, 9]);
        host.accept();
        host.nodelay(true);
        host.send(1500);
        -> data(1, 1, 1000);
        -> data(1001, 1, 500);
        <- ack(1, 1501);
    }

    /// An option whose length cannot be costs its segment, and nothing else (RFC 9293 §3.1, MUST-7).
    rfc9293_3_1_impossible_option_lengths_are_borne on ours("Linux takes the segment without its options") {
        opened by syn(0).mss(1460);
        <- data(1, 1, 10).raw_options(&[8, 0, 0, 0]);
        <- data(1, 1, 10).raw_options(&[1, 1, 1, 8]);
        <- data(1, 1, 10).raw_options(&[253, 40, 0, 0]);
        nothing for 100.ms();
        host.recv(10) fails EAGAIN;
        <- data(1, 1, 10);
        within 500.ms();
        -> ack(1, 11);
    }

    /// A segment size is told by SYNs only (RFC 9293 §3.2, MUST-65).
    rfc9293_3_2_mss_on_a_syn_only on both {
        opened by syn(0).mss(1000);
        <- ack(1, 1).raw_options(&[2, 4, 1, 0]);
        host.nodelay(true);
        host.send(1500);
        -> data(1, 1, 1000).no_mss();
        -> data(1001, 1, 500).no_mss();
        <- ack(1, 1501);
    }

    /// A window scale counts from the handshake on; the window of a SYN is as it stands there (RFC 7323 §2.2).
    rfc7323_2_2_scaled_window_bounds on both {
        host.listen();
        <- syn(0).mss(1000).wscale(2).win(8000);
        -> syn_ack(0, 1);
        <- ack(1, 1).win(500);
        host.accept();
        host.nodelay(true);
        host.send(3000);
        -> data(1, 1, 1000);
        -> data(1001, 1, 1000);
        nothing for 50.ms();
        <- ack(1, 2001).win(500);
        -> data(2001, 1, 1000);
        <- ack(1, 3001);
    }

    /// Without the option from both, no window is scaled.
    rfc7323_2_2_unscaled_window_bounds on both {
        host.listen();
        <- syn(0).mss(1000);
        -> syn_ack(0, 1).no_wscale();
        <- ack(1, 1).win(2000);
        host.accept();
        host.nodelay(true);
        host.send(3000);
        -> data(1, 1, 1000);
        -> data(1001, 1, 1000);
        nothing for 50.ms();
    }

    /// PAWS, R1: text with an old timestamp is acknowledged and not taken.
    rfc7323_5_3_old_timestamp_is_refused on both {
        opened by syn(0).mss(1460).ts(1000);
        <- data(1, 1, 100).ts(1010);
        within 500.ms();
        -> ack(1, 101).echoes(1010);
        <- data(101, 1, 100).ts(900);
        -> ack(1, 101).echoes(1010);
        host.recv(500) == 100;
        host.recv(500) fails EAGAIN;
    }

    /// PAWS: the clock of timestamps goes around.
    rfc7323_5_3_timestamps_wrap on both {
        opened by syn(0).mss(1460).ts(u32::MAX - 1);
        <- data(1, 1, 100).ts(5);
        within 500.ms();
        -> ack(1, 101).echoes(5);
        <- data(101, 1, 100).ts(u32::MAX);
        -> ack(1, 101).echoes(5);
        host.recv(500) == 100;
    }

    /// A RST is taken whatever its timestamp (RFC 7323 §5.2).
    rfc7323_5_2_reset_is_not_checked on both {
        opened by syn(0).mss(1460).ts(1000);
        <- rst(1).ts(5);
        host.recv(10) fails ECONNRESET;
    }

    /// What answers a segment that has timestamps has some, too: its own value is 0, and it echoes that segment's.
    rfc7323_5_2_reset_of_no_connection_echoes on ours ("Linux has none on what answers for no connection") {
        opened by syn(0).mss(1460).ts(1000);
        <- rst(1);
        host.recv(10) fails ECONNRESET;
        <- ack(1, 1).ts(5000);
        -> rst(1).echoes(5000);
        <- data(1, 1, 10).no_ts();
        -> rst(1).no_ts();
    }

    /// The same of a connection whose application reads no more.
    rfc7323_5_2_reset_of_a_connection_echoes on ours ("Linux has none on what answers a segment") {
        opened by syn(0).mss(1460).ts(1000);
        host.close();
        -> fin(1, 1).echoes(1001);
        <- data(1, 1, 10).ts(5000);
        -> rst_ack(2, 1).echoes(5000);
    }

    /// And of one whose handshake something else acknowledges; it stays.
    rfc7323_5_2_reset_of_a_handshake_echoes on ours ("Linux has none on what answers a segment") {
        host.listen();
        <- syn(0).mss(1460).ts(1000);
        -> syn_ack(0, 1).echoes(1000);
        <- ack(1, 100).ts(1001);
        -> rst(100).echoes(1001);
        <- ack(1, 1).ts(1002);
        host.accept();
    }

    /// What answers a SYN-ACK has none: its sender may be Linux, in SYN-RECEIVED, which takes a RST with a value of 0 for an old one and sends the SYN-ACK again.
    rfc7323_5_2_reset_of_a_syn_ack_echoes_nothing on ours ("Linux sends its SYN again at once") {
        host.connect() fails EINPROGRESS;
        -> syn(0).echoes(0);
        <- syn_ack(0, 100).mss(1460).ts(1000);
        -> rst(100).no_ts();
    }

    /// PAWS comes before all else: also out of order an old timestamp is refused.
    rfc7323_5_3_old_timestamp_out_of_order_is_refused on both {
        opened by syn(0).mss(1460).ts(1000);
        <- data(1, 1, 100).ts(1010);
        within 500.ms();
        -> ack(1, 101).echoes(1010);
        <- data(201, 1, 100).ts(900);
        -> ack(1, 101).echoes(1010);
        <- data(101, 1, 100).ts(1020);
        within 500.ms();
        -> ack(1, 201).echoes(1020);
        host.recv(500) == 200;
    }

    /// What a RST brings as a timestamp counts for nothing (RFC 7323 §5.2).
    rfc7323_5_2_reset_changes_no_timestamp on both {
        opened by syn(0).mss(1460).ts(1000);
        <- rst(100).ts(5000);
        -> ack(1, 1).echoes(1001);
    }

    /// Timestamps that were not agreed on are nothing (RFC 7323 §3.2).
    rfc7323_3_2_timestamps_that_were_not_agreed_on_are_ignored on both {
        opened by syn(0).mss(1460);
        <- data(1, 1, 100).ts(5);
        within 500.ms();
        -> ack(1, 101).no_ts();
        <- data(101, 1, 100).ts(3);
        within 500.ms();
        -> ack(1, 201).no_ts();
        host.recv(500) == 200;
    }

    /// What is echoed is the timestamp of the segment that moved the left edge of the window, not of one out of order
    /// (RFC 7323 §4.3, rule 2).
    rfc7323_4_3_echo_is_of_what_was_next on both {
        opened by syn(0).mss(1460).ts(1000);
        <- data(101, 1, 100).ts(1020);
        -> ack(1, 1).echoes(1001);
        <- data(1, 1, 100).ts(1030);
        -> ack(1, 201).echoes(1030);
    }

    /// What IP says of each packet the application chooses (MUST-48, MUST-49), and changes at any time (SHLD-21).
    rfc9293_3_9_1_9_application_chooses_for_an_opener on both {
        host.ttl(7);
        host.dscp(10);
        host.connect() fails EINPROGRESS;
        -> syn(0).ttl(7).dscp(10);
        <- syn_ack(0, 1).mss(1000);
        -> ack(1, 1).ttl(7).dscp(10);
        host.connect();
        host.dscp(46);
        host.send(1000);
        -> data(1, 1, 1000).ttl(7).dscp(46);
        <- ack(1, 1001);
        host.ttl(255);
        host.send(1000);
        -> data(1001, 1, 1000).ttl(255).dscp(46);
        <- ack(1, 2001);
        host.abort_on_close();
        host.close();
        -> rst_ack(2001, 1).ttl(255).dscp(46);
    }

    /// A listener's connections are as it is.
    rfc9293_3_9_1_9_application_chooses_for_a_listener on both {
        host.ttl(7);
        host.dscp(10);
        host.listen();
        <- syn(0).mss(1000);
        -> syn_ack(0, 1).ttl(7).dscp(10);
        <- ack(1, 1);
        host.accept();
        host.send(1000);
        -> data(1, 1, 1000).ttl(7).dscp(10);
        <- ack(1, 1001);
    }

    /// Where nobody chooses.
    rfc9293_3_9_2_unless_chosen_64_hops_and_best_effort on both {
        host.listen();
        <- syn(0).mss(1000);
        -> syn_ack(0, 1).ttl(64).dscp(0);
        <- ack(1, 1);
        host.accept();
        host.send(1000);
        -> data(1, 1, 1000).ttl(64).dscp(0);
        <- ack(1, 1001);
    }
}
