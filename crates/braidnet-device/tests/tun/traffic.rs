//! What comes and goes over a device.

use crate::system::*;
use std::mem::MaybeUninit;
use std::net::UdpSocket;

use braidnet_device::tun::{Mode, TunConfig};
use braidnet_device::{Device, DropReason, MacAddress, Medium, RECEIVE_HEADROOM};
use braidnet_message::{Arena, Pool, Run};
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketAddrV4, SocketFlags, SocketType, ipproto, recv,
    sendto, socket_with,
};

#[test]
fn a_ping_of_the_system_is_a_packet_and_its_answer_arrives() {
    in_namespace("ping out", || {
        let config = TunConfig {
            host: host(24),
            mtu: Some(1400),
            ..named(Mode::Tun, "ping0")
        };
        let device = create(config).expect("root may");
        assert_eq!((device.name(), device.is_adopted()), ("ping0", false));
        assert_eq!(
            (device.capabilities().medium, device.capabilities().mtu),
            (Medium::Ip, 1400)
        );
        let mut pair = open(device);
        let mut pool = pool();

        let kind = SocketType::RAW;
        let socket = socket_with(
            AddressFamily::INET,
            kind,
            SocketFlags::CLOEXEC,
            Some(ipproto::ICMP),
        )
        .expect("root");
        let request = echo(8, b"are you there?");
        sendto(
            &socket,
            &request,
            SendFlags::empty(),
            &SocketAddrV4::new(STACK.into(), 0),
        )
        .expect("it is routed");
        let mut packet = receive(&mut pair, &mut pool, is_icmp(8));
        assert_eq!(packet.bytes()[12..20], [HOST, STACK].concat());
        assert_eq!(packet.bytes()[20..], request);
        assert!(packet.headroom() >= RECEIVE_HEADROOM);

        // Answered in place, and sent in two blocks and in twenty.
        let bytes = packet.bytes_mut().expect("a received packet is unique");
        bytes[12..20].copy_from_slice(&[STACK, HOST].concat());
        bytes[20..].copy_from_slice(&echo(0, b"are you there?"));
        let all = packet.bytes().to_vec();
        for size in [20, 2] {
            let mut blocks = all
                .chunks(size)
                .map(|part| pool.copy_from_slice(0, part).expect("room"));
            let mut answer = blocks.next().expect("a first block");
            blocks.for_each(|block| answer.push_continuation(block));
            let mut run = Run::from_iter([answer]);
            pair.transmitter.transmit(&mut run);
            assert!(run.is_empty());
            assert_eq!(pair.transmitter.counters().drops().next(), None);
            wait(&socket);
            let mut buffer = [MaybeUninit::uninit(); 256];
            let ((got, _), _) = recv(&socket, &mut buffer, RecvFlags::empty()).expect("an answer");
            assert_eq!(got[20..], echo(0, b"are you there?"));
        }
        assert_eq!(pair.transmitter.counters().packets, 2);
        assert_eq!(pair.transmitter.counters().bytes, 2 * all.len() as u64);
    });
}

#[test]
fn the_system_answers_a_ping_over_several_handles() {
    in_namespace("ping in", || {
        let mut pair = open(
            create(TunConfig {
                host: host(30),
                ..TunConfig::new(Mode::Tun)
            })
            .expect("root may"),
        );
        let mut pool = pool();
        let mut other = pair.transmitter.another().expect("another handle");
        let long = vec![7; 1500 - 28];
        for (payload, transmitter) in [(&b"one"[..], &mut pair.transmitter), (&long, &mut other)] {
            let packet = ipv4(STACK, HOST, &echo(8, payload));
            transmitter.transmit(&mut Run::from_iter([pool
                .copy_from_slice(0, &packet)
                .expect("room")]));
            assert_eq!(transmitter.counters().packets, 1);
        }
        for payload in [&b"one"[..], &long] {
            let answer = receive(&mut pair, &mut pool, is_icmp(0));
            assert_eq!(answer.bytes()[28..], *payload);
        }
    });
}

#[test]
fn what_the_system_refuses_is_dropped_by_name() {
    in_namespace("refusals", || {
        let device = create(TunConfig {
            host: host(24),
            ..named(Mode::Tun, "drop0")
        })
        .expect("root may");
        let mut pair = open(device);
        let mut pool = pool();
        let rows = [
            (vec![0x45; 1501], DropReason::TransmitOversize),
            (vec![], DropReason::TransmitEmpty),
            (vec![0x15; 40], DropReason::TransmitMalformed),
        ];
        for (packet, reason) in rows {
            let before = pair.transmitter.counters().dropped(reason);
            let mut run = Run::from_iter([pool.copy_from_slice(0, &packet).expect("room")]);
            pair.transmitter.transmit(&mut run);
            assert!(run.is_empty());
            assert_eq!(
                pair.transmitter.counters().dropped(reason),
                before + 1,
                "{reason}"
            );
        }
        assert_eq!(pair.transmitter.counters().packets, 0);

        // Without an address the interface is left down.
        let mut down = open(create(named(Mode::Tun, "drop1")).expect("root may"));
        let packet = ipv4(STACK, HOST, &echo(8, b""));
        down.transmitter.transmit(&mut Run::from_iter([pool
            .copy_from_slice(0, &packet)
            .expect("room")]));
        assert_eq!(
            down.transmitter
                .counters()
                .dropped(DropReason::InterfaceDown),
            1
        );
    });
}

#[test]
fn a_spent_pool_leaves_packets_where_they_are() {
    in_namespace("spent pool", || {
        let mut pair = open(
            create(TunConfig {
                host: host(24),
                ..TunConfig::new(Mode::Tun)
            })
            .expect("root may"),
        );
        let socket = UdpSocket::bind(("10.99.0.1", 0)).expect("the address is there");
        socket
            .send_to(b"wait for me", ("10.99.0.2", 9))
            .expect("it is routed");
        let mut spent = Pool::new(&Arena::new(0));
        wait(pair.receiver.fd().expect("a descriptor"));
        assert_eq!(pair.receiver.receive(&mut spent, &mut Run::new(), 8), 0);
        let got = receive(&mut pair, &mut pool(), |packet| {
            packet[0] == 0x45 && packet[9] == 17
        });
        assert_eq!(got.bytes()[28..], *b"wait for me");
    });
}

#[test]
fn packets_longer_than_the_device_was_opened_with_are_dropped_by_name() {
    in_namespace("raised MTU", || {
        let device = create(TunConfig {
            host: host(24),
            ..named(Mode::Tun, "long0")
        })
        .expect("root may");
        let mut pair = open(device);
        if !ip(&["link", "set", "long0", "mtu", "3000"]) {
            return;
        }
        let socket = UdpSocket::bind(("10.99.0.1", 0)).expect("the address is there");
        for length in [1501 - 28, 1500 - 28] {
            socket
                .send_to(&vec![7; length], ("10.99.0.2", 9))
                .expect("it is routed");
        }
        let got = receive(&mut pair, &mut pool(), |packet| {
            packet[0] == 0x45 && packet[9] == 17
        });
        assert_eq!(got.len(), 1500);
        assert_eq!(
            pair.receiver
                .counters()
                .dropped(DropReason::ReceiveOversize),
            1
        );
    });
}

#[test]
fn a_tap_carries_frames_and_has_two_addresses() {
    in_namespace("tap", || {
        let device = create(TunConfig {
            host: host(24),
            ..named(Mode::Tap, "tap7")
        })
        .expect("root may");
        let host_station = device.host_station().expect("a TAP has one");
        let Medium::Ethernet { address } = device.capabilities().medium else {
            panic!("a TAP is Ethernet");
        };
        assert_ne!(address, host_station);
        assert_eq!(device.capabilities().packet_max(), 1518);
        let mut pair = open(device);
        let socket = UdpSocket::bind(("10.99.0.1", 0)).expect("the address is there");
        socket
            .send_to(b"hello", ("10.99.0.2", 9))
            .expect("it is routed");
        // The system asks for the neighbour first (RFC 826).
        let request = receive(&mut pair, &mut pool(), |frame| frame[12..14] == [8, 6]);
        assert_eq!(request.bytes()[..6], MacAddress::BROADCAST.0);
        assert_eq!(request.bytes()[6..12], host_station.0);
        assert_eq!(request.bytes()[38..42], STACK);

        let asked = MacAddress([2, 9, 9, 9, 9, 9]);
        let device = create(TunConfig {
            station: Some(asked),
            ..TunConfig::new(Mode::Tap)
        })
        .expect("root may");
        assert_eq!(
            device.capabilities().medium,
            Medium::Ethernet { address: asked }
        );
    });
}
