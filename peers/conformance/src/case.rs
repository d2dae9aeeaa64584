//! What a case is, and the table of all.

use crate::peer::{Outcome, Peer};
use crate::side::Side;

/// How much an RFC asks for it (RFC 2119).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    Must,
    Should,
    May,
}

impl Level {
    pub fn name(self) -> &'static str {
        match self {
            Level::Must => "MUST",
            Level::Should => "SHOULD",
            Level::May => "MAY",
        }
    }
}

/// Where the stack under test stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// On one network, as a host.
    Network,
    /// Between two, as a router.
    Between,
}

/// One exchange of packets, and what has to come of it.
pub struct Case {
    pub class: &'static str,
    pub name: String,
    /// The RFC and its section.
    pub source: &'static str,
    pub level: Level,
    /// Who is known to do otherwise, and why. Should that side pass, this is out of date, and the case fails.
    pub departures: Vec<(Side, &'static str)>,
    /// It waits for timers: it is begun before others.
    pub is_slow: bool,
    pub place: Place,
    pub body: Body,
}

type Body = Box<dyn Fn(&mut Peer) -> Outcome + Send + Sync>;

impl Case {
    /// Says that a side does otherwise on purpose, and why.
    pub fn departs(&mut self, side: Side, why: &'static str) -> &mut Case {
        self.departures.push((side, why));
        self
    }

    /// Says that it waits for timers.
    pub fn slow(&mut self) -> &mut Case {
        self.is_slow = true;
        self
    }

    /// Why a side is known to do otherwise.
    pub fn departure(&self, of: Side) -> Option<&'static str> {
        let mut known = self.departures.iter();
        known.find(|(side, _)| *side == of).map(|(_, why)| *why)
    }
}

/// All cases, in the order in which they are listed.
pub struct Table {
    pub cases: Vec<Case>,
    class: &'static str,
    place: Place,
}

impl Default for Table {
    fn default() -> Table {
        Table {
            cases: Vec::new(),
            class: "",
            place: Place::Network,
        }
    }
}

impl Table {
    /// What is added from here on is of this class.
    pub fn class(&mut self, class: &'static str) {
        self.class = class;
        self.place = Place::Network;
    }

    /// What is added from here on is of this class, and needs a stack that forwards.
    pub fn class_between(&mut self, class: &'static str) {
        self.class = class;
        self.place = Place::Between;
    }

    pub fn must<F>(&mut self, source: &'static str, name: impl Into<String>, body: F) -> &mut Case
    where
        F: Fn(&mut Peer) -> Outcome + Send + Sync + 'static,
    {
        self.add(Level::Must, source, name.into(), Box::new(body))
    }

    pub fn should<F>(&mut self, source: &'static str, name: impl Into<String>, body: F) -> &mut Case
    where
        F: Fn(&mut Peer) -> Outcome + Send + Sync + 'static,
    {
        self.add(Level::Should, source, name.into(), Box::new(body))
    }

    fn add(&mut self, level: Level, source: &'static str, name: String, body: Body) -> &mut Case {
        self.cases.push(Case {
            class: self.class,
            name,
            source,
            level,
            departures: Vec::new(),
            is_slow: false,
            place: self.place,
            body,
        });
        self.cases.last_mut().expect("one was just pushed")
    }
}
