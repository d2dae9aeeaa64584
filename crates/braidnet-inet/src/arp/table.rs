//! The neighbour table: what is known about the stations on the link, and what waits to be known.
//!
//! It does no input or output: it is told what was heard and what time it is, and answers with [`Effect`]s.
//!
//! # Bounds
//!
//! Anybody on the link can make us hear of neighbours, and anybody at all can make us ask for them by sending from forged
//! addresses. So there are at most [`Resolution::neighbours`] of them, [`Resolution::waiting`] packets wait for one and
//! [`Resolution::waiting_in_all`] for all, and when the table is full a slot is taken by these rules:
//!
//! - that of a route's gateway is never taken;
//! - what was heard unasked (from passing traffic, from somebody's request) takes only the slot of something else that was
//!   heard unasked. So no flood of such news drives out a neighbour that has answered us;
//! - what we must ask for takes any slot but one whose neighbour was used since the clock's hand last passed it;
//! - the hand passes at most [`SWEEP`] slots for one newcomer, who is turned away if none is free by then.
//!
//! The limits may change. Where one comes down below what is there, all stay until others come: for a newcomer as many give way by these rules as there
//! are too many, and of the packets that wait for a neighbour the oldest go with the next that is to wait for it.

use super::Resolution;
use super::published::{Neighbours, Place, Snapshot};
use crate::limits::InetLimits;
use crate::live::Live;
use braidnet_message::Message;
use braidnet_wire::address::Address;
use braidnet_wire::ethernet::MacAddress;
use braidnet_wire::time::{Duration, Instant};
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

/// How many slots the hand passes for one newcomer.
const SWEEP: usize = 64;
/// Requests for one neighbour go out at this interval (RFC 1122 §2.3.2.1: at most one a second).
pub(crate) const RETRY: Duration = Duration::from_secs(1);
/// How often a neighbour is asked for before it is given up.
pub(crate) const ATTEMPTS: u8 = 3;
/// How long a neighbour is believed without news of it (RFC 1122 §2.3.2.1: in the order of a minute).
pub(crate) const LIFETIME: Duration = Duration::from_secs(60);
/// How long a neighbour's station stands before another can claim its address.
pub(crate) const SETTLED: Duration = Duration::from_secs(1);

/// How a neighbour became known, the weakest way first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Origin {
    /// Packets from its address came through the station.
    Traffic,
    /// It asked for us.
    Request,
    /// It answered us.
    Reply,
}

/// What the table wants done.
#[derive(Debug)]
pub(crate) enum Effect {
    /// The packet goes to the station.
    Send(Message, MacAddress),
    /// The address is to be asked for: of the station that is thought to have it, or of all.
    Request(Address, Option<MacAddress>),
    /// The packet is dropped.
    Drop(Message, Reason),
    /// It happened.
    Count(Reason),
}

/// What can happen to neighbours.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Reason {
    /// A packet waited, and too many waited with it.
    WaitingFull,
    /// A packet waited for a neighbour that did not answer.
    Unresolved,
    /// There is no slot for a newcomer.
    TableFull,
    /// A neighbour lost its slot to a newcomer.
    Evicted,
    /// A neighbour has another station now.
    Moved,
    /// Another station claims a neighbour's address too soon after the last.
    Flapping,
    /// Somebody answered that nobody asked.
    Unsolicited,
}

struct Entry {
    address: Address,
    state: State,
}

enum State {
    /// Asked for, and not known yet.
    Asking {
        attempts: u8,
        at: Instant,
        waiting: VecDeque<Message>,
    },
    /// Known to be at `station` until `until`; `probes` says how often it was asked since it should have been heard of.
    Known {
        station: MacAddress,
        origin: Origin,
        confirmed: Instant,
        until: Instant,
        probes: u8,
    },
}

impl State {
    fn known(station: MacAddress, origin: Origin, now: Instant) -> State {
        State::Known {
            station,
            origin,
            confirmed: now,
            until: now + LIFETIME,
            probes: 0,
        }
    }

    fn due(&self) -> Instant {
        match self {
            State::Asking { at, .. } => *at,
            State::Known { until, .. } => *until,
        }
    }
}

/// The table. It has one owner, who calls [`publish`](Table::publish) when all that happened at once has happened.
pub(crate) struct Table {
    published: Arc<Neighbours>,
    /// Their slots are never taken. In order.
    gateways: Box<[Address]>,
    limits: Arc<Live<InetLimits>>,
    /// As many as there have been neighbours at a time.
    slots: Vec<Option<Entry>>,
    index: HashMap<Address, usize>,
    free: Vec<usize>,
    hand: usize,
    /// Packets that wait.
    waiting: usize,
    /// Nothing is due before.
    next: Instant,
    /// Whether what is published is out of date.
    changed: bool,
}

impl Table {
    pub(crate) fn new(
        published: Arc<Neighbours>,
        gateways: Box<[Address]>,
        limits: Arc<Live<InetLimits>>,
    ) -> Table {
        Table {
            published,
            gateways,
            limits,
            slots: Vec::new(),
            index: HashMap::new(),
            free: Vec::new(),
            hand: 0,
            waiting: 0,
            next: Instant::MAX,
            changed: false,
        }
    }

    /// When [`expire`](Table::expire) is to be called next.
    pub(crate) fn next(&self) -> Instant {
        self.next
    }

    /// Sends `message` to the neighbour `address` as soon as its station is known.
    pub(crate) fn send(
        &mut self,
        address: Address,
        message: Message,
        now: Instant,
        emit: &mut impl FnMut(Effect),
    ) {
        let slot = match self.index.get(&address) {
            Some(slot) => *slot,
            None => match self.take_slot(None, emit) {
                Some(slot) => {
                    let asking = State::Asking {
                        attempts: 1,
                        at: now + RETRY,
                        waiting: VecDeque::new(),
                    };
                    self.put(slot, address, asking);
                    emit(Effect::Request(address, None));
                    slot
                }
                None => return emit(Effect::Drop(message, Reason::TableFull)),
            },
        };
        match self.slots[slot].as_mut().map(|entry| &mut entry.state) {
            // Known since the packet's processor looked.
            Some(State::Known { station, .. }) => emit(Effect::Send(message, *station)),
            Some(State::Asking { waiting, .. }) => {
                let Resolution {
                    waiting: most,
                    waiting_in_all,
                    ..
                } = self.limits.now().resolution;
                while waiting.len() >= most.max(1)
                    && let Some(oldest) = waiting.pop_front()
                {
                    self.waiting -= 1;
                    emit(Effect::Drop(oldest, Reason::WaitingFull));
                }
                if self.waiting >= waiting_in_all {
                    return emit(Effect::Drop(message, Reason::WaitingFull));
                }
                self.waiting += 1;
                waiting.push_back(message);
            }
            None => unreachable!("an indexed slot has an entry"),
        }
    }

    /// Takes in that `address` is at `station`. A neighbour that is not in the table yet is put there if `create` says so.
    pub(crate) fn hear(
        &mut self,
        (address, station): (Address, MacAddress),
        origin: Origin,
        create: bool,
        now: Instant,
        emit: &mut impl FnMut(Effect),
    ) {
        let Some(&slot) = self.index.get(&address) else {
            if !create {
                if origin == Origin::Reply {
                    emit(Effect::Count(Reason::Unsolicited));
                }
            } else if let Some(slot) = self.take_slot(Some(origin), emit) {
                self.put(slot, address, State::known(station, origin, now));
                self.changed = true;
            } else {
                emit(Effect::Count(Reason::TableFull));
            }
            return;
        };
        let Some(entry) = &mut self.slots[slot] else {
            return;
        };
        match &mut entry.state {
            State::Asking { .. } => {
                // Whatever the news came by, it is what we asked for; traffic proves the least.
                let origin = if origin == Origin::Traffic {
                    origin
                } else {
                    Origin::Reply
                };
                let known = State::known(station, origin, now);
                self.next = self.next.min(known.due());
                self.changed = true;
                if let State::Asking { waiting, .. } = core::mem::replace(&mut entry.state, known) {
                    self.waiting -= waiting.len();
                    waiting
                        .into_iter()
                        .for_each(|message| emit(Effect::Send(message, station)));
                }
            }
            // An answer outweighs what traffic seems to say; that says no more than "one more packet".
            State::Known { origin: known, .. } if origin == Origin::Traffic && *known > origin => {}
            State::Known {
                station: known,
                confirmed,
                ..
            } if *known != station && now.since(*confirmed) < SETTLED => {
                emit(Effect::Count(Reason::Flapping));
            }
            State::Known {
                station: known,
                origin: rank,
                probes,
                ..
            } => {
                // Only a reply that was asked for is worth more than other news.
                let worth = if *probes > 0 {
                    origin
                } else {
                    origin.min(Origin::Request)
                };
                let moved = *known != station;
                entry.state = State::known(station, worth.max(*rank), now);
                if moved {
                    self.changed = true;
                    emit(Effect::Count(Reason::Moved));
                }
            }
        }
    }

    /// Does what is due by `now`: asks again, gives up, forgets.
    pub(crate) fn expire(&mut self, now: Instant, emit: &mut impl FnMut(Effect)) {
        if now < self.next {
            return;
        }
        self.next = Instant::MAX;
        for slot in 0..self.slots.len() {
            let Some(entry) = &mut self.slots[slot] else {
                continue;
            };
            if entry.state.due() <= now && !renew(entry, slot, &self.published, now, emit) {
                self.remove(slot, emit);
            } else {
                self.next = self.next.min(entry.state.due());
            }
        }
    }

    /// Lets every processor see what has changed since the last call.
    pub(crate) fn publish(&mut self) {
        if !core::mem::take(&mut self.changed) {
            return;
        }
        let known = self
            .slots
            .iter()
            .enumerate()
            .filter_map(|(slot, entry)| match entry {
                Some(Entry {
                    address,
                    state: State::Known { station, .. },
                }) => Some((
                    *address,
                    Place {
                        station: *station,
                        slot,
                    },
                )),
                _ => None,
            });
        self.published.publish(known.collect::<Snapshot>());
    }

    /// A slot for a neighbour that was heard of in this way, or must be asked for.
    fn take_slot(
        &mut self,
        origin: Option<Origin>,
        emit: &mut impl FnMut(Effect),
    ) -> Option<usize> {
        let most = self.limits.now().resolution.neighbours;
        let most = most.clamp(1, Resolution::MOST_NEIGHBOURS);
        for _ in 0..SWEEP {
            if self.index.len() < most {
                break;
            }
            let slot = self.hand;
            self.hand = (slot + 1) % self.slots.len();
            let Some(entry) = &self.slots[slot] else {
                continue;
            };
            let unasked =
                matches!(&entry.state, State::Known { origin, .. } if *origin < Origin::Reply);
            let yields = match origin {
                Some(_) => unasked,
                None => unasked || !self.published.take_used(slot),
            };
            if yields && self.gateways.binary_search(&entry.address).is_err() {
                emit(Effect::Count(Reason::Evicted));
                self.remove(slot, emit);
            }
        }
        if self.index.len() >= most {
            return None;
        }
        Some(self.free.pop().unwrap_or_else(|| {
            self.slots.push(None);
            self.slots.len() - 1
        }))
    }

    fn put(&mut self, slot: usize, address: Address, state: State) {
        // What the last tenant's traffic left.
        self.published.take_used(slot);
        self.published.take_heard(slot);
        self.next = self.next.min(state.due());
        self.index.insert(address, slot);
        self.slots[slot] = Some(Entry { address, state });
    }

    fn remove(&mut self, slot: usize, emit: &mut impl FnMut(Effect)) {
        let Some(entry) = self.slots[slot].take() else {
            return;
        };
        self.index.remove(&entry.address);
        self.free.push(slot);
        match entry.state {
            State::Known { .. } => self.changed = true,
            State::Asking { waiting, .. } => {
                self.waiting -= waiting.len();
                waiting
                    .into_iter()
                    .for_each(|message| emit(Effect::Drop(message, Reason::Unresolved)));
            }
        }
    }
}

/// What becomes of an entry whose time has come; `false` if it is to be removed.
fn renew(
    entry: &mut Entry,
    slot: usize,
    published: &Neighbours,
    now: Instant,
    emit: &mut impl FnMut(Effect),
) -> bool {
    match &mut entry.state {
        State::Asking { attempts, at, .. } => {
            if *attempts == ATTEMPTS {
                return false;
            }
            *attempts += 1;
            *at = now + RETRY;
            emit(Effect::Request(entry.address, None));
        }
        // Nobody need answer for an address beyond the link: it lives as long as its packets come.
        State::Known {
            origin: Origin::Traffic,
            until,
            ..
        } => {
            if !published.take_heard(slot) {
                return false;
            }
            *until = now + LIFETIME;
        }
        // One that is not used any more is forgotten, one that is used is asked (RFC 1122 §2.3.2.1, unicast poll).
        State::Known {
            station,
            until,
            probes,
            ..
        } => {
            if *probes == ATTEMPTS || (*probes == 0 && !published.take_used(slot)) {
                return false;
            }
            *probes += 1;
            *until = now + RETRY;
            emit(Effect::Request(entry.address, Some(*station)));
        }
    }
    true
}

#[cfg(test)]
mod tests;
