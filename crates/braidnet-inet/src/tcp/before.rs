//! The order-free part on the way up.

use super::core::refused;
use super::{BAD_ADDRESS, NO_BUFFER, Tcp};
use crate::notes::{Arrival, Datagram};
use crate::sift::keep;
use crate::sum;
use braidnet_message::{Kind, Message, Run};
use braidnet_stream::{BucketId, Context, Counter, Trace};
use braidnet_wire::address::Tuple;
use braidnet_wire::checksum::Sum;
use braidnet_wire::tcp::{self, PROTOCOL, Parsed, TcpError};

impl Tcp {
    /// Parses and verifies a run, and leaves an [`Arrival`] in each message of it; the rest is dropped by name.
    pub(super) fn parse(&self, run: &mut Run, cx: &mut Context<'_>) {
        keep(0, run, |before, message| {
            let parsed = self.parse_one(before, message, &Unlocked, cx);
            is_taken(parsed, message, cx)
        });
    }

    #[inline(always)]
    pub(super) fn parse_one(
        &self,
        before: &[Message],
        message: &mut Message,
        removal: &impl Removal,
        cx: &mut Context<'_>,
    ) -> Result<(), Counter> {
        match tcp::usual_layout(message.bytes()) {
            // Taken apart where it is entered: nothing of it is at hand while the checksum is made and the flow hashed.
            Some(layout) => self.enter(before, message, removal, |segment| {
                tcp::parse_as(layout, segment).ok_or(TcpError::Truncated)
            }),
            None => self.parse_unusual(before, message, removal, cx),
        }
    }

    /// A header with options other than the usual ones. If it does not lie in the first block, it is gathered.
    #[inline(never)]
    fn parse_unusual(
        &self,
        before: &[Message],
        message: &mut Message,
        removal: &impl Removal,
        cx: &mut Context<'_>,
    ) -> Result<(), Counter> {
        if message.kind() != Kind::Data {
            self.take_news(message);
            return Ok(());
        }
        if message.len() < tcp::MIN_HEADER_LEN {
            gather(message, tcp::MIN_HEADER_LEN, cx)?;
        }
        let wanted = usize::from(message.bytes()[12] >> 4) * 4;
        if message.len() < wanted && wanted <= message.total_len() {
            gather(message, wanted, cx)?;
        }
        let parsed = tcp::parse(message.bytes()).map_err(refused)?;
        self.enter(before, message, removal, |_| Ok(parsed))
    }

    /// Verifies a segment, and leaves its [`Arrival`]: the addresses of the [`Datagram`] are in their places.
    #[inline(always)]
    fn enter(
        &self,
        before: &[Message],
        message: &mut Message,
        removal: &impl Removal,
        parse: impl FnOnce(&[u8]) -> Result<Parsed, TcpError>,
    ) -> Result<(), Counter> {
        let datagram = message.note_ref::<Datagram>();
        if self.offload.verifies(message) && !is_intact(message, datagram) {
            return Err(refused(TcpError::Checksum));
        }
        let is_broadcast = datagram.flags & Datagram::BROADCAST != 0;
        let ecn = datagram.flags & Datagram::ECN;
        let (remote_port, local_port) = tcp::ports(message.bytes()).map_err(refused)?;
        if remote_port == 0 || local_port == 0 || is_broadcast {
            return Err(BAD_ADDRESS);
        }
        let tuple = &mut message.note_mut::<Arrival>().tuple;
        (tuple.local_port, tuple.remote_port) = (local_port, remote_port);
        let (bucket, hash) = self.find_flow(before, tuple);
        removal.within(bucket, || {
            let parsed = parse(message.bytes()).map_err(refused)?;
            message.strip(parsed.header_len);
            message.set_bucket(bucket.0);
            let arrival = message.note_mut::<Arrival>();
            (arrival.header, arrival.hash) = (parsed.header, hash);
            arrival.header.present |= ecn;
            Ok(())
        })
    }

    /// The bucket of a segment that nothing is known of yet, neighbours of its flow `before` it. Of one whose ports do not lie in
    /// its first block, the device's.
    pub(super) fn bucket_ahead(&self, before: &[Message], message: &Message) -> BucketId {
        let Ok((remote_port, local_port)) = tcp::ports(message.bytes()) else {
            return BucketId::DEVICE;
        };
        let datagram = message.note_ref::<Datagram>();
        let tuple = Tuple {
            local: datagram.local,
            remote: datagram.remote,
            local_port,
            remote_port,
        };
        self.find_flow(before, &tuple).0
    }

    /// Bucket and hash of a flow. Often it is that of the last segment `before`, which knows them.
    #[inline(always)]
    fn find_flow(&self, before: &[Message], tuple: &Tuple) -> (BucketId, u64) {
        if let Some(before) = before.last()
            && let Arrival {
                tuple: flow, hash, ..
            } = before.note_ref()
            && flow == tuple
        {
            return (BucketId(before.bucket()), *hash);
        }
        self.flows.bucket_of(tuple, PROTOCOL)
    }
}

/// What a header is removed within: a lock of the bucket's, or nothing.
pub(super) trait Removal {
    fn within<R>(&self, bucket: BucketId, remove: impl FnOnce() -> R) -> R;
}

/// Nobody else has the message.
pub(super) struct Unlocked;

impl Removal for Unlocked {
    #[inline(always)]
    fn within<R>(&self, _: BucketId, remove: impl FnOnce() -> R) -> R {
        remove()
    }
}

/// Whether a segment was taken; counts it if not.
#[inline(always)]
pub(super) fn is_taken(
    parsed: Result<(), Counter>,
    message: &Message,
    cx: &mut Context<'_>,
) -> bool {
    match parsed {
        Ok(()) => true,
        Err(reason) => {
            count_refused(message, reason, cx);
            false
        }
    }
}

#[cold]
#[inline(never)]
fn count_refused(message: &Message, reason: Counter, cx: &mut Context<'_>) {
    cx.count_dropped(Trace::of(message), reason, message.segments() as u64);
}

/// Brings the first `wanted` bytes together in the first block.
#[cold]
#[inline(never)]
fn gather(message: &mut Message, wanted: usize, cx: &mut Context<'_>) -> Result<(), Counter> {
    if message.total_len() < wanted {
        Err(refused(TcpError::Truncated))
    } else if message.pull_up(wanted, cx.pool()) {
        Ok(())
    } else {
        Err(NO_BUFFER)
    }
}

/// Whether the checksum over pseudo-header, header and data holds (RFC 9293 §3.1).
#[inline(always)]
fn is_intact(message: &Message, datagram: &Datagram) -> bool {
    let is_valid = |sum| {
        let len = message.total_len() as u32;
        Sum::pseudo_header(&datagram.remote, &datagram.local, PROTOCOL, len)
            .combine(sum)
            .is_valid()
    };
    if message.len() == message.total_len() {
        is_valid(Sum::of(message.bytes()))
    } else {
        // Each segment of a train was found intact before it was joined.
        message.segment_bytes() != 0 || is_valid(sum::read(message))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flows::Flows;
    use crate::tcp::TcpConfig;
    use crate::testing::{self, PEER, US};
    use braidnet_message::Arena;
    use braidnet_stream::cluster::ModuleSet;
    use braidnet_stream::{Buckets, Cluster, Direction, Module, Stages, StreamBuilder};
    use braidnet_wire::tcp::{TcpFlags, TcpHeader};
    use braidnet_wire::time::Instant;

    /// Nothing of TCP but what is under test.
    struct Before(Tcp);

    impl Module for Before {
        fn name(&self) -> &'static str {
            "tcp"
        }

        fn stages(&self) -> Stages {
            Stages::BEFORE_UP
        }

        fn counters(&self) -> &'static [&'static str] {
            self.0.counters()
        }

        fn before(&self, _: Direction, run: &mut Run, cx: &mut Context<'_>) {
            self.0.parse(run, cx);
        }
    }

    /// A segment whose sequence number is that of the port that it comes from.
    fn segment(port: u16) -> Vec<u8> {
        let header = TcpHeader {
            seq: braidnet_wire::seq::SeqNumber::new(port.into()),
            flags: TcpFlags::ACK,
            ..TcpHeader::default()
        };
        let mut bytes = b"....................data".to_vec();
        let rest = Sum::pseudo_header(&PEER, &US, PROTOCOL, bytes.len() as u32) + Sum::of(b"data");
        tcp::emit_sealed(&header, port, 7, rest, &mut bytes);
        bytes
    }

    #[test]
    fn each_segment_of_a_mixed_run_is_taken_for_its_own_flow() {
        let flows = Flows::new([1, 2], 16, &testing::ip_interface());
        let config = TcpConfig {
            engine: braidnet_tcp::Config::default(),
            mtu: 1500,
            connections_per_bucket: 1,
            listening: Default::default(),
            fast_opening: Default::default(),
            isn_secret: [3, 4],
        };
        let mut stream = StreamBuilder::new();
        let module = stream.module(Before(Tcp::new(config, flows)));
        let stream = stream.build().unwrap();
        let buckets = Buckets::private(&stream, 16, |_| true, |_| true);
        let mut cluster = Cluster::new(&stream, ModuleSet::ALL, buckets, &Arena::new(1 << 20));
        // Port 0 is refused, and stands for a flow that was never hashed.
        let ports = [1, 1, 0, 2, 1, 2, 2, 3, 0, 3];
        for (index, port) in ports.into_iter().enumerate() {
            let mut bytes = segment(port);
            bytes[23] ^= u8::from(index == 5);
            let mut message = cluster.pool().copy_from_slice(64, &bytes).unwrap();
            message.set_note(Datagram {
                local: US,
                remote: PEER,
                protocol: PROTOCOL,
                ..Datagram::default()
            });
            cluster.put_one(module, Direction::Up, message);
        }
        cluster.turn(Instant::ZERO, &mut |_: &mut Run| {});
        let mut arrived = Vec::new();
        for message in cluster.head().drain() {
            let arrival = message.note::<Arrival>();
            let tuple = Tuple {
                local: US,
                remote: PEER,
                local_port: 7,
                remote_port: arrival.header.seq.value() as u16,
            };
            let (bucket, hash) = flows.bucket_of(&tuple, PROTOCOL);
            assert_eq!((arrival.tuple, arrival.hash), (tuple, hash));
            assert_eq!(
                (message.bucket(), message.bytes()),
                (bucket.0, &b"data"[..])
            );
            arrived.push(tuple.remote_port);
        }
        assert_eq!(arrived, [1, 1, 2, 1, 2, 3, 3]);
        let counted = |name| cluster.counters().value(&stream, "tcp", name);
        assert_eq!(
            (counted("tcp_checksum_wrong"), counted("bad_address")),
            (1, 2)
        );
    }
}
