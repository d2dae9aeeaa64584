//! The module of TCP's services.

use super::sessions::{Entry, Nobody, Sessions, Slot};
use super::{Service, pieces};
use braidnet_message::{Kind, Message, Run};
use braidnet_stream::{
    BucketId, ConnectionId, Context, Control, Counter, Direction, Key, Module, Stages, State, Verb,
};
use braidnet_wire::time::Instant;
use std::collections::HashMap;

/// The top module of a server: its TCP services.
///
/// While it is sessions' turn the pool's reserve is withheld: it is for what the stack does for them. After one that panics the processor
/// takes that back.
pub(crate) struct Services {
    by_port: HashMap<u16, Box<dyn Service>>,
    /// Whether one of them has declined order.
    hands_out: bool,
}

/// Connections to a service.
const OPENED: Counter = Counter(0);
/// Connections to a service that are gone.
const CLOSED: Counter = Counter(1);
/// Reset: nothing answers to the port.
const NO_SERVICE: Counter = Counter(2);
/// Dropped: data or finished work for a session that is gone.
pub(super) const NO_SESSION: Counter = Counter(3);
/// Put off: no buffer for what TCP is to be told.
pub(super) const NO_BUFFER: Counter = Counter(4);

/// Reset: a panic of a session, or below, has poisoned their bucket.
pub(super) const POISONED: Counter = Counter(5);

impl Services {
    /// The module's name.
    pub(crate) const NAME: &str = "services";

    pub(crate) fn new(by_port: HashMap<u16, Box<dyn Service>>) -> Services {
        let hands_out = by_port.values().any(|service| service.declines_order());
        Services { by_port, hands_out }
    }

    fn told(&self, message: Message, sessions: &mut Sessions, cx: &mut Context<'_>) {
        let id = ConnectionId(message.connection());
        let Some((control, verb)) =
            Control::of(&message).and_then(|control| Some((control, control.verb()?)))
        else {
            return;
        };
        match verb {
            Verb::Connected => {
                // In the message that tells of it: this is never put off.
                cx.down(Control::new(Verb::Accepted).carried_by(message, id));
                self.connected(id, &control, sessions, cx);
            }
            Verb::Space => {
                if let Some(entry) = sessions.entry(id) {
                    entry.slot.space += control.value;
                }
                sessions.with(id, cx, |session, io| session.space(io));
            }
            Verb::EndOfData => sessions.with(id, cx, |session, io| session.end_of_data(io)),
            Verb::Closed if sessions.entry(id).is_some() => {
                sessions.entries[id.slot()] = None;
                cx.count(CLOSED, 1);
            }
            Verb::Stopping => sessions.with_all(cx, |session, io| session.stopping(io)),
            Verb::Abort => sessions.with_all(cx, |_, io| io.abort()),
            _ => {}
        }
    }

    fn connected(
        &self,
        id: ConnectionId,
        control: &Control,
        sessions: &mut Sessions,
        cx: &mut Context<'_>,
    ) {
        let service = self.by_port.get(&control.tuple.local_port);
        // Space is reported in quarters of the send buffer: half of it comes free for certain.
        let certain = u32::try_from(control.value / 2).unwrap_or(u32::MAX).max(1);
        let mss = control.mss().min(certain);
        let slot = Slot {
            id,
            tuple: control.tuple,
            space: control.value,
            mss,
            piece: control.piece().min(certain - certain % mss),
            taken: 0,
            received: 0,
            asks: None,
            closing: false,
            listed: false,
            wake_at: Instant::MAX,
        };
        let session = match service {
            Some(service) if service.declines_order() => {
                pieces::unordered(service.open(&control.tuple))
            }
            Some(service) => service.open(&control.tuple),
            None => Box::new(Nobody),
        };
        cx.count(OPENED, 1);
        if service.is_none() {
            cx.count(NO_SERVICE, 1);
        }
        sessions.enter(Entry { slot, session });
        sessions.with(id, cx, |session, io| session.connected(io));
    }
}

impl Module for Services {
    fn name(&self) -> &'static str {
        Services::NAME
    }

    fn stages(&self) -> Stages {
        let stages = Stages::CORE_UP | Stages::SETTLE | Stages::EXPIRE;
        if self.hands_out {
            stages | Stages::AFTER_UP
        } else {
            stages
        }
    }

    fn key(&self) -> Key {
        Key::Connection
    }

    fn counters(&self) -> &'static [&'static str] {
        &[
            "opened",
            "closed",
            "no_service",
            "no_session",
            "no_buffer",
            "poisoned",
        ]
    }

    fn open(&self, _: BucketId) -> Box<dyn State> {
        Box::new(Sessions::default())
    }

    fn core(&self, state: &mut dyn State, _: Direction, run: &mut Run, cx: &mut Context<'_>) {
        let sessions = state.of::<Sessions>();
        cx.pool().withhold_reserve(true);
        for message in run.drain() {
            let id = ConnectionId(message.connection());
            match message.kind() {
                Kind::Data => sessions.with(id, cx, |session, io| session.data(message, io)),
                Kind::HighPriority => sessions.with(id, cx, |session, io| session.job(message, io)),
                Kind::Control => self.told(message, sessions, cx),
            }
        }
        cx.pool().withhold_reserve(false);
    }

    fn after(&self, _: Direction, run: &mut Run, _: &mut Context<'_>) {
        pieces::hand_out(&self.by_port, run);
    }

    fn settle(&self, state: &mut dyn State, cx: &mut Context<'_>) {
        state.of::<Sessions>().tell(cx);
    }

    fn expire(&self, state: &mut dyn State, cx: &mut Context<'_>) {
        cx.pool().withhold_reserve(true);
        state.of::<Sessions>().wake(cx);
        cx.pool().withhold_reserve(false);
    }

    fn poisoned(&self, old: &mut dyn State, fresh: &mut dyn State, cx: &mut Context<'_>) {
        fresh.of::<Sessions>().succeed(old.of(), cx);
    }
}
