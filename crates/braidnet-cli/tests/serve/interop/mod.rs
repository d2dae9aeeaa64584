//! Other people's programs as peers: of `braidnet serve`, and, by `examples/proxy.rs`, of the sockets that are shaped like tokio's.

mod bulk;
mod proxied;
mod web;

use crate::namespace::Namespace;
use crate::programs::{Program, are_installed, example};

/// A namespace for a test that needs these programs.
fn namespace_with(test: &str, programs: &[&str]) -> Option<Namespace> {
    if !are_installed(test, programs) {
        return None;
    }
    Namespace::new(test)
}

/// The same, where the proxy runs by these rules.
fn proxied(test: &str, programs: &[&str], rules: &[&str]) -> Option<(Namespace, Program)> {
    let path = example(test, "proxy")?;
    let namespace = namespace_with(test, programs)?;
    let mut command = namespace.command(path.to_str().expect("a path of text"));
    command.args(rules);
    let (proxy, said) = Program::start_listening(command, rules.len());
    assert_eq!(said.lines().count(), rules.len(), "{said}");
    Some((namespace, proxy))
}
