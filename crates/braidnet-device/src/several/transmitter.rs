//! Sending by several devices.

use crate::{Counters, DeviceError, Transmitter};
use braidnet_message::Run;
use std::os::fd::BorrowedFd;

/// A way out of each of several devices.
pub(super) struct SeveralTransmitter {
    /// By number.
    members: Vec<Member>,
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
        }
    }
}

impl Transmitter for SeveralTransmitter {
    /// What one device cannot take holds up no other: packets keep their order among those that leave by the same one.
    fn transmit(&mut self, run: &mut Run) {
        let Some(first) = run.as_slice().first().map(|message| message.device()) else {
            return;
        };
        if let Some(member) = self.members.get_mut(usize::from(first))
            && run.iter().all(|message| message.device() == first)
        {
            return member.transmitter.transmit(run);
        }
        let last = self.members.len() - 1;
        for message in run.drain() {
            debug_assert!(usize::from(message.device()) <= last, "no such device");
            let device = usize::from(message.device()).min(last);
            self.members[device].run.push(message);
        }
        for member in &mut self.members {
            if !member.run.is_empty() {
                member.transmitter.transmit(&mut member.run);
                run.append(&mut member.run);
            }
        }
    }

    fn another(&self) -> Result<Box<dyn Transmitter>, DeviceError> {
        let members = (self.members.iter()).map(|member| member.transmitter.another());
        let members = members.collect::<Result<_, _>>()?;
        Ok(Box::new(SeveralTransmitter::new(members)))
    }

    /// None: which of them is full changes, and whoever has packets left offers them again in its next turn.
    fn fd(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    fn counters(&self) -> Counters {
        let mut all = Counters::default();
        for member in &self.members {
            all.add(&member.transmitter.counters());
        }
        all
    }
}
