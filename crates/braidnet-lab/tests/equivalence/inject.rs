//! Packets that no honest far end sends, and what each is to be called.

use crate::recorder::{ECHO, NOBODY};
use crate::tap::Way;
use crate::wire::Aim;
use braidnet_wire::address::Address;
use braidnet_wire::checksum::Sum;
use braidnet_wire::ipv4::{self, Ipv4Header};
use braidnet_wire::tcp::{self, SackBlock, TcpFlags, TcpHeader};

pub const NEAR: Address = Address::v4([10, 0, 0, 2]);
pub const FAR: Address = Address::v4([10, 0, 0, 1]);

/// A packet with a segment, between the far end's port and the stack's.
pub fn packet(way: Way, far_port: u16, near_port: u16, header: &TcpHeader, data: &[u8]) -> Vec<u8> {
    let (source, destination, from, to) = match way {
        Way::ToFarEnd => (NEAR, FAR, near_port, far_port),
        Way::FromFarEnd => (FAR, NEAR, far_port, near_port),
    };
    let header_len = tcp::header_len(header);
    let total = ipv4::MIN_HEADER_LEN + header_len + data.len();
    let mut packet = vec![0; total];
    let ip = Ipv4Header {
        source,
        destination,
        protocol: tcp::PROTOCOL,
        ttl: 64,
        type_of_service: 0,
        identification: 0,
        dont_fragment: true,
        more_fragments: false,
        fragment_offset: 0,
        header_len: ipv4::MIN_HEADER_LEN as u8,
        total_len: total as u16,
    };
    ipv4::emit(&ip, &mut packet);
    let segment = &mut packet[ipv4::MIN_HEADER_LEN..];
    segment[header_len..].copy_from_slice(data);
    let rest = Sum::pseudo_header(&source, &destination, tcp::PROTOCOL, segment.len() as u32)
        .combine(Sum::of(data));
    tcp::emit_sealed(header, from, to, rest, segment);
    packet
}

/// Bad packets aimed at connection `port` to the echo service, each with a name for it and the counter by which the
/// stack must call it.
pub fn bad_packets(port: u16, aim: &Aim) -> Vec<(&'static str, Vec<u8>, &'static str)> {
    let last = TcpHeader {
        seq: aim.rcv_nxt,
        flags: TcpFlags::ACK,
        sack_count: 0,
        ..aim.last
    };
    let with = |flags: TcpFlags| TcpHeader { flags, ..last };
    let tcp = |header: &TcpHeader, data: &[u8]| packet(Way::FromFarEnd, port, ECHO, header, data);
    let far = 1 << 30;
    let reset = TcpFlags::RST.union(TcpFlags::ACK);
    let changed = |mut packet: Vec<u8>, at: usize| {
        packet[at] ^= 0x40;
        packet
    };
    let end = tcp(&last, b"data").len() - 1;
    let to_nobody = packet(Way::FromFarEnd, port, NOBODY, &last, b"anybody?");
    let mut bad_sack = last;
    bad_sack.sack_count = 1;
    bad_sack.sack[0] = SackBlock {
        left: aim.last.ack + 5000,
        right: aim.last.ack + 6000,
    };
    vec![
        (
            "a wrong checksum",
            changed(tcp(&last, b"data"), end),
            "tcp.tcp_checksum_wrong",
        ),
        (
            "a wrong IP checksum",
            changed(tcp(&last, b"data"), 5),
            "ip.ipv4_checksum_wrong",
        ),
        (
            "cut short",
            tcp(&last, b"data")[..30].to_vec(),
            "ip.ipv4_total_length_past_end",
        ),
        (
            "data past the window",
            tcp(
                &TcpHeader {
                    seq: aim.rcv_nxt + far,
                    ..last
                },
                b"data",
            ),
            "tcp.tcp_beyond_window",
        ),
        (
            "old data",
            tcp(
                &TcpHeader {
                    seq: aim.rcv_nxt - 4,
                    ..last
                },
                b"data",
            ),
            "tcp.tcp_old_segment",
        ),
        (
            "a RST past the window",
            tcp(
                &TcpHeader {
                    seq: aim.rcv_nxt + far,
                    ..with(reset)
                },
                b"",
            ),
            "tcp.tcp_beyond_window",
        ),
        (
            "a RST inside the window",
            tcp(
                &TcpHeader {
                    seq: aim.rcv_nxt + 1,
                    ..with(reset)
                },
                b"",
            ),
            "tcp.tcp_reset_in_window",
        ),
        (
            "a SYN inside the window",
            tcp(&with(TcpFlags::SYN), b""),
            "tcp.tcp_syn_on_connection",
        ),
        (
            "an ACK of what was not sent",
            tcp(
                &TcpHeader {
                    ack: last.ack + far,
                    ..last
                },
                b"",
            ),
            "tcp.tcp_ack_of_unsent",
        ),
        (
            "an old timestamp",
            tcp(
                &TcpHeader {
                    ts_value: last.ts_value.wrapping_sub(1000),
                    ..last
                },
                b"x",
            ),
            "tcp.tcp_old_timestamp",
        ),
        ("no ACK", tcp(&with(TcpFlags(0)), b""), "tcp.tcp_no_ack"),
        (
            "a bad SACK block",
            tcp(&bad_sack, b""),
            "tcp.tcp_bad_sack_block",
        ),
        ("data for nobody", to_nobody, "tcp.resets_out"),
    ]
}
