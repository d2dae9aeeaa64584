//! Parsers, each fed arbitrary bytes and held against the plainest reading of its format.

pub mod checksum;
pub mod http;
pub mod ip;
pub mod link;
pub mod recording;
pub mod records;
pub mod transport;
pub mod vnet;
pub mod words;

/// The internet checksum's sum as RFC 1071 §1 defines it, big-endian word by word: as slow and plain as it gets.
pub(crate) fn plain_sum(parts: &[&[u8]]) -> u16 {
    let mut sum = 0u64;
    for part in parts {
        for word in part.chunks(2) {
            sum += u64::from(word[0]) << 8 | u64::from(*word.get(1).unwrap_or(&0));
        }
    }
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

/// Stores the checksum that makes the parts valid together; `at` is where in `of` it stands. `of` goes last.
pub(crate) fn mend(before: &[&[u8]], of: &mut [u8], at: usize) {
    if of.len() < at + 2 {
        return;
    }
    of[at..at + 2].fill(0);
    let mut parts = before.to_vec();
    parts.push(of);
    let checksum = !plain_sum(&parts);
    of[at..at + 2].copy_from_slice(&checksum.to_be_bytes());
}

/// The pseudo-header of IPv4 (RFC 9293 §3.1).
pub(crate) fn pseudo_header(
    source: [u8; 4],
    destination: [u8; 4],
    protocol: u8,
    len: usize,
) -> [u8; 12] {
    let mut bytes = [0; 12];
    bytes[..4].copy_from_slice(&source);
    bytes[4..8].copy_from_slice(&destination);
    bytes[9] = protocol;
    bytes[10..].copy_from_slice(&(len as u16).to_be_bytes());
    bytes
}

pub(crate) fn word(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([bytes[at], bytes[at + 1]])
}

pub(crate) fn double_word(bytes: &[u8], at: usize) -> u32 {
    u32::from(word(bytes, at)) << 16 | u32::from(word(bytes, at + 2))
}

/// Whether `part` lies within `whole`, in memory.
pub(crate) fn lies_within(part: &[u8], whole: &[u8]) -> bool {
    part.is_empty() || {
        let (part, whole) = (part.as_ptr_range(), whole.as_ptr_range());
        whole.start <= part.start && part.end <= whole.end
    }
}
