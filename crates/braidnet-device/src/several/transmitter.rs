//! Sending by several devices.

use crate::{Counters, DeviceError, DropReason, Transmitter};
use braidnet_message::{Message, Run};
use std::os::fd::BorrowedFd;

/// A way out of each of several devices.
pub(super) struct SeveralTransmitter {
    /// By number.
    members: Vec<Member>,
    /// What left by none.
    counters: Counters,
}

struct Member {
    transmitter: Box<dyn Transmitter>,
    /// What is to leave by it. Empty between calls, kept for its memory.
    run: Run,
}

impl SeveralTransmitter {
    /// By these, in the order of their numbers: at least one.
    pub(super) fn new(transmitters: Vec<Box<dyn Transmitter>>) -> SeveralTransmitter {
        let members = transmitters.into_iter().map(|transmitter| Member {
            transmitter,
            run: Run::new(),
        });
        SeveralTransmitter {
            members: members.collect(),
            counters: Counters::default(),
        }
    }
}

impl Transmitter for SeveralTransmitter {
    /// Takes everything. What one device has no room for is dropped: left here, it would keep whoever has it from receiving from all.
    fn transmit(&mut self, run: &mut Run) {
        let Some(first) = run.as_slice().first().map(|message| message.device()) else {
            return;
        };
        if let Some(member) = self.members.get_mut(usize::from(first))
            && run.iter().all(|message| message.device() == first)
        {
            member.transmitter.transmit(run);
            return drop_rest(run, &mut self.counters);
        }
        for message in run.drain() {
            match self.members.get_mut(usize::from(message.device())) {
                Some(member) => member.run.push(message),
                None => {
                    let packets = message.segments() as u64;
                    (self.counters).count_drops(DropReason::TransmitNoDevice, packets);
                }
            }
        }
        for member in &mut self.members {
            if !member.run.is_empty() {
                member.transmitter.transmit(&mut member.run);
                drop_rest(&mut member.run, &mut self.counters);
            }
        }
    }

    fn another(&self) -> Result<Box<dyn Transmitter>, DeviceError> {
        let members = (self.members.iter()).map(|member| member.transmitter.another());
        let members = members.collect::<Result<_, _>>()?;
        Ok(Box::new(SeveralTransmitter::new(members)))
    }

    /// None: nobody is ever left with packets to wait for it with.
    fn fd(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    fn counters(&self) -> Counters {
        let mut all = self.counters;
        for member in &self.members {
            all.add(&member.transmitter.counters());
        }
        all
    }
}

/// Drops what a device had no room for.
fn drop_rest(run: &mut Run, counters: &mut Counters) {
    if !run.is_empty() {
        let packets: usize = run.iter().map(Message::segments).sum();
        counters.count_drops(DropReason::TransmitFull, packets as u64);
        run.clear();
    }
}
