//! What is said of congestion marks (RFC 3168 §6.1, RFC 9768): nothing where it was not agreed on, data may be marked that are new and nothing else,
//! and who gets a mark tells of it, and of none that it has not got.
//!
//! What both sides have agreed on is read from the SYNs that they have seen of each other. Where these said different things (one came again and asked no
//! more, say), only what holds either way is demanded.

use crate::law::{Law, Verdict, demand};
use crate::ledger::{Life, Seen, Visit};
use braidnet::tcp::{EcnMode, State, TcpInfo};
use braidnet::wire::tcp::{TcpFlags, TcpHeader};

/// Where counts of marks begin (RFC 9768 §3.2.1).
const FIRST_COUNT: u8 = 5;

/// What two sides have agreed on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Agreed {
    Nothing,
    /// RFC 3168 §6.1.1.
    Classic,
    /// RFC 9768 §3.1.
    Accurate,
}

/// What has been said so far.
#[derive(Debug)]
pub(crate) struct Account {
    /// What SYNs asked for, and SYN-ACKs granted: a bit for each of the eight things that three flags can say.
    asked: u8,
    granted: u8,
    /// A SYN of ours went without asking.
    asks_no_more: bool,
    /// Marked packets that have come, and those among them that were told of; `count` is what was said last.
    came: u32,
    told: u32,
    count: u8,
    /// SYN-ACKs that have come and were not told of (RFC 9768 §3.2.2.1).
    unanswered: u32,
    /// The highest place that was sent before.
    sent: u32,
    /// What the peer's count was when it was last heard of, if that is certain.
    heard: Option<u8>,
}

impl Default for Account {
    fn default() -> Account {
        Account {
            asked: 0,
            granted: 0,
            asks_no_more: false,
            came: 0,
            told: 0,
            count: FIRST_COUNT,
            unanswered: 0,
            sent: 0,
            heard: Some(FIRST_COUNT),
        }
    }
}

impl Account {
    /// The same ends again: whatever was said before may be meant.
    pub(crate) fn begin_again(&self) -> Account {
        Account {
            asked: self.asked,
            granted: self.granted,
            ..Account::default()
        }
    }

    /// All that may have been agreed on.
    fn possible(&self) -> Vec<Agreed> {
        let said = |mask: u8| (0..8).filter(move |code| mask & 1 << code != 0);
        let pairs = said(self.asked)
            .flat_map(|asked| said(self.granted).map(move |granted| (asked, granted)));
        let mut all: Vec<Agreed> = Vec::new();
        for (asked, granted) in pairs {
            let agreed = agreed(asked, granted);
            if !all.contains(&agreed) {
                all.push(agreed);
            }
        }
        all
    }
}

/// AE, CWR and ECE as a number.
fn code_of(header: &TcpHeader) -> u8 {
    let ae = u8::from(header.has(TcpHeader::AE));
    ae << 2 | header.flags.0 >> 6
}

/// What a SYN and a SYN-ACK that say this have agreed on (RFC 9768 §3.1.1, table 2).
fn agreed(asked: u8, granted: u8) -> Agreed {
    match (asked, granted) {
        (3, 1 | 5) => Agreed::Classic,
        (0 | 3, _) => Agreed::Nothing,
        (_, 1) => Agreed::Classic,
        (_, 0 | 7) => Agreed::Nothing,
        _ => Agreed::Accurate,
    }
}

pub(crate) fn check(life: &mut Life, visit: &Visit<'_>) -> Verdict {
    let peer = life.peer.map(|(peer, _)| peer);
    for seen in visit.fed.iter().filter(|seen| Some(seen.birth) == peer) {
        life.ecn.came += u32::from(seen.header.ecn() == TcpHeader::CE);
        take_syn(&mut life.ecn, seen);
        let is_syn_ack = seen.has(TcpFlags::SYN) && seen.has(TcpFlags::ACK);
        life.ecn.unanswered += u32::from(is_syn_ack);
    }
    let (id, told) = (life.id, (life.ecn.told, life.ecn.unanswered));
    for seen in visit.sent.iter().filter(|seen| seen.birth == id) {
        take_syn(&mut life.ecn, seen);
        if seen.has(TcpFlags::SYN) {
            asks(life, visit, seen)?;
        }
        let is_new = seen.header.seq - life.iss >= life.ecn.sent;
        marks(life, visit, (seen, is_new))?;
        if seen.has(TcpFlags::RST) {
            // It may be about another life.
            continue;
        }
        if !seen.has(TcpFlags::SYN) {
            tells(life, visit, (seen, is_new))?;
        }
        let end = (seen.header.seq - life.iss) + seen.octets();
        life.ecn.sent = life.ecn.sent.max(end);
    }
    tells_at_once(life, visit, told)
}

fn take_syn(account: &mut Account, seen: &Seen) {
    if seen.has(TcpFlags::SYN) {
        let said = 1 << code_of(&seen.header);
        match seen.has(TcpFlags::ACK) {
            true => account.granted |= said,
            false => account.asked |= said,
        }
    }
}

/// Nobody asks, or grants, who is not set to.
fn asks(life: &mut Life, visit: &Visit<'_>, seen: &Seen) -> Verdict {
    let (said, mode) = (code_of(&seen.header), visit.host.engine.ecn);
    let is_answer = seen.has(TcpFlags::ACK);
    let may = match mode {
        EcnMode::Off => said == 0,
        EcnMode::Passive => said == 0 || (is_answer && said == 1),
        EcnMode::On => said == if is_answer { 1 } else { 3 } || said == 0,
        EcnMode::Accurate => is_answer || matches!(said, 0 | 7),
    };
    life.ecn.asks_no_more |= !is_answer && said == 0;
    // RFC 3168 §6.1.1: as SYN and SYN-ACK, which ask, nothing else does.
    let asked = life.ecn.asked & !1 != 0;
    demand(may && (!is_answer || said == 0 || asked), Law::Ecn, || {
        format!(
            "{}: a SYN that says {said} of ECN, set to {mode:?}",
            visit.describe()
        )
    })
}

/// New data alone may be marked (RFC 3168 §6.1.1, §6.1.4, §6.1.5), and no probe of the window (§6.1.6); nothing is, before it has left.
fn marks(life: &Life, visit: &Visit<'_>, (seen, is_new): (&Seen, bool)) -> Verdict {
    let field = seen.header.ecn();
    if field == 0 {
        return Ok(());
    }
    let is_agreed = life.ecn.possible() != [Agreed::Nothing] && !life.ecn.asks_no_more;
    let is_plain = seen.len > 0 && !seen.has(TcpFlags::SYN) && !seen.has(TcpFlags::RST);
    let end = seen.header.seq - life.iss + seen.len;
    let fits = end <= life.window.edge();
    let may = field == TcpHeader::ECT_0 && is_agreed && is_plain && is_new && fits;
    demand(may, Law::Ecn, || {
        format!(
            "{}: an ECN field of {:#b} on {:?}, {} bytes, new: {is_new}, in the window: {fits}; {:?}",
            visit.describe(),
            field >> 6,
            seen.header,
            seen.len,
            life.ecn
        )
    })
}

/// What the flags say.
fn tells(life: &mut Life, visit: &Visit<'_>, (seen, is_new): (&Seen, bool)) -> Verdict {
    let said = code_of(&seen.header);
    let possible = life.ecn.possible();
    let account = &mut life.ecn;
    let may = match possible[..] {
        [] => true,
        [Agreed::Nothing] => said == 0,
        [Agreed::Classic]
        | [Agreed::Classic, Agreed::Nothing]
        | [Agreed::Nothing, Agreed::Classic] => {
            // ECE (§6.1.3) and CWR (§6.1.2).
            let of_new_data = is_new && seen.len > 0;
            said & 4 == 0 && (said & 1 == 0 || account.came > 0) && (said & 2 == 0 || of_new_data)
        }
        [Agreed::Accurate] => {
            // That it was not to be marked.
            let is_answer = seen.len == 0 && account.unanswered > 0 && said == 2;
            if is_answer {
                account.unanswered -= 1;
            } else {
                account.told += u32::from(said.wrapping_sub(account.count) & 7);
                account.count = said;
            }
            account.told <= account.came
        }
        _ => true,
    };
    demand(may || life.is_tainted, Law::Ecn, || {
        format!(
            "{}: {said} is said of marks by {:?}; {possible:?}, {:?}",
            visit.describe(),
            seen.header,
            life.ecn
        )
    })
}

/// What has marked data come alone, and nothing else than that happened, is told by what leaves then (RFC 3168 §6.1.3, RFC 9768 §3.2.2.5.1).
fn tells_at_once(life: &Life, visit: &Visit<'_>, (told, unanswered): (u32, u32)) -> Verdict {
    let ([seen], Some(before), Some(after)) = (&visit.fed[..], visit.before, visit.after) else {
        return Ok(());
    };
    let is_own = life.peer.is_some_and(|(peer, _)| peer == seen.birth);
    let is_taken = before.state.is_synchronized()
        && seen.len > 0
        && seen.header.seq == before.rcv_nxt
        && after.rcv_nxt - before.rcv_nxt >= seen.len;
    let is_marked = seen.header.ecn() == TcpHeader::CE;
    let mut sent = visit
        .sent
        .iter()
        .filter(|sent| sent.birth == life.id && !sent.has(TcpFlags::RST));
    let is_unsure = visit.is_prompted || life.is_tainted || unanswered > 0;
    if is_unsure || !is_own || !is_taken || !is_marked {
        return Ok(());
    }
    let tells = match life.ecn.possible()[..] {
        [Agreed::Classic] => sent.all(|sent| sent.has(TcpFlags::ECE)),
        [Agreed::Accurate] => sent.next().is_none() || life.ecn.told > told,
        _ => true,
    };
    demand(tells, Law::Ecn, || {
        format!(
            "{}: a mark that nothing tells of; {:?}",
            visit.describe(),
            life.ecn
        )
    })
}

/// Whether what has come in this turn tells for certain of marks that were not heard of before: one acknowledgment alone, of something new.
pub(crate) fn hears(
    life: &mut Life,
    visit: &Visit<'_>,
    (before, after): (&TcpInfo, &TcpInfo),
) -> bool {
    let possible = life.ecn.possible();
    let peer = life.peer.map(|(peer, _)| peer);
    let is_alone = visit.fed.len() == 1;
    let account = &mut life.ecn;
    let mut hears = false;
    for seen in visit.fed.iter().filter(|seen| Some(seen.birth) == peer) {
        let is_ack =
            seen.has(TcpFlags::ACK) && !seen.has(TcpFlags::SYN) && !seen.has(TcpFlags::RST);
        let ack = seen.header.ack;
        let is_taken = is_alone && after.snd_una == ack && ack.is_after(before.snd_una);
        let said = code_of(&seen.header);
        if before.state == State::SynReceived && seen.len == 0 {
            // It says how the SYN-ACK came.
            continue;
        }
        match possible[..] {
            [Agreed::Classic] => {
                hears |= is_ack && is_taken && said & 1 == 1 && !account.asks_no_more;
            }
            [Agreed::Accurate] if is_ack && is_taken => {
                hears |= account.heard.is_some_and(|heard| heard != said);
                account.heard = Some(said);
            }
            // It may be an old one, or not.
            [Agreed::Accurate] if is_ack && account.heard != Some(said) => account.heard = None,
            _ => {}
        }
    }
    hears
}
