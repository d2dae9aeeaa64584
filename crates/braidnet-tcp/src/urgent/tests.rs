//! Where the mark stands, on both sides.

use crate::testing::{ACK, FIN, Host, PSH, Reply, SYN, URG, Wire, segment, thousand};
use crate::{Config, Events, State};
use braidnet_wire::time::Duration;

fn urgent(flags: u8, seq: i32, pointer: u16, len: usize) -> Wire {
    let mut wire = segment(flags | URG, seq, 0, len);
    wire.header.urgent = pointer;
    wire
}

/// RFC 9293 §3.10.7.4, sixth check, and MUST-31, 32, 62; HOSTILE-INPUT 10.
#[test]
fn marks_that_arrive() {
    use State::*;
    // The state; segments, of which the last is looked at; where the mark stands afterwards, if it is news.
    type Row = (State, &'static [(i32, u16, usize)], Option<i32>);
    let rows: [Row; 17] = [
        // The byte after the last urgent one: of the data, in the middle of it, past it, without any.
        (Established, &[(0, 5, 5)], Some(0)),
        (Established, &[(0, 3, 5)], Some(-2)),
        (Established, &[(0, 9, 5)], Some(4)),
        (Established, &[(0, 9, 0)], Some(9)),
        (Established, &[(0, 65535, 1)], Some(65534)),
        // None at all, and one that the data before has overtaken.
        (Established, &[(0, 0, 0)], None),
        (Established, &[(0, 0, 5)], None),
        (Established, &[(0, 5, 5), (0, 5, 5)], None),
        (Established, &[(0, 0, 5), (5, 0, 0)], None),
        // Once more, further on, and not so far.
        (Established, &[(0, 9, 0), (0, 9, 0)], None),
        (Established, &[(0, 9, 0), (0, 10, 0)], Some(10)),
        (Established, &[(0, 9, 0), (0, 8, 0)], None),
        (Established, &[(0, 9, 9), (9, 1, 1)], Some(0)),
        // Out of order: the mark is heard before the data.
        (Established, &[(5, 5, 5)], Some(10)),
        (FinWait1, &[(0, 5, 5)], Some(0)),
        (FinWait2, &[(0, 5, 5)], Some(0)),
        // RFC 9293 §3.10.7.4: after the peer's FIN there is none.
        (CloseWait, &[(1, 5, 0)], None),
    ];
    for (state, segments, expected) in rows {
        let mut host = Host::in_state(state, 0);
        let mut events = Events::empty();
        let ack = if state == FinWait2 { 1 } else { 0 };
        for &(seq, pointer, len) in segments {
            let mut wire = urgent(ACK, seq, pointer, len);
            wire.header.ack += ack;
            events = host.arrive(&wire);
        }
        let news = events.contains(Events::URGENT);
        let mark = news.then(|| host.end.tcb.urgent_mark());
        assert_eq!(mark, expected, "{state} {segments:?}");
    }
    // A FIN is no byte of the stream.
    let mut host = Host::in_state(Established, 0);
    let events = host.arrive(&urgent(ACK | FIN, 0, 5, 5));
    assert!(events.contains(Events::URGENT | Events::END_OF_DATA));
    assert_eq!(host.end.tcb.urgent_mark(), 0);
}

/// RFC 9293 §3.10.7.4, MUST-66: of what a closed window does not take, the mark is heard.
#[test]
fn marks_that_arrive_while_the_window_is_closed() {
    let config = Config {
        receive_buffer_bytes: 1000,
        ..Host::plain()
    };
    let mut host = Host::accept(&config, &segment(SYN, -1, 0, 0));
    host.arrive(&segment(ACK, 0, 0, 0));
    host.arrive(&segment(ACK, 0, 0, 1000));
    assert_eq!(host.end.tcb.status().rcv_wnd, 0);
    let events = host.arrive(&urgent(ACK, 1000, 5, 5));
    assert_eq!((events, host.end.tcb.urgent_mark()), (Events::URGENT, 5));
    assert_eq!(host.end.received.len(), 1000);
}

/// While a mark is on its way every segment is looked at; once it is there, none need be.
#[test]
fn a_mark_that_is_reached_is_forgotten() {
    let mut host = Host::in_state(State::Established, 0);
    let expects = |host: &Host, seq: i32| {
        let header = segment(ACK, seq, 0, 5).header;
        host.end.tcb.expects(host.now, &header, 5).is_some()
    };
    assert!(expects(&host, 0));
    host.arrive(&urgent(ACK, 0, 8, 0));
    assert!(!expects(&host, 0));
    host.arrive(&segment(ACK, 0, 0, 5));
    assert!(!expects(&host, 5));
    host.arrive(&segment(ACK, 5, 0, 5));
    assert!(expects(&host, 10));
    assert_eq!(host.end.received.len(), 10, "in line (RFC 6093 §6)");
}

/// What we sent: flags, `seq` and pointer.
fn pointers(host: &mut Host) -> Vec<(u8, i32, u16)> {
    let sent = host.end.poll(host.now);
    let of = |wire: &Wire| {
        let (flags, seq, ..): Reply = crate::testing::reply(wire);
        (flags & !PSH, seq, wire.header.urgent)
    };
    sent.iter().map(of).collect()
}

/// RFC 9293 §3.8.5: every segment before the mark points to it, what is sent again included, until all is acknowledged.
#[test]
fn marks_that_are_sent() {
    let config = Config {
        nagle: true,
        ..Host::plain()
    };
    let mut host = thousand(&config);
    host.end.send(&[1; 100]);
    assert_eq!(pointers(&mut host), [(ACK, 0, 0)]);
    host.end.send(&[1; 2000]);
    host.end.tcb.mark_urgent();
    // The last piece does not wait for what is in flight (RFC 9293 §3.7.4).
    let both = [(ACK | URG, 100, 2000), (ACK | URG, 1100, 1000)];
    assert_eq!(pointers(&mut host), both);
    host.end.send(&[1; 1000]);
    assert_eq!(pointers(&mut host), [(ACK, 2100, 0)], "it is past the mark");
    // Again, by the timer.
    host.wait(Duration::from_secs(60));
    let again = pointers(&mut host);
    assert_eq!(again[0], (ACK | URG, 0, 2100));
    // An answer to the peer's data stands past the mark.
    host.arrive(&segment(ACK, 0, 2100, 0));
    pointers(&mut host);
    host.arrive(&segment(ACK, 0, 3100, 0));
    host.end.send(&[1; 10]);
    assert_eq!(pointers(&mut host), [(ACK, 3100, 0)]);
    assert_eq!(host.end.tcb.sender.snd_up, None);
}

#[test]
fn marks_out_of_reach_and_out_of_place() {
    // Further than the field can say: as far as that goes.
    let mut host = thousand(&Host::plain());
    host.end.send(&[1; 70_000]);
    host.end.tcb.mark_urgent();
    let first = pointers(&mut host)[0];
    assert_eq!(first, (ACK | URG, 0, 65535));
    // With nothing to send, before the handshake and after the end.
    let mut host = thousand(&Host::plain());
    host.end.tcb.mark_urgent();
    host.arrive(&segment(ACK, 9, 0, 1));
    assert_eq!(pointers(&mut host), [(ACK, 0, 0)]);
    let mut host = Host::in_state(State::SynReceived, 0);
    host.end.send(b"urgent");
    host.end.tcb.mark_urgent();
    host.arrive(&segment(SYN, -1, 0, 0));
    assert_eq!(pointers(&mut host), [(SYN | ACK, -1, 0)], "no SYN points");
    host.arrive(&segment(ACK, 0, 0, 0));
    assert_eq!(pointers(&mut host), [(ACK | URG, 0, 6)]);
    let now = host.now;
    host.end.tcb.close(now);
    host.end.tcb.abort();
    let reset = pointers(&mut host);
    assert_eq!((reset.len(), reset[0].2), (1, 0), "no RST points");
}
