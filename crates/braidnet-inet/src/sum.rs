//! The sum of what arrived.

use braidnet_message::Message;
use braidnet_wire::checksum::Sum;

/// The sum of all bytes of `message`, read here and now: a sum that came with the message is what its sender thinks.
#[inline]
pub(crate) fn read(message: &Message) -> Sum {
    let mut sum = Sum::of(message.bytes());
    let mut offset = message.len();
    if offset != message.total_len() {
        for block in message.blocks().skip(usize::from(!message.is_empty())) {
            sum = sum.then(Sum::of(block), offset);
            offset += block.len();
        }
    }
    sum
}
