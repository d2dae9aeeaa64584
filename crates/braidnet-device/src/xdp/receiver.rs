//! The way in of an interface that is the stack's alone.

use super::program::Redirection;
use super::socket::Inward;
use super::transmitter::Sending;
use crate::passage::Passage;
use crate::{Alarm, Counters, DropReason, RECEIVE_HEADROOM, Receiver};
use braidnet_message::{Pool, Run};
use braidnet_sync::clock::Clock;
use braidnet_wire::time::{Duration, Instant};
use rustix::io::Errno;
use rustix::net::sockopt::{socket_error, xdp_statistics};
use rustix::net::{RecvFlags, recv};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

/// How often a queue at which nothing arrives is looked after: such a socket does not wake who waits for it when its interface is removed.
const GLANCE: Duration = Duration::from_millis(250);

/// The way in: packets are copied out of the shared frames into a pool's buffers.
pub struct XdpReceiver {
    /// Goes with the last queue, and before its socket.
    _redirection: Arc<Redirection>,
    inward: Inward,
    passage: Passage,
    sending: Arc<Sending>,
    clock: Clock,
    /// When the interface is to be looked after.
    glance: Instant,
    /// What the kernel had lost when it was last asked.
    lost: u64,
    gone: bool,
    counters: Counters,
}

impl XdpReceiver {
    pub fn new(
        inward: Inward,
        passage: Passage,
        sending: Arc<Sending>,
        redirection: Arc<Redirection>,
    ) -> XdpReceiver {
        sending.alarm().set(Some(Instant::from_nanos(0)));
        XdpReceiver {
            _redirection: redirection,
            inward,
            passage,
            sending,
            clock: Clock::shared(),
            glance: Instant::from_nanos(0),
            lost: 0,
            gone: false,
            counters: Counters::default(),
        }
    }

    /// Nothing waits: looks from time to time after the interface, after what the kernel has lost, and after what did not leave.
    fn look(&mut self) {
        let now = Instant::from_nanos(self.clock.now_nanos());
        let is_due = now >= self.glance;
        if is_due {
            self.count_lost();
            // It is said once only.
            self.gone |= matches!(socket_error(&self.inward.socket), Ok(Err(Errno::NETDOWN)));
            self.glance = now + GLANCE;
        }
        // What does not leave sets it to an earlier time.
        self.sending
            .alarm()
            .set((!self.gone).then_some(self.glance));
        if !self.gone {
            self.sending.goes_on(is_due);
        }
        if !self.inward.emptied.is_empty() {
            self.inward.give_back();
        }
        self.wake_kernel();
    }

    /// Has the kernel go on filling frames, if it waits for that.
    fn wake_kernel(&self) {
        if self.inward.free.needs_wakeup() {
            // There is nothing to be read by it.
            let _ = recv(&self.inward.socket, &mut [0u8; 0][..], RecvFlags::DONTWAIT);
        }
    }

    fn count_lost(&mut self) {
        let Ok(statistics) = xdp_statistics(&self.inward.socket) else {
            return;
        };
        let lost = statistics.rx_dropped + statistics.rx_ring_full.unwrap_or_default();
        let more = lost.saturating_sub(self.lost);
        self.counters.count_drops(DropReason::ReceiveRingFull, more);
        self.lost = lost;
    }
}

impl Receiver for XdpReceiver {
    fn receive(&mut self, pool: &mut Pool, into: &mut Run, max: usize) -> usize {
        let mut taken = 0;
        let mut looked_at = 0;
        while looked_at < max {
            let Some(filled) = self.inward.filled.front() else {
                break;
            };
            let length = filled.len as usize;
            let bytes = self.inward.frames.bytes(filled.addr, length);
            match bytes.filter(|_| length <= self.passage.packet_max) {
                Some(bytes) => {
                    let Some(message) = pool.copy_from_slice(RECEIVE_HEADROOM, bytes) else {
                        break;
                    };
                    into.push(message);
                    self.counters.count_packet(length);
                    taken += 1;
                }
                None => self.counters.count_drop(DropReason::ReceiveOversize),
            }
            self.inward.filled.release();
            let frame = self.inward.frames.frame_of(filled.addr);
            self.inward.emptied.push(frame);
            looked_at += 1;
        }
        if looked_at == 0 {
            self.look();
            return 0;
        }
        self.inward.filled.publish();
        self.inward.give_back();
        self.wake_kernel();
        taken
    }

    fn fd(&self) -> Option<BorrowedFd<'_>> {
        Some(self.inward.socket.as_fd())
    }

    fn has_waiting(&self) -> bool {
        self.inward.filled.is_waiting()
    }

    fn alarm(&self) -> Option<Alarm> {
        Some(self.sending.alarm().clone())
    }

    fn is_gone(&self) -> bool {
        self.gone
    }

    fn counters(&self) -> Counters {
        self.counters
    }
}
