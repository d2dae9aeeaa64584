//! What a memory wire costs: `cargo bench -p braidnet-device --bench wire`.
//!
//! Nanoseconds of processor time per packet for one thread that turns both ends, the best of several repetitions (the
//! machine's other work only ever adds). Every row allocates, sends, receives and drops a packet of 40 bytes; the first line is the part of
//! it that is not the wire's: the same packets through a run alone.

use std::hint::black_box;

use braidnet_device::capture::Capture;
use braidnet_device::{Capabilities, Device, QueuePair, RECEIVE_HEADROOM, memory};
use braidnet_message::{Arena, Pool, Run};
use rustix::time::{ClockId, clock_gettime};

const PACKETS: usize = 1 << 20;
const REPETITIONS: usize = 9;

fn main() {
    let mut pool = Pool::new(&Arena::new(64 << 20));
    let mut pool = pool.bind();
    for batch in [1, 8, 32, 128] {
        let mut run = Run::with_capacity(batch);
        report("no wire", batch, || {
            fill(&mut pool, &mut run, batch);
            black_box(&mut run).clear();
        });
        let ends = || memory::wire(Capabilities::ip(1500), 256);
        let (near, far) = ends();
        cross("pointer", batch, &mut pool, open(near), open(far));
        let (near, far) = ends();
        let near = open(near);
        let _other = near.transmitter.another();
        cross(
            "pointer, transmitter shared",
            batch,
            &mut pool,
            near,
            open(far),
        );
        let (near, far) = ends();
        cross("copying", batch, &mut pool, open(near), open(far.copying()));
        let (near, far) = ends();
        let capture = Capture::with_clock(std::io::sink(), 96, || 0).expect("a thread");
        cross(
            "captured, snap length 96",
            batch,
            &mut pool,
            open(capture.around("near", near)),
            open(far),
        );
    }
}

fn open(device: impl Device) -> QueuePair {
    Box::new(device).open().expect("a wire opens").remove(0)
}

fn fill(pool: &mut Pool, run: &mut Run, batch: usize) {
    for _ in 0..batch {
        let mut message = pool.allocate(RECEIVE_HEADROOM, 40).expect("memory");
        message.append(40);
        run.push(message);
    }
}

fn cross(what: &str, batch: usize, pool: &mut Pool, mut near: QueuePair, mut far: QueuePair) {
    let (mut out, mut back) = (Run::with_capacity(batch), Run::with_capacity(batch));
    report(what, batch, || {
        fill(pool, &mut out, batch);
        near.transmitter.transmit(&mut out);
        assert_eq!(far.receiver.receive(pool, &mut back, batch), batch);
        black_box(&mut back).clear();
    });
}

fn report(what: &str, batch: usize, mut step: impl FnMut()) {
    let mut best = f64::INFINITY;
    for _ in 0..REPETITIONS {
        let start = processor_time();
        for _ in 0..PACKETS / batch {
            step();
        }
        best = best.min((processor_time() - start) as f64 / PACKETS as f64);
    }
    println!("{what:28} batch {batch:3}  {best:7.2} ns per packet");
}

/// Nanoseconds that this thread has run.
fn processor_time() -> i64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec * 1_000_000_000 + time.tv_nsec
}
