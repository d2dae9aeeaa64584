//! What cannot be is refused with one sentence, and nothing is left behind.

use crate::Scratch;
use crate::namespace::Namespace;
use crate::server::{HOST, STACK, Server};
use rustix::process::Signal;
use std::process::Output;

fn serve(namespace: &Namespace, arguments: &str) -> Output {
    let mut command = namespace.command(env!("CARGO_BIN_EXE_braidnet"));
    command
        .arg("serve")
        .args(arguments.split_whitespace())
        .output()
        .expect("`ip` runs")
}

/// Checks an exit code and that standard error holds one sentence with `part` in it.
fn assert_refused(output: &Output, code: i32, part: &str) {
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{errors}");
    assert!(errors.contains(part), "{errors:?} lacks {part:?}");
    assert_eq!(errors.trim_end().lines().count(), 1, "{errors:?}");
    assert_eq!(output.stdout, b"", "nothing is announced");
}

#[test]
fn each_refusal_is_a_sentence_and_leaves_nothing_behind() {
    let Some(namespace) = Namespace::new("refusals") else {
        return;
    };
    namespace.ip(&["link", "add", "other0", "type", "veth"]);
    namespace.ip(&["addr", "add", "10.78.0.1/24", "dev", "other0"]);
    namespace.ip(&["tuntap", "add", "dev", "kept0", "mode", "tap"]);
    let scratch = Scratch::new("refusals");
    let typo = scratch.file("typo.toml", b"tun = 'bn0'\nehco = 7\n");
    let broken = scratch.file("broken.toml", b"tun = bn0\n");
    let plain = scratch.file("plain", b"no directory");
    let old = scratch.file("old.pcapng", b"yesterday's");
    let rows: &[(&str, i32, &str)] = &[
        ("--address 10.77.0.2 --echo 7", 2, "name the device"),
        ("--tun bn0", 2, "--address"),
        ("--tun-fd 99 --address 10.77.0.2", 1, "no descriptor 99"),
        (
            "--tun-fd 0 --address 10.77.0.2",
            1,
            "is of no TUN or TAP device",
        ),
        (
            "--tun-from /absent --address 10.77.0.2",
            1,
            "no descriptor came from /absent",
        ),
        (
            "--tun bn0 --address 10.77.0.2 --echo 7 --discard 7",
            2,
            "both on port 7",
        ),
        ("--tun a/b --address 10.77.0.2", 2, "no interface name"),
        ("--tun bn0 --address 10.77.0.2 --mtu 60", 2, "68 to 65535"),
        ("--tun bn0 --address fd00::2", 2, "IPv4 only"),
        (
            "--tun bn0 --address 10.77.0.2 --address 10.77.0.2",
            2,
            "given twice",
        ),
        (
            "--tun bn0 --address 10.77.0.2/24 --route default=10.77.0.1",
            2,
            "10.77.0.1 is of no use on a device that carries bare IP packets",
        ),
        (
            "--tun bn0 --address 10.77.0.2 --device tun=bn1,address=10.78.0.2/24",
            2,
            "number 1 has none",
        ),
        (
            "--tun bn0 --address 10.77.0.2/24 --device tun=bn1,address=10.77.0.3/24",
            2,
            "two devices are on the network 10.77.0.0/24",
        ),
        (
            "--tun bn0 --address 10.77.0.2/24 --device tun=bn1,address=10.78.0.2/24 --apart",
            2,
            "--apart needs a processor for each of 2 devices",
        ),
        (
            "--tap bn0 --address 10.77.0.2/24 --route default=10.78.0.1",
            2,
            "10.78.0.1 is on none of the interface's networks",
        ),
        (
            "--tap bn0 --address 10.77.0.2/24 --route default=10.77.0.1 --route 0.0.0.0/0=10.77.0.9",
            2,
            "two routes are given for 0.0.0.0/0",
        ),
        (
            &format!("--tun bn0 --address 10.77.0.255/24 --pcap {old}"),
            2,
            "broadcast",
        ),
        (
            &format!(
                "--tun bn0 --address 10.77.0.2 --architecture braid --processors 66 --pcap {old}"
            ),
            2,
            "65 processors at most",
        ),
        (
            "--tun bn0 --host 224.0.0.1/24 --address 10.77.0.2",
            2,
            "unicast",
        ),
        (&format!("-c {typo}"), 2, "line 2 of"),
        (&format!("-c {broken}"), 2, "line 1 of"),
        ("-c /absent.toml", 2, "cannot be read"),
        (
            "--tun bn0 --address 10.77.0.2 --http 80=/absent",
            1,
            "/absent cannot be opened",
        ),
        (
            &format!("--tun bn0 --address 10.77.0.2 --http 80={plain}"),
            1,
            "cannot be opened",
        ),
        (
            "--tun bn0 --host 10.78.0.1/24 --address 10.77.0.2",
            1,
            "in use on other0",
        ),
        (
            "--tun other0 --address 10.77.0.2",
            1,
            "no TUN or TAP device",
        ),
        ("--tun kept0 --address 10.77.0.2", 1, "open it as tap"),
        (
            "--tun bn0 --host 10.77.0.1/24 --address 10.77.0.2 --pcap /absent/file",
            1,
            "/absent/file cannot be made",
        ),
    ];
    for (arguments, code, part) in rows {
        assert_refused(&serve(&namespace, arguments), *code, part);
        assert!(!namespace.has_device("bn0"), "{arguments}");
    }
    assert!(!namespace.addresses("kept0").contains("10.77"));
    assert_eq!(
        std::fs::read(old).expect("the capture is still there"),
        b"yesterday's"
    );
}

#[test]
fn a_wrong_flag_is_refused() {
    let Some(namespace) = Namespace::new("wrong flag") else {
        return;
    };
    for arguments in [
        "--tan bn0",
        "--echo 0",
        "--echo x",
        "--architecture braids",
        "--tun a --tap b",
    ] {
        let output = serve(&namespace, arguments);
        assert_eq!(output.status.code(), Some(2), "{output:?}");
        assert!(
            String::from_utf8_lossy(&output.stderr).starts_with("error: "),
            "{output:?}"
        );
    }
}

#[test]
fn a_device_that_is_held_is_in_use() {
    let Some(namespace) = Namespace::new("in use") else {
        return;
    };
    let arguments = ["--tun", "bn0", "--host", HOST, "--address", STACK];
    let server = Server::start(&namespace, &arguments);
    assert_refused(
        &serve(&namespace, &arguments.join(" ")),
        1,
        "bn0 is in use by another process",
    );
    assert!(namespace.has_device("bn0") && namespace.addresses("bn0").contains(HOST));
    assert_eq!(server.stop(Signal::TERM).code, Some(0));
}

#[test]
fn a_missing_privilege_is_named() {
    let Some(namespace) = Namespace::new("privilege") else {
        return;
    };
    let output = namespace.output(
        "setpriv",
        &[
            "--bounding-set=-net_admin",
            "--inh-caps=-net_admin",
            env!("CARGO_BIN_EXE_braidnet"),
            "serve",
            "--tun",
            "bn0",
            "--address",
            STACK,
        ],
    );
    assert_refused(&output, 1, "needs root or CAP_NET_ADMIN");
    assert!(!namespace.has_device("bn0"));
}
