//! How long segments may be, found out by trying (RFC 4821), where nothing is said of it or nothing that is said arrives (RFC 2923 §2.1).
//!
//! A *probe* is a segment of new data that is longer than the others. What it carries is sent again in shorter ones if it is lost, and
//! that is no congestion (RFC 4821 §7.5); if it is acknowledged, all are as long from then on. Nothing is believed but
//! acknowledgments.
//!
//! While a search goes on, the sender counts as disordered: the fast paths know nothing of it.

use crate::Events;
use crate::config::{Config, PathProbing};
use crate::recovery::Phase;
use crate::sender::Sender;
use crate::timers::nanos;
use braidnet_wire::seq::SeqNumber;
use braidnet_wire::time::{Duration, Instant};

/// A search is over when there is no more than this between what is known to pass and what may (as systems in use have it).
const PRECISION: u32 = 8;
/// Probes of one length that are lost before it is too long: the first may have met with something else.
const TRIES: u8 = 2;
/// Full segments behind a probe that are to be there, so that three that overtake it tell of its loss (RFC 4821 §7.4).
const BEHIND: u32 = 4;
/// Timeouts in a row of long segments after which their length is what is wrong (RFC 4821 §7.7).
const SILENT_TIMEOUTS: u8 = 3;
/// A segment that is not full is long if it has more than so many bytes: one of this size with its headers fits the packets that every host
/// must take (RFC 1122 §3.3.2), and a path that carries none of those is not reckoned with.
const SHORT: u32 = 512;
/// Round trips between a probe that was lost and the next: fewer losses than congestion control lives with anyway (RFC 4821 §7.6.2).
const PAUSE: u32 = 8;
/// The least payload of a full segment, whatever is said or found of the path.
pub(crate) const LEAST_SMSS: u32 = 76;

/// What a sender knows of its path.
#[derive(Debug)]
pub(crate) struct Path {
    probing: PathProbing,
    /// The segment size to begin with, in bytes of payload.
    base: u32,
    /// The payload of a full segment that both sides, and the device, can take.
    most: u32,
    passed: Passed,
    /// A report that segments are too long which is not believed yet (RFC 5927 §7.2).
    pending: Option<Pending>,
    /// The search that goes on.
    search: Option<Box<Search>>,
    /// What was found since this was last asked.
    found: Events,
}

/// Whether segments as long as full ones are now have ever arrived.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Passed {
    /// None has left.
    Unsent,
    /// One has left that ends here.
    Sent(SeqNumber),
    /// One has been acknowledged.
    Yes,
}

/// A report about the segment that begins here: full segments should be so long.
#[derive(Clone, Copy, Debug)]
struct Pending {
    seq: SeqNumber,
    smss: u32,
}

/// A search: of what lies above the present length, up to `high` (`search_low` and `search_high` of RFC 4821 §7.1).
#[derive(Debug)]
struct Search {
    high: u32,
    /// The longest was not tried yet: most paths carry it, and then the search is over at once (RFC 4821 §7.3).
    first: bool,
    /// The length of the probe that was lost last, and how many of it were.
    lost: (u32, u8),
    /// The probe that is on its way: where it begins and ends.
    probe: Option<(SeqNumber, SeqNumber)>,
    /// No probe leaves before.
    not_before: Instant,
}

/// What a search wants to send next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Turn {
    /// A segment of so many bytes.
    Probe(u32),
    /// Nothing, until there is room for a probe in the congestion window.
    Wait,
}

/// A recovery in which nothing is lost but a probe: the window is not cut.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Spared {
    /// Where the probe begins and ends.
    range: (SeqNumber, SeqNumber),
    /// All of it has been sent again: what is lost of it from now on is lost like anything else.
    repeated: bool,
    /// The window before: `cwnd` and `ssthresh`.
    pub(crate) window: (u32, u32),
}

impl Path {
    pub(crate) fn new(config: &Config) -> Path {
        Path {
            probing: config.probing(),
            base: u32::from(config.path_base_segment),
            most: 0,
            passed: Passed::Unsent,
            pending: None,
            search: None,
            found: Events::empty(),
        }
    }

    /// A full segment has left, up to `end`.
    #[inline]
    pub(crate) fn on_full_sent(&mut self, end: SeqNumber) {
        if self.passed == Passed::Unsent {
            self.passed = Passed::Sent(end);
        }
    }

    /// SND.UNA is `una` by now. To be told once in a round trip, so that sequence numbers do not come round.
    #[inline]
    pub(crate) fn see(&mut self, una: SeqNumber) {
        if matches!(self.passed, Passed::Sent(end) if una.is_at_or_after(end)) {
            self.passed = Passed::Yes;
        }
        self.pending.take_if(|pending| una.is_after(pending.seq));
    }

    /// Whether a search goes on.
    #[inline]
    pub(crate) fn is_searching(&self) -> bool {
        self.search.is_some()
    }

    fn probe(&self) -> Option<(SeqNumber, SeqNumber)> {
        self.search.as_ref().and_then(|search| search.probe)
    }

    /// What was found since this was last asked: [`Events::PATH_SHORTENED`] and its neighbours.
    #[inline]
    pub(crate) fn take_found(&mut self) -> Events {
        core::mem::replace(&mut self.found, Events::empty())
    }
}

impl Search {
    fn over(high: u32) -> Search {
        Search {
            high,
            first: true,
            lost: (0, 0),
            probe: None,
            not_before: Instant::ZERO,
        }
    }

    /// The length that is tried next, where full segments have `smss` bytes.
    fn next(&self, smss: u32) -> u32 {
        match self.first {
            true => self.high,
            false => smss + (self.high - smss).div_ceil(2),
        }
    }

    /// A probe of `bytes` bytes was lost.
    fn fail(&mut self, bytes: u32) {
        if bytes > self.high {
            // The network has said so meanwhile.
            return;
        }
        let before = match self.lost {
            (length, times) if length == bytes => times,
            _ => 0,
        };
        self.lost = (bytes, before + 1);
        if before + 1 >= TRIES {
            self.first = false;
            self.high = bytes - 1;
        }
    }
}

impl Sender {
    /// The handshake is over. Both sides can take `most` bytes in a segment, options apart.
    pub(crate) fn begin_path(&mut self, most: u32, options: u32) {
        self.path.most = most;
        self.path.base = self.path.base.saturating_sub(options).max(LEAST_SMSS);
        if self.path.probing == PathProbing::Always && self.path.base < self.congestion.smss() {
            self.congestion.restart_with(self.path.base);
            self.search_path();
        }
    }

    /// How the path is probed from now on.
    pub(crate) fn set_path_probing(&mut self, probing: PathProbing) {
        self.path.probing = probing;
        if probing == PathProbing::Off {
            self.path.search = None;
            self.refresh();
        }
    }

    /// Looks for longer segments than those that are sent, if the two sides can take longer ones.
    pub(crate) fn search_path(&mut self) {
        if self.path.probing == PathProbing::Off || !self.may_be_longer(self.path.most) {
            return;
        }
        self.path.search = Some(Box::new(Search::over(self.path.most)));
        self.refresh();
    }

    /// Whether segments are so much shorter than `most` that a search is worth it.
    fn may_be_longer(&self, most: u32) -> bool {
        most >= self.congestion.smss().saturating_add(PRECISION)
    }

    /// When a path that turned out to be narrow is to be tried for more, if ever.
    pub(crate) fn path_is_narrow(&self) -> bool {
        self.path.probing != PathProbing::Off
            && self.path.search.is_none()
            && self.may_be_longer(self.path.most)
    }

    /// The network says of the segment at `seq` that segments are to have `smss` bytes. Whether that makes a difference.
    pub(crate) fn on_too_long(&mut self, now: Instant, seq: SeqNumber, smss: u32) -> Believed {
        if smss >= self.congestion.smss() {
            let Some(search) = self.path.search.as_mut() else {
                return Believed::Known;
            };
            if smss >= search.high {
                return Believed::Known;
            }
            // It bounds the search, and is most likely what the search is for (RFC 4821 §7.3).
            search.high = smss;
            search.first = true;
            self.end_search_if_over();
            return Believed::Yes;
        }
        // RFC 5927 §7.2: full segments have arrived, so that this one may, too, whatever is said. A timeout decides.
        self.path.see(self.snd_una);
        if self.path.passed == Passed::Yes {
            self.path.pending = Some(Pending { seq, smss });
            return Believed::Later;
        }
        self.shorten(now, smss);
        Believed::Yes
    }

    /// Full segments have so few bytes from now on. All that is in flight counts as lost.
    fn shorten(&mut self, now: Instant, smss: u32) {
        self.congestion.shorten(smss);
        self.forget_path(Some(smss));
        if self.flight_size() > 0 && self.snd_una != self.iss {
            self.resend_all(now);
        }
    }

    /// What was known went for other segments. None of more than `high` bytes pass, where somebody says so.
    fn forget_path(&mut self, high: Option<u32>) {
        self.path.passed = Passed::Unsent;
        self.path.pending = None;
        if let Some(search) = &mut self.path.search {
            search.probe = None;
            search.high = search.high.min(high.unwrap_or(u32::MAX));
        }
        self.end_search_if_over();
    }

    fn end_search_if_over(&mut self) {
        let smss = self.congestion.smss();
        self.path
            .search
            .take_if(|search| search.high < smss.saturating_add(PRECISION));
        self.refresh();
    }

    /// What a search wants to send next, if anything (RFC 4821 §7.4): a probe leaves while nothing is missing, with enough behind it
    /// to tell of its loss, and never beyond what congestion control allows.
    pub(crate) fn path_turn(&mut self, now: Instant) -> Option<Turn> {
        let search = self.path.search.as_ref()?;
        let smss = self.congestion.smss();
        // Where the window is small, what is tried is not so much longer.
        let room = self.congestion.cwnd().saturating_sub(BEHIND * smss);
        let bytes = search.next(smss).min(room);
        let all = bytes.saturating_add(BEHIND * smss);
        let waits = search.probe.is_some() || now < search.not_before;
        let pipe = self.pipe();
        let unsent = self.unsent().saturating_sub(u32::from(self.fin_queued));
        if waits
            || self.recovery.phase != Phase::Open
            || !self.flight.is_untouched()
            || self.snd_max != self.snd_nxt
            || self.snd_up.is_some()
            || unsent < all
            || self.snd_wnd.saturating_sub(self.flight_size()) < all
            || bytes <= smss
        {
            return None;
        }
        if bytes > self.congestion.cwnd().saturating_sub(pipe) {
            self.cwnd_limited = true;
            return Some(Turn::Wait);
        }
        if self.paced && !self.may_leave(now, smss) {
            return Some(Turn::Wait);
        }
        Some(Turn::Probe(bytes))
    }

    /// A segment of `octets` from `start` on has left for a probe. What is no longer than others is none.
    pub(crate) fn on_path_probe_sent(&mut self, start: SeqNumber, octets: u32) {
        let smss = self.congestion.smss();
        if let Some(search) = &mut self.path.search
            && octets > smss
        {
            search.probe = Some((start, start + octets));
        }
    }

    /// SND.UNA has moved, and the probe that is on its way may have arrived.
    pub(crate) fn end_path_probe(&mut self) {
        let Some((start, end)) = self.path.probe() else {
            return;
        };
        if self.snd_una.is_before(end) {
            return;
        }
        self.congestion.resize(end - start);
        self.path.passed = Passed::Yes;
        self.path.pending = None;
        self.path.found |= Events::PATH_WIDENED;
        if let Some(search) = &mut self.path.search {
            search.probe = None;
            search.first = false;
        }
        self.end_search_if_over();
    }

    /// Something was found lost. The probe's range, if it is all that is lost; else it says nothing of its length (RFC 4821 §7.6.4).
    pub(crate) fn lose_path_probe(&mut self, now: Instant) -> Option<(SeqNumber, SeqNumber)> {
        let (start, end) = self.path.probe()?;
        let lost = self.flight.lost_within(start, end);
        if lost == 0 {
            return None;
        }
        let alone = lost == self.flight.lost() && self.recovery.phase == Phase::Open;
        self.miss_path_probe(now, alone);
        alone.then_some((start, end))
    }

    /// The probe has not arrived; `of_its_length` if that is why.
    fn miss_path_probe(&mut self, now: Instant, of_its_length: bool) {
        let pause = nanos(Duration::from_nanos(self.rtt.srtt()).saturating_mul(PAUSE));
        if let Some(search) = &mut self.path.search
            && let Some((start, end)) = search.probe.take()
        {
            search.not_before = Instant::from_nanos(now.nanos().saturating_add(pause));
            if of_its_length {
                search.fail(end - start);
                self.path.found |= Events::PATH_PROBE_LOST;
            }
        }
        self.end_search_if_over();
    }

    /// The timer has expired over what is in flight: the probe that is the first of it is too long, perhaps (RFC 4821 §7.6.3), and so
    /// may be full segments.
    pub(crate) fn on_path_timeout(&mut self, now: Instant) {
        if let Some((start, _)) = self.path.probe() {
            self.miss_path_probe(now, start == self.snd_una);
        }
        self.path.see(self.snd_una);
        if let Some(Pending { smss, .. }) = self.path.pending.take()
            && smss < self.congestion.smss()
        {
            self.path.found |= Events::PATH_SHORTENED;
            return self.shorten_at_timeout(smss, Some(smss));
        }
        let smss = self.congestion.smss();
        // What leaves again, where there is no full segment: the path may be narrower than that, too.
        let longest = smss.min(self.flight_size());
        if self.path.probing == PathProbing::Off
            || self.unanswered < SILENT_TIMEOUTS
            || (longest < smss && longest <= SHORT)
            || longest <= LEAST_SMSS
        {
            return;
        }
        let shorter = match longest > self.path.base {
            true => self.path.base,
            false => (longest / 2).max(LEAST_SMSS),
        };
        self.path.found |= Events::PATH_BLACK_HOLE;
        self.shorten_at_timeout(shorter, None);
        // Or nobody was there for a while: then the first probe tells.
        self.search_path();
    }

    /// What is sent again at the timeout is shorter; the window is the timeout's to cut.
    fn shorten_at_timeout(&mut self, smss: u32, high: Option<u32>) {
        self.congestion.resize(smss);
        self.forget_path(high);
    }
}

/// What becomes of a report that segments are too long.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Believed {
    /// It is news, and heeded.
    Yes,
    /// It is no news.
    Known,
    /// A timeout decides.
    Later,
}

impl Spared {
    pub(crate) fn new(range: (SeqNumber, SeqNumber), window: (u32, u32)) -> Spared {
        Spared {
            range,
            repeated: false,
            window,
        }
    }
}

impl Sender {
    /// In such a recovery without SACK: what of the probe is lost next, a full segment at most.
    pub(crate) fn rest_of_probe(&self) -> Option<u32> {
        let (_, end) = self.recovery.spared.as_ref()?.range;
        let rest = (end - self.snd_una).min(self.congestion.smss());
        self.snd_una.is_before(end).then_some(rest)
    }

    /// In a recovery that spares the window: whether something else is lost, so that it must be cut after all.
    pub(crate) fn is_spared_in_vain(&mut self) -> bool {
        let lost = self.flight.lost();
        let Some(spared) = &mut self.recovery.spared else {
            return false;
        };
        if lost == 0 {
            // Without SACK it is found out piece by piece.
            spared.repeated = self.recovery.by_sack;
            return false;
        }
        let (start, end) = spared.range;
        spared.repeated || self.flight.lost_within(start, end) < lost
    }
}

#[cfg(test)]
mod tests;
