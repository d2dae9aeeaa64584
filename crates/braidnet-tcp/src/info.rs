//! STATUS (RFC 9293 §3.10.6): what a connection tells of itself.
//!
//! All of it is what the engine keeps for its own use anyway: nothing is counted for the sake of being told.

use crate::recovery::Phase;
use crate::{CongestionControl, Payload, State, Tcb};
use braidnet_wire::seq::SeqNumber;
use braidnet_wire::time::{Duration, Instant};

/// A connection's variables, in the RFCs' words: those of both halves, what the handshake has agreed on, and what is known of the
/// path. What Linux tells as `TCP_INFO` and the engine does not count (segments, retransmissions over a lifetime) is not in it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TcpInfo {
    /// The state of RFC 9293 §3.3.2.
    pub state: State,
    /// Whether this side has opened the connection (active OPEN, RFC 9293 §3.10.1).
    pub is_active: bool,

    /// ISS: our SYN's sequence number.
    pub iss: SeqNumber,
    /// SND.UNA: the oldest sequence number not acknowledged.
    pub snd_una: SeqNumber,
    /// SND.NXT: the next sequence number to send.
    pub snd_nxt: SeqNumber,
    /// SND.WND in bytes, scaled.
    pub snd_wnd: u32,
    /// The largest that it ever was (Max(SND.WND) of RFC 9293 §3.8.6.2.1).
    pub max_snd_wnd: u32,
    /// Sequence numbers that wait to be sent for the first time.
    pub unsent_bytes: u32,
    /// Bytes that may wait to be acknowledged; grows with `cwnd` up to [`Config::send_buffer_max_bytes`](crate::Config::send_buffer_max_bytes).
    pub send_buffer_bytes: u32,

    /// IRS: the sequence number of the peer's SYN; 0 before it has come.
    pub irs: SeqNumber,
    /// RCV.NXT: the next sequence number expected.
    pub rcv_nxt: SeqNumber,
    /// RCV.WND in bytes, as announced.
    pub rcv_wnd: u32,
    /// Most bytes that may be announced at once: the receive buffer, as far as the window field can say it.
    pub receive_buffer_bytes: u32,
    /// Bytes delivered and not yet taken by the application.
    pub unread_bytes: u32,
    /// Bytes kept out of order.
    pub out_of_order_bytes: u32,
    /// Segments in which these came, at most [`Config::reassembly_segments`](crate::Config::reassembly_segments).
    pub out_of_order_segments: u32,

    /// SMSS: payload bytes in a full segment that we send.
    pub smss: u32,
    /// The longest segment that the peer has sent, as far as seen: payload bytes, 536 or what we announce if that is less before any has come.
    pub rcv_mss: u32,
    /// The longest packet that is sent to the peer: bytes with all headers.
    pub path_mtu: u32,

    /// Which rule moves the window.
    pub congestion: CongestionControl,
    /// What it is about.
    pub phase: CongestionPhase,
    /// Congestion window in bytes (RFC 5681 §2).
    pub cwnd: u32,
    /// Slow start threshold in bytes (RFC 5681 §2).
    pub ssthresh: u32,
    /// Bytes thought to be in the network (RFC 6675 §2).
    pub pipe: u32,
    /// Bytes in flight that are selectively acknowledged (RFC 2018).
    pub sacked_bytes: u32,
    /// Bytes in flight that are thought lost and have not been sent again.
    pub lost_bytes: u32,
    /// Bytes ever thought lost, less those that were not after all; modulo 2^32.
    pub ever_lost_bytes: u32,
    /// Pieces in which what is on its way is told apart, at most [`Config::flight_pieces`](crate::Config::flight_pieces).
    pub flight_pieces: u32,
    /// Whether a probe of the tail (RFC 8985 §7) is to be sent, or has not been answered: one segment more than `cwnd` may be in flight.
    pub probing_tail: bool,
    /// Bytes a second at which data leaves, where it is paced and anything is known of the path.
    pub pacing_rate: Option<u64>,
    /// Bytes a second that the path is thought to deliver, where a model of it is kept ([`CongestionControl::Bbr`]) and something was measured.
    pub delivery_rate: Option<u64>,

    /// SRTT: smoothed round-trip time (RFC 6298 §2); zero before the first measurement.
    pub srtt: Duration,
    /// RTTVAR: its variation.
    pub rttvar: Duration,
    /// The shortest round trip of the last 150 to 300 seconds (RFC 8985 §6.2); zero before the first measurement.
    pub min_rtt: Duration,
    /// RTO: the retransmission timeout, with its backoff.
    pub rto: Duration,
    /// Timeouts and probes since the peer last showed that it lives.
    pub unanswered: u8,
    /// When data last left; [`Instant::ZERO`] if none has.
    pub last_sent: Instant,
    /// When the peer last said something that belongs to this connection; when it was opened if it has not.
    pub last_heard: Instant,

    /// Whether timestamps are in use (RFC 7323 §3).
    pub timestamps: bool,
    /// Whether selective acknowledgment is in use (RFC 2018).
    pub sack: bool,
    /// Whether windows are scaled (RFC 7323 §2); else both shifts are 0.
    pub window_scale: bool,
    /// The shift of the peer's window.
    pub snd_wind_shift: u8,
    /// The shift of ours.
    pub rcv_wind_shift: u8,
    /// What the handshake has agreed on of congestion notification.
    pub ecn: EcnAgreed,
    /// Whether data have travelled before the handshake was over (RFC 7413).
    pub fast_opened: bool,
}

/// What goes on with the congestion window.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum CongestionPhase {
    /// It grows as in slow start (RFC 5681 §3.1); a model of the path looks for what the path delivers (Startup).
    SlowStart,
    /// It grows by its rule; a model of the path holds it.
    Avoidance,
    /// The network has marked something, and the window shrinks for it (RFC 3168 §6.1.2).
    Reduction,
    /// Losses are repaired (RFC 5681 §3.2, RFC 6675 §5).
    FastRecovery,
    /// Losses are repaired after a timeout (RFC 6298 §5).
    Timeout,
}

/// What both sides do about explicit congestion notification.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum EcnAgreed {
    /// Nothing.
    No,
    /// Marks are echoed until that is acknowledged (RFC 3168).
    Classic,
    /// Marks are counted (RFC 9768).
    Accurate,
}

impl TcpInfo {
    /// Sequence numbers in flight, SYN and FIN included (FlightSize of RFC 5681 §2).
    pub fn flight_size(&self) -> u32 {
        self.snd_nxt - self.snd_una
    }

    /// Whether lost segments are being repaired.
    pub fn is_recovering(&self) -> bool {
        matches!(
            self.phase,
            CongestionPhase::FastRecovery | CongestionPhase::Timeout
        )
    }

    /// Bytes of the stream that have been sent at least once, a FIN counted as one; modulo 2^32, as sequence numbers are.
    pub fn sent_bytes(&self) -> u32 {
        after_syn(self.iss, self.snd_nxt)
    }

    /// Those of them that the peer has acknowledged.
    pub fn acked_bytes(&self) -> u32 {
        after_syn(self.iss, self.snd_una)
    }

    /// Bytes of the peer's stream that have come in order, a FIN counted as one; modulo 2^32.
    pub fn received_bytes(&self) -> u32 {
        after_syn(self.irs, self.rcv_nxt)
    }
}

/// Sequence numbers from the one behind a SYN up to `next`; none as long as that is the SYN's own.
fn after_syn(syn: SeqNumber, next: SeqNumber) -> u32 {
    match next == syn {
        true => 0,
        false => next - (syn + 1),
    }
}

impl<P: Payload> Tcb<P> {
    /// STATUS (RFC 9293 §3.10.6).
    pub fn status(&self) -> TcpInfo {
        let (connection, sender, receiver) = (&self.connection, &self.sender, &self.receiver);
        let (congestion, rtt, ecn) = (&sender.congestion, &sender.rtt, &connection.ecn);
        let pacing_rate = congestion.pacing_rate(rtt.srtt());
        TcpInfo {
            state: connection.state,
            is_active: connection.active,
            iss: sender.iss,
            snd_una: sender.snd_una,
            snd_nxt: sender.snd_nxt,
            snd_wnd: sender.snd_wnd,
            max_snd_wnd: sender.max_snd_wnd,
            unsent_bytes: sender.unsent(),
            send_buffer_bytes: sender.send_buffer_bytes(),
            irs: receiver.irs,
            rcv_nxt: receiver.rcv_nxt,
            rcv_wnd: receiver.rcv_wnd(),
            receive_buffer_bytes: receiver.capacity(),
            unread_bytes: receiver.buffered(),
            out_of_order_bytes: receiver.reassembly.bytes() as u32,
            out_of_order_segments: receiver.reassembly.segments() as u32,
            smss: connection.smss,
            rcv_mss: receiver.rcv_mss(),
            path_mtu: self.path_mtu(),
            congestion: congestion.control(),
            phase: match sender.recovery.phase {
                Phase::Marked => CongestionPhase::Reduction,
                Phase::Fast => CongestionPhase::FastRecovery,
                Phase::Timeout => CongestionPhase::Timeout,
                Phase::Open if congestion.is_starting() => CongestionPhase::SlowStart,
                Phase::Open => CongestionPhase::Avoidance,
            },
            cwnd: congestion.cwnd(),
            ssthresh: congestion.ssthresh(),
            pipe: sender.pipe(),
            sacked_bytes: sender.flight.arrived(),
            lost_bytes: sender.flight.lost(),
            ever_lost_bytes: sender.flight.ever_lost(),
            flight_pieces: sender.flight.pieces() as u32,
            probing_tail: sender.is_probing_tail(),
            pacing_rate: (sender.paced && pacing_rate > 0).then_some(pacing_rate),
            delivery_rate: congestion.delivery_rate(),
            srtt: Duration::from_nanos(rtt.srtt()),
            rttvar: Duration::from_nanos(rtt.rttvar()),
            min_rtt: Duration::from_nanos(rtt.shortest()),
            rto: Duration::from_nanos(rtt.rto()),
            unanswered: sender.unanswered,
            last_sent: sender.last_sent(),
            last_heard: connection.heard,
            timestamps: connection.timestamps,
            sack: connection.sack,
            window_scale: connection.peer_scales,
            snd_wind_shift: sender.snd_wind_shift,
            rcv_wind_shift: receiver.rcv_wind_shift(),
            ecn: match (ecn.hears, ecn.is_accurate()) {
                (false, _) => EcnAgreed::No,
                (true, false) => EcnAgreed::Classic,
                (true, true) => EcnAgreed::Accurate,
            },
            fast_opened: connection.early.is_some(),
        }
    }
}

#[cfg(test)]
pub(crate) mod tests;
