//! Examples that need a device, run as they are.

use crate::namespace::Namespace;
use crate::programs::{Program, example};
use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::thread;

#[test]
fn a_threaded_echo_answers_the_systems_sockets() {
    let name = "a_threaded_echo_answers_the_systems_sockets";
    let Some(program) = example(name, "threaded_echo") else {
        return;
    };
    let Some(namespace) = Namespace::new(name) else {
        return;
    };
    let command = namespace.command(program.to_str().expect("a path of text"));
    let (_echo, said) = Program::start_listening(command, 1);
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
