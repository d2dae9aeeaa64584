//! Receiving from several devices.

use crate::{Alarm, Counters, DeviceError, Receiver};
use braidnet_message::{Pool, Run};
use braidnet_sync::parker::Unparker;
use rustix::event::epoll;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// One queue of each of several devices.
pub(super) struct SeveralReceiver {
    members: Vec<Member>,
    /// Who is asked first next time, so that one that always has packets starves no other.
    first: usize,
    /// What is readable where the descriptor of a member is; none where no member has one.
    epoll: Option<OwnedFd>,
}

struct Member {
    /// Its number.
    device: u8,
    receiver: Box<dyn Receiver>,
    /// Whether it is waited for.
    is_waited_for: bool,
}

impl SeveralReceiver {
    /// Of these queues, each with the number of its device.
    pub(super) fn new(
        queues: Vec<(u8, Box<dyn Receiver>)>,
    ) -> Result<SeveralReceiver, DeviceError> {
        let failed = |error: rustix::io::Errno| DeviceError::Wait(error.into());
        let members = queues.into_iter().map(|(device, receiver)| Member {
            device,
            is_waited_for: receiver.fd().is_some(),
            receiver,
        });
        let members = Vec::from_iter(members);
        let mut epoll = None;
        if members.iter().any(|member| member.is_waited_for) {
            let set = epoll::create(epoll::CreateFlags::CLOEXEC).map_err(failed)?;
            for member in &members {
                if let Some(fd) = member.receiver.fd() {
                    let data = epoll::EventData::new_u64(member.device.into());
                    epoll::add(&set, fd, data, epoll::EventFlags::IN).map_err(failed)?;
                }
            }
            epoll = Some(set);
        }
        Ok(SeveralReceiver {
            members,
            first: 0,
            epoll,
        })
    }

    /// A member has brought nothing: if nothing will come any more, its descriptor stays ready for ever.
    #[cold]
    fn forget(epoll: Option<&OwnedFd>, member: &mut Member) {
        if let (Some(epoll), Some(fd)) = (epoll, member.receiver.fd()) {
            // Refused only for what is not waited for.
            let _ = epoll::delete(epoll, fd);
        }
        member.is_waited_for = false;
    }
}

impl Receiver for SeveralReceiver {
    fn receive(&mut self, pool: &mut Pool, into: &mut Run, max: usize) -> usize {
        let count = self.members.len();
        let mut taken = 0;
        for turn in 0..count {
            if taken == max {
                break;
            }
            let member = &mut self.members[(self.first + turn) % count];
            let before = into.len();
            let found = member.receiver.receive(pool, into, max - taken);
            for message in &mut into.as_mut_slice()[before..] {
                message.set_device(member.device);
            }
            taken += found;
            if found == 0 && member.is_waited_for && member.receiver.is_gone() {
                SeveralReceiver::forget(self.epoll.as_ref(), member);
            }
        }
        self.first = (self.first + 1) % count.max(1);
        taken
    }

    fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.epoll.as_ref().map(AsFd::as_fd)
    }

    fn has_waiting(&self) -> bool {
        let mut members = self.members.iter();
        members.any(|member| member.receiver.has_waiting())
    }

    fn wake_with(&mut self, unparker: Unparker) -> bool {
        let wakes = (self.members.iter_mut())
            .map(|member| member.receiver.wake_with(unparker.clone()))
            .filter(|wakes| *wakes);
        wakes.count() > 0
    }

    fn alarm(&self) -> Option<Alarm> {
        Alarm::soonest(
            (self.members.iter())
                .filter_map(|member| member.receiver.alarm())
                .collect(),
        )
    }

    fn is_gone(&self) -> bool {
        let mut members = self.members.iter();
        members.all(|member| member.receiver.is_gone())
    }

    fn counters(&self) -> Counters {
        let mut all = Counters::default();
        for member in &self.members {
            all.add(&member.receiver.counters());
        }
        all
    }
}
