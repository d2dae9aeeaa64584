//! Marks in place of losses: RFC 3168 §6.1.

use braidnet_scripts::scripts;

scripts! {
    /// A SYN that asks is answered by one that agrees (§6.1.1); neither may be marked, and data may.
    rfc3168_6_1_1_asked_for_it_is_agreed_to on both {
        host.listen();
        <- syn(0).mss(1000).ece().cwr();
        -> syn_ack(0, 1).ece().not_ect();
        <- ack(1, 1);
        host.accept();
        host.send(1000);
        -> data(1, 1, 1000).ect0();
        <- ack(1, 1001);
    }

    /// One that does not ask is not.
    rfc3168_6_1_1_not_asked_for_it_is_not_agreed_to on both {
        opened by syn(0).mss(1000);
        host.send(1000);
        -> data(1, 1, 1000).not_ect();
        <- ack(1, 1001);
    }

    /// ECE alone does not ask.
    rfc3168_6_1_1_one_flag_does_not_ask on both {
        opened by syn(0).mss(1000).ece();
        host.send(1000);
        -> data(1, 1, 1000).not_ect();
        <- ack(1, 1001);
    }

    /// A SYN that looks as if it could be marked does not come from one who goes by the rules, or its field was changed.
    rfc3168_6_1_1_syn_that_may_be_marked_is_not_agreed_to on both {
        opened by syn(0).mss(1000).ece().cwr().ect0();
        host.send(1000);
        -> data(1, 1, 1000).not_ect();
        <- ack(1, 1001);
    }

    /// Who opens asks by both flags, and uses what is granted.
    rfc3168_6_1_1_active_open_asks on both {
        host.ecn();
        host.connect() fails EINPROGRESS;
        -> syn(0).ece().cwr().not_ect();
        <- syn_ack(0, 1).mss(1000).ece();
        -> ack(1, 1).not_ect();
        host.connect();
        host.send(1000);
        -> data(1, 1, 1000).ect0();
        <- ack(1, 1001);
    }

    /// It does without where it is not granted.
    rfc3168_6_1_1_active_open_is_refused_it on both {
        host.ecn();
        host.connect() fails EINPROGRESS;
        -> syn(0).ece().cwr();
        <- syn_ack(0, 1).mss(1000);
        -> ack(1, 1);
        host.send(1000);
        -> data(1, 1, 1000).not_ect();
        <- ack(1, 1001);
    }

    /// Both flags on a SYN-ACK are ours, sent back by someone who does not know them.
    rfc3168_6_1_1_reflected_flags_do_not_agree on ours("Linux takes them for the accurate kind, without having asked for it") {
        host.ecn();
        host.connect() fails EINPROGRESS;
        -> syn(0).ece().cwr();
        <- syn_ack(0, 1).mss(1000).ece().cwr();
        -> ack(1, 1);
        host.send(1000);
        -> data(1, 1, 1000).not_ect();
        <- ack(1, 1001);
    }

    /// A SYN that is not answered goes again without asking.
    rfc3168_6_1_1_1_unanswered_syn_goes_again_without_asking on both {
        host.ecn();
        host.connect() fails EINPROGRESS;
        -> syn(0).ece().cwr();
        after 1.s();
        -> syn(0);
        <- syn_ack(0, 1);
        -> ack(1, 1);
    }

    /// So does one that is refused, once.
    rfc3168_6_1_1_1_refused_syn_goes_again_without_asking on ours("Linux does not try again, which is as right") {
        host.ecn();
        host.connect() fails EINPROGRESS;
        -> syn(0).ece().cwr();
        <- rst_ack(0, 1);
        -> syn(0);
        <- rst_ack(0, 1);
        host.connect() fails ECONNREFUSED;
    }

    /// A mark is told of until the peer says that it has heard.
    rfc3168_6_1_3_mark_is_echoed_until_cwr on both {
        host.listen();
        <- syn(0).mss(1000).ece().cwr();
        -> syn_ack(0, 1).ece();
        <- ack(1, 1);
        host.accept();
        <- data(1, 1, 1000).ce();
        -> ack(1, 1001).ece().not_ect();
        <- data(1001, 1, 1000).ect0();
        within 100.ms();
        -> ack(1, 2001).ece();
        <- data(2001, 1, 1000).cwr().ect0();
        -> ack(1, 3001);
        <- data(3001, 1, 1000).ect0();
        within 100.ms();
        -> ack(1, 4001);
    }

    /// A segment that says both, and is marked, is a new mark.
    rfc3168_6_1_3_mark_on_cwr_is_a_new_one on both {
        host.listen();
        <- syn(0).mss(1000).ece().cwr();
        -> syn_ack(0, 1).ece();
        <- ack(1, 1);
        host.accept();
        <- data(1, 1, 1000).ce();
        -> ack(1, 1001).ece();
        <- data(1001, 1, 1000).cwr().ce();
        -> ack(1, 2001).ece();
    }

    /// Without agreement a mark says nothing.
    rfc3168_6_1_3_without_agreement_no_echo on both {
        opened by syn(0).mss(1000);
        <- data(1, 1, 1000).ce();
        within 100.ms();
        -> ack(1, 1001);
    }

    /// What is sent again may not be marked.
    rfc3168_6_1_5_retransmission_may_not_be_marked on both {
        host.listen();
        <- syn(0).mss(1000).ece().cwr();
        -> syn_ack(0, 1).ece();
        after 10.ms();
        <- ack(1, 1);
        host.accept();
        host.nodelay(true);
        host.send(1000);
        -> data(1, 1, 1000).ect0();
        after 200.ms();
        -> data(1, 1, 1000).not_ect();
        <- ack(1, 1001);
    }

    /// Nor may a probe of a closed window.
    rfc3168_6_1_6_window_probe_may_not_be_marked on ours("Linux probes with a sequence number of long ago") {
        host.listen();
        <- syn(0).mss(1000).ece().cwr();
        -> syn_ack(0, 1).ece();
        after 10.ms();
        <- ack(1, 1).win(0);
        host.accept();
        host.send(1000);
        after 200.ms();
        -> data(1, 1, 1).not_ect();
        <- ack(1, 2);
        -> data(2, 1, 999).ect0();
    }

    /// The window is cut as for a loss, and the peer told on what leaves next.
    rfc3168_6_1_2_echo_cuts_the_window_and_is_answered on ours("Linux lets one more go") {
        host.listen();
        <- syn(0).mss(1000).ece().cwr();
        -> syn_ack(0, 1).ece();
        after 10.ms();
        <- ack(1, 1);
        host.accept();
        host.nodelay(true);
        host.send(10_000);
        repeat 10 { -> data(ANY, 1, 1000).ect0(); }
        after 10.ms();
        <- ack(1, 10_001).ece();
        host.send(10_000);
        -> data(10_001, 1, 1000).cwr().ect0();
        -> data(11_001, 1, 1000).ect0();
        repeat 5 { -> data(ANY, 1, 1000); }
        nothing for 30.ms();
        <- ack(1, 17_001);
        repeat 3 { -> data(ANY, 1, 1000); }
    }

    /// Once in a window, whatever else the peer says until it has heard.
    rfc3168_6_1_2_once_in_a_window on ours("Linux lets one more go") {
        host.listen();
        <- syn(0).mss(1000).ece().cwr();
        -> syn_ack(0, 1).ece();
        after 10.ms();
        <- ack(1, 1);
        host.accept();
        host.nodelay(true);
        host.send(10_000);
        repeat 10 { -> data(ANY, 1, 1000); }
        after 10.ms();
        <- ack(1, 5001).ece();
        <- ack(1, 8001).ece();
        <- ack(1, 10_001).ece();
        host.send(10_000);
        -> data(10_001, 1, 1000).cwr();
        repeat 6 { -> data(ANY, 1, 1000); }
        nothing for 30.ms();
        <- ack(1, 17_001);
        repeat 3 { -> data(ANY, 1, 1000); }
    }

    /// Nothing is sent again for it.
    rfc3168_6_1_2_nothing_was_lost on both {
        host.listen();
        <- syn(0).mss(1000).ece().cwr();
        -> syn_ack(0, 1).ece();
        after 10.ms();
        <- ack(1, 1);
        host.accept();
        host.nodelay(true);
        host.send(4000);
        repeat 4 { -> data(ANY, 1, 1000); }
        <- ack(1, 1001).ece();
        nothing for 100.ms();
        <- ack(1, 4001);
    }

    /// Three flags ask for the accurate kind, and the answer says how the SYN came: not to be marked, as it was sent.
    rfc9768_3_1_1_accurate_kind_is_asked_for on ours("Linux asks for it for a whole host only") {
        host.accurate_ecn();
        host.connect() fails EINPROGRESS;
        -> syn(0).ace(7).not_ect();
        <- syn_ack(0, 1).mss(1000).ace(2);
        -> ack(1, 1).ace(2);
        host.connect();
        host.send(1000);
        -> data(1, 1, 1000).ace(5).ect0();
        <- ack(1, 1001).ace(5);
    }

    /// A listener that can answers so.
    rfc9768_3_1_1_accurate_kind_is_agreed_to on ours("Linux asks for it for a whole host only") {
        host.accurate_ecn();
        host.listen();
        <- syn(0).mss(1000).ace(7);
        -> syn_ack(0, 1).ace(2).not_ect();
        <- ack(1, 1).ace(2);
        host.accept();
        host.send(1000);
        -> data(1, 1, 1000).ace(5).ect0();
        <- ack(1, 1001).ace(5);
        <- data(1, 1001, 1000).ace(5).ce();
        -> ack(1001, 1001).ace(6);
        <- data(1001, 1001, 1000).ace(5).ce();
        -> ack(1001, 2001).ace(7);
        <- data(2001, 1001, 1000).ace(5).ce();
        -> ack(1001, 3001).ace(0);
    }

    /// What flags that are kept for later will mean begins with the accurate kind.
    rfc9768_3_1_3_flags_kept_for_later_ask_for_counts on ours("Linux asks for it for a whole host only") {
        host.accurate_ecn();
        host.listen();
        <- syn(0).mss(1000).ace(5);
        -> syn_ack(0, 1).ace(2).not_ect();
        <- ack(1, 1).ace(2);
        host.accept();
        host.send(1000);
        -> data(1, 1, 1000).ace(5).ect0();
        <- ack(1, 1001).ace(5);
    }

    /// A SYN that comes again and does not ask changes nothing of the kind, but nothing may be marked.
    rfc9768_3_1_5_first_syn_decides on ours("Linux asks for it for a whole host only") {
        host.accurate_ecn();
        host.listen();
        <- syn(0).mss(1000).ace(7);
        -> syn_ack(0, 1).ace(2);
        <- syn(0).mss(1000);
        -> syn_ack(0, 1).ace(2);
        <- ack(1, 1).ace(2);
        host.accept();
        <- data(1, 1, 1000).ace(5).ce();
        -> ack(1, 1001).ace(6);
        host.send(1000);
        -> data(1, 1001, 1000).ace(6).not_ect();
        <- ack(1001, 1001).ace(5);
    }

    /// One that asks for the other kind leaves no way to tell which is meant.
    rfc9768_3_1_5_syn_for_the_other_kind_is_reset on ours("Linux asks for it for a whole host only") {
        host.accurate_ecn();
        host.listen();
        <- syn(0).mss(1000).ace(7);
        -> syn_ack(0, 1).ace(2);
        <- syn(0).mss(1000).ace(3);
        -> rst_ack(1, 1);
    }

    /// An acknowledgment of a SYN-ACK goes alone, before data that waits, and once more if the SYN-ACK does.
    rfc9768_3_2_2_1_syn_ack_is_answered_alone on ours("Linux asks for it for a whole host only") {
        host.accurate_ecn();
        host.connect() fails EINPROGRESS;
        -> syn(0).ace(7);
        <- syn_ack(0, 1).mss(1000).ace(2);
        -> ack(1, 1).ace(2);
        <- syn_ack(0, 1).mss(1000).ace(2).ce();
        -> ack(1, 1).ace(6);
        host.connect();
        host.send(1000);
        -> data(1, 1, 1000).ace(6).ect0();
        <- ack(1, 1001).ace(5);
    }

    /// One that cannot agrees to the classic kind.
    rfc9768_3_1_2_accurate_kind_falls_back_to_the_classic on both {
        host.listen();
        <- syn(0).mss(1000).ace(7);
        -> syn_ack(0, 1).ece();
        <- ack(1, 1);
        host.accept();
        <- data(1, 1, 1000).ce();
        -> ack(1, 1001).ece();
    }

    /// So does one who asks.
    rfc9768_3_1_2_asker_takes_the_classic_kind on ours("Linux asks for it for a whole host only") {
        host.accurate_ecn();
        host.connect() fails EINPROGRESS;
        -> syn(0).ace(7);
        <- syn_ack(0, 1).mss(1000).ece();
        -> ack(1, 1);
        host.send(1000);
        -> data(1, 1, 1000).ect0();
        <- ack(1, 1001).ece();
        host.send(1000);
        -> data(1001, 1, 1000).cwr();
        <- ack(1, 2001);
    }

    /// A SYN that is not answered asks once more, and then no more.
    rfc9768_3_1_4_1_unanswered_syn_asks_once_more on ours("Linux asks for it for a whole host only") {
        host.accurate_ecn();
        host.connect() fails EINPROGRESS;
        -> syn(0).ace(7);
        after 1.s();
        -> syn(0).ace(7);
        after 2.s();
        -> syn(0);
    }

    /// An answer that says that the SYN came as it was not sent: the way changes the field, and nothing may be marked.
    rfc9768_3_2_2_3_changed_field_marks_nothing on ours("Linux asks for it for a whole host only") {
        host.accurate_ecn();
        host.connect() fails EINPROGRESS;
        -> syn(0).ace(7);
        <- syn_ack(0, 1).mss(1000).ace(6);
        -> ack(1, 1).ace(2);
        host.send(1000);
        -> data(1, 1, 1000).ace(5).not_ect();
        <- ack(1, 1001).ace(5);
    }
}
