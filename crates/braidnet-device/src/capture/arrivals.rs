//! Packets that have arrived of late, to be known again when they are dropped.
//!
//! A packet is recorded as it arrives, before anybody knows what will become of it. Where it is dropped depends: in the turn that took it, in another processor's, or when what it waited for
//! did not come; and what is left of it there is perhaps a payload in an engine's hands. So nothing is held back for a verdict. What arrived last is kept as it was, with where it lay in
//! memory; whoever drops says where what it drops lies, and the packet around that is recorded once more, with the reason. Modules strip headers in place and pass pointers, so what
//! they drop lies in the packet. A buffer that is used again holds a newer packet, which is the one that is found. What was put together from
//! several, as a datagram from its fragments, may lie where a packet lay that was taken: then the comment stands at the wrong one. The counter is right in any case.
//!
//! Only a capture that is told to do so keeps what arrived. Without one, nobody does anything.

use super::Interface;
use braidnet_message::Message;
use parking_lot::Mutex;
use std::ops::RangeInclusive;

/// Packets that are known again. One processor's turn takes 64 unless it is told otherwise.
pub const KEPT: usize = 512;

/// A packet that has arrived.
#[derive(Clone)]
pub struct Arrival {
    /// Addresses that it, or what is left of it, begins at.
    at: RangeInclusive<usize>,
    /// Where it is recorded if it is dropped.
    pub interface: Interface,
    /// Its length, and as many bytes as are recorded.
    pub length: usize,
    pub bytes: Vec<u8>,
}

/// The last ones.
#[derive(Default)]
pub struct Arrivals {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// In order but for the place where the newest takes that of the oldest.
    packets: Vec<Arrival>,
    next: usize,
}

impl Arrivals {
    /// Keeps packets that have arrived just now, each up to `snaplen` bytes.
    pub fn keep<'a>(
        &self,
        interface: Interface,
        messages: impl Iterator<Item = &'a Message>,
        snaplen: usize,
    ) {
        let mut state = self.state.lock();
        for message in messages {
            let first = message.bytes().as_ptr().addr();
            let arrival = state.oldest(Arrival {
                at: first..=first + message.len(),
                interface,
                length: message.total_len(),
                bytes: Vec::new(),
            });
            for block in message.blocks() {
                let room = snaplen - arrival.bytes.len();
                let part = block.get(..room).unwrap_or(block);
                arrival.bytes.extend_from_slice(part);
            }
        }
    }

    /// Shows the last packet in which this address lies, if it is known still.
    pub fn find<R>(&self, address: usize, see: impl FnOnce(&Arrival) -> R) -> Option<R> {
        let state = self.state.lock();
        let (newer, older) = state.packets.split_at(state.next);
        let mut newest_first = newer.iter().rev().chain(older.iter().rev());
        newest_first
            .find(|arrival| arrival.at.contains(&address))
            .map(see)
    }
}

impl State {
    /// The place of the oldest, which this one takes, with the oldest's memory.
    fn oldest(&mut self, arrival: Arrival) -> &mut Arrival {
        let place = self.next;
        self.next = (place + 1) % KEPT;
        match self.packets.get_mut(place) {
            Some(oldest) => {
                let mut bytes = std::mem::take(&mut oldest.bytes);
                bytes.clear();
                *oldest = Arrival { bytes, ..arrival };
            }
            None => self.packets.push(arrival),
        }
        &mut self.packets[place]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use braidnet_message::{Arena, Pool};

    #[test]
    fn the_newest_at_an_address_is_found_and_the_oldest_go() {
        let mut pool = Pool::new(&Arena::new(1 << 20));
        let arrivals = Arrivals::default();
        let mut message = pool.copy_from_slice(64, &[1, 2, 3, 4]).unwrap();
        let first = message.bytes().as_ptr().addr();
        let found = |address: usize| arrivals.find(address, |arrival| arrival.bytes.clone());
        assert_eq!(found(first), None);
        arrivals.keep(Interface(7), [&message].into_iter(), 3);
        // From its first byte to behind its last, as many bytes as are recorded.
        for address in [first, first + 4] {
            assert_eq!(found(address), Some(vec![1, 2, 3]));
        }
        for address in [first - 1, first + 5] {
            assert_eq!(found(address), None);
        }
        message.bytes_mut().unwrap().fill(9);
        arrivals.keep(Interface(7), [&message].into_iter(), 100);
        assert_eq!(found(first), Some(vec![9; 4]));
        let other = pool.copy_from_slice(0, &[5]).unwrap();
        for _ in 0..KEPT - 1 {
            arrivals.keep(Interface(7), [&other].into_iter(), 100);
        }
        assert_eq!(found(first), Some(vec![9; 4]));
        arrivals.keep(Interface(7), [&other].into_iter(), 100);
        assert_eq!(found(first), None);
        let seen = arrivals.find(other.bytes().as_ptr().addr(), |arrival| {
            (arrival.interface, arrival.length)
        });
        assert_eq!(seen, Some((Interface(7), 1)));
    }
}
