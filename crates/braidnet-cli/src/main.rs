//! The `braidnet` command.

fn main() {}
