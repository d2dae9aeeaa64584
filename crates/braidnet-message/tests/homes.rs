//! Homes: free lists, ways back, guards in any order, pools that go before their messages, and the arena's limit.

use std::sync::Arc;

use braidnet_message::{Arena, MAX_BLOCK, Message, Pool};

fn pool_of(limit_bytes: usize) -> (Arc<Arena>, Pool) {
    let arena = Arena::new(limit_bytes);
    let pool = Pool::new(&arena);
    (arena, pool)
}

/// Where the block of an empty message lies: tells nodes apart.
fn place(message: &Message) -> *const u8 {
    message.bytes().as_ptr()
}

#[test]
fn a_message_is_one_pointer() {
    assert_eq!(size_of::<Message>(), 8);
    assert_eq!(size_of::<Option<Message>>(), 8);
}

#[test]
fn a_bound_pool_is_last_in_first_out() {
    let (_arena, mut pool) = pool_of(1 << 20);
    let mut pool = pool.bind();
    let first = pool.allocate(0, 100).expect("memory");
    let second = pool.allocate(0, 100).expect("memory");
    let (first_place, second_place) = (place(&first), place(&second));
    drop(first);
    drop(second);
    let again = [(); 2].map(|()| pool.allocate(0, 100).expect("memory"));
    assert_eq!(again.each_ref().map(place), [second_place, first_place]);
    let counters = pool.counters();
    assert_eq!(
        (counters.allocated, counters.recycled, counters.returned),
        (4, 2, 0)
    );
}

#[test]
fn a_fresh_message_has_nothing_of_the_last_one_but_bytes_and_notes() {
    let (_arena, mut pool) = pool_of(1 << 20);
    let mut pool = pool.bind();
    let mut message = pool.allocate(0, 100).expect("memory");
    message.extend_from_slice_summed(&[1; 50]);
    message.set_kind(braidnet_message::Kind::HighPriority);
    message.set_band(3);
    message.set_bucket(4);
    message.set_connection(5);
    message.set_position(6);
    message.set_ticket(7);
    let more = pool.allocate(0, 100).expect("memory");
    message.push_continuation(more);
    drop(message);
    for _ in 0..2 {
        let message = pool.allocate(10, 100).expect("memory");
        assert_eq!(message.kind(), braidnet_message::Kind::Data);
        assert_eq!(
            (message.band(), message.bucket(), message.connection()),
            (0, 0, 0)
        );
        assert_eq!(
            (message.position(), message.ticket(), message.headroom()),
            (0, 0, 10)
        );
        assert_eq!((message.len(), message.total_len()), (0, 0));
        assert!(message.continuation().is_none() && message.is_unique());
        std::mem::forget(message);
    }
}

#[test]
fn views_keep_the_block_and_share_no_writing() {
    let (arena, mut pool) = pool_of(1 << 20);
    let mut other = Pool::new(&arena);
    let mut pool = pool.bind();
    let mut message = pool.copy_from_slice(16, b"hello world").expect("memory");
    message.set_note(77u64);
    message.set_connection(5);
    let mut view = message.share_range(6, 5, &mut other).expect("memory");
    assert_eq!((view.bytes(), view.connection()), (&b"world"[..], 5));
    for message in [&mut message, &mut view] {
        assert!(!message.is_unique());
        assert!(message.bytes_mut().is_none() && message.front_mut(1).is_none());
        assert!(message.prepend(1).is_none() && message.append(1).is_none());
        assert_eq!(message.extend_from_slice_summed(b"x"), 0);
    }
    let block = place(&message);
    drop(message);
    let elsewhere = pool.allocate(16, 11).expect("memory");
    assert_ne!(place(&elsewhere), block, "the block is still viewed");
    assert!(view.is_unique(), "a single view may write");
    view.bytes_mut().expect("unique").make_ascii_uppercase();
    view.prepend(6).expect("the rest of the block is room");
    assert_eq!(view.bytes(), b"hello WORLD");
    drop(view);
    assert_eq!(
        place(&pool.allocate(16, 11).expect("memory")),
        block,
        "free with its last view"
    );
}

#[test]
fn the_arena_bounds_all_pools_and_refusals_are_counted() {
    let (arena, mut pool) = pool_of(300_000);
    let mut other = Pool::new(&arena);
    let mut kept: Vec<Message> = std::iter::from_fn(|| pool.allocate(128, 1500)).collect();
    assert!(kept.len() >= 64 && arena.used_bytes() <= arena.limit_bytes());
    while let Some(message) = other.allocate(0, 0) {
        kept.push(message);
    }
    assert_eq!(pool.counters().refused, 1);
    assert!(other.counters().refused == 1);
    let used = arena.used_bytes();
    let slabs = pool.counters().slab_bytes + other.counters().slab_bytes;
    assert_eq!(used as u64, slabs);

    kept.clear();
    let message = pool.allocate(128, 1500).expect("came back");
    assert_eq!(
        arena.used_bytes(),
        used,
        "from the return stack, not from the arena"
    );
    let view = message
        .share(&mut pool)
        .expect("a larger node serves as a view when the arena is spent");
    drop((message, view));

    assert!(
        pool.allocate(MAX_BLOCK, 1).is_none(),
        "no block is as large"
    );
    assert!(pool.allocate(usize::MAX, 1).is_none(), "no overflow");
    assert_eq!(pool.counters().refused, 3);
    drop((pool, other));
    assert_eq!(arena.used_bytes(), 0);
}

#[test]
fn nothing_is_lost_when_views_cannot_be_had() {
    let (arena, mut pool) = pool_of(80_000);
    let mut none = Pool::new(&Arena::new(0));
    let mut chain = pool.copy_from_slice(0, b"abc").expect("memory");
    chain.push_continuation(pool.copy_from_slice(0, b"defg").expect("memory"));
    assert!(chain.share(&mut none).is_none());
    assert!(chain.share_range(1, 5, &mut none).is_none());
    assert!(chain.split_to(5, &mut none).is_none());
    let view = chain
        .share_range(0, 2, &mut pool)
        .expect("fallback to a block's node");
    assert!(
        !chain.pull_up(5, &mut none),
        "not unique, and no block to be had"
    );
    drop(view);
    assert!(chain.pull_up(5, &mut none), "into the tailroom");
    assert_eq!((chain.bytes(), chain.total_len()), (&b"abcde"[..], 7));
    drop((chain, pool));
    assert_eq!(arena.used_bytes(), 0);
}

#[test]
fn bytes_that_stay_for_ever_are_viewed_and_never_written() {
    static BYTES: [u8; 8] = *b"constant";
    let (arena, mut pool) = pool_of(1 << 20);
    let mut view = pool.view_static(&BYTES).expect("memory");
    let mut front = view.split_to(3, &mut pool).expect("memory");
    let again = view.share(&mut pool).expect("memory");
    assert_eq!(
        (front.bytes(), view.bytes(), again.bytes()),
        (&b"con"[..], &b"stant"[..], &b"stant"[..])
    );
    drop(view);
    assert!(!front.is_unique() && !front.owns_headroom());
    assert!(front.bytes_mut().is_none() && front.front_mut(1).is_none());
    assert!(front.prepend(1).is_none() && front.append(1).is_none());
    assert!(front.share_with_headroom(&mut pool).is_none());
    let mut head = pool.copy_from_slice(8, b"in").expect("memory");
    head.push_continuation(again);
    assert!(head.pull_up(4, &mut pool));
    assert_eq!(head.blocks().collect::<Vec<_>>(), [&b"inst"[..], b"ant"]);
    let thread = std::thread::spawn(move || drop(head));
    thread.join().expect("no panic");
    drop((front, pool));
    assert_eq!(arena.used_bytes(), 0);
}

#[test]
fn pull_up_keeps_head_and_notes() {
    let (_arena, mut pool) = pool_of(1 << 20);
    let mut chain = pool.copy_from_slice(40, b"ab").expect("memory");
    chain.set_note([9u64; 14]);
    chain.set_ticket(3);
    let _other_view = chain.share(&mut pool).expect("memory");
    chain.push_continuation(pool.copy_from_slice(0, b"cdef").expect("memory"));
    assert!(chain.pull_up(4, &mut pool));
    assert_eq!(chain.blocks().collect::<Vec<_>>(), [&b"abcd"[..], b"ef"]);
    assert_eq!(
        (chain.note::<[u64; 14]>(), chain.ticket(), chain.headroom()),
        ([9; 14], 3, 40)
    );
    assert!(!chain.pull_up(7, &mut pool), "there is not as much");
    *chain.note_mut::<u32>() = 1;
    assert_eq!(chain.note::<[u32; 3]>(), [1, 0, 9]);
}

#[test]
fn nodes_of_all_classes_come_home_together_and_each_to_its_list() {
    const SIZES: [usize; 3] = [100, 1500, 9000];
    let (_arena, mut near) = pool_of(8 << 20);
    let (_other, mut far) = pool_of(8 << 20);
    let make = |far: &mut Pool| -> Vec<Message> {
        let size = |index: usize| SIZES[index % SIZES.len()];
        (0..10)
            .map(|index| far.allocate(0, size(index)).expect("memory"))
            .collect()
    };
    let first = make(&mut far);
    let views: Vec<Message> = first
        .iter()
        .map(|message| message.share(&mut far).expect("memory"))
        .collect();
    let mut places: Vec<_> = first.iter().map(place).collect();
    let carved = far.counters();
    for message in first.into_iter().chain(views) {
        near.free(message);
    }
    near.flush_away();
    drop(far.bind());
    assert_eq!(far.counters().returned, 20);
    let again = make(&mut far);
    let mut places_again: Vec<_> = again.iter().map(place).collect();
    places.sort_unstable();
    places_again.sort_unstable();
    assert_eq!(places_again, places, "of the right sizes, and each once");
    assert!(again.iter().zip(0..).all(|(message, index)| {
        message.tailroom() >= SIZES[index % SIZES.len()] && message.is_unique()
    }));
    assert_eq!(far.counters().recycled, carved.recycled + 10);
}

#[test]
fn messages_freed_under_a_pool_of_another_arena_go_home_in_batches() {
    let (_arena, mut near) = pool_of(8 << 20);
    let (_other, mut far) = pool_of(8 << 20);
    let mut messages: Vec<Message> = (0..40)
        .map(|_| far.allocate(0, 100).expect("memory"))
        .collect();
    let drained = |far: &mut Pool| {
        let before = far.counters().returned;
        // Takes everything on the return stack, when the free list and the rest of the slab are used up.
        let all: Vec<Message> = (0..128)
            .map(|_| far.allocate(0, 100).expect("memory"))
            .collect();
        std::mem::forget(all);
        far.counters().returned - before
    };
    let mut bound = near.bind();
    messages.truncate(40 - 31);
    assert_eq!(drained(&mut far), 0, "31 are not a batch");
    messages.truncate(40 - 32);
    assert_eq!(drained(&mut far), 32);
    messages.truncate(40 - 35);
    bound.flush_away();
    assert_eq!(drained(&mut far), 3);
    messages.clear();
    assert_eq!(bound.counters().away, 40);
    drop(bound);
    assert_eq!(drained(&mut far), 5, "the guard sends what is left");
}

#[test]
fn few_messages_freed_under_another_pool_are_used_there_again_until_its_guard_is_dropped() {
    // As many of this size as lie in a slab.
    const LODGERS: usize = 128;
    let (arena, mut near) = pool_of(8 << 20);
    let mut far = Pool::new(&arena);
    let make = |pool: &mut Pool, count: usize| -> Vec<Message> {
        (0..count)
            .map(|_| pool.allocate(0, 100).expect("memory"))
            .collect()
    };
    let mut messages = make(&mut far, 1 + LODGERS + 5);
    let places: Vec<_> = messages.iter().map(place).collect();
    let all_from_far = |messages: &[Message]| messages.iter().all(|m| places.contains(&place(m)));

    let mut bound = near.bind();
    // A pool that has none of its own takes in none.
    drop(messages.pop());
    assert_eq!(bound.counters().away, 1);
    drop(make(&mut bound, 1));
    drop(messages);
    assert_eq!(bound.counters().away, 1 + 5, "more than may stay");
    let again = make(&mut bound, LODGERS);
    assert!(all_from_far(&again));
    assert!(!all_from_far(&make(&mut bound, 1)), "all are in use");
    drop(again);
    bound.flush_away();
    bound.put_off();

    let mut bound = near.bind();
    let again = make(&mut bound, LODGERS);
    assert!(all_from_far(&again), "kept from the last guard");
    drop(again);
    assert_eq!(bound.counters().away, 1 + 5);
    drop(bound);
    assert_eq!(near.counters().away, 1 + LODGERS as u64 + 5);
    let mut far = far.bind();
    assert_eq!(far.counters().returned, 1 + LODGERS as u64 + 5);
    assert!(all_from_far(&make(&mut far, 1 + LODGERS + 5)));
}

#[test]
fn where_memory_is_not_ample_all_messages_go_home() {
    // Of two slabs of this size, one is less than half of the arena, and both are more.
    let (arena, mut near) = pool_of(280_000);
    let mut far = Pool::new(&arena);
    drop(near.allocate(0, 100).expect("memory"));
    let mut bound = near.bind();
    let message = far.allocate(0, 100).expect("memory");
    assert!(arena.used_bytes() > arena.limit_bytes() / 2);
    let place_far = place(&message);
    drop(message);
    assert_eq!(bound.counters().away, 1);
    assert_ne!(place(&bound.allocate(0, 100).expect("memory")), place_far);
    // What was taken in before goes too.
    let (arena, mut near) = pool_of(380_000);
    let mut far = Pool::new(&arena);
    drop(near.allocate(0, 100).expect("memory"));
    let inner = near.bind();
    drop(far.allocate(0, 100).expect("memory"));
    assert_eq!(inner.counters().away, 0);
    let charge = arena.charge(100_000).expect("memory");
    inner.put_off();
    assert_eq!(near.counters().away, 1);
    drop(charge);
}

#[test]
fn what_came_back_is_used_before_what_lay_idle() {
    let (arena, mut near) = pool_of(8 << 20);
    let mut far = Pool::new(&arena);
    let mut messages: Vec<Message> = (0..64)
        .map(|_| far.allocate(0, 100).expect("memory"))
        .collect();
    let out = messages.split_off(32);
    let places: Vec<_> = out.iter().map(place).collect();
    {
        let _bound = far.bind();
        drop(messages);
    }
    {
        let _bound = near.bind();
        drop(out);
    }
    let mut far = far.bind();
    for _ in 0..32 {
        let message = far.allocate(0, 100).expect("memory");
        assert!(places.contains(&place(&message)));
        std::mem::forget(message);
    }
}

#[test]
fn more_homes_than_slots_lose_nothing() {
    let (arena, mut near) = pool_of(32 << 20);
    let mut far: Vec<Pool> = (0..9).map(|_| Pool::new(&arena)).collect();
    {
        let _bound = near.bind();
        for _ in 0..100 {
            for pool in &mut far {
                drop(pool.allocate(0, 10).expect("memory"));
            }
        }
    }
    drop((near, far));
    assert_eq!(arena.used_bytes(), 0);
}

#[test]
fn a_pool_may_go_before_its_messages() {
    let (arena, mut pool) = pool_of(8 << 20);
    let mut near = Pool::new(&arena);
    let make = |pool: &mut Pool| {
        let message = pool.copy_from_slice(0, b"late").expect("memory");
        let view = message.share(pool).expect("memory");
        (message, view)
    };
    let (message, view) = make(&mut pool);
    let (second, second_view) = make(&mut pool);
    drop(make(&mut pool));
    drop(pool);
    assert!(arena.used_bytes() > 0);
    assert_eq!(view.bytes(), b"late");
    drop(message);
    assert_eq!(view.bytes(), b"late");
    {
        let _bound = near.bind();
        drop((view, second));
        assert!(arena.used_bytes() > 0, "on the way");
    }
    let thread = std::thread::spawn(move || {
        assert_eq!(second_view.bytes(), b"late");
        drop(second_view);
    });
    thread.join().expect("no panic");
    assert_eq!(
        arena.used_bytes(),
        0,
        "freed by the last message, on another thread"
    );
}

#[test]
fn guards_nest_and_may_go_in_any_order() {
    let (arena, mut a) = pool_of(8 << 20);
    let (mut b, mut c) = (Pool::new(&arena), Pool::new(&arena));
    let (message_a, message_b) = (
        a.allocate(0, 1).expect("memory"),
        b.allocate(0, 1).expect("memory"),
    );
    let (place_a, place_b) = (place(&message_a), place(&message_b));
    let guard_a = a.bind();
    let mut guard_b = b.bind();
    let guard_c = c.bind();
    drop(guard_a);
    drop(a);
    drop(guard_c);
    drop(message_b);
    assert_eq!(
        place(&guard_b.allocate(0, 1).expect("memory")),
        place_b,
        "b is the innermost now"
    );
    assert_eq!(guard_b.counters().away, 0);
    assert_eq!(place(&message_a), place_a);
    drop(message_a);
    let again = guard_b.allocate(0, 1).expect("memory");
    assert_eq!(place(&again), place_a, "though its pool is gone");
    drop(again);
    drop(guard_b);
    drop((b, c));
    assert_eq!(arena.used_bytes(), 0);
}

#[test]
fn a_forgotten_guard_leaks_but_breaks_nothing() {
    let (arena, mut pool) = pool_of(8 << 20);
    let message = pool.allocate(0, 1).expect("memory");
    std::mem::forget(pool.bind());
    let mut other = Pool::new(&arena);
    let guard = other.bind();
    drop(pool);
    drop(guard);
    drop(message);
    drop(other);
    assert!(arena.used_bytes() > 0);
}

#[test]
fn a_pool_whose_guard_was_forgotten_is_refused_to_other_threads() {
    let (_arena, mut pool) = pool_of(8 << 20);
    std::mem::forget(pool.bind());
    drop(pool.allocate(0, 1).expect("still good here"));
    let elsewhere = std::thread::spawn(move || {
        let refused = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            pool.allocate(0, 1).is_some()
        }));
        drop(pool);
        refused.is_err()
    });
    assert!(elsewhere.join().expect("no panic outside"));
}

#[test]
fn a_pool_exchanged_behind_its_guard_is_still_sound() {
    let (arena, mut pool) = pool_of(8 << 20);
    let mut guard = pool.bind();
    let mut taken = std::mem::replace(&mut *guard, Pool::new(&arena));
    let message = taken.allocate(0, 1).expect("bound here, so good here");
    drop(taken.bind());
    drop(message);
    let thread = std::thread::spawn(move || drop(taken));
    thread.join().expect("dropping is always allowed");
    drop(guard.allocate(0, 1).expect("memory"));
    drop(guard);
    drop(pool);
    assert!(
        arena.used_bytes() > 0,
        "the pool that went while bound is leaked"
    );
}

#[test]
fn dropped_while_unwinding_messages_still_go_home() {
    let (arena, mut pool) = pool_of(8 << 20);
    let unwound = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        let mut bound = pool.bind();
        let _message = bound.allocate(0, 1).expect("memory");
        panic!("on purpose");
    }));
    assert!(unwound.is_err());
    drop(pool);
    assert_eq!(arena.used_bytes(), 0);
}
