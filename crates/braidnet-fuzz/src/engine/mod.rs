//! The TCP engine beside the model, over any sequence of segments, times and calls.

mod driver;
mod input;
mod model;
mod outgoing;
pub mod recorder;
mod setup;

pub use input::RECORD;

use driver::Driver;
use input::records;

/// Most records of an input that count.
const RECORDS_MAX: usize = 600;

/// How many segments have arrived at engines in this process: what executions are worth.
pub fn segments() -> u64 {
    driver::SEGMENTS.load(std::sync::atomic::Ordering::Relaxed)
}

/// Nothing panics, what the engine says is what the model says, and what it sends is what a peer may be sent.
pub fn connection(input: &[u8]) {
    let mut records = records(input).take(RECORDS_MAX);
    let Some(setup) = records.next() else {
        return;
    };
    let mut driver = Driver::open(setup);
    for record in records {
        driver.step(record);
    }
    driver.end();
}
