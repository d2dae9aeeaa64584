//! An in-memory link for smoltcp: a device per stack, and packets carried from one to the other between turns.
//!
//! Nothing is shared while a stack runs, so that there is no cell and no count to check; carrying a whole burst is an exchange of
//! two queues. Buffers return to the sender's pool and are taken last in, first out. The heap is touched until the pool
//! has as many buffers as ever were on the way, and no more after that.

use std::collections::VecDeque;

use smoltcp::phy::{Device, DeviceCapabilities, Medium, RxToken, TxToken};
use smoltcp::time::Instant;

/// One end of the link.
pub struct QueueDevice {
    mtu: usize,
    arrived: VecDeque<Packet>,
    sent: VecDeque<Packet>,
    /// Buffers for packets to be sent.
    free: Vec<Packet>,
    /// Buffers of packets that have been read, to go back to the other end.
    spent: Vec<Packet>,
    packets_sent: u64,
}

/// A buffer of one MTU and how much of it is used.
struct Packet {
    buffer: Box<[u8]>,
    length: usize,
}

impl QueueDevice {
    /// An end whose packets have at most `mtu` bytes.
    pub fn new(mtu: usize) -> QueueDevice {
        QueueDevice {
            mtu,
            arrived: VecDeque::new(),
            sent: VecDeque::new(),
            free: Vec::new(),
            spent: Vec::new(),
            packets_sent: 0,
        }
    }

    /// Packets sent since it was made.
    pub fn packets_sent(&self) -> u64 {
        self.packets_sent
    }

    /// Takes to `other` what this end has sent, and home what `other` has read. Answers whether `other` has anything to read.
    pub fn carry_to(&mut self, other: &mut QueueDevice) -> bool {
        if other.arrived.is_empty() {
            std::mem::swap(&mut self.sent, &mut other.arrived);
        } else {
            other.arrived.append(&mut self.sent);
        }
        self.free.append(&mut other.spent);
        !other.arrived.is_empty()
    }
}

impl Device for QueueDevice {
    type RxToken<'a> = Arrival<'a>;
    type TxToken<'a> = Departure<'a>;

    fn receive(&mut self, _now: Instant) -> Option<(Arrival<'_>, Departure<'_>)> {
        let packet = self.arrived.pop_front()?;
        let arrival = Arrival {
            packet,
            spent: &mut self.spent,
        };
        let departure = Departure {
            mtu: self.mtu,
            free: &mut self.free,
            sent: &mut self.sent,
            packets_sent: &mut self.packets_sent,
        };
        Some((arrival, departure))
    }

    fn transmit(&mut self, _now: Instant) -> Option<Departure<'_>> {
        Some(Departure {
            mtu: self.mtu,
            free: &mut self.free,
            sent: &mut self.sent,
            packets_sent: &mut self.packets_sent,
        })
    }

    /// Raw IP, bursts without a bound, and every checksum made and verified by the stack.
    fn capabilities(&self) -> DeviceCapabilities {
        let mut capabilities = DeviceCapabilities::default();
        capabilities.medium = Medium::Ip;
        capabilities.max_transmission_unit = self.mtu;
        capabilities
    }
}

/// A packet to be read.
pub struct Arrival<'a> {
    packet: Packet,
    spent: &'a mut Vec<Packet>,
}

impl RxToken for Arrival<'_> {
    #[inline]
    fn consume<R, F: FnOnce(&[u8]) -> R>(self, read: F) -> R {
        let answer = read(&self.packet.buffer[..self.packet.length]);
        self.spent.push(self.packet);
        answer
    }
}

/// Room for a packet to be written.
pub struct Departure<'a> {
    mtu: usize,
    free: &'a mut Vec<Packet>,
    sent: &'a mut VecDeque<Packet>,
    packets_sent: &'a mut u64,
}

impl TxToken for Departure<'_> {
    #[inline]
    fn consume<R, F: FnOnce(&mut [u8]) -> R>(self, length: usize, write: F) -> R {
        let mut packet = self.free.pop().unwrap_or_else(|| Packet {
            buffer: vec![0; self.mtu].into_boxed_slice(),
            length: 0,
        });
        packet.length = length;
        let answer = write(&mut packet.buffer[..length]);
        self.sent.push_back(packet);
        *self.packets_sent += 1;
        answer
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn send(device: &mut QueueDevice, bytes: &[u8]) {
        let room = device.transmit(Instant::ZERO).expect("never full");
        room.consume(bytes.len(), |buffer| buffer.copy_from_slice(bytes));
    }

    fn read(device: &mut QueueDevice) -> Option<Vec<u8>> {
        let (packet, _) = device.receive(Instant::ZERO)?;
        Some(packet.consume(<[u8]>::to_vec))
    }

    #[test]
    fn packets_arrive_in_order_and_buffers_come_home() {
        let (mut near, mut far) = (QueueDevice::new(8), QueueDevice::new(8));
        assert!(!near.carry_to(&mut far));
        for round in 0..3u8 {
            send(&mut near, &[round, 1]);
            send(&mut near, &[round, 2, 3]);
            assert!(near.carry_to(&mut far));
            send(&mut near, &[round, 4]);
            assert!(near.carry_to(&mut far), "joins what waits there");
            assert_eq!(read(&mut far), Some(vec![round, 1]));
            assert_eq!(read(&mut far), Some(vec![round, 2, 3]));
            assert_eq!(read(&mut far), Some(vec![round, 4]));
            assert_eq!(read(&mut far), None);
            assert!(!near.carry_to(&mut far));
            assert_eq!(near.free.len(), 3, "no buffer made after the first round");
        }
        assert_eq!(near.packets_sent(), 9);
    }
}
