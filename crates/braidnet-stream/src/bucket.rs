//! Buckets: the unit of ownership.

use crate::module::{Key, ModuleId, State};
use crate::stream::Stream;
use braidnet_wire::time::Instant;
use core::fmt;

/// Number of a bucket.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct BucketId(pub u16);

impl BucketId {
    /// The bucket that holds what belongs to a device or to the whole stack.
    pub const DEVICE: BucketId = BucketId(0);

    /// The bucket of a flow with this keyed hash, in a stack of `count` buckets (2 to 65,536). Never
    /// [`BucketId::DEVICE`].
    pub fn of_hash(hash: u64, count: u32) -> BucketId {
        let span = u64::from(count.max(2)) - 1;
        // The high half of the product maps the hash's upper 32 bits evenly onto 0..span.
        BucketId((((hash >> 32) * span) >> 32) as u16 + 1)
    }

    /// Index of the bucket.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// A connection's number, found once at entry and carried in every message, so that modules index arrays (PPF §4).
///
/// It names a bucket, a slot in that bucket, and which of the slot's successive tenants is meant, so that a late
/// message cannot reach the slot's next connection.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct ConnectionId(pub u64);

impl ConnectionId {
    /// What a message carries that belongs to no connection: [`BucketId::DEVICE`] has none.
    pub const NONE: ConnectionId = ConnectionId::new(BucketId::DEVICE, 0, 0);

    /// Connection `slot` of `bucket`, its `generation`-th tenant.
    pub const fn new(bucket: BucketId, slot: u32, generation: u16) -> ConnectionId {
        ConnectionId((bucket.0 as u64) << 48 | (generation as u64) << 32 | slot as u64)
    }

    /// The bucket that holds its state.
    pub const fn bucket(self) -> BucketId {
        BucketId((self.0 >> 48) as u16)
    }

    /// Its slot in the bucket.
    pub const fn slot(self) -> usize {
        (self.0 & 0xffff_ffff) as usize
    }

    /// Which tenant of the slot it is, modulo 2^16.
    pub const fn generation(self) -> u16 {
        (self.0 >> 32) as u16
    }
}

impl fmt::Debug for ConnectionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}:{}.{}",
            self.bucket().0,
            self.slot(),
            self.generation()
        )
    }
}

/// A perimeter's number: its bucket's, unless each module has its own perimeter there ([`Extent::Module`](crate::Extent::Module)).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct PerimeterId(pub(crate) u32);

impl PerimeterId {
    #[inline]
    pub(crate) const fn index(self) -> usize {
        self.0 as usize
    }

    /// The bucket that one perimeter covers whole.
    #[inline]
    pub(crate) const fn bucket(self) -> BucketId {
        BucketId(self.0 as u16)
    }
}

impl From<BucketId> for PerimeterId {
    #[inline]
    fn from(id: BucketId) -> PerimeterId {
        PerimeterId(u32::from(id.0))
    }
}

/// The state that all modules of a cluster keep for a group of connections.
///
/// It is `Send`, holds nothing of the processor it happens to be on, and so moves whole.
pub struct Bucket {
    pub(crate) id: BucketId,
    /// What is entered to reach it: the processors' wheels know it by this.
    pub(crate) perimeter: PerimeterId,
    pub(crate) states: Vec<Box<dyn State>>,
    /// The earliest time any module asked to be woken at.
    pub(crate) deadline: Instant,
    /// When the processors' wheels next fire for it: the earliest of its entries that has not; never, if there is none.
    pub(crate) armed: Instant,
}

impl Bucket {
    /// A fresh bucket with the state of each module of `stream` that `has` says is turned here.
    pub(crate) fn open(id: BucketId, stream: &Stream, has: impl Fn(ModuleId) -> bool) -> Bucket {
        let states = stream
            .modules()
            .map(|(module, code)| match code.key() {
                Key::None => Box::new(()) as Box<dyn State>,
                _ if has(module) => code.open(id),
                _ => Box::new(()),
            })
            .collect();
        Bucket {
            id,
            perimeter: id.into(),
            states,
            deadline: Instant::MAX,
            armed: Instant::MAX,
        }
    }

    /// Its number.
    pub fn id(&self) -> BucketId {
        self.id
    }

    /// The state that `module` keeps here.
    #[inline]
    pub fn state(&mut self, module: ModuleId) -> &mut dyn State {
        &mut *self.states[module.index()]
    }
}
