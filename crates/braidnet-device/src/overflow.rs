//! Where a packet goes on that is longer than the wire's.

use braidnet_message::{Message, Pool};

/// The longest packet that stands for several segments: what IP allows, and a link header.
const WHOLE_MAX: usize = 65_535 + 18;

/// Less than this is copied out of the buffer, lest one for the longest packet be kept for little.
const WORTH_KEEPING: usize = 16 << 10;

/// A buffer behind the one for a packet of the wire's length: for whatever a packet of many segments has more.
///
/// The system cuts a packet that finds no room, and nobody hears of it. So there is always one, and it is handed up only when there is another.
pub struct Overflow {
    /// Bytes that lie in front of it.
    room: usize,
    block: Option<Message>,
}

impl Overflow {
    /// What overflows a buffer of `room` bytes.
    pub fn behind(room: usize) -> Overflow {
        Overflow { room, block: None }
    }

    /// Whether there is a buffer; takes one from `pool` if need be.
    pub fn is_ready(&mut self, pool: &mut Pool) -> bool {
        if self.block.is_none() {
            self.block = self.allocate(pool);
        }
        self.block.is_some()
    }

    /// All of it, to be written; nothing if it is not [ready](Overflow::is_ready).
    pub fn buffer(&mut self) -> &mut [u8] {
        let room = WHOLE_MAX.saturating_sub(self.room);
        let Some(block) = &mut self.block else {
            return &mut [];
        };
        block.truncate(0);
        block.append(room).unwrap_or_default()
    }

    /// Of a packet of `length` bytes, which begins in `front` and goes on here, all but the first `first`, in one block; `None` if there is no buffer.
    pub fn rest(
        &mut self,
        front: &Message,
        first: usize,
        length: usize,
        pool: &mut Pool,
    ) -> Option<Message> {
        let front = &front.bytes()[first..length.min(front.len())];
        let behind = length.saturating_sub(self.room);
        let total = front.len() + behind;
        if total >= WORTH_KEEPING {
            if !self.is_ready(pool) {
                return None;
            }
            let mut rest = self.block.replace(self.allocate(pool)?)?;
            rest.truncate(behind);
            rest.prepend(front.len())?.copy_from_slice(front);
            return Some(rest);
        }
        let mut copy = pool.allocate(0, total)?;
        copy.append(front.len())?.copy_from_slice(front);
        if behind > 0 {
            let block = self.block.as_ref()?;
            copy.append(behind)?
                .copy_from_slice(&block.bytes()[..behind]);
        }
        Some(copy)
    }

    /// With room in front for what a packet's first buffer holds beside its first segment.
    fn allocate(&self, pool: &mut Pool) -> Option<Message> {
        pool.allocate(self.room, WHOLE_MAX.saturating_sub(self.room))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use braidnet_message::Arena;

    #[test]
    fn a_long_packet_that_never_overflows_has_a_buffer_too() {
        let mut pool = Pool::new(&Arena::new(16 << 20));
        let mut overflow = Overflow::behind(64 << 10);
        let bytes: Vec<u8> = (0..20_000).map(|at| (at % 251) as u8).collect();
        let front = pool.copy_from_slice(0, &bytes).expect("room");
        for _ in 0..2 {
            let rest = overflow.rest(&front, 1000, bytes.len(), &mut pool);
            assert!(rest.expect("a buffer").bytes() == &bytes[1000..]);
        }
    }
}
