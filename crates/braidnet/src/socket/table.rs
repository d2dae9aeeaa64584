//! The sockets of a stack, by number.

use super::error::SocketError;
use super::options::Options;
use crate::stack::Connection;
use braidnet_wire::address::{Address, Tuple};
use braidnet_wire::time::Instant;
use core::net::SocketAddr;
use std::collections::VecDeque;

/// The number of a socket. It is not given to another one before 2^32 others had its place.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Socket {
    slot: u32,
    generation: u32,
}

impl Socket {
    /// The number.
    pub const fn number(self) -> u64 {
        (self.generation as u64) << 32 | self.slot as u64
    }

    /// Its place, which others had before it and others will have after it.
    pub(super) const fn place(self) -> u32 {
        self.slot
    }

    /// All that ever have this place.
    pub(super) fn all_at(place: u32) -> core::ops::RangeInclusive<Socket> {
        let at = |generation| Socket {
            slot: place,
            generation,
        };
        at(0)..=at(u32::MAX)
    }
}

/// One socket.
pub(super) struct Entry {
    pub(super) role: Role,
    /// What it was bound to by its owner; the unspecified address stands for all of the stack's.
    pub(super) bound: Option<(Address, u16)>,
    pub(super) options: Options,
    /// What has befallen it and nobody has heard of (`SO_ERROR`).
    pub(super) error: Option<SocketError>,
    pub(super) read_shut: bool,
    pub(super) write_shut: bool,
    /// It is being opened, and begins with the first bytes that are sent.
    pub(super) is_held: bool,
    /// Its owner has heard that it is connected.
    pub(super) is_known_open: bool,
    /// It is among those that hold something back.
    pub(super) holds_back: bool,
}

/// What a socket is.
pub(super) enum Role {
    /// Neither connected nor listening.
    Idle,
    Listening(Listening),
    /// SYN-SENT or SYN-RECEIVED, by our own opening.
    Opening(Connection, Tuple),
    /// Connected, or no longer: what has come may still be read.
    Open(Connection, Tuple),
    /// The opening has failed, and its owner has not asked since.
    Failed,
    Datagrams(Datagrams),
}

/// A listener: what is there to be accepted.
pub(super) struct Listening {
    pub(super) address: Option<Address>,
    pub(super) port: u16,
    /// Most connections in the queue.
    pub(super) capacity: usize,
    pub(super) queue: VecDeque<Connection>,
}

/// A socket for datagrams.
#[derive(Default)]
pub(super) struct Datagrams {
    /// Where they go unless it is said, and the only one from whom they come.
    pub(super) peer: Option<SocketAddr>,
    /// The longest packet in bytes that gets to the peer, as the network says, and until when that is believed.
    pub(super) path: Option<(usize, Instant)>,
    /// The address that its owner has bound it to, whatever it is connected from: the unspecified one if none or all.
    pub(super) asked_for: Address,
}

impl Entry {
    pub(super) fn new(role: Role, options: Options) -> Entry {
        Entry {
            role,
            bound: None,
            options,
            error: None,
            read_shut: false,
            write_shut: false,
            is_held: false,
            is_known_open: false,
            holds_back: false,
        }
    }

    /// The port that it occupies, and on which address.
    pub(super) fn place(&self) -> Option<(Address, u16)> {
        match &self.role {
            Role::Opening(_, tuple) | Role::Open(_, tuple) => Some((tuple.local, tuple.local_port)),
            _ => self.bound,
        }
    }

    /// The port of UDP that it is bound to.
    pub(super) fn datagram_port(&self) -> Option<u16> {
        match self.role {
            Role::Datagrams(_) => self.bound.map(|(_, port)| port),
            _ => None,
        }
    }

    /// The connection, whatever has become of it.
    pub(super) fn connection(&self) -> Option<Connection> {
        match self.role {
            Role::Opening(connection, _) | Role::Open(connection, _) => Some(connection),
            _ => None,
        }
    }
}

/// All sockets, at most so many.
pub(super) struct Table {
    slots: Vec<Slot>,
    free: Vec<u32>,
    limit: usize,
    /// Nothing is known of any of them any more: every question is answered with [`SocketError::Down`].
    is_down: bool,
}

/// The place of one socket after the other.
#[derive(Default)]
struct Slot {
    /// Of the one that is here, or of the next.
    generation: u32,
    entry: Option<Entry>,
    /// It stands in the list of places where readiness may have changed.
    is_changed: bool,
}

impl Table {
    pub(super) fn new(limit: usize) -> Table {
        Table {
            slots: Vec::new(),
            free: Vec::new(),
            limit,
            is_down: false,
        }
    }

    /// At most so many from now on; where there are more, they stay.
    pub(super) fn set_limit(&mut self, limit: usize) {
        self.limit = limit;
    }

    /// Answers nothing any more.
    pub(super) fn go_down(&mut self) {
        self.is_down = true;
    }

    pub(super) fn is_down(&self) -> bool {
        self.is_down
    }

    pub(super) fn insert(&mut self, entry: Entry) -> Result<Socket, SocketError> {
        if self.is_down {
            return Err(SocketError::Down);
        }
        if self.slots.len() - self.free.len() >= self.limit {
            return Err(SocketError::TooMany);
        }
        let number = self.free.pop().unwrap_or_else(|| {
            self.slots.push(Slot::default());
            self.slots.len() as u32 - 1
        });
        let slot = self.slot(number).ok_or(SocketError::TooMany)?;
        slot.entry = Some(entry);
        Ok(Socket {
            slot: number,
            generation: slot.generation,
        })
    }

    pub(super) fn get(&mut self, socket: Socket) -> Result<&mut Entry, SocketError> {
        if self.is_down {
            return Err(SocketError::Down);
        }
        self.slot(socket.slot)
            .filter(|slot| slot.generation == socket.generation)
            .and_then(|slot| slot.entry.as_mut())
            .ok_or(SocketError::BadSocket)
    }

    pub(super) fn remove(&mut self, socket: Socket) -> Result<Entry, SocketError> {
        self.get(socket)?;
        let slot = self.slot(socket.slot).ok_or(SocketError::BadSocket)?;
        let entry = slot.entry.take().ok_or(SocketError::BadSocket)?;
        slot.generation = slot.generation.wrapping_add(1);
        self.free.push(socket.slot);
        Ok(entry)
    }

    /// Sets whether readiness may have changed at a place; what was set before.
    pub(super) fn set_changed(&mut self, place: u32, is_changed: bool) -> bool {
        self.slot(place)
            .is_some_and(|slot| core::mem::replace(&mut slot.is_changed, is_changed))
    }

    /// The socket that has this place now.
    pub(super) fn occupant(&self, place: u32) -> Option<Socket> {
        let slot = self.slots.get(place as usize)?;
        slot.entry.as_ref()?;
        Some(Socket {
            slot: place,
            generation: slot.generation,
        })
    }

    fn slot(&mut self, number: u32) -> Option<&mut Slot> {
        self.slots.get_mut(number as usize)
    }

    pub(super) fn entries(&self) -> impl Iterator<Item = (Socket, &Entry)> {
        let numbered = self.slots.iter().enumerate();
        numbered.filter_map(|(number, slot)| {
            let socket = Socket {
                slot: number as u32,
                generation: slot.generation,
            };
            Some((socket, slot.entry.as_ref()?))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use braidnet_tcp::Config;

    #[test]
    fn a_number_is_of_one_socket_only() {
        let mut table = Table::new(2);
        let fresh = || Entry::new(Role::Idle, Options::new(&Config::default()));
        let one = table.insert(fresh()).unwrap();
        let two = table.insert(fresh()).unwrap();
        assert_eq!(table.insert(fresh()).err(), Some(SocketError::TooMany));
        assert!(table.remove(one).is_ok());
        assert_eq!(table.remove(one).err(), Some(SocketError::BadSocket));
        let three = table.insert(fresh()).unwrap();
        assert_eq!(table.get(one).err(), Some(SocketError::BadSocket));
        let numbers = [one, two, three].map(Socket::number);
        assert!(numbers[0] != numbers[2] && numbers[1] != numbers[2]);
        assert_eq!(table.entries().count(), 2);
        table.set_limit(1);
        assert!(table.get(two).is_ok() && table.remove(three).is_ok());
        assert_eq!(table.insert(fresh()).err(), Some(SocketError::TooMany));
        table.set_limit(3);
        assert!(table.insert(fresh()).is_ok() && table.insert(fresh()).is_ok());
        assert_eq!(table.insert(fresh()).err(), Some(SocketError::TooMany));
    }
}
