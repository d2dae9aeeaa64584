//! A part of a whole.

use core::fmt;
use core::str::FromStr;

/// A part of a whole, more than nothing and less than all, in thousandths.
///
/// ```
/// use braidnet_lab::Share;
/// let share: Share = "0.8".parse()?;
/// assert_eq!((share.value(), share.to_string()), (0.8, "0.8".to_owned()));
/// assert!("1".parse::<Share>().is_err());
/// # Ok::<(), braidnet_lab::NoShare>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Share {
    thousandths: u16,
}

/// What was written is no [`Share`].
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("`{0}` is no share: write a number from 0.001 to 0.999, as in 0.8")]
pub struct NoShare(String);

impl Share {
    /// The share as a number between 0 and 1.
    pub fn value(self) -> f64 {
        f64::from(self.thousandths) / 1000.0
    }
}

impl FromStr for Share {
    type Err = NoShare;

    fn from_str(text: &str) -> Result<Share, NoShare> {
        let no = || NoShare(text.to_owned());
        let value: f64 = text.trim().parse().map_err(|_| no())?;
        let thousandths = (value * 1000.0).round();
        if (1.0..=999.0).contains(&thousandths) {
            Ok(Share {
                thousandths: thousandths as u16,
            })
        } else {
            Err(no())
        }
    }
}

impl fmt::Display for Share {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.value())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_read_as_people_write_them_and_nothing_else_is() {
        for (text, written) in [
            ("0.8", "0.8"),
            (".25", "0.25"),
            (" 0.0014 ", "0.001"),
            ("8e-1", "0.8"),
        ] {
            assert_eq!(text.parse::<Share>().unwrap().to_string(), written);
        }
        for text in [
            "", "0", "1", "0.0004", "0.9999", "-0.5", "80%", "NaN", "inf",
        ] {
            let sentence =
                format!("`{text}` is no share: write a number from 0.001 to 0.999, as in 0.8");
            assert_eq!(text.parse::<Share>().unwrap_err().to_string(), sentence);
        }
    }
}
