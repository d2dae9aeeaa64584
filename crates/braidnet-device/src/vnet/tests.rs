//! What is said of packets, and lies.

use super::*;
use DropReason::ReceiveOffloadMalformed as LIE;

const MSS: usize = 1448;

/// A packet of TCP with `data` bytes, or of UDP: its headers, and its length.
fn packet(version: u8, protocol: u8, data: usize) -> (Vec<u8>, usize) {
    let transport_len = match protocol {
        tcp::PROTOCOL => 32,
        _ => udp::HEADER_LEN,
    };
    let mut bytes = match version {
        4 => {
            let mut ip = vec![0; ipv4::MIN_HEADER_LEN];
            let len = (ip.len() + transport_len + data) as u16;
            (ip[0], ip[9]) = (0x45, protocol);
            ip[2..4].copy_from_slice(&len.to_be_bytes());
            ip
        }
        _ => {
            let mut ip = vec![0; IPV6_HEADER_LEN];
            (ip[0], ip[6]) = (0x60, protocol);
            ip[4..6].copy_from_slice(&((transport_len + data) as u16).to_be_bytes());
            ip
        }
    };
    let start = bytes.len();
    bytes.resize(start + transport_len, 0);
    if protocol == tcp::PROTOCOL {
        (bytes[start + 12], bytes[start + 13]) = (0x80, tcp::TcpFlags::ACK.0);
    } else {
        let len = (transport_len + data) as u16;
        bytes[start + 4..start + 6].copy_from_slice(&len.to_be_bytes());
    }
    let total = bytes.len() + data;
    (bytes, total)
}

/// In a frame of `link` bytes.
fn framed(link: usize, packet: (Vec<u8>, usize)) -> (Vec<u8>, usize) {
    let mut frame = vec![0xee; link];
    frame.extend_from_slice(&packet.0);
    (frame, packet.1 + link)
}

#[test]
fn its_ten_bytes_are_the_systems() {
    let header = VnetHeader {
        flags: NEEDS_CHECKSUM,
        gso_type: GSO_TCPV4,
        header_len: 0x0102,
        gso_size: 0x0304,
        checksum_start: 0x0506,
        checksum_offset: 0x0708,
    };
    let bytes = header.to_bytes();
    let words = [0x0102u16, 0x0304, 0x0506, 0x0708].map(u16::to_ne_bytes);
    assert_eq!(bytes[..2], [1, 1]);
    assert_eq!(bytes[2..], words.concat());
    assert_eq!(VnetHeader::from_bytes(&bytes), header);
}

#[test]
fn what_is_said_of_a_packet_that_leaves_is_understood_when_it_arrives() {
    for link in [0, ethernet_header()] {
        for (version, protocol, segment_bytes) in [
            (4, tcp::PROTOCOL, 0),
            (4, udp::PROTOCOL, 0),
            (6, tcp::PROTOCOL, 0),
            (6, udp::PROTOCOL, 0),
            (4, tcp::PROTOCOL, MSS),
            (6, tcp::PROTOCOL, MSS),
            (4, udp::PROTOCOL, MSS),
            (6, udp::PROTOCOL, MSS),
        ] {
            let (front, total) = framed(link, packet(version, protocol, 10 * MSS + 1));
            let said =
                VnetHeader::describing(&front, link, segment_bytes as u32, Checksum::Partial)
                    .unwrap();
            let described = said.of(&front, link, total).unwrap();
            let train = (segment_bytes != 0).then_some(Train {
                header_len: front.len(),
                segment_bytes,
            });
            let checksum = Checksum::Partial;
            assert_eq!(described, Described { checksum, train }, "{said:?}");
        }
    }
}

const fn ethernet_header() -> usize {
    braidnet_wire::ethernet::HEADER_LEN
}

#[test]
fn of_a_whole_packet_nothing_is_said() {
    let (front, total) = packet(4, 1, 0);
    for checksum in [Checksum::Stands, Checksum::Verified] {
        let said = VnetHeader::describing(&front, 0, 0, checksum);
        assert_eq!(said, Some(VnetHeader::default()));
    }
    assert_eq!(
        VnetHeader::default().of(&front, 0, total),
        Ok(Described::default())
    );
    let verified = VnetHeader {
        flags: DATA_VALID,
        ..VnetHeader::default()
    };
    let checksum = Checksum::Verified;
    let train = None;
    assert_eq!(
        verified.of(&front, 0, total),
        Ok(Described { checksum, train })
    );
}

#[test]
fn what_no_device_could_finish_does_not_leave() {
    let (icmp, _) = packet(4, 1, 0);
    let (udp, _) = packet(4, udp::PROTOCOL, 9);
    let (mut fragment, _) = packet(4, udp::PROTOCOL, 9);
    fragment[6] = 0x20;
    for (front, segment_bytes, checksum) in [
        (&icmp, 0, Checksum::Partial),
        (&fragment, 0, Checksum::Partial),
        (&icmp, 100, Checksum::Partial),
        (&udp, 100, Checksum::Stands),
        (&Vec::new(), 0, Checksum::Partial),
    ] {
        assert_eq!(
            VnetHeader::describing(front, 0, segment_bytes, checksum),
            None
        );
    }
}

#[test]
fn class_43_what_a_packet_does_not_bear_out_is_a_lie() {
    lies_about_segments();
    lies_about_datagrams();
}

fn lies_about_datagrams() {
    let data = 10 * MSS;
    for version in [4, 6] {
        let (front, total) = packet(version, udp::PROTOCOL, data);
        let honest = VnetHeader::describing(&front, 0, MSS as u32, Checksum::Partial).unwrap();
        assert!(honest.of(&front, 0, total).is_ok());
        let with = |gso_size| VnetHeader { gso_size, ..honest };
        let fewest = (data / DATAGRAMS_MAX) as u16 + 1;
        assert!(with(fewest).of(&front, 0, total).is_ok());
        let verified = VnetHeader {
            flags: DATA_VALID,
            ..honest
        };
        assert!(verified.of(&front, 0, total).is_ok());
        let lies = [
            ("datagrams of nothing", with(0)),
            ("longer than all data", with(data as u16 + 1)),
            ("more than a packet stands for", with(fewest - 1)),
            (
                "checksums nobody has seen to",
                VnetHeader { flags: 0, ..honest },
            ),
            (
                "of TCP",
                VnetHeader {
                    gso_type: GSO_TCPV4,
                    ..honest
                },
            ),
            (
                "of which the first alone has CWR",
                VnetHeader {
                    gso_type: GSO_UDP_L4 | GSO_ECN,
                    ..honest
                },
            ),
            (
                "the checksum lies where TCP's does",
                VnetHeader {
                    checksum_offset: tcp::CHECKSUM_OFFSET as u16,
                    ..honest
                },
            ),
        ];
        for (what, lie) in lies {
            assert_eq!(lie.of(&front, 0, total), Err(LIE), "{version}: {what}");
        }
        let start = front.len() - udp::HEADER_LEN;
        let mut other_length = front.clone();
        other_length[start + 5] ^= 1;
        let cut = &front[..front.len() - 1];
        for front in [&other_length[..], cut] {
            assert_eq!(honest.of(front, 0, total), Err(LIE), "{version}");
        }
    }
    let (mut fragment, total) = packet(4, udp::PROTOCOL, data);
    let honest = VnetHeader::describing(&fragment, 0, MSS as u32, Checksum::Partial).unwrap();
    fragment[6] = 0x20;
    assert_eq!(honest.of(&fragment, 0, total), Err(LIE));
}

fn lies_about_segments() {
    let (front, total) = packet(4, tcp::PROTOCOL, 10 * MSS);
    let data = 10 * MSS;
    let honest = VnetHeader::describing(&front, 0, MSS as u32, Checksum::Partial).unwrap();
    assert!(honest.of(&front, 0, total).is_ok());
    let lies = [
        (
            "all headers end past the packet",
            VnetHeader {
                header_len: total as u16 + 1,
                ..honest
            },
        ),
        (
            "segments of nothing",
            VnetHeader {
                gso_size: 0,
                ..honest
            },
        ),
        (
            "segments longer than all data",
            VnetHeader {
                gso_size: data as u16 + 1,
                ..honest
            },
        ),
        (
            "the checksum starts past the end",
            VnetHeader {
                checksum_start: total as u16,
                ..honest
            },
        ),
        (
            "the checksum lies past the end",
            VnetHeader {
                checksum_offset: u16::MAX,
                ..honest
            },
        ),
        (
            "the checksum starts elsewhere",
            VnetHeader {
                checksum_start: 0,
                ..honest
            },
        ),
        (
            "it lies elsewhere",
            VnetHeader {
                checksum_offset: 6,
                ..honest
            },
        ),
        (
            "segments of TCP over IPv6",
            VnetHeader {
                gso_type: GSO_TCPV6,
                ..honest
            },
        ),
        (
            "fragments of UDP",
            VnetHeader {
                gso_type: 3,
                ..honest
            },
        ),
        (
            "datagrams of UDP",
            VnetHeader {
                gso_type: GSO_UDP_L4,
                ..honest
            },
        ),
        (
            "segments of which the first alone has CWR",
            VnetHeader {
                gso_type: GSO_TCPV4 | 0x80,
                ..honest
            },
        ),
        (
            "a kind that nobody knows",
            VnetHeader {
                gso_type: 0x7f,
                ..honest
            },
        ),
        (
            "segments whose checksum nobody has seen to",
            VnetHeader { flags: 0, ..honest },
        ),
    ];
    for (what, lie) in lies {
        assert_eq!(lie.of(&front, 0, total), Err(LIE), "{what}");
    }
    type Change = fn(&mut Vec<u8>);
    let changes: [(&str, Change); 9] = [
        ("no packet", |front| front.clear()),
        ("a header that is cut", |front| front.truncate(37)),
        ("options that are cut", |front| front.truncate(51)),
        ("no version of IP", |front| front[0] = 0x55),
        ("another length", |front| front[3] ^= 1),
        ("a fragment", |front| front[6] = 0x20),
        ("another transport", |front| front[9] = udp::PROTOCOL),
        ("a header shorter than TCP's", |front| front[32] = 0x40),
        ("a SYN", |front| front[33] |= tcp::TcpFlags::SYN.0),
    ];
    for (what, change) in changes {
        let mut front = front.clone();
        change(&mut front);
        assert_eq!(honest.of(&front, 0, total), Err(LIE), "{what}");
    }
    // One segment is no train, and says so in vain.
    let (front, total) = packet(4, tcp::PROTOCOL, MSS);
    let one = VnetHeader {
        header_len: 0,
        ..honest
    };
    let described = one.of(&front, 0, total).unwrap();
    assert_eq!(described.train, None);
}

proptest::proptest! {
    #[test]
    fn whatever_is_said_nothing_panics_and_a_train_has_two_segments(
        said in proptest::array::uniform10(proptest::prelude::any::<u8>()),
        front in proptest::collection::vec(proptest::prelude::any::<u8>(), 0..80),
        more in 0usize..70_000,
        link in proptest::sample::select(vec![0, ethernet_header()]),
    ) {
        let total = front.len() + more;
        if let Ok(Described { train: Some(train), .. }) = VnetHeader::from_bytes(&said).of(&front, link, total) {
            proptest::prop_assert!(train.segment_bytes > 0);
            proptest::prop_assert!(train.header_len + train.segment_bytes < total);
        }
    }

    /// An honest description, changed a little or not at all.
    #[test]
    fn whatever_is_changed_a_train_is_no_more_than_its_packet(
        kind in proptest::sample::select(vec![(4, tcp::PROTOCOL), (6, tcp::PROTOCOL), (4, udp::PROTOCOL), (6, udp::PROTOCOL)]),
        each in 1usize..2000,
        data in 2usize..60_000,
        changes in proptest::collection::vec((0usize..LEN + 80, proptest::prelude::any::<u8>()), 0..3),
    ) {
        let (version, protocol) = kind;
        let (front, total) = packet(version, protocol, data);
        let honest = VnetHeader::describing(&front, 0, each as u32, Checksum::Partial).unwrap();
        let mut bytes = [&honest.to_bytes()[..], &front].concat();
        for (at, value) in changes {
            if let Some(byte) = bytes.get_mut(at) {
                *byte = value;
            }
        }
        let (said, front) = bytes.split_first_chunk().unwrap();
        let said = VnetHeader::from_bytes(said);
        if let Ok(Described { train: Some(train), .. }) = said.of(front, 0, total) {
            let data = total - train.header_len;
            proptest::prop_assert!(train.header_len <= front.len());
            proptest::prop_assert!((1..data).contains(&train.segment_bytes));
            let datagrams = data.div_ceil(train.segment_bytes);
            proptest::prop_assert!(!said.is_train_of_datagrams() || datagrams <= DATAGRAMS_MAX);
        }
    }
}
