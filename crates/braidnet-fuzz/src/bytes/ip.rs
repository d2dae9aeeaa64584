//! IPv4, IPv6, ICMP and what flow a packet is of.

use super::{double_word, lies_within, mend, plain_sum, word};
use braidnet_wire::address::{Address, Tuple};
use braidnet_wire::flow::{flow_of, plain_flow_of};
use braidnet_wire::icmpv4::{self, Icmpv4, Icmpv4Error, Quoted};
use braidnet_wire::ipv4::{self, Ipv4Error, Ipv4Header};
use braidnet_wire::ipv6::{self, Ipv6Error};

/// Headers with the checksum that they came with, and with the right one.
pub fn ipv4(input: &[u8]) {
    ipv4_of(input);
    let mut mended = input.to_vec();
    if let Some(first) = input.first() {
        let header = (usize::from(first & 15) * 4).clamp(20, 60).min(input.len());
        mend(&[], &mut mended[..header], 10);
        ipv4_of(&mended);
    }
}

fn ipv4_of(packet: &[u8]) {
    let parsed = ipv4::parse(packet);
    assert_eq!(parsed, plain_ipv4(packet));
    let usual = ipv4::parse_usual(packet);
    let Ok(header) = parsed else {
        // Only a length that the packet does not have is left to whoever asks.
        assert!(usual.is_none() || parsed == Err(Ipv4Error::TotalLenPastEnd));
        return;
    };
    let payload = header.payload_range();
    assert!(payload.start <= payload.end && payload.end <= packet.len());
    let front = &packet[..usize::from(header.header_len)];
    assert_eq!(ipv4::parse_front(front, packet.len()), parsed);
    assert_eq!(
        usual.is_some(),
        header.header_len == 20 && !header.is_fragment()
    );
    if let Some(usual) = usual {
        assert_eq!(Address::v4(usual.source.to_be_bytes()), header.source);
        assert_eq!(
            Address::v4(usual.destination.to_be_bytes()),
            header.destination
        );
        let fields = (usual.total_len, usual.protocol, usual.ttl);
        assert_eq!(fields, (header.total_len, header.protocol, header.ttl));
    }
    // Written again, without options and the reserved flag.
    let bare = Ipv4Header {
        header_len: 20,
        ..header
    };
    let mut out = [0xee; 21];
    assert_eq!(ipv4::emit(&bare, &mut out), 20);
    assert_eq!((plain_sum(&[&out[..20]]), out[20]), (0xffff, 0xee));
    if usize::from(header.total_len) <= packet.len() {
        let mut again = packet.to_vec();
        again[..20].copy_from_slice(&out[..20]);
        if header.header_len == 20 {
            assert_eq!(ipv4::parse(&again), parsed);
        }
    }
    let mut from_template = [0; 20];
    let template = ipv4::Template::new(&bare);
    template.emit(header.total_len, header.identification, &mut from_template);
    assert_eq!(from_template, out[..20]);
}

/// RFC 791 §3.1 and §3.2, field by field.
fn plain_ipv4(packet: &[u8]) -> Result<Ipv4Header, Ipv4Error> {
    if packet.len() < 20 {
        return Err(Ipv4Error::Truncated);
    }
    if packet[0] >> 4 != 4 {
        return Err(Ipv4Error::NotVersion4);
    }
    let header_len = usize::from(packet[0] & 15) * 4;
    if header_len < 20 {
        return Err(Ipv4Error::HeaderLenTooSmall);
    }
    if header_len > packet.len() {
        return Err(Ipv4Error::HeaderLenPastEnd);
    }
    let total = usize::from(word(packet, 2));
    if total < header_len {
        return Err(Ipv4Error::TotalLenTooSmall);
    }
    if total > packet.len() {
        return Err(Ipv4Error::TotalLenPastEnd);
    }
    if plain_sum(&[&packet[..header_len]]) != 0xffff {
        return Err(Ipv4Error::Checksum);
    }
    let offset = usize::from(word(packet, 6) & 0x1fff) * 8;
    let more = packet[6] & 0x20 != 0;
    if (offset > 0 || more) && offset + total > 65535 {
        return Err(Ipv4Error::FragmentPastMaximum);
    }
    if more && (total - header_len) % 8 != 0 {
        return Err(Ipv4Error::FragmentUneven);
    }
    plain_options(&packet[20..header_len])?;
    Ok(Ipv4Header {
        source: Address::v4([packet[12], packet[13], packet[14], packet[15]]),
        destination: Address::v4([packet[16], packet[17], packet[18], packet[19]]),
        protocol: packet[9],
        ttl: packet[8],
        type_of_service: packet[1],
        identification: word(packet, 4),
        dont_fragment: packet[6] & 0x40 != 0,
        more_fragments: more,
        fragment_offset: offset as u16,
        header_len: header_len as u8,
        total_len: total as u16,
    })
}

fn plain_options(options: &[u8]) -> Result<(), Ipv4Error> {
    let mut at = 0;
    while at < options.len() && options[at] != 0 {
        if options[at] == 1 {
            at += 1;
            continue;
        }
        let Some(len) = options.get(at + 1).map(|len| usize::from(*len)) else {
            return Err(Ipv4Error::OptionWithoutLength);
        };
        if len < 2 {
            return Err(Ipv4Error::OptionTooShort);
        }
        if at + len > options.len() {
            return Err(Ipv4Error::OptionPastEnd);
        }
        // What a kind needs, and the least that its pointer may say.
        let (least, pointer) = match options[at] {
            7 | 131 | 137 => (3, 4),
            68 => (4, 5),
            148 => (4, 0),
            _ => (2, 0),
        };
        if len < least {
            return Err(Ipv4Error::OptionTooShort);
        }
        if pointer > 0 && options[at + 2] < pointer {
            return Err(Ipv4Error::OptionPointer);
        }
        if let 131 | 137 = options[at] {
            return Err(Ipv4Error::SourceRoute);
        }
        at += len;
    }
    Ok(())
}

/// RFC 8200 §3, without extension headers.
pub fn ipv6(input: &[u8]) {
    let parsed = ipv6::parse(input);
    let Ok(header) = parsed else {
        let plausible = match parsed {
            Err(Ipv6Error::Truncated) => input.len() < 40,
            Err(Ipv6Error::NotVersion6) => input[0] >> 4 != 6,
            Err(Ipv6Error::PayloadLenPastEnd) => 40 + usize::from(word(input, 4)) > input.len(),
            Err(Ipv6Error::MappedAddress) => [8, 24]
                .iter()
                .any(|at| input[*at..at + 10] == [0; 10] && input[at + 10..at + 12] == [0xff; 2]),
            Err(Ipv6Error::MulticastSource) => input[8] == 0xff,
            Err(Ipv6Error::NoNextHeader) => input[6] == 59,
            Err(Ipv6Error::ExtensionHeader) => {
                [0, 43, 44, 50, 51, 60, 135, 139, 140, 253, 254].contains(&input[6])
            }
            Ok(_) => false,
        };
        assert!(plausible, "{parsed:?}");
        return;
    };
    let payload = header.payload_range();
    assert!(payload.start == 40 && payload.end <= input.len());
    let mut out = [0xee; 41];
    assert_eq!(ipv6::emit(&header, &mut out), 40);
    assert_eq!((&out[..40], out[40]), (&input[..40], 0xee));
}

/// Messages with the checksum that they came with, and with the right one.
pub fn icmp(input: &[u8]) {
    icmp_of(input);
    let mut mended = input.to_vec();
    mend(&[], &mut mended, 2);
    icmp_of(&mended);
}

fn icmp_of(message: &[u8]) {
    let parsed = icmpv4::parse(message);
    let mut answered = message.to_vec();
    let answer = icmpv4::answer_echo(&mut answered);
    let is_request = message.len() >= 8 && message[..2] == [8, 0];
    assert_eq!(answer.is_ok(), is_request);
    match (parsed, answer) {
        (Ok(Icmpv4::EchoRequest(echo)), Ok(())) => {
            assert_eq!(icmpv4::parse(&answered), Ok(Icmpv4::EchoReply(echo)));
        }
        // What was damaged stays damaged.
        (Err(Icmpv4Error::Checksum), Ok(())) => {
            assert_eq!(icmpv4::parse(&answered), Err(Icmpv4Error::Checksum));
        }
        (_, Ok(())) => panic!("{parsed:?} was answered"),
        (_, Err(_)) => assert_eq!(answered, message),
    }
    let valid = message.len() >= 8 && plain_sum(&[message]) == 0xffff;
    let Ok(read) = parsed else {
        assert_eq!(
            valid,
            !matches!(parsed, Err(Icmpv4Error::Checksum | Icmpv4Error::Truncated))
        );
        return;
    };
    assert!(valid);
    let (message_type, part) = match read {
        Icmpv4::EchoRequest(echo) => (8, echo.data),
        Icmpv4::EchoReply(echo) => (0, echo.data),
        Icmpv4::Unreachable { quoted, .. } => (3, quoted.packet),
        Icmpv4::TimeExceeded { quoted, .. } => (11, quoted.packet),
        Icmpv4::ParameterProblem { quoted, .. } => (12, quoted.packet),
    };
    assert_eq!(message[0], message_type);
    assert!(lies_within(part, message));
    assert_eq!(part.len(), message.len() - 8);
    // What is written again reads the same, but for the end of a long quote.
    let mut out = vec![0xee; icmpv4::message_len(&read) + 1];
    let len = icmpv4::emit(&read, &mut out);
    assert_eq!((len + 1, out[len]), (out.len(), 0xee));
    assert!(len == message.len() || len == 8 + icmpv4::MAX_QUOTED_LEN);
    match (icmpv4::parse(&out[..len]), len == message.len()) {
        (again, true) => assert_eq!(again, Ok(read)),
        (again, false) => assert!(again.is_ok()),
    }
}

/// What an error quotes lies within it, is IPv4, and names the flow that its sender would be known by.
pub fn quoted(input: &[u8]) {
    let parsed = Quoted::parse(input);
    let header = input.first().map_or(0, |first| usize::from(first & 15) * 4);
    let readable =
        input.len() >= 28 && input[0] >> 4 == 4 && header >= 20 && input.len() >= header + 8;
    let Ok(quoted) = parsed else {
        let about_error = parsed == Err(Icmpv4Error::ErrorAboutError);
        assert_eq!(readable, about_error);
        return;
    };
    assert!(readable);
    assert_eq!((quoted.packet, quoted.payload), (input, &input[header..]));
    let first = word(input, 6) & 0x1fff == 0;
    if first && input[9] == 1 {
        assert!(
            ![3, 4, 5, 11, 12].contains(&quoted.payload[0]),
            "an error about an error"
        );
    }
    let expected = (first && [6, 17].contains(&input[9])).then(|| Tuple {
        local: quoted.source,
        remote: quoted.destination,
        local_port: word(input, header),
        remote_port: word(input, header + 2),
    });
    assert_eq!(quoted.tuple(), expected);
    // The host that gets the packet back and the one that would get it know one connection, from either end.
    let plain_packet = (word(input, 6) & 0x3fff == 0)
        .then(|| flow_of(input))
        .flatten();
    if let (Some(sent), Some((seen, _))) = (expected, plain_packet) {
        assert_eq!(
            (seen.local, seen.local_port, seen.remote, seen.remote_port),
            (sent.remote, sent.remote_port, sent.local, sent.local_port)
        );
    }
}

/// What is malformed gives any flow or none, but what parses gives its own.
pub fn flow(input: &[u8]) {
    let mut mended = input.to_vec();
    if let Some(first) = input.first().filter(|first| **first >> 4 == 4) {
        let header = (usize::from(first & 15) * 4).clamp(20, 60).min(input.len());
        mend(&[], &mut mended[..header], 10);
    }
    let (flow, plain) = (flow_of(&mended), plain_flow_of(&mended));
    // Whoever is assigned by the short cut is of the same flow.
    if let Some((addresses, ports, protocol)) = plain {
        let (tuple, of) = flow.expect("a plain packet has a flow");
        assert_eq!(
            (addresses.to_ne_bytes()[..4].try_into().ok(), of),
            (tuple.remote.as_v4(), protocol)
        );
        assert_eq!(
            addresses.to_ne_bytes()[4..].try_into().ok(),
            tuple.local.as_v4()
        );
        let [a, b, c, d] = ports.to_ne_bytes();
        assert_eq!(u16::from_be_bytes([a, b]), tuple.remote_port);
        assert_eq!(u16::from_be_bytes([c, d]), tuple.local_port);
    }
    let Ok(header) = ipv4::parse(&mended) else {
        return;
    };
    let Some((tuple, protocol)) = flow else {
        // Too short for its ports.
        assert!([6, 17].contains(&header.protocol) && header.payload_range().len() < 4);
        return;
    };
    let payload = &mended[header.payload_range()];
    let hosts = (tuple.local, tuple.remote);
    if header.is_fragment() {
        assert_eq!((hosts, protocol), ((header.destination, header.source), 0));
        assert_eq!((tuple.local_port, tuple.remote_port), (0, 0));
    } else if [6, 17].contains(&header.protocol) && payload.len() >= 4 {
        assert_eq!(
            (hosts, protocol),
            ((header.destination, header.source), header.protocol)
        );
        let ports = double_word(payload, 0);
        assert_eq!(
            u32::from(tuple.remote_port) << 16 | u32::from(tuple.local_port),
            ports
        );
    } else if let Ok(
        Icmpv4::Unreachable { quoted, .. }
        | Icmpv4::TimeExceeded { quoted, .. }
        | Icmpv4::ParameterProblem { quoted, .. },
    ) = icmpv4::parse(payload)
    {
        // An error comes to where the connection is that it is about.
        assert_eq!(hosts, (quoted.source, quoted.destination));
        if let Some(about) = quoted.tuple() {
            assert_eq!((tuple, protocol), (about, quoted.protocol));
        }
    } else if ![1, 6, 17].contains(&header.protocol) {
        assert_eq!(
            (hosts, protocol),
            ((header.destination, header.source), header.protocol)
        );
    }
}
