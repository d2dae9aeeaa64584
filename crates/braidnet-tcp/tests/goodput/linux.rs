//! The grid beside what Linux reaches at the same points.

use crate::grid;

const LINUX: &str = include_str!("linux.txt");

/// The goodput at a point: the line above its table, and its row and column.
type Point = (String, usize, usize);

/// What a table gives for each point. `every` is how many numbers there are for each.
fn points(text: &str, every: usize) -> Vec<(Point, f64)> {
    let mut found = Vec::new();
    let (mut table, mut row) = (None, 0);
    for line in text.lines() {
        if line.contains(", round trip ") {
            (table, row) = (Some(line), 0);
        } else if line.is_empty() {
            table = None;
        }
        let numbers = line.split_whitespace().filter_map(|word| word.parse().ok());
        let numbers: Vec<f64> = numbers.collect();
        if let (Some(table), [_, goodputs @ ..]) = (table, &numbers[..])
            && line.starts_with(' ')
            && !line.contains("loss")
        {
            for (column, goodput) in goodputs.iter().step_by(every).enumerate() {
                found.push(((table.to_owned(), row, column), *goodput));
            }
            row += 1;
        }
    }
    found
}

/// Nowhere much less than Linux, and as much on the whole. One run over few losses says little, so that much lies between the two bounds.
#[test]
fn as_much_as_linux_reaches() {
    let ours = points(&grid(), 2);
    let linux = points(LINUX, 1);
    assert_eq!(ours.len(), 216);
    assert_eq!(linux.len(), ours.len());
    for control in ["cubic", "new-reno", "bbr"] {
        let mut ratios = Vec::new();
        for ((point, ours), (same, linux)) in ours.iter().zip(&linux) {
            assert_eq!(point, same);
            if point.0.starts_with(control) {
                assert!(*ours >= 0.5 * linux, "{point:?}: {ours}, Linux {linux}");
                ratios.push(ours / linux);
            }
        }
        ratios.sort_by(f64::total_cmp);
        let median = ratios[ratios.len() / 2];
        assert!(median >= 0.95, "{control}: {median} of Linux");
    }
}
