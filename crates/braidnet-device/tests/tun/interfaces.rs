//! What is made, adopted, refused and left behind.

use crate::system::*;
use std::io;
use std::net::UdpSocket;

use braidnet_device::tun::{HostAddress, Mode, TunConfig, TunError};
use braidnet_device::{Device, DropReason, QueuePair};
use braidnet_message::Run;
use braidnet_wire::address::Address;

#[test]
fn ipv6_addresses_are_usable_at_once() {
    in_namespace("ipv6", || {
        let [mut host, mut stack] = [[0; 16]; 2];
        host[..2].copy_from_slice(&[0xfd, 0x99]);
        stack[..2].copy_from_slice(&[0xfd, 0x99]);
        (host[15], stack[15]) = (1, 2);
        for mode in [Mode::Tun, Mode::Tap] {
            let address = Some(HostAddress {
                address: Address::v6(host),
                prefix: 64,
            });
            let small = TunConfig {
                host: address,
                mtu: Some(1279),
                ..TunConfig::new(mode)
            };
            assert!(matches!(
                create(small),
                Err(TunError::Mtu { mtu: 1279, .. })
            ));
            let mut pair = open(
                create(TunConfig {
                    host: address,
                    ..TunConfig::new(mode)
                })
                .expect("root may"),
            );
            let socket = UdpSocket::bind((std::net::Ipv6Addr::from(host), 0))
                .expect("usable without detection");
            socket
                .send_to(b"six", (std::net::Ipv6Addr::from(stack), 9))
                .expect("it is routed");
            let (skip, last) = if mode == Mode::Tun { (0, 17) } else { (14, 58) };
            let got = receive(&mut pair, &mut pool(), |packet| {
                packet.len() >= skip + 40
                    && packet[skip] >> 4 == 6
                    && packet[skip + 6] == last
                    && packet[skip + 8..skip + 24] == host
            });
            assert!(got.len() > skip + 40);
        }
    });
}

#[test]
fn what_was_made_disappears_and_what_failed_leaves_nothing() {
    in_namespace("nothing left", || {
        let device = create(TunConfig {
            host: host(24),
            ..named(Mode::Tun, "gone0")
        })
        .expect("root may");
        assert!(exists("gone0") && has_address(HOST));
        let QueuePair {
            receiver,
            transmitter,
        } = open(device);
        drop(receiver);
        assert!(exists("gone0"), "the transmitter holds it");
        drop(transmitter);
        assert!(!exists("gone0") && !has_address(HOST));

        let wrong = HostAddress {
            address: Address::v4([224, 0, 0, 1]),
            prefix: 24,
        };
        let failed = create(TunConfig {
            host: Some(wrong),
            ..named(Mode::Tun, "gone0")
        });
        assert!(matches!(failed, Err(TunError::Address { .. })));
        assert!(!exists("gone0"));
    });
}

#[test]
fn an_adopted_device_is_left_as_it_was() {
    in_namespace("adoption", || {
        drop(system_device("keep0", libc::IFF_TUN, true));
        assert!(exists("keep0"));
        let config = || TunConfig {
            host: host(24),
            mtu: Some(1300),
            ..named(Mode::Tun, "keep0")
        };
        let device = create(config()).expect("nobody holds it");
        assert!(device.is_adopted() && has_address(HOST));
        assert_eq!(device.capabilities().mtu, 1300);
        drop(device);
        assert!(exists("keep0") && !has_address(HOST));
        let device = create(named(Mode::Tun, "keep0")).expect("nobody holds it");
        assert_eq!(device.capabilities().mtu, 1500, "as before");
        let packet = ipv4(STACK, HOST, &echo(8, b""));
        let mut pair = open(device);
        let mut run = Run::from_iter([pool().copy_from_slice(0, &packet).expect("room")]);
        pair.transmitter.transmit(&mut run);
        assert_eq!(
            pair.transmitter
                .counters()
                .dropped(DropReason::InterfaceDown),
            1,
            "as before"
        );
    });
}

#[test]
fn an_address_that_was_there_stays() {
    in_namespace("kept address", || {
        // One library device adopts what another process has set up; here the set-up is made by hand.
        drop(system_device("keep1", libc::IFF_TUN, true));
        if !ip(&["addr", "add", "10.99.0.1/24", "dev", "keep1"]) {
            return;
        }
        let device = create(TunConfig {
            host: host(24),
            ..named(Mode::Tun, "keep1")
        })
        .expect("nobody holds it");
        assert!(has_address(HOST));
        drop(device);
        assert!(has_address(HOST), "it was not ours to remove");
        let other_prefix = create(TunConfig {
            host: host(16),
            ..named(Mode::Tun, "keep1")
        });
        assert!(
            matches!(other_prefix, Err(TunError::AddressInUse { interface, .. }) if interface == "keep1")
        );
    });
}

#[test]
fn every_obstacle_has_its_own_error() {
    in_namespace("errors", || {
        let refused = |config| {
            create(config)
                .map(|device| device.name().to_string())
                .expect_err("it cannot be")
        };

        let held = create(TunConfig {
            host: host(24),
            ..named(Mode::Tun, "held0")
        })
        .expect("root may");
        let error = refused(named(Mode::Tun, "held0"));
        assert!(
            matches!(&error, TunError::InUse { name } if name == "held0"),
            "{error}"
        );

        let error = refused(TunConfig {
            host: host(24),
            ..TunConfig::new(Mode::Tun)
        });
        assert!(
            matches!(&error, TunError::AddressInUse { interface, .. } if interface == "held0"),
            "{error}"
        );
        assert!(held.name() == "held0" && has_address(HOST), "undisturbed");

        let error = refused(named(Mode::Tun, "lo"));
        assert!(
            matches!(&error, TunError::NotTun { name, .. } if name == "lo"),
            "{error}"
        );

        drop(system_device("tap9", libc::IFF_TAP, true));
        let error = refused(named(Mode::Tun, "tap9"));
        assert!(
            matches!(
                error,
                TunError::WrongMode {
                    wanted: Mode::Tun,
                    ..
                }
            ),
            "{error}"
        );

        for name in ["", "much-too-long-name", "a/b"] {
            let error = refused(named(Mode::Tun, name));
            assert!(matches!(error, TunError::Name { .. }), "{error}");
        }
        for (mode, mtu) in [(Mode::Tun, 67), (Mode::Tun, 65536), (Mode::Tap, 65522)] {
            let error = refused(TunConfig {
                mtu: Some(mtu),
                ..TunConfig::new(mode)
            });
            assert!(matches!(error, TunError::Mtu { .. }), "{error}");
        }
        for (mode, mtu) in [(Mode::Tun, 68), (Mode::Tun, 65535), (Mode::Tap, 65521)] {
            let device = create(TunConfig {
                mtu: Some(mtu),
                ..TunConfig::new(mode)
            })
            .expect("in range");
            assert_eq!(device.capabilities().mtu, mtu);
        }
    });
}

#[test]
fn a_thread_without_privilege_learns_what_to_do() {
    in_namespace("privilege", || {
        drop_capabilities();
        let error = create(named(Mode::Tun, "mine0"))
            .map(|_| ())
            .expect_err("no privilege");
        // Which of the two depends on the mode of /dev/net/tun.
        assert!(
            matches!(error, TunError::NoPrivilege { .. } | TunError::NoAccess),
            "{error}"
        );
        assert!(!exists("mine0"));
    });
}

/// Gives up every capability of this thread.
fn drop_capabilities() {
    #[repr(C)]
    struct Header {
        version: u32,
        pid: i32,
    }
    let header = Header {
        version: 0x2008_0522,
        pid: 0,
    };
    let none = [0u32; 6];
    // SAFETY: the header is of version 3, whose data is two times three words, and concerns the calling thread.
    let result = unsafe { libc::syscall(libc::SYS_capset, &raw const header, &raw const none) };
    assert_eq!(result, 0, "{}", io::Error::last_os_error());
}

#[test]
fn a_device_that_is_removed_is_gone() {
    in_namespace("removal", || {
        let mut pair = open(create(named(Mode::Tun, "del0")).expect("root may"));
        if !ip(&["link", "del", "del0"]) {
            return;
        }
        let mut pool = pool();
        assert!(!pair.receiver.is_gone());
        assert_eq!(pair.receiver.receive(&mut pool, &mut Run::new(), 8), 0);
        assert!(pair.receiver.is_gone());
        let packet = ipv4(STACK, HOST, &echo(8, b""));
        pair.transmitter.transmit(&mut Run::from_iter([pool
            .copy_from_slice(0, &packet)
            .expect("room")]));
        assert_eq!(
            pair.transmitter.counters().dropped(DropReason::DeviceGone),
            1
        );
    });
}
