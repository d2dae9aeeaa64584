//! Small changes of a line of Rust that mean something else.

use std::fmt;

/// One change of one line.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Change {
    /// The line, counted from 0.
    pub line: usize,
    /// Where it begins in the line, in bytes.
    at: usize,
    from: String,
    to: String,
}

impl Change {
    /// The text with this change made.
    pub fn made_in(&self, text: &str) -> String {
        let made = |(number, line): (usize, &str)| {
            let mut line = line.to_owned();
            if number == self.line && line[self.at..].starts_with(&self.from) {
                line.replace_range(self.at..self.at + self.from.len(), &self.to);
            }
            line + "\n"
        };
        text.lines().enumerate().map(made).collect()
    }
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.to.is_empty() {
            true => write!(f, "without `{}`", self.from),
            false => write!(f, "`{}` for `{}`", self.to.trim(), self.from.trim()),
        }
    }
}

/// What stands for what. Spaces tell operators from brackets of types.
const WORDS: &[(&str, &str)] = &[
    (" < ", " <= "),
    (" <= ", " < "),
    (" > ", " >= "),
    (" >= ", " > "),
    (" == ", " != "),
    (" != ", " == "),
    (" && ", " || "),
    (" || ", " && "),
    (" + ", " - "),
    (" - ", " + "),
    (" * ", " + "),
    (" / ", " * "),
    (" += ", " -= "),
    (" -= ", " += "),
    (" |= ", " &= "),
    (" &= ", " |= "),
    (" << ", " >> "),
    (" >> ", " << "),
    ("true", "false"),
    ("false", "true"),
    (".is_before(", ".is_at_or_before("),
    (".is_at_or_before(", ".is_before("),
    (".is_after(", ".is_at_or_after("),
    (".is_at_or_after(", ".is_after("),
    (".earliest(", ".latest("),
    (".latest(", ".earliest("),
    (".min(", ".max("),
    (".max(", ".min("),
    (".is_some()", ".is_none()"),
    (".is_none()", ".is_some()"),
    (".saturating_add(", ".saturating_sub("),
    (".saturating_sub(", ".saturating_add("),
    ("if !", "if "),
    ("&& !", "&& "),
];

/// The changes of a line, of which `number` is the place in its file.
pub fn of_line(number: usize, line: &str) -> Vec<Change> {
    let code = line
        .find("//")
        .map_or(line, |comment| &line[..comment])
        .trim_end();
    let start = code.trim_start();
    if start.is_empty()
        || start.starts_with('#')
        || start.starts_with("debug_assert")
        || is_head(start)
    {
        return Vec::new();
    }
    let change = |at: usize, from: &str, to: &str| Change {
        line: number,
        at,
        from: from.to_owned(),
        to: to.to_owned(),
    };
    let mut all = Vec::new();
    for (from, to) in WORDS {
        all.extend(code.match_indices(from).map(|(at, _)| change(at, from, to)));
    }
    for (at, digits) in numbers(code) {
        if let Ok(value) = digits.replace('_', "").parse::<u64>() {
            all.push(change(at, digits, &(value + 1).to_string()));
        }
    }
    if let Some(condition) = start
        .strip_prefix("if ")
        .and_then(|rest| rest.strip_suffix(" {"))
        && !condition.contains("let ")
    {
        all.push(change(code.len() - start.len(), start, "if false {"));
    }
    let is_statement = start.ends_with(';')
        && !start.starts_with("let ")
        && !start.starts_with("const ")
        && !start.starts_with("return")
        && !start.starts_with('.')
        && !start.starts_with('}')
        && start.matches('(').count() == start.matches(')').count();
    if is_statement {
        all.push(change(code.len() - start.len(), start, ""));
    }
    all
}

/// The line that an item begins with, or one that says what is there.
fn is_head(line: &str) -> bool {
    let line = line.strip_prefix("pub").unwrap_or(line);
    let line = line
        .split_once(") ")
        .filter(|(visible, _)| visible.starts_with('('))
        .map_or(line, |(_, rest)| rest);
    [
        "fn ", "struct ", "enum ", "impl", "use ", "mod ", "trait ", "type ",
    ]
    .iter()
    .any(|word| line.trim_start().starts_with(word))
}

/// Decimal numbers and where they stand, but not parts of names, nor what follows `.` or `0x`.
fn numbers(code: &str) -> Vec<(usize, &str)> {
    let is_part = |letter: char| letter.is_ascii_alphanumeric() || letter == '_' || letter == '.';
    let mut all = Vec::new();
    let mut at = 0;
    while let Some(found) = code[at..].find(is_part) {
        let start = at + found;
        let len = code[start..]
            .find(|letter| !is_part(letter))
            .unwrap_or(code.len() - start);
        let word = &code[start..start + len];
        if word.starts_with(|letter: char| letter.is_ascii_digit())
            && word
                .chars()
                .all(|letter| letter.is_ascii_digit() || letter == '_')
        {
            all.push((start, word));
        }
        at = start + len;
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made(line: &str) -> Vec<String> {
        let all = of_line(0, line);
        all.iter()
            .map(|change| change.made_in(line).trim().to_owned())
            .collect()
    }

    #[test]
    fn lines_are_changed_in_each_way() {
        let rows: [(&str, &[&str]); 9] = [
            ("if a <= b {", &["if a < b {", "if false {"]),
            (
                "x += 17; // 3 < 4",
                &["x -= 17; // 3 < 4", "x += 18; // 3 < 4", " // 3 < 4"],
            ),
            (
                "a.min(b).is_before(c)",
                &["a.min(b).is_at_or_before(c)", "a.max(b).is_before(c)"],
            ),
            ("let v: Vec<u8> = x0.y1;", &[]),
            ("pub(crate) fn f(a: u32) -> bool {", &[]),
            ("debug_assert!(a < b);", &[]),
            ("self.ack_now = true;", &["self.ack_now = false;", ""]),
            ("const LEAST: u16 = 1_000;", &["const LEAST: u16 = 1001;"]),
            ("State::Closing | State::LastAck => Events::empty(),", &[]),
        ];
        for (line, expected) in rows {
            let expected: Vec<&str> = expected.iter().map(|line| line.trim()).collect();
            assert_eq!(made(line), expected, "{line}");
        }
    }

    #[test]
    fn only_the_line_is_changed() {
        let text = "a < b\na < b\n";
        let change = &of_line(1, "a < b")[0];
        assert_eq!(change.made_in(text), "a < b\na <= b\n");
    }
}
