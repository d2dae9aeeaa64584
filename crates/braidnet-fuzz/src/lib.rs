//! What fuzzing feeds braidnet, and what must hold whatever it is fed.
//!
//! A [`Target`] is a function from bytes to nothing that panics where a law does not hold. The laws are more than that nothing
//! panics: what is read is what the plainest reading of the format finds, and what is written reads the same.
//!
//! Targets run in three places: in the tests, over the [corpora](corpus) that are kept; under libFuzzer (`fuzz/`,
//! `cargo run -p xtask -- fuzz`), which looks for inputs that reach what none before has reached; and, a dozen times as fast and
//! blind, in this crate's binary, which changes inputs that are kept at random.
//!
//! # What it refuses
//!
//! It finds out nothing about what input never decides: threads, locks and schedules have tests of their own.

pub mod bytes;
pub mod corpus;
pub mod engine;
pub mod forwarding;
pub mod stack;

/// Something to feed bytes to.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// What it is called, in commands and as the name of its corpus.
    pub name: &'static str,
    /// Takes an input; panics where a law does not hold.
    pub run: fn(&[u8]),
    /// Bytes that belong together: changes that move others move so many.
    pub grain: usize,
}

/// Every target.
pub const TARGETS: [Target; 20] = [
    Target {
        name: "arp",
        run: bytes::link::arp,
        grain: 1,
    },
    Target {
        name: "checksum",
        run: bytes::checksum::sum,
        grain: 1,
    },
    Target {
        name: "engine",
        run: engine::connection,
        grain: engine::RECORD,
    },
    Target {
        name: "ethernet",
        run: bytes::link::ethernet,
        grain: 1,
    },
    Target {
        name: "flow",
        run: bytes::ip::flow,
        grain: 1,
    },
    Target {
        name: "forwarding",
        run: forwarding::packets,
        grain: forwarding::RECORD,
    },
    Target {
        name: "fragments",
        run: stack::fragments,
        grain: 4,
    },
    Target {
        name: "http_request",
        run: bytes::http::request,
        grain: 1,
    },
    Target {
        name: "icmp",
        run: bytes::ip::icmp,
        grain: 1,
    },
    Target {
        name: "impairments",
        run: bytes::words::impairments,
        grain: 1,
    },
    Target {
        name: "ipv4",
        run: bytes::ip::ipv4,
        grain: 1,
    },
    Target {
        name: "ipv6",
        run: bytes::ip::ipv6,
        grain: 1,
    },
    Target {
        name: "packets",
        run: stack::packets,
        grain: 1,
    },
    Target {
        name: "quoted",
        run: bytes::ip::quoted,
        grain: 1,
    },
    Target {
        name: "record_marks",
        run: bytes::records::record_marks,
        grain: 1,
    },
    Target {
        name: "recording",
        run: bytes::recording::recording,
        grain: 1,
    },
    Target {
        name: "tcp",
        run: bytes::transport::tcp,
        grain: 1,
    },
    Target {
        name: "udp",
        run: bytes::transport::udp,
        grain: 1,
    },
    Target {
        name: "vnet",
        run: bytes::vnet::description,
        grain: 1,
    },
    Target {
        name: "xdr_batch",
        run: bytes::records::xdr_batch,
        grain: 1,
    },
];

/// The target of this name.
pub fn target(name: &str) -> Option<Target> {
    TARGETS.into_iter().find(|target| target.name == name)
}
