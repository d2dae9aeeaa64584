//! TCP Fast Open (RFC 7413) as far as it is no connection's own: who may open early, and what is known of servers.
//!
//! A server keeps nothing of a client but the cookie's key; each listener counts the connections that have opened early and whose handshake
//! is not over (§4.2), and those among them that were reset for a while longer (§5.1). A client keeps the cookies of servers, and which
//! of them did not take data (§4.1.3).

mod early;
mod servers;

pub(super) use early::{Early, EarlyPlace};
pub(super) use servers::Servers;

use super::connection::{Connection, Segment};
use super::core::counter_of;
use super::listen::Place;
use super::table::Table;
use super::{
    FAST_OPEN_ACCEPTED, FAST_OPEN_ASKED, FAST_OPEN_COOKIES, FAST_OPEN_COOKIES_WRONG,
    FAST_OPEN_FORGOTTEN, FAST_OPEN_LIMITED, FAST_OPEN_PAUSED, FAST_OPEN_REFUSED, FAST_OPEN_RESET,
    FAST_OPEN_TAKEN, FAST_OPEN_UNANSWERED, OPENED, Tcp,
};
use crate::limits::LimitError;
use crate::notes::Arrival;
use braidnet_message::{Message, Scarcity};
use braidnet_stream::{Context, Control, Verb};
use braidnet_tcp::{Config, CookieKeys, Events, FastOpened, Freshness, SharedKeys, Sink, SynFate};
use braidnet_wire::tcp::FastOpenCookie;
use braidnet_wire::time::Duration;

/// What a stack remembers for Fast Open, and for how long.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FastOpening {
    /// Servers whose cookies are kept, and as many of which is kept that they took no data: 1,024 by default, 0 to 65,536. Of one more, the one
    /// that was last asked for longest ago is forgotten.
    pub servers: usize,
    /// How long no data go with SYNs to a server that did not take them: an hour by default.
    pub pause: Duration,
    /// How long cookies are given under one key, and are good for once more after that: an hour by default. Where it is changed while the
    /// stack runs, cookies that are out may be good no more, and who brings one gets another.
    pub key_period: Duration,
    /// The keys that this server shares with others behind its address, in place of one that is drawn at random and changes by itself: none by
    /// default. Where they are changed while the stack runs, the key before is to be given as [the former](SharedKeys::former).
    pub shared_keys: Option<SharedKeys>,
    /// How long a connection counts as opening that opened early and was reset before its handshake was over: a minute by default, as on Linux.
    pub reset_counts: Duration,
}

impl Default for FastOpening {
    fn default() -> FastOpening {
        FastOpening {
            servers: 1024,
            pause: Duration::from_secs(3600),
            key_period: Duration::from_secs(3600),
            shared_keys: None,
            reset_counts: Duration::from_secs(60),
        }
    }
}

impl FastOpening {
    /// Whether each is in its range.
    ///
    /// # Errors
    /// If one is not.
    pub fn check(&self) -> Result<(), LimitError> {
        LimitError::unless_in(0..=65_536, "fast_opening.servers", self.servers)
    }
}

/// What becomes of a SYN as far as Fast Open is concerned.
pub(super) enum Judged {
    /// It opens a connection as any does.
    Plain,
    /// The same, and its SYN-ACK brings this cookie.
    Give(FastOpenCookie),
    /// It opens a connection early.
    Open(Welcome),
}

/// What a connection needs that opens early.
pub(super) struct Welcome {
    early: EarlyPlace,
    place: Place,
    /// What its application is told in, where the SYN brings data.
    carrier: Option<Message>,
    /// A cookie in place of one that is not good for long any more.
    fresh: Option<FastOpenCookie>,
}

impl Tcp {
    fn cookie_keys(&self) -> CookieKeys {
        let limits = self.limits.now().fast_opening;
        CookieKeys {
            secret: self.config.isn_secret,
            period: limits.key_period,
            shared: limits.shared_keys,
        }
    }

    /// A listener's SYN, for which there is a place: RFC 7413 §4.2.2, "Receiving SYN and responding with SYN-ACK".
    pub(super) fn judge_fast_open(
        &self,
        place: &Place,
        engine: &Config,
        syn: (&Arrival, usize),
        cx: &mut Context<'_>,
    ) -> Judged {
        let (Arrival { header, tuple, .. }, text_len) = syn;
        let brings_data = text_len > 0;
        let needs_none = engine.fast_open_without_cookie && brings_data;
        let cookie = header.fast_open();
        if !engine.fast_open.listens() || (cookie.is_none() && !needs_none) {
            return Judged::Plain;
        }
        let (keys, now) = (self.cookie_keys(), cx.now());
        // Who has none that is good for long gets another, if it knows of them.
        let mut fresh = None;
        if let Some(cookie) = cookie {
            let freshness = keys.check(&cookie, tuple, now);
            if freshness != Some(Freshness::Fresh) {
                fresh = Some(keys.cookie(tuple, now));
            }
            if freshness.is_none() {
                cx.count(FAST_OPEN_COOKIES_WRONG, u64::from(!cookie.is_request()));
            }
            if let (None, false, Some(fresh)) = (freshness, needs_none, fresh) {
                return Judged::Give(fresh);
            }
        }
        match self.welcome(place, engine.fast_open_pending, brings_data, cx) {
            Some(welcome) => Judged::Open(Welcome { fresh, ..welcome }),
            None => {
                cx.count(FAST_OPEN_LIMITED, 1);
                Judged::Plain
            }
        }
    }

    /// `None` where anything is at its limit.
    fn welcome(
        &self,
        place: &Place,
        most: u32,
        brings_data: bool,
        cx: &mut Context<'_>,
    ) -> Option<Welcome> {
        if cx.pool().scarcity() != Scarcity::Ample {
            return None;
        }
        let early = EarlyPlace::take(place.listener(), most, cx.now())?;
        let place = place.established().ok()?;
        let carrier = match brings_data {
            true => Some(cx.pool().allocate(0, 0)?),
            false => None,
        };
        Some(Welcome {
            early,
            place,
            carrier,
            fresh: None,
        })
    }

    /// Tells the application of a connection whose handshake is not over, and hands it what the SYN has brought.
    pub(super) fn open_early(
        &self,
        slot: usize,
        syn: Message,
        welcome: Welcome,
        table: &mut Table,
        cx: &mut Context<'_>,
    ) {
        let Some(connection) = table.connection(slot) else {
            return;
        };
        cx.count(FAST_OPEN_ACCEPTED, 1);
        if let Some(fresh) = welcome.fresh {
            cx.count(FAST_OPEN_COOKIES, 1);
            connection.tcb.give_cookie(fresh);
        }
        let (carrier, text) = match welcome.carrier {
            Some(carrier) => (carrier, Some(Segment::new(syn))),
            None => (syn, None),
        };
        connection.early = Some(welcome.early);
        let mut early = Vec::new();
        let cut = connection.tcb.open_early(cx.now(), text, &mut early);
        if let Some(reason) = cut {
            cx.count(counter_of(reason), 1);
        }
        cx.up(connection.connected(carrier, Some(welcome.place), self.offload));
        let (_, mut sink) = connection.deliver(cx);
        for segment in early {
            sink.deliver(segment);
        }
    }

    /// A segment of a connection that has opened early, while its handshake is not over.
    #[cold]
    pub(super) fn segment_while_early(
        &self,
        slot: usize,
        segment: Segment,
        table: &mut Table,
        cx: &mut Context<'_>,
    ) {
        let Some(connection) = table.connection(slot) else {
            return;
        };
        let (header, trace) = (segment.header(), segment.trace());
        let (tcb, mut sink) = connection.deliver(cx);
        let outcome = tcb.on_segment(sink.cx.now(), &header, Some(segment), &mut sink);
        if let Some(reason) = outcome.drop {
            cx.count_dropped(trace, counter_of(reason), 1);
        }
        if outcome.events.contains(Events::CONNECTED) {
            cx.count(OPENED, 1);
            connection.early = None;
        } else if outcome.events.contains(Events::RESET)
            && let Some(early) = connection.early.take()
        {
            cx.count(FAST_OPEN_RESET, 1);
            early.count_until(cx.now() + self.limits.now().fast_opening.reset_counts);
        }
        self.events(slot, outcome.events - Events::CONNECTED, table, cx);
    }

    /// A connection is asked for with data: they travel with its SYN if the server is known to take them, and if not, the SYN asks for
    /// a cookie. What the head is told.
    pub(super) fn ask_fast_open(
        &self,
        slot: usize,
        table: &mut Table,
        cx: &mut Context<'_>,
    ) -> Control {
        let opening = Control::new(Verb::Opening);
        let Some(connection) = table.connection(slot) else {
            return opening;
        };
        let (tuple, tcb) = (connection.tuple, &mut connection.tcb);
        let mut mss = tcb.mss();
        let mut goes_with_syn = 0;
        if self.config.engine.fast_open.connects() {
            if self.servers.is_refusing(&tuple, cx.now()) {
                cx.count(FAST_OPEN_PAUSED, 1);
            } else {
                let known = self.servers.find(&tuple, cx.now());
                if let Some(known) = known {
                    mss = mss.min(known.mss.into());
                    goes_with_syn = Control::GOES_WITH_SYN;
                }
                tcb.ask_fast_open(known);
            }
        }
        opening
            .value(u64::from(tcb.send_space()))
            .detail(mss | goes_with_syn)
    }

    /// What an attempt to open fast was good for, if that is known now.
    pub(super) fn heed_fast_opened(&self, connection: &mut Connection, cx: &mut Context<'_>) {
        let Some(FastOpened { learned, fate }) = connection.tcb.take_fast_opened() else {
            return;
        };
        let (tuple, now) = (&connection.tuple, cx.now());
        cx.count(
            match fate {
                SynFate::Asked => FAST_OPEN_ASKED,
                SynFate::Taken => FAST_OPEN_TAKEN,
                SynFate::Refused => FAST_OPEN_REFUSED,
                SynFate::Unanswered => FAST_OPEN_UNANSWERED,
            },
            1,
        );
        let limits = self.limits.now().fast_opening;
        let forgotten = match learned {
            Some(server) => self.servers.learn(&limits, tuple, server, now),
            // RFC 7413 §4.1.3.1.
            None => self.servers.note_refusal(&limits, tuple, now),
        };
        cx.count(FAST_OPEN_FORGOTTEN, forgotten);
    }

    /// A connection is over that nobody has closed. If it had opened fast and nothing but the SYN-ACK ever came, what is on the path may let
    /// SYNs with data pass, and nothing after them (RFC 7413 §7.1). A RST may as well be what the peer thinks of all that it has been sent,
    /// unless there was more.
    pub(super) fn heed_failure(&self, connection: &mut Connection, why: u32, cx: &mut Context<'_>) {
        self.heed_fast_opened(connection, cx);
        let status = connection.tcb.status();
        let is_failure = match why {
            Control::TIMED_OUT => true,
            Control::RESET => status.snd_una != status.snd_nxt,
            _ => false,
        };
        if is_failure && connection.tcb.is_silent_since_opening() {
            cx.count(FAST_OPEN_UNANSWERED, 1);
            let limits = self.limits.now().fast_opening;
            let forgotten = (self.servers).note_refusal(&limits, &connection.tuple, cx.now());
            cx.count(FAST_OPEN_FORGOTTEN, forgotten);
        }
    }
}
