//! Against a model that keeps everything for each octet alone.

use super::*;
use proptest::prelude::*;

const START: u32 = u32::MAX - 50;

fn seq(offset: u32) -> SeqNumber {
    SeqNumber::new(START) + offset
}

fn at(millis: u64) -> Instant {
    Instant::from_millis(millis)
}

fn block(left: u32, right: u32) -> SackBlock {
    SackBlock {
        left: seq(left),
        right: seq(right),
    }
}

/// So many segments of ten octets, the first sent after 100 ms, each a millisecond after the one before.
fn segments(count: u32) -> Flight {
    let mut flight = Flight::new(seq(0), 1000, 0);
    for segment in 1..=count {
        flight.depart(seq(segment * 10), at(99 + u64::from(segment)));
    }
    flight
}

fn arrived(blocks: &[(u32, u32)]) -> Flight {
    let mut flight = segments(10);
    for &(left, right) in blocks {
        flight.arrive(block(left, right), &mut Delivery::default());
    }
    flight
}

/// Blocks, segment size, everything before this offset is overtaken.
type Row = (&'static [(u32, u32)], u32, Option<u32>);

#[test]
fn is_lost_by_count_or_by_bytes() {
    // RFC 6675 §4.
    let table: [Row; 6] = [
        (&[], 10, None),
        (&[(10, 30)], 10, None),
        (&[(10, 31)], 10, Some(10)),
        (&[(10, 11), (20, 21)], 10, None),
        (&[(10, 11), (20, 21), (30, 31)], 10, Some(10)),
        (&[(10, 11), (20, 21), (30, 31), (40, 61)], 10, Some(40)),
    ];
    for (blocks, smss, edge) in table {
        assert_eq!(
            arrived(blocks).overtaken_before(smss),
            edge.map(seq),
            "{blocks:?}"
        );
    }
}

#[test]
fn what_leaves_at_once_is_one_piece() {
    let mut flight = Flight::new(seq(0), 1000, 0);
    for end in 1..100 {
        flight.depart(seq(end), at(5));
    }
    assert_eq!(flight.pieces.len(), 1);
    flight.depart(seq(100), at(6));
    assert_eq!(flight.pieces.len(), 2);
    assert_eq!(flight.slide(seq(99)), Some(at(5)));
    assert_eq!(flight.slide(seq(100)), Some(at(6)));
    assert_eq!((flight.slide(seq(100)), flight.flying()), (None, 0));
}

#[test]
fn the_earliest_lost_leaves_again_first() {
    let mut flight = arrived(&[(30, 60)]);
    flight.lose_originals_before(seq(30));
    assert_eq!(flight.first_lost(), Some((seq(0), seq(10))));
    flight.depart_again(seq(0), seq(10), at(200));
    assert_eq!(flight.first_lost(), Some((seq(10), seq(20))));
    // What has left again is no original: it is not overtaken by what left before it.
    flight.lose_originals_before(seq(30));
    assert_eq!(flight.first_lost(), Some((seq(10), seq(20))));
    assert_eq!(
        (flight.lost(), flight.arrived(), flight.flying()),
        (20, 30, 50)
    );
    flight.depart_again(seq(10), seq(30), at(201));
    assert_eq!(flight.first_lost(), None);
    flight.lose_all();
    assert_eq!(flight.first_lost(), Some((seq(0), seq(10))));
    assert_eq!((flight.lost(), flight.flying()), (70, 0));
}

#[test]
fn overdue_is_what_left_before_the_newest_that_arrived() {
    let newest = Departed {
        at: at(105),
        end: seq(60),
    };
    // Segment five left last of those that arrived; the round trip took 20 ms.
    let mut flight = arrived(&[(50, 60)]);
    let nothing = Overdue::default();
    assert_eq!(
        flight.lose_overdue(at(125), newest, 25_000_000),
        Overdue {
            wait: Some(4_000_000),
            sent_again: None
        }
    );
    assert_eq!(flight.lost(), 10, "what left at 100");
    assert_eq!(flight.lose_overdue(at(129), newest, 25_000_000), nothing);
    assert_eq!(
        (flight.lost(), flight.flying()),
        (50, 40),
        "not what left later"
    );
    // Sent again, it is overdue only once something that left after it arrives.
    flight.depart_again(seq(0), seq(10), at(130));
    assert_eq!(flight.lose_overdue(at(500), newest, 25_000_000), nothing);
    assert_eq!(flight.lost(), 40);
    let newest = Departed {
        at: at(131),
        end: seq(20),
    };
    assert_eq!(
        flight.lose_overdue(at(500), newest, 25_000_000),
        Overdue {
            wait: None,
            sent_again: Some(at(130))
        }
    );
    assert_eq!(flight.lost(), 90);
}

#[test]
fn pieces_are_bounded() {
    let mut flight = Flight::new(seq(0), 16, 0);
    for end in 1..=1000 {
        flight.depart(seq(end), at(u64::from(end)));
    }
    assert_eq!((flight.pieces.len(), flight.flying()), (16, 1000));
    for left in 0..500 {
        flight.arrive(block(left * 2, left * 2 + 1), &mut Delivery::default());
    }
    assert!(flight.pieces.len() <= 16, "{}", flight.pieces.len());
    flight.lose_all();
    for left in 0..500 {
        flight.depart_again(seq(left * 2 + 1), seq(left * 2 + 2), at(2000));
        assert!(flight.pieces.len() <= 16);
    }
    assert_eq!(flight.first_lost(), None);
    flight.acknowledge(seq(1000), &mut Delivery::default());
    assert_eq!(
        (flight.flying(), flight.arrived(), flight.lost()),
        (0, 0, 0)
    );
}

/// What arrives, is lost or leaves again at the end is no reason to keep more: a peer that reports the last octets only, between
/// timeouts, would make pieces without end.
#[test]
fn pieces_are_bounded_whatever_became_of_the_last() {
    let fates: [fn(&mut Flight, u32); 3] = [
        |flight, end| flight.arrive(block(end - 1, end), &mut Delivery::default()),
        |flight, _| flight.lose_all(),
        |flight, end| flight.depart_again(seq(end - 1), seq(end), at(u64::from(end))),
    ];
    let mut flight = Flight::new(seq(0), 8, 0);
    for end in 1..=300 {
        flight.depart(seq(end), at(u64::from(end)));
        fates[end as usize % 3](&mut flight, end);
        assert!(flight.pieces.len() <= 8, "{}", flight.pieces.len());
        assert_eq!(flight.octets(), end);
        let sum = |fate| {
            let of = |piece: &usize| flight.pieces[*piece].fate == fate;
            let octets = |piece: usize| flight.pieces[piece].end - flight.start_of(piece);
            (0..flight.pieces.len()).filter(of).map(octets).sum::<u32>()
        };
        assert_eq!(
            (flight.arrived(), flight.lost()),
            (sum(Fate::Arrived), sum(Fate::Lost))
        );
    }
}

#[derive(Clone, Debug)]
enum Step {
    Depart(u32),
    Arrive(u32, u32),
    Acknowledge(u32),
    LoseBefore(u32),
    LoseOverdue(u32, u64),
    LoseAll,
    FindAll,
    Again,
    TakeBack,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (1u32..20).prop_map(Step::Depart),
        6 => (0u32..200, 1u32..30).prop_map(|(left, len)| Step::Arrive(left, len)),
        3 => (0u32..60).prop_map(Step::Acknowledge),
        2 => (0u32..200).prop_map(Step::LoseBefore),
        2 => (0u32..200, 0u64..40).prop_map(|(newest, within)| Step::LoseOverdue(newest, within)),
        1 => Just(Step::LoseAll),
        1 => Just(Step::FindAll),
        4 => Just(Step::Again),
        1 => Just(Step::TakeBack),
    ]
}

/// One octet: how it has fared, whether it left again, when it left last.
#[derive(Clone, Copy, PartialEq, Debug)]
struct Octet(Fate, bool, u64);

/// Octets from SND.UNA on.
struct Model {
    una: u32,
    octets: Vec<Octet>,
}

impl Model {
    fn count(&self, fate: Fate) -> u32 {
        self.octets.iter().filter(|octet| octet.0 == fate).count() as u32
    }

    fn lose(&mut self, is_lost: impl Fn(usize, &Octet) -> bool) {
        for (index, octet) in self.octets.iter_mut().enumerate() {
            if octet.0 == Fate::Flying && is_lost(index, octet) {
                octet.0 = Fate::Lost;
            }
        }
    }
}

proptest! {
    #[test]
    fn as_octets(steps in prop::collection::vec(step(), 0..60)) {
        let mut flight = Flight::new(seq(0), 1000, 0);
        let mut model = Model { una: 0, octets: Vec::new() };
        for (now, step) in steps.into_iter().enumerate() {
            let now = now as u64 / 2;
            let len = model.octets.len() as u32;
            match step {
                Step::Depart(octets) => {
                    flight.depart(seq(model.una + len + octets), at(now));
                    model.octets.extend((0..octets).map(|_| Octet(Fate::Flying, false, now)));
                }
                Step::Arrive(left, octets) if left + octets <= len => {
                    let mut delivery = Delivery::default();
                    flight.arrive(block(model.una + left, model.una + left + octets), &mut delivery);
                    let place = &mut model.octets[left as usize..(left + octets) as usize];
                    let news = place.iter().filter(|octet| octet.0 != Fate::Arrived);
                    prop_assert_eq!(delivery.octets, news.clone().count() as u32);
                    prop_assert_eq!(delivery.originals, news.filter(|octet| !octet.1).count() as u32);
                    place.iter_mut().for_each(|octet| octet.0 = Fate::Arrived);
                }
                Step::Acknowledge(octets) if octets <= len => {
                    let mut delivery = Delivery::default();
                    model.una += octets;
                    flight.acknowledge(seq(model.una), &mut delivery);
                    let gone: Vec<_> = model.octets.drain(..octets as usize).collect();
                    let news = gone.iter().filter(|octet| octet.0 != Fate::Arrived);
                    prop_assert_eq!(delivery.octets, news.clone().count() as u32);
                    let flown = news.filter(|octet| octet.0 == Fate::Flying && !octet.1);
                    if let Some(newest) = flown.map(|octet| octet.2).max() {
                        prop_assert!(delivery.newest_original.is_some_and(|found| found.at >= at(newest)));
                    }
                }
                Step::LoseBefore(edge) => {
                    flight.lose_originals_before(seq(model.una + edge));
                    model.lose(|index, octet| (index as u32) < edge && !octet.1);
                }
                Step::LoseOverdue(newest, within) if newest < len => {
                    let newest = Departed { at: at(model.octets[newest as usize].2), end: seq(model.una + newest + 1) };
                    // As after a block that ends there has arrived: no piece lies across.
                    flight.cut_at(newest.end);
                    flight.lose_overdue(at(now), newest, within * 1_000_000);
                    let una = model.una;
                    model.lose(|index, octet| {
                        let end = seq(una + index as u32 + 1);
                        let older = at(octet.2) < newest.at || (at(octet.2) == newest.at && end.is_before(newest.end));
                        older && octet.2 + within <= now
                    });
                    // A piece is judged by its end: what left together is found lost together.
                    prop_assume!(flight.lost == model.count(Fate::Lost));
                }
                Step::LoseAll => {
                    flight.lose_all();
                    model.lose(|_, _| true);
                }
                Step::FindAll => {
                    flight.find_all();
                    model.octets.iter_mut().filter(|octet| octet.0 == Fate::Lost).for_each(|octet| octet.0 = Fate::Flying);
                }
                Step::Again => {
                    let lost = model.octets.iter().position(|octet| octet.0 == Fate::Lost);
                    prop_assert_eq!(flight.first_lost().map(|lost| lost.0), lost.map(|lost| seq(model.una + lost as u32)));
                    if let Some((start, end)) = flight.first_lost() {
                        let end = end.earliest(start + 7);
                        flight.depart_again(start, end, at(now));
                        let from = (start - seq(model.una)) as usize;
                        for octet in &mut model.octets[from..from + (end - start) as usize] {
                            prop_assert_eq!(octet.0, Fate::Lost);
                            *octet = Octet(Fate::Flying, true, now);
                        }
                    }
                }
                Step::TakeBack => {
                    flight.take_back();
                    model.octets.iter_mut().for_each(|octet| octet.0 = Fate::Lost);
                    break;
                }
                _ => {}
            }
            prop_assert_eq!(flight.arrived(), model.count(Fate::Arrived));
            prop_assert_eq!(flight.lost(), model.count(Fate::Lost));
            prop_assert_eq!(flight.flying(), model.count(Fate::Flying));
            prop_assert_eq!(flight.front, seq(model.una));
            let ends = flight.pieces.iter().map(|piece| piece.end);
            prop_assert!(ends.clone().zip(ends.skip(1)).all(|(one, next)| one.is_before(next)));
            let highest = model.octets.iter().rposition(|octet| octet.0 == Fate::Arrived);
            prop_assert_eq!(flight.highest_arrived(), highest.map(|index| seq(model.una + index as u32 + 1)));
        }
    }
}
