//! iperf3 and nuttcp, which agree with each other, through the stack, on how much has come.

use super::proxied;
use crate::namespace::Namespace;
use crate::programs::{Program, await_listener};
use crate::server::STACK;
use serde_json::Value;

/// Into the stack and on by the system's sockets.
const INTO: &str = "in:5201=127.0.0.1:5201";
/// From the system's sockets and on by the stack's.
const OUT_OF: &str = "out:5202=10.77.0.1:5201";

#[test]
fn iperf3_measures_through_the_stacks_sockets() {
    let test = "iperf3_measures_through_the_stacks_sockets";
    let Some((namespace, _proxy)) = proxied(test, &["iperf3"], &[INTO, OUT_OF]) else {
        return;
    };
    let ways: [&[&str]; 3] = [&[], &["-R"], &["-P", "4"]];
    for way in ways {
        iperf3(&namespace, [STACK, "5201"], way);
        iperf3(&namespace, ["127.0.0.1", "5202"], way);
    }
    // Which of two connections is for which way it tells by the order in which they come. Those that a stack opens at the same time
    // may be established in any.
    iperf3(&namespace, [STACK, "5201"], &["--bidir"]);
}

/// One run, of a second, against a server of its own.
fn iperf3(namespace: &Namespace, [address, port]: [&str; 2], way: &[&str]) {
    let mut server = namespace.command("iperf3");
    server.args(["-s", "-4", "-1", "-J", "-p", "5201"]);
    server.stdout(std::process::Stdio::null());
    let server = Program::start(server);
    await_listener(namespace, 5201);
    let run = ["-c", address, "-p", port, "-t", "1", "-J"];
    let output = namespace.output("iperf3", &[&run, way].concat());
    let report: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert!(
        output.status.success() && report.get("error").is_none(),
        "{way:?} at {port}: {report:#}"
    );
    assert!(server.succeeds(), "{way:?} at {port}");

    let end = &report["end"];
    let is_both_ways = way == ["--bidir"];
    let streams = match way {
        ["-P", "4"] => 4,
        _ => 1 + usize::from(is_both_ways),
    };
    assert_eq!(end["streams"].as_array().map(Vec::len), Some(streams));
    let mut sums = vec![("sum_sent", "sum_received")];
    if is_both_ways {
        sums.push(("sum_sent_bidir_reverse", "sum_received_bidir_reverse"));
    }
    for (sent, received) in sums {
        let bytes = |sum: &str| end[sum]["bytes"].as_u64().expect("a number");
        let (sent, received) = (bytes(sent), bytes(received));
        // What is on its way when the time is over is not waited for.
        assert!(
            received > 1 << 20 && received <= sent,
            "{way:?} at {port}: {received} of {sent}"
        );
    }
}

#[test]
fn nuttcp_moves_exactly_what_it_is_told_to() {
    let test = "nuttcp_moves_exactly_what_it_is_told_to";
    // One for what they agree on, one for data.
    let rules = ["in:5000=127.0.0.1:5000", "in:5001=127.0.0.1:5001"];
    let Some((namespace, _proxy)) = proxied(test, &["nuttcp"], &rules) else {
        return;
    };
    let mut server = namespace.command("nuttcp");
    server.args(["-S", "--nofork", "-4"]);
    let _server = Program::start(server);
    await_listener(&namespace, 5000);
    // Whoever sends opens the connection for data, unless it is told otherwise (-F).
    let ways: [&[&str]; 2] = [&["-t"], &["-r", "-F"]];
    for way in ways {
        let run = ["-4", "-fparse", "-p5001", "-l65536", "-n512", STACK];
        let output = namespace.output("nuttcp", &[way, &run].concat());
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(
            output.status.success() && said.contains("megabytes=32.0000 "),
            "{way:?}: {output:?}"
        );
    }
}
