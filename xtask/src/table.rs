//! Tables in pages, read as text.

/// The cells of a table's row; `None` for any other line.
pub fn cells(line: &str) -> Option<impl Iterator<Item = &str>> {
    let row = line.strip_prefix('|')?.trim_end().trim_end_matches('|');
    Some(row.split(" |").map(str::trim))
}

/// What stands between backquotes.
pub fn quoted(cell: &str) -> impl Iterator<Item = &str> {
    cell.split('`').skip(1).step_by(2)
}
