//! The table alone, where a stack would be in the way.

use super::*;
use braidnet_message::{Arena, Pool};

const STATION: MacAddress = MacAddress([2, 0, 0, 0, 0, 1]);
const GATEWAY: Address = Address::v4([10, 0, 0, 1]);

fn address(number: usize) -> Address {
    Address::v4((0x0a01_0000 + number as u32).to_be_bytes())
}

const MAX_NEIGHBOURS: usize = 1024;
const MAX_WAITING: usize = 16;
const MAX_WAITING_TOTAL: usize = 512;

struct Bench {
    limits: Arc<Live<InetLimits>>,
    pool: Pool,
    published: Arc<Neighbours>,
    table: Table,
    effects: Vec<Effect>,
    now: Instant,
}

impl Bench {
    fn new() -> Bench {
        let published = Arc::new(Neighbours::new(Resolution::MOST_NEIGHBOURS));
        let limits = Arc::new(Live::new(InetLimits::default()));
        let table = Table::new(published.clone(), [GATEWAY].into(), limits.clone());
        Bench {
            limits,
            pool: Pool::new(&Arena::new(64 << 20)),
            published,
            table,
            effects: vec![],
            now: Instant::ZERO,
        }
    }

    fn limit(&self, resolution: Resolution) {
        resolution.check().unwrap();
        self.limits.set(InetLimits {
            resolution,
            ..InetLimits::default()
        });
    }

    fn send(&mut self, address: Address) {
        let message = self.pool.allocate(0, 1).unwrap();
        self.table.send(address, message, self.now, &mut |effect| {
            self.effects.push(effect)
        });
        self.table.publish();
    }

    fn hear(&mut self, address: Address, origin: Origin) {
        let create = origin != Origin::Reply;
        self.table.hear(
            (address, STATION),
            origin,
            create,
            self.now,
            &mut |effect| self.effects.push(effect),
        );
        self.table.publish();
    }

    fn expire(&mut self, by: Duration) {
        self.now += by;
        self.table
            .expire(self.now, &mut |effect| self.effects.push(effect));
        self.table.publish();
    }

    fn answered(&mut self, address: Address) {
        self.send(address);
        self.hear(address, Origin::Reply);
    }

    fn knows(&self, address: Address) -> bool {
        self.table.index.contains_key(&address)
    }

    /// The reasons given since the last call.
    fn reasons(&mut self) -> Vec<Reason> {
        let reason = |effect| match effect {
            Effect::Drop(_, reason) | Effect::Count(reason) => Some(reason),
            _ => None,
        };
        self.effects.drain(..).filter_map(reason).collect()
    }
}

#[test]
fn in_a_full_table_the_newcomers_rank_decides() {
    // (who is in it, who comes, whether it gets a slot)
    let rows = [
        (Origin::Traffic, Some(Origin::Traffic), true),
        (Origin::Traffic, Some(Origin::Request), true),
        (Origin::Request, Some(Origin::Traffic), true),
        (Origin::Traffic, None, true),
        (Origin::Reply, Some(Origin::Traffic), false),
        (Origin::Reply, Some(Origin::Request), false),
        (Origin::Reply, None, true),
    ];
    for (tenants, newcomer, enters) in rows {
        let mut bench = Bench::new();
        for number in 0..MAX_NEIGHBOURS {
            match tenants {
                Origin::Reply => bench.answered(address(number)),
                origin => bench.hear(address(number), origin),
            }
        }
        assert_eq!(bench.reasons(), []);
        let new = address(MAX_NEIGHBOURS);
        match newcomer {
            Some(origin) => bench.hear(new, origin),
            None => bench.send(new),
        }
        let expected = if enters {
            Reason::Evicted
        } else {
            Reason::TableFull
        };
        assert_eq!(bench.reasons(), [expected], "{tenants:?} {newcomer:?}");
        assert_eq!(bench.knows(new), enters);
        assert_eq!(bench.table.index.len(), MAX_NEIGHBOURS);
    }
}

#[test]
fn the_gateway_and_who_is_in_use_stay() {
    let mut bench = Bench::new();
    bench.answered(GATEWAY);
    for number in 1..MAX_NEIGHBOURS {
        bench.answered(address(number));
    }
    for used in 1..200 {
        assert_eq!(
            bench.published.view().station(&address(used)),
            Some(STATION)
        );
    }
    bench.reasons();
    // All that the hand passes are in use: the newcomer is turned away, and the next one too, until the hand has passed them.
    let newcomers = (0..5).map(|number| address(5000 + number));
    let entered: Vec<bool> = newcomers
        .map(|new| {
            bench.send(new);
            bench.knows(new)
        })
        .collect();
    assert_eq!(entered, [false, false, false, true, true]);
    assert!(bench.knows(GATEWAY));
    for number in 0..3000 {
        bench.send(address(10_000 + number));
    }
    assert!(bench.knows(GATEWAY), "whatever comes");
}

#[test]
fn all_that_waits_together_is_bounded() {
    let mut bench = Bench::new();
    for number in 0..100 {
        for _ in 0..MAX_WAITING {
            bench.send(address(number));
        }
    }
    let waiting = |bench: &Bench| -> usize {
        bench
            .table
            .slots
            .iter()
            .flatten()
            .map(|entry| match &entry.state {
                State::Asking { waiting, .. } => waiting.len(),
                State::Known { .. } => 0,
            })
            .sum()
    };
    assert_eq!(waiting(&bench), MAX_WAITING_TOTAL);
    assert_eq!(bench.table.waiting, MAX_WAITING_TOTAL);
    assert_eq!(
        bench.reasons(),
        vec![Reason::WaitingFull; 100 * MAX_WAITING - MAX_WAITING_TOTAL]
    );
    for _ in 0..ATTEMPTS {
        bench.expire(RETRY);
    }
    assert_eq!(bench.reasons(), vec![Reason::Unresolved; MAX_WAITING_TOTAL]);
    assert_eq!((bench.table.waiting, bench.table.index.len()), (0, 0));
    assert_eq!(bench.table.next(), Instant::MAX);
}

#[test]
fn a_reply_that_was_not_asked_for_gives_no_better_rank() {
    let mut bench = Bench::new();
    bench.hear(address(0), Origin::Request);
    bench.hear(address(0), Origin::Reply);
    for number in 1..=MAX_NEIGHBOURS {
        bench.hear(address(number), Origin::Request);
    }
    assert!(!bench.knows(address(0)));
}

#[test]
fn requests_for_one_neighbour_are_a_second_apart() {
    let mut bench = Bench::new();
    let mut asked = Vec::new();
    for step in 0..100 {
        bench.send(address(0));
        bench.expire(Duration::from_millis(100));
        let requests = bench
            .effects
            .drain(..)
            .filter(|effect| matches!(effect, Effect::Request(..)));
        asked.extend(requests.map(|_| step));
    }
    assert!(asked.len() >= 9, "{asked:?}");
    assert!(
        asked.windows(2).all(|pair| pair[1] - pair[0] >= 9),
        "{asked:?}"
    );
}

#[test]
fn another_limit_to_neighbours_counts_with_the_next_newcomer() {
    let mut bench = Bench::new();
    let at_most = |bench: &Bench, neighbours| {
        bench.limit(Resolution {
            neighbours,
            ..Resolution::default()
        });
    };
    bench.answered(GATEWAY);
    (1..100).for_each(|number| bench.answered(address(number)));
    at_most(&bench, 10);
    assert_eq!(bench.table.index.len(), 100, "all stay");
    bench.reasons();
    // The hand passes 64, of which all but the gateway give way, and then as many more as there are too many.
    bench.send(address(200));
    let turned_away = [vec![Reason::Evicted; 63], vec![Reason::TableFull]].concat();
    assert_eq!(bench.reasons(), turned_away);
    bench.send(address(200));
    assert_eq!(bench.reasons(), vec![Reason::Evicted; 28]);
    assert!(bench.knows(address(200)) && bench.knows(GATEWAY));
    assert_eq!(bench.table.index.len(), 10);
    // As many as can be, none in the place of another.
    at_most(&bench, Resolution::MOST_NEIGHBOURS);
    (0..20_000).for_each(|number| {
        let heard = (address(1000 + number), STATION);
        (bench.table).hear(heard, Origin::Request, true, bench.now, &mut |effect| {
            bench.effects.push(effect)
        });
    });
    bench.table.publish();
    assert_eq!(bench.table.index.len(), Resolution::MOST_NEIGHBOURS);
    assert_eq!(bench.table.slots.len(), Resolution::MOST_NEIGHBOURS);
    let last = address(1000 + 19_999);
    assert_eq!(bench.published.view().station(&last), Some(STATION));
    assert!(bench.published.take_used(bench.table.index[&last]));
}

#[test]
fn other_limits_to_what_waits_count_with_the_next_packet() {
    let mut bench = Bench::new();
    let at_most = |bench: &Bench, waiting, waiting_in_all| {
        bench.limit(Resolution {
            waiting,
            waiting_in_all,
            ..Resolution::default()
        });
    };
    let full = |bench: &mut Bench| bench.reasons().len();
    (0..16).for_each(|_| bench.send(address(0)));
    (0..16).for_each(|_| bench.send(address(1)));
    assert_eq!((full(&mut bench), bench.table.waiting), (0, 32));
    // Of one neighbour the oldest go, of all the newest.
    at_most(&bench, 4, 512);
    bench.send(address(0));
    assert_eq!((full(&mut bench), bench.table.waiting), (13, 20));
    at_most(&bench, 100, 20);
    bench.send(address(1));
    assert_eq!((full(&mut bench), bench.table.waiting), (1, 20));
    at_most(&bench, 100, 1000);
    (0..100).for_each(|_| bench.send(address(0)));
    assert_eq!((full(&mut bench), bench.table.waiting), (4, 116));
    bench.hear(address(0), Origin::Reply);
    assert_eq!(bench.table.waiting, 16);
}

#[test]
fn limits_that_make_no_sense_are_refused() {
    let rows = [
        (0, 1, 1, "neighbours may be 1 to 16384, and 0 is"),
        (16_385, 1, 1, "neighbours may be 1 to 16384, and 16385 is"),
        (1, 0, 1, "waiting may be 1 to 1024, and 0 is"),
        (
            1,
            1,
            65_537,
            "waiting_in_all may be 1 to 65536, and 65537 is",
        ),
    ];
    for (neighbours, waiting, waiting_in_all, said) in rows {
        let limits = Resolution {
            neighbours,
            waiting,
            waiting_in_all,
        };
        let error = limits.check().unwrap_err().to_string();
        assert!(error.contains(said), "{error}");
    }
}
