//! What a peer may be sent.

use super::driver::Driver;
use super::model::Reset;
use braidnet_tcp::{EcnMode, State, Transmit};
use braidnet_wire::tcp::{TcpFlags, TcpHeader};

impl Driver {
    /// A segment leaves; `place` is where its data stands by what the engine says of it.
    pub(super) fn check_outgoing(&mut self, transmit: &Transmit, place: i64) {
        let header = &transmit.header;
        if header.flags.contains(TcpFlags::RST) {
            return self.check_reset(transmit);
        }
        assert_ne!(
            self.model.state,
            State::Closed,
            "only a RST leaves what is closed"
        );
        if header.flags.contains(TcpFlags::SYN) {
            return self.check_syn(transmit, place);
        }
        self.check_mark(transmit);
        assert!(header.flags.contains(TcpFlags::ACK));
        self.check_acknowledgment(header, transmit.len == 0);
        self.check_octets(transmit, place);
        assert_eq!(
            header.has(TcpHeader::HAS_TIMESTAMPS),
            self.model.agreed.timestamps
        );
        if self.model.agreed.timestamps {
            assert_eq!(header.ts_echo, self.model.ts_recent, "TS.Recent is echoed");
            assert_eq!(header.ts_value, self.now.millis() as u32);
        }
        self.model.last_ack = self.model.rcv_nxt;
    }

    /// RFC 9293 §3.10.7: only where one is due, and with the numbers that are due.
    fn check_reset(&mut self, transmit: &Transmit) {
        let header = &transmit.header;
        assert_eq!(transmit.len, 0);
        let reset = self.model.reset.take();
        let reset = reset.unwrap_or_else(|| panic!("a RST out of nothing: {header:?}"));
        // RFC 7323 §3.2, §5.2.
        let stamps = match reset {
            Reset::Ours if self.model.agreed.timestamps => {
                Some((self.now.millis() as u32, self.model.ts_recent))
            }
            Reset::Ours => None,
            Reset::To { echo, .. } | Reset::Answer { echo } => echo.map(|echo| (0, echo)),
        };
        let has_stamps = header.has(TcpHeader::HAS_TIMESTAMPS);
        assert_eq!(
            has_stamps.then_some((header.ts_value, header.ts_echo)),
            stamps,
            "timestamps of {reset:?}"
        );
        match reset {
            Reset::To { seq, .. } => {
                assert_eq!((header.flags, header.seq.value()), (TcpFlags::RST, seq));
            }
            Reset::Ours | Reset::Answer { .. } => {
                assert_eq!(header.flags, TcpFlags::RST.union(TcpFlags::ACK));
                let seq = self.model.snd_place(header.seq.value());
                assert!(
                    (self.model.snd_una..=self.model.snd_max).contains(&seq),
                    "RST at SND.NXT"
                );
                assert_eq!(header.ack.value(), self.model.rcv_seq(self.model.rcv_nxt));
            }
        }
    }

    fn check_syn(&mut self, transmit: &Transmit, place: i64) {
        let header = &transmit.header;
        assert_eq!(header.fast_open(), self.option_due());
        let octets = self.octets_due(header);
        assert_eq!(transmit.len, octets, "data on a SYN");
        assert!(octets == 0 || place == 1);
        assert_eq!(header.ecn(), 0);
        let model = &mut self.model;
        assert_eq!(header.seq.value(), model.snd_seq(0));
        let answers = header.flags.contains(TcpFlags::ACK);
        assert_eq!(
            model.state,
            if answers {
                State::SynReceived
            } else {
                State::SynSent
            }
        );
        if answers {
            assert_eq!(header.ack.value(), model.rcv_seq(model.rcv_nxt));
            model.last_ack = model.rcv_nxt;
            model.snd_max = model.snd_max.max(1);
            model.syns += 1;
        } else {
            let asks = header.flags.contains(TcpFlags::ECE);
            assert_eq!(asks, header.flags.contains(TcpFlags::CWR));
            assert_eq!(asks, model.asks_next(self.setup.config.ecn));
            let counts = asks && self.setup.config.ecn == EcnMode::Accurate;
            assert_eq!(header.has(TcpHeader::AE), counts);
            model.send_syn(octets, asks);
        }
        model.owes_syn = false;
        // RFC 7323 §2.2: the window of a SYN is not scaled.
        model.rcv_edge = model.rcv_edge.max(model.rcv_nxt + i64::from(header.window));
        assert!(u32::from(header.window) <= self.setup.config.receive_buffer_bytes);
    }

    /// Only new data may be marked, and only where that is agreed on (RFC 3168 §6.1.4 and §6.1.5).
    fn check_mark(&self, transmit: &Transmit) {
        let may = self.model.may_mark && transmit.len > 0 && !transmit.retransmission;
        match transmit.header.ecn() {
            0 => {}
            TcpHeader::ECT_0 => assert!(may, "marked: {transmit:?}"),
            other => panic!("ECN field {other}"),
        }
    }

    /// RCV.NXT, a right edge that does not go back, and what is held out of order.
    fn check_acknowledgment(&mut self, header: &TcpHeader, bare: bool) {
        let unread = self.unread();
        let model = &mut self.model;
        assert_eq!(
            header.ack.value(),
            model.rcv_seq(model.rcv_nxt),
            "SEG.ACK is RCV.NXT"
        );
        let shift = model.agreed.rcv_shift;
        let edge = model.rcv_nxt + (i64::from(header.window) << shift);
        assert!(edge + (1 << shift) > model.rcv_edge, "the window shrinks");
        let config = &self.setup.config;
        let buffer = i64::from(
            config
                .receive_buffer_bytes
                .max(config.receive_buffer_max_bytes),
        );
        let room = (model.rcv_nxt + buffer - unread).max(model.rcv_edge);
        assert!(edge <= room, "more is promised than there is room for");
        model.rcv_edge = model.rcv_edge.max(edge);
        self.check_sack(header, bare);
    }

    /// RFC 2018 §4, RFC 2883 §4.
    fn check_sack(&mut self, header: &TcpHeader, bare: bool) {
        let model = &mut self.model;
        let place = |seq: braidnet_wire::seq::SeqNumber| model.rcv_place(seq.value());
        let mut blocks: Vec<(i64, i64)> = header
            .sack_blocks()
            .iter()
            .map(|block| (place(block.left), place(block.right)))
            .collect();
        let ranges = model.ranges();
        let fin = header.flags.contains(TcpFlags::FIN);
        let probes = header.seq.value() != model.snd_seq(model.snd_max) && blocks.is_empty();
        if !model.agreed.sack || !bare || fin {
            assert!(blocks.is_empty(), "SACK blocks where there should be none");
            return;
        }
        // A question to a silent peer says nothing else.
        if probes && self.setup.config.keepalive.on {
            return;
        }
        let most = if model.agreed.timestamps { 3 } else { 4 };
        let mut room = most;
        if let Some(twice) = model.twice.take() {
            assert_eq!(
                blocks.first(),
                Some(&twice),
                "what came twice is told first"
            );
            blocks.remove(0);
            room -= 1;
        }
        assert_eq!(
            blocks.len(),
            ranges.len().min(room),
            "blocks {blocks:?} of {ranges:?}"
        );
        for (number, block) in blocks.iter().enumerate() {
            assert!(ranges.contains(block), "block {block:?} of {ranges:?}");
            assert!(!blocks[..number].contains(block), "a block is told twice");
        }
        if let (Some(latest), Some((left, right))) = (model.latest, blocks.first())
            && model.held_to(latest) > latest
        {
            assert!(*left <= latest && latest < *right, "the latest comes first");
        }
    }

    /// Its own stream, in order, within the window and the segment size.
    fn check_octets(&mut self, transmit: &Transmit, place: i64) {
        let header = &transmit.header;
        let seq = self.model.snd_place(header.seq.value());
        let (len, fin) = (
            i64::from(transmit.len),
            header.flags.contains(TcpFlags::FIN),
        );
        if len > 0 {
            assert_eq!(seq, place, "the octets that belong there");
        }
        let end = seq + len;
        assert!(
            len == 0 || end <= self.model.written + 1,
            "octets that nobody has sent"
        );
        if fin {
            assert!(
                self.model.closed && end == self.model.written + 1,
                "FIN behind everything"
            );
        }
        let end = end + i64::from(fin);
        if end == seq {
            // Where the peer expects us, or before, to make it answer (RFC 9293 §3.8.4).
            assert!(self.model.snd_una - 1 <= seq && seq <= self.model.snd_max.max(1));
            return;
        }
        assert!(
            self.model.snd_una <= seq,
            "what is acknowledged is sent again"
        );
        assert!(seq <= self.model.snd_max, "a hole is left");
        assert_eq!(
            transmit.retransmission,
            seq < self.model.snd_max,
            "called a retransmission"
        );
        // A SYN takes none of the window (RFC 7413 §4.2.2: data leave before ours is acknowledged).
        let edge = self.model.snd_una.max(1) + self.model.snd_wnd;
        let new = end > self.model.snd_max;
        assert!(
            !new || end <= edge || end - seq == 1,
            "{end} is past the window's edge {edge}"
        );
        assert!(end <= self.model.snd_edge.max(edge) || end - seq == 1);
        assert!(len <= self.longest_segment(), "{len} octets in a segment");
        if self.model.state == State::SynReceived {
            assert!(
                end - 1 <= self.initial_window(),
                "{end} octets before the handshake is over"
            );
        }
        self.model.snd_max = self.model.snd_max.max(end);
    }

    /// RFC 9293 §3.7.1 and RFC 6691 §2, with 88 as the least (departure).
    fn longest_segment(&self) -> i64 {
        let syn = &self.setup.syn;
        let theirs = if syn.has(TcpHeader::HAS_MSS) {
            syn.mss
        } else {
            536
        };
        let options = if self.model.agreed.timestamps { 12 } else { 0 };
        i64::from(theirs.max(88).min(self.setup.mss.max(88))) - options
    }

    /// RFC 6928 §2, to which RFC 7413 §4.2.2 holds what is answered early.
    fn initial_window(&self) -> i64 {
        let smss = self.longest_segment();
        (10 * smss).min((2 * smss).max(14_600))
    }
}
