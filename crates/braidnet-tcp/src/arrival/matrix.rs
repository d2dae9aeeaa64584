//! Every state after the peer's SYN, every kind of segment, before, at, inside and past the window (RFC 9293 §3.10.7.4 with RFC
//! 5961 and RFC 1337; HOSTILE-INPUT 11, 13, 15, 17 and 18).
//!
//! SYN-SENT knows no window: its table is `syn_sent` in the tests beside this. LISTEN and CLOSED are no connections:
//! `reset.rs`.

use crate::State;
use crate::State::*;
use crate::testing::{ACK, FIN, Host, IRS, ISS, PSH, RST, Reply, SYN, URG, WINDOW, segment};
use braidnet_wire::seq::SeqNumber;

/// What comes of a segment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Then {
    /// It is dropped, or taken, without a word.
    Quiet,
    /// An ACK that says where we are.
    Ack,
    /// A RST at what it acknowledges.
    Rst,
    /// A state, without a word.
    To(State),
    /// A state, and an ACK.
    AckTo(State),
}
use Then::*;

impl Then {
    /// The flags of the answers, and the state afterwards.
    fn from(self, state: State) -> (&'static [u8], State) {
        match self {
            Quiet => (&[], state),
            Ack => (&[ACK], state),
            Rst => (&[RST], state),
            To(after) => (&[], after),
            AckTo(after) => (&[ACK], after),
        }
    }
}

/// States, kinds of segment by flags and length, and what comes of one before, at the left edge of, inside and past the window.
type Row = (&'static [State], &'static [(u8, usize)], [Then; 4]);

/// All that follow ESTABLISHED, and itself.
const SYNCHRONIZED: &[State] = &[
    Established,
    FinWait1,
    FinWait2,
    CloseWait,
    Closing,
    LastAck,
    TimeWait,
];
const RECEIVING: &[State] = &[Established, FinWait1, FinWait2];
/// The peer's FIN has been taken.
const FINISHED: &[State] = &[CloseWait, Closing, LastAck, TimeWait];

#[rustfmt::skip]
const TABLE: &[Row] = &[
    // First check: what lies outside is answered by an ACK unless it is a RST. An ACK alone is in place anywhere inside.
    (SYNCHRONIZED, &[(ACK, 0)], [Ack, Quiet, Quiet, Ack]),
    // Second check, RFC 5961 §3.2: only a RST at the very edge counts, one inside is challenged; in TIME-WAIT none (RFC 1337 §3).
    (&[Established, FinWait1, FinWait2, CloseWait, Closing, LastAck],
        &[(RST, 0), (RST | ACK, 0), (RST | SYN, 0), (RST | ACK, 5), (RST | FIN | PSH | URG, 0)],
        [Quiet, To(Closed), Ack, Quiet]),
    (&[TimeWait], &[(RST, 0), (RST | ACK, 0), (RST | SYN, 0)], [Quiet, Quiet, Quiet, Quiet]),
    // Fourth check, RFC 5961 §4: a SYN is challenged wherever it is.
    (SYNCHRONIZED, &[(SYN, 0), (SYN | ACK, 0), (SYN | FIN, 0), (SYN, 5), (SYN | ACK, 5)], [Ack, Ack, Ack, Ack]),
    // Fifth check: without an ACK nothing is taken.
    (SYNCHRONIZED, &[(0, 0), (PSH | URG, 0)], [Ack, Quiet, Quiet, Ack]),
    (SYNCHRONIZED, &[(0, 5), (FIN, 0), (FIN | PSH | URG, 0), (FIN, 5)], [Ack, Quiet, Quiet, Ack]),
    // Seventh check: data in order waits to be acknowledged, other data does not; none follows a FIN.
    (RECEIVING, &[(ACK, 5), (ACK | PSH, 5), (ACK | URG, 5)], [Ack, Quiet, Ack, Ack]),
    (FINISHED, &[(ACK, 5), (ACK | PSH, 5)], [Ack, Ack, Ack, Ack]),
    // Eighth check: a FIN in order ends the peer's stream, one out of order waits.
    (&[Established], &[(FIN | ACK, 0), (FIN | ACK, 5)], [Ack, AckTo(CloseWait), Ack, Ack]),
    (&[FinWait1], &[(FIN | ACK, 0), (FIN | ACK, 5)], [Ack, AckTo(Closing), Ack, Ack]),
    (&[FinWait2], &[(FIN | ACK, 0), (FIN | ACK, 5)], [Ack, AckTo(TimeWait), Ack, Ack]),
    (FINISHED, &[(FIN | ACK, 0), (FIN | ACK, 5)], [Ack, Ack, Ack, Ack]),

    (&[SynReceived], &[(ACK, 0)], [Ack, To(Established), To(Established), Ack]),
    (&[SynReceived], &[(ACK, 5)], [Ack, To(Established), AckTo(Established), Ack]),
    (&[SynReceived], &[(FIN | ACK, 0), (FIN | ACK, 5)], [Ack, AckTo(CloseWait), AckTo(Established), Ack]),
    (&[SynReceived], &[(RST, 0), (RST | ACK, 0)], [Quiet, To(Closed), Ack, Quiet]),
    // docs/rfc-departures.md: a SYN in the window does not undo the handshake.
    (&[SynReceived], &[(SYN, 0), (SYN | FIN, 0)], [Ack, Ack, Ack, Ack]),
    (&[SynReceived], &[(0, 0), (PSH | URG, 0)], [Ack, Quiet, Quiet, Ack]),
    (&[SynReceived], &[(0, 5), (FIN, 0)], [Ack, Quiet, Quiet, Ack]),
];

/// Where the segments of a row stand, from RCV.NXT.
const PLACES: [i32; 4] = [-10, 0, 7, WINDOW as i32 + 10];

fn offset(seq: SeqNumber, start: u32) -> i32 {
    (seq - (SeqNumber::new(start) + 1)) as i32
}

/// The answer, and the state afterwards.
fn outcome(
    state: State,
    (flags, len): (u8, usize),
    place: i32,
    ack: Option<i32>,
) -> (Vec<Reply>, State) {
    let mut host = Host::in_state(state, 3);
    let before = host.end.tcb.status();
    let una = offset(before.snd_una, ISS);
    // What acknowledges nothing new, but of a handshake.
    let ack = ack.unwrap_or(una.max(0));
    let wire = segment(flags, offset(before.rcv_nxt, IRS) + place, ack, len);
    host.arrive(&wire);
    (host.sent(), host.end.tcb.state())
}

#[test]
fn every_state_and_segment_inside_and_outside_the_window() {
    let mut rows = 0;
    for (states, kinds, then) in TABLE {
        for &state in *states {
            for &kind in *kinds {
                for (place, then) in PLACES.into_iter().zip(then) {
                    let host = Host::in_state(state, 3).end.tcb.status();
                    let here = (offset(host.snd_nxt, ISS), offset(host.rcv_nxt, IRS));
                    let (sent, after) = outcome(state, kind, place, None);
                    let context = format!("{state} {kind:?} {place}: {sent:?} {after}");
                    let said: Vec<u8> = sent.iter().map(|reply| reply.0).collect();
                    assert_eq!((&said[..], after), then.from(state), "{context}");
                    if *then == Ack {
                        assert_eq!(
                            (sent[0].1, sent[0].2, sent[0].3),
                            (here.0, here.1, 0),
                            "{context}"
                        );
                    }
                    rows += 1;
                }
            }
        }
    }
    assert!(rows > 600, "{rows}");
}

/// Fifth check, by what is acknowledged: SND.UNA - MAX.SND.WND <= SEG.ACK <= SND.NXT (RFC 5961 §5), for data as for none; in
/// SYN-RECEIVED anything else but our SYN is answered with a RST.
#[test]
fn every_state_and_acknowledgment() {
    const TOO_OLD: i32 = -60_001;
    // In flight are three bytes, and in some states a FIN.
    let rows: [(&[State], i32, Then); 9] = [
        (SYNCHRONIZED, TOO_OLD - 4, Ack),
        (SYNCHRONIZED, 5, Ack),
        (SYNCHRONIZED, i32::MAX, Ack),
        (SYNCHRONIZED, -1, Quiet),
        (&[Established, CloseWait], 3, Quiet),
        (&[FinWait1], 4, To(FinWait2)),
        (&[Closing], 4, To(TimeWait)),
        (&[LastAck], 4, To(Closed)),
        (&[SynReceived], 5, Rst),
    ];
    for (states, ack, then) in rows {
        for &state in states {
            let (sent, after) = outcome(state, (ACK, 0), 0, Some(ack));
            let said: Vec<u8> = sent.iter().map(|reply| reply.0).collect();
            let context = format!("{state} acknowledging {ack}: {sent:?} {after}");
            assert_eq!((&said[..], after), then.from(state), "{context}");
        }
    }
    for ack in [-1, -2, 1, i32::MAX, i32::MIN] {
        let (sent, after) = outcome(SynReceived, (ACK, 0), 0, Some(ack));
        assert_eq!(
            (sent, after),
            (vec![(RST, ack, 0, 0)], SynReceived),
            "{ack}"
        );
    }
}
