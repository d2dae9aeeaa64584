use super::*;
use crate::{Counters, DropReason, Receiver, Transmitter, memory};
use braidnet_message::{Pool, Run};
use std::sync::atomic::{AtomicU64, Ordering};

/// A clock that the test moves.
#[derive(Clone, Default)]
struct Time(Arc<AtomicU64>);

impl Time {
    fn set(&self, micros: u64) {
        self.0.store(micros * 1000, Ordering::Relaxed);
    }
}

/// Both ends of a memory wire, the near one impaired.
struct Bench {
    time: Time,
    impairment: Impairment,
    near: QueuePair,
    far: QueuePair,
    pool: Pool,
}

impl Bench {
    fn new(out: &str, back: &str) -> Bench {
        Bench::of(out, back, Capabilities::ip(1500), 4096)
    }

    fn of(out: &str, back: &str, capabilities: Capabilities, depth: usize) -> Bench {
        let time = Time::default();
        let clock = time.clone();
        let impairment =
            Impairment::with_clock(&out.parse().unwrap(), &back.parse().unwrap(), move || {
                Instant::from_nanos(clock.0.load(Ordering::Relaxed))
            });
        let (near, far) = memory::wire(capabilities, depth);
        let open = |mut queues: Vec<QueuePair>| queues.remove(0);
        Bench {
            time,
            near: open(Box::new(impairment.around(near)).open().unwrap()),
            far: open(Box::new(far).open().unwrap()),
            impairment,
            pool: Pool::new(&Arena::new(64 << 20)),
        }
    }

    fn packets(&mut self, numbers: std::ops::Range<u32>) -> Run {
        numbers
            .map(|number| self.pool.copy_from_slice(0, &number.to_be_bytes()).unwrap())
            .collect()
    }

    fn send(&mut self, numbers: std::ops::Range<u32>) {
        let mut run = self.packets(numbers);
        self.near.transmitter.transmit(&mut run);
        assert!(run.is_empty());
    }

    fn send_back(&mut self, numbers: std::ops::Range<u32>) {
        let mut run = self.packets(numbers);
        self.far.transmitter.transmit(&mut run);
        assert!(run.is_empty());
    }

    /// What the far end gets.
    fn sent(&mut self) -> Vec<u32> {
        numbers(&mut *self.far.receiver, &mut self.pool)
    }

    /// What the near end gets.
    fn received(&mut self) -> Vec<u32> {
        numbers(&mut *self.near.receiver, &mut self.pool)
    }

    fn alarm(&self) -> Option<u64> {
        let alarm = self.near.receiver.alarm().unwrap();
        alarm.next().map(|at| at.nanos() / 1000)
    }
}

fn numbers(receiver: &mut dyn Receiver, pool: &mut Pool) -> Vec<u32> {
    let mut run = Run::new();
    let count = receiver.receive(pool, &mut run, 10_000);
    assert_eq!(run.len(), count);
    run.iter()
        .map(|packet| u32::from_be_bytes(packet.bytes().try_into().unwrap()))
        .collect()
}

#[test]
fn what_a_device_inside_waits_for_counts_too() {
    let impairment = |out: &str| {
        let clock = || Instant::from_nanos(0);
        Impairment::with_clock(&out.parse().unwrap(), &"none".parse().unwrap(), clock)
    };
    let (near, _far) = memory::wire(Capabilities::ip(1500), 64);
    let inside = impairment("delay=5ms").around(near);
    let device = impairment("none").around(inside);
    let mut pair = Box::new(device).open().unwrap().remove(0);
    let alarm = pair.receiver.alarm().unwrap();
    assert_eq!(alarm.next(), None);
    let mut pool = Pool::new(&Arena::new(1 << 20));
    let packet = pool.copy_from_slice(0, b"inside").unwrap();
    pair.transmitter.transmit(&mut Run::from_iter([packet]));
    assert_eq!(alarm.next(), Some(Instant::from_nanos(5_000_000)));
}

#[test]
fn both_directions_are_delayed_and_the_alarm_says_until_when() {
    let mut bench = Bench::new("delay=3ms", "delay=5ms");
    assert_eq!(bench.alarm(), None);
    bench.send(0..2);
    assert_eq!(bench.alarm(), Some(3000));
    bench.send_back(10..12);
    // Nobody has looked at the device yet.
    assert_eq!(bench.alarm(), Some(3000));
    bench.time.set(1000);
    assert_eq!(bench.received(), []);
    assert_eq!((bench.sent(), bench.alarm()), (vec![], Some(3000)));
    // Outbound packets leave though nobody sends: with the next look at what has arrived.
    bench.time.set(3000);
    assert_eq!(bench.received(), []);
    assert_eq!((bench.sent(), bench.alarm()), (vec![0, 1], Some(6000)));
    bench.time.set(6000);
    assert_eq!(bench.received(), [10, 11]);
    assert_eq!(bench.alarm(), None);
    // And with the next that are sent.
    bench.send(2..3);
    bench.time.set(9001);
    bench.send(3..4);
    assert_eq!((bench.sent(), bench.alarm()), (vec![2], Some(12001)));
}

#[test]
fn what_comes_at_once_is_passed_on_as_far_as_there_is_room() {
    let mut bench = Bench::new("none", "none");
    bench.send(0..100);
    assert_eq!(bench.sent(), (0..100).collect::<Vec<_>>());
    bench.send_back(0..10);
    let mut run = Run::new();
    let mut take = |bench: &mut Bench| bench.near.receiver.receive(&mut bench.pool, &mut run, 4);
    assert_eq!([(); 3].map(|()| take(&mut bench)), [4, 4, 2]);
    // Also where more is due than the device gives at once.
    let mut bench = Bench::new("none", "delay=1ms");
    bench.send_back(0..10);
    assert_eq!([(); 3].map(|()| take(&mut bench)), [0; 3]);
    bench.time.set(1000);
    assert_eq!([(); 3].map(|()| take(&mut bench)), [4, 4, 2]);
}

#[test]
fn drops_have_names_on_both_sides() {
    let mut bench = Bench::new("loss=50%", "rate=8mbit,queue=8");
    bench.send(0..1000);
    let arrived = bench.sent().len() as u64;
    let counters = bench.near.transmitter.counters();
    assert_eq!(counters.packets, arrived);
    assert_eq!(counters.dropped(DropReason::ImpairedLost), 1000 - arrived);
    assert_eq!(bench.impairment.outgoing().lost, 1000 - arrived);
    bench.send_back(0..10);
    assert_eq!(bench.received(), []);
    bench.time.set(1000);
    assert_eq!(bench.received(), [0, 1]);
    let counters = bench.near.receiver.counters();
    assert_eq!(counters.dropped(DropReason::ImpairedQueueFull), 8);
    assert_eq!(bench.impairment.incoming().queue_full, 8);
    assert_eq!(counters.packets, 2);
    let mut bench = Bench::new("burst-loss=100%:0%", "delay=1s,limit=3");
    bench.send(0..5);
    bench.send_back(0..5);
    assert_eq!(bench.received(), []);
    let dropped = |counters: Counters, reason| counters.dropped(reason);
    let (sent, received) = (&bench.near.transmitter, &bench.near.receiver);
    assert_eq!(dropped(sent.counters(), DropReason::ImpairedLostInBurst), 5);
    assert_eq!(dropped(received.counters(), DropReason::ImpairedTooMany), 2);
}

#[test]
fn what_a_device_inside_has_dropped_is_counted_outside_too() {
    let none = Impairments::none();
    let inner = Impairment::new(&none, &"loss=100%".parse().unwrap());
    let outer = Impairment::new(&none, &none);
    let (near, far) = memory::wire(Capabilities::ip(1500), 16);
    let mut near = Box::new(outer.around(inner.around(near))).open().unwrap();
    let mut far = Box::new(far).open().unwrap();
    let mut pool = Pool::new(&Arena::new(1 << 20));
    let mut run: Run = pool.copy_from_slice(0, &[1]).into_iter().collect();
    far[0].transmitter.transmit(&mut run);
    near[0].receiver.receive(&mut pool, &mut run, 1);
    let counters = near[0].receiver.counters();
    assert_eq!(
        (run.len(), counters.dropped(DropReason::ImpairedLost)),
        (0, 1)
    );
}

#[test]
fn a_device_that_is_full_is_offered_the_rest_a_little_later() {
    let mut bench = Bench::of("none", "none", Capabilities::ip(1500), 4);
    bench.send(0..6);
    assert_eq!(bench.alarm(), Some(200));
    assert_eq!(bench.sent(), [0, 1, 2, 3]);
    bench.time.set(200);
    assert_eq!(bench.received(), []);
    assert_eq!(bench.sent(), [4, 5]);
    assert_eq!(bench.alarm(), None);
}

#[test]
fn what_the_device_drops_late_is_counted_once() {
    let mut bench = Bench::of("delay=1ms", "none", Capabilities::ip(8), 16);
    let mut long: Run = [bench.pool.copy_from_slice(0, &[0; 9]).unwrap()]
        .into_iter()
        .collect();
    bench.near.transmitter.transmit(&mut long);
    bench.time.set(1000);
    bench.received();
    let mut another = bench.near.transmitter.another().unwrap();
    another.transmit(&mut Run::new());
    bench.send(0..1);
    let all = [&another, &bench.near.transmitter];
    let dropped = all.map(|one| one.counters().dropped(DropReason::TransmitOversize));
    assert_eq!(dropped, [1, 0]);
}

#[test]
fn packets_come_twice_and_damaged() {
    let mut bench = Bench::new("duplicate=100%,corrupt=50%", "corrupt=100%");
    bench.send(0..500);
    let sent = bench.sent();
    assert_eq!(sent.len(), 1000);
    let damaged = |numbers: &[u32], twice: usize| {
        let of = |(at, number): (usize, &u32)| (number ^ (at / twice) as u32).count_ones();
        let bits: Vec<u32> = numbers.iter().enumerate().map(of).collect();
        assert!(bits.iter().all(|bits| *bits <= 1), "one bit at most");
        bits.iter().sum::<u32>() as u64
    };
    let tally = bench.impairment.outgoing();
    assert_eq!(
        (tally.duplicated, tally.corrupted),
        (500, damaged(&sent, 2))
    );
    assert!((400..600).contains(&tally.corrupted), "{tally:?}");
    bench.send_back(0..100);
    assert_eq!(damaged(&bench.received(), 1), 100);
}

#[test]
fn what_waited_long_is_marked_where_it_can_be_marked() {
    let mut bench = Bench::new("rate=8mbit,ecn=0", "rate=8mbit,ecn=0");
    let header = |tos: u8| [&[0x45, tos][..], &[0; 18]].concat();
    let mut packets = |toses: &[u8]| -> Run {
        let packets = toses
            .iter()
            .map(|tos| bench.pool.copy_from_slice(0, &header(*tos)));
        packets.map(Option::unwrap).collect()
    };
    // The first finds nothing waiting; the third cannot be marked.
    let (mut out, mut back) = (packets(&[2, 2, 0, 1]), packets(&[1, 1]));
    bench.near.transmitter.transmit(&mut out);
    bench.far.transmitter.transmit(&mut back);
    let toses = |receiver: &mut dyn Receiver, pool: &mut Pool| {
        let mut run = Run::new();
        receiver.receive(pool, &mut run, 10);
        run.iter()
            .map(|packet| packet.bytes()[1])
            .collect::<Vec<_>>()
    };
    assert_eq!(toses(&mut *bench.near.receiver, &mut bench.pool), []);
    bench.time.set(1000);
    assert_eq!(toses(&mut *bench.near.receiver, &mut bench.pool), [1, 3]);
    assert_eq!(
        toses(&mut *bench.far.receiver, &mut bench.pool),
        [2, 3, 0, 3]
    );
}

#[test]
fn damage_stays_with_the_packet_that_it_befell() {
    let mut bench = Bench::new("corrupt=100%", "none");
    let kept = bench.pool.copy_from_slice(0, &[0; 4]).unwrap();
    let mut run: Run = kept.share(&mut bench.pool).into_iter().collect();
    bench.near.transmitter.transmit(&mut run);
    assert_eq!(bench.sent().len(), 1);
    assert_eq!(kept.bytes(), [0; 4]);
}

#[test]
fn queues_share_the_line() {
    let mut bench = Bench::new("rate=8mbit", "none");
    let (near, far) = memory::wire(Capabilities::ip(1500).with_queues(2), 64);
    let mut near = Box::new(bench.impairment.around(near)).open().unwrap();
    let mut far = Box::new(far).open().unwrap();
    for pair in &mut near {
        let packet = bench.pool.copy_from_slice(0, &[0; 1000]).unwrap();
        pair.transmitter
            .transmit(&mut [packet].into_iter().collect());
    }
    let mut arrived = |micros, queue: usize| {
        bench.time.set(micros);
        let mut run = Run::new();
        near[queue].receiver.receive(&mut bench.pool, &mut run, 8);
        far[queue].receiver.receive(&mut bench.pool, &mut run, 8)
    };
    // The second waits for the first, though it came by another queue, and leaves by its own.
    assert_eq!([arrived(1000, 0), arrived(1000, 1)], [1, 0]);
    assert_eq!([arrived(2000, 0), arrived(2000, 1)], [0, 1]);
}

#[test]
fn transmitters_of_a_queue_share_its_way_out() {
    let mut bench = Bench::new("delay=1ms", "none");
    let mut another = bench.near.transmitter.another().unwrap();
    let mut run = bench.packets(1..2);
    bench.send(0..1);
    another.transmit(&mut run);
    bench.time.set(1000);
    assert_eq!(bench.received(), []);
    assert_eq!(bench.sent(), [0, 1]);
    assert_eq!(another.counters().packets, 1);
}

#[test]
fn it_is_gone_once_all_that_was_under_way_has_come() {
    let mut bench = Bench::new("none", "delay=1ms");
    bench.send_back(0..1);
    assert_eq!(bench.received(), []);
    let (other, _) = memory::wire(Capabilities::ip(1500), 1);
    bench.far = Box::new(other).open().unwrap().remove(0);
    assert!(!bench.near.receiver.is_gone());
    bench.time.set(1000);
    assert_eq!(bench.received(), [0]);
    assert!(bench.near.receiver.is_gone());
}

#[test]
fn fewer_and_more_packets_are_under_way() {
    let mut bench = Bench::new("delay=1s", "delay=1s");
    let too_many = |bench: &Bench| {
        let sides = [
            bench.near.transmitter.counters(),
            bench.near.receiver.counters(),
        ];
        sides.map(|counters| counters.dropped(DropReason::ImpairedTooMany))
    };
    bench.impairment.set_limit_packets(3, 5);
    bench.send(0..10);
    bench.send_back(0..10);
    assert_eq!(bench.received(), []);
    assert_eq!(too_many(&bench), [7, 5]);
    // Those that are under way stay, and one more finds no place.
    bench.impairment.set_limit_packets(1, 1);
    bench.send(10..11);
    assert_eq!(too_many(&bench), [8, 5]);
    bench.impairment.set_limit_packets(20, 20);
    bench.send(10..20);
    bench.send_back(10..20);
    assert_eq!(bench.received(), []);
    assert_eq!(too_many(&bench), [8, 5]);
    bench.time.set(1_000_000);
    assert_eq!(bench.received().len(), 15);
    assert_eq!(bench.sent().len(), 13);
}

#[test]
fn less_and_more_memory_for_copies() {
    let mut bench = Bench::new("corrupt=100%", "none");
    let no_buffer = |bench: &Bench| {
        let counters = bench.near.transmitter.counters();
        counters.dropped(DropReason::ImpairedNoBuffer)
    };
    bench.impairment.set_copies_bytes(0);
    bench.send(0..100);
    assert_eq!((bench.sent().len(), no_buffer(&bench)), (0, 100));
    bench.impairment.set_copies_bytes(16 << 20);
    bench.send(0..100);
    assert_eq!((bench.sent().len(), no_buffer(&bench)), (100, 100));
    // What was taken is used again, but no more is while the far side keeps that.
    bench.impairment.set_copies_bytes(1);
    bench.send(0..4000);
    let dropped = no_buffer(&bench) - 100;
    assert!((2000..4000).contains(&dropped), "{dropped}");
    assert_eq!(bench.sent().len() as u64, 4000 - dropped);
}
