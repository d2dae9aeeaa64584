//! Figures as people read them.

/// What stands where there is no figure.
pub(super) const NONE: &str = "—";

/// Three digits that matter and no more: 0.27, 3.41, 61.2, 1,071.
pub(super) fn short(figure: f64) -> String {
    match figure.abs() {
        // Where rounding gives one more digit before the point, one fewer stands behind it.
        size if size < 9.995 => with_decimals(figure, 2),
        size if size < 99.95 => with_decimals(figure, 1),
        _ => with_decimals(figure, 0),
    }
}

/// A throughput, which keeps a decimal however great it is, so that a column of them lines up: 0.27, 61.2, 117.3.
pub(super) fn throughput(figure: f64) -> String {
    with_decimals(figure, decimals(figure))
}

/// How far off a throughput may be, with as many decimals as it has.
pub(super) fn half(throughput: f64, half: Option<f64>) -> String {
    half.map_or_else(
        || NONE.to_owned(),
        |half| with_decimals(half, decimals(throughput)),
    )
}

/// A throughput, and how far off it may be: 61.2 ± 0.3.
pub(super) fn spread(figure: f64, half: Option<f64>) -> String {
    match half {
        Some(_) => format!("{} ± {}", throughput(figure), self::half(figure, half)),
        None => throughput(figure),
    }
}

fn decimals(throughput: f64) -> usize {
    if throughput.abs() < 9.995 { 2 } else { 1 }
}

fn with_decimals(figure: f64, decimals: usize) -> String {
    match decimals {
        _ if !figure.is_finite() => NONE.to_owned(),
        0 => grouped(figure.round() as i64),
        _ => format!("{figure:.decimals$}"),
    }
}

/// A figure, or the sign for none.
pub(super) fn optional(figure: Option<f64>) -> String {
    figure.map_or_else(|| NONE.to_owned(), short)
}

/// A whole number with a comma before every three digits.
pub(super) fn grouped(number: i64) -> String {
    let digits = number.unsigned_abs().to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3 + 1);
    if number < 0 {
        text.push('-');
    }
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A count with a comma before every three digits.
pub(super) fn count(number: u64) -> String {
    grouped(i64::try_from(number).unwrap_or(i64::MAX))
}

/// Nanoseconds as microseconds.
pub(super) fn microseconds(nanoseconds: Option<u64>) -> String {
    optional(nanoseconds.map(|nanoseconds| nanoseconds as f64 / 1000.0))
}

/// A number of bytes in the unit that divides it: 4 KiB, 1 MiB, 4352 B.
pub(super) fn bytes(number: u64) -> String {
    match number {
        0 => "0 B".to_owned(),
        n if n % (1 << 20) == 0 => format!("{} MiB", n >> 20),
        n if n % (1 << 10) == 0 => format!("{} KiB", n >> 10),
        n => format!("{n} B"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_keep_three_digits() {
        let rows = [
            (0.0, "0.00"),
            (0.266, "0.27"),
            (9.994, "9.99"),
            (9.996, "10.0"),
            (61.23, "61.2"),
            (99.96, "100"),
            (1071.4, "1,071"),
            (-1234.5, "-1,235"),
            (f64::NAN, "—"),
            (f64::INFINITY, "—"),
        ];
        for (figure, text) in rows {
            assert_eq!(short(figure), text);
        }
        assert_eq!(optional(None), "—");
        assert_eq!(spread(61.23, Some(0.06)), "61.2 ± 0.1");
        assert_eq!(spread(117.26, Some(3.0)), "117.3 ± 3.0");
        assert_eq!(spread(0.5, None), "0.50");
        assert_eq!(microseconds(Some(341)), "0.34");
    }

    #[test]
    fn numbers_are_grouped_by_three() {
        let rows = [
            (0, "0"),
            (999, "999"),
            (1000, "1,000"),
            (-1_867_000, "-1,867,000"),
        ];
        for (number, text) in rows {
            assert_eq!(grouped(number), text);
        }
        assert_eq!(count(u64::MAX), "9,223,372,036,854,775,807");
    }

    #[test]
    fn sizes_are_written_in_the_unit_that_divides_them() {
        let rows = [
            (0, "0 B"),
            (4096, "4 KiB"),
            (1 << 20, "1 MiB"),
            (4352, "4352 B"),
        ];
        for (number, text) in rows {
            assert_eq!(bytes(number), text);
        }
    }
}
