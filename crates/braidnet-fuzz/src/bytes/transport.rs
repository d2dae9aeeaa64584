//! UDP and TCP.

use super::{double_word, mend, plain_sum, pseudo_header, word};
use braidnet_wire::address::Address;
use braidnet_wire::checksum::Sum;
use braidnet_wire::seq::SeqNumber;
use braidnet_wire::tcp::{self, FastOpenCookie, Layout, SackBlock, TcpError, TcpFlags, TcpHeader};
use braidnet_wire::udp::{self, UdpError};

const HERE: [u8; 4] = [192, 0, 2, 1];
const THERE: [u8; 4] = [198, 51, 100, 7];

/// RFC 768: lengths, and the checksum where there is one.
pub fn udp(input: &[u8]) {
    udp_of(input);
    let mut mended = input.to_vec();
    if input.len() >= 8 {
        let len = usize::from(word(input, 4)).clamp(8, input.len());
        let pseudo = pseudo_header(HERE, THERE, 17, len);
        mend(&[&pseudo], &mut mended[..len], 6);
        udp_of(&mended);
    }
}

fn udp_of(payload: &[u8]) {
    let parsed = udp::parse(payload);
    let len = payload.get(4..6).map_or(0, |len| usize::from(word(len, 0)));
    let expected = match payload.len() {
        ..8 => Err(UdpError::Truncated),
        _ if len < 8 => Err(UdpError::LenTooSmall),
        all if len > all => Err(UdpError::LenPastEnd),
        _ => Ok(()),
    };
    assert_eq!(parsed.map(|_| ()), expected);
    let Ok(header) = parsed else { return };
    assert_eq!(header.payload_range(), 8..len);
    assert_eq!(
        (header.source_port, header.destination_port),
        (word(payload, 0), word(payload, 2))
    );
    let datagram = &payload[..len];
    let (here, there) = (Address::v4(HERE), Address::v4(THERE));
    let sum = plain_sum(&[&pseudo_header(HERE, THERE, 17, len), datagram]);
    let right = word(payload, 6) == 0 || sum == 0xffff;
    assert_eq!(udp::verify(&here, &there, datagram).is_ok(), right);
    // Made again.
    let mut made = datagram.to_vec();
    udp::emit(&header, &mut made);
    let rest = Sum::pseudo_header(&here, &there, 17, len as u32) + Sum::of(&made[8..]);
    udp::seal(&mut made[..8], rest);
    assert_eq!(
        plain_sum(&[&pseudo_header(HERE, THERE, 17, len), &made]),
        0xffff
    );
    assert_ne!(
        word(&made, 6),
        0,
        "a checksum of zero says that there is none"
    );
    assert_eq!((udp::parse(&made), &made[8..]), (parsed, &datagram[8..]));
}

/// Headers and options, read by their plainest description and written again; checksums.
pub fn tcp(input: &[u8]) {
    let parsed = tcp::parse(input);
    assert_eq!(
        parsed.map(|parsed| (parsed.header, parsed.header_len)),
        plain_tcp(input)
    );
    if input.len() >= 20 {
        tcp_checksum(input);
    }
    let Ok(parsed) = parsed else { return };
    assert_eq!(tcp::ports(input), Ok((word(input, 0), word(input, 2))));
    assert_eq!(
        (parsed.source_port, parsed.destination_port),
        (word(input, 0), word(input, 2))
    );
    assert!((20..=60).contains(&parsed.header_len) && parsed.header_len <= input.len());
    // The short cuts are the long way.
    match tcp::usual_layout(input) {
        None => assert_eq!(tcp::parse_usual(input), None),
        Some(layout) => {
            assert_ne!(layout, Layout::Other);
            assert_eq!(tcp::parse_as(layout, input), Some(parsed));
        }
    }
    let mut out = [0xee; 61];
    let (from, to) = (parsed.source_port, parsed.destination_port);
    let len = tcp::emit(&parsed.header, from, to, &mut out);
    assert_eq!((len, out[len]), (tcp::header_len(&parsed.header), 0xee));
    assert!((20..=60).contains(&len) && len.is_multiple_of(4));
    let again = tcp::parse(&out[..len]).expect("what is written can be read");
    assert_eq!(
        (again.source_port, again.destination_port, again.header_len),
        (from, to, len)
    );
    let mut kept = parsed.header;
    if kept.flags.contains(TcpFlags::SYN) {
        // Everything else and the longest cookie leave no room for it.
        let dropped = parsed.header.present & !again.header.present;
        if dropped == TcpHeader::HAS_USER_TIMEOUT {
            let cookie = kept.fast_open().expect("it is in the way");
            assert_eq!((cookie.as_bytes().len(), len), (16, 60));
            kept.present &= !dropped;
            kept.user_timeout = 0;
        }
    } else if kept.sack_count > 0 {
        // As many as there is room for.
        let everywhere = 12 * u8::from(kept.has(TcpHeader::HAS_TIMESTAMPS))
            + 4 * u8::from(kept.has(TcpHeader::HAS_USER_TIMEOUT));
        kept.sack_count = kept.sack_count.min((36 - everywhere) / 8);
        for lost in &mut kept.sack[usize::from(kept.sack_count)..] {
            *lost = SackBlock::default();
        }
    }
    assert_eq!(again.header, kept);
    let rest = Sum::pseudo_header(&Address::v4(HERE), &Address::v4(THERE), 6, len as u32);
    let mut sealed = [0; 60];
    assert_eq!(
        tcp::emit_sealed(&parsed.header, from, to, rest, &mut sealed),
        len
    );
    tcp::seal(&mut out[..len], rest);
    assert_eq!(sealed[..len], out[..len]);
    let pseudo = pseudo_header(HERE, THERE, 6, len);
    assert_eq!(plain_sum(&[&pseudo, &out[..len]]), 0xffff);
}

fn tcp_checksum(segment: &[u8]) {
    let (here, there) = (Address::v4(HERE), Address::v4(THERE));
    let pseudo = pseudo_header(HERE, THERE, 6, segment.len());
    let right = plain_sum(&[&pseudo, segment]) == 0xffff;
    assert_eq!(tcp::verify(&here, &there, segment).is_ok(), right);
    let mut mended = segment.to_vec();
    mend(&[&pseudo], &mut mended, 16);
    assert_eq!(tcp::verify(&here, &there, &mended), Ok(()));
}

/// RFC 9293 §3.1 and §3.2, RFC 7323 §2.2 and §3.2, RFC 2018 §2 and §3, RFC 5482 §3.2.
fn plain_tcp(segment: &[u8]) -> Result<(TcpHeader, usize), TcpError> {
    if segment.len() < 20 {
        return Err(TcpError::Truncated);
    }
    let header_len = usize::from(segment[12] >> 4) * 4;
    if header_len < 20 {
        return Err(TcpError::DataOffsetTooSmall);
    }
    if header_len > segment.len() {
        return Err(TcpError::DataOffsetPastEnd);
    }
    let mut header = TcpHeader {
        seq: SeqNumber::new(double_word(segment, 4)),
        ack: SeqNumber::new(double_word(segment, 8)),
        flags: TcpFlags(segment[13]),
        window: word(segment, 14),
        urgent: word(segment, 18),
        ..TcpHeader::default()
    };
    if segment[12] & 1 != 0 {
        // The bit below the data offset (RFC 9768 §3.1).
        header.present |= TcpHeader::AE;
    }
    let options = &segment[20..header_len];
    let mut at = 0;
    while at < options.len() && options[at] != 0 {
        if options[at] == 1 {
            at += 1;
            continue;
        }
        let Some(len) = options.get(at + 1).map(|len| usize::from(*len)) else {
            return Err(TcpError::OptionWithoutLength);
        };
        if len < 2 {
            return Err(TcpError::OptionTooShort);
        }
        if at + len > options.len() {
            return Err(TcpError::OptionPastEnd);
        }
        plain_option(&options[at..at + len], &mut header)?;
        at += len;
    }
    Ok((header, header_len))
}

fn plain_option(option: &[u8], header: &mut TcpHeader) -> Result<(), TcpError> {
    let syn = header.flags.contains(TcpFlags::SYN);
    let length_is = |len, error| {
        if option.len() == len {
            Ok(())
        } else {
            Err(error)
        }
    };
    match option[0] {
        2 if syn => {
            length_is(4, TcpError::MssLength)?;
            header.mss = word(option, 2);
            header.present |= TcpHeader::HAS_MSS;
        }
        3 if syn => {
            length_is(3, TcpError::WindowScaleLength)?;
            header.window_scale = option[2].min(14);
            header.present |= TcpHeader::HAS_WINDOW_SCALE;
        }
        4 if syn => {
            length_is(2, TcpError::SackPermittedLength)?;
            header.present |= TcpHeader::HAS_SACK_PERMITTED;
        }
        5 if !syn => {
            let blocks = (option.len() - 2) / 8;
            length_is(2 + 8 * blocks.clamp(1, 4), TcpError::SackLength)?;
            header.sack_count = blocks as u8;
            header.sack = Default::default();
            for block in 0..blocks {
                header.sack[block] = SackBlock {
                    left: SeqNumber::new(double_word(option, 2 + 8 * block)),
                    right: SeqNumber::new(double_word(option, 6 + 8 * block)),
                };
            }
        }
        34 if syn => {
            let cookie = &option[2..];
            if matches!(cookie.len(), 0 | 4 | 6 | 8 | 10 | 12 | 14 | 16) {
                let cookie = FastOpenCookie::new(cookie).expect("a length of cookies");
                *header = header.with_fast_open(cookie);
            }
        }
        8 => {
            length_is(10, TcpError::TimestampsLength)?;
            header.ts_value = double_word(option, 2);
            header.ts_echo = double_word(option, 6);
            header.present |= TcpHeader::HAS_TIMESTAMPS;
        }
        28 => {
            length_is(4, TcpError::UserTimeoutLength)?;
            header.user_timeout = word(option, 2);
            header.present |= TcpHeader::HAS_USER_TIMEOUT;
        }
        _ => {}
    }
    Ok(())
}
