//! The way in of an interface that is the stack's alone.

use super::socket::Inward;
use super::transmitter::{AGAIN, Sending};
use crate::passage::Passage;
use crate::{Alarm, Counters, DropReason, RECEIVE_HEADROOM, Receiver};
use braidnet_message::{Pool, Run};
use braidnet_sync::clock::Clock;
use braidnet_wire::time::{Duration, Instant};
use rustix::io::Errno;
use rustix::net::sockopt::{socket_error, xdp_statistics};
use rustix::net::{RecvFlags, recv};
use std::any::Any;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

/// How often a queue at which nothing arrives is looked after: such a socket does not wake who waits for it when its interface is removed.
const GLANCE: Duration = Duration::from_millis(250);

/// The way in: packets are copied out of the shared frames into a pool's buffers.
pub struct XdpReceiver {
    /// Goes with the last queue, and before its socket.
    _redirection: Arc<dyn Any + Send + Sync>,
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
        redirection: Arc<dyn Any + Send + Sync>,
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
            self.give_back();
        }
        self.wake_kernel();
    }

    /// Lets the kernel fill again what was read. What it has no room for yet it gets soon, though nothing comes.
    fn give_back(&mut self) {
        self.inward.give_back();
        if self.inward.emptied.is_empty() || self.gone {
            return;
        }
        let soon = Instant::from_nanos(self.clock.now_nanos()) + AGAIN;
        let alarm = self.sending.alarm();
        alarm.set(Some(alarm.next().map_or(soon, |next| next.min(soon))));
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
        self.give_back();
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

#[cfg(test)]
mod tests {
    use super::super::frames::Frames;
    use super::super::ring::{Consumer, Producer};
    use super::super::socket::Outward;
    use super::*;
    use braidnet_message::Arena;
    use rustix::event::{EventfdFlags, eventfd};
    use rustix::net::xdp::{XdpDesc, XdpDescOptions};

    /// Frames of the kernel's that come at once: a whole ring, all of which it holds.
    const RING: u32 = 4;

    /// The way in of a socket whose kernel is the test.
    fn receiver() -> (XdpReceiver, Vec<u64>) {
        let (_, inward, outward) = Frames::halves(1518).expect("memory");
        let socket = Arc::new(eventfd(0, EventfdFlags::empty()).expect("a descriptor"));
        let mut free = Producer::alone(RING);
        let frames: Vec<u64> = inward.addresses().take(RING as usize).collect();
        assert!(frames.iter().all(|frame| free.push(*frame)));
        free.publish();
        let sending = Sending::new(Outward {
            socket: socket.clone(),
            frames: outward,
            waiting: Producer::alone(RING),
            sent: Consumer::alone(RING),
            free: Vec::new(),
        });
        let inward = Inward {
            socket,
            frames: inward,
            filled: Consumer::alone(RING),
            free,
            emptied: Vec::new(),
        };
        let passage = Passage::of(&crate::Capabilities::ethernet(
            crate::MacAddress([2; 6]),
            1500,
        ));
        let receiver = XdpReceiver::new(inward, passage, Arc::new(sending), Arc::new(()));
        (receiver, frames)
    }

    #[test]
    fn frames_for_which_there_is_no_room_go_back_soon_though_nothing_comes() {
        let (mut receiver, frames) = receiver();
        let mut pool = Pool::new(&Arena::new(1 << 20));
        let clock = Clock::shared();
        let now = || Instant::from_nanos(clock.now_nanos());
        receiver.receive(&mut pool, &mut Run::new(), 8);
        assert_eq!(receiver.sending.alarm().next(), Some(receiver.glance));
        // The kernel has filled all there are, and not said yet that it has taken them out.
        for frame in &frames {
            receiver.inward.filled.kernel_puts(XdpDesc {
                addr: *frame,
                len: 60,
                options: XdpDescOptions::empty(),
            });
        }
        let mut run = Run::new();
        assert_eq!(receiver.receive(&mut pool, &mut run, 8), frames.len());
        assert_eq!(receiver.inward.emptied.len(), frames.len());
        for _ in 0..3 {
            let soon = receiver.sending.alarm().next();
            assert!(soon <= Some(now() + AGAIN), "{soon:?}");
            // Nothing comes, and there is no room still.
            assert_eq!(receiver.receive(&mut pool, &mut run, 8), 0);
        }
        receiver.inward.free.kernel_takes(RING);
        assert_eq!(receiver.receive(&mut pool, &mut run, 8), 0);
        assert!(receiver.inward.emptied.is_empty());
        assert_eq!(receiver.inward.free.told(), 2 * RING);
        receiver.receive(&mut pool, &mut run, 8);
        assert_eq!(receiver.sending.alarm().next(), Some(receiver.glance));
    }
}
