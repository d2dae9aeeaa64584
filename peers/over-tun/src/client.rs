//! The client: a thread of its own for each connection, kernel sockets, writes and reads of 128 KiB.

use std::io::{self, Read, Write};
use std::net::{IpAddr, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use crate::{CHARGEN, DISCARD, ECHO, Load};

/// Bytes of a read or a write.
const PIECE: usize = 128 << 10;
/// What is not counted before the measurement.
const WARM_UP: Duration = Duration::from_millis(300);

/// Measures, and prints what the load says.
///
/// # Errors
/// If the server cannot be reached or goes away.
pub fn measure(to: IpAddr, time: Duration, connections: usize, load: Load) -> io::Result<()> {
    let work = || match load {
        Load::Send => bulk(to, DISCARD, time, |stream, piece| stream.write(piece)),
        Load::Receive => bulk(to, CHARGEN, time, |stream, piece| stream.read(piece)),
        Load::Echo => echo(to, time),
    };
    let results: Vec<io::Result<Measured>> = thread::scope(|scope| {
        let clients: Vec<_> = (0..connections).map(|_| scope.spawn(work)).collect();
        clients
            .into_iter()
            .map(|client| client.join().expect("clients do not panic"))
            .collect()
    });
    let mut sum = Measured::default();
    for result in results {
        let Measured {
            bytes_per_second,
            mut round_trips,
        } = result?;
        sum.bytes_per_second += bytes_per_second;
        sum.round_trips.append(&mut round_trips);
    }
    match load {
        Load::Echo => {
            sum.round_trips.sort_unstable();
            let at = |percent: usize| {
                let place = (sum.round_trips.len() * percent / 100).min(sum.round_trips.len() - 1);
                sum.round_trips[place].as_secs_f64() * 1e6
            };
            println!("{:.2} {:.2}", at(50), at(99));
        }
        Load::Send | Load::Receive => println!("{:.3}", sum.bytes_per_second * 8.0 / 1e9),
    }
    Ok(())
}

/// What one connection has measured.
#[derive(Default)]
struct Measured {
    bytes_per_second: f64,
    round_trips: Vec<Duration>,
}

fn bulk(
    to: IpAddr,
    port: u16,
    time: Duration,
    mut step: impl FnMut(&mut TcpStream, &mut [u8]) -> io::Result<usize>,
) -> io::Result<Measured> {
    let mut stream = TcpStream::connect((to, port))?;
    let mut piece = vec![b'x'; PIECE];
    let mut run = |time: Duration| -> io::Result<f64> {
        let begin = Instant::now();
        let mut bytes = 0;
        while begin.elapsed() < time {
            bytes += match step(&mut stream, &mut piece)? {
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                n => n,
            };
        }
        Ok(bytes as f64 / begin.elapsed().as_secs_f64())
    };
    run(WARM_UP)?;
    let bytes_per_second = run(time)?;
    Ok(Measured {
        bytes_per_second,
        ..Measured::default()
    })
}

fn echo(to: IpAddr, time: Duration) -> io::Result<Measured> {
    let mut stream = TcpStream::connect((to, ECHO))?;
    stream.set_nodelay(true)?;
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
