//! What the far end's application does: the same in every run, though never at the same moments.

use crate::random::Random;
use crate::recorder::{DISCARD, ECHO, GREET, GREETING, NOBODY, Record};
use braidnet::{CloseReason, Connection, Event, Stack};

/// How far the script has come.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Scene {
    /// Every connection is opened, and the first half of the data sent.
    Opening,
    /// The second half, behind whatever was done to the connections in between.
    Data,
    /// Every connection ends, each in its way.
    Ending,
}

/// How a connection ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Ending {
    /// Closed once everything has come back.
    Closed,
    /// Closed right behind the last byte sent.
    ClosedAtOnce,
    /// Reset.
    Aborted,
}

struct Call {
    connection: Connection,
    port: u16,
    service: u16,
    data: Vec<u8>,
    sent: usize,
    ending: Ending,
    ended: bool,
    gone: bool,
    /// Draws the sizes of its reads and writes, and the next of each: drawn once, however often they are tried.
    random: Random,
    next_read: usize,
    next_write: usize,
    /// What it received and was told.
    record: Record,
}

pub struct Script {
    pub scene: Scene,
    calls: Vec<Call>,
}

/// How long the script is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Length {
    /// Fourteen connections, and up to 73,000 bytes on each.
    Whole,
    /// As many, and up to a million bytes on each: long enough for loads to be lasting.
    #[cfg_attr(
        shuttle,
        expect(dead_code, reason = "for threads that the system schedules")
    )]
    Long,
    /// Five, and some thousand bytes.
    #[cfg_attr(
        not(shuttle),
        expect(dead_code, reason = "for runs whose every step is looked at")
    )]
    Short,
}

/// The service that each connection calls and the data that it sends there, in the order of their ports.
pub fn calls(length: Length) -> impl Iterator<Item = (u16, Vec<u8>)> {
    let services = [ECHO, DISCARD, ECHO, GREET, ECHO, NOBODY, DISCARD];
    let (order, connections, least, more) = match length {
        Length::Whole => ([0, 1, 2, 3, 4, 5, 6], 14, 8_000, 5_000),
        Length::Long => ([0, 1, 2, 3, 4, 5, 6], 14, 350_000, 50_000),
        Length::Short => ([0, 1, 3, 5, 2, 4, 6], 5, 3_000, 700),
    };
    (0..connections).map(move |at| {
        let service = services[order[at % order.len()]];
        let len = match service {
            ECHO | DISCARD => least + more * at,
            _ => 0,
        };
        (service, Random::new(at as u64).bytes(len))
    })
}

impl Script {
    /// Opens every connection. `seed` draws the sizes of reads and writes; what is sent is always the same.
    pub fn open(far: &mut Stack, length: Length, seed: u64) -> Script {
        let endings = [Ending::Closed, Ending::ClosedAtOnce, Ending::Aborted];
        let calls = calls(length)
            .enumerate()
            .map(|(at, (service, data))| {
                let to = format!("10.0.0.2:{service}").parse().expect("an address");
                let connection = far.connect(to).expect("there is room");
                let port = far.tuple(connection).expect("it is known").local_port;
                Call {
                    connection,
                    port,
                    service,
                    data,
                    sent: 0,
                    ending: endings[at % endings.len()],
                    ended: false,
                    gone: false,
                    random: Random::new(seed.wrapping_mul(100) + at as u64),
                    next_read: 1,
                    next_write: 1,
                    record: Record::default(),
                }
            })
            .collect();
        Script {
            scene: Scene::Opening,
            calls,
        }
    }

    /// A connection to the echo service that stays open to the last scene.
    pub fn target(&self) -> u16 {
        self.calls[0].port
    }

    /// What the far end saw of each connection, by its port.
    pub fn records(&self) -> impl Iterator<Item = (u16, Record)> + '_ {
        self.calls
            .iter()
            .map(|call| (call.port, call.record.clone()))
    }

    /// How far each connection is.
    pub fn describe(&self) -> String {
        let of = |call: &Call| {
            let Call {
                port,
                service,
                sent,
                data,
                gone,
                record,
                ..
            } = call;
            format!(
                "{port} to {service}: {sent} of {} sent, {} back, gone {gone}",
                data.len(),
                record.bytes.len()
            )
        };
        self.calls.iter().map(of).collect::<Vec<_>>().join("; ")
    }

    /// One step of the application; says whether it did anything.
    pub fn step(&mut self, far: &mut Stack) -> bool {
        let mut busy = self.hear(far);
        let scene = self.scene;
        for call in &mut self.calls {
            busy |= call.read(far);
            busy |= call.write(far, scene);
        }
        busy
    }

    fn hear(&mut self, far: &mut Stack) -> bool {
        let mut heard = false;
        while let Some(event) = far.event() {
            heard = true;
            let (connection, name) = match event {
                Event::Connected(connection) => (connection, "connected"),
                Event::Urgent(connection) => (connection, "urgent"),
                Event::Silent(connection, _) => (connection, "silent"),
                Event::EndOfData(connection) => (connection, "end of data"),
                Event::Closed(connection, CloseReason::Closed) => (connection, "closed"),
                Event::Closed(connection, CloseReason::Refused) => (connection, "refused"),
                Event::Closed(connection, _) => (connection, "reset"),
                Event::Accepted(_) => panic!("nobody calls the far end"),
            };
            let Some(call) = self
                .calls
                .iter_mut()
                .find(|call| call.connection == connection && !call.gone)
            else {
                continue;
            };
            // Everything before the event has come; what has not been read is read first.
            call.read_all(far);
            call.gone = matches!(event, Event::Closed(..));
            call.record.events.push((name, call.record.bytes.len()));
        }
        heard
    }

    /// Whether the scene is over, as far as the far end can tell. `discarded` says how many bytes the discard service has
    /// of a port.
    pub fn is_over(&self, discarded: impl Fn(u16) -> usize) -> bool {
        self.calls.iter().all(|call| {
            if self.scene == Scene::Ending {
                return call.gone;
            }
            let target = call.target(self.scene);
            match call.service {
                ECHO => call.record.bytes.len() == target,
                DISCARD => discarded(call.port) == target,
                GREET => call.record.bytes.len() == GREETING.len(),
                _ => call.gone,
            }
        })
    }
}

impl Call {
    /// How much of the data is sent by the end of a scene.
    fn target(&self, scene: Scene) -> usize {
        if scene == Scene::Opening {
            self.data.len() / 2
        } else {
            self.data.len()
        }
    }

    fn read(&mut self, far: &mut Stack) -> bool {
        let mut buffer = vec![0; self.next_read];
        match far.receive(self.connection, &mut buffer) {
            Ok(n) if n > 0 && !self.gone => {
                self.record.bytes.extend(&buffer[..n]);
                self.next_read = self.random.sized(20_000) as usize;
                true
            }
            _ => false,
        }
    }

    fn read_all(&mut self, far: &mut Stack) {
        let mut buffer = [0; 4096];
        while let Ok(n @ 1..) = far.receive(self.connection, &mut buffer) {
            self.record.bytes.extend(&buffer[..n]);
        }
    }

    fn write(&mut self, far: &mut Stack, scene: Scene) -> bool {
        if self.gone {
            return false;
        }
        let target = self.target(scene);
        if self.sent < target {
            let piece = self.next_write.min(target - self.sent);
            let sent = far
                .send(self.connection, &self.data[self.sent..self.sent + piece])
                .unwrap_or(0);
            self.sent += sent;
            if sent > 0 {
                self.next_write = self.random.sized(20_000) as usize;
            }
            return sent > 0;
        }
        let at_once = self.ending == Ending::ClosedAtOnce && scene == Scene::Data;
        if self.ended || self.service == NOBODY || !(scene == Scene::Ending || at_once) {
            return false;
        }
        self.ended = true;
        if self.ending == Ending::Aborted && self.service != GREET {
            far.abort(self.connection);
            self.gone = true;
            self.record
                .events
                .push(("aborted", self.record.bytes.len()));
        } else {
            far.close(self.connection);
        }
        true
    }
}
