//! Who is joined to whom: hosts and routers as a graph, and the way from each to each.

use crate::case::{MICROSECOND, MILLISECOND, Weather};
use crate::random::Random;
use braidnet_impair::{BurstLoss, Impairments, Jitter, Rate, Reorder, Share};
use std::num::NonZeroU64;
use std::time::Duration;

/// A graph. Nodes 0 to `hosts` - 1 are hosts, the others routers.
#[derive(Clone, Debug)]
pub(crate) struct Topology {
    pub(crate) shape: Shape,
    pub(crate) hosts: usize,
    pub(crate) routers: usize,
    pub(crate) links: Vec<Joint>,
}

/// What a topology looks like.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Shape {
    /// Two hosts at both ends of a line.
    Pair,
    /// Hosts on one link: a switch between them that costs next to nothing.
    Lan,
    /// Hosts on two sides of a line that all share.
    Dumbbell,
    /// Hosts along a chain of routers.
    Chain,
    /// Routers joined to a tree and by more lines beside, hosts anywhere.
    Mesh,
}

impl Shape {
    pub(crate) const ALL: [Shape; 5] = [
        Shape::Pair,
        Shape::Lan,
        Shape::Dumbbell,
        Shape::Chain,
        Shape::Mesh,
    ];
}

/// A line between two nodes.
#[derive(Clone, Debug)]
pub(crate) struct Joint {
    pub(crate) ends: [usize; 2],
    /// What happens from the first end to the second, and back.
    pub(crate) ways: [Impairments; 2],
    /// Longest IP packet.
    pub(crate) mtu: usize,
    /// Nobody tells of packets that are longer (RFC 1191 §4 asks routers to).
    pub(crate) is_silent: bool,
}

impl Topology {
    pub(crate) fn nodes(&self) -> usize {
        self.hosts + self.routers
    }

    pub(crate) fn draw(random: &mut Random, weather: Weather) -> Topology {
        let shape = random.pick(&Shape::ALL);
        let hosts = match shape {
            Shape::Pair => 2,
            Shape::Lan | Shape::Dumbbell => random.between(2, 6),
            Shape::Chain | Shape::Mesh => random.between(2, 5),
        } as usize;
        let routers = match shape {
            Shape::Pair => 0,
            Shape::Lan => 1,
            Shape::Dumbbell => 2,
            Shape::Chain => random.between(1, 4),
            Shape::Mesh => random.between(2, 5),
        } as usize;
        let mut ends = Vec::new();
        for router in 1..routers {
            let before = match shape {
                Shape::Mesh => random.below(router as u64) as usize,
                _ => router - 1,
            };
            ends.push([hosts + before, hosts + router]);
        }
        if shape == Shape::Mesh {
            for _ in 0..random.below(3) {
                let mut router = || hosts + random.below(routers as u64) as usize;
                let (a, b) = (router(), router());
                if a != b && !ends.contains(&[a, b]) && !ends.contains(&[b, a]) {
                    ends.push([a, b]);
                }
            }
        }
        // Lines between routers are what is shared; where there are none, all lines are alike.
        let core = ends.len();
        for host in 0..hosts {
            match (shape, host) {
                (Shape::Pair, 0) => ends.push([0, 1]),
                (Shape::Pair, _) => {}
                (Shape::Lan, _) => ends.push([host, hosts]),
                (Shape::Dumbbell, _) => ends.push([host, hosts + host % 2]),
                _ => ends.push([host, hosts + random.below(routers as u64) as usize]),
            }
        }
        let mtu = random.pick(&[1500, 1500, 1500, 576, 9000, 256]);
        let count = ends.len();
        let bad = random.below(if core > 0 { core } else { count } as u64) as usize;
        let links = ends.into_iter().enumerate().map(|(at, ends)| {
            let is_bad = at == bad;
            let ways = [(); 2].map(|()| way(random, shape, is_bad.then_some(weather)));
            Joint {
                ends,
                ways,
                mtu,
                is_silent: false,
            }
        });
        Topology {
            shape,
            hosts,
            routers,
            links: links.collect(),
        }
    }

    /// Whether a line may come to carry less: one between routers, for a host's own device is not narrower than it says.
    pub(crate) fn may_narrow(&self, link: usize) -> bool {
        let joint = &self.links[link];
        joint.mtu > 1000 && joint.ends[0] >= self.hosts
    }

    /// Whether some line loses packets in bursts.
    pub(crate) fn has_bursts(&self) -> bool {
        let mut ways = self.links.iter().flat_map(|link| &link.ways);
        ways.any(|way| way.burst_loss.is_some())
    }

    /// The next line on the way from each node to each host: `next[node][host]`.
    pub(crate) fn routes(&self) -> Vec<Vec<Option<usize>>> {
        let nodes = self.nodes();
        let mut routes = vec![vec![None; self.hosts]; nodes];
        for host in 0..self.hosts {
            let mut cost = vec![u64::MAX; nodes];
            cost[host] = 0;
            // As many rounds as a way can be long (Bellman and Ford).
            for _ in 0..nodes {
                for (number, link) in self.links.iter().enumerate() {
                    for (from, way) in [(0, &link.ways[0]), (1, &link.ways[1])] {
                        let (from, to) = (link.ends[from], link.ends[1 - from]);
                        // Hosts do not forward.
                        let passes = to == host || to >= self.hosts;
                        let step = way.delay.as_nanos() as u64 + MICROSECOND;
                        let through = cost[to].saturating_add(step);
                        if passes && through < cost[from] {
                            cost[from] = through;
                            routes[from][host] = Some(number);
                        }
                    }
                }
            }
        }
        routes
    }

    /// How long a packet can be under way from anywhere to anywhere and back, in nanoseconds, queues included.
    pub(crate) fn span(&self) -> u64 {
        let ways = self.links.iter().flat_map(|link| &link.ways);
        ways.map(|way| {
            let queue = way.rate.map_or(0, |rate| {
                (rate.queue_bytes + 9000) * 8 * 1_000_000_000 / rate.bits_per_second
            });
            way.delay_max().as_nanos() as u64 + queue
        })
        .sum()
    }
}

/// What one direction of a line does. Only bad lines do harm; the others take their time.
fn way(random: &mut Random, shape: Shape, weather: Option<Weather>) -> Impairments {
    let share = |per_mille: u64| Share::per_mille(per_mille as u32);
    let delay = match (shape, weather) {
        (Shape::Lan, _) => random.sized(100 * MICROSECOND),
        (_, Some(_)) => random.sized(150 * MILLISECOND),
        (_, None) => random.sized(5 * MILLISECOND),
    };
    let plain = Impairments {
        delay: Duration::from_nanos(delay),
        seed: random.word(),
        ..Impairments::none()
    };
    let rate = |random: &mut Random, most: u64| {
        NonZeroU64::new(random.between(most / 50, most)).map(|bits| Rate {
            queue_bytes: random.between(4_000, 80_000),
            mark_bytes: random.chance(200).then(|| random.between(2_000, 20_000)),
            ..Rate::new(bits)
        })
    };
    let (harm, overtaking) = match weather {
        None | Some(Weather::Perfect) => return plain,
        Some(Weather::Congested) => {
            return Impairments {
                rate: rate(random, 50_000_000),
                ..plain
            };
        }
        Some(Weather::Fair) => (25, 80),
        Some(Weather::Foul) => (150, 400),
    };
    let mut up_to = |most: u64| share(random.below(most + 1));
    let (loss, duplicate) = (up_to(harm), up_to(harm));
    let (corrupt, reordered) = (up_to(harm / 2), up_to(overtaking));
    let burst_loss = random.chance(200).then(|| BurstLoss {
        begin: share(random.between(1, 10)),
        end: share(random.between(100, 500)),
        loss: share(random.between(500, 900)),
    });
    Impairments {
        loss,
        duplicate,
        corrupt,
        burst_loss,
        jitter: Jitter {
            most: Duration::from_nanos(random.pick(&[0, MILLISECOND, 20 * MILLISECOND])),
            overtaking: random.chance(500),
        },
        reorder: Reorder {
            share: reordered,
            least: Duration::ZERO,
            most: Duration::from_nanos(random.sized(200 * MILLISECOND)),
        },
        rate: if random.chance(300) {
            rate(random, 20_000_000)
        } else {
            None
        },
        ..plain
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_host_reaches_every_other() {
        for seed in 0..300 {
            let mut random = Random::new(seed);
            let topology = Topology::draw(&mut random, Weather::Fair);
            let routes = topology.routes();
            for from in 0..topology.hosts {
                for to in (0..topology.hosts).filter(|to| *to != from) {
                    let mut node = from;
                    for hop in 0.. {
                        assert!(hop < topology.nodes(), "seed {seed}: a loop");
                        let link = routes[node][to].expect("there is a way");
                        let ends = topology.links[link].ends;
                        node = ends[usize::from(ends[0] == node)];
                        if node == to {
                            break;
                        }
                        assert!(node >= topology.hosts, "seed {seed}: a host forwards");
                    }
                }
            }
        }
    }

    #[test]
    fn every_shape_is_drawn() {
        for shape in Shape::ALL {
            let drawn = (0..100).filter(|seed| {
                Topology::draw(&mut Random::new(*seed), Weather::Perfect).shape == shape
            });
            assert!(drawn.count() >= 8, "{shape:?}");
        }
    }
}
