//! Resets, and what could be forged: RFC 9293 §3.5.2 and §3.10.7.4, RFC 5961.

use braidnet_scripts::scripts;

scripts! {
    /// A RST at RCV.NXT ends the connection (RFC 5961 §3.2).
    rfc5961_3_2_exact_reset_ends on both {
        opened by syn(0);
        <- rst(1);
        host.ready() == IN | OUT | ERR | HUP | RDHUP;
        host.recv(10) fails ECONNRESET;
        host.recv(10) == 0;
        host.send(10) fails EPIPE;
        <- ack(1, 1);
        -> rst(1);
    }

    /// One elsewhere in the window is asked about.
    rfc5961_3_2_reset_in_the_window_is_challenged on both {
        opened by syn(0);
        <- rst(100);
        -> ack(1, 1);
        host.recv(10) fails EAGAIN;
    }

    /// One outside is nothing.
    rfc5961_3_2_reset_outside_the_window_is_dropped on both {
        opened by syn(0);
        <- rst(-100);
        <- rst(100_000_000);
        nothing for 50.ms();
        host.recv(10) fails EAGAIN;
    }

    /// A SYN on a connection is asked about, wherever it stands (RFC 5961 §4.2).
    rfc5961_4_2_syn_is_challenged on both {
        opened by syn(0);
        <- syn(500);
        -> ack(1, 1);
        host.recv(10) fails EAGAIN;
    }

    /// Also outside the window.
    rfc5961_4_2_syn_outside_the_window_is_challenged on both {
        opened by syn(0);
        <- syn(-500);
        -> ack(1, 1);
    }

    /// A peer that has forgotten the connection resets it when asked.
    rfc5961_4_2_peer_that_has_restarted_resets on both {
        opened by syn(0);
        <- syn(500);
        -> ack(1, 1);
        <- rst(1);
        host.recv(10) fails ECONNRESET;
    }

    /// Data that acknowledges what was not sent is not taken (RFC 5961 §5.2).
    rfc5961_5_2_ack_of_what_was_not_sent on both {
        opened by syn(0);
        <- data(1, 500, 10);
        -> ack(1, 1);
        host.recv(10) fails EAGAIN;
    }

    /// Nor is data whose acknowledgment is older than any window.
    rfc5961_5_2_ack_older_than_any_window on both {
        opened by syn(0);
        <- data(1, -70_000, 10);
        -> ack(1, 1);
        host.recv(10) fails EAGAIN;
    }

    /// A duplicate within it is fine.
    rfc5961_5_2_old_ack_within_the_window_is_taken on both {
        opened by syn(0).mss(1000);
        host.send(100);
        -> data(1, 1, 100);
        <- ack(1, 101);
        <- data(1, 1, 10);
        within 500.ms();
        -> ack(101, 11);
        host.recv(50) == 10;
    }

    /// Behind the peer's end a RST takes nothing from who reads.
    rfc9293_3_10_7_4_reset_in_close_wait on both {
        opened by syn(0);
        <- fin(1, 1).len(10);
        within 500.ms();
        -> ack(1, 12);
        <- rst(12);
        host.recv(50) == 10;
        host.recv(50) == 0;
        host.send(10) fails EPIPE;
    }

    /// What has come before a RST can be read.
    rfc9293_3_10_7_4_data_before_reset_is_read on both {
        opened by syn(0);
        <- data(1, 1, 10);
        within 500.ms();
        -> ack(1, 11);
        <- rst(11);
        host.recv(50) == 10;
        host.recv(50) fails ECONNRESET;
    }

    /// FIN-WAIT-1 (second check).
    rfc9293_3_10_7_4_reset_in_fin_wait_1 on both {
        opened by syn(0);
        host.shutdown_write();
        -> fin(1, 1);
        <- rst(1);
        host.recv(50) fails ECONNRESET;
    }

    /// FIN-WAIT-2.
    rfc9293_3_10_7_4_reset_in_fin_wait_2 on both {
        opened by syn(0);
        host.shutdown_write();
        -> fin(1, 1);
        <- ack(1, 2);
        <- rst(1);
        host.recv(50) fails ECONNRESET;
    }

    /// What a RST brings besides does not matter (RFC 9293 §3.5.3, SHLD-2).
    rfc9293_3_5_3_reset_may_bring_data on both {
        opened by syn(0);
        <- rst(1).len(10);
        host.recv(10) fails ECONNRESET;
    }

    /// Our window is closed: RSTs are heard all the same (RFC 9293 §3.10.7.4, MUST-66).
    rfc9293_3_10_7_4_reset_while_our_window_is_closed on ours("the receive buffer of Linux is not counted in bytes") {
        host.receive_buffer(2000);
        opened by syn(0).mss(1000);
        <- data(1, 1, 1000);
        <- data(1001, 1, 1000);
        within 500.ms();
        -> ack(1, 2001).win(0);
        <- rst(2001);
        host.recv(3000) == 2000;
        host.recv(10) fails ECONNRESET;
    }

    /// Challenges are few (RFC 5961 §7): ten in five seconds.
    rfc5961_7_challenges_are_limited on ours("Linux sends one in half a second") {
        opened by syn(0);
        repeat 10 {
            <- rst(100);
            -> ack(1, 1);
        }
        <- rst(100);
        nothing for 100.ms();
        after 5.s();
        <- rst(100);
        -> ack(1, 1);
    }
}
