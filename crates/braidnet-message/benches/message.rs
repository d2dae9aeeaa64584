//! What messages cost: `cargo bench -p braidnet-message`.
//!
//! Nanoseconds per operation, the best of several repetitions (the machine's other work only ever adds), with every step's
//! message passed through `black_box`. The pools are warm: this is the steady state.

use std::hint::black_box;
use std::sync::{Arc, mpsc};
use std::time::Instant;

use braidnet_message::{Arena, Pool, Run};

const ROUNDS: u32 = 1_000_000;
const REPETITIONS: usize = 9;

fn main() {
    let arena = Arena::new(64 << 20);
    let mut pool = Pool::new(&arena);
    {
        let mut pool = pool.bind();
        report("allocate + drop", || {
            black_box(pool.allocate(128, 1500));
        });
        let original = pool.copy_from_slice(128, &[7; 1448]).expect("memory");
        report("share + drop, of a unique block", || {
            black_box(original.share(&mut pool));
        });
        let second = original.share(&mut pool);
        report("share + drop, of a shared block", || {
            black_box(original.share(&mut pool));
        });
        drop(second);
        report("allocate + drop, 32 at a time", batch(&mut pool));
        let payload = [7; 1448];
        report("allocate + copy and sum 1448 bytes + drop", || {
            let mut message = pool.allocate(128, 1500).expect("memory");
            message.extend_from_slice_summed(black_box(&payload));
            black_box(message);
        });
        for (buffers, sources) in [(1, 1), (16, 64)] {
            let name = format!("4 KiB in, summed, out: {buffers} buffers, {sources} sources");
            report(&name, there_and_back(&mut pool, buffers, sources));
        }
        report("header in its own block before a shared view", || {
            let mut header = pool.allocate(128, 0).expect("memory");
            header.prepend(40).expect("headroom").fill(1);
            header.push_continuation(original.share(&mut pool).expect("memory"));
            black_box(header);
        });
        let mut other = Pool::new(&arena);
        report("allocate + drop of a pool bound further out", || {
            let bound = black_box(&mut other);
            black_box(bound.allocate(128, 1500));
        });
    }
    report("allocate + drop, no pool bound", || {
        black_box(pool.allocate(128, 1500));
    });
    report("bind + unbind", || {
        black_box(pool.bind());
    });
    across_threads(&arena);
}

/// What any stack does with 4 KiB: copied and summed in, summed, copied out. As many buffers in turn as said, and sources.
fn there_and_back(pool: &mut Pool, buffers: usize, sources: usize) -> impl FnMut() {
    const LEN: usize = 4096;
    let sources = vec![7; sources * LEN];
    let mut buffers: Vec<_> = (0..buffers)
        .map(|_| pool.allocate(128, LEN).expect("memory"))
        .collect();
    let (mut out, mut turn) = ([0; LEN], 0);
    move || {
        turn += 1;
        let (count, from) = (buffers.len(), turn * LEN % sources.len());
        let message = &mut buffers[turn % count];
        message.truncate(0);
        message.extend_from_slice_summed(black_box(&sources[from..from + LEN]));
        message.set_sum(None);
        black_box(message.block_sum());
        message.copy_to_slice(black_box(&mut out));
    }
}

/// One allocation of 32 kept in a run, and every 32nd time all freed.
fn batch(pool: &mut Pool) -> impl FnMut() {
    let mut run = Run::with_capacity(32);
    move || {
        run.push(pool.allocate(128, 1500).expect("memory"));
        if run.len() == 32 {
            run.clear();
        }
    }
}

/// Runs of 32 allocated on one thread and freed on another, where another pool is bound. The runs go round through
/// channels; neither side sleeps, and the cost of the channels, shared by 32 messages, is contained in the figure, as is
/// that of the nodes' cache lines on their way there and back.
fn across_threads(arena: &Arc<Arena>) {
    const RUNS: u32 = 100_000;
    let (to, from) = mpsc::sync_channel::<Run>(16);
    let (back, empty) = mpsc::sync_channel::<Run>(16);
    for _ in 0..16 {
        back.send(Run::with_capacity(32))
            .expect("the receiver is here");
    }
    let mut far = Pool::new(arena);
    let freeing = std::thread::spawn(move || {
        let _bound = far.bind();
        while let Some(mut run) = spin(&from) {
            run.clear();
            if back.send(run).is_err() {
                break;
            }
        }
    });
    let mut pool = Pool::new(arena);
    let started = Instant::now();
    {
        let mut pool = pool.bind();
        for _ in 0..RUNS {
            let mut run = spin(&empty).expect("the other side lives");
            run.extend((0..32).map(|_| pool.allocate(128, 1500).expect("memory")));
            to.send(run).expect("the other side lives");
        }
    }
    let ns = started.elapsed().as_nanos() as f64 / f64::from(RUNS * 32);
    println!(
        "{:48} {ns:7.2} ns",
        "allocate here, drop on another processor"
    );
    drop((to, empty));
    freeing.join().expect("no panic");
}

/// Receives without sleeping; `None` when the other side is gone.
fn spin<T>(from: &mpsc::Receiver<T>) -> Option<T> {
    loop {
        match from.try_recv() {
            Ok(received) => return Some(received),
            Err(mpsc::TryRecvError::Empty) => std::hint::spin_loop(),
            Err(mpsc::TryRecvError::Disconnected) => return None,
        }
    }
}

fn report(name: &str, mut operation: impl FnMut()) {
    let best = (0..REPETITIONS).map(|_| {
        let started = Instant::now();
        for _ in 0..ROUNDS {
            operation();
        }
        started.elapsed().as_nanos() as f64 / f64::from(ROUNDS)
    });
    println!("{name:48} {:7.2} ns", best.fold(f64::INFINITY, f64::min));
}
