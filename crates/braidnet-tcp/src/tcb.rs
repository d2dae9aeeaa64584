//! The transmission control block: one connection and its user calls (RFC 9293 §3.3.1, §3.10.1 to §3.10.6).

use crate::connection::Connection;
use crate::receiver::Receiver;
use crate::recovery::Expiry;
use crate::sender::Sender;
use crate::slow::Slow;
use crate::state::{State, Step};
use crate::timers::Timer;
use crate::{Allowance, Config, Events, MAX_WINDOW_BYTES, Payload};
use braidnet_wire::seq::SeqNumber;
use braidnet_wire::tcp::{TcpFlags, TcpHeader};
use braidnet_wire::time::{Duration, Instant};
use std::sync::Arc;

/// One connection. The crate's documentation says how to drive it.
pub struct Tcb<P: Payload> {
    pub(crate) sender: Sender,
    pub(crate) receiver: Receiver<P>,
    pub(crate) connection: Connection,
}

impl<P: Payload> Tcb<P> {
    /// Active OPEN (RFC 9293 §3.10.1): the SYN comes out of [`poll_transmit`](Tcb::poll_transmit).
    ///
    /// `mss` is the segment size that our side announces, from the MTU less 40 or 60 bytes (RFC 6691 §2): 88 to 65,535.
    pub fn connect(config: &Arc<Config>, iss: SeqNumber, mss: u16, now: Instant) -> Tcb<P> {
        Tcb::new(config, iss, mss, State::SynSent, now)
    }

    /// A listener's answer to a SYN (RFC 9293 §3.10.7.2): the SYN-ACK comes out of
    /// [`poll_transmit`](Tcb::poll_transmit). `syn` is one that [`listen`](crate::listen) accepts; of its segment, only
    /// the SYN and its options are taken.
    ///
    /// `mss` is as in [`connect`](Tcb::connect).
    pub fn accept(
        config: &Arc<Config>,
        iss: SeqNumber,
        mss: u16,
        syn: &TcpHeader,
        now: Instant,
    ) -> Tcb<P> {
        let mut tcb = Tcb::new(config, iss, mss, State::SynReceived, now);
        tcb.take_syn(now, syn);
        tcb
    }

    fn new(config: &Arc<Config>, iss: SeqNumber, mss: u16, state: State, now: Instant) -> Tcb<P> {
        let config = config.bounded();
        let mss = mss.min(config.maximum_segment);
        Tcb {
            sender: Sender::new(&config, iss, mss),
            receiver: Receiver::new(&config, mss),
            connection: Connection::new(&config, mss, state, now),
        }
    }

    /// What this connection's timestamps add to the clock ([`isn::timestamp_offset`](crate::isn::timestamp_offset)); to
    /// be set before the first segment is transmitted. 0 unless set.
    pub fn set_timestamp_offset(&mut self, offset: u32) {
        debug_assert_eq!(self.connection.handshakes_sent, 0);
        self.connection.ts_offset = offset;
    }

    /// Lets this connection keep data out of order only as far as `allowance` goes, which others share; to be set before the
    /// first segment arrives. Without it, the receive buffer and [`Config::reassembly_segments`] are all that bounds it.
    pub fn share_allowance(&mut self, allowance: &Arc<Allowance>) {
        self.receiver.reassembly.share(allowance);
    }

    /// Lets the receive buffer grow only as far as `allowance` goes, which others share; to be called before data arrives. Without it,
    /// [`Config::receive_buffer_max_bytes`] is all that bounds it. What was taken is given back with the connection.
    pub fn share_growth(&mut self, allowance: &Arc<Allowance>) {
        self.receiver.growth.share(allowance);
    }

    /// SEND (RFC 9293 §3.10.2): the caller has appended so many bytes to what there is to send.
    ///
    /// False, and nothing has changed, if the user has closed, the connection is over, or more than 2^30 bytes would wait.
    /// Keeping to [`send_space`](Tcb::send_space) is the caller's.
    pub fn send(&mut self, bytes: u32) -> bool {
        let room = MAX_WINDOW_BYTES.saturating_sub(self.sender.queued());
        if !self.is_open_to_send() || bytes > room {
            return false;
        }
        self.sender.send(bytes);
        true
    }

    /// The same as far as there is space: `append` is told how many bytes of the send buffer are free, or 0 if
    /// [`send`](Tcb::send) would be false, and says how many it has appended to what there is to send, at most so many.
    #[inline]
    pub fn send_as_fits(&mut self, append: impl FnOnce(u32) -> u32) {
        let space = match self.is_open_to_send() {
            true => self.sender.space(),
            false => 0,
        };
        let appended = append(space);
        debug_assert!(appended <= space);
        if appended > 0 {
            self.sender.send(appended);
        }
    }

    #[inline]
    fn is_open_to_send(&self) -> bool {
        self.connection.state.may_send() && !self.connection.close_pending
    }

    /// Bytes of the send buffer that are free.
    pub fn send_space(&self) -> u32 {
        self.sender.space()
    }

    /// Bytes that wait to be sent for the first time; a FIN counts as one.
    pub fn unsent(&self) -> u32 {
        self.sender.unsent()
    }

    /// Whether there is a [`Config::not_sent_low_water`], and fewer bytes wait to be sent: where something has left, whoever sends may go on.
    #[inline]
    pub fn is_drained(&self) -> bool {
        self.sender.has_low_water
            && self.sender.unsent() < self.connection.config.not_sent_low_water
    }

    /// Bytes acknowledged since this was last asked: the caller releases them from the front of what there is to send
    /// before it calls [`poll_transmit`](Tcb::poll_transmit), whose offsets count from there.
    #[inline]
    pub fn take_acked(&mut self) -> u32 {
        self.sender.take_acked()
    }

    /// Bytes by which the send buffer has grown since this was last asked, the first of them now if the congestion window has become too
    /// large for it: as good as bytes that were acknowledged, to whoever counts the space.
    #[inline]
    pub fn take_send_growth(&mut self) -> u32 {
        self.sender.take_growth()
    }

    /// RECEIVE (RFC 9293 §3.10.3): the application has taken so many of the bytes delivered.
    #[inline]
    pub fn receive(&mut self, bytes: u32) {
        if !self.connection.unread {
            self.receiver.receive(bytes);
        }
    }

    /// CLOSE (RFC 9293 §3.10.4): no more will be sent. What waits still goes, then a FIN; the peer may go on sending.
    ///
    /// In SYN-SENT the connection is over at once, as [`state`](Tcb::state) tells.
    pub fn close(&mut self, now: Instant) {
        match self.connection.state {
            State::SynSent => self.end(&mut Events::empty()),
            State::SynReceived => self.connection.close_pending = true,
            State::Established | State::CloseWait => {
                self.connection.advance(now, Step::Close);
                self.sender.queue_fin();
            }
            _ => {}
        }
    }

    /// The same, for a user who waits no longer than `limit` until the peer has taken everything, the FIN included: what has not
    /// been acknowledged by then is given up, the connection with it, and a RST tells the peer ([`Events::TIMED_OUT`]).
    pub fn close_within(&mut self, now: Instant, limit: Duration) {
        self.close(now);
        if !matches!(
            self.connection.state,
            State::Closed | State::FinWait2 | State::TimeWait
        ) {
            self.connection.slow.start(Slow::Linger, now, limit);
        }
    }

    /// Nobody will read any more: data that still comes is answered with a RST, which ends the connection
    /// (RFC 9293 §3.6.1), and FIN-WAIT-2 is bounded by [`Config::fin_wait_2`]. After [`close`](Tcb::close), a peer that
    /// takes nothing for [`Config::retransmissions`] timeouts is given up though it answers.
    pub fn shut_receive(&mut self, now: Instant) {
        self.connection.unread = true;
        self.sender.abandoned = true;
        self.receiver.discard();
        // The window opens, so that a peer which waits for it learns that nobody reads.
        self.receiver.receive(self.receiver.buffered());
        if self.connection.state == State::FinWait2 {
            let stay = self.connection.config.fin_wait_2;
            self.connection.live_for(now, stay);
        }
    }

    /// ABORT (RFC 9293 §3.10.5): the connection is over at once. Where the peer must be told, a RST comes out of
    /// [`poll_transmit`](Tcb::poll_transmit).
    pub fn abort(&mut self) {
        let told = match self.connection.state {
            State::SynReceived
            | State::Established
            | State::FinWait1
            | State::FinWait2
            | State::CloseWait => true,
            // The RFC enters these states once the FIN leaves, not when the user closes: until then it is in one of those above.
            State::Closing | State::LastAck => self.sender.snd_max != self.sender.snd_end,
            State::Closed | State::SynSent | State::TimeWait => false,
        };
        match told {
            true => self.reset_peer(&mut Events::empty()),
            false => self.end(&mut Events::empty()),
        }
    }

    /// When [`on_deadline`](Tcb::on_deadline) is to be called next.
    #[inline]
    pub fn deadline(&self) -> Option<Instant> {
        self.sender
            .retransmit
            .earliest(self.sender.pacing.timer)
            .earliest(self.receiver.delayed_ack)
            .earliest(self.connection.slow.earliest())
            .deadline()
    }

    /// Time has passed (RFC 9293 §3.10.8). Call [`poll_transmit`](Tcb::poll_transmit) afterwards.
    pub fn on_deadline(&mut self, now: Instant) -> Events {
        let mut events = Events::empty();
        if self.sender.retransmit.is_due(now) {
            self.note_stuck(now);
        }
        if self.connection.slow.earliest().is_due(now) {
            self.on_slow(now, &mut events);
            if events.contains(Events::CLOSED) {
                return events;
            }
        }
        if self.sender.pacing.timer.is_due(now) {
            self.sender.pacing.timer = Timer::OFF;
        }
        if self.receiver.delayed_ack.is_due(now) {
            self.receiver.delayed_ack = Timer::OFF;
            self.receiver.ack_now |= self.receiver.has_unacknowledged();
        }
        if self.sender.retransmit.is_due(now) {
            let patience = self.connection.patience();
            let expiry = if self.connection.state.is_synchronized() {
                let before = self.sender.unanswered;
                let expiry = self.sender.on_expiry(now, patience);
                let (unanswered, told) = (
                    self.sender.unanswered,
                    self.connection.config.silent_retransmissions,
                );
                if unanswered > before && unanswered == told {
                    events |= Events::SILENT;
                }
                events |= self.sender.path.take_found();
                self.follow_path(now);
                expiry
            } else {
                self.connection.handshake_due = true;
                self.sender.on_handshake_expiry(now, patience)
            };
            if expiry == Expiry::GiveUp {
                events |= Events::TIMED_OUT;
                self.end(&mut events);
            }
        }
        events
    }

    /// Whether a SYN for the same tuple may open a new connection though this one is in TIME-WAIT: it is certain to be
    /// new by its timestamp (RFC 6191 §2) or its sequence number (RFC 9293 §3.6.1, MAY-2).
    pub fn reusable_by(&self, syn: &TcpHeader) -> bool {
        let plain = TcpFlags::SYN.0 | TcpFlags::ACK.0 | TcpFlags::RST.0;
        if self.connection.state != State::TimeWait || syn.flags.0 & plain != TcpFlags::SYN.0 {
            return false;
        }
        let later = syn.seq.is_after(self.receiver.rcv_nxt);
        if self.connection.timestamps && syn.has(TcpHeader::HAS_TIMESTAMPS) {
            let ticks = syn.ts_value.wrapping_sub(self.receiver.ts_recent) as i32;
            return ticks > 0 || (ticks == 0 && later);
        }
        later
    }

    /// Whether we have opened it.
    pub fn is_active(&self) -> bool {
        self.connection.active
    }

    /// IRS: where the peer's sequence numbers begin; only once its SYN has come.
    pub fn irs(&self) -> SeqNumber {
        self.receiver.irs
    }

    /// Whether an ACK of `ack` answers our SYN or SYN-ACK, and what has left with it or behind it (RFC 9293 §3.10.7.4, fifth check).
    pub fn answers_handshake(&self, ack: SeqNumber) -> bool {
        self.sender.is_of_handshake(ack)
    }

    /// The state of RFC 9293 §3.3.2.
    #[inline]
    pub fn state(&self) -> State {
        self.connection.state
    }

    /// Payload bytes in a full segment that we send: what both sides agreed on, less options in every segment
    /// (RFC 6691 §2). Before the handshake is over, our side's offer.
    #[inline]
    pub fn mss(&self) -> u32 {
        self.connection.smss
    }

    /// The connection is over.
    pub(crate) fn end(&mut self, events: &mut Events) {
        self.connection.state = State::Closed;
        self.connection.slow.clear();
        self.connection.handshake_due = false;
        self.connection.reset = None;
        self.sender.retransmit = Timer::OFF;
        self.sender.pacing.timer = Timer::OFF;
        self.receiver.delayed_ack = Timer::OFF;
        self.receiver.discard();
        *events |= Events::CLOSED;
    }

    #[inline]
    pub(crate) fn check_invariants(&self) {
        let sender = &self.sender;
        debug_assert!(sender.snd_una.is_at_or_before(sender.snd_nxt));
        debug_assert!(sender.snd_nxt.is_at_or_before(sender.snd_max));
        debug_assert!(sender.snd_max.is_at_or_before(sender.snd_end));
        debug_assert!(self.receiver.rcv_wnd() <= MAX_WINDOW_BYTES);
        debug_assert!(
            !self.connection.state.is_synchronized()
                || sender.flight_size() == 0
                || sender.retransmit.is_armed(),
            "something is in flight and no timer runs"
        );
    }
}
