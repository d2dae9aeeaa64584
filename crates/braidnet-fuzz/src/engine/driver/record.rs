//! A segment as a record, for sessions that are recorded, and as places, for who looks on.

use super::super::input::{Kind, RECORD};
use super::Driver;
use braidnet_tcp::State;
use braidnet_wire::tcp::{TcpFlags, TcpHeader};

impl Driver {
    /// A segment's numbers, as places: of the peer's or of ours.
    pub(super) fn places(&self, header: &TcpHeader) -> String {
        let (seq, ack) = (header.seq.value(), header.ack.value());
        let (model, flags) = (&self.model, header.flags.0);
        format!(
            "theirs seq {} ack {}, or ours seq {} ack {}, flags {flags:#04x}, window {}; RCV.NXT {} to {}, SND.UNA {} to {}",
            model.rcv_place(seq),
            model.snd_place(ack),
            model.snd_place(seq),
            model.rcv_place(ack),
            header.window,
            model.rcv_nxt,
            model.rcv_edge,
            model.snd_una,
            model.snd_max,
        )
    }

    /// The record that stands for this segment, as far as a record can say it: SACK blocks and timestamps roughly.
    pub fn record_of(&self, header: &TcpHeader, len: usize) -> [u8; RECORD] {
        let model = &self.model;
        let mut record = [0; RECORD];
        record[0] = Kind::Segment.first_byte();
        record[1] = (header.flags.0 ^ TcpFlags::ACK.0) & 0x7f;
        record[2] = header.present & TcpHeader::ECN | (header.flags.0 & TcpFlags::CWR.0) >> 2;
        record[3] = header.present & TcpHeader::AE;
        let distance = |place: i64, from: i64| ((place - from) as i16).to_be_bytes();
        let seq = model.rcv_place(header.seq.value());
        // Before the peer's SYN, places count from the SYN that is known to come.
        let seq = if model.state == State::SynSent {
            0
        } else {
            seq
        };
        record[4..6].copy_from_slice(&distance(
            seq,
            if model.state == State::SynSent {
                0
            } else {
                model.rcv_nxt
            },
        ));
        record[6..8].copy_from_slice(&distance(
            model.snd_place(header.ack.value()),
            model.snd_max,
        ));
        let len = if len < 300 { len } else { 33_000 + len % 3000 };
        record[8..10].copy_from_slice(&(len as u16).to_be_bytes());
        record[10..12].copy_from_slice(&header.window.to_be_bytes());
        if let Some(block) = header.sack_blocks().first() {
            let left = model.snd_place(block.left.value()) - model.snd_una;
            let octets = block.right - block.left;
            record[3] |= 1 << 3;
            record[14] = (left / 16).clamp(0, 255) as u8;
            record[12..14]
                .copy_from_slice(&((octets.clamp(1, 4095) as u16 - 1) << 4).to_be_bytes());
        }
        record[15] = 1;
        record
    }
}
