use super::*;
use proptest::prelude::*;

fn link(text: &str) -> Link {
    Link::new(&text.parse().unwrap(), 0)
}

fn arrival(fate: Fate) -> Option<Arrival> {
    match fate {
        Fate::Arrives(first, _) => Some(first),
        Fate::Dropped(_) => None,
    }
}

/// That so many of `all` packets are as many as this share of them, within four standard deviations.
fn assert_share(what: &str, count: u64, all: u64, share: f64) {
    let (n, mean) = (all as f64, all as f64 * share);
    let sigma = (n * share * (1.0 - share)).sqrt();
    assert!(
        (count as f64 - mean).abs() <= 4.0 * sigma,
        "{what}: {count} of {all}, not {mean:.0} +- {sigma:.0}"
    );
}

const MANY: u64 = 100_000;

#[test]
fn nothing_is_done_where_nothing_is_said() {
    let mut link = link("none");
    for now in [0, 5, 5, 1 << 60] {
        let as_it_is = Arrival {
            at: now,
            damage: None,
            marked: false,
        };
        assert_eq!(link.offer(now, 1500), Fate::Arrives(as_it_is, None));
    }
    assert_eq!((link.tally().passed(), link.tally().dropped()), (4, 0));
}

#[test]
fn shares_are_what_they_should_be() {
    for (percent, share) in [("0.1%", 0.001), ("1%", 0.01), ("25%", 0.25), ("100%", 1.0)] {
        for seed in 1..=5 {
            let mut losing = link(&format!("loss={percent},seed={seed}"));
            let mut keeping = link(&format!(
                "duplicate={percent},corrupt={percent},reorder={percent}:5ms,seed={seed}"
            ));
            for _ in 0..MANY {
                losing.offer(0, 100);
                keeping.offer(0, 100);
            }
            let tally = keeping.tally();
            assert_share("lost", losing.tally().lost, MANY, share);
            assert_share("duplicated", tally.duplicated, MANY, share);
            let arrivals = MANY + tally.duplicated;
            assert_share("corrupted", tally.corrupted, arrivals, share);
            assert_share("held back", tally.held_back, arrivals, share);
        }
    }
}

/// What a chain of two states loses: neighbours' fates hang together by `1 - begin - end`, which widens the spread.
#[test]
fn bursts_are_as_frequent_and_as_long_as_they_should_be() {
    for (text, begin, end) in [("1%:25%", 0.01, 0.25), ("0.2%:5%", 0.002, 0.05)] {
        let mut link = link(&format!("burst-loss={text}"));
        let (mut bursts, mut was_lost) = (0u32, false);
        for _ in 0..MANY {
            let lost = link.offer(0, 100) == Fate::Dropped(Dropped::LostInBurst);
            bursts += u32::from(lost && !was_lost);
            was_lost = lost;
        }
        let lost = link.tally().lost_in_bursts as f64;
        let (n, share) = (MANY as f64, begin / (begin + end));
        let together = 1.0 - begin - end;
        let sigma = (n * share * (1.0 - share) * (1.0 + together) / (1.0 - together)).sqrt();
        assert!(
            (lost - n * share).abs() <= 4.0 * sigma,
            "{text}: {lost} lost"
        );
        let length = lost / f64::from(bursts);
        let sigma = ((1.0 - end) / (end * end) / f64::from(bursts)).sqrt();
        assert!(
            (length - 1.0 / end).abs() <= 4.0 * sigma,
            "{text}: {length} long"
        );
        let said: Impairments = format!("burst-loss={text}").parse().unwrap();
        let long_run = said.burst_loss.unwrap().long_run(said.loss);
        assert!((long_run - share).abs() < 1e-9);
    }
}

#[test]
fn outside_bursts_the_plain_share_holds_and_inside_its_own() {
    let mut link = link("loss=10%,burst-loss=50%:50%:40%");
    for _ in 0..MANY {
        link.offer(0, 100);
    }
    // Half of the packets are in bursts: with these shares each state is drawn anew.
    assert_share("alone", link.tally().lost, MANY, 0.05);
    assert_share("in bursts", link.tally().lost_in_bursts, MANY, 0.2);
}

#[test]
fn a_line_sends_bit_after_bit() {
    let mut link = link("rate=8mbit,queue=3000,delay=1ms");
    let sent = |link: &mut Link, now| arrival(link.offer(now, 1000)).map(|arrival| arrival.at);
    // A byte takes a microsecond.
    assert_eq!(sent(&mut link, 0), Some(2_000_000));
    assert_eq!(sent(&mut link, 0), Some(3_000_000));
    assert_eq!(sent(&mut link, 0), Some(4_000_000));
    // 3,000 bytes wait.
    assert_eq!(sent(&mut link, 0), None);
    assert_eq!(sent(&mut link, 999_000), None);
    assert_eq!(sent(&mut link, 1_000_000), Some(5_000_000));
    assert_eq!(link.tally().queue_full, 2);
    // After a pause the line is free at once.
    assert_eq!(sent(&mut link, 9_000_000), Some(11_000_000));
}

#[test]
fn a_packet_larger_than_the_queue_passes_where_nothing_waits() {
    let mut link = link("rate=8mbit,queue=100");
    assert!(arrival(link.offer(0, 5000)).is_some());
    assert_eq!(link.offer(0, 1), Fate::Dropped(Dropped::QueueFull));
    assert!(arrival(link.offer(5_000_000, 5000)).is_some());
}

#[test]
fn a_burst_leaves_at_once() {
    let mut link = link("rate=8mbit,burst=2k");
    let at: Vec<u64> = (0..4)
        .filter_map(|_| arrival(link.offer(0, 1024)))
        .map(|arrival| arrival.at)
        .collect();
    assert_eq!(at, [0, 0, 1_024_000, 2_048_000]);
    // After 3,072 us the bucket is full again.
    assert_eq!(arrival(link.offer(5_000_000, 2048)).unwrap().at, 5_000_000);
    assert_eq!(arrival(link.offer(5_000_000, 1)).unwrap().at, 5_001_000);
}

#[test]
fn what_finds_a_long_queue_is_marked() {
    let mut link = link("rate=8mbit,ecn=1500");
    let marks: Vec<bool> = [1000, 500, 1000, 1000]
        .into_iter()
        .filter_map(|bytes| arrival(link.offer(0, bytes)))
        .map(|arrival| arrival.marked)
        .collect();
    // The third finds just as many bytes waiting as may be.
    assert_eq!(marks, [false, false, false, true]);
    assert_eq!(link.tally().marked, 1);
}

#[test]
fn held_back_packets_are_overtaken_and_overtake_nobody() {
    let mut link = link("reorder=20%:1ms-3ms,delay=1ms");
    let mut held = 0;
    for now in (0..100_000_000).step_by(10_000) {
        let at = arrival(link.offer(now, 100)).unwrap().at - now;
        if at != 1_000_000 {
            assert!((2_000_000..=4_000_000).contains(&at), "{at}");
            held += 1;
        }
    }
    assert_eq!(link.tally().held_back, held);
}

#[test]
fn one_bit_is_changed() {
    let mut link = link("corrupt=100%");
    let mut bits = [0u32; 32];
    for _ in 0..3200 {
        let damage = arrival(link.offer(0, 4)).unwrap().damage.unwrap();
        let mut bytes = [0u8; 4];
        damage.flip(&mut bytes);
        let word = u32::from_be_bytes(bytes);
        assert_eq!(word.count_ones(), 1);
        assert_eq!(damage.bit(4), Some(word.leading_zeros() as usize));
        bits[word.leading_zeros() as usize] += 1;
        damage.flip(&mut []);
    }
    assert!(
        bits.iter().all(|count| (50..=150).contains(count)),
        "{bits:?}"
    );
}

#[test]
fn two_directions_lose_different_packets_and_one_loses_the_same_whatever_is_added() {
    let losses = |text: &str, number| {
        let mut link = Link::new(&text.parse().unwrap(), number);
        (0..1000)
            .map(|now| arrival(link.offer(now, 100)).is_none())
            .collect::<Vec<_>>()
    };
    assert_ne!(losses("loss=10%", 0), losses("loss=10%", 1));
    assert_ne!(losses("loss=10%", 0), losses("loss=10%,seed=2", 0));
    let more =
        "loss=10%,delay=3ms,jitter=1ms,reorder=5%:1ms,duplicate=3%,corrupt=2%,rate=1gbit,queue=1G";
    assert_eq!(losses("loss=10%", 0), losses(more, 0));
}

/// One kind of impairment says nothing of another.
#[test]
fn what_comes_twice_is_not_what_is_damaged() {
    let mut link = link("duplicate=30%,corrupt=30%");
    let mut both = 0;
    for _ in 0..MANY {
        if let Fate::Arrives(first, Some(_)) = link.offer(0, 100) {
            both += u64::from(first.damage.is_some());
        }
    }
    assert_share("both", both, MANY, 0.09);
    let kept = |text: &str| {
        let mut link = super::Link::new(&text.parse().unwrap(), 0);
        let fate = |now| match link.offer(now, 100) {
            Fate::Arrives(_, again) => again.is_some(),
            Fate::Dropped(_) => true,
        };
        (0..1000).map(fate).collect::<Vec<_>>()
    };
    assert_ne!(kept("loss=30%"), kept("duplicate=30%"));
}

fn any_impairments() -> impl Strategy<Value = Impairments> {
    let share = || (0u32..=300).prop_map(Share::per_mille);
    let time = || (0u64..5_000_000).prop_map(Duration::from_nanos);
    let burst =
        (share(), share(), share()).prop_map(|(begin, end, loss)| BurstLoss { begin, end, loss });
    let rate =
        (1u64..10_000_000_000, 0u64..20_000, 0u64..100_000).prop_map(|(bits, burst, queue)| Rate {
            burst_bytes: burst,
            queue_bytes: queue,
            mark_bytes: Some(queue / 2),
            ..Rate::new(bits.try_into().unwrap())
        });
    (
        (share(), share(), share(), proptest::option::of(burst)),
        (time(), time(), any::<bool>()),
        (share(), time(), time()),
        proptest::option::of(rate),
        any::<u64>(),
    )
        .prop_map(
            |((loss, duplicate, corrupt, burst_loss), jitter, reorder, rate, seed)| Impairments {
                loss,
                burst_loss,
                duplicate,
                corrupt,
                delay: jitter.0,
                jitter: Jitter {
                    most: jitter.1,
                    overtaking: jitter.2,
                },
                reorder: Reorder {
                    share: reorder.0,
                    least: reorder.1,
                    most: reorder.1 + reorder.2,
                },
                rate,
                limit_packets: 100,
                seed,
            },
        )
}

/// Packets: how long after the one before, and how many bytes.
fn any_packets() -> impl Strategy<Value = Vec<(u64, usize)>> {
    proptest::collection::vec(
        (
            prop_oneof![Just(0), 0u64..1000, 0u64..10_000_000],
            1usize..9000,
        ),
        1..300,
    )
}

proptest! {
    #[test]
    fn the_same_seed_and_packets_have_the_same_fate(of in any_impairments(), packets in any_packets()) {
        let fates = || {
            let (mut link, mut now) = (Link::new(&of, 3), 0);
            let fates: Vec<Fate> = packets
                .iter()
                .map(|(pause, bytes)| {
                    now += pause;
                    link.offer(now, *bytes)
                })
                .collect();
            (fates, *link.tally())
        };
        prop_assert_eq!(fates(), fates());
    }

    #[test]
    fn nothing_arrives_early_or_later_than_it_may(of in any_impairments(), packets in any_packets()) {
        let of = Impairments { rate: None, ..of };
        let (mut link, mut now) = (Link::new(&of, 0), 0);
        for (pause, bytes) in packets {
            now += pause;
            if let Fate::Arrives(first, again) = link.offer(now, bytes) {
                for arrival in [Some(first), again].into_iter().flatten() {
                    prop_assert!(arrival.at >= now + nanos(of.delay));
                    prop_assert!(arrival.at <= now + nanos(of.delay_max()));
                }
            }
        }
    }

    #[test]
    fn without_overtaking_the_order_is_kept(of in any_impairments(), packets in any_packets()) {
        let of = Impairments {
            jitter: Jitter { overtaking: false, ..of.jitter },
            reorder: Reorder::default(),
            ..of
        };
        let (mut link, mut now, mut last) = (Link::new(&of, 0), 0, 0);
        for (pause, bytes) in packets {
            now += pause;
            if let Fate::Arrives(first, again) = link.offer(now, bytes) {
                prop_assert!(first.at >= last);
                last = first.at;
                if let Some(again) = again {
                    prop_assert!(again.at >= last);
                    last = again.at;
                }
            }
        }
    }

    /// Over any time no more leaves the line than it sends in that, and a burst, or the one packet that ends it.
    #[test]
    fn the_rate_is_never_exceeded(
        bits in 1_000u64..40_000_000_000,
        burst in prop_oneof![Just(0), 0u64..50_000],
        packets in any_packets(),
    ) {
        let rate = Rate { burst_bytes: burst, queue_bytes: 100_000, ..Rate::new(bits.try_into().unwrap()) };
        let mut link = Link::new(&Impairments { rate: Some(rate), ..Impairments::none() }, 0);
        let mut now = 0;
        let mut left: Vec<(u64, u64)> = Vec::new();
        for (pause, bytes) in packets {
            now += pause;
            if let Some(arrival) = arrival(link.offer(now, bytes)) {
                left.push((arrival.at, bytes as u64));
            }
        }
        for (from, (begin, first)) in left.iter().enumerate() {
            let mut sum = 0;
            for (end, bytes) in &left[from..] {
                sum += bytes;
                // Times are rounded down to a nanosecond.
                let sent = u128::from(end - begin + 2) * u128::from(bits) / (8 * SECOND);
                let most = sent + u128::from(burst.max(*first)) + 1;
                prop_assert!(u128::from(sum) <= most, "{} bytes, {} at most", sum, most);
            }
        }
    }

    /// A line that has packets waiting sends as fast as it can.
    #[test]
    fn the_rate_is_used(bits in 1_000u64..10_000_000_000, lengths in proptest::collection::vec(1usize..9000, 2..200)) {
        let rate = Rate { queue_bytes: u64::MAX, ..Rate::new(bits.try_into().unwrap()) };
        let mut link = Link::new(&Impairments { rate: Some(rate), ..Impairments::none() }, 0);
        let last = lengths.iter().filter_map(|bytes| arrival(link.offer(0, *bytes))).last().unwrap();
        let bytes: usize = lengths.iter().sum();
        let takes = bytes as u128 * 8 * SECOND / u128::from(bits);
        prop_assert_eq!(u128::from(last.at), takes);
    }
}
