use super::*;
use crate::{Reorder, Share};
use proptest::prelude::*;

#[test]
fn packets_arrive_in_the_order_of_their_times_and_then_of_their_offers() {
    let impairments = "jitter=10us:overtaking,duplicate=20%".parse().unwrap();
    let mut link = Link::new(&impairments, 0);
    let mut line = Line::new(10_000);
    let mut copies = 0;
    for number in 0..5000u64 {
        let copy = |packet: &u64| {
            copies += 1;
            Some(*packet)
        };
        line.offer(&mut link, (number * 1000, 100), number, copy)
            .unwrap();
    }
    assert_eq!(line.len(), 5000 + copies);
    let (mut last, mut seen, mut overtaken) = (0, Vec::new(), 0);
    while let Some(next) = line.next() {
        assert!(line.take(next - 1).is_none());
        let delivery = line.take(next).unwrap();
        assert_eq!(delivery.at, next);
        assert!(next >= last);
        last = next;
        overtaken += usize::from(seen.last().is_some_and(|before| *before > delivery.packet));
        seen.push(delivery.packet);
    }
    assert!(line.is_empty() && overtaken > 500, "{overtaken}");
    seen.sort_unstable();
    seen.dedup();
    assert_eq!(seen, (0..5000).collect::<Vec<_>>());
}

#[test]
fn those_of_one_time_keep_the_order_of_their_offers_also_where_they_overtook_others() {
    let held = "reorder=100%:1ms".parse().unwrap();
    let mut line = Line::new(100);
    line.offer(&mut Link::new(&held, 0), (0, 100), 0, |_| None)
        .unwrap();
    let mut link = Link::new(&Impairments::none(), 0);
    for number in 1..50 {
        line.offer(&mut link, (7, 100), number, |_| None).unwrap();
    }
    let order: Vec<i32> = std::iter::from_fn(|| line.take(1_000_000))
        .map(|delivery| delivery.packet)
        .collect();
    assert_eq!(order, (1..50).chain([0]).collect::<Vec<_>>());
}

#[test]
fn no_more_are_kept_than_may_be() {
    let impairments = "delay=1ms,duplicate=100%".parse().unwrap();
    let mut link = Link::new(&impairments, 0);
    let mut line = Line::new(3);
    let mut offer = |line: &mut Line<u8>, now| line.offer(&mut link, (now, 100), 0, |_| Some(1));
    assert_eq!(offer(&mut line, 0), Ok(()));
    // The second's copy finds no room, and is not made.
    assert_eq!(offer(&mut line, 0), Ok(()));
    assert_eq!(line.len(), 3);
    assert_eq!(offer(&mut line, 0), Err(Dropped::TooMany));
    while line.take(1_000_000).is_some() {}
    assert_eq!(offer(&mut line, 2_000_000), Ok(()));
    let tally = link.tally();
    assert_eq!((tally.offered, tally.duplicated, tally.too_many), (4, 2, 1));
}

#[test]
fn what_cannot_be_copied_comes_once() {
    let mut link = Link::new(&"duplicate=100%".parse().unwrap(), 0);
    let mut line = Line::default();
    line.offer(&mut link, (0, 100), (), |()| None).unwrap();
    assert_eq!((line.len(), link.tally().duplicated), (1, 0));
}

proptest! {
    /// Whatever is offered arrives or is dropped for a reason that is counted, and nothing else arrives.
    #[test]
    fn nothing_goes_astray(
        shares in [0u32..=300, 0u32..=300, 0u32..=300],
        rate in prop_oneof![Just(None), (1u64..1_000_000_000).prop_map(Some)],
        limit in 1usize..50,
        seed in any::<u64>(),
        packets in proptest::collection::vec((0u64..200_000, 1usize..2000, any::<bool>()), 1..300),
    ) {
        let [loss, duplicate, held] = shares.map(Share::per_mille);
        let most = core::time::Duration::from_micros(300);
        let impairments = Impairments {
            loss,
            duplicate,
            reorder: Reorder { share: held, least: most / 3, most },
            rate: rate.map(|bits: u64| crate::Rate { queue_bytes: 10_000, ..crate::Rate::new(bits.try_into().unwrap()) }),
            seed,
            ..Impairments::none()
        };
        let mut link = Link::new(&impairments, 0);
        let mut line = Line::new(limit);
        let (mut now, mut taken, mut refused) = (0, 0, 0);
        for (number, (pause, bytes, takes)) in packets.iter().enumerate() {
            now += pause;
            refused += u64::from(line.offer(&mut link, (now, *bytes), number, |number| Some(*number)).is_err());
            while *takes && line.take(now).is_some() {
                taken += 1;
            }
            let tally = link.tally();
            prop_assert!(line.len() <= limit);
            prop_assert_eq!(tally.offered, number as u64 + 1);
            prop_assert_eq!(tally.dropped(), refused);
            prop_assert_eq!(tally.passed(), line.len() as u64 + taken);
            prop_assert_eq!(tally.offered + tally.duplicated, tally.dropped() + line.len() as u64 + taken);
        }
    }
}
