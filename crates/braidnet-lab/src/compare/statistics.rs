//! What repetitions of one cell say together.

use serde::Serialize;

/// A sample in five figures.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize)]
pub struct Summary {
    /// The one in the middle; of an even number, the mean of the two in the middle.
    pub median: f64,
    /// The least.
    pub min: f64,
    /// The greatest.
    pub max: f64,
    /// The arithmetic mean.
    pub mean: f64,
    /// Half the width of the 90 % confidence interval of the mean, by Student's t: the interval is `mean` ± `ci90`. None of
    /// fewer than two.
    pub ci90: Option<f64>,
}

impl Summary {
    /// The summary of a sample; none of an empty one.
    pub fn of(sample: &[f64]) -> Option<Summary> {
        let (first, last) = (sample.first()?, sample.len() - 1);
        let count = sample.len() as f64;
        let mean = sample.iter().sum::<f64>() / count;
        let ci90 = (last > 0).then(|| {
            let squares: f64 = sample.iter().map(|figure| (figure - mean).powi(2)).sum();
            student_t95(last) * (squares / last as f64 / count).sqrt()
        });
        Some(Summary {
            median: median(sample)?,
            min: sample.iter().copied().fold(*first, f64::min),
            max: sample.iter().copied().fold(*first, f64::max),
            mean,
            ci90,
        })
    }

    /// From where to where the true figure lies with 90 % confidence, and the median in any case; of a single figure, that
    /// figure.
    pub fn interval(&self) -> (f64, f64) {
        let half = self.ci90.unwrap_or(0.0);
        (
            (self.mean - half).min(self.median),
            (self.mean + half).max(self.median),
        )
    }
}

/// The median of a sample; none of an empty one.
pub(super) fn median(sample: &[f64]) -> Option<f64> {
    let mut sorted = sample.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    let upper = *sorted.get(middle)?;
    if sorted.len() % 2 == 1 {
        return Some(upper);
    }
    Some((sorted[middle - 1] + upper) / 2.0)
}

/// First quartile, median and third quartile of a sample, by interpolation between neighbours; none of an empty one.
pub(super) fn quartiles(sample: &[f64]) -> Option<[f64; 3]> {
    let mut sorted = sample.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    let last = sorted.len().checked_sub(1)?;
    Some([0.25, 0.5, 0.75].map(|part| {
        let place = part * last as f64;
        let (below, above) = (
            sorted[place.floor() as usize],
            sorted[place.ceil() as usize],
        );
        below + (above - below) * place.fract()
    }))
}

/// What Student's t stays below with probability 0.95, which makes a two-sided interval of 90 %, for so many degrees of
/// freedom, at least one.
fn student_t95(freedom: usize) -> f64 {
    const TABLE: [f64; 30] = [
        6.314, 2.920, 2.353, 2.132, 2.015, 1.943, 1.895, 1.860, 1.833, 1.812, 1.796, 1.782, 1.771,
        1.761, 1.753, 1.746, 1.740, 1.734, 1.729, 1.725, 1.721, 1.717, 1.714, 1.711, 1.708, 1.706,
        1.703, 1.701, 1.699, 1.697,
    ];
    const NORMAL: f64 = 1.644_853_6;
    match TABLE.get(freedom.saturating_sub(1)) {
        Some(&quantile) => quantile,
        // Cornish and Fisher's expansion about the normal quantile (Abramowitz and Stegun 26.7.5), right to four places here.
        None => {
            let freedom = freedom as f64;
            let cubed = NORMAL.powi(3);
            NORMAL
                + (cubed + NORMAL) / (4.0 * freedom)
                + (5.0 * NORMAL.powi(5) + 16.0 * cubed + 3.0 * NORMAL) / (96.0 * freedom.powi(2))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn close(left: f64, right: f64) -> bool {
        (left - right).abs() <= 1e-3 * right.abs().max(1.0)
    }

    #[test]
    fn a_sample_is_summed_up_as_in_the_books() {
        // Mean 6, standard deviation 3.1623, standard error 1.4142, t(4) 2.132.
        let summary = Summary::of(&[2.0, 4.0, 6.0, 8.0, 10.0]).expect("five figures");
        assert_eq!(
            (summary.median, summary.min, summary.max, summary.mean),
            (6.0, 2.0, 10.0, 6.0)
        );
        assert!(
            close(summary.ci90.expect("an interval"), 3.0151),
            "{summary:?}"
        );
        assert_eq!(Summary::of(&[]), None);
        let single = Summary::of(&[3.0]).expect("one figure");
        assert_eq!((single.ci90, single.interval()), (None, (3.0, 3.0)));
        assert_eq!(median(&[4.0, 1.0, 3.0, 2.0]), Some(2.5));
        assert_eq!(quartiles(&[5.0, 1.0, 2.0, 4.0, 3.0]), Some([2.0, 3.0, 4.0]));
        assert_eq!(quartiles(&[1.0, 2.0]), Some([1.25, 1.5, 1.75]));
        assert_eq!(quartiles(&[]), None);
    }

    #[test]
    fn quantiles_beyond_the_table_go_on_as_the_table_ends() {
        // From a table of Student's t: 31, 40, 60, 120 degrees of freedom.
        for (freedom, quantile) in [(31, 1.6955), (40, 1.6839), (60, 1.6706), (120, 1.6577)] {
            assert!(close(student_t95(freedom), quantile), "{freedom}");
        }
    }

    proptest! {
        #[test]
        fn the_figures_of_a_summary_are_in_order(
            sample in prop::collection::vec(0.0..1000.0f64, 1..40),
        ) {
            let summary = Summary::of(&sample).expect("not empty");
            prop_assert!(summary.min <= summary.median && summary.median <= summary.max);
            let (low, high) = summary.interval();
            prop_assert!(low <= summary.median && summary.median <= high);
            prop_assert!(low <= summary.mean && summary.mean <= high);
        }

        #[test]
        fn the_order_of_repetitions_says_nothing(
            sample in prop::collection::vec(0.0..1000.0f64, 1..40),
        ) {
            let mut reversed = sample.clone();
            reversed.reverse();
            let one = Summary::of(&sample).expect("not empty");
            let other = Summary::of(&reversed).expect("not empty");
            prop_assert_eq!(one.median, other.median);
            prop_assert!(close(one.mean, other.mean));
        }
    }
}
