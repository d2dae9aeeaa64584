//! A host: an engine, an application that writes, reads, pauses and closes, a clock that moves in steps, and a device
//! that gathers packets.

use crate::case::{Side, largest_receive_buffer, nanos_of};
use crate::chunk::{Chunk, Ledger};
use crate::fault::Fault;
use crate::link::{ADDRESSES, Link, Packet};
use crate::oracle::{Law, Oracle, Verdict, demand};
use crate::random::Random;
use crate::trace::Trace;
use braidnet_tcp::{Events, Listen, Outlet, Payload, State, Tcb, Transmit, listen, reset_for};
use braidnet_wire::checksum::Sum;
use braidnet_wire::seq::SeqNumber;
use braidnet_wire::tcp::{self, TcpHeader};
use braidnet_wire::time::Instant;
use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::Arc;

/// More segments than any poll has to say at once.
const ENDLESS: usize = 200_000;
/// Faults are planted once so many bytes have been delivered, or segments sent.
const FAULT_AFTER: usize = 3;

pub struct Host {
    at: usize,
    side: Side,
    /// `None` while it listens.
    tcb: Option<Tcb<Chunk>>,
    ledger: Rc<Ledger>,
    random: Random,
    /// Packets that the device has gathered.
    inbox: VecDeque<Packet>,
    /// When it looks at its device, its timers; when its application writes and reads.
    look_at: Option<u64>,
    timer: Option<(Instant, u64)>,
    write_at: Option<u64>,
    read_at: Option<u64>,
    released: usize,
    events: Events,
    segments_sent: usize,
    pub segments_repeated: u64,
    time_wait_since: Option<u64>,
    fault: Option<Fault>,
    fault_done: bool,
}

/// Bytes released, delivered and taken by the application, and the state.
pub type Progress = (usize, usize, usize, Option<State>);

/// What one step works with beside the host.
pub struct World<'a> {
    pub now: u64,
    pub link: &'a mut Link,
    pub oracle: &'a mut Oracle,
    pub trace: &'a mut Trace,
    /// Nothing is demanded of the wire: headers are being changed.
    pub damaged: bool,
}

impl Host {
    pub fn new(at: usize, side: &Side, fault: Option<Fault>, random: Random) -> Host {
        Host {
            at,
            side: side.clone(),
            tcb: None,
            ledger: Rc::default(),
            random,
            inbox: VecDeque::new(),
            look_at: None,
            timer: None,
            write_at: None,
            read_at: None,
            released: 0,
            events: Events::empty(),
            segments_sent: 0,
            segments_repeated: 0,
            time_wait_since: None,
            fault,
            fault_done: false,
        }
    }

    /// Calls the other host.
    pub fn connect(&mut self, world: &mut World<'_>) -> Verdict {
        let now = self.clock(world.now);
        let tcb = Tcb::connect(
            &Arc::new(self.side.config),
            SeqNumber::new(self.side.iss),
            self.side.mss,
            now,
        );
        self.start(tcb);
        self.settle(world)
    }

    /// When it next has something to do.
    pub fn next(&self) -> Option<u64> {
        let timer = self.timer.map(|(_, at)| at);
        [self.look_at, timer, self.write_at, self.read_at]
            .into_iter()
            .flatten()
            .min()
    }

    /// Whether its connection has been and is over.
    pub fn is_closed(&self) -> bool {
        self.tcb
            .as_ref()
            .is_some_and(|tcb| tcb.state() == State::Closed)
    }

    pub fn state(&self) -> Option<State> {
        self.tcb.as_ref().map(Tcb::state)
    }

    /// What has been brought about; it grows while there is progress.
    pub fn progress(&self, oracle: &Oracle) -> Progress {
        let account = &oracle.accounts[self.at];
        (
            self.released,
            account.delivered,
            account.taken,
            self.state(),
        )
    }

    pub fn describe(&self) -> String {
        format!(
            "host {}: {:?}, {:?}",
            self.at,
            self.tcb.as_ref().map(Tcb::status),
            self.events
        )
    }

    /// The device has a packet.
    pub fn gather(&mut self, now: u64, packet: Packet) {
        self.inbox.push_back(packet);
        if self.look_at.is_none() {
            self.look_at = Some(now + self.random.below(self.side.coalescing + 1));
        }
    }

    /// Does what is due.
    pub fn turn(&mut self, world: &mut World<'_>) -> Verdict {
        let now = world.now;
        if self.look_at.is_some_and(|at| at <= now) {
            self.look_at = None;
            for _ in 0..self.side.batch {
                let Some(packet) = self.inbox.pop_front() else {
                    break;
                };
                self.arrive(world, packet)?;
            }
            if !self.inbox.is_empty() {
                self.look_at = Some(now);
            }
        }
        if self.timer.is_some_and(|(_, at)| at <= now) {
            self.expire(world)?;
        }
        if self.write_at.is_some_and(|at| at <= now) {
            self.write(world);
        }
        if self.read_at.is_some_and(|at| at <= now) {
            self.read(world);
        }
        self.settle(world)
    }

    /// The user gives up.
    pub fn abort(&mut self, world: &mut World<'_>) -> Verdict {
        if let Some(tcb) = &mut self.tcb {
            tcb.abort();
        }
        self.transmit(world)
    }

    fn start(&mut self, mut tcb: Tcb<Chunk>) {
        tcb.set_timestamp_offset(self.side.timestamp_offset);
        self.tcb = Some(tcb);
    }

    fn clock(&self, now: u64) -> Instant {
        let granularity = self.side.granularity;
        Instant::from_nanos((self.side.clock_start + now) / granularity * granularity)
    }

    /// When its clock shows `at` or later.
    fn when(&self, at: Instant) -> u64 {
        let granularity = self.side.granularity;
        let shown = at.nanos().div_ceil(granularity).saturating_mul(granularity);
        shown.saturating_sub(self.side.clock_start)
    }

    fn arrive(&mut self, world: &mut World<'_>, packet: Packet) -> Verdict {
        let from = 1 - self.at;
        if tcp::verify(&ADDRESSES[from], &ADDRESSES[self.at], &packet).is_err() {
            return Ok(());
        }
        let Ok(parsed) = tcp::parse(&packet) else {
            return Ok(());
        };
        let now = self.clock(world.now);
        let chunk = Chunk::new(packet, parsed.header_len, &self.ledger);
        let mut header = parsed.header;
        if !world.damaged {
            world.oracle.fed(self.at, &header, chunk.len());
        }
        if self.fault == Some(Fault::WindowIgnored) {
            header.window = u16::MAX;
        }
        let Some(tcb) = self.tcb.as_mut().filter(|tcb| tcb.state() != State::Closed) else {
            self.arrive_without_connection(world, &header, chunk.len() as u32);
            return Ok(());
        };
        let mut sink = Vec::new();
        let before = tcb.status();
        let outcome = tcb.on_segment(now, &header, Some(chunk), &mut sink);
        let after = tcb.status();
        if !world.damaged {
            world.oracle.measures(self.at, now, &before, &after)?;
        }
        let pieces = sink.into_iter().map(Chunk::into_bytes).collect();
        self.deliver(world, pieces)?;
        self.happened(world, outcome.events)?;
        // A caller may release at once, or when its run is over.
        if self.random.chance(500) {
            self.release(world)?;
        }
        Ok(())
    }

    /// It listens, or the connection is gone.
    fn arrive_without_connection(&mut self, world: &mut World<'_>, header: &TcpHeader, len: u32) {
        if self.tcb.is_none() && listen(header) == Listen::Accept {
            let now = self.clock(world.now);
            let iss = SeqNumber::new(self.side.iss);
            let tcb = Tcb::accept(&Arc::new(self.side.config), iss, self.side.mss, header, now);
            return self.start(tcb);
        }
        if let Some(reset) = reset_for(header, len) {
            world
                .link
                .send(world.now, 1 - self.at, packet(self.at, &reset, &[]));
        }
    }

    fn deliver(&mut self, world: &mut World<'_>, mut pieces: Vec<Vec<u8>>) -> Verdict {
        if world.oracle.accounts[self.at].delivered >= FAULT_AFTER
            && let Some(fault) = self.fault.filter(|_| !self.fault_done)
        {
            self.fault_done = fault.on_delivery(&mut pieces);
        }
        for piece in pieces {
            if world.damaged {
                world.oracle.accounts[self.at].delivered += piece.len();
            } else {
                world.oracle.delivers(self.at, &piece)?;
            }
        }
        Ok(())
    }

    fn happened(&mut self, world: &mut World<'_>, events: Events) -> Verdict {
        let at = self.at;
        let before = self.events;
        self.events |= events;
        if world.damaged {
            return Ok(());
        }
        let bad = Events::RESET | Events::REFUSED | Events::TIMED_OUT;
        demand(!events.intersects(bad), Law::Events, || {
            format!("host {at}: {events:?} after {before:?}")
        })?;
        let once = Events::CONNECTED | Events::END_OF_DATA | Events::CLOSED;
        demand(!events.intersects(before & once), Law::Events, || {
            format!("host {at}: {events:?} after {before:?}")
        })?;
        if events.contains(Events::END_OF_DATA) {
            world.oracle.ends(at)?;
        }
        Ok(())
    }

    fn release(&mut self, world: &mut World<'_>) -> Verdict {
        let Some(tcb) = &mut self.tcb else {
            return Ok(());
        };
        self.released += tcb.take_acked() as usize;
        tcb.take_send_growth();
        if world.damaged {
            return Ok(());
        }
        world.oracle.releases(self.at, self.released)
    }

    fn expire(&mut self, world: &mut World<'_>) -> Verdict {
        self.timer = None;
        let now = self.clock(world.now);
        let Some(tcb) = &mut self.tcb else {
            return Ok(());
        };
        let events = tcb.on_deadline(now);
        world.trace.timer(world.now, self.at, events);
        self.happened(world, events)
    }

    fn write(&mut self, world: &mut World<'_>) {
        self.write_at = None;
        let now = self.clock(world.now);
        let account = &mut world.oracle.accounts[self.at];
        let left = self.side.bytes - account.written;
        let Some(tcb) = &mut self.tcb else { return };
        if left == 0 {
            if !account.closed && tcb.state().may_send() {
                account.closed = true;
                tcb.close(now);
                world.trace.call(world.now, self.at, "close", 0);
            }
            return;
        }
        let most = left.min(tcb.send_space() as usize) as u64;
        let bytes = most.min(self.random.sized(self.side.write.most.min(1 << 40)));
        if bytes > 0 && tcb.send(bytes as u32) {
            account.written += bytes as usize;
            world.trace.call(world.now, self.at, "send", bytes);
        }
    }

    fn read(&mut self, world: &mut World<'_>) {
        self.read_at = None;
        let account = &mut world.oracle.accounts[self.at];
        let there = (account.delivered - account.taken) as u64;
        let bytes = there.min(self.random.sized(self.side.read.most.min(1 << 40)));
        if let Some(tcb) = &mut self.tcb {
            account.taken += bytes as usize;
            tcb.receive(bytes as u32);
            world.trace.call(world.now, self.at, "receive", bytes);
        }
    }

    /// After whatever happened: lets the engine speak, checks it, and sees what comes next.
    fn settle(&mut self, world: &mut World<'_>) -> Verdict {
        self.release(world)?;
        self.transmit(world)?;
        self.check(world)?;
        self.schedule(world);
        Ok(())
    }

    fn transmit(&mut self, world: &mut World<'_>) -> Verdict {
        let now = self.clock(world.now);
        for _ in 0..ENDLESS {
            let Some(tcb) = &mut self.tcb else {
                return Ok(());
            };
            let mut trains = Trains {
                side: &self.side,
                random: &mut self.random,
                sent: None,
            };
            tcb.transmit(now, &mut trains);
            let Some((train, first)) = trains.sent else {
                return Ok(());
            };
            for transmit in train.segments(first) {
                self.send(world, transmit)?;
            }
        }
        demand(false, Law::Endless, || {
            format!("host {} has {ENDLESS} segments to send at once", self.at)
        })
    }

    /// Puts a segment on the line.
    fn send(&mut self, world: &mut World<'_>, mut transmit: Transmit) -> Verdict {
        let now = self.clock(world.now);
        let Some(status) = self.tcb.as_ref().map(Tcb::status) else {
            return Ok(());
        };
        self.segments_sent += 1;
        self.segments_repeated += u64::from(transmit.retransmission);
        if self.segments_sent > FAULT_AFTER
            && let Some(fault) = self.fault.filter(|_| !self.fault_done)
        {
            self.fault_done = fault.on_transmit(&mut transmit.header);
        }
        let from = self.released + transmit.offset as usize;
        let data = match transmit.len as usize {
            0 => &[],
            len => &world.oracle.accounts[self.at].stream()[from..from + len],
        };
        let packet = packet(self.at, &transmit.header, data);
        world.trace.segment(world.now, self.at, &transmit, &status);
        if !world.damaged {
            let data = data.to_vec();
            world
                .oracle
                .sends(self.at, now, &transmit, &data, &status)?;
        }
        if self.fault != Some(Fault::Silence) || self.segments_sent < 2 * FAULT_AFTER {
            world.link.send(world.now, 1 - self.at, packet);
        }
        Ok(())
    }

    /// What is held, what is awaited, and how long TIME-WAIT lasts.
    fn check(&mut self, world: &mut World<'_>) -> Verdict {
        let Some(tcb) = &self.tcb else { return Ok(()) };
        let (status, deadline, config) = (tcb.status(), tcb.deadline(), &self.side.config);
        let (bytes, pieces) = (self.ledger.bytes.get(), self.ledger.pieces.get());
        let account = &world.oracle.accounts[self.at];
        let unread = account.delivered - account.taken;
        let what = || {
            format!(
                "host {}: {bytes} bytes in {pieces} pieces out of order, {status:?}",
                self.at
            )
        };
        demand(
            status.state == State::Closed || unread == status.unread_bytes as usize,
            Law::Memory,
            what,
        )?;
        let room = largest_receive_buffer(config) as usize;
        demand(bytes == 0 || bytes + unread <= room, Law::Memory, what)?;
        demand(
            pieces <= config.reassembly_segments as usize,
            Law::Memory,
            what,
        )?;
        let over = status.state == State::Closed;
        demand(!over || bytes == 0, Law::Memory, what)?;
        let awaits = status.snd_una != status.snd_nxt || status.unsent_bytes > 0;
        demand(over || !awaits || deadline.is_some(), Law::Progress, || {
            format!("host {} waits and no timer runs: {status:?}", self.at)
        })?;
        match (status.state, self.time_wait_since) {
            (State::TimeWait, None) => self.time_wait_since = Some(world.now),
            (State::Closed, Some(since)) if !world.damaged => {
                let stayed = world.now - since + self.side.granularity;
                let asked = nanos_of(config.time_wait);
                demand(stayed >= asked, Law::TimeWait, || {
                    format!("host {}: {stayed} of {asked} ns", self.at)
                })?;
            }
            _ => {}
        }
        Ok(())
    }

    fn schedule(&mut self, world: &mut World<'_>) {
        let now = world.now;
        let Some(tcb) = &self.tcb else { return };
        let deadline = tcb
            .deadline()
            .filter(|_| self.fault != Some(Fault::NoTimers));
        if self.timer.map(|(at, _)| at) != deadline {
            let late = self.random.below(self.side.lateness + 1);
            // A deadline that has come already waits for the clock to move, as it would for a real one.
            self.timer = deadline.map(|at| (at, self.when(at).max(now) + late));
        }
        let account = &world.oracle.accounts[self.at];
        let may_write = if account.written < self.side.bytes {
            tcb.send_space() > 0 && tcb.state().may_send()
        } else {
            // Before the peer is known, a close would give up what waits (RFC 9293 §3.10.4).
            let peer_done = !self.side.closes_last || self.events.contains(Events::END_OF_DATA);
            !account.closed && tcb.state() != State::SynSent && tcb.state().may_send() && peer_done
        };
        if may_write && self.write_at.is_none() {
            let earliest = if account.written < self.side.bytes {
                0
            } else {
                self.side.closes_at
            };
            let at = now + self.side.write.pause(&mut self.random);
            self.write_at = Some(at.max(earliest));
        }
        if account.taken < account.delivered
            && self.read_at.is_none()
            && tcb.state() != State::Closed
        {
            self.read_at = Some(now + self.side.read.pause(&mut self.random));
        }
    }
}

/// A device that takes one segment, or one train, and keeps how long the segments of it are.
struct Trains<'a> {
    side: &'a Side,
    random: &'a mut Random,
    sent: Option<(Transmit, u32)>,
}

impl Outlet for Trains<'_> {
    /// How long the first segment is, and how much there is in all.
    type Data = (u32, u32);

    /// Most callers end a segment where one of their buffers ends; some answer nonsense.
    fn cut(&mut self, _: u32, max: u32) -> (u32, (u32, u32)) {
        let len = match self.random.below(10) {
            0 => u32::MAX,
            1 => 0,
            _ => max.min(self.side.longest_cut),
        };
        let taken = len.clamp(1, max);
        (len, (taken, taken))
    }

    fn couple(&mut self, (first, all): &mut (u32, u32), _: u32, max: u32, room: u32) -> u32 {
        let mut coupled = 0;
        while coupled + max <= room && *all + *first <= self.side.longest_train {
            let len = match self.random.below(20) {
                0 => 0,
                1 => 1,
                _ => max.min(*first),
            };
            coupled += len;
            *all += len;
            if len < *first {
                break;
            }
        }
        coupled
    }

    fn transmit(&mut self, segment: Transmit, data: Option<(u32, u32)>) {
        if let Some((_, all)) = data {
            assert_eq!(segment.len, all, "the train is all that was coupled");
        }
        self.sent = Some((segment, data.map_or(0, |(first, _)| first)));
    }
}

/// A segment as it stands on the wire, from host `from`.
pub fn packet(from: usize, header: &TcpHeader, data: &[u8]) -> Packet {
    let header_len = tcp::header_len(header);
    let mut packet = vec![0; header_len + data.len()];
    packet[header_len..].copy_from_slice(data);
    let (here, there) = (&ADDRESSES[from], &ADDRESSES[1 - from]);
    let rest =
        Sum::pseudo_header(here, there, tcp::PROTOCOL, packet.len() as u32).combine(Sum::of(data));
    tcp::emit_sealed(header, 1 + from as u16, 2 - from as u16, rest, &mut packet);
    packet
}
