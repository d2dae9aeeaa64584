//! Perimeters: who may be inside a bucket.
//!
//! A store of buckets is entered with a piece of work. *Private* buckets belong to the processor that owns the store:
//! entering is an index and a `&mut`. *Shared* ones are entered by several, by lock or by delegation as chosen at start. *Leased* ones
//! are private to their home until another processor asks, shared while it is a guest, and private again after.
//!
//! # What leaves a shared bucket leaves in order
//!
//! Two processors may work on a bucket one after the other, each carrying away what its entry sent down. Nothing is
//! passed on from inside, so without care the second could overtake the first on its way to the device. Each
//! shared bucket therefore has an [outbox](braidnet_sync::outbox) and at most one drainer, which hands its messages to the
//! device; others leave theirs with it.
//!
//! # What enters it enters in order, if that is asked for
//!
//! Several processors take runs from a queue one after the other, and verify them side by side; without care what was
//! taken first could enter last (PLP §4.1). So whoever takes a run draws, while it still has the queue's turn, one number for each bucket
//! in it ([`Claims`]), and brings the number to the bucket even if nothing is left of the run by then. Inside, a
//! [rejoin](braidnet_sync::rejoin) lets runs through in the order of their numbers. What comes early is left there and nobody waits; who brings what
//! was missing does the work. A run that is missing for too long is passed over, and is let through when it comes: TCP is made for
//! that.
//!
//! The papers' way is there to be measured: whoever comes early [waits](braidnet_sync::blocking_order) outside until all numbers before its own
//! have been brought ([`Arrival::Waiting`]). The numbers of a run are drawn together, under the lock of the queue that it is taken from, and
//! all of them are brought before the next run is taken; so of those who have numbers the one that drew first waits for nobody, and
//! the others come after it.

use crate::bucket::{Bucket, BucketId, PerimeterId};
use crate::cluster::ModuleSet;
use crate::module::ModuleId;
use crate::queues::MAX_MODULES;
use crate::rising::rises;
use crate::stream::Stream;
use crate::visit::Reach;
use crate::work::Numbers;
use braidnet_sync::lease::Guest;
use core::ops::Range;
use leased::{Domain, Found, Leases};
use shared::SharedBucket;
use std::sync::{Arc, OnceLock};

pub(crate) mod leased;
pub(crate) mod shared;

pub use shared::{Arrival, Exclusion, Extent};

/// The buckets that a cluster works on: private, shared or leased.
pub struct Buckets(pub(crate) Store);

pub(crate) enum Store {
    Private(Vec<Option<Box<Bucket>>>),
    Shared(Perimeters),
    Leased(Leases),
}

/// The numbers of so many buckets.
fn ids(count: u32) -> impl Iterator<Item = BucketId> {
    (0..count.min(1 << 16)).map(|id| BucketId(id as u16))
}

fn leased_bucket(id: BucketId, stream: &Stream) -> Box<SharedBucket> {
    let bucket = Bucket::open(id, stream, |_| true);
    Box::new(SharedBucket::new(
        bucket,
        Exclusion::Delegation,
        Arrival::Numbered,
        rises(stream),
    ))
}

impl Buckets {
    /// `count` buckets of which those in `mine` are made here, private to one processor.
    ///
    /// `has` says which of the stream's modules this processor turns.
    pub fn private(
        stream: &Stream,
        count: u32,
        mine: impl Fn(BucketId) -> bool,
        has: impl Fn(ModuleId) -> bool,
    ) -> Buckets {
        let buckets = ids(count)
            .map(|id| mine(id).then(|| Box::new(Bucket::open(id, stream, &has))))
            .collect();
        Buckets(Store::Private(buckets))
    }

    /// `count` buckets shared by several processors, which keep out of each other's way and in order like this.
    pub fn shared(
        stream: &Stream,
        count: u32,
        exclusion: Exclusion,
        arrival: Arrival,
        has: impl Fn(ModuleId) -> bool,
    ) -> Buckets {
        let all = ids(count)
            .map(|id| {
                let bucket = Bucket::open(id, stream, &has);
                SharedBucket::new(bucket, exclusion, arrival, rises(stream))
            })
            .collect();
        Buckets(Store::Shared(Perimeters::whole(stream, all)))
    }

    /// The same, but what each module keeps in a bucket has a [perimeter of its own](Extent::Module). All modules of the stream are turned
    /// wherever the buckets are, and enter as it comes: numbers are drawn for a bucket, and here a run has several ways into one.
    ///
    /// Neighbours hand on in order all the same: what a core makes for the next one leaves its perimeter as what goes down does.
    pub fn shared_by_module(stream: &Stream, count: u32, exclusion: Exclusion) -> Buckets {
        Buckets(Store::Shared(Perimeters::by_module(
            stream, count, exclusion,
        )))
    }

    /// `count` buckets for so many processors, each bucket at home with the one that `home` says, which has it to itself until it
    /// admits a guest. All modules of the stream are turned wherever the buckets are.
    ///
    /// # Panics
    /// If there are more than 64 processors besides the home.
    pub fn leased(
        stream: &Stream,
        count: u32,
        processors: usize,
        home: impl Fn(BucketId) -> usize,
    ) -> Vec<Buckets> {
        let domain = |processor: usize| -> Domain {
            ids(count)
                .map(|id| match home(id) == processor {
                    true => leased_bucket(id, stream).into(),
                    false => OnceLock::new(),
                })
                .collect()
        };
        Leases::new((0..processors).map(domain).collect())
            .into_iter()
            .map(|leases| Buckets(Store::Leased(leases)))
            .collect()
    }

    /// A bucket that nobody else enters, for who asks between turns how things stand; `None` for others.
    pub fn private_bucket(&mut self, id: BucketId) -> Option<&mut Bucket> {
        match &mut self.0 {
            Store::Private(buckets) => buckets.get_mut(id.index())?.as_deref_mut(),
            Store::Shared(_) | Store::Leased(_) => None,
        }
    }

    /// Another processor's view of the same shared buckets; `None` for others.
    pub fn another(&self) -> Option<Buckets> {
        match &self.0 {
            Store::Shared(perimeters) => Some(Buckets(Store::Shared(perimeters.clone()))),
            Store::Private(_) | Store::Leased(_) => None,
        }
    }

    /// Whether several processors may enter them.
    pub(crate) fn is_shared(&self) -> bool {
        !matches!(self.0, Store::Private(_))
    }

    /// How many buckets the stack has.
    pub fn count(&self) -> u32 {
        match &self.0 {
            Store::Private(buckets) => buckets.len() as u32,
            Store::Shared(perimeters) => perimeters.buckets(),
            Store::Leased(leases) => leases.count(),
        }
    }

    /// How many perimeters they have.
    pub(crate) fn perimeters(&self) -> u32 {
        match &self.0 {
            Store::Shared(perimeters) => perimeters.all.len() as u32,
            Store::Private(_) | Store::Leased(_) => self.count(),
        }
    }

    /// Opens anew those that nobody else enters, where these modules are turned.
    pub(crate) fn rebuild(&mut self, stream: &Stream, modules: ModuleSet) {
        match &mut self.0 {
            Store::Private(buckets) => {
                let open =
                    |id| Box::new(Bucket::open(id, stream, |module| modules.contains(module)));
                for bucket in buckets.iter_mut().flatten() {
                    *bucket = open(bucket.id);
                }
            }
            Store::Leased(leases) => leases.rebuild(|id| leased_bucket(id, stream)),
            Store::Shared(_) => {}
        }
    }

    /// What a perimeter covers, if that is entered by several processors, and this one may enter it now; and what an entry turns, if
    /// not all that this processor does.
    pub(crate) fn find_shared(
        &mut self,
        id: PerimeterId,
    ) -> Option<(&SharedBucket, Option<Reach>)> {
        match &mut self.0 {
            Store::Private(_) => None,
            Store::Shared(perimeters) => {
                let (shared, reach) = perimeters.find(id)?;
                Some((shared, Some(reach)))
            }
            Store::Leased(leases) => match leases.find(id.bucket())? {
                Found::Alone(bucket) => Some((bucket, None)),
                Found::Shared(bucket) | Found::Away(bucket) => Some((bucket, None)),
            },
        }
    }
}

/// What shared buckets are entered by: one perimeter each, or one for each module that keeps something there.
#[derive(Clone)]
pub(crate) struct Perimeters {
    /// Those of one bucket side by side.
    all: Arc<[SharedBucket]>,
    /// What an entry of each turns, by its place among those of its bucket.
    reaches: Arc<[Reach]>,
    /// That place, by module.
    places: [u8; MAX_MODULES],
}

impl Perimeters {
    fn whole(stream: &Stream, all: Arc<[SharedBucket]>) -> Perimeters {
        let reach = Reach::of_all(stream, stream.cores(), ModuleSet::ALL);
        Perimeters {
            all,
            reaches: Arc::new([reach]),
            places: [0; MAX_MODULES],
        }
    }

    fn by_module(stream: &Stream, count: u32, exclusion: Exclusion) -> Perimeters {
        let modules: Vec<ModuleId> = (stream.modules().map(|(module, _)| module))
            .filter(|module| stream.cores_of(*module) != 0)
            .collect();
        let mut places = [0; MAX_MODULES];
        for (place, module) in modules.iter().enumerate() {
            places[module.index()] = place as u8;
        }
        let shared = |id: BucketId, place: usize, module: ModuleId| {
            let mut bucket = Bucket::open(id, stream, |other| other == module);
            bucket.perimeter = PerimeterId(u32::from(id.0) * modules.len() as u32 + place as u32);
            SharedBucket::new(bucket, exclusion, Arrival::AsItComes, Box::default())
        };
        Perimeters {
            all: (ids(count))
                .flat_map(|id| (0..modules.len()).map(move |place| (id, place)))
                .map(|(id, place)| shared(id, place, modules[place]))
                .collect(),
            reaches: (modules.iter().map(|module| Reach::of(stream, *module))).collect(),
            places,
        }
    }

    /// How many buckets; as many as perimeters if no module keeps anything in them.
    fn buckets(&self) -> u32 {
        (self.all.len() / self.reaches.len().max(1)) as u32
    }

    /// The numbers of a bucket's perimeters.
    pub(crate) fn of(&self, id: BucketId) -> Range<u32> {
        let each = self.reaches.len() as u32;
        let first = u32::from(id.0) * each;
        first..first + each
    }

    /// The one that a module's core runs in.
    #[inline]
    pub(crate) fn of_module(&self, id: BucketId, module: ModuleId) -> PerimeterId {
        let place = self.places[module.index() % MAX_MODULES];
        PerimeterId(u32::from(id.0) * self.reaches.len() as u32 + u32::from(place))
    }

    /// What it covers, and what an entry turns.
    #[inline]
    pub(crate) fn find(&self, id: PerimeterId) -> Option<(&SharedBucket, Reach)> {
        let shared = self.all.get(id.index())?;
        let reach = match &*self.reaches {
            [reach] => *reach,
            reaches => reaches[id.index() % reaches.len()],
        };
        Some((shared, reach))
    }

    fn first_of(&self, id: BucketId) -> Option<&SharedBucket> {
        self.all.get(id.index() * self.reaches.len())
    }
}

/// What a processor may take of what has arrived.
pub struct Claims<'a> {
    pub(crate) buckets: &'a mut Buckets,
    pub(crate) numbers: &'a mut Numbers,
}

impl Claims<'_> {
    /// Whether the bucket is this processor's to enter, so that a packet for it may be kept. If others enter it too and order is kept, a number is
    /// drawn for what is kept: so this must be called by whoever has the turn at the queue that the packet comes from.
    #[inline]
    pub fn claim(&mut self, bucket: u16) -> bool {
        let id = BucketId(bucket);
        match &mut self.buckets.0 {
            Store::Private(buckets) => buckets.get(id.index()).is_some_and(Option::is_some),
            Store::Shared(perimeters) => match perimeters.first_of(id) {
                Some(shared) => {
                    self.numbers.draw(id, shared);
                    true
                }
                None => false,
            },
            Store::Leased(leases) => match leases.find_own(id) {
                Some(Found::Shared(shared)) => {
                    self.numbers.draw(id, shared);
                    true
                }
                found => found.is_some(),
            },
        }
    }

    /// The same for a bucket that is at home in another seat, whose guest this processor may be.
    #[inline]
    pub fn claim_away(&mut self, seat: usize, bucket: u16) -> bool {
        let id = BucketId(bucket);
        let Store::Leased(leases) = &mut self.buckets.0 else {
            return false;
        };
        match leases.find_at(seat, id) {
            Some(shared) => {
                self.numbers.draw(id, shared);
                self.numbers.away += 1;
                true
            }
            None => false,
        }
    }

    /// Whether this processor is a guest of the one in another seat, in this turn.
    pub fn is_guest_of(&self, seat: usize) -> bool {
        match &self.buckets.0 {
            Store::Leased(leases) => leases.is_guest_of(seat),
            Store::Private(_) | Store::Shared(_) => false,
        }
    }

    /// Whether this processor and the others have no bucket in common, so that nothing need be claimed of what can only be
    /// for its own.
    #[inline]
    pub fn is_private(&self) -> bool {
        match &self.buckets.0 {
            Store::Private(_) => true,
            Store::Shared(_) => false,
            Store::Leased(leases) => leases.is_private(),
        }
    }
}

/// A processor's dealings with those whose buckets it may share, and who may share its own.
pub struct Neighbours<'a>(&'a mut Leases);

impl Buckets {
    /// The dealings of a processor whose buckets are leased.
    pub fn neighbours(&mut self) -> Option<Neighbours<'_>> {
        match &mut self.0 {
            Store::Leased(leases) => Some(Neighbours(leases)),
            Store::Private(_) | Store::Shared(_) => None,
        }
    }
}

impl Neighbours<'_> {
    /// How many processors there are, this one included.
    pub fn count(&self) -> usize {
        self.0.seats()
    }

    /// Whether nobody else enters this processor's buckets.
    pub fn is_alone(&mut self) -> bool {
        self.0.home().is_alone()
    }

    /// The seats of those who enter them, too.
    pub fn guests(&mut self) -> impl Iterator<Item = usize> {
        self.0.guests()
    }

    /// Whether somebody asks to share them.
    pub fn is_asked(&mut self) -> bool {
        self.0.home().is_asked()
    }

    /// Admits all who ask. Between two turns, when nothing is under way: what is on its way to a bucket without a number could be
    /// overtaken.
    pub fn admit(&mut self) {
        self.0.home().admit();
    }

    /// Says how much this processor has to do.
    pub fn publish(&mut self, load: u64) {
        self.0.home().publish(load);
    }

    /// How much the processor in another seat says that it has to do.
    pub fn load(&mut self, seat: usize) -> u64 {
        self.0.host(seat).map_or(0, |host| host.load())
    }

    /// Asks to share the buckets of the processor in another seat.
    pub fn ask(&mut self, seat: usize) {
        if let Some(host) = self.0.host(seat) {
            host.ask();
        }
    }

    /// Whether this processor has asked that one, and has not left since.
    pub fn asks(&mut self, seat: usize) -> bool {
        self.0.host(seat).is_some_and(|host| host.asks())
    }

    /// Looks whether this processor is a guest of that one. Between turns: it is for the whole of a turn, or not at all.
    pub fn is_guest_of(&mut self, seat: usize) -> bool {
        self.0.host(seat).is_some_and(Guest::look)
    }

    /// Stops being a guest of that one; `false` if it is none.
    pub(crate) fn leave(&mut self, seat: usize) -> bool {
        self.0.host(seat).is_some_and(|host| host.leave())
    }
}
