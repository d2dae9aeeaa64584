//! What is dropped, in a capture.

use crate::pair::{CLIENT, PORT, Pair, SERVER, read, server, text};
use crate::wire::{Impaired, Impairment};
use braidnet::device::capture::Capture;
use braidnet::device::replay::{Record, Recording};
use braidnet::device::{Capabilities, memory};
use braidnet::{Duration, Instant, Stack, StackConfig, recording_drops};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// A file that disappears.
struct Temporary(PathBuf);

impl Drop for Temporary {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// A server to which packets come twice and late, in a capture.
fn captured(path: &Path, capabilities: Capabilities) -> (Pair, Capture) {
    let capture = Capture::create(path, 0).expect("a file");
    capture.note_drops();
    let (here, there) = memory::wire(capabilities, 1024);
    let impairment = Impairment {
        seed: 5,
        doubled: 300,
        delayed: 100,
        ..Impairment::default()
    };
    let config = |address: [u8; 4]| {
        let mut config = StackConfig::new(address.into());
        config.addresses = vec![(address.into(), Some(24))];
        config
    };
    let near = Impaired {
        inner: here,
        impairment: Impairment::default(),
    };
    let far = Impaired {
        inner: there,
        impairment,
    };
    let mut watched = config(SERVER);
    watched.drop_watch = Some(recording_drops(&capture));
    let mut pair = Pair {
        client: Stack::new(&config(CLIENT), near).expect("a stack"),
        server: Stack::new(&watched, capture.around("server", far)).expect("a stack"),
        now: Instant::from_millis(5),
        events: Default::default(),
        nobody_accepts: false,
    };
    pair.server.listen(PORT, 16).expect("a free port");
    (pair, capture)
}

fn records(path: &Path) -> Vec<Record> {
    let mut recording = Recording::open(path).expect("it is one");
    std::iter::from_fn(|| recording.next_record().expect("it is whole")).collect()
}

#[test]
fn each_packet_that_is_dropped_is_recorded_with_the_name_under_which_it_is_counted() {
    let name = format!("braidnet-drops-{}.pcapng", std::process::id());
    let path = Temporary(std::env::temp_dir().join(name));
    let (mut pair, capture) = captured(&path.0, Capabilities::ip(1500));
    let (call, answer) = pair.connected();
    let sent = text(200_000);
    let (mut at, mut heard) = (0, Vec::new());
    for _ in 0..500 {
        at += pair.client.send(call, &sent[at..]).expect("it is open");
        pair.pass(Duration::from_millis(1));
        heard.extend(read(&mut pair.server, answer));
    }
    assert!(heard == sent);
    pair.client.bind(9).expect("a free port");
    for _ in 0..3 {
        let asked = pair.client.send_to(9, server(99), b"anybody?");
        asked.expect("there is room");
        pair.pass(Duration::from_millis(1));
    }
    let counters = pair.server.counters();
    drop(pair);
    capture.flush().expect("there is room");

    let mut dropped = BTreeMap::new();
    let records = records(&path.0);
    for (number, record) in records.iter().enumerate() {
        let Some(comment) = &record.comment else {
            continue;
        };
        let reason = comment
            .strip_prefix("dropped: ")
            .expect("nothing else is said");
        *dropped.entry(reason).or_insert(0) += 1;
        // It is there as it arrived, before that.
        let is_it = |earlier: &Record| earlier.comment.is_none() && earlier.bytes == record.bytes;
        assert!(records[..number].iter().any(is_it), "{reason}");
    }
    for (reason, count) in &dropped {
        assert_eq!(counters.get(*reason), Some(count), "{reason}: {counters:?}");
    }
    assert!(dropped["udp.port_closed"] >= 3, "{dropped:?}");
    assert!(
        dropped.keys().any(|name| name.starts_with("tcp.")),
        "{dropped:?} {counters:?}"
    );
}
