//! The caller-turned stack as its user sees it: two of them on a wire, in virtual time.
//!
//! | what | where |
//! |---|---|
//! | two stacks, and a wire that loses, doubles and delays | [`pair`], [`wire`] |
//! | who is let in, and who waits | [`accepting`] |
//! | how connections begin and end | [`lives`] |
//! | bytes, windows, bad wires | [`bytes`] |
//! | datagrams | [`datagrams`] |
//! | what is dropped, in a capture | [`drops`] |
//! | data on SYNs | [`fast_open`] |
//! | memory that is used up | [`memory`] |
//! | when turns are due, and on which thread | [`turns`] |

mod accepting;
mod bytes;
mod datagrams;
mod drops;
mod fast_open;
mod lives;
mod memory;
mod pair;
mod turns;
mod wire;
