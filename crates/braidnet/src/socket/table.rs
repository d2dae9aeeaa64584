//! The sockets of a stack, by number.

use super::error::SocketError;
use super::options::Options;
use crate::stack::Connection;
use braidnet_wire::address::{Address, Tuple};
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
    /// It stands in the list of those whose readiness may have changed.
    pub(super) is_changed: bool,
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
}

/// A listener: what is there to be accepted.
pub(super) struct Listening {
    pub(super) address: Option<Address>,
    pub(super) port: u16,
    /// Most connections in the queue.
    pub(super) capacity: usize,
    pub(super) queue: VecDeque<Connection>,
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
            is_changed: false,
        }
    }

    /// The port that it occupies, and on which address.
    pub(super) fn place(&self) -> Option<(Address, u16)> {
        match &self.role {
            Role::Opening(_, tuple) | Role::Open(_, tuple) => Some((tuple.local, tuple.local_port)),
            _ => self.bound,
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
    slots: Vec<(u32, Option<Entry>)>,
    free: Vec<u32>,
    limit: usize,
}

impl Table {
    pub(super) fn new(limit: usize) -> Table {
        Table {
            slots: Vec::new(),
            free: Vec::new(),
            limit,
        }
    }

    /// At most so many from now on; where there are more, they stay.
    pub(super) fn set_limit(&mut self, limit: usize) {
        self.limit = limit;
    }

    pub(super) fn insert(&mut self, entry: Entry) -> Result<Socket, SocketError> {
        if self.slots.len() - self.free.len() >= self.limit {
            return Err(SocketError::TooMany);
        }
        let slot = match self.free.pop() {
            Some(slot) => slot,
            None => {
                self.slots.push((0, None));
                self.slots.len() as u32 - 1
            }
        };
        let (generation, place) = self
            .slots
            .get_mut(slot as usize)
            .ok_or(SocketError::TooMany)?;
        *place = Some(entry);
        Ok(Socket {
            slot,
            generation: *generation,
        })
    }

    pub(super) fn get(&mut self, socket: Socket) -> Result<&mut Entry, SocketError> {
        match self.slots.get_mut(socket.slot as usize) {
            Some((generation, Some(entry))) if *generation == socket.generation => Ok(entry),
            _ => Err(SocketError::BadSocket),
        }
    }

    pub(super) fn remove(&mut self, socket: Socket) -> Result<Entry, SocketError> {
        match self.slots.get_mut(socket.slot as usize) {
            Some((generation, entry)) if *generation == socket.generation => {
                let entry = entry.take().ok_or(SocketError::BadSocket)?;
                *generation = generation.wrapping_add(1);
                self.free.push(socket.slot);
                Ok(entry)
            }
            _ => Err(SocketError::BadSocket),
        }
    }

    pub(super) fn entries(&self) -> impl Iterator<Item = (Socket, &Entry)> {
        let numbered = self.slots.iter().enumerate();
        numbered.filter_map(|(slot, (generation, entry))| {
            let socket = Socket {
                slot: slot as u32,
                generation: *generation,
            };
            Some((socket, entry.as_ref()?))
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
