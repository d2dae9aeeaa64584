//! The sum of what arrived.

use braidnet_message::Message;
use braidnet_wire::checksum::Sum;

/// The sum of all bytes of `message`, read here and now: a sum that came with the message is what its sender thinks.
#[inline(always)]
pub(crate) fn read(message: &Message) -> Sum {
    if message.len() == message.total_len() {
        Sum::of(message.bytes())
    } else {
        read_blocks(message)
    }
}

#[inline(never)]
fn read_blocks(message: &Message) -> Sum {
    let mut sum = Sum::default();
    let mut offset = 0;
    for block in message.blocks() {
        sum = sum.then(Sum::of(block), offset);
        offset += block.len();
    }
    sum
}
