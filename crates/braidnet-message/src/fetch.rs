//! Bringing bytes near before they are needed: of messages that another processor has made, and of those that are read next.

use crate::message::Message;
use crate::node::{NODE_SIZE, Node};
use core::ptr::NonNull;

/// Bytes of a cache line.
const LINE: usize = 64;

/// Messages between the first look at one and the second, for which its node must have come.
const DISTANCE: usize = 8;

/// Begins to bring what `messages` are made of into this processor's cache, to be written: their nodes, the beginning of
/// their bytes, and the nodes behind the first.
///
/// Messages that another processor has made lie in its cache, half a dozen lines each. Whoever works on one after the other
/// waits for each of these lines in turn; asked for together, they come together.
pub fn fetch(messages: &[Message]) {
    for message in messages.iter().take(DISTANCE) {
        fetch_node(message.as_node());
    }
    for (index, message) in messages.iter().enumerate() {
        if let Some(ahead) = messages.get(index + DISTANCE) {
            fetch_node(ahead.as_node());
        }
        fetch_line(message.bytes().as_ptr());
        if let Some(next) = message.node().next() {
            fetch_node(next);
        }
    }
}

/// Lines at the beginning of a block that are asked for ahead: the processor finds by itself that the others follow.
const FRONT: usize = 4;

/// Begins to bring the first bytes of a message near, to be read next. Of blocks of one segment each, whoever reads them one
/// after the other else waits for the beginning of every one.
#[inline(always)]
pub(crate) fn look_ahead(message: &Message) {
    look_ahead_at(message.node());
}

/// The same for a block of a chain.
#[inline(always)]
pub(crate) fn look_ahead_at(node: &Node) {
    let first = node.bytes().as_ptr();
    for line in 0..FRONT {
        let at = first.wrapping_add(line * LINE);
        #[cfg(all(target_arch = "x86_64", not(miri)))]
        // SAFETY: a hint, which reads and writes nothing and faults at no address.
        unsafe {
            core::arch::asm!("prefetcht0 [{0}]", in(reg) at, options(nostack, preserves_flags));
        }
        #[cfg(not(all(target_arch = "x86_64", not(miri))))]
        let _ = at;
    }
}

/// All of a node.
#[inline]
fn fetch_node(node: NonNull<Node>) {
    for line in 0..NODE_SIZE / LINE {
        fetch_line(node.as_ptr().cast::<u8>().wrapping_add(line * LINE));
    }
}

/// One line, to be written. A processor that knows no such request passes it over, and only x86 is asked.
#[inline(always)]
fn fetch_line(at: *const u8) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    // SAFETY: a hint, which reads and writes nothing and faults at no address.
    unsafe {
        core::arch::asm!("prefetchw [{0}]", in(reg) at, options(nostack, preserves_flags));
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    let _ = at;
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Arena, Pool, Run};

    #[test]
    fn fetched_messages_are_what_they_were() {
        let mut pool = Pool::new(&Arena::new(1 << 20));
        let mut pool = pool.bind();
        for count in [0, 1, DISTANCE - 1, DISTANCE, DISTANCE + 1, 3 * DISTANCE] {
            let run: Run = (0..count)
                .map(|index| {
                    let mut message = pool.copy_from_slice(64, &[index as u8]).expect("room");
                    if index % 2 == 1 {
                        message.push_continuation(pool.view_static(b"rest").expect("room"));
                    }
                    message
                })
                .collect();
            fetch(run.as_slice());
            for (index, message) in run.iter().enumerate() {
                assert_eq!(message.bytes(), [index as u8]);
                assert_eq!(message.total_len(), 1 + 4 * (index % 2));
            }
        }
    }
}
