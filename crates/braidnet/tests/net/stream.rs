//! Two hosts on a pair of stream sockets, which has less room than they would use.

use super::*;
use braidnet::device::MacAddress;
use braidnet::device::qemu::{QemuConfig, QemuDevice};
use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::thread;
use std::time::{Duration, Instant};

/// What takes less than a second where full sockets hold senders up, and 16 where they have them lose packets.
const AT_MOST: Duration = Duration::from_secs(8);

#[test]
fn streams_both_ways_are_exact_and_full_sockets_stop_nobody() {
    const STREAMS: usize = 64;
    const BYTES: usize = 1 << 20;
    let (ours, theirs) = UnixStream::pair().expect("a pair");
    let host = |address, last, socket: UnixStream| {
        let station = QemuConfig::new(MacAddress([2, 0, 0, 0, 0, last]));
        let device = QemuDevice::over(socket, station).expect("a device");
        Host::start(&config(address), device).expect("a host")
    };
    let client = host("10.0.0.1", 1, ours);
    let server = host("10.0.0.2", 2, theirs);
    let exchange = |mut stream: TcpStream, sends: usize, hears: usize| {
        let mut reading = stream.try_clone().expect("a handle");
        thread::scope(|scope| {
            scope.spawn(|| {
                stream.write_all(&pattern(sends, BYTES)).expect("it reads");
                stream.shutdown(Shutdown::Write).expect("open");
            });
            let mut heard = Vec::new();
            reading.read_to_end(&mut heard).expect("it writes");
            assert!(heard == pattern(hears, BYTES), "stream {hears}");
        });
    };
    let begun = Instant::now();
    thread::scope(|scope| {
        for number in 0..STREAMS {
            let (call, answer) = connected(&client, &server);
            scope.spawn(move || exchange(call, number, STREAMS + number));
            scope.spawn(move || exchange(answer, STREAMS + number, number));
        }
    });
    assert!(begun.elapsed() < AT_MOST, "{:?}", begun.elapsed());
}
