//! How connections end: RFC 9293 §3.6.

use braidnet_scripts::scripts;

scripts! {
    /// Figure 12, seen by TCP peer A.
    rfc9293_3_6_active_close on both {
        opened by syn(0);
        host.close();
        -> fin(1, 1);
        <- ack(1, 2);
        <- fin(1, 2);
        -> ack(2, 2);
    }

    /// The peer's FIN may acknowledge ours.
    rfc9293_3_6_active_close_in_three_segments on both {
        opened by syn(0);
        host.close();
        -> fin(1, 1);
        <- fin(1, 2);
        -> ack(2, 2);
    }

    /// Figure 12, seen by TCP peer B.
    rfc9293_3_6_passive_close on both {
        opened by syn(0);
        <- fin(1, 1);
        within 500.ms();
        -> ack(1, 2);
        host.ready() == IN | OUT | RDHUP;
        host.recv(10) == 0;
        host.close();
        -> fin(1, 2);
        <- ack(2, 2);
        <- ack(2, 2);
        -> rst(2);
    }

    /// Figure 13: both at once.
    rfc9293_3_6_simultaneous_close on both {
        opened by syn(0);
        host.close();
        -> fin(1, 1);
        <- fin(1, 1);
        -> ack(2, 2);
        <- ack(2, 2);
    }

    /// One direction ends, the other goes on (RFC 9293 §3.6, case 1).
    rfc9293_3_6_half_close on both {
        opened by syn(0);
        host.shutdown_write();
        -> fin(1, 1);
        <- ack(1, 2);
        host.send(10) fails EPIPE;
        <- data(1, 2, 100);
        within 500.ms();
        -> ack(2, 101);
        host.recv(500) == 100;
        <- fin(101, 2);
        within 500.ms();
        -> ack(2, 102);
        host.recv(500) == 0;
        host.ready() == IN | OUT | HUP | RDHUP;
    }

    /// The other way around (case 2): after the peer's end, data goes on to it.
    rfc9293_3_6_sending_after_the_peers_end on both {
        opened by syn(0).mss(1000);
        <- fin(1, 1);
        within 500.ms();
        -> ack(1, 2);
        host.send(100);
        -> data(1, 2, 100);
        <- ack(2, 101);
        host.close();
        -> fin(101, 2);
        <- ack(2, 102);
    }

    /// What was sent before goes before the end.
    rfc9293_3_6_close_sends_what_waits on both {
        host.listen();
        <- syn(0).mss(1000);
        -> syn_ack(0, 1);
        <- ack(1, 1).win(2000);
        host.accept();
        host.nodelay(true);
        host.send(3000);
        -> data(1, 1, 1000);
        -> data(1001, 1, 1000);
        host.close();
        nothing for 50.ms();
        <- ack(1, 2001).win(4000);
        -> fin(2001, 1).len(1000);
        <- ack(1, 3002);
    }

    /// A FIN behind a gap waits for it.
    rfc9293_3_10_7_4_fin_waits_for_what_is_missing on both {
        opened by syn(0);
        <- fin(101, 1);
        -> ack(1, 1);
        host.recv(10) fails EAGAIN;
        <- data(1, 1, 100);
        -> ack(1, 102);
        host.recv(500) == 100;
        host.recv(500) == 0;
    }

    /// A FIN with text.
    rfc9293_3_10_7_4_fin_with_text on both {
        opened by syn(0);
        <- fin(1, 1).len(100);
        within 500.ms();
        -> ack(1, 102);
        host.recv(500) == 100;
        host.recv(500) == 0;
    }

    /// A FIN that comes again is acknowledged again.
    rfc9293_3_10_7_4_fin_again_is_acknowledged_again on both {
        opened by syn(0);
        <- fin(1, 1);
        within 500.ms();
        -> ack(1, 2);
        <- fin(1, 1);
        within 500.ms();
        -> ack(1, 2);
    }

    /// TIME-WAIT: so it is there (eighth check).
    rfc9293_3_10_7_4_fin_in_time_wait_is_acknowledged on both {
        opened by syn(0);
        host.close();
        -> fin(1, 1);
        <- fin(1, 2);
        -> ack(2, 2);
        after 600.ms();
        <- fin(1, 2);
        -> ack(2, 2);
    }

    /// TIME-WAIT: a RST does not end it (RFC 1337 §3).
    rfc1337_3_time_wait_is_silent_to_rst on ours("Linux has it as a choice, which is off") {
        opened by syn(0);
        host.close();
        -> fin(1, 1);
        <- fin(1, 2);
        -> ack(2, 2);
        <- rst(2);
        nothing for 100.ms();
        <- fin(1, 2);
        -> ack(2, 2);
    }

    /// TIME-WAIT: a SYN that is old is acknowledged as anything is.
    rfc9293_3_10_7_4_old_syn_in_time_wait on both {
        opened by syn(0);
        host.close();
        -> fin(1, 1);
        <- fin(1, 2);
        -> ack(2, 2);
        after 600.ms();
        <- syn(0);
        -> ack(2, 2);
    }

    /// TIME-WAIT ends after twice the segment lifetime; then there is no connection.
    rfc9293_3_6_1_time_wait_ends on ours("a minute is long") {
        opened by syn(0);
        host.close();
        -> fin(1, 1);
        <- fin(1, 2);
        -> ack(2, 2);
        after 59.s();
        <- fin(1, 2);
        -> ack(2, 2);
        after 61.s();
        <- fin(1, 2);
        -> rst(2);
    }

    /// Who has closed reads no more: data is answered with a RST (§3.6.1).
    rfc9293_3_6_1_data_after_close_is_reset on both {
        opened by syn(0);
        host.close();
        -> fin(1, 1);
        <- ack(1, 2);
        <- data(1, 2, 10);
        -> rst(2).with_or_without_ack();
    }

    /// Who closes over data unread resets (SHLD-3).
    rfc9293_3_6_1_close_over_unread_data_resets on both {
        opened by syn(0);
        <- data(1, 1, 100);
        within 500.ms();
        -> ack(1, 101);
        host.close();
        -> rst_ack(1, 101);
        <- ack(101, 1);
        -> rst(1);
    }

    /// ABORT (§3.10.5).
    rfc9293_3_10_5_abort_resets on both {
        opened by syn(0);
        host.abort_on_close();
        host.close();
        -> rst_ack(1, 1);
        <- ack(1, 1);
        -> rst(1);
    }

    /// ABORT in CLOSE-WAIT, with data under way.
    rfc9293_3_10_5_abort_in_close_wait_resets on both {
        opened by syn(0).mss(1000);
        <- fin(1, 1);
        within 500.ms();
        -> ack(1, 2);
        host.send(100);
        -> data(1, 2, 100);
        host.abort_on_close();
        host.close();
        -> rst_ack(101, 2);
    }

    /// CLOSE in SYN-SENT (§3.10.4): nothing is left.
    rfc9293_3_10_4_close_in_syn_sent on both {
        host.connect() fails EINPROGRESS;
        -> syn(0);
        host.close();
        <- syn_ack(0, 1);
        -> rst(1);
    }

    /// A listener that closes resets those who wait.
    rfc9293_3_10_5_closing_a_listener_resets_who_waits on both {
        host.listen();
        <- syn(0);
        -> syn_ack(0, 1);
        <- ack(1, 1);
        host.close_listener();
        -> rst_ack(1, 1);
    }

    /// Receiving ends here only: the peer hears nothing of it.
    rfc9293_3_6_shutting_reading_is_not_told on both {
        opened by syn(0);
        host.shutdown_read();
        nothing for 50.ms();
        host.recv(10) == 0;
        host.ready() == IN | OUT | RDHUP;
    }

    /// A silent peer is asked whether it is there (§3.8.4), with a sequence number that it has had.
    rfc9293_3_8_4_keepalive_is_answered on both {
        opened by syn(0);
        host.keepalive(1, 1, 3);
        after 1.s();
        -> ack(0, 1);
        <- ack(1, 1);
        after 1.s();
        -> ack(0, 1);
        <- ack(1, 1);
    }

    /// Unanswered, it ends, and only then (MUST-29).
    rfc9293_3_8_4_keepalive_gives_up on both {
        opened by syn(0);
        host.keepalive(1, 1, 2);
        after 1.s();
        -> ack(0, 1);
        after 1.s();
        -> ack(0, 1);
        after 1.s();
        -> rst_ack(1, 1);
        host.ready() == IN | OUT | ERR | HUP | RDHUP;
        host.recv(10) fails ETIMEDOUT;
    }

    /// A probe of the peer's is answered.
    rfc9293_3_8_4_probe_is_answered on both {
        opened by syn(0);
        <- ack(0, 1);
        -> ack(1, 1);
    }

    /// TIME-WAIT gives way to a SYN that is certainly new (RFC 9293 §3.6.1, MAY-2): its number is above all that was received.
    rfc9293_3_6_1_new_syn_reopens_from_time_wait on both {
        host.listen();
        <- syn(0);
        -> syn_ack(0, 1);
        <- ack(1, 1);
        host.accept();
        host.close();
        -> fin(1, 1);
        <- fin(1, 2);
        -> ack(2, 2);
        new connection;
        <- syn(100_000);
        -> syn_ack(0, 100_001);
        <- ack(100_001, 1);
        host.accept();
        host.ready() == OUT;
    }

    /// Or its timestamp is (RFC 6191 §2), whatever its number.
    rfc6191_2_later_timestamp_reopens_from_time_wait on both {
        host.listen();
        <- syn(0).ts(1000);
        -> syn_ack(0, 1);
        <- ack(1, 1).ts(1001);
        host.accept();
        host.close();
        -> fin(1, 1);
        <- fin(1, 2).ts(1002);
        -> ack(2, 2);
        new connection;
        <- syn(-50_000).ts(9000);
        -> syn_ack(0, -49_999).echoes(9000);
    }

    /// CLOSING: the peer's FIN again.
    rfc9293_3_10_7_4_fin_again_in_closing on both {
        opened by syn(0);
        host.close();
        -> fin(1, 1);
        <- fin(1, 1);
        -> ack(2, 2);
        <- fin(1, 1);
        -> ack(2, 2);
        <- ack(2, 2);
    }

    /// FIN-WAIT-1: data still comes.
    rfc9293_3_10_7_4_data_in_fin_wait_1 on both {
        opened by syn(0);
        host.shutdown_write();
        -> fin(1, 1);
        <- data(1, 1, 100);
        within 150.ms();
        -> ack(2, 101);
        host.recv(500) == 100;
        <- ack(101, 2);
    }

    /// FIN-WAIT-2: data and the end come together.
    rfc9293_3_10_7_4_data_with_fin_in_fin_wait_2 on both {
        opened by syn(0);
        host.shutdown_write();
        -> fin(1, 1);
        <- ack(1, 2);
        <- fin(1, 2).len(100);
        within 500.ms();
        -> ack(2, 102);
        host.recv(500) == 100;
        host.recv(500) == 0;
    }

    /// After the peer's end, text is nothing (seventh check).
    rfc9293_3_10_7_4_text_after_the_end_is_ignored on ours("Linux does not acknowledge it, either") {
        opened by syn(0);
        <- fin(1, 1);
        within 500.ms();
        -> ack(1, 2);
        host.recv(10) == 0;
        <- data(2, 1, 10);
        within 100.ms();
        -> ack(1, 2);
        host.recv(10) == 0;
    }

    /// Ending twice is ending once.
    rfc9293_3_10_4_close_twice on both {
        opened by syn(0);
        host.shutdown_write();
        -> fin(1, 1);
        host.shutdown_write();
        <- ack(1, 2);
        host.close();
        nothing for 50.ms();
        <- fin(1, 2);
        -> ack(2, 2);
    }

    /// Reading ends after what has come.
    rfc9293_3_6_shutting_reading_leaves_what_has_come on both {
        opened by syn(0);
        <- data(1, 1, 10);
        within 500.ms();
        -> ack(1, 11);
        host.shutdown_read();
        host.recv(50) == 10;
        host.recv(50) == 0;
    }

    /// Both directions at once are no reset.
    rfc9293_3_6_shutting_both_sends_a_fin on both {
        opened by syn(0);
        host.shutdown_read();
        host.shutdown_write();
        -> fin(1, 1);
        host.ready() == IN | OUT | HUP | RDHUP;
        <- ack(1, 2);
        <- fin(1, 2);
        -> ack(2, 2);
    }

    /// A probe of silence is not sent while data waits for an acknowledgment (RFC 9293 §3.8.4, MUST-26).
    rfc9293_3_8_4_no_keepalive_while_data_is_under_way on both {
        opened by syn(0).mss(1000);
        host.keepalive(1, 1, 3);
        host.send(100);
        -> data(1, 1, 100);
        after 200.ms();
        -> data(1, 1, 100);
        after 400.ms();
        -> data(1, 1, 100);
        after 800.ms();
        -> data(1, 1, 100);
        <- ack(1, 101);
    }

    /// Without being asked to, nobody probes (MUST-25).
    rfc9293_3_8_4_no_keepalive_unless_asked_for on ours("two hours and more are long") {
        opened by syn(0);
        nothing for 10_000.s();
        <- data(1, 1, 10);
        within 500.ms();
        -> ack(1, 11);
    }

    /// FIN-WAIT-2 of a connection that nobody has ends (RFC 9293 §3.6; 60 seconds, as on Linux).
    rfc9293_3_6_fin_wait_2_that_nobody_has_ends on ours("a minute is long") {
        opened by syn(0);
        host.close();
        -> fin(1, 1);
        <- ack(1, 2);
        after 61.s();
        <- fin(1, 2);
        -> rst(2);
    }

    /// FIN-WAIT-2 of one that reads does not.
    rfc9293_3_6_fin_wait_2_of_who_reads_stays on ours("ten minutes are long") {
        opened by syn(0);
        host.shutdown_write();
        -> fin(1, 1);
        <- ack(1, 2);
        after 600.s();
        <- data(1, 2, 10);
        within 500.ms();
        -> ack(2, 11);
        host.recv(50) == 10;
    }
}
