use super::*;
use crate::{DropReason, RECEIVE_HEADROOM};
use braidnet_message::{Arena, Kind, Message, Pool, Run};
use braidnet_sync::parker::{Parker, Wake};
use proptest::collection::vec;
use proptest::prelude::*;
use std::collections::VecDeque;

fn pool() -> Pool {
    Pool::new(&Arena::new(16 << 20))
}

fn open(end: WireEnd) -> QueuePair {
    Box::new(end).open().expect("a wire opens").remove(0)
}

fn packet(pool: &mut Pool, number: u32) -> Message {
    pool.copy_from_slice(RECEIVE_HEADROOM, &number.to_be_bytes())
        .expect("room in the pool")
}

fn packets(pool: &mut Pool, numbers: impl IntoIterator<Item = u32>) -> Run {
    numbers
        .into_iter()
        .map(|number| packet(pool, number))
        .collect()
}

fn numbers(run: &Run) -> Vec<u32> {
    run.iter()
        .map(|message| u32::from_be_bytes(message.bytes().try_into().expect("four bytes")))
        .collect()
}

#[test]
fn a_full_ring_leaves_the_rest_in_order() {
    let mut pool = pool();
    let (near, far) = wire(Capabilities::ip(1500), 4);
    let (mut near, mut far) = (open(near), open(far));
    let mut run = packets(&mut pool, 0..7);
    near.transmitter.transmit(&mut run);
    assert_eq!(numbers(&run), [4, 5, 6]);
    near.transmitter.transmit(&mut run);
    assert_eq!(numbers(&run), [4, 5, 6]);

    let mut got = Run::new();
    assert_eq!(far.receiver.receive(&mut pool, &mut got, 2), 2);
    near.transmitter.transmit(&mut run);
    assert_eq!(numbers(&run), [6]);
    assert_eq!(far.receiver.receive(&mut pool, &mut got, 9), 4);
    assert_eq!(numbers(&got), [0, 1, 2, 3, 4, 5]);
    assert_eq!(far.receiver.receive(&mut pool, &mut got, 9), 0);
    assert_eq!(
        (
            near.transmitter.counters().packets,
            far.receiver.counters().packets
        ),
        (6, 6)
    );
    assert_eq!(
        (
            near.transmitter.counters().bytes,
            far.receiver.counters().bytes
        ),
        (24, 24)
    );
}

#[test]
fn what_can_never_leave_is_dropped_by_name_and_takes_no_room() {
    let mut pool = pool();
    let (near, far) = wire(Capabilities::ip(100), 2);
    let (mut near, mut far) = (open(near), open(far));
    let mut run = Run::new();
    for length in [100, 101, 0, 4, 101, 5] {
        run.push(
            pool.copy_from_slice(0, &vec![7; length])
                .expect("room in the pool"),
        );
    }
    near.transmitter.transmit(&mut run);
    assert_eq!(run.iter().map(Message::len).collect::<Vec<_>>(), [101, 5]);
    let mut got = Run::new();
    far.receiver.receive(&mut pool, &mut got, 9);
    assert_eq!(got.iter().map(Message::len).collect::<Vec<_>>(), [100, 4]);
    near.transmitter.transmit(&mut run);
    assert!(run.is_empty());
    let counters = near.transmitter.counters();
    assert_eq!(
        counters.drops().collect::<Vec<_>>(),
        [
            (DropReason::TransmitOversize, 2),
            (DropReason::TransmitEmpty, 1)
        ]
    );
}

#[test]
fn the_pointer_passes_and_the_metadata_does_not() {
    let mut pool = pool();
    let (near, far) = wire(Capabilities::ip(1500), 4);
    let (mut near, mut far) = (open(near), open(far));
    let mut message = packet(&mut pool, 1);
    let mut payload = packet(&mut pool, 2);
    payload.set_sum(Some(payload.block_sum()));
    message.push_continuation(payload);
    message.push_continuation(packet(&mut pool, 3));
    message.set_kind(Kind::Control);
    message.set_band(1);
    message.set_bucket(2);
    message.set_connection(3);
    message.set_position(4);
    message.set_ticket(5);
    message.set_segment_bytes(6);
    message.set_sum(Some(message.block_sum()));
    let place = message.bytes().as_ptr();
    let mut run = Run::from_iter([message]);
    near.transmitter.transmit(&mut run);
    far.receiver.receive(&mut pool, &mut run, 1);
    let got = &run.as_slice()[0];
    assert_eq!(got.bytes().as_ptr(), place);
    assert_eq!(got.blocks().map(<[u8]>::len).collect::<Vec<_>>(), [4, 4, 4]);
    assert_eq!(got.total_len(), 12);
    assert_eq!((got.kind(), got.band(), got.bucket()), (Kind::Data, 0, 0));
    assert_eq!((got.connection(), got.position(), got.ticket()), (0, 0, 0));
    assert_eq!(got.segment_bytes(), 0);
    let mut block = Some(got);
    while let Some(message) = block {
        assert_eq!(message.sum(), None);
        block = message.continuation();
    }
}

#[test]
fn a_copying_end_gives_one_block_of_its_own_pool() {
    let mut pool = pool();
    let (near, far) = wire(Capabilities::ip(1500), 4);
    let (mut near, mut far) = (open(near), open(far.copying()));
    let mut message = packet(&mut pool, 1);
    message.push_continuation(packet(&mut pool, 2));
    let place = message.bytes().as_ptr();
    let mut run = Run::from_iter([message]);
    near.transmitter.transmit(&mut run);

    let mut spent = Pool::new(&Arena::new(0));
    assert_eq!(
        far.receiver.receive(&mut spent, &mut run, 4),
        0,
        "no buffer: the packet waits"
    );
    assert!(!far.receiver.is_gone());
    assert_eq!(far.receiver.receive(&mut pool, &mut run, 4), 1);
    let got = &run.as_slice()[0];
    assert_eq!(got.bytes(), [0, 0, 0, 1, 0, 0, 0, 2]);
    assert_ne!(got.bytes().as_ptr(), place);
    assert!(got.headroom() >= RECEIVE_HEADROOM && got.is_unique());
    assert_eq!(far.receiver.counters().packets, 1);
}

#[test]
fn queues_do_not_mix() {
    let mut pool = pool();
    let (near, far) = wire(Capabilities::ip(1500).with_queues(3), 4);
    assert_eq!(near.capabilities().queues, 3);
    let mut near = Box::new(near).open().expect("a wire opens");
    let mut far = Box::new(far).open().expect("a wire opens");
    assert_eq!((near.len(), far.len()), (3, 3));
    for (number, pair) in near.iter_mut().enumerate() {
        pair.transmitter
            .transmit(&mut packets(&mut pool, [number as u32]));
    }
    for (number, pair) in far.iter_mut().enumerate() {
        let mut got = Run::new();
        pair.receiver.receive(&mut pool, &mut got, 9);
        assert_eq!(numbers(&got), [number as u32]);
    }
}

#[test]
fn ethernet_ends_have_different_addresses() {
    let address = crate::MacAddress([2, 0, 0, 0, 0, 1]);
    let (near, far) = wire(Capabilities::ethernet(address, 1500), 4);
    assert_eq!(near.capabilities().medium, Medium::Ethernet { address });
    assert_ne!(near.capabilities().medium, far.capabilities().medium);
    assert_eq!(
        (
            near.capabilities().packet_max(),
            far.capabilities().packet_max()
        ),
        (1518, 1518)
    );
}

#[test]
fn an_end_that_is_gone_is_noticed() {
    let mut pool = pool();
    let (near, far) = wire(Capabilities::ip(1500), 4);
    let (mut near, mut far) = (open(near), open(far));
    near.transmitter.transmit(&mut packets(&mut pool, [1]));
    let QueuePair {
        receiver,
        transmitter,
    } = near;
    assert!(!far.receiver.is_gone());
    let another = transmitter.another().expect("another handle");
    drop((receiver, transmitter));
    assert!(!far.receiver.is_gone(), "one transmitter is left");
    drop(another);
    assert!(!far.receiver.is_gone(), "a packet is left");
    let mut run = Run::new();
    assert_eq!(far.receiver.receive(&mut pool, &mut run, 4), 1);
    assert!(far.receiver.is_gone());
    far.transmitter.transmit(&mut run);
    assert!(run.is_empty());
    assert_eq!(
        far.transmitter.counters().dropped(DropReason::DeviceGone),
        1
    );
}

#[test]
fn a_full_ring_that_nobody_empties_any_more_takes_everything() {
    let mut pool = pool();
    let (near, far) = wire(Capabilities::ip(1500), 2);
    let mut near = open(near);
    let mut run = packets(&mut pool, 0..3);
    near.transmitter.transmit(&mut run);
    drop(far);
    near.transmitter.transmit(&mut run);
    assert!(run.is_empty());
    assert_eq!(
        near.transmitter.counters().dropped(DropReason::DeviceGone),
        1
    );
}

#[test]
fn a_sleeping_receiver_is_woken_by_packets_and_by_the_end() {
    let at_most = std::time::Duration::from_secs(60);
    let mut pool = pool();
    let (near, far) = wire(Capabilities::ip(1500), 4);
    let (mut near, mut far) = (open(near), open(far));
    let mut parker = Parker::new();
    assert!(far.receiver.wake_with(parker.unparker()));

    let announced = parker.announce();
    assert!(!far.receiver.has_waiting());
    near.transmitter.transmit(&mut packets(&mut pool, [1]));
    assert!(far.receiver.has_waiting());
    assert_eq!(announced.park_timeout(at_most), Wake::Unparked);

    let mut other = Parker::new();
    assert!(far.receiver.wake_with(other.unparker()));
    let (first, second) = (parker.announce(), other.announce());
    near.transmitter.transmit(&mut packets(&mut pool, [2]));
    assert!(!first.cancel(), "replaced");
    assert!(second.cancel());

    let announced = other.announce();
    drop(near);
    assert_eq!(announced.park_timeout(at_most), Wake::Unparked);
    far.receiver.receive(&mut pool, &mut Run::new(), 4);
    assert!(far.receiver.is_gone() && !far.receiver.has_waiting());
}

#[test]
fn transmitters_of_several_processors_keep_each_processors_order() {
    const EACH: u32 = if cfg!(miri) { 50 } else { 20_000 };
    let (near, far) = wire(Capabilities::ip(1500), 64);
    let (near, mut far) = (open(near), open(far));
    let transmitters = [near.transmitter.another(), near.transmitter.another()];
    std::thread::scope(|scope| {
        for (processor, transmitter) in (0u32..).zip(transmitters) {
            let mut transmitter = transmitter.expect("another handle");
            scope.spawn(move || {
                let mut pool = pool();
                let mut pool = pool.bind();
                let mut run = Run::new();
                for number in 0..EACH {
                    run.push(packet(&mut pool, processor << 16 | number));
                    transmitter.transmit(&mut run);
                    while run.len() > 8 {
                        std::thread::yield_now();
                        transmitter.transmit(&mut run);
                    }
                }
                while !run.is_empty() {
                    std::thread::yield_now();
                    transmitter.transmit(&mut run);
                }
            });
        }
        let mut pool = pool();
        let mut pool = pool.bind();
        let mut next = [0, 0];
        let mut run = Run::new();
        while next != [EACH, EACH] {
            if far.receiver.receive(&mut pool, &mut run, 32) == 0 {
                std::thread::yield_now();
            }
            for number in numbers(&run) {
                let expected = &mut next[(number >> 16) as usize];
                assert_eq!(number & 0xffff, *expected);
                *expected += 1;
            }
            run.clear();
        }
    });
}

/// What may happen to a wire.
#[derive(Clone, Debug)]
enum Step {
    /// The near end gives this many packets more.
    Give(usize),
    /// The far end takes up to this many.
    Take(usize),
}

proptest! {
    /// Whatever is given and taken in whatever portions: the far end sees the near end's packets in order, none
    /// missing, none twice; the ring never holds more than its depth, and what it refuses is still in the run.
    #[test]
    fn a_wire_is_a_bounded_queue(
        depth in 1usize..9,
        steps in vec(prop_oneof![(0usize..12).prop_map(Step::Give), (0usize..12).prop_map(Step::Take)], 0..64),
        copying: bool,
        shared: bool,
    ) {
        let mut pool = pool();
        let (near, far) = wire(Capabilities::ip(1500), depth);
        let far = if copying { far.copying() } else { far };
        let (mut near, mut far) = (open(near), open(far));
        let _other = shared.then(|| near.transmitter.another());
        let (mut next, mut run, mut model, mut pending) = (0, Run::new(), VecDeque::new(), VecDeque::new());
        for step in steps {
            match step {
                Step::Give(count) => {
                    run.extend(packets(&mut pool, next..next + count as u32));
                    pending.extend(next..next + count as u32);
                    next += count as u32;
                    near.transmitter.transmit(&mut run);
                    while model.len() < depth && let Some(number) = pending.pop_front() {
                        model.push_back(number);
                    }
                    prop_assert_eq!(numbers(&run), Vec::from(pending.clone()));
                }
                Step::Take(max) => {
                    let mut got = Run::new();
                    let count = far.receiver.receive(&mut pool, &mut got, max);
                    let expected: Vec<u32> = model.drain(..max.min(model.len())).collect();
                    prop_assert_eq!(count, got.len());
                    prop_assert_eq!(numbers(&got), expected);
                }
            }
        }
    }
}

#[test]
fn an_end_may_send_longer_packets_than_the_other() {
    let mut pool = pool();
    let (near, far) = wire(Capabilities::ip(1500), 4);
    let mut ends = [open(near), open(far.sending(9000))];
    for (sender, expected) in [(1, 1), (0, 0)] {
        let mut run = Run::new();
        run.extend(pool.copy_from_slice(64, &[7; 9000]));
        ends[sender].transmitter.transmit(&mut run);
        assert!(run.is_empty());
        let receiver = &mut ends[1 - sender].receiver;
        assert_eq!(receiver.receive(&mut pool, &mut run, 4), expected);
    }
}
