//! The rings that are shared with the kernel (`linux/if_xdp.h`): each has one producer and one consumer, of which this side is one.
//!
//! Both count what they have put in and taken out, in a word that only they write. Entries between the two counts are the consumer's, the others the producer's. Whoever
//! has written or read entries stores his count with release order, and the other loads it with acquire order, so that all between is plain.
//!
//! The kernel says that it wants to be called and then looks at the ring once more; this side tells it of entries and then looks whether it wants that. Of a store and a
//! load that follows only a fence makes an order: without it both could miss what the other has just said.

use crate::mapping::Mapping;
use core::sync::atomic::{AtomicU32, Ordering, fence};
use rustix::net::xdp::{XdpDesc, XdpRingOffset};
use std::io;
use std::marker::PhantomData;
use std::os::fd::BorrowedFd;

/// What rings hold: any bytes are one.
pub trait Entry: Copy {}
impl Entry for u64 {}
impl Entry for XdpDesc {}

/// `XDP_RING_NEED_WAKEUP`.
const NEED_WAKEUP: u32 = 1;

struct Shared {
    mapping: Mapping,
    producer: usize,
    consumer: usize,
    flags: Option<usize>,
    entries: usize,
    size: u32,
}

impl Shared {
    fn word(&self, offset: usize) -> &AtomicU32 {
        let word = self.mapping.at(offset, size_of::<AtomicU32>());
        // SAFETY: the kernel's words are aligned, lie in the mapping for as long as `self` does, and are only read and written as a whole by both sides.
        unsafe { AtomicU32::from_ptr(word.cast().as_ptr()) }
    }

    fn entry<T: Entry>(&self, count: u32) -> *mut T {
        let at = (count & (self.size - 1)) as usize * size_of::<T>();
        let entry = self.mapping.at(self.entries + at, size_of::<T>());
        entry.cast().as_ptr()
    }
}

/// A ring that this side fills.
pub struct Producer<T> {
    shared: Shared,
    /// What was put in, with what the kernel has not been told of.
    count: u32,
    /// What the kernel had taken out when it was last looked at.
    taken: u32,
    kind: PhantomData<T>,
}

/// A ring that this side empties.
pub struct Consumer<T> {
    shared: Shared,
    /// What was taken out, with what the kernel has not been told of.
    count: u32,
    /// What the kernel had put in when it was last looked at.
    there: u32,
    kind: PhantomData<T>,
}

/// The ring of `size` entries, a power of two, that a socket has at this offset.
fn map<T: Entry>(
    socket: BorrowedFd<'_>,
    offsets: XdpRingOffset,
    page: u64,
    size: u32,
) -> io::Result<Shared> {
    let bytes = offsets.desc as usize + size as usize * size_of::<T>();
    Ok(Shared {
        mapping: Mapping::of(socket, page, bytes)?,
        producer: offsets.producer as usize,
        consumer: offsets.consumer as usize,
        flags: offsets.flags.map(|offset| offset as usize),
        entries: offsets.desc as usize,
        size,
    })
}

impl<T: Entry> Producer<T> {
    pub fn of(
        socket: BorrowedFd<'_>,
        offsets: XdpRingOffset,
        page: u64,
        size: u32,
    ) -> io::Result<Producer<T>> {
        Ok(Producer {
            shared: map::<T>(socket, offsets, page, size)?,
            count: 0,
            taken: 0,
            kind: PhantomData,
        })
    }

    /// Puts an entry in, of which the kernel is not told yet; `false` if the ring is full.
    #[must_use]
    pub fn push(&mut self, entry: T) -> bool {
        if self.count.wrapping_sub(self.taken) == self.shared.size {
            self.taken = self.taken_now();
            if self.count.wrapping_sub(self.taken) == self.shared.size {
                return false;
            }
        }
        // SAFETY: the kernel has taken what was there, and looks at it again when it is told only.
        unsafe { self.shared.entry::<T>(self.count).write(entry) };
        self.count = self.count.wrapping_add(1);
        true
    }

    /// Puts in as many of these as there is room for, the last one first.
    pub fn take_from(&mut self, entries: &mut Vec<T>) {
        while let Some(entry) = entries.pop() {
            if !self.push(entry) {
                entries.push(entry);
                break;
            }
        }
    }

    /// Tells the kernel of all that was put in.
    pub fn publish(&mut self) {
        let producer = self.shared.word(self.shared.producer);
        producer.store(self.count, Ordering::Release);
    }

    /// Whether the kernel has taken all that it was told of.
    pub fn is_taken(&self) -> bool {
        self.taken_now() == self.count
    }

    /// Whether the kernel wants to be called for what it was told of.
    pub fn needs_wakeup(&self) -> bool {
        let Some(flags) = self.shared.flags else {
            return true;
        };
        fence(Ordering::SeqCst);
        self.shared.word(flags).load(Ordering::Relaxed) & NEED_WAKEUP != 0
    }

    fn taken_now(&self) -> u32 {
        let consumer = self.shared.word(self.shared.consumer);
        consumer.load(Ordering::Acquire)
    }
}

impl<T: Entry> Consumer<T> {
    pub fn of(
        socket: BorrowedFd<'_>,
        offsets: XdpRingOffset,
        page: u64,
        size: u32,
    ) -> io::Result<Consumer<T>> {
        Ok(Consumer {
            shared: map::<T>(socket, offsets, page, size)?,
            count: 0,
            there: 0,
            kind: PhantomData,
        })
    }

    /// The entry that waits longest, which stays there.
    pub fn front(&mut self) -> Option<T> {
        if self.count == self.there {
            self.there = self.there_now();
            if self.count == self.there {
                return None;
            }
        }
        // SAFETY: the kernel has put it there, and leaves it until it is told that it was taken.
        Some(unsafe { self.shared.entry::<T>(self.count).read() })
    }

    /// Takes it out; the kernel is not told yet.
    pub fn release(&mut self) {
        debug_assert_ne!(self.count, self.there, "something is in front");
        self.count = self.count.wrapping_add(1);
    }

    /// Tells the kernel of all that was taken out.
    pub fn publish(&mut self) {
        let consumer = self.shared.word(self.shared.consumer);
        consumer.store(self.count, Ordering::Release);
    }

    /// Whether something waits.
    pub fn is_waiting(&self) -> bool {
        self.there_now() != self.count
    }

    fn there_now(&self) -> u32 {
        let producer = self.shared.word(self.shared.producer);
        producer.load(Ordering::Acquire)
    }
}

/// Rings without a kernel, for tests that are it.
#[cfg(test)]
mod alone {
    use super::*;

    impl Shared {
        /// Memory of its own, which both have counted to `first`.
        pub fn alone<T: Entry>(size: u32, first: u32) -> Shared {
            let entries = 256;
            let shared = Shared {
                mapping: Mapping::anonymous(entries + size as usize * size_of::<T>())
                    .expect("memory"),
                producer: 0,
                consumer: 64,
                flags: Some(128),
                entries,
                size,
            };
            for offset in [shared.producer, shared.consumer] {
                shared.word(offset).store(first, Ordering::Relaxed);
            }
            shared
        }
    }

    impl<T: Entry> Producer<T> {
        pub fn alone(size: u32) -> Producer<T> {
            Producer::counting_from(size, 0)
        }

        pub fn counting_from(size: u32, first: u32) -> Producer<T> {
            Producer {
                shared: Shared::alone::<T>(size, first),
                count: first,
                taken: first,
                kind: PhantomData,
            }
        }

        /// What the kernel was told of.
        pub fn told(&self) -> u32 {
            self.shared
                .word(self.shared.producer)
                .load(Ordering::Relaxed)
        }

        /// The kernel says that it has taken so many more.
        pub fn kernel_takes(&self, entries: u32) {
            let consumer = self.shared.word(self.shared.consumer);
            let taken = consumer.load(Ordering::Relaxed).wrapping_add(entries);
            consumer.store(taken, Ordering::Release);
        }
    }

    impl<T: Entry> Consumer<T> {
        pub fn alone(size: u32) -> Consumer<T> {
            Consumer::counting_from(size, 0)
        }

        pub fn counting_from(size: u32, first: u32) -> Consumer<T> {
            Consumer {
                shared: Shared::alone::<T>(size, first),
                count: first,
                there: first,
                kind: PhantomData,
            }
        }

        /// What the kernel was told of.
        pub fn told(&self) -> u32 {
            self.shared
                .word(self.shared.consumer)
                .load(Ordering::Relaxed)
        }

        /// The kernel puts one in.
        pub fn kernel_puts(&self, entry: T) {
            let producer = self.shared.word(self.shared.producer);
            let there = producer.load(Ordering::Relaxed);
            // SAFETY: it lies in the mapping, and is the kernel's, which is the test.
            unsafe { self.shared.entry::<T>(there).write(entry) };
            producer.store(there.wrapping_add(1), Ordering::Release);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Counts begin shortly before they wrap.
    const FIRST: u32 = u32::MAX - 2;

    #[test]
    fn what_is_put_in_is_told_of_and_goes_no_further_than_what_was_taken() {
        let mut ring = Producer::<u64>::counting_from(4, FIRST);
        assert!(ring.is_taken());
        for number in 0..4 {
            assert!(ring.push(number));
        }
        assert!(!ring.push(4), "it is full");
        assert_eq!(ring.told(), FIRST);
        ring.publish();
        assert_eq!(ring.told(), FIRST.wrapping_add(4));
        assert!(!ring.is_taken());
        ring.kernel_takes(2);
        assert!(ring.push(4) && ring.push(5) && !ring.push(6));
        for (count, number) in (2..6).zip([2, 3, 4, 5]) {
            let entry = ring.shared.entry::<u64>(FIRST.wrapping_add(count));
            // SAFETY: it lies in the mapping, and nobody else has it.
            assert_eq!(unsafe { entry.read() }, number);
        }
        ring.kernel_takes(4);
        assert!(ring.is_taken());
        for (flags, expected) in [(0, false), (NEED_WAKEUP, true)] {
            ring.shared.word(128).store(flags, Ordering::Relaxed);
            assert_eq!(ring.needs_wakeup(), expected);
        }
    }

    #[test]
    fn what_has_no_room_waits_until_the_kernel_says_what_it_has_taken() {
        let mut ring = Producer::<u64>::counting_from(4, FIRST);
        let mut frames = vec![0, 1, 2, 3, 4, 5];
        ring.take_from(&mut frames);
        assert_eq!(frames, [0, 1]);
        ring.take_from(&mut frames);
        assert_eq!(frames, [0, 1], "it is still full");
        ring.kernel_takes(1);
        ring.take_from(&mut frames);
        assert_eq!(frames, [0]);
    }

    #[test]
    fn what_is_there_is_taken_once_and_in_order() {
        let mut ring = Consumer::<u64>::counting_from(4, FIRST);
        for number in 0..10 {
            assert!(!ring.is_waiting() && ring.front().is_none());
            let count = FIRST.wrapping_add(number);
            ring.kernel_puts(number.into());
            assert!(ring.is_waiting());
            assert_eq!(ring.front(), Some(number.into()));
            assert_eq!(ring.front(), Some(number.into()), "it stays there");
            ring.release();
            assert_eq!(ring.told(), count);
            ring.publish();
            assert_eq!(ring.told(), count.wrapping_add(1));
        }
    }
}
