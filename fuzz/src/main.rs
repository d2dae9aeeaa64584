//! The targets of `braidnet-fuzz` under libFuzzer, in one binary: `BRAIDNET_FUZZ=tcp fuzz <folder of inputs> -runs=1000000`.
//!
//! `cargo run -p xtask -- fuzz` builds it with the instrumentation that libFuzzer is guided by, and runs it.
#![no_main]

use braidnet_fuzz::Target;
use libfuzzer_sys::fuzz_target;
use std::sync::OnceLock;

fn target() -> Target {
    static TARGET: OnceLock<Target> = OnceLock::new();
    *TARGET.get_or_init(|| {
        let name = std::env::var("BRAIDNET_FUZZ").unwrap_or_default();
        braidnet_fuzz::target(&name)
            .unwrap_or_else(|| panic!("BRAIDNET_FUZZ={name} is none of the targets"))
    })
}

fuzz_target!(|input: &[u8]| (target().run)(input));
