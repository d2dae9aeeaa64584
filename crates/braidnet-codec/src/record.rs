//! Record marking on a byte stream (RFC 5531 §11).
//!
//! A record is one or more fragments. Before each stands a mark of four bytes, big-endian: the top bit says that the fragment is the
//! record's last, the other 31 bits how many bytes it has. [`RecordFramer`] finds records in whatever chunks the stream
//! arrives in, without holding or copying a byte of them; [`Fragments`] says where a writer puts its marks.

use std::ops::Range;

use thiserror::Error;

/// Bytes of a mark.
pub const MARK_BYTES: usize = 4;

/// The most bytes that one fragment can have.
pub const FRAGMENT_LIMIT: u32 = (1 << 31) - 1;

/// How many fragments without a byte a record may have before its last. They cost their sender four bytes each, bring
/// nothing, and no known writer sends any.
pub const EMPTY_FRAGMENT_LIMIT: u32 = 16;

const LAST_BIT: u32 = 1 << 31;

/// What stands before a fragment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RecordMark {
    /// Whether the fragment ends its record.
    pub last: bool,
    length: u32,
}

impl RecordMark {
    /// The mark of a fragment of `length` bytes; `None` above [`FRAGMENT_LIMIT`].
    pub const fn new(length: u32, last: bool) -> Option<RecordMark> {
        if length > FRAGMENT_LIMIT {
            return None;
        }
        Some(RecordMark { last, length })
    }

    /// Bytes of the fragment.
    pub const fn length(self) -> u32 {
        self.length
    }

    /// The mark as it stands on the wire.
    pub const fn to_bytes(self) -> [u8; MARK_BYTES] {
        let last = if self.last { LAST_BIT } else { 0 };
        (self.length | last).to_be_bytes()
    }

    /// Any four bytes are a mark.
    pub const fn from_bytes(bytes: [u8; MARK_BYTES]) -> RecordMark {
        let word = u32::from_be_bytes(bytes);
        RecordMark {
            last: word & LAST_BIT != 0,
            length: word & FRAGMENT_LIMIT,
        }
    }
}

/// The fragments of one record, in order: each one's mark, and which bytes of the record follow it.
///
/// ```
/// use braidnet_codec::record::Fragments;
/// let parts: Vec<_> = Fragments::new(10, 8)
///     .map(|(mark, bytes)| (mark.to_bytes(), bytes))
///     .collect();
/// assert_eq!(parts, [([0, 0, 0, 8], 0..8), ([0x80, 0, 0, 2], 8..10)]);
/// ```
#[derive(Clone, Debug)]
pub struct Fragments {
    record_bytes: usize,
    fragment_bytes: usize,
    from: usize,
    done: bool,
}

impl Fragments {
    /// Cuts a record of `record_bytes` into fragments of `fragment_bytes`, which is brought into 1 to [`FRAGMENT_LIMIT`]. An
    /// empty record is one empty fragment.
    pub fn new(record_bytes: usize, fragment_bytes: u32) -> Fragments {
        Fragments {
            record_bytes,
            fragment_bytes: fragment_bytes.clamp(1, FRAGMENT_LIMIT) as usize,
            from: 0,
            done: false,
        }
    }
}

impl Iterator for Fragments {
    type Item = (RecordMark, Range<usize>);

    fn next(&mut self) -> Option<Self::Item> {
        if self.done {
            return None;
        }
        let length = self.fragment_bytes.min(self.record_bytes - self.from);
        let range = self.from..self.from + length;
        self.from = range.end;
        self.done = range.end == self.record_bytes;
        // The constructor has bounded the length of a fragment.
        let mark = RecordMark {
            last: self.done,
            length: length as u32,
        };
        Some((mark, range))
    }
}

/// Why a stream cannot be cut into records any further. The connection is of no more use: where the next record begins is
/// not known.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
pub enum FrameError {
    /// The marks announce a record above the limit.
    #[error("a record of at least {bytes} bytes where at most {limit} are allowed")]
    RecordTooLong {
        /// Bytes of the record, with the fragment whose mark has just come.
        bytes: u64,
        /// The limit.
        limit: u32,
    },
    /// More than [`EMPTY_FRAGMENT_LIMIT`] fragments of a record had no bytes.
    #[error("a record of more than {EMPTY_FRAGMENT_LIMIT} fragments without a byte")]
    EmptyFragments,
}

/// What the first bytes of a chunk are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Step {
    /// So many bytes belong to a mark and are to be skipped, 0 to 4.
    pub mark_bytes: usize,
    /// So many bytes behind them belong to the current record.
    pub body_bytes: usize,
    /// Whether the record is complete with them. The next body byte begins another.
    pub complete: bool,
}

impl Step {
    /// All bytes that this step is about.
    pub const fn bytes(self) -> usize {
        self.mark_bytes + self.body_bytes
    }
}

/// Cuts a stream into records.
///
/// It is state only: it is shown each chunk and says which bytes of it belong to the record, as [`Step`]s; the caller does with
/// them what it likes, so that a record may stay scattered over the segments that brought it.
///
/// ```
/// use braidnet_codec::record::RecordFramer;
/// let mut framer = RecordFramer::new(1024);
/// let mut rest = &b"\x80\0\0\x05hello\x80\0\0\x01!"[..];
/// let mut records = vec![Vec::new()];
/// while !rest.is_empty() {
///     let step = framer.step(rest)?;
///     let body = &rest[step.mark_bytes..step.bytes()];
///     records.last_mut().unwrap().extend_from_slice(body);
///     if step.complete {
///         records.push(Vec::new());
///     }
///     rest = &rest[step.bytes()..];
/// }
/// assert_eq!(records, [&b"hello"[..], b"!", b""]);
/// # Ok::<(), braidnet_codec::record::FrameError>(())
/// ```
#[derive(Clone, Debug)]
pub struct RecordFramer {
    record_limit: u32,
    position: Position,
    /// Bytes of the record whose marks have come; within the limit.
    record_bytes: u32,
    empty_fragments: u32,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Position {
    /// Inside a mark, of which the low bytes of `word` have come.
    Mark { word: u32, bytes: u8 },
    /// Inside a fragment that has `left` bytes to come, at least one.
    Body { left: u32, last: bool },
    /// Framing is lost.
    Failed(FrameError),
}

const AT_MARK: Position = Position::Mark { word: 0, bytes: 0 };

impl RecordFramer {
    /// A framer at the start of a stream whose records have at most `record_limit` bytes, marks not counted.
    pub const fn new(record_limit: u32) -> RecordFramer {
        RecordFramer {
            record_limit,
            position: AT_MARK,
            record_bytes: 0,
            empty_fragments: 0,
        }
    }

    /// Says what the first bytes of `chunk` are, and moves past them: to be called again with what is behind
    /// [`Step::bytes`] until nothing is left. A step is about at least one byte unless `chunk` is empty.
    ///
    /// # Errors
    /// [`FrameError`], from then on always the same. No byte behind the mark at fault belongs to anything.
    #[inline]
    pub fn step(&mut self, chunk: &[u8]) -> Result<Step, FrameError> {
        let mark_bytes = match self.position {
            Position::Mark { word, bytes } => self.take_mark(chunk, word, bytes)?,
            Position::Body { .. } => 0,
            Position::Failed(error) => return Err(error),
        };
        let (body_bytes, complete) = self.take_body(chunk.len() - mark_bytes);
        Ok(Step {
            mark_bytes,
            body_bytes,
            complete,
        })
    }

    /// Whether the stream may end here without cutting a record short.
    pub fn is_between_records(&self) -> bool {
        // An empty fragment that is not the last has begun a record.
        self.position == AT_MARK && self.record_bytes == 0 && self.empty_fragments == 0
    }

    /// Bytes of the fragment at hand that have not come: how much a caller may read without meeting a mark.
    pub fn fragment_left(&self) -> u32 {
        match self.position {
            Position::Body { left, .. } => left,
            Position::Mark { .. } | Position::Failed(_) => 0,
        }
    }

    /// Takes what there is of a mark, answers how many bytes that is, and goes into the fragment when the mark is complete.
    #[inline]
    fn take_mark(&mut self, chunk: &[u8], word: u32, bytes: u8) -> Result<usize, FrameError> {
        let (mark, taken) = match chunk.first_chunk::<MARK_BYTES>() {
            Some(whole) if bytes == 0 => (RecordMark::from_bytes(*whole), MARK_BYTES),
            _ => {
                let taken = chunk.len().min(MARK_BYTES - usize::from(bytes));
                let word = chunk[..taken]
                    .iter()
                    .fold(word, |word, &byte| word << 8 | u32::from(byte));
                // At most four in all.
                let bytes = bytes + taken as u8;
                if usize::from(bytes) < MARK_BYTES {
                    self.position = Position::Mark { word, bytes };
                    return Ok(taken);
                }
                (RecordMark::from_bytes(word.to_be_bytes()), taken)
            }
        };
        if let Err(error) = self.admit(mark) {
            self.position = Position::Failed(error);
            return Err(error);
        }
        self.position = Position::Body {
            left: mark.length,
            last: mark.last,
        };
        Ok(taken)
    }

    #[inline]
    fn admit(&mut self, mark: RecordMark) -> Result<(), FrameError> {
        let bytes = u64::from(self.record_bytes) + u64::from(mark.length);
        match u32::try_from(bytes) {
            Ok(admitted) if admitted <= self.record_limit => self.record_bytes = admitted,
            _ => {
                return Err(FrameError::RecordTooLong {
                    bytes,
                    limit: self.record_limit,
                });
            }
        }
        if mark.length == 0 && !mark.last {
            self.empty_fragments += 1;
            if self.empty_fragments > EMPTY_FRAGMENT_LIMIT {
                return Err(FrameError::EmptyFragments);
            }
        }
        Ok(())
    }

    /// Takes up to `available` bytes of the fragment; answers how many, and whether the record ends with them.
    #[inline]
    fn take_body(&mut self, available: usize) -> (usize, bool) {
        let Position::Body { left, last } = self.position else {
            return (0, false);
        };
        let taken = u32::try_from(available).unwrap_or(u32::MAX).min(left);
        let left = left - taken;
        if left > 0 {
            self.position = Position::Body { left, last };
            return (taken as usize, false);
        }
        self.position = AT_MARK;
        if last {
            self.record_bytes = 0;
            self.empty_fragments = 0;
        }
        (taken as usize, last)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Feeds chunks and answers the records that were completed, with whatever came of the last one, or the error.
    fn cut(
        framer: &mut RecordFramer,
        chunks: &[&[u8]],
    ) -> Result<(Vec<Vec<u8>>, Vec<u8>), FrameError> {
        let mut records = Vec::new();
        let mut current = Vec::new();
        for chunk in chunks {
            let mut rest = *chunk;
            while !rest.is_empty() {
                let step = framer.step(rest)?;
                assert!(step.bytes() > 0, "no step stands still");
                current.extend_from_slice(&rest[step.mark_bytes..step.bytes()]);
                if step.complete {
                    records.push(std::mem::take(&mut current));
                }
                rest = &rest[step.bytes()..];
            }
        }
        Ok((records, current))
    }

    fn written(records: &[Vec<u8>], fragment_bytes: u32) -> Vec<u8> {
        let mut stream = Vec::new();
        for record in records {
            for (mark, bytes) in Fragments::new(record.len(), fragment_bytes) {
                stream.extend_from_slice(&mark.to_bytes());
                stream.extend_from_slice(&record[bytes]);
            }
        }
        stream
    }

    #[test]
    fn marks_of_the_rfc() {
        let rows = [
            (RecordMark::new(0, true), [0x80, 0, 0, 0]),
            (RecordMark::new(1, false), [0, 0, 0, 1]),
            (RecordMark::new(4096, true), [0x80, 0, 0x10, 0]),
            (RecordMark::new(FRAGMENT_LIMIT, true), [0xff; 4]),
        ];
        for (mark, bytes) in rows {
            let mark = mark.expect("31 bits");
            assert_eq!(mark.to_bytes(), bytes);
            assert_eq!(RecordMark::from_bytes(bytes), mark);
        }
        assert_eq!(RecordMark::new(FRAGMENT_LIMIT + 1, true), None);
    }

    #[test]
    fn records_of_every_shape() {
        // (what, stream, records, beginning of the next)
        type Row = (
            &'static str,
            &'static [u8],
            &'static [&'static [u8]],
            &'static [u8],
        );
        let rows: &[Row] = &[
            ("one fragment", b"\x80\0\0\x02ab", &[b"ab"], b""),
            ("two fragments", b"\0\0\0\x01a\x80\0\0\x01b", &[b"ab"], b""),
            (
                "an empty record",
                b"\x80\0\0\0\x80\0\0\x01a",
                &[b"", b"a"],
                b"",
            ),
            (
                "an empty last fragment",
                b"\0\0\0\x01a\x80\0\0\0",
                &[b"a"],
                b"",
            ),
            ("an empty fragment", b"\0\0\0\0\x80\0\0\x01a", &[b"a"], b""),
            ("cut in the body", b"\x80\0\0\x03ab", &[], b"ab"),
            ("cut in the second mark", b"\0\0\0\x01a\x80\0", &[], b"a"),
        ];
        for (what, stream, records, rest) in rows {
            let mut framer = RecordFramer::new(8);
            let (found, left) = cut(&mut framer, &[stream]).expect("within limits");
            assert_eq!(found, *records, "{what}");
            assert_eq!(left, *rest, "{what}");
            let whole = !what.starts_with("cut");
            assert_eq!(framer.is_between_records(), whole, "{what}");
        }
    }

    #[test]
    fn the_limit_counts_all_fragments_of_a_record_and_starts_anew_with_the_next() {
        let mut framer = RecordFramer::new(3);
        let stream = b"\x80\0\0\x03abc\0\0\0\x02ab\x80\0\0\x01c";
        assert!(cut(&mut framer, &[stream]).is_ok());
        let error = FrameError::RecordTooLong { bytes: 4, limit: 3 };
        assert_eq!(cut(&mut framer, &[b"\0\0\0\x02ab\x80\0\0\x02"]), Err(error));
        assert_eq!(framer.step(b"\x80\0\0\0"), Err(error), "it stays failed");

        let mut unlimited = RecordFramer::new(u32::MAX);
        assert_eq!(
            unlimited.step(&[0xff; 4]),
            Ok(Step {
                mark_bytes: 4,
                body_bytes: 0,
                complete: false
            })
        );
        assert_eq!(unlimited.fragment_left(), FRAGMENT_LIMIT);
    }

    #[test]
    fn a_record_too_long_for_any_counter_is_refused() {
        let mut framer = RecordFramer {
            record_bytes: u32::MAX - 1,
            ..RecordFramer::new(u32::MAX)
        };
        assert_eq!(
            framer.step(&[0x7f, 0xff, 0xff, 0xff]),
            Err(FrameError::RecordTooLong {
                bytes: 0x1_7fff_fffd,
                limit: u32::MAX
            })
        );
    }

    #[test]
    fn empty_fragments_are_bounded() {
        let mut framer = RecordFramer::new(8);
        let allowed = [0; EMPTY_FRAGMENT_LIMIT as usize * MARK_BYTES];
        for _ in 0..2 {
            assert!(cut(&mut framer, &[&allowed]).is_ok());
            assert!(!framer.is_between_records());
            assert!(cut(&mut framer, &[b"\x80\0\0\x01a"]).is_ok());
            assert!(framer.is_between_records(), "the next record counts anew");
        }
        assert!(cut(&mut framer, &[&allowed]).is_ok());
        assert_eq!(
            cut(&mut framer, &[&[0; 4]]),
            Err(FrameError::EmptyFragments)
        );
    }

    proptest! {
        #[test]
        fn any_split_gives_the_same_records(
            records in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..50), 0..8),
            fragment_bytes in 0u32..60,
            cuts in proptest::collection::vec(0usize..600, 0..20),
        ) {
            let stream = written(&records, fragment_bytes);
            let mut cuts: Vec<usize> = cuts.iter().map(|&at| at.min(stream.len())).collect();
            cuts.sort_unstable();
            let mut chunks = Vec::new();
            let mut from = 0;
            for at in cuts {
                chunks.push(&stream[from..at]);
                from = at;
            }
            chunks.push(&stream[from..]);
            let mut framer = RecordFramer::new(50);
            prop_assert_eq!(cut(&mut framer, &chunks), Ok((records, Vec::new())));
            prop_assert!(framer.is_between_records());
        }

        #[test]
        fn random_bytes_in_any_split_are_judged_alike(
            stream in proptest::collection::vec(prop_oneof![3 => Just(0u8), 1 => Just(0x80u8), 1 => any::<u8>()], 0..200),
            width in 1usize..9,
        ) {
            let whole = cut(&mut RecordFramer::new(64), &[&stream]);
            let chunks: Vec<&[u8]> = stream.chunks(width).collect();
            prop_assert_eq!(cut(&mut RecordFramer::new(64), &chunks), whole);
        }
    }
}
