//! The connections that a caller-turned stack's head knows of.

use crate::endpoint::{Endpoint, Phase};
use crate::error::CloseReason;
use crate::event::Event;
use crate::stack::Connection;
use braidnet_message::{Kind, Message};
use braidnet_stream::{BucketId, ConnectionId, Control, Verb};
use braidnet_wire::address::Tuple;
use std::collections::{HashMap, VecDeque};

/// Connections by number, and what has happened to them.
pub(crate) struct Endpoints {
    /// By bucket and slot.
    slots: Vec<Vec<Option<Box<Endpoint>>>>,
    /// Those that are gone, whose slot TCP has given to another, and that a socket [has](Endpoints::claim): as many as sockets at most.
    claimed: HashMap<Connection, Box<Endpoint>>,
    /// Those that no socket has, likewise: what they have received can still be read. The longest gone first, which is forgotten for one
    /// more than may be.
    left: VecDeque<Box<Endpoint>>,
    most_left: usize,
    /// Those of them that had to make room.
    left_forgotten: u64,
    /// At most a few for each connection that the application knows of, and for as many that it does not as listeners let in.
    events: VecDeque<Event>,
    /// Connections that have got something to read or room to send, for who [watches](Endpoints::watch).
    stirred: VecDeque<Connection>,
    is_watched: bool,
    /// What TCP has answered to the last request to open a connection: which it is, or the [detail](Control) of why there is none.
    pub(crate) opened: Option<Result<Connection, u32>>,
}

impl Endpoints {
    /// None yet, in any of so many buckets. Of those that are gone, and whose slot has another, so many are remembered for applications that
    /// have not forgotten them.
    pub(crate) fn new(buckets: u32, most_left: usize) -> Endpoints {
        Endpoints {
            slots: (0..buckets).map(|_| Vec::new()).collect(),
            claimed: HashMap::new(),
            left: VecDeque::new(),
            most_left,
            left_forgotten: 0,
            events: VecDeque::new(),
            stirred: VecDeque::new(),
            is_watched: false,
            opened: None,
        }
    }

    /// So many that are gone are remembered from now on. Where there are more, they are until the next has to be.
    pub(crate) fn set_most_left(&mut self, most_left: usize) {
        self.most_left = most_left;
    }

    /// The endpoint of a connection, if it is still known under this number.
    #[inline]
    pub(crate) fn get(&mut self, connection: Connection) -> Option<&mut Endpoint> {
        let endpoint = self
            .slots
            .get_mut(connection.bucket().index())?
            .get_mut(connection.slot())?
            .as_deref_mut();
        match endpoint {
            Some(endpoint) if endpoint.id == connection => Some(endpoint),
            _ => {
                if let Some(endpoint) = self.claimed.get_mut(&connection) {
                    return Some(endpoint);
                }
                let mut left = self.left.iter_mut().map(Box::as_mut);
                left.find(|endpoint| endpoint.id == connection)
            }
        }
    }

    /// The next thing that happened.
    pub(crate) fn event(&mut self) -> Option<Event> {
        let event = self.events.pop_front()?;
        if let Event::Accepted(connection) = event
            && let Some(endpoint) = self.get(connection)
        {
            endpoint.is_unaccepted = false;
        }
        if let Event::Urgent(connection) = event
            && let Some(endpoint) = self.get(connection)
        {
            endpoint.is_urgency_listed = false;
        }
        if let Event::Silent(connection, _) = event
            && let Some(endpoint) = self.get(connection)
        {
            endpoint.is_silence_listed = false;
        }
        Some(event)
    }

    /// From now on it is noted which connections have got something to read or room to send. Each stands there once for each
    /// message from TCP that brought it, until it is taken.
    pub(crate) fn watch(&mut self) {
        self.is_watched = true;
    }

    /// The next connection that has got something to read or room to send.
    pub(crate) fn stirred(&mut self) -> Option<Connection> {
        self.stirred.pop_front()
    }

    /// A socket has this connection: it is not forgotten until [asked](Endpoints::remove), whoever gets its slot.
    pub(crate) fn claim(&mut self, connection: Connection) {
        let left = (self.left.iter()).position(|endpoint| endpoint.id == connection);
        if let Some(endpoint) = left.and_then(|place| self.left.remove(place)) {
            self.claimed.insert(connection, endpoint);
        } else if let Some(endpoint) = self.get(connection) {
            endpoint.is_claimed = true;
        }
    }

    /// Forgets a connection, if it is still known under this number.
    pub(crate) fn remove(&mut self, connection: Connection) {
        if self.claimed.remove(&connection).is_some() {
            return;
        }
        let left = (self.left.iter()).position(|endpoint| endpoint.id == connection);
        if let Some(place) = left {
            self.left.remove(place);
        } else if self.get(connection).is_some() {
            self.slots[connection.bucket().index()][connection.slot()] = None;
        }
    }

    /// What was forgotten unasked, by name.
    pub(crate) fn counters(&self) -> impl Iterator<Item = (&'static str, u64)> {
        let all = [("tcp.gone_forgotten", self.left_forgotten)];
        all.into_iter().filter(|(_, count)| *count > 0)
    }

    /// Takes what has come up for a connection; what nobody knows any more is dropped. What belongs to no connection at all, a
    /// datagram or what is said of one, is given back.
    #[inline]
    pub(crate) fn take(&mut self, message: Message) -> Option<Message> {
        let connection = ConnectionId(message.connection());
        if message.kind() != Kind::Data {
            if connection == ConnectionId::NONE {
                return Some(message);
            }
            self.told(connection, &message);
        } else if let Some(endpoint) = self.get(connection) {
            if endpoint.push(message) && self.is_watched {
                self.stirred.push_back(connection);
            }
        } else if connection == ConnectionId::NONE {
            return Some(message);
        }
        None
    }

    /// Takes note of what TCP tells.
    #[inline(never)]
    fn told(&mut self, connection: Connection, message: &Message) {
        let Some((control, verb)) =
            Control::of(message).and_then(|control| Some((control, control.verb()?)))
        else {
            return;
        };
        if verb == Verb::Opening {
            self.opened = Some(Ok(connection));
            self.enter(connection, control.tuple);
            if let Some(endpoint) = self.get(connection) {
                endpoint.allow_beginning(&control);
            }
            return;
        }
        if verb == Verb::Closed && connection == unopened(connection.bucket()) {
            self.opened = Some(Err(control.detail));
            return;
        }
        let known = self.get(connection).is_some();
        if verb == Verb::Connected && !known {
            self.enter(connection, control.tuple);
        }
        let Some(endpoint) = self.get(connection) else {
            return;
        };
        match verb {
            Verb::Connected => {
                endpoint.open(&control);
                endpoint.is_unaccepted = !known;
                let event = if known {
                    Event::Connected
                } else {
                    Event::Accepted
                };
                self.events.push_back(event(connection));
            }
            Verb::Space => {
                endpoint.grant(control.value);
                if self.is_watched {
                    self.stirred.push_back(connection);
                }
            }
            Verb::Urgent => {
                let is_news = endpoint.mark(control.value);
                let event = is_news.then_some(Event::Urgent(connection));
                self.events.extend(event);
            }
            Verb::Silent => {
                let is_news = !core::mem::replace(&mut endpoint.is_silence_listed, true);
                let reason = CloseReason::from_detail(control.detail);
                let event = is_news.then_some(Event::Silent(connection, reason));
                self.events.extend(event);
            }
            Verb::EndOfData => {
                endpoint.end_of_data = true;
                self.events.push_back(Event::EndOfData(connection));
            }
            Verb::Closed if endpoint.is_unaccepted => self.remove_unaccepted(connection),
            Verb::Closed => {
                endpoint.state = Phase::Gone(control.detail);
                self.events.push_back(Event::Closed(
                    connection,
                    CloseReason::from_detail(control.detail),
                ));
            }
            _ => {}
        }
    }

    /// A connection has died of which the application has not heard, and now will not: a peer that comes and goes leaves nothing.
    #[cold]
    fn remove_unaccepted(&mut self, connection: Connection) {
        self.remove(connection);
        self.events.retain(|event| event.connection() != connection);
    }

    fn enter(&mut self, connection: Connection, tuple: Tuple) {
        let Some(slots) = self.slots.get_mut(connection.bucket().index()) else {
            return;
        };
        if slots.len() <= connection.slot() {
            slots.resize_with(connection.slot() + 1, || None);
        }
        let before = slots[connection.slot()].replace(Box::new(Endpoint::new(connection, tuple)));
        let Some(before) = before.filter(|before| before.id != connection) else {
            return;
        };
        if before.is_claimed {
            self.claimed.insert(before.id, before);
        } else {
            self.left.push_back(before);
            let excess = self.left.len().saturating_sub(self.most_left);
            self.left.drain(..excess);
            self.left_forgotten += excess as u64;
        }
    }
}

/// What a request to open a connection in `bucket` goes under, and its refusal.
pub(crate) fn unopened(bucket: BucketId) -> Connection {
    ConnectionId::new(bucket, u32::MAX, 0)
}
