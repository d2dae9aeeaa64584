//! From bytes to what happens to a connection, and back: records of sixteen bytes, the first of which says how it opens.
//!
//! Numbers in segments count from places that the connection knows itself (its windows, holes, ends), so that a record means the same when
//! what stands before it has changed.

/// Bytes of a record.
pub const RECORD: usize = 16;

/// A record's bytes, read one after the other.
#[derive(Clone, Copy)]
pub struct Record<'a>(pub &'a [u8; RECORD]);

impl Record<'_> {
    pub fn byte(self, at: usize) -> u8 {
        self.0[at]
    }

    pub fn word(self, at: usize) -> u16 {
        u16::from_be_bytes([self.0[at], self.0[at + 1]])
    }

    /// A distance, either way.
    pub fn distance(self, at: usize) -> i64 {
        i64::from(self.word(at) as i16)
    }

    pub fn bit(self, at: usize, bit: u8) -> bool {
        self.0[at] & (1 << bit) != 0
    }

    /// One of these.
    pub fn one_of<T: Copy, const N: usize>(self, at: usize, all: [T; N]) -> T {
        all[usize::from(self.0[at]) % N]
    }
}

/// The records of an input; what is left over at its end says nothing.
pub fn records(input: &[u8]) -> impl Iterator<Item = Record<'_>> {
    input.as_chunks::<RECORD>().0.iter().map(Record)
}

/// What a record says, by its first byte.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// A segment arrives.
    Segment,
    /// Time passes.
    Time,
    /// Time passes until the connection's timer.
    Deadline,
    /// The user sends.
    Send,
    /// The user takes what there is to read.
    Receive,
    /// The user closes, aborts, reads no more, calls for urgency.
    Call,
    /// The network says something of a segment.
    Report,
}

impl Kind {
    const ALL: [Kind; 16] = [
        Kind::Segment,
        Kind::Segment,
        Kind::Segment,
        Kind::Segment,
        Kind::Segment,
        Kind::Segment,
        Kind::Segment,
        Kind::Segment,
        Kind::Time,
        Kind::Deadline,
        Kind::Send,
        Kind::Send,
        Kind::Receive,
        Kind::Receive,
        Kind::Call,
        Kind::Report,
    ];

    pub fn of(record: Record<'_>) -> Kind {
        Kind::ALL[usize::from(record.byte(0)) % Kind::ALL.len()]
    }

    /// The first byte of such a record.
    pub fn first_byte(self) -> u8 {
        let place = Kind::ALL.iter().position(|kind| *kind == self);
        place.unwrap_or_default() as u8
    }
}
