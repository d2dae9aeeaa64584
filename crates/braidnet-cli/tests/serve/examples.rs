//! Examples that need a device, run as they are.

use super::namespace::{Namespace, skipped};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::path::Path;
use std::process::{Child, Stdio};
use std::thread;

/// Ends with the test, however that goes.
struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_threaded_echo_answers_the_systems_sockets() {
    let name = "a_threaded_echo_answers_the_systems_sockets";
    // Where the tests of all crates are run, their examples are built.
    let program =
        Path::new(env!("CARGO_BIN_EXE_braidnet")).with_file_name("examples/threaded_echo");
    if !program.exists() {
        return skipped(
            name,
            "it has not been built: cargo build -p braidnet --examples",
        );
    }
    let Some(namespace) = Namespace::new(name) else {
        return;
    };
    let program = program.to_str().expect("a path of text");
    let child = namespace.command(program).stdout(Stdio::piped()).spawn();
    let mut child = Ended(child.expect("it runs"));
    let mut said = String::new();
    BufReader::new(child.0.stdout.take().expect("piped"))
        .read_line(&mut said)
        .expect("it says where");
    assert_eq!(said, "echo at 10.77.0.2:7\n");
    namespace.inside(|| {
        thread::scope(|scope| {
            for number in 0..20 {
                // Threads that a thread starts are in its namespace.
                scope.spawn(move || echo(number));
            }
        });
    });
}

/// Sends a few hundred KiB there and reads them back, at the same time.
fn echo(number: usize) {
    let stream = TcpStream::connect("10.77.0.2:7").expect("it listens");
    let sent: Vec<u8> = (0..300_000)
        .map(|place| (place * 13 + number) as u8)
        .collect();
    thread::scope(|scope| {
        scope.spawn(|| {
            (&stream).write_all(&sent).expect("it reads");
            stream.shutdown(Shutdown::Write).expect("open");
        });
        let mut heard = Vec::new();
        (&stream).read_to_end(&mut heard).expect("it echoes");
        assert!(heard == sent, "connection {number}");
    });
}
