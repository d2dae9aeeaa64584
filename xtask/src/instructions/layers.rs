//! The layers that instructions are counted for, close to those of DEMUX figure 8.

use super::profile::Place;

/// A layer of the stack, or what serves all of them.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Layer {
    Device,
    Ip,
    Data,
    Transport,
    Presentation,
    Application,
    Framework,
    Memory,
    Locks,
    FarEnd,
    Other,
}

impl Layer {
    /// All of them, in the order of the table.
    pub const ALL: [Layer; 11] = [
        Layer::Device,
        Layer::Ip,
        Layer::Data,
        Layer::Transport,
        Layer::Presentation,
        Layer::Application,
        Layer::Framework,
        Layer::Memory,
        Layer::Locks,
        Layer::FarEnd,
        Layer::Other,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Layer::Device => "device",
            Layer::Ip => "link, IP",
            Layer::Data => "checksums, copies",
            Layer::Transport => "TCP, UDP",
            Layer::Presentation => "presentation",
            Layer::Application => "application",
            Layer::Framework => "framework",
            Layer::Memory => "memory",
            Layer::Locks => "locks, rings, clock",
            Layer::FarEnd => "simulated far end",
            Layer::Other => "others",
        }
    }
}

/// Which files make up which layer: the first that a path begins with, behind `crates/braidnet`.
const FILES: [(&str, Layer); 27] = [
    ("-device/", Layer::Device),
    ("-impair/", Layer::Device),
    ("-wire/src/checksum", Layer::Data),
    ("-wire/src/tcp", Layer::Transport),
    ("-wire/src/seq", Layer::Transport),
    ("-wire/src/udp", Layer::Transport),
    ("-wire/src/time", Layer::Transport),
    ("-wire/", Layer::Ip),
    ("-inet/src/tcp", Layer::Transport),
    ("-inet/src/udp", Layer::Transport),
    ("-inet/", Layer::Ip),
    ("-tcp/", Layer::Transport),
    ("-codec/", Layer::Presentation),
    ("-lab/src/load/", Layer::Application),
    ("-lab/src/content", Layer::Application),
    ("-lab/", Layer::FarEnd),
    ("-service/", Layer::Application),
    ("-scripts/", Layer::Application),
    ("-simulator/", Layer::Application),
    ("-packetdrill/", Layer::Application),
    ("-stream/", Layer::Framework),
    ("-process/", Layer::Framework),
    ("-message/", Layer::Memory),
    ("-sync/", Layer::Locks),
    ("-cli/", Layer::Other),
    ("-fuzz/", Layer::Other),
    ("/", Layer::Framework),
];

/// What the functions of libraries are for: the first of these that a name contains.
const SYMBOLS: [(&str, Layer); 9] = [
    ("memcpy", Layer::Data),
    ("memmove", Layer::Data),
    ("memset", Layer::Data),
    ("alloc", Layer::Memory),
    ("free", Layer::Memory),
    ("clock", Layer::Locks),
    ("mutex", Layer::Locks),
    ("futex", Layer::Locks),
    ("tls_get_addr", Layer::Memory),
];

/// The layer that an instruction counts for.
pub fn layer_of(place: &Place) -> Layer {
    let found = match place {
        Place::Line(file, _) => {
            let path = file.trim_start_matches("crates/braidnet");
            FILES.iter().find(|(prefix, _)| path.starts_with(prefix))
        }
        Place::Symbol(name) => SYMBOLS.iter().find(|(part, _)| name.contains(part)),
    };
    found.map_or(Layer::Other, |(_, layer)| *layer)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_and_library_functions_have_their_layer() {
        let rows = [
            ("crates/braidnet-inet/src/tcp/core.rs", Layer::Transport),
            ("crates/braidnet-inet/src/ip.rs", Layer::Ip),
            ("crates/braidnet-wire/src/checksum/avx2.rs", Layer::Data),
            ("crates/braidnet-wire/src/ipv4.rs", Layer::Ip),
            ("crates/braidnet-lab/src/far/tcp.rs", Layer::FarEnd),
            ("crates/braidnet-lab/src/load/sink.rs", Layer::Application),
            ("crates/braidnet/src/wiring.rs", Layer::Framework),
        ];
        for (file, layer) in rows {
            assert_eq!(layer_of(&Place::Line(file.to_owned(), 1)), layer, "{file}");
        }
        let symbols = [
            ("__memmove_avx_unaligned_erms", Layer::Data),
            ("_int_malloc", Layer::Memory),
            ("main", Layer::Other),
        ];
        for (symbol, layer) in symbols {
            assert_eq!(
                layer_of(&Place::Symbol(symbol.to_owned())),
                layer,
                "{symbol}"
            );
        }
    }

    /// A crate that is new has to be given a layer.
    #[test]
    fn every_crate_has_a_layer() {
        let crates = std::fs::read_dir(crate::workspace_root().join("crates")).expect("our crates");
        for entry in crates {
            let name = entry.expect("a folder").file_name();
            let file = format!("crates/{}/src/lib.rs", name.to_string_lossy());
            let path = file.trim_start_matches("crates/braidnet");
            assert!(
                FILES.iter().any(|(prefix, _)| path.starts_with(prefix)),
                "{file}"
            );
        }
    }
}
