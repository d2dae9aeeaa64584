//! Room for headers in front of a message.

use braidnet_message::{Checksum, Message, Pool};
use braidnet_wire::{ethernet, ipv4};

/// Room in front of a message that starts here: IPv4 and Ethernet headers, and some to spare.
pub(crate) const HEADROOM: usize = 64;

/// Grows `message` by `len` bytes at its front, to be written: in place where its first block may be written and has the
/// room, in a block of its own in front of it otherwise. `None`, and nothing done, if the pool is exhausted.
///
/// The new block takes the message's bucket, connection and the like over, and leaves its note behind: read it before.
#[inline(always)]
pub(crate) fn prepend<'a>(
    message: &'a mut Message,
    len: usize,
    pool: &mut Pool,
) -> Option<&'a mut [u8]> {
    if len <= message.headroom() && message.owns_headroom() {
        return message.prepend(len);
    }
    put_in_front(message, len, pool)
}

/// Whether the headers of IP and the link will stand in one block with a transport's of `len` bytes.
pub(crate) fn is_for_all(message: &Message, len: usize) -> bool {
    let is_in_place = len <= message.headroom() && message.owns_headroom();
    let below = ipv4::MIN_HEADER_LEN + ethernet::HEADER_LEN;
    !is_in_place || len + below <= message.headroom()
}

#[cold]
#[inline(never)]
fn put_in_front<'a>(message: &'a mut Message, len: usize, pool: &mut Pool) -> Option<&'a mut [u8]> {
    debug_assert_ne!(
        message.checksum(),
        Checksum::Partial,
        "a device finds no headers"
    );
    let mut front = pool.allocate(HEADROOM, len)?;
    front.set_kind(message.kind());
    front.set_band(message.band());
    front.set_bucket(message.bucket());
    front.set_connection(message.connection());
    front.set_position(message.position());
    front.set_ticket(message.ticket());
    front.set_device(message.device());
    let payload = core::mem::replace(message, front);
    message.push_continuation(payload);
    message.append(len)
}

/// Takes the first `len` bytes off `from`, which has as many, and copies them into a block of their own with room for headers in front. `None`, and nothing done, if the
/// pool is exhausted.
pub(crate) fn copy_off(from: &mut Message, len: usize, pool: &mut Pool) -> Option<Message> {
    let mut copy = pool.allocate(HEADROOM, len)?;
    from.read(copy.append(len)?, pool);
    Some(copy)
}

/// Bytes of memory in the blocks of a message, however few of them it uses.
pub(crate) fn footprint(message: &Message) -> usize {
    let blocks = core::iter::successors(Some(message), |block| block.continuation());
    blocks
        .map(|block| block.headroom() + block.len() + block.tailroom())
        .sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use braidnet_message::Arena;

    #[test]
    fn headers_go_in_place_or_into_a_block_of_their_own() {
        let mut pool = Pool::new(&Arena::new(1 << 20));
        for (headroom, shared, blocks) in [(8, false, 1), (7, false, 2), (8, true, 2)] {
            let mut message = pool.copy_from_slice(headroom, b"payload").unwrap();
            assert_eq!(message.headroom(), headroom);
            message.set_bucket(7);
            message.set_connection(9);
            let other = shared.then(|| message.share(&mut pool).unwrap());
            prepend(&mut message, 8, &mut pool)
                .unwrap()
                .copy_from_slice(b"a header");
            let bytes: Vec<u8> = message.blocks().flatten().copied().collect();
            assert_eq!(bytes, b"a headerpayload", "{headroom} {shared}");
            assert_eq!(message.blocks().count(), blocks, "{headroom} {shared}");
            assert_eq!((message.bucket(), message.connection()), (7, 9));
            assert!(other.is_none_or(|other| other.bytes() == b"payload"));
        }
    }
}
