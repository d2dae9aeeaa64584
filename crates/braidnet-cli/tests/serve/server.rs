//! A `braidnet serve` that runs.

use crate::namespace::Namespace;
use rustix::process::{Pid, Signal, kill_process};
use std::io::{BufRead, BufReader, Read};
use std::net::TcpStream;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

/// Address of the stack in all tests, and of the host's side.
pub const STACK: &str = "10.77.0.2";
pub const HOST: &str = "10.77.0.1/24";

/// The longest that anything may take on a busy machine.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// A running server. Killed when it is dropped, unless it was stopped.
pub struct Server {
    child: Child,
    out: BufReader<ChildStdout>,
    /// What it said when it started.
    pub greeting: String,
    stopped: bool,
}

/// How a server ended.
#[derive(Debug)]
pub struct Ended {
    pub code: Option<i32>,
    /// What it said after its greeting.
    pub report: String,
    pub errors: String,
    pub took: Duration,
}

impl Server {
    /// Starts one on a device of its own, `bn0`, with [`HOST`] and [`STACK`] as its ends; as [`Server::start`].
    pub fn on_bn0(namespace: &Namespace, arguments: &[&str]) -> Server {
        let ends = ["--tun", "bn0", "--host", HOST, "--address", STACK];
        Server::start(namespace, &[&ends, arguments].concat())
    }

    /// Starts one and waits until it serves.
    pub fn start(namespace: &Namespace, arguments: &[&str]) -> Server {
        Server::run(namespace, &[&["serve"], arguments].concat())
    }

    /// Runs any command that says how to stop it, and waits until it does.
    pub fn run(namespace: &Namespace, arguments: &[&str]) -> Server {
        let mut command = namespace.command(env!("CARGO_BIN_EXE_braidnet"));
        command.args(arguments);
        Server::launch(command)
    }

    /// The same, by a program that starts it.
    pub fn launch(mut command: Command) -> Server {
        let mut child = command
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .stdin(Stdio::null())
            .spawn()
            .expect("`ip` runs");
        let mut out = BufReader::new(child.stdout.take().expect("it is piped"));
        let mut greeting = String::new();
        while !greeting.ends_with("stop with Ctrl-C\n") {
            let read = out.read_line(&mut greeting).expect("it says UTF-8");
            if read == 0 {
                let mut errors = String::new();
                let mut stderr = child.stderr.take().expect("it is piped");
                let _ = stderr.read_to_string(&mut errors);
                panic!("the server ended: {greeting}{errors}");
            }
        }
        Server {
            child,
            out,
            greeting,
            stopped: false,
        }
    }

    pub fn signal(&self, signal: Signal) {
        let pid = Pid::from_child(&self.child);
        kill_process(pid, signal).expect("it runs");
    }

    /// Waits for its end.
    pub fn wait(mut self) -> Ended {
        let begun = Instant::now();
        let mut report = String::new();
        self.out.read_to_string(&mut report).expect("it says UTF-8");
        let mut errors = String::new();
        let mut stderr = self.child.stderr.take().expect("it is piped");
        stderr.read_to_string(&mut errors).expect("it says UTF-8");
        let status = self.child.wait().expect("it is ours");
        self.stopped = true;
        Ended {
            code: status.code(),
            report,
            errors,
            took: begun.elapsed(),
        }
    }

    /// Asks it to stop, and waits for its end.
    pub fn stop(self, signal: Signal) -> Ended {
        self.signal(signal);
        self.wait()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if self.stopped {
            return;
        }
        let _ = self.child.kill();
        let status = self.child.wait();
        if std::thread::panicking() {
            let mut said = String::new();
            let _ = self.out.read_to_string(&mut said);
            if let Some(stderr) = &mut self.child.stderr {
                let _ = stderr.read_to_string(&mut said);
            }
            eprintln!("the server, {status:?}: {said}");
        }
    }
}

/// A connection to the stack, from inside the namespace; nothing on it takes longer than [`PATIENCE`].
pub fn connect(port: u16) -> TcpStream {
    let stream = TcpStream::connect((STACK, port)).expect("somebody answers");
    stream.set_read_timeout(Some(PATIENCE)).expect("not zero");
    stream.set_write_timeout(Some(PATIENCE)).expect("not zero");
    stream
}
