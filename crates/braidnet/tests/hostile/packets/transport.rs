//! TCP segments and UDP datagrams that belong to nothing.

use super::{DATA, EVERYBODY, Row, datagram, row};
use crate::packet::{ACK, FIN, RST, SYN, Segment, ipv4, udp};
use crate::rig::{CLOSED_PORT, EVIL, FRIEND, PORT, TARGET};

/// TCP segments for no connection.
pub const TCP: &[Row] = &[
    row(
        6,
        "19 bytes",
        || vec![ipv4(EVIL, TARGET, 6, &[0; 19])],
        &[("tcp.tcp_truncated", 1)],
        &[],
    ),
    row(
        6,
        "no bytes",
        || vec![ipv4(EVIL, TARGET, 6, &[])],
        &[("tcp.tcp_truncated", 1)],
        &[],
    ),
    row(
        6,
        "data offset 4",
        || {
            vec![
                Segment {
                    data_offset: Some(4),
                    ..to_listener(SYN)
                }
                .packet(),
            ]
        },
        &[("tcp.tcp_data_offset_too_small", 1)],
        &[],
    ),
    row(
        6,
        "data offset past the end",
        || {
            vec![
                Segment {
                    data_offset: Some(15),
                    ..to_listener(SYN)
                }
                .packet(),
            ]
        },
        &[("tcp.tcp_data_offset_past_end", 1)],
        &[],
    ),
    row(
        7,
        "option without a length",
        || vec![to_listener(SYN).options(&[1, 1, 1, 2]).packet()],
        &[("tcp.tcp_option_without_length", 1)],
        &[],
    ),
    row(
        7,
        "option of length 0",
        || vec![to_listener(SYN).options(&[99, 0, 0, 0]).packet()],
        &[("tcp.tcp_option_too_short", 1)],
        &[],
    ),
    row(
        7,
        "option of length 1",
        || vec![to_listener(SYN).options(&[2, 1, 5, 5]).packet()],
        &[("tcp.tcp_option_too_short", 1)],
        &[],
    ),
    row(
        7,
        "option past the end",
        || vec![to_listener(SYN).options(&[2, 5, 5, 5]).packet()],
        &[("tcp.tcp_option_past_end", 1)],
        &[],
    ),
    row(
        7,
        "MSS of length 3",
        || vec![to_listener(SYN).options(&[2, 3, 5, 1]).packet()],
        &[("tcp.tcp_mss_option_length", 1)],
        &[],
    ),
    row(
        11,
        "SYN and RST",
        || vec![to_listener(SYN | RST).packet()],
        &[("tcp.tcp_reset_without_connection", 1)],
        &[],
    ),
    row(
        11,
        "no flags",
        || vec![to_listener(0).packet()],
        &[("tcp.tcp_connection_closed", 1)],
        &[],
    ),
    row(
        11,
        "Xmas",
        || vec![to_listener(FIN | 32 | 8).packet()],
        &[("tcp.tcp_connection_closed", 1)],
        &[],
    ),
    row(
        11,
        "RST for nobody",
        || vec![to_closed(RST).packet()],
        &[("tcp.no_connection", 1)],
        &[],
    ),
    row(
        11,
        "SYN and RST for nobody",
        || vec![to_closed(SYN | RST).packet()],
        &[("tcp.no_connection", 1)],
        &[],
    ),
    row(
        11,
        "no flags for nobody",
        || vec![to_closed(0).packet()],
        &[("tcp.resets_out", 1)],
        &["tcp RA 0 0"],
    ),
    row(
        13,
        "ACK for a listener",
        || vec![to_listener(ACK).acking(77).packet()],
        &[("tcp.resets_out", 1)],
        &["tcp R 77 0"],
    ),
    row(
        13,
        "SYN-ACK for a listener",
        || vec![to_listener(SYN | ACK).acking(77).packet()],
        &[("tcp.resets_out", 1)],
        &["tcp R 77 0"],
    ),
    row(
        13,
        "SYN for nobody",
        || vec![to_closed(SYN).ahead(0xffff_ffff).packet()],
        &[("tcp.resets_out", 1)],
        &["tcp RA 0 0"],
    ),
    row(
        13,
        "data for nobody",
        || vec![to_closed(ACK).acking(5).data(b"x").packet()],
        &[("tcp.resets_out", 1)],
        &["tcp R 5 0"],
    ),
];

fn to_listener(flags: u8) -> Segment {
    Segment::new((EVIL, 4000), (TARGET, PORT)).flags(flags)
}

fn to_closed(flags: u8) -> Segment {
    Segment::new((EVIL, 4000), (TARGET, CLOSED_PORT)).flags(flags)
}

pub const UDP: &[Row] = &[
    row(
        38,
        "length 7",
        || vec![with_udp(5, 7)],
        &[("udp.udp_length_too_small", 1)],
        &[],
    ),
    row(
        38,
        "length 0",
        || vec![with_udp(5, 0)],
        &[("udp.udp_length_too_small", 1)],
        &[],
    ),
    row(
        38,
        "length past the end",
        || vec![with_udp(5, 200)],
        &[("udp.udp_length_past_end", 1)],
        &[],
    ),
    row(
        38,
        "seven bytes",
        || vec![ipv4(EVIL, TARGET, 17, &[0; 7])],
        &[("udp.udp_truncated", 1)],
        &[],
    ),
    row(
        38,
        "length below the payload, checksum of more",
        || vec![with_udp(5, 12)],
        &[("udp.udp_checksum_wrong", 1)],
        &[],
    ),
    row(
        38,
        "no checksum is legal",
        || vec![without_checksum(datagram())],
        &[("icmp.unreachable_sent", 1), ("udp.port_closed", 1)],
        &["icmp 3/3 of 52"],
    ),
    row(
        38,
        "a closed port",
        || vec![datagram()],
        &[("icmp.unreachable_sent", 1), ("udp.port_closed", 1)],
        &["icmp 3/3 of 52"],
    ),
    row(
        38,
        "from port 0",
        || vec![udp((EVIL, 0), (TARGET, 53), DATA)],
        &[("icmp.unreachable_sent", 1), ("udp.port_closed", 1)],
        &["icmp 3/3 of 52"],
    ),
    row(
        38,
        "to port 0",
        || vec![udp((EVIL, 4000), (TARGET, 0), DATA)],
        &[("udp.port_zero", 1)],
        &[],
    ),
    row(
        38,
        "to everybody",
        || vec![udp((EVIL, 4000), (EVERYBODY, 53), DATA)],
        &[("icmp.unreachable_forbidden", 1), ("udp.port_closed", 1)],
        &[],
    ),
    row(
        38,
        "two stacks that refuse each other's refusal",
        || vec![udp((FRIEND, 53), (TARGET, 53), DATA)],
        &[("icmp.unreachable_sent", 1), ("udp.port_closed", 1)],
        &[],
    ),
];

fn with_udp(at: usize, len: u8) -> Vec<u8> {
    let mut packet = datagram();
    packet[20 + at] = len;
    packet
}

fn without_checksum(mut packet: Vec<u8>) -> Vec<u8> {
    packet[26..28].fill(0);
    packet
}
