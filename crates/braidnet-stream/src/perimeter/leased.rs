//! Buckets that are one processor's own until others ask for a share in them.

use super::shared::SharedBucket;
use crate::bucket::BucketId;
use braidnet_sync::lease::{Access, Guest, Home, lease};

/// The buckets of one home: in the places of their numbers.
pub(crate) type Domain = Box<[Option<Box<SharedBucket>>]>;

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
        match self.home.access() {
            Access::Alone(own) => own[id.index()].as_deref_mut().map(Found::Alone),
            Access::Shared(own) => own[id.index()].as_deref().map(Found::Shared),
        }
    }

    #[inline]
    pub(crate) fn is_own(&mut self, id: BucketId) -> bool {
        let own = match self.home.access() {
            Access::Alone(own) => own.get(id.index()),
            Access::Shared(own) => own.get(id.index()),
        };
        own.is_some_and(Option::is_some)
    }

    fn find_away(&self, id: BucketId) -> Option<Found<'_>> {
        let bucket = |domain: &'_ Domain| domain.get(id.index()).is_some_and(Option::is_some);
        self.domains()
            .find(|domain| bucket(domain))
            .and_then(|domain| domain[id.index()].as_deref())
            .map(Found::Away)
    }

    /// Those that this processor is a guest in.
    fn domains(&self) -> impl Iterator<Item = &Domain> {
        self.hosts.iter().filter_map(|host| host.as_ref()?.access())
    }

    /// Whether a guest has left since the last look. Then what only its wheel knew must be set again: see
    /// [`own`](Leases::own).
    #[inline]
    pub(crate) fn look(&mut self) -> bool {
        self.home.look()
    }

    /// Each of its own buckets.
    pub(crate) fn own(&mut self, mut each: impl FnMut(Found<'_>)) {
        match self.home.access() {
            Access::Alone(own) => own
                .iter_mut()
                .filter_map(Option::as_deref_mut)
                .for_each(|bucket| each(Found::Alone(bucket))),
            Access::Shared(own) => own
                .iter()
                .filter_map(Option::as_deref)
                .for_each(|bucket| each(Found::Shared(bucket))),
        }
    }

    /// Puts others in the place of its own, if nobody else enters them.
    pub(crate) fn rebuild(&mut self, mut open: impl FnMut(BucketId) -> Box<SharedBucket>) {
        if let Access::Alone(own) = self.home.access() {
            for bucket in own.iter_mut().flatten() {
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

    /// How many buckets the stack has.
    pub(crate) fn count(&self) -> u32 {
        self.count
    }

    /// How many seats there are.
    pub(crate) fn seats(&self) -> usize {
        self.hosts.len()
    }
}
