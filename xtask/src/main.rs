//! Checks and generators of the braidnet workspace.

fn main() {}
