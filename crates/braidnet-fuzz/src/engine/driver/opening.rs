//! How a connection opens: with a SYN of either side, with data on it perhaps, or with a cookie in its place.

use super::super::input::Record;
use super::super::model::Model;
use super::super::setup::{Cookie, Fast, Opening, Setup};
use super::piece::Piece;
use super::{Driver, TRACED};
use braidnet_tcp::{FastOpened, KnownServer, Listen, State, SynCookie, SynFate, Tcb, listen};
use braidnet_wire::address::{Address, Tuple};
use braidnet_wire::seq::SeqNumber;
use braidnet_wire::tcp::{FastOpenCookie, TcpFlags, TcpHeader, header_len};
use std::rc::Rc;
use std::sync::Arc;

/// The cookie that servers give, whoever they are.
pub fn cookie() -> FastOpenCookie {
    FastOpenCookie::new(b"biscuits").unwrap_or(FastOpenCookie::REQUEST)
}

impl Driver {
    pub fn open(record: Record<'_>) -> Driver {
        let setup = Setup::of(record);
        let (iss, now) = (SeqNumber::new(setup.iss), setup.now);
        let active = setup.opening == Opening::Active;
        let offers = setup.offers();
        let mut model = Model::new(setup.iss, active, setup.config.ecn, now);
        let tcb = if active {
            Tcb::connect(&Arc::new(setup.config), iss, setup.mss, now)
        } else {
            assert_eq!(listen(&setup.syn), Listen::Accept);
            model.take_syn(now, &setup.syn, &offers.0, offers.1);
            Tcb::accept(&Arc::new(setup.config), iss, setup.mss, &setup.syn, now)
        };
        let mut driver = Driver {
            model,
            tcb,
            offers,
            now,
            store: Rc::default(),
            released: 0,
            delivered: 0,
            taken: 0,
            peer_clock: setup.syn.ts_value,
            waiting_since: None,
            shortened: false,
            lingers: false,
            told: false,
            sent: Vec::new(),
            traced: *TRACED.get_or_init(|| std::env::var_os("BRAIDNET_FUZZ_TRACE").is_some()),
            setup,
        };
        match (driver.setup.opening, driver.setup.fast) {
            (Opening::Cookie, _) => driver.redeem(),
            (Opening::Active, Some(fast)) => driver.ask(fast),
            (Opening::Passive, Some(fast)) => driver.welcome(fast),
            (_, None) => {}
        }
        driver.poll();
        if driver.setup.shaken {
            driver.shake();
        }
        driver
    }

    /// Data are there to go with our SYN (RFC 7413 §4.2.1 and §4.2.2).
    fn ask(&mut self, fast: Fast) {
        let known = KnownServer {
            cookie: cookie(),
            mss: fast.known_mss,
        };
        let is_known = fast.cookie != Cookie::Wanted;
        self.tcb.ask_fast_open(is_known.then_some(known));
        self.send(fast.octets);
    }

    /// Data have come with the peer's SYN, and a cookie perhaps that is good (RFC 7413 §4.2.2).
    fn welcome(&mut self, fast: Fast) {
        if fast.cookie != Cookie::Good {
            self.tcb.give_cookie(cookie());
        }
        if fast.cookie == Cookie::Wanted {
            return;
        }
        let len = usize::from(fast.octets);
        let window = self.setup.config.receive_buffer_bytes.min(65535);
        let expected = self.model.open_early(0, len, window as usize);
        let mut sink: Vec<Piece> = Vec::new();
        let piece = Piece::new(len, 0, 1, &self.store);
        let cut = self.tcb.open_early(self.now, Some(piece), &mut sink);
        assert_eq!(cut.is_some(), expected.len() < len, "{cut:?}");
        self.take_delivered(1, sink, &expected);
        assert_eq!(self.store.alive(), 0);
    }

    /// In place of the connection that was opened by a SYN, the one that its cookie brings back.
    fn redeem(&mut self) {
        let tuple = Tuple {
            local: Address::v4([10, 0, 0, 1]),
            remote: Address::v4([10, 0, 0, 2]),
            local_port: 80,
            remote_port: 4000,
        };
        let cookie = SynCookie {
            secret: [1, 2],
            tuple: &tuple,
            now: self.now,
        };
        let config = &Arc::new(self.setup.config);
        let answer = cookie.answer(config, self.setup.mss, &self.setup.syn, 0);
        let ack = TcpHeader {
            seq: self.setup.syn.seq + 1,
            ack: answer.seq + 1,
            flags: TcpFlags::ACK,
            present: self.setup.syn.present & answer.present & TcpHeader::HAS_TIMESTAMPS,
            ts_value: self.setup.syn.ts_value,
            ts_echo: answer.ts_value,
            ..TcpHeader::default()
        };
        let redeemed = cookie
            .redeem(config, &ack)
            .expect("the cookie that was just given");
        self.tcb = Tcb::accept_redeemed(config, self.setup.mss, &redeemed, 0, self.now);
        // What a cookie keeps of the SYN: nothing of the window, and no option without timestamps.
        let mut syn = self.setup.syn;
        syn.window = 0;
        if answer.present & TcpHeader::HAS_TIMESTAMPS == 0 {
            syn.present = 0;
        }
        self.setup.iss = answer.seq.value();
        self.model = Model::new(self.setup.iss, false, self.setup.config.ecn, self.now);
        self.model
            .take_syn(self.now, &syn, &self.offers.0, self.offers.1);
        self.model.rcv_edge = 1 + i64::from(answer.window);
        self.model.snd_max = 1;
        self.model.owes_syn = false;
        // Never more than it stands for; one of eight sizes.
        self.setup.syn.mss = u16::try_from(self.tcb.mss())
            .unwrap_or(u16::MAX)
            .saturating_add(12);
        self.setup.syn.present |= TcpHeader::HAS_MSS;
    }

    /// The rest of a handshake without trouble.
    fn shake(&mut self) {
        let mut header = match self.setup.opening {
            Opening::Active => TcpHeader {
                flags: TcpFlags(
                    TcpFlags::SYN.0 | TcpFlags::ACK.0 | (self.setup.syn.flags.0 & TcpFlags::ECE.0),
                ),
                ..self.setup.syn
            },
            _ => TcpHeader {
                seq: SeqNumber::new(self.model.rcv_seq(self.model.rcv_nxt)),
                flags: TcpFlags::ACK,
                window: self.setup.syn.window,
                ts_value: self.setup.syn.ts_value,
                present: u8::from(self.model.agreed.timestamps),
                ..TcpHeader::default()
            },
        };
        let taken = self.setup.share.of(self.model.snd_max - 1);
        header.ack = SeqNumber::new(self.model.snd_seq(1 + taken));
        self.arrive(&header, 0, 0);
        self.poll();
    }

    /// The option that our SYN or SYN-ACK carries when it goes for the first time (RFC 7413 §4.2.1, §4.2.2).
    pub(in super::super) fn option_due(&self) -> Option<FastOpenCookie> {
        let fast = self.setup.fast.filter(|_| self.model.snd_max == 0)?;
        match (self.setup.opening, fast.cookie) {
            (Opening::Active, Cookie::Wanted) => Some(FastOpenCookie::REQUEST),
            (Opening::Active, _) => Some(cookie()),
            (_, cookie) => (cookie != Cookie::Good).then(self::cookie),
        }
    }

    /// How many octets go with our SYN: where its cookie may be good, what there is, as far as the server's segment, and ours, have room
    /// beside the options (RFC 7413 §4.2.2).
    pub(in super::super) fn octets_due(&self, syn: &TcpHeader) -> u32 {
        let carries = syn.fast_open().is_some_and(|cookie| !cookie.is_request());
        let Some(fast) = self.setup.fast.filter(|_| carries) else {
            return 0;
        };
        let (mss, header) = (fast.known_mss.min(self.setup.mss), header_len(syn));
        let room = (u32::from(mss) + 20).saturating_sub(header as u32);
        let written = self.model.written as u32;
        room.min(written).min(self.setup.longest_piece)
    }

    /// What became of a SYN that carried an option is told once: when its answer has come, or none will (RFC 7413 §4.1.3).
    pub(super) fn check_opened(&mut self) {
        let model = &self.model;
        let opened = self.tcb.take_fast_opened();
        let asks = self.setup.opening == Opening::Active && self.setup.fast.is_some();
        let is_known = model.state == State::Closed || model.state.is_synchronized();
        assert_eq!(
            opened.is_some(),
            asks && is_known && !self.told,
            "{opened:?}"
        );
        assert_eq!(self.tcb.has_opened_fast(), model.early || model.taken > 0);
        let Some(FastOpened { learned, fate }) = opened else {
            return;
        };
        self.told = true;
        let (carried, taken) = (model.carried, model.taken);
        match fate {
            SynFate::Asked => assert_eq!((carried, taken), (0, 0)),
            SynFate::Taken => assert!(taken > 0),
            SynFate::Refused => assert!(carried > 0 && taken == 0),
            SynFate::Unanswered => {
                assert!(taken == 0 && (model.state == State::Closed || model.syns > 1))
            }
        }
        let from_peer = model.answer.filter(|cookie| !cookie.is_request());
        match learned {
            Some(server) => assert!(
                from_peer.or(Some(cookie())) == Some(server.cookie),
                "{server:?}"
            ),
            None => assert_eq!(from_peer, None),
        }
    }
}
