//! Byte ranges (RFC 9110 §14.1).

/// What a `Range` field asks for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Range {
    /// From the first to the last of these positions, both sent; to the end if there is no last.
    From(u64, Option<u64>),
    /// So many bytes at the end.
    Suffix(u64),
    /// Several ranges: answered whole (RFC 9110 §14.2 lets a server ignore the field).
    Several,
}

/// What a range means for a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Selected {
    /// All of it.
    Whole,
    /// From the first of these offsets up to, and without, the second.
    Part(u64, u64),
    /// Nothing: 416.
    Unsatisfiable,
}

impl Range {
    /// Reads a field's value; `None` if it is malformed or of another unit, and so to be ignored (RFC 9110 §14.2).
    pub(super) fn parse(value: &[u8]) -> Option<Range> {
        let value = value.trim_ascii();
        let equals = value.iter().position(|byte| *byte == b'=')?;
        let (unit, set) = (&value[..equals], &value[equals + 1..]);
        if !unit.eq_ignore_ascii_case(b"bytes") {
            return None;
        }
        let mut ranges = set
            .split(|byte| *byte == b',')
            .map(<[u8]>::trim_ascii)
            .filter(|one| !one.is_empty());
        let first = Range::parse_one(ranges.next()?)?;
        let mut several = false;
        for one in ranges {
            Range::parse_one(one)?;
            several = true;
        }
        Some(if several { Range::Several } else { first })
    }

    fn parse_one(spec: &[u8]) -> Option<Range> {
        let dash = spec.iter().position(|byte| *byte == b'-')?;
        let (first, last) = (&spec[..dash], &spec[dash + 1..]);
        if first.is_empty() {
            return Some(Range::Suffix(number(last)?));
        }
        let first = number(first)?;
        let last = if last.is_empty() {
            None
        } else {
            Some(number(last)?)
        };
        // RFC 9110 §14.1.1: a last position before the first makes it invalid.
        last.is_none_or(|last| last >= first)
            .then_some(Range::From(first, last))
    }

    /// What the range selects of a file of `len` bytes (RFC 9110 §14.1.2).
    pub(super) fn select(self, len: u64) -> Selected {
        match self {
            Range::Several => Selected::Whole,
            Range::From(first, _) if first >= len => Selected::Unsatisfiable,
            Range::From(first, last) => Selected::Part(
                first,
                last.map_or(len, |last| last.saturating_add(1).min(len)),
            ),
            Range::Suffix(0) => Selected::Unsatisfiable,
            Range::Suffix(_) if len == 0 => Selected::Unsatisfiable,
            Range::Suffix(n) => Selected::Part(len.saturating_sub(n), len),
        }
    }
}

/// A decimal number; one too large for us is larger than any file.
fn number(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    Some(digits.iter().fold(0u64, |sum, digit| {
        sum.saturating_mul(10)
            .saturating_add(u64::from(digit - b'0'))
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_read_and_selected_as_the_rfc_says() {
        use Selected::{Part, Unsatisfiable, Whole};
        let rows: [(&str, u64, Option<Selected>); 22] = [
            ("bytes=0-499", 10_000, Some(Part(0, 500))),
            ("bytes=500-999", 10_000, Some(Part(500, 1000))),
            ("bytes=-500", 10_000, Some(Part(9500, 10_000))),
            ("bytes=9500-", 10_000, Some(Part(9500, 10_000))),
            ("bytes=0-0", 10_000, Some(Part(0, 1))),
            ("bytes=0-99999", 10_000, Some(Part(0, 10_000))),
            ("bytes=-99999", 10_000, Some(Part(0, 10_000))),
            ("bytes=10000-", 10_000, Some(Unsatisfiable)),
            ("bytes=0-", 0, Some(Unsatisfiable)),
            ("bytes=-0", 10, Some(Unsatisfiable)),
            ("bytes=-1", 0, Some(Unsatisfiable)),
            ("BYTES=1-2", 10, Some(Part(1, 3))),
            ("bytes= 1-2 , 4-5", 10, Some(Whole)),
            ("bytes=,,1-2,", 10, Some(Part(1, 3))),
            ("bytes=99999999999999999999999-", 10, Some(Unsatisfiable)),
            ("bytes=0-99999999999999999999999", 10, Some(Part(0, 10))),
            ("bytes=2-1", 10, None),
            ("bytes=", 10, None),
            ("bytes=-", 10, None),
            ("bytes=a-b", 10, None),
            ("bytes=1-2,x", 10, None),
            ("lines=1-2", 10, None),
        ];
        for (value, len, expected) in rows {
            let selected = Range::parse(value.as_bytes()).map(|range| range.select(len));
            assert_eq!(selected, expected, "{value}");
        }
    }

    proptest::proptest! {
        #[test]
        fn a_part_lies_within_the_file(value in "bytes=[0-9]{0,20}-[0-9]{0,20}", len in 0u64..1000) {
            if let Some(Selected::Part(first, end)) = Range::parse(value.as_bytes()).map(|range| range.select(len)) {
                proptest::prop_assert!(first < end && end <= len);
            }
        }
    }
}
