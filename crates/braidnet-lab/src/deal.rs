//! Which connections there are: ports chosen so that the stack's hash falls right.
//!
//! Connections are dealt so that the counts of two processors differ by at most one, and each has a bucket of its own as long
//! as there are buckets: what is measured is the architecture, not the luck of a hash.

use crate::result::LabError;
use braidnet_inet::Flows;
use braidnet_process::{Architecture, top_processor_of};
use braidnet_stream::BucketId;
use braidnet_wire::address::{Address, Tuple};

/// The near end's address: that of the stack that is measured, or of the receiving one of two.
pub(crate) const NEAR: [u8; 4] = [10, 0, 0, 2];
/// The far end's address, or that of the sending stack of two.
pub(crate) const FAR: [u8; 4] = [10, 0, 0, 1];
/// Where the near end listens.
pub(crate) const SERVICE_PORT: u16 = 5001;

/// First port of the far end's.
const FIRST_PORT: u16 = 1024;

/// The connections of one measurement, as their two ends see them.
pub(crate) struct Deal {
    /// Seen from the near end, by number.
    pub(crate) lines: Vec<Tuple>,
    /// The processor that has the top modules of each, where that is known beforehand.
    pub(crate) processors: Vec<Option<usize>>,
}

/// A stack's hash, and under which architecture it deals buckets.
#[derive(Clone, Copy)]
pub(crate) struct Dealer<'a> {
    pub(crate) flows: &'a Flows,
    pub(crate) architecture: Architecture,
    pub(crate) processors: usize,
    pub(crate) protocol: u8,
}

impl Dealer<'_> {
    fn seat(&self, tuple: &Tuple) -> (BucketId, Option<usize>) {
        let (bucket, _) = self.flows.bucket_of(tuple, self.protocol);
        (
            bucket,
            top_processor_of(self.architecture, bucket, self.processors),
        )
    }
}

/// Chooses ports for `count` connections between two stacks, or a stack and its far end (`far` is `None` then).
///
/// # Errors
/// [`LabError::NoPort`], if too few ports fall right.
pub(crate) fn deal(
    near: Dealer<'_>,
    far: Option<Dealer<'_>>,
    count: usize,
) -> Result<Deal, LabError> {
    let seats: Vec<Option<usize>> = match near.architecture {
        Architecture::Message => vec![None],
        _ => {
            let all = (1..near.flows.buckets()).map(|bucket| {
                top_processor_of(near.architecture, BucketId(bucket as u16), near.processors)
            });
            let mut seats: Vec<_> = all.collect();
            seats.sort_unstable();
            seats.dedup();
            seats
        }
    };
    let mut taken = vec![false; near.flows.buckets() as usize];
    let mut used = vec![false; 1 << 16];
    let mut found: Vec<Vec<Tuple>> = vec![Vec::new(); seats.len()];
    let wanted: Vec<usize> = (0..seats.len())
        .map(|seat| (count + seats.len() - 1 - seat) / seats.len())
        .collect();
    for fresh_bucket in [true, false] {
        for port in FIRST_PORT..=u16::MAX {
            let tuple = line(port);
            let (bucket, processor) = near.seat(&tuple);
            let Some(seat) = seats.iter().position(|seat| *seat == processor) else {
                continue;
            };
            let agreed = far.is_none_or(|far| far.seat(&tuple.reversed()).1 == processor);
            if used[usize::from(port)]
                || !agreed
                || fresh_bucket && taken[bucket.index()]
                || found[seat].len() == wanted[seat]
            {
                continue;
            }
            taken[bucket.index()] = true;
            used[usize::from(port)] = true;
            found[seat].push(tuple);
        }
    }
    if let Some(seat) = (0..seats.len()).find(|seat| found[*seat].len() < wanted[*seat]) {
        return Err(LabError::NoPort {
            processor: seats[seat].unwrap_or(0),
        });
    }
    let seat_of = |number: usize| number % seats.len();
    Ok(Deal {
        lines: (0..count)
            .map(|number| found[seat_of(number)][number / seats.len()])
            .collect(),
        processors: (0..count).map(|number| seats[seat_of(number)]).collect(),
    })
}

fn line(far_port: u16) -> Tuple {
    Tuple {
        local: Address::v4(NEAR),
        remote: Address::v4(FAR),
        local_port: SERVICE_PORT,
        remote_port: far_port,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use braidnet_inet::{Interface, InterfaceConfig};

    fn flows(key: u64) -> Flows {
        let interface = Interface::new(InterfaceConfig {
            addresses: vec![(Address::v4(NEAR), Some(24))],
            mtu: 1500,
            mac: None,
            routes: Vec::new(),
            others: Vec::new(),
            forwards: false,
        })
        .unwrap();
        Flows::new([key, 7], 256, &interface)
    }

    #[test]
    fn counts_of_two_processors_differ_by_at_most_one() {
        for architecture in [Architecture::Task, Architecture::Connection] {
            for (processors, count) in [
                (1, 1),
                (2, 1),
                (2, 20),
                (3, 20),
                (4, 21),
                (5, 300),
                (2, 10_000),
            ] {
                let (here, there) = (flows(1), flows(2));
                let near = Dealer {
                    flows: &here,
                    architecture,
                    processors,
                    protocol: 6,
                };
                let far = Dealer {
                    flows: &there,
                    ..near
                };
                let dealt = deal(near, Some(far), count).unwrap();
                let mut counts = vec![0; processors];
                for (tuple, processor) in dealt.lines.iter().zip(&dealt.processors) {
                    assert_eq!(near.seat(tuple).1, *processor);
                    assert_eq!(far.seat(&tuple.reversed()).1, *processor);
                    counts[processor.unwrap()] += 1;
                }
                counts.retain(|count| architecture == Architecture::Connection || *count > 0);
                let (least, most) = (counts.iter().min().unwrap(), counts.iter().max().unwrap());
                assert!(
                    most - least <= 1,
                    "{architecture} {processors} {count}: {counts:?}"
                );
            }
        }
    }

    #[test]
    fn each_has_a_bucket_of_its_own_while_there_are_some() {
        let flows = flows(3);
        let near = Dealer {
            flows: &flows,
            architecture: Architecture::Message,
            processors: 2,
            protocol: 6,
        };
        let dealt = deal(near, None, 200).unwrap();
        let mut buckets: Vec<_> = dealt.lines.iter().map(|tuple| near.seat(tuple).0).collect();
        buckets.sort_unstable();
        buckets.dedup();
        assert_eq!(buckets.len(), 200);
    }
}
