//! What the stack tells of connections, and which socket it concerns.

use super::Sockets;
use super::error::SocketError;
use super::table::Role;
use crate::error::CloseReason;
use crate::event::Event;
use crate::stack::Connection;

impl Sockets {
    /// Takes note of all that has happened; whether the stack was asked for something therefore.
    pub(super) fn take_events(&mut self) -> bool {
        let mut asked = false;
        while let Some(event) = self.stack.unaccepted_event() {
            match event {
                Event::Accepted(connection) => asked |= !self.enqueue(connection),
                Event::Connected(connection) => self.connected(connection),
                Event::Urgent(connection) | Event::EndOfData(connection) => {
                    self.stirred(connection);
                }
                // A socket hears of it if it ends the connection.
                Event::Silent(..) => {}
                Event::Closed(connection, reason) => self.ended(connection, reason),
            }
        }
        while let Some(connection) = self.stack.stirred() {
            self.stirred(connection);
        }
        while let Some(port) = self.stack.stirred_port() {
            self.datagrams_stirred(port);
        }
        asked
    }

    fn stirred(&mut self, connection: Connection) {
        if let Some(socket) = self.by_connection.get(&connection).copied() {
            self.note_change(socket);
        }
    }

    fn connected(&mut self, connection: Connection) {
        let Some(socket) = self.by_connection.get(&connection).copied() else {
            return;
        };
        if let Ok(entry) = self.table.get(socket)
            && let Role::Opening(_, tuple) = entry.role
        {
            entry.role = Role::Open(connection, tuple);
            if entry.is_held {
                // The peer has called meanwhile, from where it was to be called: nothing is left to wait for.
                let _ = self.start(socket, None);
            }
        }
        self.note_change(socket);
    }

    fn ended(&mut self, connection: Connection, reason: CloseReason) {
        // One that waits to be accepted has no socket: its state says it when it gets one.
        let Some(socket) = self.by_connection.get(&connection).copied() else {
            return;
        };
        let Ok(entry) = self.table.get(socket) else {
            return;
        };
        if let Role::Opening(..) = entry.role {
            let error = SocketError::of_end(reason, false).unwrap_or(SocketError::Aborted);
            entry.error = Some(error);
            entry.role = Role::Failed;
            self.let_go(connection, false);
        } else {
            let write_shut = entry.write_shut;
            let error = self.end_of(connection, reason, write_shut);
            if let Ok(entry) = self.table.get(socket) {
                entry.error = error.or(entry.error);
            }
        }
        self.note_change(socket);
    }

    /// Puts a connection into the queue of whoever listens for it; `false` if nobody does, and it has been reset.
    fn enqueue(&mut self, connection: Connection) -> bool {
        let Some(listener) = self.listener_of(connection) else {
            self.counts.unwanted += 1;
            self.stack.take_up(connection);
            self.let_go(connection, true);
            return false;
        };
        if let Ok(entry) = self.table.get(listener)
            && let Role::Listening(listening) = &mut entry.role
        {
            listening.queue.push_back(connection);
            // TCP counts those that live; what is dead waits at most as long as there is room.
            while listening.queue.len() > listening.capacity
                && let Some(dead) = listening
                    .queue
                    .iter()
                    .position(|waiting| self.stack.standing(*waiting).is_gone)
                && let Some(connection) = listening.queue.remove(dead)
            {
                self.counts.dead_unaccepted += 1;
                self.stack.forget(connection);
            }
        }
        self.note_change(listener);
        true
    }

    fn listener_of(&mut self, connection: Connection) -> Option<super::Socket> {
        let tuple = self.stack.tuple(connection)?;
        let mut exact = None;
        for socket in &self.listeners {
            let Ok(entry) = self.table.get(*socket) else {
                continue;
            };
            if let Role::Listening(listening) = &entry.role
                && listening.port == tuple.local_port
                && listening.address.is_none_or(|own| own == tuple.local)
            {
                exact = Some(*socket);
            }
        }
        exact
    }
}
