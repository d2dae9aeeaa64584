//! Sizes and times as people write them: `64K`, `1MiB`, `300ms`, `2us`.

use std::time::Duration;

/// Units of size. As with most tools of this trade, a bare letter counts in 1,024s.
const SIZES: &[(&[&str], u64)] = &[
    (&["", "B"], 1),
    (&["K", "k", "KiB"], 1 << 10),
    (&["M", "MiB"], 1 << 20),
    (&["G", "GiB"], 1 << 30),
    (&["kB", "KB"], 1_000),
    (&["MB"], 1_000_000),
    (&["GB"], 1_000_000_000),
];

/// Units of time, in nanoseconds. None is understood: a bare number of what?
const TIMES: &[(&[&str], u64)] = &[
    (&["ns"], 1),
    (&["us", "µs"], 1_000),
    (&["ms"], 1_000_000),
    (&["s"], 1_000_000_000),
    (&["min"], 60_000_000_000),
];

/// A number of bytes: `1500`, `64K`, `1MiB`, `10MB`.
///
/// # Errors
/// A sentence: not a number, no such unit, or too many for `T`.
pub fn size<T: TryFrom<u64>>(text: &str) -> Result<T, String> {
    let bytes = scaled(text, SIZES, "write for example 1500, 64K or 1MiB")?;
    T::try_from(bytes).map_err(|_| too_much(text))
}

/// A time: `300ms`, `2us`, `2s`.
///
/// # Errors
/// A sentence: not a number, no such unit, or too long.
pub fn duration(text: &str) -> Result<Duration, String> {
    scaled(text, TIMES, "write for example 2us, 300ms or 2s").map(Duration::from_nanos)
}

fn scaled(text: &str, units: &[(&[&str], u64)], example: &str) -> Result<u64, String> {
    let text = text.trim();
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at(digits);
    let unit = unit.trim_start();
    if number.is_empty() {
        return Err(format!("a whole number has to come first: {example}"));
    }
    let Some((_, factor)) = units.iter().find(|(names, _)| names.contains(&unit)) else {
        let problem = match unit {
            "" => "a unit is missing".to_owned(),
            unit => format!("no unit is called `{unit}`"),
        };
        return Err(format!("{problem}: {example}"));
    };
    number
        .parse::<u64>()
        .ok()
        .and_then(|number| number.checked_mul(*factor))
        .ok_or_else(|| too_much(text))
}

fn too_much(text: &str) -> String {
    format!("{text} is more than can be counted here")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_the_units_of_the_trade() {
        let rows = [
            ("0", 0),
            ("1500", 1500),
            ("1500B", 1500),
            ("64K", 65_536),
            ("64k", 65_536),
            ("64 KiB", 65_536),
            ("1M", 1 << 20),
            ("1MiB", 1 << 20),
            ("3G", 3 << 30),
            ("2GiB", 2 << 30),
            ("1kB", 1000),
            ("1KB", 1000),
            ("10MB", 10_000_000),
            ("1GB", 1_000_000_000),
        ];
        for (text, bytes) in rows {
            assert_eq!(size::<u64>(text), Ok(bytes), "{text}");
        }
    }

    #[test]
    fn times_have_a_unit() {
        let rows = [
            ("7ns", Duration::from_nanos(7)),
            ("2us", Duration::from_micros(2)),
            ("2µs", Duration::from_micros(2)),
            ("300ms", Duration::from_millis(300)),
            ("2s", Duration::from_secs(2)),
            ("3 min", Duration::from_secs(180)),
        ];
        for (text, time) in rows {
            assert_eq!(duration(text), Ok(time), "{text}");
        }
    }

    #[test]
    fn nonsense_is_refused_with_a_sentence() {
        let sizes = [
            (
                "",
                "a whole number has to come first: write for example 1500, 64K or 1MiB",
            ),
            (
                "K",
                "a whole number has to come first: write for example 1500, 64K or 1MiB",
            ),
            (
                "-1",
                "a whole number has to come first: write for example 1500, 64K or 1MiB",
            ),
            (
                "1.5M",
                "no unit is called `.5M`: write for example 1500, 64K or 1MiB",
            ),
            (
                "5Q",
                "no unit is called `Q`: write for example 1500, 64K or 1MiB",
            ),
            (
                "99999999999999999999",
                "99999999999999999999 is more than can be counted here",
            ),
            (
                "99999999999G",
                "99999999999G is more than can be counted here",
            ),
        ];
        for (text, sentence) in sizes {
            assert_eq!(size::<u64>(text), Err(sentence.to_owned()), "{text}");
        }
        assert_eq!(
            size::<u32>("4G"),
            Err("4G is more than can be counted here".to_owned())
        );
        let times = [
            ("5", "a unit is missing: write for example 2us, 300ms or 2s"),
            (
                "5h",
                "no unit is called `h`: write for example 2us, 300ms or 2s",
            ),
            (
                "s",
                "a whole number has to come first: write for example 2us, 300ms or 2s",
            ),
        ];
        for (text, sentence) in times {
            assert_eq!(duration(text), Err(sentence.to_owned()), "{text}");
        }
    }
}
