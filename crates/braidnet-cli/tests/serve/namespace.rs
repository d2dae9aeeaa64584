//! A network namespace of a test's own.

use rustix::fd::AsFd;
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use std::fs::File;
use std::io;
use std::process::{Command, Output};
use std::sync::atomic::{AtomicU32, Ordering};

/// A network namespace with nothing but a loopback device in it; it is removed with the value.
pub struct Namespace {
    name: String,
}

impl Namespace {
    /// A new one; `None`, and said why, where this machine does not allow it. In CI that fails the test instead.
    pub fn new(test: &str) -> Option<Namespace> {
        match Namespace::create() {
            Ok(namespace) => Some(namespace),
            Err(reason) => {
                skipped(test, &reason);
                None
            }
        }
    }

    fn create() -> Result<Namespace, String> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        if !rustix::process::geteuid().is_root() {
            return Err("namespaces and devices are made by root only".to_owned());
        }
        File::options()
            .write(true)
            .open("/dev/net/tun")
            .map_err(|error| format!("/dev/net/tun cannot be opened: {error}"))?;
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("braidnet-test-{}-{number}", std::process::id());
        run("ip", &["netns", "add", &name])?;
        let namespace = Namespace { name };
        namespace.ip(&["link", "set", "lo", "up"]);
        // What every kernel allows. One that goes by BBR takes what a crowd loses at the device's queue for a policer's
        // work, and sends next to nothing for half a minute.
        namespace.inside(|| {
            let _ = std::fs::write("/proc/sys/net/ipv4/tcp_congestion_control", "reno");
        });
        Ok(namespace)
    }

    /// What `ip netns` calls it.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Runs `work` on a thread inside, and whatever threads that starts.
    pub fn inside<T: Send>(&self, work: impl FnOnce() -> T + Send) -> T {
        std::thread::scope(|scope| {
            let thread = scope.spawn(|| {
                self.enter().expect("the namespace is there");
                work()
            });
            match thread.join() {
                Ok(result) => result,
                Err(panic) => std::panic::resume_unwind(panic),
            }
        })
    }

    fn enter(&self) -> io::Result<()> {
        let file = File::open(format!("/run/netns/{}", self.name))?;
        Ok(move_into_link_name_space(
            file.as_fd(),
            Some(LinkNameSpaceType::Network),
        )?)
    }

    /// A program to be run inside.
    pub fn command(&self, program: &str) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.name, program]);
        command
    }

    /// Runs a program inside and waits for it.
    pub fn output(&self, program: &str, arguments: &[&str]) -> Output {
        self.command(program)
            .args(arguments)
            .output()
            .expect("`ip` runs")
    }

    /// Runs `ip` inside; it must succeed.
    pub fn ip(&self, arguments: &[&str]) {
        let all: Vec<&str> = ["-n", &self.name]
            .into_iter()
            .chain(arguments.iter().copied())
            .collect();
        run("ip", &all).unwrap_or_else(|error| panic!("{error}"));
    }

    /// Whether a device of this name is there.
    pub fn has_device(&self, device: &str) -> bool {
        run("ip", &["-n", &self.name, "link", "show", device]).is_ok()
    }

    /// A device's state and addresses, as `ip` prints them.
    pub fn addresses(&self, device: &str) -> String {
        let listed = run("ip", &["-n", &self.name, "addr", "show", device]);
        listed.unwrap_or_else(|error| panic!("{error}"))
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        // The test has said by then what went wrong, if anything did.
        let _ = run("ip", &["netns", "del", &self.name]);
    }
}

/// Says that something is left out, and why. In CI that fails the test instead.
pub fn skipped(what: &str, reason: &str) {
    let in_ci = std::env::var("CI").is_ok_and(|value| value == "true");
    assert!(!in_ci, "in CI this may not be skipped: {what}: {reason}");
    println!("SKIPPED {what}: {reason}");
}

fn run(program: &str, arguments: &[&str]) -> Result<String, String> {
    let failed = |reason: &str| format!("{program} {}: {}", arguments.join(" "), reason.trim());
    let output = Command::new(program).args(arguments).output();
    let output = output.map_err(|error| failed(&error.to_string()))?;
    if output.status.success() {
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    } else {
        Err(failed(&String::from_utf8_lossy(&output.stderr)))
    }
}
