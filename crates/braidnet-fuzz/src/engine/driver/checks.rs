//! What the engine says of itself, held against the model.

use super::super::model::{Delivered, Model, Octet};
use super::Driver;
use super::piece::Piece;
use braidnet_tcp::{DropReason, State};

impl Driver {
    /// What the engine delivers from place `at` on is what the model does.
    pub(super) fn take_delivered(&mut self, mut at: i64, sink: Vec<Piece>, expected: &Delivered) {
        let mut came = Delivered::new();
        for piece in &sink {
            assert_eq!(piece.start, at, "octets are delivered in order");
            assert!(piece.len > 0);
            at += piece.len as i64;
            came.extend(std::iter::repeat_n(piece.variant, piece.len));
        }
        assert!(
            came == *expected,
            "delivered {} octets, not {}, or others",
            came.len(),
            expected.len()
        );
        self.delivered += came.len() as i64;
    }

    /// Data out of order is kept, unless there is no room: then the model forgets it.
    pub(super) fn check_kept(
        &mut self,
        pieces: usize,
        before: &Model,
        none_delivered: bool,
        drop: Option<DropReason>,
    ) {
        let is_new = |(at, octet): (usize, &Octet)| before.held.get(at) != Some(octet);
        let kept = self.model.held.iter().enumerate().any(is_new);
        let (alive, few) = (
            self.store.alive(),
            self.setup.config.reassembly_segments as usize,
        );
        if none_delivered && kept && self.store.has_dropped_the_last() {
            assert!(
                pieces >= few.min(64),
                "{pieces} pieces leave no room: {drop:?}"
            );
            self.model.forget(before);
        }
        let most = few.min(64 + self.model.held.len() / 256);
        assert!(alive <= most.max(1), "{alive} pieces are held");
        assert!(
            alive == 0 || !self.model.held.is_empty(),
            "what is delivered or given up is let go of"
        );
    }

    /// What can be asked of the engine is what the model says.
    pub(in super::super) fn check(&mut self) {
        self.check_opened();
        let (status, model) = (self.tcb.status(), &self.model);
        assert_eq!(status.state, model.state);
        if model.state == State::Closed {
            return;
        }
        if model.state != State::SynSent {
            assert_eq!(
                status.rcv_nxt.value(),
                model.rcv_seq(model.rcv_nxt),
                "RCV.NXT"
            );
            assert_eq!(
                i64::from(status.rcv_wnd),
                model.rcv_edge - model.rcv_nxt,
                "RCV.WND"
            );
            let agreed = (status.timestamps, status.sack);
            assert_eq!(agreed, (model.agreed.timestamps, model.agreed.sack));
        }
        let unread = if model.unread {
            0
        } else {
            self.delivered - self.taken
        };
        if !model.unread {
            assert_eq!(i64::from(status.unread_bytes), unread);
        }
        let buffer = self
            .setup
            .config
            .receive_buffer_bytes
            .max(self.setup.config.receive_buffer_max_bytes);
        assert!(
            self.model.held.len() as i64 + unread <= i64::from(buffer),
            "memory"
        );
        if !model.state.is_synchronized() {
            return;
        }
        assert_eq!(
            status.snd_una.value(),
            model.snd_seq(model.snd_una),
            "SND.UNA"
        );
        assert_eq!(i64::from(status.snd_wnd), model.snd_wnd, "SND.WND");
        let data_acked = (model.snd_una - 1).min(model.written);
        assert_eq!(self.released, data_acked, "octets released");
        let nxt = model.snd_place(status.snd_nxt.value());
        assert!(
            model.snd_una <= nxt && nxt <= model.snd_max.max(1),
            "SND.NXT"
        );
        match (model.state, self.waiting_since) {
            (State::TimeWait, None) => self.waiting_since = Some(self.now),
            (_, since) => self.waiting_since = since,
        }
    }

    /// Octets that were delivered and not taken.
    pub(in super::super) fn unread(&self) -> i64 {
        if self.model.unread {
            0
        } else {
            self.delivered - self.taken
        }
    }
}
