//! How connections begin: RFC 9293 §3.5 and §3.10.7.1 to §3.10.7.4.

use braidnet_scripts::scripts;

scripts! {
    /// Figure 6, seen by TCP peer B.
    rfc9293_3_5_passive_open on both {
        host.listen();
        <- syn(0);
        -> syn_ack(0, 1);
        <- ack(1, 1);
        host.accept();
        host.ready() == OUT;
    }

    /// Figure 6, seen by TCP peer A.
    rfc9293_3_5_active_open on both {
        host.connect() fails EINPROGRESS;
        -> syn(0);
        host.connect() fails EALREADY;
        <- syn_ack(0, 1);
        -> ack(1, 1);
        host.connect();
        host.connect() fails EISCONN;
    }

    /// Figure 7, with the peer's second segment as an ACK.
    rfc9293_3_5_simultaneous_open on both {
        host.connect() fails EINPROGRESS;
        -> syn(0);
        <- syn(0);
        -> syn_ack(0, 1);
        <- ack(1, 1);
        host.connect();
        host.ready() == OUT;
    }

    /// An opening that is not answered is tried again, at intervals that double (RFC 6298 §5.5).
    rfc6298_5_5_syn_backs_off on both {
        host.connect() fails EINPROGRESS;
        -> syn(0);
        after 1.s();
        -> syn(0);
        after 2.s();
        -> syn(0);
        after 4.s();
        -> syn(0);
    }

    /// So is the answer to one.
    rfc6298_5_5_syn_ack_backs_off on both {
        host.listen();
        <- syn(0);
        -> syn_ack(0, 1);
        after 1.s();
        -> syn_ack(0, 1);
        after 2.s();
        -> syn_ack(0, 1);
    }

    /// The answer to a SYN that was sent again does not open a second connection.
    rfc9293_3_5_late_syn_ack_is_taken on both {
        host.connect() fails EINPROGRESS;
        -> syn(0);
        after 1.s();
        -> syn(0);
        <- syn_ack(0, 1);
        -> ack(1, 1);
        host.connect();
    }

    /// A SYN-ACK that comes twice is answered twice: the first answer may be lost.
    rfc9293_3_10_7_4_syn_ack_again_is_acknowledged_again on both {
        host.connect() fails EINPROGRESS;
        -> syn(0);
        <- syn_ack(0, 1);
        -> ack(1, 1);
        <- syn_ack(0, 1);
        -> ack(1, 1);
    }

    /// No connection: a SYN is refused with what it has sent acknowledged.
    rfc9293_3_10_7_1_closed_refuses_syn on both {
        <- syn(100);
        -> rst_ack(0, 101);
    }

    /// No connection: what has an ACK is reset from where that stands.
    rfc9293_3_10_7_1_closed_resets_ack on both {
        <- data(100, 500, 10);
        -> rst(500);
    }

    /// No connection: what has none is answered with all of it acknowledged, its FIN as well.
    rfc9293_3_10_7_1_closed_acknowledges_text_and_fin on both {
        <- with_flags(flag::FIN, 100, 0).len(10);
        -> rst_ack(0, 111);
    }

    /// No connection: a RST is not answered.
    rfc9293_3_10_7_1_closed_is_silent_to_rst on both {
        <- rst(100);
        nothing for 50.ms();
    }

    /// LISTEN, second check.
    rfc9293_3_10_7_2_listen_resets_ack on both {
        host.listen();
        <- ack(100, 500);
        -> rst(500);
    }

    /// LISTEN, first check.
    rfc9293_3_10_7_2_listen_is_silent_to_rst on both {
        host.listen();
        <- rst(100);
        nothing for 50.ms();
    }

    /// LISTEN, fourth check: whatever else.
    rfc9293_3_10_7_2_listen_drops_what_is_nothing on both {
        host.listen();
        <- with_flags(0, 100, 0).len(10);
        <- with_flags(flag::FIN, 100, 0);
        nothing for 50.ms();
        host.accept() fails EAGAIN;
    }

    /// SYN-SENT, first check: an ACK of what was not sent.
    rfc9293_3_10_7_3_syn_sent_resets_wrong_ack
        on ours("Linux sends its SYN again at once, to be quicker where an old connection was in the way") {
        host.connect() fails EINPROGRESS;
        -> syn(0);
        <- syn_ack(0, 77);
        -> rst(77);
        <- syn_ack(0, 1);
        -> ack(1, 1);
        host.connect();
    }

    /// SYN-SENT, first and second check: a RST that acknowledges something else is of another connection.
    rfc9293_3_10_7_3_syn_sent_is_silent_to_rst_with_wrong_ack
        on ours("Linux sends its SYN again at once, as above") {
        host.connect() fails EINPROGRESS;
        -> syn(0);
        <- rst_ack(0, 77);
        nothing for 50.ms();
        host.error();
    }

    /// SYN-SENT, second check: a RST without an ACK could be anybody's.
    rfc9293_3_10_7_3_syn_sent_is_silent_to_rst_without_ack on both {
        host.connect() fails EINPROGRESS;
        -> syn(0);
        <- rst(0);
        nothing for 50.ms();
        host.connect() fails EALREADY;
    }

    /// SYN-SENT, second check: refused.
    rfc9293_3_10_7_3_syn_sent_is_refused on both {
        host.connect() fails EINPROGRESS;
        -> syn(0);
        <- rst_ack(0, 1);
        host.ready() == IN | OUT | ERR | HUP | RDHUP;
        host.connect() fails ECONNREFUSED;
        host.ready() == OUT | HUP;
    }

    /// SYN-SENT, fifth check: neither SYN nor RST.
    rfc9293_3_10_7_3_syn_sent_drops_what_is_neither_syn_nor_rst on both {
        host.connect() fails EINPROGRESS;
        -> syn(0);
        <- ack(1, 1);
        nothing for 50.ms();
        <- syn_ack(0, 1);
        -> ack(1, 1);
    }

    /// SYN-RECEIVED, fifth check: an ACK of what was not sent.
    rfc9293_3_10_7_4_syn_received_resets_wrong_ack on both {
        host.listen();
        <- syn(0);
        -> syn_ack(0, 1);
        <- ack(1, 77);
        -> rst(77);
        <- ack(1, 1);
        host.accept();
    }

    /// SYN-RECEIVED, second check: the opening is forgotten, and the listener is there.
    rfc9293_3_10_7_4_syn_received_returns_to_listen_on_rst on both {
        host.listen();
        <- syn(0);
        -> syn_ack(0, 1);
        <- rst(1);
        <- ack(1, 1);
        -> rst(1);
        host.accept() fails EAGAIN;
    }

    /// SYN-RECEIVED: the segment that ends the handshake may bring data, and the peer's FIN.
    rfc9293_3_10_7_4_last_ack_of_the_handshake_brings_data on both {
        host.listen();
        <- syn(0);
        -> syn_ack(0, 1);
        <- fin(1, 1).len(100);
        within 500.ms();
        -> ack(1, 102);
        host.accept();
        host.recv(500) == 100;
        host.recv(500) == 0;
    }

    /// SYN-RECEIVED: an ACK that was lost is made good by the next segment.
    rfc9293_3_5_data_ends_the_handshake on both {
        host.listen();
        <- syn(0);
        -> syn_ack(0, 1);
        <- data(1, 1, 10);
        within 500.ms();
        -> ack(1, 11);
        host.accept();
        host.readable() == 10;
    }

    /// Figure 7 to the letter: the peer sends its SYN again, with an ACK.
    rfc9293_3_5_simultaneous_open_figure_7 on both {
        host.connect() fails EINPROGRESS;
        -> syn(0);
        <- syn(0);
        -> syn_ack(0, 1);
        <- syn_ack(0, 1);
        within 200.ms();
        -> ack(1, 1);
        host.connect();
    }

    /// SYN-RECEIVED by an active opening: a RST says that it is refused (second check).
    rfc9293_3_10_7_4_reset_refuses_a_simultaneous_open on ours("Linux says that it was reset") {
        host.connect() fails EINPROGRESS;
        -> syn(0);
        <- syn(0);
        -> syn_ack(0, 1);
        <- rst(1);
        host.connect() fails ECONNREFUSED;
    }

    /// Options in the SYN of a simultaneous open count as in any.
    rfc9293_3_7_1_mss_in_a_simultaneous_open on both {
        host.connect() fails EINPROGRESS;
        -> syn(0);
        <- syn(0).mss(700);
        -> syn_ack(0, 1);
        <- ack(1, 1);
        host.connect();
        host.nodelay(true);
        host.send(1000);
        -> data(1, 1, 700);
        -> data(701, 1, 300);
    }

    /// Before the handshake is over nothing can be sent or received (§3.10.2, §3.10.3), but waited for.
    rfc9293_3_10_2_calls_in_syn_sent_wait on both {
        host.connect() fails EINPROGRESS;
        -> syn(0);
        host.ready() == 0;
        host.send(10) fails EAGAIN;
        host.recv(10) fails EAGAIN;
        host.readable() == 0;
    }

    /// Without a connection there is nothing to do (§3.10.2 to §3.10.4, "connection does not exist").
    rfc9293_3_10_calls_without_a_connection on both {
        host.ready() == OUT | HUP;
        host.send(10) fails EPIPE;
        host.recv(10) fails ENOTCONN;
        host.shutdown_write() fails ENOTCONN;
    }

    /// A listener neither sends nor receives; it says when somebody waits.
    rfc9293_3_10_calls_on_a_listener on both {
        host.listen();
        host.ready() == 0;
        host.recv(10) fails ENOTCONN;
        host.send(10) fails EPIPE;
        host.accept() fails EAGAIN;
        <- syn(0);
        -> syn_ack(0, 1);
        host.ready() == 0;
        <- ack(1, 1);
        host.ready() == IN;
        host.accept();
        host.accept() fails EAGAIN;
    }

    /// Who was reset while it waited is handed out all the same, and told then.
    rfc9293_3_10_7_4_reset_before_accept on both {
        host.listen();
        <- syn(0);
        -> syn_ack(0, 1);
        <- data(1, 1, 10);
        within 500.ms();
        -> ack(1, 11);
        <- rst(11);
        host.accept();
        host.recv(10) == 10;
        host.recv(10) fails ECONNRESET;
    }

    /// A listener that has closed refuses.
    rfc9293_3_10_7_1_closed_listener_refuses on both {
        host.listen();
        host.close_listener();
        <- syn(0);
        -> rst_ack(0, 1);
    }

    /// What waits half-open when the listener closes is gone.
    rfc9293_3_10_7_1_half_open_goes_with_its_listener on ours("the stack lets the handshake end, and resets then") {
        host.listen();
        <- syn(0);
        -> syn_ack(0, 1);
        host.close_listener();
        <- ack(1, 1);
        -> rst_ack(1, 1);
    }

    /// R2 of a SYN: three minutes at least (RFC 9293 §3.8.3, MUST-23), and then it says so.
    rfc9293_3_8_3_syn_gives_up_after_three_minutes on ours("minutes are long") {
        host.connect() fails EINPROGRESS;
        -> syn(0);
        after 1.s();
        -> syn(0);
        after 2.s();
        -> syn(0);
        after 4.s();
        -> syn(0);
        after 8.s();
        -> syn(0);
        after 16.s();
        -> syn(0);
        after 32.s();
        -> syn(0);
        after 60.s();
        -> syn(0);
        nothing for 59.s();
        host.connect() fails EALREADY;
        nothing for 3.s();
        host.connect() fails ETIMEDOUT;
    }
}
