//! A connection of the driver's to a service of the stack under test, by hand: nothing is sent but what a case sends.

use std::time::{Duration, Instant};

use crate::packet::{ACK, FIN, PSH, RST, SYN, Segment, bits, option};
use crate::peer::{CHARGEN, DAYTIME, ECHO, Failure, Outcome, PATIENCE, Peer};
use crate::seen::{Arrived, Options, Seen};

/// A SYN that is not answered for so long is dropped.
const SILENCE: Duration = Duration::from_millis(200);

/// How it is opened.
#[derive(Clone, Debug)]
pub struct Open {
    pub port: u16,
    pub iss: u32,
    pub window: u16,
    pub options: Vec<u8>,
    pub timestamps: Option<u32>,
}

impl Open {
    /// To a port, with a segment size and nothing else.
    pub fn to(port: u16) -> Open {
        Open {
            port,
            iss: 1_000_000,
            window: 60_000,
            options: option::mss(1460),
            timestamps: None,
        }
    }

    pub fn iss(self, iss: u32) -> Open {
        Open { iss, ..self }
    }

    pub fn window(self, window: u16) -> Open {
        Open { window, ..self }
    }

    pub fn options(self, options: impl Into<Vec<u8>>) -> Open {
        Open {
            options: options.into(),
            ..self
        }
    }

    /// With timestamps, the first of this value.
    pub fn timestamps(self, value: u32) -> Open {
        Open {
            timestamps: Some(value),
            ..self
        }
    }

    /// With selective acknowledgments.
    pub fn sack(mut self) -> Open {
        self.options.extend(option::SACK_PERMITTED);
        self
    }
}

/// The states in which the stack under test can be brought by a peer that opens (RFC 9293 §3.3.2), seen from its side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    SynReceived,
    Established,
    FinWait1,
    FinWait2,
    Closing,
    TimeWait,
    CloseWait,
    LastAck,
}

impl State {
    pub const ALL: [State; 8] = [
        State::SynReceived,
        State::Established,
        State::FinWait1,
        State::FinWait2,
        State::Closing,
        State::TimeWait,
        State::CloseWait,
        State::LastAck,
    ];

    pub fn name(self) -> &'static str {
        match self {
            State::SynReceived => "SYN-RECEIVED",
            State::Established => "ESTABLISHED",
            State::FinWait1 => "FIN-WAIT-1",
            State::FinWait2 => "FIN-WAIT-2",
            State::Closing => "CLOSING",
            State::TimeWait => "TIME-WAIT",
            State::CloseWait => "CLOSE-WAIT",
            State::LastAck => "LAST-ACK",
        }
    }
}

/// A connection, its variables those of RFC 9293 §3.3.1.
pub struct Connection<'a> {
    pub peer: &'a mut Peer,
    pub local: u16,
    pub port: u16,
    pub snd_nxt: u32,
    pub rcv_nxt: u32,
    /// What is acknowledged: less than all that has come where a state asks for it.
    pub acked: u32,
    pub window: u16,
    /// What the SYN-ACK has offered, and its window.
    pub offered: Options,
    pub offered_window: u16,
    pub irs: u32,
    /// What the next timestamp says, and what it echoes.
    pub timestamps: Option<(u32, u32)>,
}

impl<'a> Connection<'a> {
    /// Sends a SYN, and takes the SYN-ACK: the stack is in SYN-RECEIVED.
    ///
    /// # Errors
    /// If none comes.
    pub fn half_open(peer: &'a mut Peer, open: &Open) -> Outcome<Connection<'a>> {
        let mut connection = Connection::called(peer, open)?;
        connection.take_syn_ack(open)?;
        Ok(connection)
    }

    /// Opens it, if the SYN is answered; what is dropped or refused is none.
    ///
    /// # Errors
    /// If something else comes.
    pub fn open_if_answered(peer: &'a mut Peer, open: &Open) -> Outcome<Option<Connection<'a>>> {
        let mut connection = Connection::called(peer, open)?;
        let is_refusal = |seen: &Seen| seen.tcp().is_some_and(|s| s.control() & RST != 0);
        if connection.peer.peek(SILENCE)?.is_none_or(is_refusal) {
            connection.peer.clear();
            return Ok(None);
        }
        connection.take_syn_ack(open)?;
        connection.send(&connection.segment(ACK))?;
        Ok(Some(connection))
    }

    /// Sends a SYN.
    fn called(peer: &'a mut Peer, open: &Open) -> Outcome<Connection<'a>> {
        let mut options = open.options.clone();
        if let Some(value) = open.timestamps {
            options.extend(option::timestamps(value, 0));
        }
        let mut connection = Connection {
            local: peer.port(),
            peer,
            port: open.port,
            snd_nxt: open.iss,
            rcv_nxt: 0,
            acked: 0,
            window: open.window,
            offered: Options::default(),
            offered_window: 0,
            irs: 0,
            timestamps: None,
        };
        let syn = connection.segment(SYN).ack(0).options(options);
        connection.peer.send_segment(&syn)?;
        connection.snd_nxt = open.iss.wrapping_add(1);
        Ok(connection)
    }

    /// The next segment must be the SYN-ACK of this SYN.
    fn take_syn_ack(&mut self, open: &Open) -> Outcome {
        let (local, snd_nxt) = (self.local, self.snd_nxt);
        let what = format!("a SYN-ACK that acknowledges {snd_nxt}");
        let seen = self.peer.expect(&what, |seen| {
            let is = |s: &Arrived| {
                s.control() == SYN | ACK && s.ack == snd_nxt && s.destination == local
            };
            seen.tcp().is_some_and(is)
        })?;
        let Some(syn_ack) = seen.tcp() else {
            return Err(Failure::new(what, seen.to_string()));
        };
        self.irs = syn_ack.seq;
        self.rcv_nxt = syn_ack.end();
        self.acked = self.rcv_nxt;
        self.offered = syn_ack.options.clone();
        self.offered_window = syn_ack.window;
        if let (Some(ours), Some((theirs, _))) = (open.timestamps, syn_ack.options.timestamps) {
            self.timestamps = Some((ours.wrapping_add(1), theirs));
        }
        Ok(())
    }

    /// Opens it.
    ///
    /// # Errors
    /// If the stack does not.
    pub fn open(peer: &'a mut Peer, open: &Open) -> Outcome<Connection<'a>> {
        let mut connection = Connection::half_open(peer, open)?;
        connection.send(&connection.segment(ACK))?;
        Ok(connection)
    }

    /// Brings the stack into a state.
    ///
    /// # Errors
    /// If it does not go there.
    pub fn in_state(peer: &'a mut Peer, state: State, iss: u32) -> Outcome<Connection<'a>> {
        match state {
            State::SynReceived => Connection::half_open(peer, &Open::to(ECHO).iss(iss)),
            State::Established => Connection::open(peer, &Open::to(ECHO).iss(iss)),
            State::FinWait1 | State::FinWait2 | State::Closing | State::TimeWait => {
                let mut connection = Connection::open(peer, &Open::to(DAYTIME).iss(iss))?;
                connection.take_to_fin()?;
                if matches!(state, State::FinWait2 | State::TimeWait) {
                    connection.acked = connection.rcv_nxt;
                    connection.send(&connection.segment(ACK))?;
                }
                if matches!(state, State::Closing | State::TimeWait) {
                    connection.send_fin()?;
                    connection.expect_ack()?;
                }
                Ok(connection)
            }
            State::CloseWait => {
                // So much waits for its acknowledgment that no more leaves, nor the FIN behind it.
                let open = Open::to(CHARGEN).iss(iss).window(1000);
                let mut connection = Connection::open(peer, &open)?;
                connection.acked = connection.rcv_nxt;
                connection.take_octets(1000)?;
                connection.send_fin()?;
                connection.expect_ack()?;
                Ok(connection)
            }
            State::LastAck => {
                let mut connection = Connection::open(peer, &Open::to(ECHO).iss(iss))?;
                connection.send_fin()?;
                connection.take_to_fin()?;
                Ok(connection)
            }
        }
    }

    /// A segment with these bits where the connection stands, with the options that it has agreed on.
    pub fn segment(&self, flags: u8) -> Segment {
        let options = self.timestamps.map_or(Vec::new(), |(value, echo)| {
            [
                &option::NOP[..],
                &option::NOP,
                &option::timestamps(value, echo),
            ]
            .concat()
        });
        Segment {
            source: self.local,
            destination: self.port,
            seq: self.snd_nxt,
            ack: if flags & ACK != 0 { self.acked } else { 0 },
            flags,
            window: self.window,
            urgent: 0,
            options,
            text: Vec::new(),
        }
    }

    /// Sends a segment; nothing is remembered of it.
    pub fn send(&mut self, segment: &Segment) -> Outcome {
        self.peer.send_segment(segment)
    }

    /// Sends text, and goes on behind it.
    pub fn send_text(&mut self, text: &[u8]) -> Outcome {
        let segment = self.segment(ACK | PSH).text(text);
        self.snd_nxt = self.snd_nxt.wrapping_add(segment.len());
        self.send(&segment)
    }

    /// Sends a FIN, and goes on behind it.
    pub fn send_fin(&mut self) -> Outcome {
        let segment = self.segment(ACK | FIN);
        self.snd_nxt = self.snd_nxt.wrapping_add(1);
        self.send(&segment)
    }

    /// Acknowledges all that has come.
    pub fn acknowledge(&mut self) -> Outcome {
        self.acked = self.rcv_nxt;
        self.send(&self.segment(ACK))
    }

    /// The next segment of this connection that is not one sent again, and when it came.
    ///
    /// # Errors
    /// If another packet comes, or none.
    pub fn next(&mut self, what: &str) -> Outcome<(Instant, Arrived)> {
        let until = Instant::now() + PATIENCE;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            let Some((at, seen)) = self.peer.next(left) else {
                return Err(Failure::new(what, "nothing"));
            };
            let segment = match seen.tcp() {
                Some(segment)
                    if (segment.source, segment.destination) == (self.port, self.local) =>
                {
                    segment
                }
                _ => return Err(Failure::new(what, seen.to_string())),
            };
            if self.is_again(segment) {
                continue;
            }
            if let (Some((_, echo)), Some((value, _))) =
                (&mut self.timestamps, segment.options.timestamps)
            {
                *echo = value;
            }
            return Ok((at, segment.clone()));
        }
    }

    /// Whether all of a segment has come before, or it probes our closed window: timers send while a case thinks.
    fn is_again(&self, segment: &Arrived) -> bool {
        let behind = self.rcv_nxt.wrapping_sub(segment.end()) as i32;
        let is_old = segment.len() > 0 && segment.control() & RST == 0 && behind >= 0;
        let is_probe = self.window == 0
            && segment.control() == ACK
            && (behind == 1 || segment.text.len() == 1);
        is_old || is_probe
    }

    /// The next segment must have these bits, PSH apart, and pass.
    ///
    /// # Errors
    /// If it does not.
    pub fn expect(
        &mut self,
        what: &str,
        control: u8,
        is: impl Fn(&Arrived) -> bool,
    ) -> Outcome<Arrived> {
        let (_, segment) = self.next(what)?;
        if segment.control() == control && is(&segment) {
            return Ok(segment);
        }
        let seen = format!(
            "{} seq {} ack {} window {} {} octets {:?}",
            bits(segment.flags),
            segment.seq,
            segment.ack,
            segment.window,
            segment.text.len(),
            segment.options
        );
        Err(Failure::new(what, seen))
    }

    /// The next segment must be an ACK of all that was sent: <SEQ=SND.NXT><ACK=RCV.NXT><CTL=ACK>.
    ///
    /// # Errors
    /// If it is not.
    pub fn expect_ack(&mut self) -> Outcome<Arrived> {
        let (seq, ack) = (self.rcv_nxt, self.snd_nxt);
        let what = format!("ACK seq {seq} ack {ack} without text");
        self.expect(&what, ACK, |s| {
            s.seq == seq && s.ack == ack && s.text.is_empty()
        })
    }

    /// The next segment must be a RST with this number and, where it has one, this acknowledgment.
    ///
    /// # Errors
    /// If it is not.
    pub fn expect_rst(&mut self, seq: u32, ack: Option<u32>) -> Outcome {
        let control = if ack.is_some() { RST | ACK } else { RST };
        let what = format!("{} seq {seq} {ack:?}", bits(control));
        let is =
            |s: &Arrived| s.seq == seq && ack.is_none_or(|ack| ack == s.ack) && s.text.is_empty();
        self.expect(&what, control, is).map(drop)
    }

    /// Takes so many octets, in order, with what acknowledgments come between; a FIN behind the last is left to who waits for one.
    ///
    /// # Errors
    /// If they do not come.
    pub fn take_octets(&mut self, len: usize) -> Outcome<Vec<u8>> {
        let mut text = Vec::new();
        while text.len() < len {
            let rcv_nxt = self.rcv_nxt;
            let what = format!("text at {rcv_nxt}, {} octets of {len} so far", text.len());
            let segment = self.expect(&what, ACK, |s| s.seq == rcv_nxt)?;
            self.rcv_nxt = segment.end();
            text.extend(segment.text);
        }
        Ok(text)
    }

    /// Takes what comes up to a FIN, in order.
    ///
    /// # Errors
    /// If it does not come.
    pub fn take_to_fin(&mut self) -> Outcome<Vec<u8>> {
        let mut text = Vec::new();
        loop {
            let rcv_nxt = self.rcv_nxt;
            let (_, segment) = self.next("text or a FIN")?;
            if segment.control() & !FIN != ACK || segment.seq != rcv_nxt {
                let what = format!("text or a FIN at {rcv_nxt}");
                return Err(Failure::new(
                    what,
                    format!("{} at {}", bits(segment.flags), segment.seq),
                ));
            }
            self.rcv_nxt = segment.end();
            text.extend(&segment.text);
            if segment.flags & FIN != 0 {
                return Ok(text);
            }
        }
    }

    /// Text comes back from the echo service, and is acknowledged.
    ///
    /// # Errors
    /// If it does not, or comes otherwise.
    pub fn expect_echo(&mut self, text: &[u8]) -> Outcome {
        let came = self.take_octets(text.len())?;
        if came != text {
            return Err(Failure::new("the text that was sent", "other text"));
        }
        self.acknowledge()
    }

    /// Sends text that must come back.
    ///
    /// # Errors
    /// If it does not.
    pub fn echo(&mut self, text: &[u8]) -> Outcome {
        self.send_text(text)?;
        self.expect_echo(text)
    }

    /// The stack still has the connection, where we think it stands: an old octet is answered by an ACK (RFC 9293 §3.10.7.4, first check).
    ///
    /// # Errors
    /// If it has not.
    pub fn expect_alive(&mut self) -> Outcome {
        let probe = self.segment(ACK).seq(self.snd_nxt.wrapping_sub(1));
        self.send(&probe)?;
        self.expect_ack().map(drop)
    }

    /// The stack has the connection no more, and has said nothing of it: a segment is answered as where there is none (RFC 9293 §3.10.7.1, §3.10.7.2).
    ///
    /// # Errors
    /// If it has.
    pub fn expect_gone(&mut self) -> Outcome {
        self.expect_silence()?;
        let probe = self.segment(ACK);
        let seq = probe.ack;
        self.send(&probe)?;
        self.expect_rst(seq, None)
    }

    /// Nothing may have come but what was sent again.
    ///
    /// # Errors
    /// If something has.
    pub fn expect_silence(&mut self) -> Outcome {
        self.peer.settle()?;
        while let Some((_, seen)) = self.peer.next(Duration::ZERO) {
            if !seen.tcp().is_some_and(|segment| self.is_again(segment)) {
                return Err(Failure::new("nothing", seen.to_string()));
            }
        }
        Ok(())
    }
}
