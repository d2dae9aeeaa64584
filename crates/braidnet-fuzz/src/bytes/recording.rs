//! Capture files (pcap, pcapng).

use braidnet_device::Medium;
use braidnet_device::replay::{Record, Recording};
use std::io::Cursor;

/// A file gives what is in it and no more; a pcap file what the plainest reader finds, up to where either stops.
pub fn recording(input: &[u8]) {
    let Ok(mut recording) = Recording::new(Cursor::new(input.to_vec())) else {
        return;
    };
    let (mut records, mut failed) = (Vec::new(), false);
    loop {
        match recording.next_record() {
            Ok(Some(record)) => records.push(record),
            Ok(None) => break,
            Err(error) => {
                let again = recording
                    .next_record()
                    .expect_err("once broken, always broken");
                assert_eq!(again.to_string(), error.to_string());
                failed = true;
                break;
            }
        }
    }
    let bytes: usize = records.iter().map(|record| record.bytes.len()).sum();
    assert!(bytes <= input.len() && records.len() <= input.len() / 12);
    for record in &records {
        let ethernet = record.packet(Medium::Ethernet {
            address: Default::default(),
        });
        assert!(ethernet.is_err() || ethernet == Ok(&record.bytes[..]));
        if let Ok(packet) = record.packet(Medium::Ip) {
            assert!(record.bytes.ends_with(packet));
            assert!(matches!(packet[0] >> 4, 4 | 6));
            assert!(record.bytes.len() >= record.length, "it was cut");
        }
    }
    if let Some(plain) = plain_pcap(input) {
        assert!(records.len() <= plain.len());
        assert!(failed || records.len() == plain.len());
        assert_eq!(records, plain[..records.len()]);
    }
}

/// draft-ietf-opsawg-pcap §4 and §5; `None` for what is no such file.
fn plain_pcap(file: &[u8]) -> Option<Vec<Record>> {
    let magic: [u8; 4] = file.get(..4)?.try_into().ok()?;
    let (little, unit) = match magic {
        [0xd4, 0xc3, 0xb2, 0xa1] => (true, 1000),
        [0x4d, 0x3c, 0xb2, 0xa1] => (true, 1),
        [0xa1, 0xb2, 0xc3, 0xd4] => (false, 1000),
        [0xa1, 0xb2, 0x3c, 0x4d] => (false, 1),
        _ => return None,
    };
    let word = |at: usize| -> Option<u32> {
        let bytes = file.get(at..at + 4)?.try_into().ok()?;
        Some(if little {
            u32::from_le_bytes(bytes)
        } else {
            u32::from_be_bytes(bytes)
        })
    };
    let link_type = word(20)? as i32;
    let (mut records, mut at) = (Vec::new(), 24);
    while let Some(captured) = word(at + 8) {
        let length = word(at + 12)?;
        let Some(bytes) = file
            .get(at + 16..)
            .and_then(|rest| rest.get(..captured as usize))
        else {
            break;
        };
        records.push(Record {
            nanos: u64::from(word(at)?) * 1_000_000_000 + u64::from(word(at + 4)?) * unit,
            direction: None,
            link_type,
            length: length as usize,
            bytes: bytes.to_vec(),
            comment: None,
        });
        at += 16 + captured as usize;
    }
    Some(records)
}
