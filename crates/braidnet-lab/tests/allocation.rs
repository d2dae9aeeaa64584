//! Steady state takes nothing from the global allocator: every architecture, one stack and two, every thread.
//!
//! `BRAIDNET_ALLOCATION_MESSAGES` sets how many messages are measured, 1,000,000 unless it does.

use braidnet_lab::{Direction, Presentation, TtcpConfig, run_watched};
use braidnet_process::Architecture;
use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// The system's allocator, with a count of what was asked of it while it was watched.
struct Counting;

static WATCHED: AtomicBool = AtomicBool::new(false);
static ASKED: AtomicU64 = AtomicU64::new(0);

fn note() {
    if WATCHED.load(Ordering::Relaxed) {
        ASKED.fetch_add(1, Ordering::Relaxed);
    }
}

// SAFETY: all is passed on to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        note();
        // SAFETY: the caller's promise, passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise, passed on.
        unsafe { System.dealloc(block, layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        note();
        // SAFETY: the caller's promise, passed on.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        note();
        // SAFETY: the caller's promise, passed on.
        unsafe { System.realloc(block, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn messages() -> u64 {
    let set = std::env::var("BRAIDNET_ALLOCATION_MESSAGES");
    set.ok()
        .and_then(|text| text.parse().ok())
        .unwrap_or(1_000_000)
}

/// What was asked of the allocator from the end of the warm-up to the end of the window.
fn asked(config: &TtcpConfig) -> u64 {
    let mut before = 0;
    let mut after = 0;
    let result = run_watched(config, &mut |open| {
        WATCHED.store(open, Ordering::SeqCst);
        let asked = ASKED.load(Ordering::SeqCst);
        if open { before = asked } else { after = asked }
    });
    let result = result.unwrap_or_else(|error| panic!("{config:?}: {error}"));
    assert!(result.messages >= config.messages);
    after - before
}

fn config(direction: Direction, architecture: Architecture) -> TtcpConfig {
    TtcpConfig {
        architecture,
        processors: 2,
        connections: 20,
        direction,
        messages: messages(),
        warmup: 10_000,
        min_duration: Duration::ZERO,
        ..TtcpConfig::default()
    }
}

/// Every direction, and every presentation both ways.
const LOADS: [(Direction, Presentation); 4] = [
    (Direction::Receive, Presentation::None),
    (Direction::Receive, Presentation::Xdr),
    (Direction::Send, Presentation::None),
    (Direction::Both, Presentation::Xdr),
];

fn nothing_is_asked(direction: Direction, presentation: Presentation) {
    for architecture in Architecture::ALL {
        let divided = architecture == Architecture::Function;
        if divided && direction == Direction::Send {
            continue;
        }
        let config = TtcpConfig {
            presentation,
            work: Duration::from_micros(u64::from(divided)),
            ..config(direction, architecture)
        };
        let asked = asked(&config);
        assert_eq!(asked, 0, "times, under {config:?}");
    }
}

fn what_is_asked_is_counted() {
    WATCHED.store(true, Ordering::SeqCst);
    let before = ASKED.load(Ordering::SeqCst);
    drop(std::hint::black_box(Box::new(1)));
    assert!(ASKED.load(Ordering::SeqCst) > before);
    WATCHED.store(false, Ordering::SeqCst);
}

/// Its own harness: that of the standard library has a thread of its own, which writes and allocates while tests run.
fn main() {
    what_is_asked_is_counted();
    for (direction, presentation) in LOADS {
        nothing_is_asked(direction, presentation);
        println!(
            "direction {direction}, presentation {presentation}: nothing asked of the allocator"
        );
    }
}
