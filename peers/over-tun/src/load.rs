//! What clients do on a connection, whichever stack it is of: writes and reads of 128 KiB, or one byte there and back.

use std::io::{self, Read, Write};
use std::time::{Duration, Instant};

use clap::Subcommand;

use crate::{CHARGEN, DISCARD, ECHO};

/// Bytes of a read or a write.
const PIECE: usize = 128 << 10;
/// What is not counted before the measurement.
const WARM_UP: Duration = Duration::from_millis(300);

/// What a client does.
#[derive(Clone, Copy, Subcommand)]
pub enum Load {
    /// Sends: prints Gbit/s
    Send,
    /// Receives: prints Gbit/s
    Receive,
    /// One byte there and back, over and over: prints microseconds, median and 99th percentile
    Echo,
}

impl Load {
    /// The service that it needs.
    pub fn port(self) -> u16 {
        match self {
            Load::Send => DISCARD,
            Load::Receive => CHARGEN,
            Load::Echo => ECHO,
        }
    }

    /// Does it on a connection to that service. What is to come back has to leave at once: without Nagle.
    ///
    /// # Errors
    /// If the server goes away, or no byte has come back in time.
    pub fn run(self, mut stream: impl Read + Write, time: Duration) -> io::Result<Measured> {
        match self {
            Load::Send => bulk(time, |piece| stream.write(piece)),
            Load::Receive => bulk(time, |piece| stream.read(piece)),
            Load::Echo => echo(stream, time),
        }
    }
}

/// What one connection has measured, or several together.
#[derive(Default)]
pub struct Measured {
    bytes_per_second: f64,
    round_trips: Vec<Duration>,
}

impl Measured {
    /// Adds what another connection has measured meanwhile.
    pub fn add(&mut self, mut other: Measured) {
        self.bytes_per_second += other.bytes_per_second;
        self.round_trips.append(&mut other.round_trips);
    }

    /// Prints what the load says.
    pub fn print(mut self) {
        if self.round_trips.is_empty() {
            println!("{:.3}", self.bytes_per_second * 8.0 / 1e9);
            return;
        }
        self.round_trips.sort_unstable();
        let at = |percent: usize| {
            let place = (self.round_trips.len() * percent / 100).min(self.round_trips.len() - 1);
            self.round_trips[place].as_secs_f64() * 1e6
        };
        println!("{:.2} {:.2}", at(50), at(99));
    }
}

fn bulk(
    time: Duration,
    mut step: impl FnMut(&mut [u8]) -> io::Result<usize>,
) -> io::Result<Measured> {
    let mut piece = vec![b'x'; PIECE];
    let mut run = |time: Duration| -> io::Result<f64> {
        let begin = Instant::now();
        let mut bytes = 0;
        while begin.elapsed() < time {
            bytes += match step(&mut piece)? {
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                n => n,
            };
        }
        Ok(bytes as f64 / begin.elapsed().as_secs_f64())
    };
    run(WARM_UP)?;
    Ok(Measured {
        bytes_per_second: run(time)?,
        ..Measured::default()
    })
}

fn echo(mut stream: impl Read + Write, time: Duration) -> io::Result<Measured> {
    let begin = Instant::now();
    let mut round_trips = Vec::new();
    let mut byte = [7];
    while begin.elapsed() < WARM_UP + time {
        let asked = Instant::now();
        stream.write_all(&byte)?;
        stream.read_exact(&mut byte)?;
        if asked - begin >= WARM_UP {
            round_trips.push(asked.elapsed());
        }
    }
    if round_trips.is_empty() {
        return Err(io::ErrorKind::TimedOut.into());
    }
    Ok(Measured {
        round_trips,
        ..Measured::default()
    })
}
