//! Data on SYNs: RFC 7413.

use braidnet_scripts::scripts;

scripts! {
    /// Who asks for a cookie is given one (§4.2.1); what data come with the request are not taken.
    rfc7413_4_2_1_request_is_answered_by_a_cookie on both {
        host.fast_open(8);
        host.listen();
        <- syn(0).mss(1000).asks_for_cookie().len(100);
        -> syn_ack(0, 1).cookie_of_host();
        <- data(1, 1, 100);
        within 50.ms();
        -> ack(1, 101);
        host.accept();
        host.recv(1000) == 100;
    }

    /// Who does not ask is not given any.
    rfc7413_4_2_1_no_cookie_unasked on both {
        host.fast_open(8);
        host.listen();
        <- syn(0).mss(1000);
        -> syn_ack(0, 1).no_cookie();
        <- ack(1, 1);
        host.accept();
    }

    /// A listener that has not turned it on ignores what it is asked, and every cookie (§4.2).
    rfc7413_4_2_disabled_option_is_ignored on ours("Linux has it for every listener here") {
        host.listen();
        <- syn(0).mss(1000).asks_for_cookie();
        -> syn_ack(0, 1).no_cookie();
        <- rst(1);
        new connection;
        <- syn(0).mss(1000).cookie(b"biscuits").len(100);
        -> syn_ack(0, 1).no_cookie();
        <- data(1, 1, 100);
        within 50.ms();
        -> ack(1, 101);
        host.accept();
        host.recv(1000) == 100;
    }

    /// Data that come with a good cookie are acknowledged, and can be read before the handshake is over (§4.2.2).
    rfc7413_4_2_2_data_with_a_good_cookie_are_taken_at_once on both {
        host.fast_open(8);
        host.listen();
        <- syn(0).mss(1000).asks_for_cookie();
        -> syn_ack(0, 1).cookie_of_host();
        <- rst(1);
        new connection;
        <- syn(0).mss(1000).cookie_of_host().len(500);
        -> syn_ack(0, 501).no_cookie();
        host.accept();
        host.recv(1000) == 500;
        <- ack(501, 1);
        <- data(501, 1, 100);
        within 50.ms();
        -> ack(1, 601);
        host.recv(1000) == 100;
    }

    /// The answer leaves before the handshake is over, and what ends that may acknowledge it (§4.2.2).
    rfc7413_4_2_2_the_answer_leaves_before_the_handshake_is_over on both {
        host.fast_open(8);
        host.listen();
        <- syn(0).mss(1000).asks_for_cookie();
        -> syn_ack(0, 1).cookie_of_host();
        <- rst(1);
        new connection;
        <- syn(0).mss(1000).cookie_of_host().len(500);
        -> syn_ack(0, 501);
        host.accept();
        host.recv(1000) == 500;
        host.send(2000);
        -> data(1, 501, 1000);
        -> data(1001, 501, 1000);
        <- ack(501, 2001);
        host.send(300);
        -> data(2001, 501, 300);
        <- ack(501, 2301);
    }

    /// No more leaves than an initial window (§4.2.2, RFC 6928: ten segments).
    rfc7413_4_2_2_the_initial_window_bounds_the_answer on both {
        host.fast_open(8);
        host.listen();
        <- syn(0).mss(1000).asks_for_cookie();
        -> syn_ack(0, 1).cookie_of_host();
        <- rst(1);
        new connection;
        <- syn(0).mss(1000).cookie_of_host().len(500);
        -> syn_ack(0, 501);
        host.accept();
        host.send(15000);
        -> data(1, 501, 1000);
        -> data(1001, 501, 1000);
        -> data(2001, 501, 1000);
        -> data(3001, 501, 1000);
        -> data(4001, 501, 1000);
        -> data(5001, 501, 1000);
        -> data(6001, 501, 1000);
        -> data(7001, 501, 1000);
        -> data(8001, 501, 1000);
        -> data(9001, 501, 1000);
        nothing for 100.ms();
    }

    /// Nor more than the SYN's window, which is not scaled, has room for.
    rfc7413_4_2_2_the_syns_window_bounds_the_answer on both {
        host.fast_open(8);
        host.listen();
        <- syn(0).mss(1000).asks_for_cookie();
        -> syn_ack(0, 1).cookie_of_host();
        <- rst(1);
        new connection;
        <- syn(0).mss(1000).wscale(7).win(2000).cookie_of_host().len(500);
        -> syn_ack(0, 501);
        host.accept();
        host.send(5000);
        -> data(1, 501, 1000);
        -> data(1001, 501, 1000);
        nothing for 100.ms();
    }

    /// A cookie that is not good opens as any SYN does, and another is given (§4.2.2).
    rfc7413_4_2_2_data_with_a_wrong_cookie_are_not_taken on both {
        host.fast_open(8);
        host.listen();
        <- syn(0).mss(1000).cookie(b"biscuits").len(500);
        -> syn_ack(0, 1).cookie_of_host();
        <- data(1, 1, 500);
        within 50.ms();
        -> ack(1, 501);
        host.accept();
        host.recv(1000) == 500;
    }

    /// An option of a length that it cannot have is ignored (§4.1.1).
    rfc7413_4_1_1_wrong_length_is_ignored on both {
        host.fast_open(8);
        host.listen();
        <- syn(0).mss(1000).raw_options(&[34, 7, 1, 2, 3, 4, 5]).len(500);
        -> syn_ack(0, 1).no_cookie();
        <- data(1, 1, 500);
        within 50.ms();
        -> ack(1, 501);
        host.accept();
        host.recv(1000) == 500;
    }

    /// Data without a cookie are not taken with the SYN.
    rfc7413_3_data_without_a_cookie_are_not_taken on both {
        host.fast_open(8);
        host.listen();
        <- syn(0).mss(1000).len(500);
        -> syn_ack(0, 1).no_cookie();
        <- data(1, 1, 500);
        within 50.ms();
        -> ack(1, 501);
        host.accept();
        host.recv(1000) == 500;
    }

    /// Unless the listener needs none. Who asks for a cookie or brings a wrong one is given one all the same; a SYN without data opens as any does.
    rfc7413_3_data_without_a_cookie_are_taken_where_none_is_needed on ours ("scripts find Linux set otherwise") {
        host.fast_open(8);
        host.fast_open_without_cookie();
        host.listen();
        <- syn(0).mss(1000).len(500);
        -> syn_ack(0, 501).no_cookie();
        host.accept();
        host.recv(1000) == 500;
        <- rst(501);
        host.close();
        new connection;
        <- syn(0).mss(1000).asks_for_cookie().len(500);
        -> syn_ack(0, 501).cookie_of_host();
        <- rst(501);
        new connection;
        <- syn(0).mss(1000).cookie(b"biscuits").len(500);
        -> syn_ack(0, 501).cookie_of_host();
        <- rst(501);
        new connection;
        <- syn(0).mss(1000).asks_for_cookie();
        -> syn_ack(0, 1).cookie_of_host();
        <- rst(1);
        new connection;
        <- syn(0).mss(1000);
        -> syn_ack(0, 1).no_cookie();
    }

    /// A SYN-ACK that is not answered goes again, without data and without the option (§4.2.2).
    rfc7413_4_2_2_syn_ack_goes_again_alone on both {
        host.fast_open(8);
        host.listen();
        <- syn(0).mss(1000).asks_for_cookie();
        -> syn_ack(0, 1).cookie_of_host();
        after 1000.ms();
        -> syn_ack(0, 1).no_cookie();
        <- rst(1);
        new connection;
        <- syn(0).mss(1000).cookie_of_host().len(500);
        -> syn_ack(0, 501);
        host.accept();
        host.send(1000);
        -> data(1, 501, 1000);
        after 1000.ms();
        -> syn_ack(0, 501).no_cookie();
        <- ack(501, 1);
        within 4.s();
        -> data(1, 501, 1000);
        <- ack(501, 1001);
    }

    /// The same SYN once more is answered, and its data are not delivered again.
    rfc7413_4_2_2_the_same_syn_again_is_not_delivered_twice on both {
        host.fast_open(8);
        host.listen();
        <- syn(0).mss(1000).asks_for_cookie();
        -> syn_ack(0, 1).cookie_of_host();
        <- rst(1);
        new connection;
        <- syn(0).mss(1000).cookie_of_host().len(500);
        -> syn_ack(0, 501);
        host.accept();
        <- syn(0).mss(1000).cookie_of_host().len(500);
        -> syn_ack(0, 501);
        <- ack(501, 1);
        host.recv(1000) == 500;
        host.recv(1000) fails EAGAIN;
    }

    /// A connection that was reset before its handshake was over counts for a while (§5.1).
    rfc7413_5_1_a_reset_connection_counts_as_pending on both {
        host.fast_open(1);
        host.listen_for(1);
        <- syn(0).mss(1000).asks_for_cookie();
        -> syn_ack(0, 1).cookie_of_host();
        <- rst(1);
        new connection;
        <- syn(0).mss(1000).cookie_of_host().len(500);
        -> syn_ack(0, 501);
        host.accept();
        <- rst(501);
        host.recv(1000) == 500;
        host.recv(1000) fails ECONNRESET;
        host.close();
        new connection;
        <- syn(0).mss(1000).cookie_of_host().len(500);
        -> syn_ack(0, 1);
        <- data(1, 1, 500);
        within 50.ms();
        -> ack(1, 501);
    }

    /// A client that knows no cookie asks for one, and its data follow the handshake (§4.2.1).
    rfc7413_4_2_1_client_asks_for_a_cookie on both {
        host.connect_with(500) fails EINPROGRESS;
        -> syn(0).asks_for_cookie();
        <- syn_ack(0, 1).mss(1000).cookie(b"biscuits");
        -> ack(1, 1);
        host.send(500);
        -> data(1, 1, 500);
        <- ack(1, 501);
    }

    /// One that does sends it and data; what the SYN-ACK acknowledges is done with (§4.2.2).
    rfc7413_4_2_2_client_sends_data_with_a_cookie on both {
        host.connect_with(500) fails EINPROGRESS;
        -> syn(0).asks_for_cookie();
        <- syn_ack(0, 1).mss(1000).cookie(b"biscuits");
        -> ack(1, 1);
        <- rst(1);
        host.close();
        new connection;
        host.connect_with(500);
        -> syn(0).cookie(b"biscuits").len(500);
        <- syn_ack(0, 501).mss(1000);
        -> ack(501, 1);
        host.send(100);
        -> data(501, 1, 100);
        <- ack(1, 601);
    }

    /// What it does not acknowledge is sent again at once.
    rfc7413_4_2_2_what_is_not_acknowledged_is_sent_at_once on both {
        host.connect_with(500) fails EINPROGRESS;
        -> syn(0).asks_for_cookie();
        <- syn_ack(0, 1).mss(1000).cookie(b"biscuits");
        -> ack(1, 1);
        <- rst(1);
        host.close();
        new connection;
        host.connect_with(500);
        -> syn(0).cookie(b"biscuits").len(500);
        <- syn_ack(0, 1).mss(1000);
        -> data(1, 1, 500);
        <- ack(1, 501);
    }

    /// A server that gives another cookie is sent that from then on (§4.1.3: at most one, the last).
    rfc7413_4_1_3_the_last_cookie_counts on both {
        host.connect_with(500) fails EINPROGRESS;
        -> syn(0).asks_for_cookie();
        <- syn_ack(0, 1).mss(1000).cookie(b"biscuits");
        -> ack(1, 1);
        <- rst(1);
        host.close();
        new connection;
        host.connect_with(500);
        -> syn(0).cookie(b"biscuits").len(500);
        <- syn_ack(0, 1).mss(1000).cookie(b"tart");
        -> data(1, 1, 500);
        <- rst(1);
        host.close();
        new connection;
        host.connect_with(500);
        -> syn(0).cookie(b"tart").len(500);
        <- syn_ack(0, 501).mss(1000);
        -> ack(501, 1);
    }

    /// A SYN that is not answered goes again without data and without the option.
    rfc7413_4_2_2_syn_goes_again_alone on both {
        host.connect_with(500) fails EINPROGRESS;
        -> syn(0).asks_for_cookie();
        <- syn_ack(0, 1).mss(1000).cookie(b"biscuits");
        -> ack(1, 1);
        <- rst(1);
        host.close();
        new connection;
        host.connect_with(500);
        -> syn(0).cookie(b"biscuits").len(500);
        after 1000.ms();
        -> syn(0).no_cookie();
        <- syn_ack(0, 1).mss(1000);
        -> data(1, 1, 500);
        <- ack(1, 501);
    }

    /// A server that took no data is sent none with the SYN for a while (§4.1.3.1).
    rfc7413_4_1_3_1_a_refusal_is_remembered on ours("Linux goes on trying") {
        host.connect_with(500) fails EINPROGRESS;
        -> syn(0).asks_for_cookie();
        <- syn_ack(0, 1).mss(1000).cookie(b"biscuits");
        -> ack(1, 1);
        <- rst(1);
        host.close();
        new connection;
        host.connect_with(500);
        -> syn(0).cookie(b"biscuits").len(500);
        <- syn_ack(0, 1).mss(1000);
        -> data(1, 1, 500);
        <- rst(1);
        host.close();
        new connection;
        host.connect_with(500) fails EINPROGRESS;
        -> syn(0).no_cookie();
        <- syn_ack(0, 1).mss(1000);
        -> ack(1, 1);
        <- rst(1);
        host.close();
        new connection;
        after 3600.s();
        host.connect_with(500);
        -> syn(0).cookie(b"biscuits").len(500);
    }

    /// Data go up to a segment of the server's last size, the longest options included (§4.1.3); the rest follows the handshake.
    rfc7413_4_1_3_the_servers_segment_size_is_remembered on both {
        host.connect_with(1000) fails EINPROGRESS;
        -> syn(0).asks_for_cookie();
        <- syn_ack(0, 1).mss(600).cookie(b"biscuits");
        -> ack(1, 1);
        <- rst(1);
        host.close();
        new connection;
        host.connect_with(1000) == 560;
        -> syn(0).cookie(b"biscuits").len(560);
        <- syn_ack(0, 561).mss(600);
        -> ack(561, 1);
        host.send(440);
        -> data(561, 1, 440);
        <- ack(1, 1001);
    }
}
