//! A device that somebody else has opened.

use crate::namespace::{Namespace, skipped};
use crate::server::{STACK, Server, connect};
use crate::{Scratch, echo};
use rustix::process::Signal;
use std::process::Command;

/// Opens a device as a launcher with privileges does, and becomes the server: with the device's descriptor, or with a Unix socket over which a child sends it.
const LAUNCHER: &str = r#"
import array, fcntl, os, socket, struct, subprocess, sys
program, socket_path, *arguments = sys.argv[1:]
device = os.open("/dev/net/tun", os.O_RDWR)
flags = 0x0001 | 0x1000 | 0x4000  # IFF_TUN, IFF_NO_PI, IFF_VNET_HDR
fcntl.ioctl(device, 0x400454ca, struct.pack("16sH22x", b"bn0", flags))  # TUNSETIFF
for words in ["addr add 10.77.0.1/24 dev bn0", "link set bn0 up"]:
    subprocess.run(["ip", *words.split()], check=True)
if socket_path:
    listening = socket.socket(socket.AF_UNIX)
    listening.bind(socket_path)
    listening.listen()
    if os.fork() == 0:
        asking, _ = listening.accept()
        rights = (socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [device]))
        asking.sendmsg([b"x"], [rights])
        os._exit(0)
    os.close(device)
    how = ["--tun-from", socket_path]
else:
    os.set_inheritable(device, True)
    how = ["--tun-fd", str(device)]
os.execv(program, [program, "serve", *how, *arguments])
"#;

#[test]
fn a_device_is_served_on_that_was_inherited_or_sent() {
    let Some(namespace) = Namespace::new("passed") else {
        return;
    };
    if Command::new("python3").arg("--version").output().is_err() {
        return skipped("passing descriptors in", "python3 is not installed");
    }
    let scratch = Scratch::new("passed");
    let path = scratch.0.join("tun").display().to_string();
    let launcher = |socket, arguments: &[&str]| {
        let mut launcher = namespace.command("python3");
        launcher.args(["-c", LAUNCHER, env!("CARGO_BIN_EXE_braidnet"), socket]);
        launcher.args(["--address", STACK, "--echo", "7"]);
        launcher.args(arguments);
        launcher
    };
    let refused = launcher("", &["--mac", "02:00:00:00:00:01"]).output();
    let errors = String::from_utf8(refused.expect("`ip` runs").stderr).expect("UTF-8");
    assert!(errors.contains("a TUN device has none"), "{errors}");
    for socket in ["", &path] {
        let launcher = launcher(socket, &[]);
        let server = Server::launch(launcher);
        assert!(
            server.greeting.contains("tun bn0 (passed in): connection"),
            "{}",
            server.greeting
        );
        assert!(server.greeting.contains("segments and datagrams offloaded"));
        namespace.inside(|| echo(&mut connect(7), b"hello"));
        let ended = server.stop(Signal::TERM);
        assert_eq!(ended.code, Some(0), "{ended:?}");
        assert!(!namespace.has_device("bn0"));
    }
}
