//! Devices whose descriptors are passed in.

use crate::system::*;
use braidnet_device::Device;
use braidnet_device::tun::{Mode, PassedConfig, TunDevice, TunError, inherited, received};
use braidnet_message::Run;
use rustix::io::FdFlags;
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use std::io::{self, IoSlice, Read};
use std::mem::MaybeUninit;
use std::net::UdpSocket;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::net::UnixListener;
use std::path::PathBuf;
use std::thread;
use std::time::Duration;

const SHORTLY: Duration = Duration::from_millis(50);

fn adopt(queues: Vec<OwnedFd>) -> Result<TunDevice, TunError> {
    TunDevice::adopt(queues, PassedConfig::default())
}

/// Receives a datagram of the system's over a device.
fn hear(device: TunDevice) {
    let mut pair = open(device);
    let socket = UdpSocket::bind((std::net::Ipv4Addr::from(HOST), 0)).expect("the address");
    socket
        .send_to(b"hello", (std::net::Ipv4Addr::from(STACK), 9))
        .expect("it is routed");
    let is_udp = |packet: &[u8]| packet[0] == 0x45 && packet[9] == 17;
    let heard = receive(&mut pair, &mut pool(), is_udp);
    assert_eq!(heard.bytes()[28..], *b"hello");
    // It does not wait, either.
    assert_eq!(pair.receiver.receive(&mut pool(), &mut Run::new(), 64), 0);
}

fn set_up(name: &str) -> bool {
    ip(&["addr", "add", "10.99.0.1/24", "dev", name]) && ip(&["link", "set", name, "up"])
}

#[test]
fn an_open_device_is_taken_over_with_what_it_is() {
    in_namespace("inherited", || {
        let tun = libc::IFF_TUN;
        for (name, flags, has_offloads) in [
            ("plain0", tun, false),
            ("vnet0", tun | libc::IFF_VNET_HDR, true),
        ] {
            let opened = system_device(name, flags, false);
            if !set_up(name) {
                return;
            }
            let number = opened.as_raw_fd();
            let refused = |number| matches!(inherited(number), Err(TunError::NoDescriptor { .. }));
            assert!(refused(number), "this process has opened it");
            // As if the process had been started with it.
            rustix::io::fcntl_setfd(&opened, FdFlags::empty()).expect("it is open");
            let copy = inherited(number).expect("it is open");
            assert!(refused(number), "it was asked for before");
            drop(opened);
            let device = adopt(vec![copy]).expect("a TUN device");
            assert_eq!((device.name(), device.is_adopted()), (name, true));
            let capabilities = *device.capabilities();
            assert_eq!((capabilities.mtu, capabilities.queues), (1500, 1));
            assert_eq!(capabilities.offloads.segments, has_offloads);
            hear(device);
            assert!(!exists(name), "it went with its last descriptor");
        }
        let tap = system_device("tap0", libc::IFF_TAP, false);
        let device = adopt(vec![tap]).expect("a TAP device");
        let own = device.host_station().expect("a TAP has one");
        assert_ne!(own.0, [0; 6]);
        let made = create(named(Mode::Tap, "tap1")).expect("root may");
        assert_ne!(made.host_station(), Some(own));
    });
}

#[test]
fn descriptors_come_over_a_unix_socket() {
    in_namespace("passed", || {
        let path = path("passed");
        let listener = UnixListener::bind(&path).expect("a path of its own");
        let passing = thread::scope(|scope| {
            scope.spawn(|| {
                let multiple = libc::IFF_TUN | libc::IFF_MULTI_QUEUE;
                let queues = [
                    system_device("sent0", multiple, false),
                    system_device("sent0", multiple, false),
                ];
                let (socket, _) = listener.accept().expect("somebody asks");
                let borrowed = queues.each_ref().map(AsFd::as_fd);
                let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
                let mut control = SendAncillaryBuffer::new(&mut space);
                assert!(control.push(SendAncillaryMessage::ScmRights(&borrowed)));
                let bytes = [IoSlice::new(&[0])];
                sendmsg(&socket, &bytes, &mut control, SendFlags::empty()).expect("it is sent");
                let _ = (&socket).read(&mut [0]);
            });
            received(&path, PATIENCE, || true)
        });
        let device = adopt(passing.expect("they came")).expect("two queues of one device");
        assert_eq!((device.name(), device.capabilities().queues), ("sent0", 2));
        drop(device);

        let nobody = received(&path, SHORTLY, || true).map(drop);
        assert!(
            matches!(&nobody, Err(TunError::NotPassed { source, .. }) if source.kind() == io::ErrorKind::TimedOut),
            "{nobody:?}"
        );
        let stopped = received(&path, PATIENCE, || false).map(drop);
        let error = stopped.expect_err("nobody sends").to_string();
        assert!(error.contains("stopped before anything came"), "{error}");
        std::fs::remove_file(&path).expect("it is there");
        let nowhere = received(&path, SHORTLY, || true).map(drop);
        assert!(matches!(nowhere, Err(TunError::NotPassed { .. })));
    });
}

#[test]
fn what_is_no_devices_descriptor_is_refused_by_name() {
    in_namespace("not passed", || {
        let none = inherited(9999).map(drop);
        assert!(matches!(none, Err(TunError::NoDescriptor { number: 9999 })));
        let refused = |queues| adopt(queues).map(drop).expect_err("it cannot be");
        assert!(matches!(refused(vec![]), TunError::NoDescriptors));
        let (reader, _writer) = io::pipe().expect("a pipe");
        for other in [reader.into(), open_tun().expect("allowed")] {
            let error = refused(vec![other]);
            assert!(matches!(error, TunError::NotATunDescriptor(_)), "{error}");
        }
        let two = ["a0", "b0"].map(|name| system_device(name, libc::IFF_TUN, false));
        let error = refused(two.into());
        assert!(matches!(error, TunError::SeveralDevices { .. }), "{error}");
        let one = system_device("e0", libc::IFF_TUN, false);
        let again = one.try_clone().expect("a descriptor");
        let error = refused(vec![one, again]);
        assert!(
            matches!(error, TunError::OneQueue { queues: 2, .. }),
            "{error}"
        );
        let long = TunDevice::adopt(
            vec![system_device("d0", libc::IFF_TUN, false)],
            PassedConfig {
                mtu: 67,
                ..PassedConfig::default()
            },
        );
        assert!(matches!(long.map(drop), Err(TunError::Mtu { mtu: 67, .. })));
    });
}

fn path(name: &str) -> PathBuf {
    std::env::temp_dir().join(format!("braidnet-{name}-{}", std::process::id()))
}
