//! What is on its way: everything from SND.UNA to SND.NXT, when it left last, and how it has fared.
//!
//! Kept as *pieces*: sequence numbers that stand together, left at the same time and have fared alike, so that a train is one
//! piece, and so is all that was selectively acknowledged without a gap. From them come the scoreboard of RFC 6675 §3, the
//! transmission times of RFC 8985 §5.1, and `pipe`. The number of pieces is bounded: what would need one more is told together
//! with its neighbour, or forgotten, which costs at worst a late or a needless retransmission.

use braidnet_wire::seq::SeqNumber;
use braidnet_wire::tcp::SackBlock;
use braidnet_wire::time::Instant;
use std::collections::VecDeque;

/// DupThresh (RFC 6675 §2).
pub(crate) const DUP_THRESH: u32 = 3;

/// How a piece has fared since it left last.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Fate {
    /// Nothing is known: it counts as being in the network.
    Flying,
    /// It is selectively acknowledged.
    Arrived,
    /// It is thought lost, and has not left again since.
    Lost,
}

/// A piece begins where the one before it ends, the first at SND.UNA.
#[derive(Clone, Copy, Debug)]
struct Piece {
    /// One past its last sequence number.
    end: SeqNumber,
    fate: Fate,
    /// It has left more than once.
    again: bool,
    /// When it left last.
    sent: Instant,
}

/// A piece that left, as far as order in time goes: of two that left together, the one further on is the later
/// (RFC 8985 §6.2, `RACK_sent_after`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Departed {
    pub(crate) at: Instant,
    pub(crate) end: SeqNumber,
}

/// What a look for what is overdue has come to.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Overdue {
    /// For how long to wait until the last of those is that are not yet, in nanoseconds, if there are such.
    pub(crate) wait: Option<u64>,
    /// Of what is lost now and had been sent again already, when the last left.
    pub(crate) sent_again: Option<Instant>,
}

/// What one acknowledgment has newly told of.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Delivery {
    /// Sequence numbers that have arrived, as was not known before.
    pub(crate) octets: u32,
    /// Of these, those that had left once only.
    pub(crate) originals: u32,
    /// Of those that had left once only, the piece that left last.
    pub(crate) newest_original: Option<Departed>,
    /// The same of the others.
    pub(crate) newest_again: Option<Departed>,
    /// The earliest time at which one of those that had left more than once did so last.
    pub(crate) first_again: Option<Instant>,
    /// The lowest end of a piece that had left once only.
    pub(crate) lowest_original: Option<SeqNumber>,
    /// The highest end of all.
    pub(crate) highest: Option<SeqNumber>,
}

impl Delivery {
    fn note(&mut self, piece: &Piece, octets: u32) {
        self.octets += octets;
        let departed = Departed {
            at: piece.sent,
            end: piece.end,
        };
        let newest = match piece.again {
            true => &mut self.newest_again,
            false => &mut self.newest_original,
        };
        if newest.is_none_or(|newest| departed.is_after(newest)) {
            *newest = Some(departed);
        }
        let end = piece.end;
        self.highest = Some(self.highest.map_or(end, |highest| highest.latest(end)));
        if piece.again {
            let first = self
                .first_again
                .map_or(piece.sent, |first| first.min(piece.sent));
            self.first_again = Some(first);
        } else {
            self.originals += octets;
            let lowest = self
                .lowest_original
                .map_or(end, |lowest| lowest.earliest(end));
            self.lowest_original = Some(lowest);
        }
    }
}

impl Departed {
    /// Whether it left after `other`.
    #[inline]
    pub(crate) fn is_after(self, other: Departed) -> bool {
        self.at > other.at || (self.at == other.at && self.end.is_after(other.end))
    }
}

/// Everything between SND.UNA and SND.NXT.
#[derive(Clone, Debug)]
pub(crate) struct Flight {
    pieces: VecDeque<Piece>,
    /// SND.UNA: where the first piece begins.
    front: SeqNumber,
    /// Octets that are selectively acknowledged.
    arrived: u32,
    /// Octets that are thought lost.
    lost: u32,
    /// Octets ever found lost, less those that were not after all, counted round and round.
    ever_lost: u32,
    /// Nothing before it is thought lost.
    lost_from: SeqNumber,
    most_pieces: u32,
}

impl Flight {
    /// Nothing is on its way; memory for `reserve` pieces is taken, for more than `most` never.
    pub(crate) fn new(front: SeqNumber, most: u32, reserve: u32) -> Flight {
        let most_pieces = most.max(8);
        Flight {
            pieces: VecDeque::with_capacity(reserve.min(most_pieces) as usize),
            front,
            arrived: 0,
            lost: 0,
            ever_lost: 0,
            lost_from: front,
            most_pieces,
        }
    }

    /// Pieces that are told apart.
    pub(crate) fn pieces(&self) -> usize {
        self.pieces.len()
    }

    /// Nothing is on its way from `front` on.
    pub(crate) fn restart(&mut self, front: SeqNumber) {
        self.pieces.clear();
        (self.front, self.lost_from) = (front, front);
        (self.arrived, self.lost) = (0, 0);
    }

    /// Everything up to `end` has left now, for the first time.
    #[inline]
    pub(crate) fn depart(&mut self, end: SeqNumber, now: Instant) {
        if let Some(last) = self.pieces.back_mut()
            && last.sent == now
            && last.fate == Fate::Flying
            && !last.again
        {
            last.end = end;
            return;
        }
        if self.pieces.len() >= self.most_pieces as usize {
            return self.depart_roughly(end, now);
        }
        self.pieces.push_back(Piece {
            end,
            fate: Fate::Flying,
            again: false,
            sent: now,
        });
    }

    /// Whether what leaves next for the first time can be told apart, or flies with the last that does.
    pub(crate) fn has_room(&self) -> bool {
        let flies = |last: &Piece| last.fate == Fate::Flying;
        self.pieces.len() < self.most_pieces as usize || self.pieces.back().is_some_and(flies)
    }

    /// The same where there is no room for one more: it counts with the last piece, as if that had left now. If that has arrived, or is lost, it is
    /// forgotten: then it leaves again needlessly, or late.
    #[cold]
    fn depart_roughly(&mut self, end: SeqNumber, now: Instant) {
        let Some(at) = self.pieces.len().checked_sub(1) else {
            return;
        };
        let octets = self.pieces[at].end - self.start_of(at);
        let last = &mut self.pieces[at];
        match last.fate {
            Fate::Flying => {}
            Fate::Arrived => self.arrived -= octets,
            Fate::Lost => {
                self.lost -= octets;
                self.ever_lost = self.ever_lost.wrapping_sub(octets);
            }
        }
        (last.end, last.fate, last.sent) = (end, Fate::Flying, now);
    }

    /// Everything before `una` is acknowledged, nothing of it being lost, arrived before or sent again. When the last of it left.
    #[inline]
    pub(crate) fn slide(&mut self, una: SeqNumber) -> Option<Instant> {
        let mut sent = None;
        while let Some(first) = self.pieces.front() {
            if self.front.is_before(una) {
                sent = Some(first.sent);
            }
            if first.end.is_after(una) {
                break;
            }
            self.front = first.end;
            self.pieces.pop_front();
        }
        self.front = una;
        self.lost_from = una;
        sent
    }

    /// The same whatever has become of it.
    pub(crate) fn acknowledge(&mut self, una: SeqNumber, delivery: &mut Delivery) {
        while let Some(first) = self.pieces.front() {
            if !self.front.is_before(una) {
                break;
            }
            let end = first.end.earliest(una);
            let octets = end - self.front;
            match first.fate {
                Fate::Arrived => self.arrived -= octets,
                Fate::Lost => self.lost -= octets,
                Fate::Flying => {}
            }
            if first.fate != Fate::Arrived {
                delivery.note(&Piece { end, ..*first }, octets);
            }
            let whole = end == first.end;
            self.front = end;
            if whole {
                self.pieces.pop_front();
            }
        }
        self.front = una;
        self.lost_from = self.lost_from.latest(una);
    }

    /// A block that lies between SND.UNA and SND.NXT has arrived.
    pub(crate) fn arrive(&mut self, block: SackBlock, delivery: &mut Delivery) {
        let Some(first) = self.cut_at(block.left) else {
            return;
        };
        let Some(last) = self.cut_at(block.right) else {
            return self.gather(first, first);
        };
        let mut start = self.start_of(first);
        for at in first..last {
            let piece = &mut self.pieces[at];
            let octets = piece.end - start;
            start = piece.end;
            match piece.fate {
                Fate::Arrived => continue,
                Fate::Lost => self.lost -= octets,
                Fate::Flying => {}
            }
            delivery.note(piece, octets);
            self.arrived += octets;
            piece.fate = Fate::Arrived;
        }
        self.gather(first, last);
    }

    /// Octets that have left and are not acknowledged.
    pub(crate) fn octets(&self) -> u32 {
        self.end() - self.front
    }

    /// SND.NXT.
    fn end(&self) -> SeqNumber {
        self.pieces.back().map_or(self.front, |last| last.end)
    }

    /// Octets that are selectively acknowledged.
    pub(crate) fn arrived(&self) -> u32 {
        self.arrived
    }

    /// Octets thought lost that have not left again.
    pub(crate) fn lost(&self) -> u32 {
        self.lost
    }

    /// Of what lies between these two, octets thought lost that have not left again.
    pub(crate) fn lost_within(&self, start: SeqNumber, end: SeqNumber) -> u32 {
        let mut from = self.front;
        let mut octets = 0;
        for piece in &self.pieces {
            if piece.fate == Fate::Lost {
                let (left, right) = (from.latest(start), piece.end.earliest(end));
                octets += if left.is_before(right) {
                    right - left
                } else {
                    0
                };
            }
            from = piece.end;
        }
        octets
    }

    /// Octets ever found lost, counted round and round.
    pub(crate) fn ever_lost(&self) -> u32 {
        self.ever_lost
    }

    /// Octets thought to be in the network: `pipe` of RFC 6675 §4.
    pub(crate) fn flying(&self) -> u32 {
        self.octets() - self.arrived - self.lost
    }

    /// Whether all that has left is thought to be in the network, and has left once.
    pub(crate) fn is_untouched(&self) -> bool {
        self.arrived == 0 && self.lost == 0
    }

    /// Whether the octet at SND.UNA is selectively acknowledged.
    pub(crate) fn front_has_arrived(&self) -> bool {
        (self.pieces.front()).is_some_and(|first| first.fate == Fate::Arrived)
    }

    /// When the last octet left last.
    pub(crate) fn last_sent(&self) -> Option<Instant> {
        self.pieces.back().map(|last| last.sent)
    }

    /// One past the highest octet that is selectively acknowledged.
    pub(crate) fn highest_arrived(&self) -> Option<SeqNumber> {
        let arrived = |piece: &&Piece| piece.fate == Fate::Arrived;
        self.pieces
            .iter()
            .rev()
            .find(arrived)
            .map(|piece| piece.end)
    }

    /// What has not arrived before this is lost by RFC 6675 §4 (`IsLost`): three blocks, or more than two segments' worth, have
    /// arrived above it. `None`: nothing is.
    pub(crate) fn overtaken_before(&self, smss: u32) -> Option<SeqNumber> {
        if self.arrived == 0 {
            return None;
        }
        let (mut octets, mut blocks) = (0, 0);
        for at in (0..self.pieces.len()).rev() {
            if self.pieces[at].fate != Fate::Arrived {
                continue;
            }
            let start = self.start_of(at);
            octets += self.pieces[at].end - start;
            blocks += 1;
            if blocks >= DUP_THRESH || octets > (DUP_THRESH - 1) * smss {
                return Some(start);
            }
        }
        None
    }

    /// What left once only before `edge`, and has not arrived, is lost.
    pub(crate) fn lose_originals_before(&mut self, edge: SeqNumber) {
        let Some(last) = self.cut_at(edge.latest(self.front).earliest(self.end())) else {
            return;
        };
        self.lose(last, |piece| !piece.again);
    }

    /// The first `octets` that have left are lost, unless they have arrived.
    pub(crate) fn lose_front(&mut self, octets: u32) {
        self.lose_before(self.front + octets);
    }

    /// All before `edge` that has not arrived is lost.
    pub(crate) fn lose_before(&mut self, edge: SeqNumber) {
        let edge = edge.latest(self.front).earliest(self.end());
        if let Some(last) = self.cut_at(edge) {
            self.lose(last, |_| true);
        }
    }

    /// All that left `within` nanoseconds ago or earlier, and has not arrived, is lost.
    pub(crate) fn lose_older(&mut self, now: Instant, within: u64) {
        self.lose(self.pieces.len(), |piece| {
            now.nanos().saturating_sub(piece.sent.nanos()) >= within
        });
    }

    /// All that has not arrived is lost.
    pub(crate) fn lose_all(&mut self) {
        self.lose(self.pieces.len(), |_| true);
    }

    /// What left before `newest` is lost if it left `within` nanoseconds ago or earlier (RFC 8985 §6.2, step 5).
    pub(crate) fn lose_overdue(&mut self, now: Instant, newest: Departed, within: u64) -> Overdue {
        let mut overdue = Overdue::default();
        let mut any = false;
        let mut looked_at = 0;
        for piece in &self.pieces {
            let departed = Departed {
                at: piece.sent,
                end: piece.end,
            };
            if piece.fate == Fate::Flying && !newest.is_after(departed) && !piece.again {
                // All that stands behind it left even later.
                break;
            }
            looked_at += 1;
            if piece.fate != Fate::Flying || !newest.is_after(departed) {
                continue;
            }
            let age = now.nanos().saturating_sub(piece.sent.nanos());
            if age < within {
                overdue.wait = overdue.wait.max(Some(within - age));
                continue;
            }
            any = true;
            if piece.again {
                overdue.sent_again = overdue.sent_again.max(Some(piece.sent));
            }
        }
        if any {
            self.lose(looked_at, |piece| {
                let departed = Departed {
                    at: piece.sent,
                    end: piece.end,
                };
                newest.is_after(departed)
                    && now.nanos().saturating_sub(piece.sent.nanos()) >= within
            });
        }
        overdue
    }

    /// Marks as lost what flies in the first `count` pieces and `is_lost`.
    fn lose(&mut self, count: usize, is_lost: impl Fn(&Piece) -> bool) {
        let mut start = self.front;
        let mut first = None;
        for at in 0..count {
            let piece = &mut self.pieces[at];
            if piece.fate == Fate::Flying && is_lost(piece) {
                piece.fate = Fate::Lost;
                self.lost += piece.end - start;
                self.ever_lost = self.ever_lost.wrapping_add(piece.end - start);
                self.lost_from = self.lost_from.earliest(start);
                first.get_or_insert(at);
            }
            start = self.pieces[at].end;
        }
        if let Some(first) = first {
            self.gather(first, count);
        }
    }

    /// Nothing is lost after all.
    pub(crate) fn find_all(&mut self) {
        for piece in &mut self.pieces {
            if piece.fate == Fate::Lost {
                piece.fate = Fate::Flying;
            }
        }
        self.ever_lost = self.ever_lost.wrapping_sub(self.lost);
        self.lost = 0;
        self.lost_from = self.end();
        self.gather(0, self.pieces.len());
    }

    /// Nothing has arrived after all: the peer has taken it back (RFC 2018 §8). It is lost.
    pub(crate) fn take_back(&mut self) {
        for piece in &mut self.pieces {
            if piece.fate == Fate::Arrived {
                piece.fate = Fate::Flying;
            }
        }
        self.arrived = 0;
        self.lose_all();
    }

    /// The first piece that is lost: where it begins and ends.
    pub(crate) fn first_lost(&self) -> Option<(SeqNumber, SeqNumber)> {
        if self.lost == 0 {
            return None;
        }
        let from = self.index_of(self.lost_from);
        let lost = |at: &usize| self.pieces[*at].fate == Fate::Lost;
        let at = (from..self.pieces.len()).find(lost)?;
        Some((self.start_of(at), self.pieces[at].end))
    }

    /// The first piece that flies, has left once, and above which something has arrived (RFC 6675 §4, NextSeg rule 3).
    pub(crate) fn first_doubtful(&self) -> Option<(SeqNumber, SeqNumber)> {
        let highest = self.highest_arrived()?;
        let doubtful = |at: &usize| {
            let piece = &self.pieces[*at];
            piece.fate == Fate::Flying && !piece.again
        };
        let at = (0..self.pieces.len()).find(doubtful)?;
        let start = self.start_of(at);
        let end = self.pieces[at].end;
        start.is_before(highest).then_some((start, end))
    }

    /// What lies between `start` and `end` leaves again now.
    pub(crate) fn depart_again(&mut self, start: SeqNumber, end: SeqNumber, now: Instant) {
        let (Some(first), Some(last)) = (self.cut_at(start), self.cut_at(end)) else {
            // There is no room to tell it apart: it counts with all that it stands among.
            return self.depart_again_roughly(start, end, now);
        };
        let mut from = start;
        for at in first..last {
            let piece = &mut self.pieces[at];
            if piece.fate != Fate::Arrived {
                if piece.fate == Fate::Lost {
                    self.lost -= piece.end - from;
                }
                (piece.fate, piece.again, piece.sent) = (Fate::Flying, true, now);
            }
            from = self.pieces[at].end;
        }
        if self.lost_from.is_at_or_after(start) && self.lost_from.is_before(end) {
            self.lost_from = end;
        }
        self.gather(first, last);
    }

    fn depart_again_roughly(&mut self, start: SeqNumber, end: SeqNumber, now: Instant) {
        let first = self.index_of(start);
        let mut from = self.start_of(first);
        for at in first..self.pieces.len() {
            let piece = &mut self.pieces[at];
            if !from.is_before(end) {
                break;
            }
            if piece.fate == Fate::Lost {
                self.lost -= piece.end - from;
                piece.fate = Fate::Flying;
            }
            (piece.again, piece.sent) = (true, now);
            from = piece.end;
        }
    }

    /// The piece in which `seq` lies; one past the last if it is SND.NXT.
    fn index_of(&self, seq: SeqNumber) -> usize {
        self.pieces
            .partition_point(|piece| piece.end.is_at_or_before(seq))
    }

    fn start_of(&self, at: usize) -> SeqNumber {
        match at.checked_sub(1) {
            Some(before) => self.pieces[before].end,
            None => self.front,
        }
    }

    /// The piece that begins at `seq`, which is made by cutting one if need be; `None` where there is no room for another.
    fn cut_at(&mut self, seq: SeqNumber) -> Option<usize> {
        let at = self.index_of(seq);
        let start = self.start_of(at);
        if start == seq || at == self.pieces.len() {
            return Some(at);
        }
        if self.pieces.len() >= self.most_pieces as usize {
            return None;
        }
        let head = Piece {
            end: seq,
            ..self.pieces[at]
        };
        self.pieces.insert(at, head);
        Some(at + 1)
    }

    /// Makes one of neighbours that are alike, from the one before `first` to the one at `last`.
    fn gather(&mut self, first: usize, last: usize) {
        let from = first.saturating_sub(1);
        let to = (last + 1).min(self.pieces.len());
        let mut kept = from;
        for at in from + 1..to {
            let piece = self.pieces[at];
            let before = &mut self.pieces[kept];
            if before.is_like(&piece) {
                before.end = piece.end;
            } else {
                kept += 1;
                self.pieces[kept] = piece;
            }
        }
        if to > kept + 1 {
            self.pieces.drain(kept + 1..to);
        }
    }
}

impl Piece {
    /// Whether the piece behind it need not be told from it.
    fn is_like(&self, next: &Piece) -> bool {
        let alike = self.again == next.again && self.sent == next.sent;
        self.fate == next.fate && (self.fate == Fate::Arrived || alike)
    }
}

#[cfg(test)]
mod tests;
