//! Windows: RFC 9293 §3.8.6.

use braidnet_scripts::scripts;

scripts! {
    /// No more is sent than the peer's window takes (RFC 9293 §3.8.6).
    rfc9293_3_8_6_window_bounds_what_is_sent on both {
        host.listen();
        <- syn(0).mss(1000);
        -> syn_ack(0, 1);
        <- ack(1, 1).win(2500);
        host.accept();
        host.nodelay(true);
        host.send(5000);
        -> data(1, 1, 1000);
        -> data(1001, 1, 1000);
        nothing for 50.ms();
        <- ack(1, 2001).win(3000);
        -> data(2001, 1, 1000);
        -> data(3001, 1, 1000);
        -> data(4001, 1, 1000);
        <- ack(1, 5001);
    }

    /// With no window, nothing is sent; with one, at once.
    rfc9293_3_8_6_opening_window_lets_go on both {
        host.listen();
        <- syn(0).mss(1000);
        -> syn_ack(0, 1);
        <- ack(1, 1).win(0);
        host.accept();
        host.send(300);
        nothing for 100.ms();
        <- ack(1, 1).win(5000);
        -> data(1, 1, 300);
        <- ack(1, 301);
    }

    /// A window that stays closed is asked about (§3.8.6.1, MUST-36), at intervals that double (SHLD-30). braidnet sends a byte.
    rfc9293_3_8_6_1_zero_window_is_probed on ours("Linux probes with an old sequence number, which is an ACK, too") {
        host.listen();
        <- syn(0).mss(1000);
        -> syn_ack(0, 1);
        <- ack(1, 1).win(0);
        host.accept();
        host.send(300);
        after 200.ms();
        -> data(1, 1, 1);
        <- ack(1, 1).win(0);
        after 400.ms();
        -> data(1, 1, 1);
        <- ack(1, 1).win(0);
        after 800.ms();
        -> data(1, 1, 1);
        <- ack(1, 1).win(1000);
        -> data(1, 1, 300);
        <- ack(1, 301);
    }

    /// A probe of ours is answered though our window is closed (§3.8.6.1, and the first check of §3.10.7.4).
    rfc9293_3_8_6_1_probe_is_answered on ours("the receive buffer of Linux is not counted in bytes") {
        host.receive_buffer(2000);
        opened by syn(0).mss(1000);
        <- data(1, 1, 1000);
        <- data(1001, 1, 1000);
        within 500.ms();
        -> ack(1, 2001).win(0);
        <- data(2001, 1, 1);
        -> ack(1, 2001).win(0);
        host.recv(2000) == 2000;
        -> ack(1, 2001).win(2000);
        <- data(2001, 1, 100);
        within 500.ms();
        -> ack(1, 2101);
    }

    /// A window that opens by little is not told of (§3.8.6.2.2, MUST-39).
    rfc9293_3_8_6_2_2_small_openings_are_not_told on ours("the receive buffer of Linux is not counted in bytes") {
        host.receive_buffer(2000);
        opened by syn(0).mss(1000);
        <- data(1, 1, 1000);
        <- data(1001, 1, 1000);
        within 500.ms();
        -> ack(1, 2001).win(0);
        host.recv(400) == 400;
        nothing for 500.ms();
        host.recv(1600) == 1600;
        -> ack(1, 2001).win(2000);
    }

    /// A window that shrinks below what is under way (§3.8.6, MUST-34): nothing new is sent.
    rfc9293_3_8_6_shrinking_window_is_borne on both {
        opened by syn(0).mss(1000);
        host.nodelay(true);
        host.send(2000);
        -> data(1, 1, 1000);
        -> data(1001, 1, 1000);
        <- ack(1, 1001).win(0);
        host.send(1000);
        nothing for 50.ms();
        <- ack(1, 2001).win(5000);
        -> data(2001, 1, 1000);
        <- ack(1, 3001);
    }

    /// What the window takes no more waits; what it still takes goes again as ever (§3.8.6, SHLD-15 and SHLD-16).
    rfc9293_3_8_6_old_data_inside_a_shrunk_window_goes_again on both {
        opened by syn(0).mss(1000);
        host.nodelay(true);
        host.send(3000);
        -> data(1, 1, 1000);
        -> data(1001, 1, 1000);
        -> data(2001, 1, 1000);
        <- ack(1, 1).win(2000);
        after 200.ms();
        -> data(1, 1, 1000);
        <- ack(1, 1001).win(1000);
        -> data(1001, 1, 1000);
        nothing for 50.ms();
        <- ack(1, 2001).win(5000);
        -> data(2001, 1, 1000);
        <- ack(1, 3001);
    }

    /// Who reads tells the peer of a window that had become small.
    rfc9293_3_8_6_2_2_reading_opens_the_window on ours("the receive buffer of Linux is not counted in bytes") {
        host.receive_buffer(4000);
        opened by syn(0).mss(1000);
        <- data(1, 1, 1000);
        <- data(1001, 1, 1000);
        <- data(2001, 1, 1000);
        within 500.ms();
        -> ack(1, 3001).win(1000);
        host.recv(4000) == 3000;
        -> ack(1, 3001).win(4000);
    }
}
