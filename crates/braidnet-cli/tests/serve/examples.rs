//! Examples that need a device, run as they are.

use crate::namespace::Namespace;
use crate::programs::{Program, example};
use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::thread;
use std::time::Duration;

#[test]
fn a_threaded_echo_answers_the_systems_sockets() {
    answers(
        "a_threaded_echo_answers_the_systems_sockets",
        "threaded_echo",
        |_| {},
    );
}

/// Sockets and stack are tasks of one thread; between connections it sleeps.
#[test]
fn a_driven_echo_answers_the_systems_sockets() {
    let name = "a_driven_echo_answers_the_systems_sockets";
    answers(name, "driven_echo", |echo| {
        let before = ticks(echo);
        thread::sleep(Duration::from_millis(500));
        let took = ticks(echo) - before;
        // A fifth of what a thread takes that polls.
        assert!(took < 10, "{took} hundredths of a second while it was idle");
    });
}

/// Processor time that a process has taken, in the system's hundredths of a second.
fn ticks(process: u32) -> u64 {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).expect("it runs");
    let behind_name = stat.rsplit(')').next().expect("a name");
    let fields: Vec<&str> = behind_name.split_whitespace().collect();
    let times = fields[11..13].iter().map(|field| field.parse::<u64>());
    times.map(|ticks| ticks.expect("a number")).sum()
}

/// Runs an example that echoes in a namespace of its own, twenty calls at once, then `idle`, by its process, and twenty again.
fn answers(test: &str, name: &str, idle: impl Fn(u32)) {
    let Some(program) = example(test, name) else {
        return;
    };
    let Some(namespace) = Namespace::new(test) else {
        return;
    };
    let command = namespace.command(program.to_str().expect("a path of text"));
    let (running, said) = Program::start_listening(command, 1);
    assert_eq!(said, "echo at 10.77.0.2:7\n");
    call_twenty(&namespace);
    idle(running.id());
    call_twenty(&namespace);
}

fn call_twenty(namespace: &Namespace) {
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
