//! Data: RFC 9293 §3.7.4, §3.8.6.3 and §3.10.7.4, RFC 2018, RFC 2883, RFC 5681 §4.2.

use braidnet_scripts::scripts;

scripts! {
    /// Data is acknowledged within half a second (MUST-40).
    rfc9293_3_8_6_3_ack_within_half_a_second on both {
        opened by syn(0).mss(1460);
        <- data(1, 1, 100);
        within 500.ms();
        -> ack(1, 101);
        host.ready() == IN | OUT;
        host.readable() == 100;
        host.recv(1000) == 100;
        host.recv(1000) fails EAGAIN;
    }

    /// Every second full-sized segment is acknowledged at once (SHLD-19).
    rfc9293_3_8_6_3_second_segment_at_once on ours("Linux acknowledges every segment at first") {
        opened by syn(0).mss(1460);
        <- data(1, 1, 1460);
        nothing for 20.ms();
        <- data(1461, 1, 1460);
        -> ack(1, 2921);
        host.recv(5000) == 2920;
    }

    /// A segment out of order is answered at once (RFC 5681 §4.2).
    rfc5681_4_2_duplicate_ack_at_once on both {
        opened by syn(0).mss(1460);
        <- data(101, 1, 100);
        -> ack(1, 1);
        host.recv(1000) fails EAGAIN;
        <- data(1, 1, 100);
        -> ack(1, 201);
        host.recv(1000) == 200;
    }

    /// So is each one that fills a gap in part.
    rfc5681_4_2_ack_at_once_when_a_gap_is_filled_in_part on both {
        opened by syn(0).mss(1460);
        <- data(201, 1, 100);
        -> ack(1, 1);
        <- data(1, 1, 100);
        -> ack(1, 101);
        <- data(101, 1, 100);
        -> ack(1, 301);
        host.recv(1000) == 300;
    }

    /// What is held is told, the newest first (RFC 2018 §4).
    rfc2018_4_blocks_newest_first on both {
        opened by syn(0).mss(1460).sack_ok();
        <- data(101, 1, 100);
        -> ack(1, 1).sack(&[(101, 201)]);
        <- data(301, 1, 100);
        -> ack(1, 1).sack(&[(301, 401), (101, 201)]);
        <- data(501, 1, 100);
        -> ack(1, 1).sack(&[(501, 601), (301, 401), (101, 201)]);
        <- data(201, 1, 100);
        -> ack(1, 1).sack(&[(101, 401), (501, 601)]);
        <- data(1, 1, 100);
        -> ack(1, 401).sack(&[(501, 601)]);
        <- data(401, 1, 100);
        -> ack(1, 601).no_sack();
        host.recv(1000) == 600;
    }

    /// No blocks unless both have agreed.
    rfc2018_2_no_blocks_unless_agreed on both {
        opened by syn(0).mss(1460);
        <- data(101, 1, 100);
        -> ack(1, 1).no_sack();
    }

    /// What has come before is acknowledged again, at once (RFC 9293 §3.10.7.4, first check).
    rfc9293_3_10_7_4_old_text_is_acknowledged_again on both {
        opened by syn(0).mss(1460);
        <- data(1, 1, 100);
        within 500.ms();
        -> ack(1, 101);
        <- data(1, 1, 100);
        -> ack(1, 101);
        host.recv(1000) == 100;
        host.recv(1000) fails EAGAIN;
    }

    /// What is past the window is not taken, and acknowledged (the same).
    rfc9293_3_10_7_4_text_past_the_window_is_not_taken on both {
        opened by syn(0).mss(1460);
        <- data(100_000_000, 1, 100);
        -> ack(1, 1).no_sack();
        host.recv(1000) fails EAGAIN;
    }

    /// Of what overlaps, what is new is taken.
    rfc9293_3_10_7_4_overlap_in_front_is_trimmed on both {
        opened by syn(0).mss(1460);
        <- data(1, 1, 100);
        within 500.ms();
        -> ack(1, 101);
        <- data(51, 1, 100);
        within 500.ms();
        -> ack(1, 151);
        host.recv(1000) == 150;
    }

    /// Also of what overlaps behind a gap.
    rfc9293_3_10_7_4_overlap_behind_a_gap_is_trimmed on both {
        opened by syn(0).mss(1460);
        <- data(101, 1, 100);
        -> ack(1, 1);
        <- data(151, 1, 100);
        -> ack(1, 1);
        <- data(51, 1, 100);
        -> ack(1, 1);
        <- data(1, 1, 60);
        -> ack(1, 251);
        host.recv(1000) == 250;
    }

    /// And all of what reaches from before a gap to behind what is held: its end need not be sent again.
    rfc9293_3_10_7_4_text_around_what_is_held_is_taken_whole on both {
        opened by syn(0).mss(1460);
        <- data(101, 1, 50);
        -> ack(1, 1);
        <- data(201, 1, 50);
        -> ack(1, 1);
        <- data(1, 1, 300);
        -> ack(1, 301);
        host.recv(1000) == 300;
    }

    /// Without an ACK, text is nothing (fifth check).
    rfc9293_3_10_7_4_text_without_ack_is_dropped on both {
        opened by syn(0).mss(1460);
        <- with_flags(0, 1, 0).len(100);
        nothing for 100.ms();
        host.recv(1000) fails EAGAIN;
    }

    /// With a wrong checksum it is nothing (RFC 9293 §3.1, MUST-3).
    rfc9293_3_1_wrong_checksum_is_dropped on both {
        opened by syn(0).mss(1460);
        <- data(1, 1, 100).damaged();
        nothing for 100.ms();
        host.recv(1000) fails EAGAIN;
    }

    /// A data offset that cannot be.
    rfc9293_3_1_impossible_data_offset_is_dropped on both {
        opened by syn(0).mss(1460);
        <- data(1, 1, 4).data_offset(4);
        <- data(1, 1, 4).data_offset(7);
        nothing for 100.ms();
        host.recv(1000) fails EAGAIN;
    }

    /// What a user sends last is pushed (RFC 9293 §3.9.1.2, MUST-61).
    rfc9293_3_9_1_2_last_segment_is_pushed on both {
        opened by syn(0).mss(1000);
        host.nodelay(true);
        host.send(1500);
        -> data(1, 1, 1000);
        -> data(1001, 1, 500).push();
        <- ack(1, 1501);
    }

    /// What several calls have left waiting leaves together, pushed at its end (SHLD-27).
    rfc9293_3_9_1_2_what_waits_leaves_together on both {
        host.listen();
        <- syn(0).mss(1000);
        -> syn_ack(0, 1);
        <- ack(1, 1).win(0);
        host.accept();
        host.nodelay(true);
        host.send(250);
        host.send(250);
        host.send(250);
        host.send(250);
        host.send(250);
        nothing for 50.ms();
        <- ack(1, 1).win(5000);
        -> data(1, 1, 1000);
        -> data(1001, 1, 250).push();
        <- ack(1, 1251);
    }

    /// While something small is under way, what is small waits (RFC 9293 §3.7.4, SHLD-7).
    rfc9293_3_7_4_nagle_holds_back on both {
        opened by syn(0).mss(1460);
        host.send(100);
        -> data(1, 1, 100);
        host.send(100);
        nothing for 50.ms();
        <- ack(1, 101);
        -> data(101, 1, 100);
        <- ack(1, 201);
    }

    /// It can be turned off (MUST-17).
    rfc9293_3_7_4_nagle_can_be_turned_off on both {
        opened by syn(0).mss(1460);
        host.nodelay(true);
        host.send(100);
        -> data(1, 1, 100);
        host.send(100);
        -> data(101, 1, 100);
        <- ack(1, 201);
    }

    /// Turned off, what was held back goes.
    rfc9293_3_7_4_turning_nagle_off_lets_go on both {
        opened by syn(0).mss(1460);
        host.send(100);
        -> data(1, 1, 100);
        host.send(100);
        nothing for 50.ms();
        host.nodelay(true);
        -> data(101, 1, 100);
    }

    /// A FIN lets go of what is held back: nothing will be put with it.
    rfc9293_3_7_4_nagle_does_not_hold_back_the_end
        on ours("Linux sends the FIN, too, only when what is under way is acknowledged") {
        opened by syn(0).mss(1460);
        host.send(100);
        -> data(1, 1, 100);
        host.send(100);
        nothing for 50.ms();
        host.shutdown_write();
        -> fin(101, 1).len(100);
    }

    /// Full segments do not wait.
    rfc9293_3_7_4_nagle_lets_full_segments_go on both {
        opened by syn(0).mss(1000);
        host.send(100);
        -> data(1, 1, 100);
        host.send(3000);
        -> data(101, 1, 1000);
        -> data(1101, 1, 1000);
        -> data(2101, 1, 1000);
        <- ack(1, 3101);
    }

    /// Corked, only full segments leave, until the cork is drawn (RFC 9293 §3.7.4 allows the user to control it).
    rfc9293_3_7_4_cork_holds_back on both {
        opened by syn(0).mss(1000);
        host.nodelay(true);
        host.cork(true);
        host.send(400);
        nothing for 50.ms();
        host.send(700);
        -> data(1, 1, 1000);
        <- ack(1, 1001);
        nothing for 50.ms();
        host.cork(false);
        -> data(1001, 1, 100);
        <- ack(1, 1101);
    }

    /// What more is promised of waits for it and goes with it, or once nothing may wait (RFC 9293 §3.7.4).
    rfc9293_3_7_4_promised_more_is_waited_for on both {
        opened by syn(0).mss(1000);
        host.nodelay(true);
        host.send_more(300);
        host.send_more(100);
        host.send(200);
        -> data(1, 1, 600);
        <- ack(1, 601);
        host.send_more(1500);
        -> data(601, 1, 1000);
        host.nodelay(true);
        -> data(1601, 1, 500);
        <- ack(1, 2101);
    }

    /// A cork that is forgotten.
    rfc9293_3_7_4_cork_lets_go_after_200_ms on both {
        opened by syn(0).mss(1000);
        host.cork(true);
        host.send(400);
        after 200.ms();
        -> data(1, 1, 400);
        <- ack(1, 401);
    }

    /// To look at data leaves it there.
    rfc9293_3_9_1_3_peek_leaves_data on both {
        opened by syn(0).mss(1460);
        <- data(1, 1, 100);
        within 500.ms();
        -> ack(1, 101);
        host.peek(50) == 50;
        host.readable() == 100;
        host.peek(500) == 100;
        host.recv(500) == 100;
        host.peek(500) fails EAGAIN;
    }

    /// An acknowledgment rides on data that goes the other way.
    rfc9293_3_8_6_3_ack_rides_on_data on ours("Linux acknowledges every segment at first") {
        opened by syn(0).mss(1460);
        <- data(1, 1, 100);
        host.send(50);
        -> data(1, 101, 50);
        nothing for 150.ms();
    }

    /// What is sent wraps around the space of sequence numbers, as the peer's do: they begin 700 before its end.
    rfc9293_3_4_sequence_numbers_wrap on both {
        opened by syn(0).mss(1460);
        <- data(1, 1, 600);
        within 500.ms();
        -> ack(1, 601);
        <- data(601, 1, 600);
        within 500.ms();
        -> ack(1, 1201);
        <- data(1201, 1, 600);
        within 500.ms();
        -> ack(1, 1801);
        host.recv(5000) == 1800;
    }

    /// A duplicate is reported by the first block (RFC 2883 §4.1.1).
    rfc2883_4_1_1_whole_duplicate_is_reported on both {
        opened by syn(0).mss(1460).sack_ok();
        <- data(1, 1, 100);
        within 500.ms();
        -> ack(1, 101);
        <- data(1, 1, 100);
        -> ack(1, 101).sack(&[(1, 101)]);
    }

    /// Also above a gap, in front of the block that holds it (RFC 2883 §4.2).
    rfc2883_4_2_duplicate_above_a_gap_is_reported on both {
        opened by syn(0).mss(1460).sack_ok();
        <- data(201, 1, 100);
        -> ack(1, 1).sack(&[(201, 301)]);
        <- data(201, 1, 100);
        -> ack(1, 1).sack(&[(201, 301), (201, 301)]);
    }

    /// Also where it comes so late that its timestamp is refused: it was sent again meanwhile, in vain (RFC 2883 §4, RFC 7323 §5.3).
    rfc2883_4_duplicate_with_an_old_timestamp_is_reported on both {
        opened by syn(0).mss(1460).sack_ok().ts(100);
        <- data(101, 1, 100).ts(110);
        -> ack(1, 1).sack(&[(101, 201)]);
        <- data(1, 1, 100).ts(130);
        -> ack(1, 201);
        <- data(201, 1, 100).ts(140);
        within 500.ms();
        -> ack(1, 301);
        <- data(1, 1, 100).ts(109);
        -> ack(1, 301).sack(&[(1, 101)]);
    }

    /// Many small segments make one stream.
    rfc9293_3_7_small_segments_make_a_stream on both {
        opened by syn(0).mss(1460);
        <- data(4, 1, 1);
        -> ack(1, 1);
        <- data(3, 1, 1);
        -> ack(1, 1);
        <- data(2, 1, 1);
        -> ack(1, 1);
        <- data(1, 1, 1);
        -> ack(1, 5);
        host.recv(2) == 2;
        host.recv(2) == 2;
    }

    /// FIN, URG and PSH without an ACK are nothing on a connection (fifth check).
    rfc9293_3_10_7_4_xmas_is_dropped on both {
        opened by syn(0).mss(1460);
        <- with_flags(flag::FIN | flag::URG | flag::PSH, 1, 0);
        <- with_flags(0, 1, 0);
        nothing for 50.ms();
        host.recv(10) fails EAGAIN;
    }

    /// An ACK of what was not sent, without data (fifth check).
    rfc9293_3_10_7_4_bare_ack_of_what_was_not_sent on both {
        opened by syn(0).mss(1460);
        <- ack(1, 500);
        -> ack(1, 1);
    }

    /// Data in both directions at once.
    rfc9293_3_7_both_directions_at_once on both {
        opened by syn(0).mss(1000);
        host.send(500);
        -> data(1, 1, 500);
        <- data(1, 1, 300);
        within 180.ms();
        -> ack(501, 301);
        <- ack(301, 501);
        host.recv(1000) == 300;
    }

    /// Part of a segment that has come before is reported as that part (RFC 2883 §4.2.1).
    rfc2883_4_2_1_partial_duplicate_is_reported on both {
        opened by syn(0).mss(1460).sack_ok();
        <- data(1, 1, 100);
        within 500.ms();
        -> ack(1, 101);
        <- data(51, 1, 100);
        within 500.ms();
        -> ack(1, 151).sack(&[(51, 101)]);
    }

    /// A duplicate is reported once (RFC 2883 §4, step 1).
    rfc2883_4_duplicate_is_reported_once on both {
        opened by syn(0).mss(1460).sack_ok();
        <- data(1, 1, 100);
        within 500.ms();
        -> ack(1, 101);
        <- data(1, 1, 100);
        -> ack(1, 101).sack(&[(1, 101)]);
        <- data(201, 1, 100);
        -> ack(1, 101).sack(&[(201, 301)]);
    }

    /// Three blocks and timestamps are all that there is room for (RFC 2018 §3).
    rfc2018_3_three_blocks_beside_timestamps on both {
        opened by syn(0).mss(1460).sack_ok().ts(100);
        <- data(101, 1, 100).ts(110);
        -> ack(1, 1).sack(&[(101, 201)]);
        <- data(301, 1, 100).ts(110);
        -> ack(1, 1).sack(&[(301, 401), (101, 201)]);
        <- data(501, 1, 100).ts(110);
        -> ack(1, 1).sack(&[(501, 601), (301, 401), (101, 201)]);
        <- data(701, 1, 100).ts(110);
        -> ack(1, 1).sack(&[(701, 801), (501, 601), (301, 401)]);
    }

    /// Without timestamps there is room for four.
    rfc2018_3_four_blocks_without_timestamps on both {
        opened by syn(0).mss(1460).sack_ok();
        <- data(101, 1, 100);
        -> ack(1, 1);
        <- data(301, 1, 100);
        -> ack(1, 1);
        <- data(501, 1, 100);
        -> ack(1, 1);
        <- data(701, 1, 100);
        -> ack(1, 1).sack(&[(701, 801), (501, 601), (301, 401), (101, 201)]);
    }
}
