//! Several devices as one: what a stack stands on that has more than one interface (PPF §5).
//!
//! [`Several`] opens into as many queue pairs as the member with the most queues has. Each takes from one queue of every member that has as many, and
//! sends by every member, so that whoever turns it reaches each device by itself, and nothing is handed to another processor to get out. A message says which
//! member it came from, and by which it is to leave ([`Message::device`](braidnet_message::Message::device)), by their numbers in the order in which
//! they were put together.
//!
//! [`Several::apart`] gives each member queue pairs of its own to receive by, one member's behind the other's: each device has
//! processors of its own then, and all of them still send by every device.
//!
//! What a device has no room for is dropped ([`DropReason::TransmitFull`](crate::DropReason::TransmitFull)), so that one whose reader stalls keeps nobody from the others.
//!
//! Who waits for a pair waits for all that it takes from: one epoll(7) descriptor is readable where one of theirs is. A member that is gone is waited for no
//! more; the pair is gone when all that it takes from are. One device by itself is as it would be without all that.

mod receiver;
mod transmitter;

use crate::{Capabilities, Device, DeviceError, Offloads, QueuePair, Receiver, Transmitter};
use receiver::SeveralReceiver;
use transmitter::SeveralTransmitter;

/// Several devices as one.
///
/// ```
/// use braidnet_device::several::Several;
/// use braidnet_device::{Capabilities, Device, memory};
///
/// let (left, _) = memory::wire(Capabilities::ip(1500), 64);
/// let (right, _) = memory::wire(Capabilities::ip(9000), 64);
/// let both = Several::of(left).and(right);
/// assert_eq!(both.devices().iter().map(|device| device.mtu).collect::<Vec<_>>(), [1500, 9000]);
/// ```
pub struct Several {
    members: Vec<Box<dyn Device>>,
    is_apart: bool,
    capabilities: Capabilities,
}

/// Most devices of a stack.
pub const MAX_DEVICES: usize = 16;

impl Several {
    /// One so far.
    pub fn of(device: impl Device + 'static) -> Several {
        Several {
            capabilities: *device.capabilities(),
            members: vec![Box::new(device)],
            is_apart: false,
        }
    }

    /// And this one. More than [`MAX_DEVICES`] cannot be opened. Each [offloads](Offloads) what it does ([`Device::devices`] says what), whatever others do.
    pub fn and(mut self, device: impl Device + 'static) -> Several {
        self.members.push(Box::new(device));
        self.agreed()
    }

    /// Each device is taken from by processors of its own.
    pub fn apart(self) -> Several {
        let several = Several {
            is_apart: true,
            ..self
        };
        several.agreed()
    }

    /// The same with something around each device, which `wrap` makes of its number and itself.
    pub fn wrapped(
        self,
        mut wrap: impl FnMut(usize, Box<dyn Device>) -> Box<dyn Device>,
    ) -> Several {
        let wrap = |(number, device)| wrap(number, device);
        let members = self.members.into_iter().enumerate().map(wrap).collect();
        let several = Several { members, ..self };
        several.agreed()
    }

    /// With what all members agree on.
    fn agreed(mut self) -> Several {
        let devices = self.devices().into_iter();
        let offloads = devices.map(|device| device.offloads);
        let both = |one: Offloads, other: Offloads| Offloads {
            checksum: one.checksum && other.checksum,
            segments: one.segments && other.segments,
            datagrams: one.datagrams && other.datagrams,
        };
        self.capabilities.offloads = offloads.reduce(both).unwrap_or_default();
        self.capabilities.queues = self.queues();
        self
    }

    fn queues(&self) -> usize {
        let devices = self.devices();
        let queues = devices.iter().map(|device| device.queues.max(1));
        match self.is_apart {
            true => queues.sum(),
            false => queues.max().unwrap_or(1),
        }
    }
}

impl Device for Several {
    /// Those of the first member, but for the queues; it offloads what all of them do.
    fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }

    fn devices(&self) -> Vec<Capabilities> {
        let members = self.members.iter();
        members.map(|member| *member.capabilities()).collect()
    }

    fn decline_offloads(&mut self) {
        let members = self.members.iter_mut();
        members.for_each(|member| member.decline_offloads());
        self.capabilities.offloads = Offloads::NONE;
    }

    fn open(mut self: Box<Self>) -> Result<Vec<QueuePair>, DeviceError> {
        if self.members.len() == 1 {
            return self.members.remove(0).open();
        }
        if self.members.len() > MAX_DEVICES {
            return Err(DeviceError::TooMany(self.members.len()));
        }
        let count = self.members.len();
        let mut pairs: Vec<Pair> = Vec::new();
        // By member: at which pair its queues begin, and how many they are.
        let mut places = Vec::with_capacity(count);
        for (device, member) in self.members.into_iter().enumerate() {
            let queues = member.open()?;
            let first = if self.is_apart { pairs.len() } else { 0 };
            places.push((first, queues.len()));
            for (number, queue) in queues.into_iter().enumerate() {
                let at = first + number;
                if at == pairs.len() {
                    pairs.push(Pair::new(count));
                }
                pairs[at].receivers.push((device as u8, queue.receiver));
                pairs[at].transmitters[device] = Some(queue.transmitter);
            }
        }
        for (device, (first, queues)) in places.into_iter().enumerate() {
            for at in 0..pairs.len() {
                if pairs[at].transmitters[device].is_none() && queues > 0 {
                    let by = pairs[first + at % queues].transmitters[device].as_ref();
                    pairs[at].transmitters[device] = by.map(|by| by.another()).transpose()?;
                }
            }
        }
        pairs.into_iter().map(Pair::into_queue_pair).collect()
    }
}

/// A queue pair, while it is put together.
struct Pair {
    receivers: Vec<(u8, Box<dyn Receiver>)>,
    /// By member.
    transmitters: Vec<Option<Box<dyn Transmitter>>>,
}

impl Pair {
    fn new(members: usize) -> Pair {
        Pair {
            receivers: Vec::new(),
            transmitters: (0..members).map(|_| None).collect(),
        }
    }

    fn into_queue_pair(self) -> Result<QueuePair, DeviceError> {
        let transmitters = self.transmitters.into_iter().flatten().collect();
        Ok(QueuePair {
            receiver: Box::new(SeveralReceiver::new(self.receivers)?),
            transmitter: Box::new(SeveralTransmitter::new(transmitters)),
        })
    }
}

#[cfg(test)]
mod tests;
