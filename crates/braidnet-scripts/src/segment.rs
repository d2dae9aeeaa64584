//! Segments as scripts write them: sequence numbers count from each side's own SYN, which is 0.

use std::fmt;

/// TCP's control bits (RFC 9293 §3.1).
pub mod flag {
    /// No more data.
    pub const FIN: u8 = 0x01;
    /// Synchronize.
    pub const SYN: u8 = 0x02;
    /// Reset.
    pub const RST: u8 = 0x04;
    /// Push.
    pub const PSH: u8 = 0x08;
    /// The acknowledgment counts.
    pub const ACK: u8 = 0x10;
    /// The urgent pointer counts.
    pub const URG: u8 = 0x20;
    /// ECN echo.
    pub const ECE: u8 = 0x40;
    /// Congestion window reduced.
    pub const CWR: u8 = 0x80;
}

/// Whatever it is: as an acknowledgment or a sequence number that a script expects.
pub const ANY: i64 = i64::MIN;

/// A segment. In one that arrives, what is not said is 0, absent or, for the window, 65,535 as it stands in the header; in one that is
/// expected, what is not said may be anything, but for flags (PSH apart) and length, which always count.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Segment {
    pub(crate) flags: u8,
    pub(crate) seq: i64,
    pub(crate) ack: i64,
    pub(crate) len: usize,
    pub(crate) window: Option<u16>,
    pub(crate) push: Option<bool>,
    pub(crate) urgent: Option<u16>,
    /// The ECN field of the IP header (RFC 3168 §5).
    pub(crate) ecn: Option<u8>,
    /// The rest of that field's byte (RFC 2474 §3), and the TTL.
    pub(crate) dscp: Option<u8>,
    pub(crate) ttl: Option<u8>,
    /// The AE flag (RFC 9768 §3.1).
    pub(crate) ae: bool,
    pub(crate) options: Options,
    pub(crate) damage: Damage,
    /// Expected: with or without an acknowledgment.
    pub(crate) is_ack_free: bool,
}

/// TCP options, where something is said of them.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Options {
    pub(crate) mss: Said<u16>,
    pub(crate) window_scale: Said<u8>,
    pub(crate) sack_permitted: Said<()>,
    /// TSval and TSecr: what is expected of our own TSval is only that it does not go back.
    pub(crate) timestamps: Said<Timestamps>,
    /// Left and right edges, relative to whoever sent the data.
    pub(crate) sack: Said<Vec<(i64, i64)>>,
    pub(crate) fast_open: Said<Cookie>,
    /// More bytes, as they stand.
    pub(crate) raw: Vec<u8>,
}

/// What a Fast Open option carries (RFC 7413 §4.1.1).
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Cookie {
    /// These bytes; none in a request.
    Bytes(Vec<u8>),
    /// What the host has given; in an expected segment, any that it gives.
    OfHost,
}

/// What a script says of an option.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) enum Said<T> {
    /// Nothing.
    #[default]
    Nothing,
    /// That it is absent.
    Absent,
    /// That it is there.
    There(T),
}

/// What a timestamps option carries.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Timestamps {
    /// The value of the peer's clock; in an expected segment, unused.
    pub(crate) value: u32,
    /// In an expected segment, the peer's value that is echoed. In one that arrives, how far behind the host's last value the
    /// echo is.
    pub(crate) echo: u32,
}

/// What is wrong with a segment that arrives.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum Damage {
    #[default]
    None,
    Checksum,
    /// A data offset of so many words.
    DataOffset(u8),
}

fn segment(flags: u8, seq: i64, ack: i64, len: usize) -> Segment {
    Segment {
        flags,
        seq,
        ack,
        len,
        window: None,
        push: None,
        urgent: None,
        ecn: None,
        dscp: None,
        ttl: None,
        ae: false,
        options: Options::default(),
        damage: Damage::None,
        is_ack_free: false,
    }
}

/// A SYN.
pub fn syn(seq: i64) -> Segment {
    segment(flag::SYN, seq, 0, 0)
}

/// A SYN with an acknowledgment.
pub fn syn_ack(seq: i64, ack: i64) -> Segment {
    segment(flag::SYN | flag::ACK, seq, ack, 0)
}

/// An acknowledgment without data.
pub fn ack(seq: i64, ack: i64) -> Segment {
    segment(flag::ACK, seq, ack, 0)
}

/// Data of `len` bytes, with an acknowledgment.
pub fn data(seq: i64, ack: i64, len: usize) -> Segment {
    segment(flag::ACK, seq, ack, len)
}

/// The end, with an acknowledgment.
pub fn fin(seq: i64, ack: i64) -> Segment {
    segment(flag::FIN | flag::ACK, seq, ack, 0)
}

/// A reset.
pub fn rst(seq: i64) -> Segment {
    segment(flag::RST, seq, 0, 0)
}

/// A reset with an acknowledgment.
pub fn rst_ack(seq: i64, ack: i64) -> Segment {
    segment(flag::RST | flag::ACK, seq, ack, 0)
}

/// A segment with these flags.
pub fn with_flags(flags: u8, seq: i64, ack: i64) -> Segment {
    segment(flags, seq, ack, 0)
}

impl Segment {
    /// With so many bytes of data.
    pub fn len(self, len: usize) -> Segment {
        Segment { len, ..self }
    }

    /// With this in the window field.
    pub fn win(self, window: u16) -> Segment {
        Segment {
            window: Some(window),
            ..self
        }
    }

    /// With PSH.
    pub fn push(self) -> Segment {
        Segment {
            push: Some(true),
            ..self
        }
    }

    /// With URG and this urgent pointer.
    pub fn urgent(self, pointer: u16) -> Segment {
        Segment {
            flags: self.flags | flag::URG,
            urgent: Some(pointer),
            ..self
        }
    }

    /// With ECE.
    pub fn ece(self) -> Segment {
        Segment {
            flags: self.flags | flag::ECE,
            ..self
        }
    }

    /// With CWR.
    pub fn cwr(self) -> Segment {
        Segment {
            flags: self.flags | flag::CWR,
            ..self
        }
    }

    fn ecn(self, field: u8) -> Segment {
        Segment {
            ecn: Some(field),
            ..self
        }
    }

    /// With AE, CWR and ECE as a number (RFC 9768 §3.2.2).
    pub fn ace(self, count: u8) -> Segment {
        Segment {
            flags: self.flags & !(flag::ECE | flag::CWR) | count << 6,
            ae: count & 4 != 0,
            ..self
        }
    }

    /// In a packet that may not be marked.
    pub fn not_ect(self) -> Segment {
        self.ecn(0)
    }

    /// In a packet that may be marked: ECT(0).
    pub fn ect0(self) -> Segment {
        self.ecn(2)
    }

    /// In one that says so otherwise: ECT(1).
    pub fn ect1(self) -> Segment {
        self.ecn(1)
    }

    /// In a packet that is marked.
    pub fn ce(self) -> Segment {
        self.ecn(3)
    }

    /// Expected: in a packet with this Differentiated Services Code Point.
    pub fn dscp(self, point: u8) -> Segment {
        Segment {
            dscp: Some(point),
            ..self
        }
    }

    /// Expected: in a packet that may take so many hops.
    pub fn ttl(self, hops: u8) -> Segment {
        Segment {
            ttl: Some(hops),
            ..self
        }
    }

    /// Expected: whether it acknowledges anything, and what, is left open.
    pub fn with_or_without_ack(self) -> Segment {
        Segment {
            is_ack_free: true,
            ..self
        }
    }

    /// With a maximum segment size.
    pub fn mss(mut self, bytes: u16) -> Segment {
        self.options.mss = Said::There(bytes);
        self
    }

    /// Without one.
    pub fn no_mss(mut self) -> Segment {
        self.options.mss = Said::Absent;
        self
    }

    /// With a window scale.
    pub fn wscale(mut self, shift: u8) -> Segment {
        self.options.window_scale = Said::There(shift);
        self
    }

    /// Without one.
    pub fn no_wscale(mut self) -> Segment {
        self.options.window_scale = Said::Absent;
        self
    }

    /// With SACK-permitted.
    pub fn sack_ok(mut self) -> Segment {
        self.options.sack_permitted = Said::There(());
        self
    }

    /// Without it.
    pub fn no_sack_ok(mut self) -> Segment {
        self.options.sack_permitted = Said::Absent;
        self
    }

    /// Arriving: with a timestamp of the peer's clock, which echoes the host's last.
    pub fn ts(self, value: u32) -> Segment {
        self.ts_echoing(value, 0)
    }

    /// Arriving: the same, with an echo that is `behind` the host's last.
    pub fn ts_echoing(mut self, value: u32, behind: u32) -> Segment {
        self.options.timestamps = Said::There(Timestamps {
            value,
            echo: behind,
        });
        self
    }

    /// Expected: with timestamps that echo this value of the peer's.
    pub fn echoes(self, value: u32) -> Segment {
        self.ts_echoing(0, value)
    }

    /// Without timestamps.
    pub fn no_ts(mut self) -> Segment {
        self.options.timestamps = Said::Absent;
        self
    }

    /// With these SACK blocks.
    pub fn sack(mut self, blocks: &[(i64, i64)]) -> Segment {
        self.options.sack = Said::There(blocks.to_vec());
        self
    }

    /// Without any.
    pub fn no_sack(mut self) -> Segment {
        self.options.sack = Said::Absent;
        self
    }

    fn fast_open(mut self, cookie: Cookie) -> Segment {
        self.options.fast_open = Said::There(cookie);
        self
    }

    /// With this cookie.
    pub fn cookie(self, bytes: &[u8]) -> Segment {
        self.fast_open(Cookie::Bytes(bytes.to_vec()))
    }

    /// With a request for a cookie.
    pub fn asks_for_cookie(self) -> Segment {
        self.cookie(&[])
    }

    /// Expected: with a cookie of the host's. Arriving: with that which it gave last.
    pub fn cookie_of_host(self) -> Segment {
        self.fast_open(Cookie::OfHost)
    }

    /// Without a Fast Open option.
    pub fn no_cookie(mut self) -> Segment {
        self.options.fast_open = Said::Absent;
        self
    }

    /// Arriving: with these bytes as further options, filled up with zeros to whole words.
    pub fn raw_options(mut self, bytes: &[u8]) -> Segment {
        self.options.raw = bytes.to_vec();
        self
    }

    /// Arriving: with a wrong checksum.
    pub fn damaged(self) -> Segment {
        Segment {
            damage: Damage::Checksum,
            ..self
        }
    }

    /// Arriving: with a data offset of so many words.
    pub fn data_offset(self, words: u8) -> Segment {
        Segment {
            damage: Damage::DataOffset(words),
            ..self
        }
    }
}

impl fmt::Display for Segment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.ae {
            write!(f, "A")?;
        }
        write_flags(f, self.flags, self.push == Some(true))?;
        write_number(f, " seq ", self.seq)?;
        if self.len > 0 {
            match self.seq {
                ANY => write!(f, ":{}", self.len)?,
                seq => write!(f, ":{}", seq + self.len as i64)?,
            }
        }
        if self.flags & flag::ACK != 0 {
            write_number(f, " ack ", self.ack)?;
        }
        if let Some(window) = self.window {
            write!(f, " win {window}")?;
        }
        if let Some(urgent) = self.urgent {
            write!(f, " urg {urgent}")?;
        }
        if let Some(field) = self.ecn {
            let names = ["not-ECT", "ECT(1)", "ECT(0)", "CE"];
            write!(f, " {}", names[usize::from(field & 3)])?;
        }
        // As most are, nothing is said of them.
        for (name, field, usual) in [("dscp", self.dscp, 0), ("ttl", self.ttl, 64)] {
            if let Some(value) = field.filter(|value| *value != usual) {
                write!(f, " {name} {value}")?;
            }
        }
        self.options.fmt(f)?;
        match self.damage {
            Damage::None => Ok(()),
            Damage::Checksum => write!(f, " (wrong checksum)"),
            Damage::DataOffset(words) => write!(f, " (data offset {words})"),
        }
    }
}

impl fmt::Display for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut all = Vec::new();
        let mut say = |name: &str, value: Option<Option<String>>| match value {
            None => {}
            Some(None) => all.push(format!("no {name}")),
            Some(Some(value)) => all.push(format!("{name}{value}")),
        };
        say("mss", self.mss.shown(|mss| format!(" {mss}")));
        say(
            "wscale",
            self.window_scale.shown(|shift| format!(" {shift}")),
        );
        say("sackOK", self.sack_permitted.shown(|()| String::new()));
        say(
            "ts",
            self.timestamps
                .shown(|ts| format!(" val {} ecr {}", ts.value, ts.echo)),
        );
        say("sack", self.sack.shown(|blocks| format!(" {blocks:?}")));
        let shown = |cookie: &Cookie| match cookie {
            Cookie::Bytes(bytes) if bytes.is_empty() => "?".to_owned(),
            Cookie::Bytes(bytes) => format!(" {bytes:02x?}"),
            Cookie::OfHost => " of the host's".to_owned(),
        };
        say("cookie", self.fast_open.shown(shown));
        if !self.raw.is_empty() {
            all.push(format!("{:02x?}", self.raw));
        }
        if all.is_empty() {
            return Ok(());
        }
        write!(f, " <{}>", all.join(", "))
    }
}

impl<T> Said<T> {
    fn shown(&self, show: impl FnOnce(&T) -> String) -> Option<Option<String>> {
        match self {
            Said::Nothing => None,
            Said::Absent => Some(None),
            Said::There(value) => Some(Some(show(value))),
        }
    }

    /// Whether an option that a segment has, or not, is as was said.
    pub(crate) fn admits<U>(&self, found: Option<&U>, equal: impl FnOnce(&T, &U) -> bool) -> bool {
        match (self, found) {
            (Said::Nothing, _) | (Said::Absent, None) => true,
            (Said::There(said), Some(found)) => equal(said, found),
            _ => false,
        }
    }
}

/// Flags as tcpdump prints them.
fn write_flags(f: &mut fmt::Formatter<'_>, flags: u8, push: bool) -> fmt::Result {
    let letters = [
        (flag::SYN, 'S'),
        (flag::FIN, 'F'),
        (flag::RST, 'R'),
        (flag::URG, 'U'),
        (flag::ECE, 'E'),
        (flag::CWR, 'W'),
    ];
    for (bit, letter) in letters {
        if flags & bit != 0 {
            write!(f, "{letter}")?;
        }
    }
    if push {
        write!(f, "P")?;
    }
    match flags & flag::ACK {
        0 if flags == 0 => write!(f, "none"),
        0 => Ok(()),
        _ => write!(f, "."),
    }
}

fn write_number(f: &mut fmt::Formatter<'_>, name: &str, number: i64) -> fmt::Result {
    match number {
        ANY => write!(f, "{name}?"),
        number => write!(f, "{name}{number}"),
    }
}
