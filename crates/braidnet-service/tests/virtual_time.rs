//! The services over a wire in memory, in virtual time: what a peer can do to them, and what they do about time.
//!
//! Client, server and the reader of files are turned by the test: there is no other thread, and no clock.

use braidnet::device::{Capabilities, memory};
use braidnet::stream::Processor;
use braidnet::{
    Architecture, CloseReason, Connection, Duration, Event, Instant, Processors, Server,
    ServerBuilder, Stack, StackConfig,
};
use braidnet_service::http::{FileReader, Files, HEAD_TIME, IDLE_TIME, STALL_TIME};
use braidnet_service::{Chargen, Daytime, Discard, Echo};
use std::cell::Cell;
use std::path::PathBuf;
use std::time::SystemTime;

/// A client and a server.
struct World {
    client: Stack,
    server: Server<Processors>,
    now: Instant,
    closed: Vec<(Connection, CloseReason)>,
    files: FileReader,
    directory: PathBuf,
}

impl Drop for World {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}

/// Bytes of the file `big`: more than all buffers on the way together.
const BIG: usize = 4 << 20;

impl World {
    fn new(test: &str, architecture: Architecture) -> World {
        World::of(test, architecture, 1500, 256 << 10, Files::new())
    }

    /// With packets of at most `mtu` bytes, and `send_buffer` bytes for what each of the server's connections sends.
    fn of(
        test: &str,
        architecture: Architecture,
        mtu: usize,
        send_buffer: u32,
        files: Files,
    ) -> World {
        let directory = std::env::temp_dir().join(format!(
            "braidnet-{test}-{architecture}-{}",
            std::process::id()
        ));
        std::fs::create_dir_all(&directory).unwrap();
        std::fs::write(directory.join("small"), b"small").unwrap();
        std::fs::write(directory.join("big"), vec![7; BIG]).unwrap();
        let (near, far) = memory::wire(Capabilities::ip(mtu), 4096);
        let client = Stack::new(&StackConfig::new("10.0.0.1".parse().unwrap()), near).unwrap();
        let mut config = StackConfig::new("10.0.0.2".parse().unwrap());
        config.tcp.send_buffer_bytes = send_buffer;
        let server = ServerBuilder::new(config)
            .architecture(architecture, 2)
            .tcp(7, Echo)
            .tcp(9, Discard)
            .tcp(13, Daytime::new())
            .tcp(19, Chargen)
            .tcp(80, files.directory(&directory).unwrap())
            .turned(far)
            .unwrap();
        let files = files.reader(&server.jobs());
        World {
            client,
            server,
            now: Instant::from_millis(1000),
            closed: Vec::new(),
            files,
            directory,
        }
    }

    /// Both ends go on for a little while.
    fn step(&mut self) {
        self.now += Duration::from_micros(100);
        self.client.turn(self.now);
        self.server.turn(self.now, 256);
        self.files.turn();
        while let Some(event) = self.client.event() {
            if let Event::Closed(connection, reason) = event {
                self.closed.push((connection, reason));
            }
        }
    }

    /// Both ends go on until `done`, for at most ten seconds of virtual time.
    fn until<T>(&mut self, mut done: impl FnMut(&mut World) -> Option<T>) -> T {
        for _ in 0..100_000 {
            if let Some(result) = done(self) {
                return result;
            }
            self.step();
        }
        panic!("nothing comes of it");
    }

    /// Both ends do what they can at about this time.
    fn settle(&mut self) {
        let mut steps = 0;
        self.until(|_| {
            steps += 1;
            (steps > 3000).then_some(())
        });
    }

    /// Time goes by, in steps of a hundredth of a second.
    fn pass(&mut self, time: Duration) {
        let end = self.now + time;
        while self.now < end {
            self.now += Duration::from_millis(10);
            self.step();
        }
    }

    fn connect(&mut self, port: u16) -> Connection {
        let to = format!("10.0.0.2:{port}").parse().unwrap();
        let connection = self.client.connect(to).unwrap();
        self.until(|world| (world.client.send_space(connection) > 0).then_some(()));
        connection
    }

    fn say(&mut self, connection: Connection, bytes: &[u8]) {
        let mut rest = bytes;
        self.until(|world| {
            let sent = world.client.send(connection, rest).unwrap();
            rest = &rest[sent..];
            rest.is_empty().then_some(())
        });
    }

    /// Hears until the bytes heard end in `end`.
    fn hear(&mut self, connection: Connection, end: &[u8]) -> Vec<u8> {
        let mut heard = Vec::<u8>::new();
        self.until(|world| {
            let mut byte = [0];
            while !heard.ends_with(end) && world.client.receive(connection, &mut byte) == Ok(1) {
                heard.push(byte[0]);
            }
            heard.ends_with(end).then_some(())
        });
        heard
    }

    /// What is heard until the peer closes.
    fn hear_all(&mut self, connection: Connection) -> Vec<u8> {
        let mut heard = Vec::<u8>::new();
        self.until(|world| {
            let mut buffer = [0; 65536];
            match world.client.receive(connection, &mut buffer) {
                Ok(0) => return Some(()),
                Ok(n) => heard.extend(&buffer[..n]),
                Err(_) => {}
            }
            None
        });
        heard
    }

    fn is_closed_by(&self, connection: Connection, reason: CloseReason) -> bool {
        self.closed.contains(&(connection, reason))
    }

    fn counter(&self, name: &str) -> u64 {
        self.server.counters().get(name).copied().unwrap_or(0)
    }
}

fn everywhere(test: &str, check: impl Fn(World)) {
    for architecture in Architecture::UNDIVIDED {
        check(World::new(test, architecture));
    }
}

#[test]
fn echo_reads_no_more_than_it_can_write_back() {
    everywhere("echo", |mut world| {
        let connection = world.connect(7);
        // The client sends and does not read: its window, and the server's two buffers, fill up; then nothing moves.
        let (mut sent, mut still) = (Vec::<u8>::new(), 0);
        while still < 5000 {
            let piece: Vec<u8> = (0..4096)
                .map(|at| (sent.len() + at) as u8 ^ (sent.len() >> 8) as u8)
                .collect();
            let n = world.client.send(connection, &piece).unwrap();
            sent.extend(&piece[..n]);
            still = if n == 0 { still + 1 } else { 0 };
            world.step();
        }
        assert!(sent.len() < 2 << 20, "{} bytes were taken in", sent.len());
        let mut heard = Vec::<u8>::new();
        let wanted = sent.len();
        world.until(|world| {
            let mut buffer = [0; 65536];
            if let Ok(n) = world.client.receive(connection, &mut buffer) {
                heard.extend(&buffer[..n]);
            }
            (heard.len() == wanted).then_some(())
        });
        assert!(heard == sent);
        world.client.close(connection);
        assert_eq!(world.hear_all(connection), b"");
    });
}

#[test]
fn single_bytes_cost_the_server_no_buffer_each() {
    everywhere("bytes", |mut world| {
        let connection = world.connect(7);
        let mut sent = 0;
        // As many single bytes as the window takes, and none is read: their buffers, 2 KiB each, would be 512 MiB.
        for _ in 0..300_000 {
            sent += world.client.send(connection, b"x").unwrap();
            world.step();
        }
        assert!(sent > 200_000, "{sent}");
        assert_eq!(world.counter("tcp.no_buffer"), 0);
        let other = world.connect(7);
        world.say(other, b"still here");
        world.hear(other, b"still here");
    });
}

#[test]
fn discard_takes_everything_and_daytime_closes_first() {
    everywhere("discard", |mut world| {
        let discard = world.connect(9);
        world.say(discard, &[1; 3 << 20]);
        world.client.close(discard);
        assert_eq!(world.hear_all(discard), b"");
        let daytime = world.connect(13);
        let line = world.hear_all(daytime);
        assert!(line.ends_with(b" GMT\r\n") && line.len() == 31, "{line:?}");
        world.client.close(daytime);
        let chargen = world.connect(19);
        let text = world.hear(chargen, b"cdefgh\r\n");
        assert_eq!(text.len(), 2 * 74);
        world.client.abort(chargen);
        world.until(|world| (world.server.connections() == 0).then_some(()));
    });
}

#[test]
fn a_draining_server_finishes_what_it_is_doing() {
    everywhere("drain", |mut world| {
        let (idle, echo, chargen) = (world.connect(80), world.connect(7), world.connect(19));
        let asked = world.connect(80);
        world.say(asked, b"GET /big HTTP/1.1\r\nHost: a\r\n\r\n");
        world.hear(asked, b"\r\n\r\n");
        world.server.drain();
        assert_eq!(world.hear_all(idle), b"");
        assert_eq!(
            world.hear_all(asked).len(),
            BIG,
            "a response is sent to its end"
        );
        world.hear_all(chargen);
        world.say(echo, b"still here");
        world.hear(echo, b"still here");
        let to = "10.0.0.2:7".parse().unwrap();
        let late = world.client.connect(to).unwrap();
        world.until(|world| world.is_closed_by(late, CloseReason::Refused).then_some(()));
        world.server.abort_all();
        world.until(|world| world.is_closed_by(echo, CloseReason::Reset).then_some(()));
    });
}

#[test]
fn a_slow_head_is_refused_in_time() {
    everywhere("head", |mut world| {
        let connection = world.connect(80);
        // One byte a second: it is the head's time that counts, not the last byte's.
        let head = b"GET /small HTTP/1.1\r\nHost: a\r\n";
        for byte in head.iter().take(HEAD_TIME.as_secs() as usize - 1) {
            world.say(connection, core::slice::from_ref(byte));
            world.pass(Duration::from_secs(1));
        }
        assert_eq!(world.client.readable(connection), 0);
        world.pass(Duration::from_secs(2));
        let answer = String::from_utf8(world.hear_all(connection)).unwrap();
        assert!(
            answer.starts_with("HTTP/1.1 408 ") && answer.contains("Connection: close"),
            "{answer}"
        );
    });
}

#[test]
fn an_idle_connection_is_closed_in_time_and_then_reset() {
    everywhere("idle", |mut world| {
        let silent = world.connect(80);
        world.pass(IDLE_TIME - Duration::from_secs(1));
        assert!(world.client.receive(silent, &mut [0]).is_err());
        world.pass(Duration::from_secs(2));
        assert_eq!(world.hear_all(silent), b"");
        world.client.close(silent);
        let connection = world.connect(80);
        world.pass(IDLE_TIME / 2);
        world.say(connection, b"GET /small HTTP/1.1\r\nHost: a\r\n\r\n");
        world.hear(connection, b"\r\n\r\nsmall");
        world.pass(IDLE_TIME - Duration::from_secs(1));
        assert_eq!(
            world.server.connections(),
            1,
            "the time counts from the last response"
        );
        world.pass(Duration::from_secs(2));
        assert_eq!(world.hear_all(connection), b"");
        // This client does not close its side: it is not waited for for ever.
        world.pass(STALL_TIME + Duration::from_secs(1));
        assert_eq!(world.server.connections(), 0);
    });
}

#[test]
fn who_takes_nothing_is_reset_in_time() {
    everywhere("stall", |mut world| {
        let connection = world.connect(80);
        world.say(connection, b"GET /big HTTP/1.1\r\nHost: a\r\n\r\n");
        world.hear(connection, b"\r\n\r\n");
        // Some is taken in between: that is progress.
        world.pass(STALL_TIME / 2);
        let mut taken = 0;
        world.until(|world| {
            let mut buffer = [0; 65536];
            taken += world.client.receive(connection, &mut buffer).unwrap_or(0);
            (taken > 1 << 20).then_some(())
        });
        world.settle();
        world.pass(STALL_TIME - Duration::from_secs(1));
        assert_eq!(world.server.connections(), 1);
        world.pass(Duration::from_secs(3));
        assert!(world.is_closed_by(connection, CloseReason::Reset));
        assert_eq!(world.server.connections(), 0);
    });
}

#[test]
fn requests_ahead_wait_their_turn_and_are_bounded() {
    everywhere("pipeline", |mut world| {
        let connection = world.connect(80);
        let request = format!(
            "GET /small HTTP/1.1\r\nHost: a\r\nX: {}\r\n\r\n",
            "x".repeat(2000)
        );
        let request = request.as_bytes();
        world.say(connection, b"GET /big HTTP/1.1\r\nHost: a\r\n\r\n");
        let (mut sent, mut still) = (0, 0);
        while still < 5000 {
            let rest = &request[sent % request.len()..];
            let n = world.client.send(connection, rest).unwrap();
            sent += n;
            still = if n == 0 { still + 1 } else { 0 };
            world.step();
        }
        assert!(sent < 1 << 20, "{sent} bytes of requests were taken in");
        let answers = sent.div_ceil(request.len());
        let mut rest = request[sent % request.len()..].to_vec();
        // At least something is left to be sent behind what was taken in.
        let answers = if rest.len() == request.len() {
            answers + 1
        } else {
            answers
        };
        let mut heard = Vec::<u8>::new();
        world.until(|world| {
            let mut buffer = [0; 65536];
            match world.client.receive(connection, &mut buffer) {
                Ok(0) => return Some(()),
                Ok(n) => heard.extend(&buffer[..n]),
                Err(_) => {}
            }
            if !rest.is_empty() {
                let n = world.client.send(connection, &rest).unwrap();
                rest.drain(..n);
                if rest.is_empty() {
                    world.client.close(connection);
                }
            }
            None
        });
        let text = String::from_utf8_lossy(&heard);
        assert_eq!(text.matches("HTTP/1.1 200 OK").count(), answers + 1);
    });
}

#[test]
fn a_session_answers_so_many_requests_by_itself_and_leaves_the_next_to_a_thread() {
    // ext4, XFS, Btrfs, F2FS: of others nobody knows whether they would wait.
    let disks = [0xef53, 0x5846_5342, 0x9123_683e, 0xf2f5_2010];
    for architecture in Architecture::UNDIVIDED {
        let files = Files::new();
        let mut world = World::of("at-once", architecture, 1500, 256 << 10, files.clone());
        let directory = std::fs::File::open(&world.directory).unwrap();
        let kind = rustix::fs::fstatfs(&directory).unwrap().f_type;
        // Threads that have come and gone: what is left to them is done by whom the test turns.
        drop(files.start(1, &world.server.jobs()).unwrap());
        let name = |number| format!("{number:02}");
        for number in 0..40 {
            std::fs::write(world.directory.join(name(number)), name(number)).unwrap();
        }
        let request = |number| format!("GET /{} HTTP/1.1\r\nHost: a\r\n\r\n", name(number));
        let requests: String = (0..40).map(request).collect();
        let connection = world.connect(80);
        let sent = world.client.send(connection, requests.as_bytes()).unwrap();
        assert_eq!(sent, requests.len());
        for _ in 0..1000 {
            world.now += Duration::from_micros(100);
            world.client.turn(world.now);
            world.server.turn(world.now, 256);
        }
        let mut buffer = vec![0; 1 << 16];
        let heard = world.client.receive(connection, &mut buffer).unwrap_or(0);
        let mut heard = buffer[..heard].to_vec();
        let answers = String::from_utf8_lossy(&heard)
            .matches("HTTP/1.1 200")
            .count();
        let expected = if disks.contains(&kind) { 1..=16 } else { 0..=0 };
        assert!(expected.contains(&answers), "{answers}");

        heard.extend(world.hear(connection, b"\r\n\r\n39"));
        let text = String::from_utf8_lossy(&heard);
        let bodies = text.split("\r\n\r\n").skip(1).map(|rest| &rest[..2]);
        let expected: Vec<String> = (0..40).map(name).collect();
        assert_eq!(bodies.collect::<Vec<_>>(), expected);
    }
}

#[test]
fn a_body_that_nobody_wants_is_read_over() {
    everywhere("body", |mut world| {
        let connection = world.connect(80);
        world.say(
            connection,
            b"GET /small HTTP/1.1\r\nHost: a\r\nContent-Length: 40\r\n\r\n",
        );
        world.hear(connection, b"\r\n\r\nsmall");
        world.say(
            connection,
            b"GET /absent HTTP/1.1\r\nHost: smuggled\r\n\r\nHEAD /big HTTP/1.1\r\nHost: a\r\n\r\n",
        );
        let head = String::from_utf8(world.hear(connection, b"\r\n\r\n")).unwrap();
        assert!(
            head.starts_with("HTTP/1.1 200 ") && head.contains("Content-Length: 4194304"),
            "{head}"
        );
    });
}

#[test]
fn a_file_that_shrinks_ends_the_connection() {
    everywhere("shrink", |mut world| {
        let connection = world.connect(80);
        world.say(connection, b"GET /big HTTP/1.1\r\nHost: a\r\n\r\n");
        world.hear(connection, b"\r\n\r\n");
        std::fs::write(world.directory.join("big"), b"").unwrap();
        let mut buffer = [0; 65536];
        world.until(|world| {
            let _ = world.client.receive(connection, &mut buffer);
            world
                .is_closed_by(connection, CloseReason::Reset)
                .then_some(())
        });
    });
}

#[test]
fn segments_as_long_as_the_send_buffer_find_space() {
    for architecture in Architecture::UNDIVIDED {
        let mut world = World::of("long", architecture, 65_535, 64 << 10, Files::new());
        // What one message takes leaves less than a quarter to be told of, and too little for one of these.
        let echo = world.connect(7);
        world.say(echo, &[1; 100]);
        world.hear(echo, &[1; 100]);
        let mut long = vec![2; 65_480];
        world.say(echo, &long);
        *long.last_mut().unwrap() = 3;
        world.say(echo, &long);
        assert_eq!(world.hear(echo, &[3]).len(), 130_960);
        let http = world.connect(80);
        world.say(http, b"GET /small HTTP/1.1\r\nHost: a\r\n\r\n");
        world.hear(http, b"\r\n\r\nsmall");
        world.say(
            http,
            b"GET /big HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
        );
        assert!(world.hear_all(http).len() > BIG);
    }
}

thread_local! {
    /// Whether the clock of this test is broken.
    static BROKEN: Cell<bool> = const { Cell::new(false) };
}

#[test]
fn a_reader_that_panics_costs_one_connection_its_response() {
    fn clock() -> SystemTime {
        assert!(!BROKEN.get(), "planted: the clock is broken");
        SystemTime::UNIX_EPOCH
    }
    for architecture in Architecture::UNDIVIDED {
        let files = Files::with_clock(clock);
        let mut world = World::of("panic", architecture, 1500, 256 << 10, files);
        let request = b"GET /small HTTP/1.1\r\nHost: a\r\n\r\n";
        let unlucky = world.connect(80);
        BROKEN.set(true);
        world.say(unlucky, request);
        world.until(|world| {
            world
                .is_closed_by(unlucky, CloseReason::Reset)
                .then_some(())
        });
        BROKEN.set(false);
        let next = world.connect(80);
        world.say(next, request);
        world.hear(next, b"\r\n\r\nsmall");
    }
}
