//! Programs that run beside a test.

use crate::namespace::{Namespace, skipped};
use crate::server::PATIENCE;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// One that runs; it is killed with the value.
pub struct Program(Child);

impl Program {
    pub fn start(mut command: Command) -> Program {
        Program(command.spawn().expect("`ip` runs"))
    }

    /// The same, with what it says until it has said so many lines.
    pub fn start_listening(mut command: Command, lines: usize) -> (Program, String) {
        let mut program = Program::start({
            command.stdout(Stdio::piped());
            command
        });
        let mut said = String::new();
        let mut out = BufReader::new(program.0.stdout.take().expect("piped"));
        for _ in 0..lines {
            out.read_line(&mut said).expect("text");
        }
        (program, said)
    }

    /// What the system calls its process.
    pub fn id(&self) -> u32 {
        self.0.id()
    }

    /// Waits for its end; whether that was a success.
    pub fn succeeds(mut self) -> bool {
        self.0.wait().expect("it is ours").success()
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Runs a command to its end with something to read, and returns what it said.
pub fn converse(mut command: Command, said: &[u8]) -> Output {
    let piped = command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = piped.stderr(Stdio::piped()).spawn().expect("`ip` runs");
    let mut to = child.stdin.take().expect("piped");
    thread::scope(|scope| {
        // Until it is all taken, or nobody takes it: what came back shows.
        scope.spawn(move || to.write_all(said));
        child.wait_with_output().expect("it is ours")
    })
}

/// An example of the library's; `None`, and said why, where it has not been built. In CI that fails the test instead.
pub fn example(test: &str, name: &str) -> Option<PathBuf> {
    // Where the tests of all crates are run, their examples are built.
    let built = Path::new(env!("CARGO_BIN_EXE_braidnet")).with_file_name("examples");
    let program = built.join(name);
    if !program.exists() {
        skipped(test, "cargo build -p braidnet --examples has not been run");
        return None;
    }
    Some(program)
}

/// Whether all of these are installed, and said which is not. In CI that fails the test instead.
pub fn are_installed(test: &str, programs: &[&str]) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let is_missing =
        |program: &&&str| !std::env::split_paths(&path).any(|folder| folder.join(program).exists());
    match programs.iter().find(is_missing) {
        Some(missing) => {
            skipped(test, &format!("{missing} is not installed"));
            false
        }
        None => true,
    }
}

/// Waits until somebody listens at a TCP port of the system's, without calling him.
pub fn await_listener(namespace: &Namespace, port: u16) {
    let begun = Instant::now();
    let is_listener = |line: &str| {
        let mut words = line.split_whitespace().skip(1);
        let at = words.next().and_then(|at| at.rsplit_once(':'));
        let listens = words.nth(1) == Some("0A");
        listens && at.is_some_and(|(_, at)| u16::from_str_radix(at, 16) == Ok(port))
    };
    namespace.inside(|| {
        loop {
            let mut table = String::new();
            for file in ["tcp", "tcp6"] {
                let file = std::fs::File::open(format!("/proc/thread-self/net/{file}"));
                // A system without IPv6 has one of them.
                if let Ok(mut file) = file {
                    file.read_to_string(&mut table).expect("text");
                }
            }
            if table.lines().any(is_listener) {
                return;
            }
            assert!(begun.elapsed() < PATIENCE, "nobody listens at {port}");
            thread::sleep(Duration::from_millis(5));
        }
    });
}
