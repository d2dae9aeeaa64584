//! Received data as the engine holds it, and a ledger of how much of it there is.

use crate::link::Packet;
use braidnet_tcp::Payload;
use std::cell::Cell;
use std::rc::Rc;

/// What the engine holds of received data.
#[derive(Default)]
pub struct Ledger {
    pub bytes: Cell<usize>,
    pub pieces: Cell<usize>,
}

/// Received data: a part of a packet.
pub struct Chunk {
    packet: Packet,
    start: usize,
    end: usize,
    ledger: Rc<Ledger>,
}

impl Chunk {
    pub fn new(packet: Packet, start: usize, ledger: &Rc<Ledger>) -> Chunk {
        let end = packet.len();
        ledger.bytes.set(ledger.bytes.get() + end - start);
        ledger.pieces.set(ledger.pieces.get() + 1);
        Chunk {
            packet,
            start,
            end,
            ledger: ledger.clone(),
        }
    }

    pub fn into_bytes(self) -> Vec<u8> {
        self.packet[self.start..self.end].to_vec()
    }
}

impl Drop for Chunk {
    fn drop(&mut self) {
        self.ledger.bytes.set(self.ledger.bytes.get() - self.len());
        self.ledger.pieces.set(self.ledger.pieces.get() - 1);
    }
}

impl Payload for Chunk {
    fn len(&self) -> usize {
        self.end - self.start
    }

    fn trim_front(&mut self, n: usize) {
        assert!(n <= self.len(), "trimmed {n} of {}", self.len());
        self.start += n;
        self.ledger.bytes.set(self.ledger.bytes.get() - n);
    }

    fn truncate(&mut self, n: usize) {
        assert!(n <= self.len(), "truncated to {n} of {}", self.len());
        self.ledger
            .bytes
            .set(self.ledger.bytes.get() - (self.len() - n));
        self.end = self.start + n;
    }
}
