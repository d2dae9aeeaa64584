//! Plays a script against a host, step by step.

use crate::Script;
use crate::exchange::{Details, Failure, Happening};
use crate::host::{Answer, Call, Host};
use crate::packet::{self, Bases, Packet};
use crate::segment::{self, ANY, Cookie, Said, Segment, flag};
use std::time::Duration;

/// A script that is being played.
pub struct Play<'a> {
    script: &'a Script,
    host: &'a mut dyn Host,
    bases: Bases,
    /// When the last step was.
    last: Duration,
    /// When the next is to be, if it is not at once.
    next: When,
    /// Bytes that the user has sent and received so far.
    sent: usize,
    received: usize,
    steps: usize,
    exchange: Vec<(Duration, Happening)>,
}

/// When the next step is to be.
#[derive(Clone, Copy, PartialEq, Eq)]
enum When {
    AtOnce,
    After(Duration),
    Within(Duration),
}

/// The peer's SYN: near the end of the space, so that every script wraps.
const PEER_ISN: u32 = u32::MAX - 700;

impl<'a> Play<'a> {
    /// Plays `script` against `host`.
    ///
    /// # Errors
    /// If the host does not do as it says.
    pub fn run(script: &'a Script, host: &'a mut dyn Host) -> Result<(), Failure> {
        let mut play = Play {
            last: host.now(),
            script,
            host,
            bases: Bases {
                peer: PEER_ISN,
                ..Bases::default()
            },
            next: When::AtOnce,
            sent: 0,
            received: 0,
            steps: 0,
            exchange: Vec::new(),
        };
        (script.steps)(&mut play)
    }

    /// A segment arrives.
    ///
    /// # Errors
    /// If the host has sent something that was not expected.
    pub fn arrives(&mut self, segment: Segment) -> Result<(), Failure> {
        let line = format!("<- {segment}");
        self.pass(&line)?;
        let (host, peer) = self.host.ends();
        let bytes = packet::build(&segment, self.bases, peer, host);
        self.happened(Happening::In(format!(" {segment} ")));
        self.host.arrives(&bytes);
        Ok(())
    }

    /// A segment is to leave.
    ///
    /// # Errors
    /// If none does when it should, or another.
    pub fn leaves(&mut self, expected: Segment) -> Result<(), Failure> {
        self.steps += 1;
        let line = format!("-> {expected}");
        let timing = self.host.punctuality();
        let (earliest, latest) = match std::mem::replace(&mut self.next, When::AtOnce) {
            When::AtOnce => (self.last, self.last + timing.at_once),
            When::After(time) => {
                let due = self.last + time;
                (due.saturating_sub(timing.early), due + timing.late)
            }
            When::Within(time) => (self.last, self.last + time + timing.late),
        };
        // What is at once is so from now on, however long the steps before took to be played.
        let latest = latest.max(self.host.now() + timing.at_once);
        let Some((at, packet)) = self.take(latest, &line)? else {
            return Err(self.failed(&line, &expected, "nothing"));
        };
        let found = packet.as_segment(self.bases);
        self.happened_at(at, Happening::Out(format!(" {found} ")));
        if let Some(difference) = self.differs(&expected, &packet) {
            return Err(self.failed(&line, &expected, format!("{found}: {difference}")));
        }
        if at < earliest {
            let early = earliest - at;
            return Err(self.failed(&line, &expected, format!("it {early:?} too early")));
        }
        if let Some((value, _)) = packet.timestamps.filter(|(value, _)| *value != 0) {
            self.bases.host_ts = value;
        }
        if let Some(cookie) = &packet.fast_open {
            self.bases.keep_cookie(cookie);
        }
        self.last = at;
        Ok(())
    }

    /// The next step is so much later than the last one.
    pub fn after(&mut self, time: Duration) {
        self.next = When::After(time);
    }

    /// The next segment may leave at any time until then.
    pub fn within(&mut self, time: Duration) {
        self.next = When::Within(time);
    }

    /// Nothing leaves for so long.
    ///
    /// # Errors
    /// If something does.
    pub fn nothing_for(&mut self, time: Duration) -> Result<(), Failure> {
        self.next = When::After(time);
        self.pass(&format!("nothing for {time:?}"))
    }

    /// A user calls, and it answers so, if it matters.
    ///
    /// # Errors
    /// If it does not.
    pub fn calls(&mut self, call: Call, wanted: Result<Option<i64>, &str>) -> Result<(), Failure> {
        let line = match &wanted {
            Ok(None) => format!("{call:?}"),
            Ok(Some(number)) => format!("{call:?} == {number}"),
            Err(error) => format!("{call:?} fails {error}"),
        };
        self.pass(&line)?;
        let bytes = match call {
            Call::Send(len) | Call::SendMore(len) | Call::ConnectWith(len) => {
                packet::contents(1 + self.sent as i64, len)
            }
            _ => Vec::new(),
        };
        let answer = self.host.call(&call, &bytes);
        let shown = match &answer {
            Ok(Answer::Number(number)) => number.to_string(),
            Ok(Answer::Bytes(bytes)) => format!("{} bytes", bytes.len()),
            Err(error) => error.clone(),
        };
        self.happened(Happening::Call(format!("{call:?} = {shown}")));
        match (answer, wanted) {
            (Err(error), Err(wanted)) if error == wanted => Ok(()),
            (Ok(answer), Ok(wanted)) => self.check(&call, &line, answer, wanted),
            (_, Ok(_)) => Err(self.failed(&line, "success", shown)),
            (_, Err(wanted)) => Err(self.failed(&line, wanted, shown)),
        }
    }

    /// A passive opening: the host listens, this SYN arrives, and the connection is accepted. The acknowledgment comes 10 ms later,
    /// which is the round trip that is measured, with a timestamp one later than the SYN's.
    ///
    /// # Errors
    /// If the host does not do its part.
    pub fn opened(&mut self, syn: Segment) -> Result<(), Failure> {
        let timestamp = match &syn.options.timestamps {
            Said::There(timestamps) => Some(timestamps.value),
            _ => None,
        };
        self.calls(Call::Listen(8), Ok(None))?;
        self.arrives(syn)?;
        self.leaves(segment::syn_ack(0, 1))?;
        let ack = segment::ack(1, 1);
        self.after(Duration::from_millis(10));
        self.arrives(timestamp.map_or(ack.clone(), |value| ack.ts(value.wrapping_add(1))))?;
        self.calls(Call::Accept, Ok(None))
    }

    /// The next SYN of the host's is another connection's, from which its sequence numbers count.
    pub fn renewed(&mut self) {
        self.bases.host = None;
        self.bases.host_ts = 0;
        (self.sent, self.received) = (0, 0);
    }

    /// The end: nothing more leaves.
    ///
    /// # Errors
    /// If something does, or a time was given for a step that does not come.
    pub fn is_over(&mut self) -> Result<(), Failure> {
        assert!(self.next == When::AtOnce, "a time without a step");
        let until = self.host.now() + self.host.punctuality().linger;
        self.steps += 1;
        self.quiet_until(until, "the end")
    }

    /// Compares what a call has answered, and the bytes that came.
    fn check(
        &mut self,
        call: &Call,
        line: &str,
        answer: Answer,
        wanted: Option<i64>,
    ) -> Result<(), Failure> {
        let number = match &answer {
            Answer::Number(number) => *number,
            Answer::Bytes(bytes) => bytes.len() as i64,
        };
        let wanted = match (call, wanted) {
            (Call::Send(len) | Call::SendMore(len) | Call::ConnectWith(len), None) => {
                Some(*len as i64)
            }
            (Call::Error, None) => Some(0),
            _ => wanted,
        };
        if let Some(wanted) = wanted
            && wanted != number
        {
            return Err(self.failed(line, wanted, number));
        }
        if let Answer::Bytes(bytes) = answer {
            let right = packet::contents(1 + self.received as i64, bytes.len());
            if bytes != right {
                return Err(self.failed(line, "the bytes that were sent", "others"));
            }
            if let Call::Recv(_) = call {
                self.received += bytes.len();
            }
        }
        if let Call::Send(_) | Call::SendMore(_) | Call::ConnectWith(_) = call {
            self.sent += number as usize;
        }
        Ok(())
    }

    /// Comes to the time of a step before which nothing may leave.
    fn pass(&mut self, line: &str) -> Result<(), Failure> {
        self.steps += 1;
        let until = match std::mem::replace(&mut self.next, When::AtOnce) {
            When::After(time) => self.last + time,
            When::Within(_) => panic!("`within` is for a segment that leaves"),
            When::AtOnce => self.last,
        };
        self.quiet_until(until, line)?;
        self.last = self.host.now();
        Ok(())
    }

    fn quiet_until(&mut self, until: Duration, line: &str) -> Result<(), Failure> {
        match self.take(until, line)? {
            None => Ok(()),
            Some((at, packet)) => {
                let found = packet.as_segment(self.bases);
                self.happened_at(at, Happening::Out(format!(" {found} ")));
                Err(self.failed(line, "nothing to be sent before", found))
            }
        }
    }

    /// The next TCP segment that the host sends.
    fn take(&mut self, until: Duration, line: &str) -> Result<Option<(Duration, Packet)>, Failure> {
        while let Some((at, bytes)) = self.host.leaves(until) {
            match Packet::parse(&bytes) {
                Ok(packet) => {
                    let is_syn = packet.flags & flag::SYN != 0;
                    if is_syn && self.bases.host.is_none() {
                        self.bases.host = Some(packet.seq);
                    }
                    return Ok(Some((at, packet)));
                }
                Err(None) => {}
                Err(Some(wrong)) => return Err(self.failed(line, "a sound packet", wrong)),
            }
        }
        Ok(None)
    }

    /// In what a segment is not as expected.
    fn differs(&self, expected: &Segment, packet: &Packet) -> Option<String> {
        let found = packet.as_segment(self.bases);
        let (host, peer) = self.host.ends();
        if packet.from != host || packet.to != peer {
            return Some(format!("it goes from {} to {}", packet.from, packet.to));
        }
        let free = u8::from(expected.is_ack_free) * flag::ACK;
        if found.flags | free != expected.flags | free || found.ae != expected.ae {
            return Some("its flags".to_owned());
        }
        let is_wrong = |expected: i64, found: i64| expected != ANY && expected != found;
        // A RST without ACK answers a segment of no connection: it counts from nothing.
        if is_wrong(expected.seq, found.seq) && self.bases.host.is_some() {
            return Some("its sequence number".to_owned());
        }
        if self.bases.host.is_none() && expected.seq != ANY {
            let absolute = packet.seq.wrapping_sub(0) as i32;
            if i64::from(absolute) != expected.seq {
                return Some(format!("its sequence number is {absolute}"));
            }
        }
        if expected.flags & flag::ACK != 0 && is_wrong(expected.ack, found.ack) {
            return Some("its acknowledgment".to_owned());
        }
        if expected.len != found.len {
            return Some("its length".to_owned());
        }
        if expected.window.is_some() && expected.window != found.window {
            return Some("its window".to_owned());
        }
        if expected.push == Some(true) && found.push != Some(true) {
            return Some("no PSH".to_owned());
        }
        if expected.urgent.is_some() && expected.urgent != found.urgent {
            return Some("its urgent pointer".to_owned());
        }
        if expected.ecn.is_some() && expected.ecn != found.ecn {
            return Some("its ECN field".to_owned());
        }
        if expected.dscp.is_some() && expected.dscp != found.dscp {
            return Some("its Differentiated Services Code Point".to_owned());
        }
        if expected.ttl.is_some() && expected.ttl != found.ttl {
            return Some("its TTL".to_owned());
        }
        let first = packet::first_place(found.flags, found.seq);
        if packet.payload != packet::contents(first, found.len) {
            return Some("its bytes are not what was sent".to_owned());
        }
        self.differs_in_options(expected, packet)
    }

    fn differs_in_options(&self, expected: &Segment, packet: &Packet) -> Option<String> {
        let said = &expected.options;
        let found = packet.as_segment(self.bases).options;
        let blocks = match &found.sack {
            Said::There(blocks) => Some(blocks),
            _ => None,
        };
        let sack_permitted = packet.sack_permitted.then_some(());
        let checks = [
            ("MSS", said.mss.admits(packet.mss.as_ref(), u16::eq)),
            (
                "window scale",
                said.window_scale
                    .admits(packet.window_scale.as_ref(), u8::eq),
            ),
            (
                "SACK-permitted",
                said.sack_permitted
                    .admits(sack_permitted.as_ref(), |(), ()| true),
            ),
            (
                "echo of a timestamp",
                said.timestamps
                    .admits(packet.timestamps.as_ref(), |said, (_, echo)| {
                        said.echo == *echo
                    }),
            ),
            (
                "cookie",
                said.fast_open
                    .admits(packet.fast_open.as_ref(), |said, found| match said {
                        Cookie::Bytes(bytes) => bytes == found,
                        Cookie::OfHost => !found.is_empty(),
                    }),
            ),
            (
                "SACK blocks",
                said.sack.admits(blocks, |said, found| said == found),
            ),
            (
                "timestamp, which goes back",
                packet.timestamps.is_none_or(|(value, _)| {
                    // A RST that answers a segment says 0 (RFC 7323 §5.2).
                    let is_of_none = value == 0 && packet.flags & flag::RST != 0;
                    self.bases.host_ts == 0
                        || is_of_none
                        || value.wrapping_sub(self.bases.host_ts) as i32 >= 0
                }),
            ),
        ];
        let wrong = checks.into_iter().find(|(_, is_right)| !is_right);
        wrong.map(|(what, _)| format!("its {what}"))
    }

    fn happened(&mut self, what: Happening) {
        self.happened_at(self.host.now(), what);
    }

    fn happened_at(&mut self, at: Duration, what: Happening) {
        self.exchange.push((at, what));
    }

    fn failed(&mut self, line: &str, expected: impl ToString, got: impl ToString) -> Failure {
        Failure(Box::new(Details {
            script: self.script.name,
            file: self.script.file,
            step: (self.steps, line.to_owned()),
            expected: expected.to_string(),
            got: got.to_string(),
            host: self.host.name(),
            exchange: std::mem::take(&mut self.exchange),
        }))
    }
}
