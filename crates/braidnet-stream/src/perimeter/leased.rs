//! Buckets that are one processor's own until others ask for a share in them.

use super::shared::SharedBucket;
use crate::bucket::BucketId;
use braidnet_sync::lease::{Access, Guest, Home, lease};
use std::sync::OnceLock;

/// The buckets of one home: in the places of their numbers. One that moves in is put in its place whoever else is here; one is taken out only
/// by a home that is alone.
pub(crate) type Domain = Box<[OnceLock<Box<SharedBucket>>]>;

/// One processor's own buckets, and its ways to those of the others.
pub(crate) struct Leases {
    home: Home<Domain>,
    /// By seat; there is none to its own.
    hosts: Vec<Option<Guest<Domain>>>,
    count: u32,
}

/// A bucket, as a processor finds it.
pub(crate) enum Found<'a> {
    /// Nobody else enters it.
    Alone(&'a mut SharedBucket),
    /// Others enter it too.
    Shared(&'a SharedBucket),
    /// It is another's, whose guest this processor is.
    Away(&'a SharedBucket),
}

impl Leases {
    /// The views of as many processors as there are domains, each of which it is the home of one.
    pub(crate) fn new(domains: Vec<Domain>) -> Vec<Leases> {
        let seats = domains.len();
        let mut all: Vec<Leases> = Vec::with_capacity(seats);
        let mut guests = Vec::with_capacity(seats);
        for domain in domains {
            let count = domain.len() as u32;
            let (home, others) = lease(domain, seats - 1);
            let hosts = Vec::with_capacity(seats);
            all.push(Leases { home, hosts, count });
            guests.push(others.into_iter());
        }
        for (seat, leases) in all.iter_mut().enumerate() {
            for (host, guests) in guests.iter_mut().enumerate() {
                let guest = if host == seat { None } else { guests.next() };
                leases.hosts.push(guest);
            }
        }
        all
    }

    /// The bucket, if this processor may enter it now.
    #[inline]
    pub(crate) fn find(&mut self, id: BucketId) -> Option<Found<'_>> {
        if !self.is_own(id) {
            return self.find_away(id);
        }
        self.find_own(id)
    }

    /// The bucket, if it is its own.
    #[inline]
    pub(crate) fn find_own(&mut self, id: BucketId) -> Option<Found<'_>> {
        match self.home.access() {
            Access::Alone(own) => own
                .get_mut(id.index())?
                .get_mut()
                .map(|it| Found::Alone(it)),
            Access::Shared(own) => own.get(id.index())?.get().map(|it| Found::Shared(it)),
        }
    }

    #[inline]
    pub(crate) fn is_own(&mut self, id: BucketId) -> bool {
        let own = match self.home.access() {
            Access::Alone(own) => own.get(id.index()),
            Access::Shared(own) => own.get(id.index()),
        };
        own.is_some_and(|place| place.get().is_some())
    }

    /// The bucket, if it is another's whose guest this processor is.
    pub(crate) fn find_away(&self, id: BucketId) -> Option<Found<'_>> {
        self.domains()
            .find_map(|domain| domain.get(id.index())?.get())
            .map(|bucket| Found::Away(bucket))
    }

    /// Takes an own bucket out, if nobody else enters it.
    pub(crate) fn take(&mut self, id: BucketId) -> Option<Box<SharedBucket>> {
        match self.home.access() {
            Access::Alone(own) => own.get_mut(id.index())?.take(),
            Access::Shared(_) => None,
        }
    }

    /// Puts a bucket among its own, whether guests are there or not; gives it back if it is here already.
    pub(crate) fn put(&mut self, bucket: Box<SharedBucket>) -> Result<(), Box<SharedBucket>> {
        let own = match self.home.access() {
            Access::Alone(own) => &*own,
            Access::Shared(own) => own,
        };
        match own.get(bucket.id.index()) {
            Some(place) => place.set(bucket),
            None => Err(bucket),
        }
    }

    /// The buckets of another seat, if this processor is its guest.
    #[inline]
    fn domain(&self, seat: usize) -> Option<&Domain> {
        self.hosts.get(seat)?.as_ref()?.access()
    }

    pub(crate) fn is_guest_of(&self, seat: usize) -> bool {
        self.domain(seat).is_some()
    }

    /// The bucket, if it is at home in that seat, and this processor a guest there.
    #[inline]
    pub(crate) fn find_at(&self, seat: usize, id: BucketId) -> Option<&SharedBucket> {
        self.domain(seat)?.get(id.index())?.get().map(|it| &**it)
    }

    /// Those that this processor is a guest in.
    fn domains(&self) -> impl Iterator<Item = &Domain> {
        self.hosts.iter().filter_map(|host| host.as_ref()?.access())
    }

    /// Looks whose guest this processor is, and who its own are, until the next look. Whether a guest has left since the last one: then what only its wheel knew
    /// must be set again, see [`own`](Leases::own).
    #[inline]
    pub(crate) fn look(&mut self) -> bool {
        for host in self.hosts.iter_mut().flatten() {
            host.look();
        }
        self.home.look()
    }

    /// Each of its own buckets.
    pub(crate) fn own(&mut self, mut each: impl FnMut(Found<'_>)) {
        match self.home.access() {
            Access::Alone(own) => own
                .iter_mut()
                .filter_map(OnceLock::get_mut)
                .for_each(|bucket| each(Found::Alone(bucket))),
            Access::Shared(own) => own
                .iter()
                .filter_map(OnceLock::get)
                .for_each(|bucket| each(Found::Shared(bucket))),
        }
    }

    /// Puts others in the place of its own, if nobody else enters them.
    pub(crate) fn rebuild(&mut self, mut open: impl FnMut(BucketId) -> Box<SharedBucket>) {
        if let Access::Alone(own) = self.home.access() {
            for bucket in own.iter_mut().filter_map(OnceLock::get_mut) {
                *bucket = open(bucket.id);
            }
        }
    }

    /// Whether nobody else enters its own buckets, nor this processor those of others.
    #[inline]
    pub(crate) fn is_private(&self) -> bool {
        self.home.is_alone() && !self.hosts.iter().flatten().any(Guest::asks)
    }

    pub(crate) fn home(&mut self) -> &mut Home<Domain> {
        &mut self.home
    }

    /// What leads to the buckets of another seat; `None` to its own.
    pub(crate) fn host(&mut self, seat: usize) -> Option<&mut Guest<Domain>> {
        self.hosts.get_mut(seat)?.as_mut()
    }

    /// The seats of those who are guests here, as of the last look.
    pub(crate) fn guests(&self) -> impl Iterator<Item = usize> {
        let guests = self.home.guests();
        let others = (0..self.hosts.len()).filter(|seat| self.hosts[*seat].is_some());
        others
            .enumerate()
            .filter_map(move |(guest, seat)| (guests >> guest & 1 == 1).then_some(seat))
    }

    /// How many buckets the stack has.
    pub(crate) fn count(&self) -> u32 {
        self.count
    }

    /// How many seats there are.
    pub(crate) fn seats(&self) -> usize {
        self.hosts.len()
    }
}
