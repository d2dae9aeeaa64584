//! What is lost goes again: RFC 6298, RFC 5681 §3.2, RFC 6675.

use braidnet_scripts::scripts;

scripts! {
    /// What is not acknowledged goes again, at intervals that double (RFC 6298 §5.4 to §5.6).
    rfc6298_5_5_data_backs_off on both {
        opened by syn(0).mss(1000);
        host.send(100);
        -> data(1, 1, 100);
        after 200.ms();
        -> data(1, 1, 100);
        after 400.ms();
        -> data(1, 1, 100);
        after 800.ms();
        -> data(1, 1, 100);
        after 1600.ms();
        -> data(1, 1, 100);
        <- ack(1, 101);
        nothing for 300.ms();
    }

    /// Of what is under way, only the first goes again (RFC 6298 §5.4).
    rfc6298_5_4_earliest_segment_goes_again on both {
        opened by syn(0).mss(1000);
        host.nodelay(true);
        host.send(3000);
        -> data(1, 1, 1000);
        -> data(1001, 1, 1000);
        -> data(2001, 1, 1000);
        after 200.ms();
        -> data(1, 1, 1000);
        nothing for 100.ms();
        <- ack(1, 3001);
    }

    /// An acknowledgment of new data starts the time anew (RFC 6298 §5.3).
    rfc6298_5_3_ack_restarts_the_timer on both {
        opened by syn(0).mss(1000);
        host.nodelay(true);
        host.send(2000);
        -> data(1, 1, 1000);
        -> data(1001, 1, 1000);
        after 120.ms();
        <- ack(1, 1001);
        nothing for 150.ms();
    }

    /// Three duplicates (RFC 5681 §3.2): the first and the second are not enough.
    rfc5681_3_2_third_duplicate_retransmits on both {
        opened by syn(0).mss(1000);
        host.nodelay(true);
        host.send(5000);
        -> data(1, 1, 1000);
        -> data(1001, 1, 1000);
        -> data(2001, 1, 1000);
        -> data(3001, 1, 1000);
        -> data(4001, 1, 1000);
        <- ack(1, 1);
        <- ack(1, 1);
        nothing for 30.ms();
        <- ack(1, 1);
        -> data(1, 1, 1000);
        <- ack(1, 5001);
        nothing for 50.ms();
    }

    /// What changes the window is no duplicate (RFC 5681 §2).
    rfc5681_2_window_updates_are_no_duplicates on both {
        host.listen();
        <- syn(0).mss(1000);
        -> syn_ack(0, 1);
        after 10.ms();
        <- ack(1, 1).win(30_000);
        host.accept();
        host.nodelay(true);
        host.send(4000);
        -> data(1, 1, 1000);
        -> data(1001, 1, 1000);
        -> data(2001, 1, 1000);
        -> data(3001, 1, 1000);
        <- ack(1, 1).win(31_000);
        <- ack(1, 1).win(32_000);
        <- ack(1, 1).win(33_000);
        <- ack(1, 1).win(34_000);
        nothing for 50.ms();
        <- ack(1, 4001);
    }

    /// A partial acknowledgment says that the next is lost, too (RFC 6582 §3.2).
    rfc6582_3_2_partial_ack_retransmits_the_next on both {
        opened by syn(0).mss(1000);
        host.nodelay(true);
        host.send(6000);
        -> data(1, 1, 1000);
        -> data(1001, 1, 1000);
        -> data(2001, 1, 1000);
        -> data(3001, 1, 1000);
        -> data(4001, 1, 1000);
        -> data(5001, 1, 1000);
        <- ack(1, 1);
        <- ack(1, 1);
        <- ack(1, 1);
        -> data(1, 1, 1000);
        <- ack(1, 2001);
        -> data(2001, 1, 1000);
        <- ack(1, 6001);
    }

    /// With SACK, three segments above say it (RFC 6675 §4).
    rfc6675_4_three_segments_above_are_a_loss on both {
        opened by syn(0).mss(1000).sack_ok();
        host.nodelay(true);
        host.send(4000);
        -> data(1, 1, 1000);
        -> data(1001, 1, 1000);
        -> data(2001, 1, 1000);
        -> data(3001, 1, 1000);
        <- ack(1, 1).sack(&[(1001, 2001)]);
        <- ack(1, 1).sack(&[(1001, 3001)]);
        <- ack(1, 1).sack(&[(1001, 4001)]);
        -> data(1, 1, 1000);
        <- ack(1, 4001);
    }

    /// What the peer holds does not go again.
    rfc6675_5_what_is_held_is_not_sent_again on both {
        opened by syn(0).mss(1000).sack_ok();
        host.nodelay(true);
        host.send(6000);
        -> data(1, 1, 1000);
        -> data(1001, 1, 1000);
        -> data(2001, 1, 1000);
        -> data(3001, 1, 1000);
        -> data(4001, 1, 1000);
        -> data(5001, 1, 1000);
        <- ack(1, 1).sack(&[(1001, 2001), (3001, 6001)]);
        -> data(1, 1, 1000);
        -> data(2001, 1, 1000);
        <- ack(1, 6001);
        nothing for 50.ms();
    }

    /// Each ACK with SACK tells what the peer holds, also one that another has overtaken (RFC 6675 §5).
    rfc6675_5_blocks_of_an_overtaken_ack_count on both {
        opened by syn(0).mss(1000).sack_ok();
        host.nodelay(true);
        host.send(6000);
        -> data(1, 1, 1000);
        -> data(1001, 1, 1000);
        -> data(2001, 1, 1000);
        -> data(3001, 1, 1000);
        -> data(4001, 1, 1000);
        -> data(5001, 1, 1000);
        <- ack(1, 1001);
        <- ack(1, 1).sack(&[(2001, 5001)]);
        -> data(1001, 1, 1000);
        <- ack(1, 6001);
        nothing for 50.ms();
    }

    /// A FIN that is lost goes again.
    rfc6298_5_4_fin_goes_again on both {
        opened by syn(0).mss(1000);
        host.close();
        -> fin(1, 1);
        after 200.ms();
        -> fin(1, 1);
        <- ack(1, 2);
    }

    /// So does one in LAST-ACK.
    rfc6298_5_4_fin_in_last_ack_goes_again on both {
        opened by syn(0).mss(1000);
        <- fin(1, 1);
        within 500.ms();
        -> ack(1, 2);
        host.close();
        -> fin(1, 2);
        after 200.ms();
        -> fin(1, 2);
        <- ack(2, 2);
    }

    /// Of a segment that is acknowledged in part, the rest goes again.
    rfc9293_3_10_7_4_segment_acknowledged_in_part on both {
        opened by syn(0).mss(1000);
        host.send(1000);
        -> data(1, 1, 1000);
        <- ack(1, 501);
        after 200.ms();
        -> data(501, 1, 500);
        <- ack(1, 1001);
    }

    /// An acknowledgment that is older than another says nothing.
    rfc9293_3_10_7_4_old_ack_is_ignored on both {
        opened by syn(0).mss(1000);
        host.send(1000);
        -> data(1, 1, 1000);
        <- ack(1, 1001);
        <- ack(1, 501);
        nothing for 300.ms();
    }

    /// Data that is lost in CLOSE-WAIT goes again.
    rfc6298_5_4_data_in_close_wait_goes_again on both {
        opened by syn(0).mss(1000);
        <- fin(1, 1);
        within 500.ms();
        -> ack(1, 2);
        host.send(500);
        -> data(1, 2, 500);
        after 200.ms();
        -> data(1, 2, 500);
        <- ack(2, 501);
    }

    /// So does data with the FIN on it, in FIN-WAIT-1.
    rfc6298_5_4_data_with_fin_goes_again on both {
        opened by syn(0).mss(1000);
        host.cork(true);
        host.send(500);
        host.close();
        -> fin(1, 1).len(500);
        after 200.ms();
        -> fin(1, 1).len(500);
        <- ack(1, 502);
    }

    /// When the SYN was lost, the first timeout is 3 seconds (RFC 6298 §5.7).
    rfc6298_5_7_after_a_lost_syn_three_seconds on ours("Linux goes by the round trip of the SYN that was answered") {
        host.connect() fails EINPROGRESS;
        -> syn(0);
        after 1.s();
        -> syn(0);
        <- syn_ack(0, 1).mss(1000);
        -> ack(1, 1);
        host.send(10);
        -> data(1, 1, 10);
        after 3.s();
        -> data(1, 1, 10);
    }

    /// What goes unacknowledged for the user's time ends the connection (RFC 5482 §3.1, RFC 9293 §3.8.3).
    rfc5482_3_user_timeout on both {
        opened by syn(0).mss(1000);
        host.user_timeout(1000);
        host.send(100);
        -> data(1, 1, 100);
        after 200.ms();
        -> data(1, 1, 100);
        after 400.ms();
        -> data(1, 1, 100);
        nothing for 900.ms();
        host.recv(10) fails ETIMEDOUT;
        host.recv(10) == 0;
    }

    /// The tail is probed after two round trips (RFC 8985 §7.2), with its last segment (§7.3).
    rfc8985_7_3_tail_is_probed on both {
        opened by syn(0).mss(1000).sack_ok();
        host.nodelay(true);
        host.send(3000);
        -> data(1, 1, 1000);
        -> data(1001, 1, 1000);
        -> data(2001, 1, 1000);
        within 150.ms();
        -> data(2001, 1, 1000);
        <- ack(1, 3001);
        nothing for 300.ms();
    }

    /// One segment above, and a quarter of a round trip later the one below is lost (RFC 8985 §6.2).
    rfc8985_6_2_loss_is_told_by_time on both {
        opened by syn(0).mss(1000).sack_ok();
        host.nodelay(true);
        host.send(2000);
        -> data(1, 1, 1000);
        -> data(1001, 1, 1000);
        after 8.ms();
        <- ack(1, 1).sack(&[(1001, 2001)]);
        within 100.ms();
        -> data(1, 1, 1000);
        <- ack(1, 2001);
        nothing for 250.ms();
    }

    /// What comes late but within that time was only late, and nothing goes again.
    rfc8985_6_2_late_within_the_window_is_no_loss on ours("a real clock is too coarse for it") {
        opened by syn(0).mss(1000).sack_ok();
        host.nodelay(true);
        host.send(2000);
        -> data(1, 1, 1000);
        -> data(1001, 1, 1000);
        after 10.ms();
        <- ack(1, 1).sack(&[(1001, 2001)]);
        after 1.ms();
        <- ack(1, 2001);
        nothing for 500.ms();
    }

    /// A block that is not of what is under way is nothing (RFC 2018 §8, RFC 9293 §3.10.7.4).
    rfc2018_8_blocks_of_nothing_are_ignored on both {
        opened by syn(0).mss(1000).sack_ok();
        host.nodelay(true);
        host.send(1000);
        -> data(1, 1, 1000);
        <- ack(1, 1).sack(&[(5001, 6001)]);
        <- ack(1, 1).sack(&[(900, 100)]);
        <- ack(1, 1).sack(&[(-500, -100)]);
        nothing for 50.ms();
        <- ack(1, 1001);
    }
}
