//! What the crate's tests share: a payload of bytes.

use crate::Payload;

/// A payload that owns its bytes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Bytes(pub(crate) Vec<u8>);

impl Payload for Bytes {
    fn len(&self) -> usize {
        self.0.len()
    }

    fn trim_front(&mut self, n: usize) {
        self.0.drain(..n);
    }

    fn truncate(&mut self, n: usize) {
        self.0.truncate(n);
    }
}
