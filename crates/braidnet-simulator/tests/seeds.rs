//! Seeds that CI runs: `BRAIDNET_SEEDS=100000 cargo test --release -p braidnet-simulator --test seeds` runs more, and the command does
//! so with progress.

/// Seeds in the usual test run.
const SEEDS: u64 = 2000;

#[test]
fn no_law_is_broken() {
    let seeds = match std::env::var("BRAIDNET_SEEDS") {
        Ok(text) => text.parse().expect("BRAIDNET_SEEDS is a number"),
        Err(_) => SEEDS,
    };
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    match braidnet_simulator::command::run((0, seeds), threads, None) {
        Ok(report) => println!("{report}"),
        Err(failures) => panic!("{failures}"),
    }
}
