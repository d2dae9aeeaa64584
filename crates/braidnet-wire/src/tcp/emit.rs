//! From [`TcpHeader`] to bytes.

use super::{
    ALIGNED_TIMESTAMPS, CHECKSUM_OFFSET, FastOpenCookie, MAX_HEADER_LEN, MIN_HEADER_LEN, TcpFlags,
    TcpHeader, kind,
};
use crate::checksum::Sum;

/// Length in bytes of a header with timestamps and no other option.
const TIMESTAMPS_HEADER_LEN: usize = 32;

/// Length in bytes that [`emit`] gives this header: 20 to 60, a multiple of 4.
#[inline]
pub fn header_len(header: &TcpHeader) -> usize {
    let everywhere = options_everywhere_len(header);
    let options = if header.flags.contains(TcpFlags::SYN) {
        syn_options_len(&as_fits(header))
    } else if header.sack_count == 0 {
        everywhere
    } else {
        everywhere + 4 + 8 * sack_blocks_that_fit(header)
    };
    MIN_HEADER_LEN + options
}

/// Bytes of the options that any segment may carry.
#[inline]
fn options_everywhere_len(header: &TcpHeader) -> usize {
    12 * usize::from(header.has(TcpHeader::HAS_TIMESTAMPS))
        + 4 * usize::from(header.has(TcpHeader::HAS_USER_TIMEOUT))
}

#[cold]
fn syn_options_len(header: &TcpHeader) -> usize {
    let word = |bit| 4 * usize::from(header.has(bit));
    // It takes no room beside timestamps.
    let sack_permitted = match header.has(TcpHeader::HAS_TIMESTAMPS) {
        true => 0,
        false => word(TcpHeader::HAS_SACK_PERMITTED),
    };
    options_everywhere_len(header)
        + word(TcpHeader::HAS_MSS)
        + sack_permitted
        + word(TcpHeader::HAS_WINDOW_SCALE)
        + (header.fast_open()).map_or(0, |cookie| cookie.option_len())
}

/// A SYN as far as its options fit: beside the longest cookie and everything else there is no room for a user timeout, which a later segment
/// may tell as well (RFC 5482 §3).
#[cold]
fn as_fits(header: &TcpHeader) -> TcpHeader {
    let mut header = *header;
    if syn_options_len(&header) > MAX_HEADER_LEN - MIN_HEADER_LEN {
        header.present &= !TcpHeader::HAS_USER_TIMEOUT;
    }
    header
}

/// Writes the header to the front of `out`, with a checksum of 0, and returns its length. [`seal`] fills the checksum
/// in.
///
/// Options are laid out in whole words, so that the values in them are aligned: MSS, SACK-permitted, window scale and Fast Open on
/// SYN segments only, where a user timeout gives way to a cookie of 16 bytes beside all of these; SACK blocks on others only, and of those as many as fit: three beside timestamps, two if a user timeout
/// comes as well, else four.
/// Fields without their bit in `present` are not looked at.
///
/// # Panics
///
/// If `out` is shorter than [`header_len`].
#[inline]
pub fn emit(header: &TcpHeader, source_port: u16, destination_port: u16, out: &mut [u8]) -> usize {
    let len = header_len(header);
    let (front, options) = out[..len].split_at_mut(MIN_HEADER_LEN);
    HeaderWords(fixed_words(header, source_port, destination_port, len)).write(front);
    emit_options(header, options);
    len
}

/// [`emit`] and [`seal`] in one: the usual headers are summed before they leave the registers.
///
/// # Panics
///
/// If `out` is shorter than [`header_len`].
#[inline]
pub fn emit_sealed(
    header: &TcpHeader,
    source_port: u16,
    destination_port: u16,
    rest: Sum,
    out: &mut [u8],
) -> usize {
    let len = match header.layout() {
        Layout::Fixed => {
            let words = HeaderWords::fixed(header, source_port, destination_port);
            words.sealed(rest).write(&mut out[..MIN_HEADER_LEN]);
            return MIN_HEADER_LEN;
        }
        Layout::Timestamps => {
            let words = HeaderWords::with_timestamps(header, source_port, destination_port);
            words.sealed(rest).write(&mut out[..TIMESTAMPS_HEADER_LEN]);
            return TIMESTAMPS_HEADER_LEN;
        }
        Layout::Other => emit(header, source_port, destination_port, out),
    };
    seal(&mut out[..len], rest);
    len
}

/// Sums an emitted header, of which nothing else is to change, and stores the checksum of its segment. `rest` is the
/// sum of the pseudo-header and the payload.
///
/// # Panics
///
/// If `header` is shorter than 20 bytes.
#[inline]
pub fn seal(header: &mut [u8], rest: Sum) {
    let field = CHECKSUM_OFFSET..CHECKSUM_OFFSET + 2;
    header[field.clone()].fill(0);
    let checksum = Sum::of(header).combine(rest).finish_bytes();
    header[field].copy_from_slice(&checksum);
}

/// Stores the sum of an emitted header and `rest` in place of the checksum, not complemented, for whoever has what else is to
/// be summed. It is not 0 unless `rest` is.
///
/// # Panics
///
/// If `header` is shorter than 20 bytes.
#[inline]
pub fn put_sum(header: &mut [u8], rest: Sum) {
    let sum = Sum::of(header).combine(rest);
    header[CHECKSUM_OFFSET..CHECKSUM_OFFSET + 2].copy_from_slice(&sum.0.to_ne_bytes());
}

/// Stores the sum of the pseudo-header in place of the checksum, for a device that adds the rest and complements it.
///
/// # Panics
///
/// If `header` is shorter than 20 bytes.
#[inline]
pub fn partly_seal(header: &mut [u8], pseudo_header: Sum) {
    header[CHECKSUM_OFFSET..CHECKSUM_OFFSET + 2].copy_from_slice(&pseudo_header.0.to_ne_bytes());
}

/// The header without options, with a checksum of 0, in words as they stand in the packet.
#[inline]
fn fixed_words(
    header: &TcpHeader,
    source_port: u16,
    destination_port: u16,
    len: usize,
) -> [u32; MIN_HEADER_LEN / 4] {
    // AE is the bit before the other flags.
    let ae = u32::from(header.present & TcpHeader::AE) << 3;
    let offset_and_flags = (len as u32 / 4) << 12 | ae | u32::from(header.flags.0);
    [
        (u32::from(source_port) << 16 | u32::from(destination_port)).to_be(),
        header.seq.value().to_be(),
        header.ack.value().to_be(),
        (offset_and_flags << 16 | u32::from(header.window)).to_be(),
        u32::from(header.urgent).to_be(),
    ]
}

/// What a header holds behind its fixed fields.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Layout {
    /// Nothing: [`HeaderWords::fixed`].
    Fixed,
    /// Timestamps alone: [`HeaderWords::with_timestamps`].
    Timestamps,
    /// Other options, for [`emit`].
    Other,
}

impl TcpHeader {
    /// Which options [`emit`] gives this header.
    #[inline]
    pub fn layout(&self) -> Layout {
        match self.present & !(TcpHeader::ECN | TcpHeader::AE) {
            _ if self.sack_count != 0 => Layout::Other,
            0 => Layout::Fixed,
            TcpHeader::HAS_TIMESTAMPS if !self.flags.contains(TcpFlags::SYN) => Layout::Timestamps,
            _ => Layout::Other,
        }
    }
}

/// A header of nearly every segment in words as they stand in the packet, for whoever makes, sums and writes it in one go: bytes just stored in
/// fields are slow to load again in words.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HeaderWords<const WORDS: usize>([u32; WORDS]);

impl HeaderWords<{ MIN_HEADER_LEN / 4 }> {
    /// A header without options, with a checksum of 0.
    #[inline]
    pub fn fixed(header: &TcpHeader, source_port: u16, destination_port: u16) -> Self {
        HeaderWords(fixed_words(
            header,
            source_port,
            destination_port,
            MIN_HEADER_LEN,
        ))
    }
}

impl HeaderWords<{ TIMESTAMPS_HEADER_LEN / 4 }> {
    /// A header with timestamps, laid out as RFC 7323 appendix A has them, with a checksum of 0.
    #[inline]
    pub fn with_timestamps(header: &TcpHeader, source_port: u16, destination_port: u16) -> Self {
        let len = TIMESTAMPS_HEADER_LEN;
        let [a, b, c, d, e] = fixed_words(header, source_port, destination_port, len);
        let lead = u32::from_ne_bytes(ALIGNED_TIMESTAMPS);
        let [value, echo] = [header.ts_value, header.ts_echo].map(u32::to_be);
        HeaderWords([a, b, c, d, e, lead, value, echo])
    }
}

impl<const WORDS: usize> HeaderWords<WORDS> {
    /// Its length in bytes.
    #[inline]
    #[expect(clippy::len_without_is_empty, reason = "it is never empty")]
    pub const fn len(&self) -> usize {
        WORDS * 4
    }

    /// The header with its checksum; `rest` is the sum of the pseudo-header and the payload.
    #[inline]
    pub fn sealed(mut self, rest: Sum) -> Self {
        let [high, low] = rest.with_wire_words(self.0).finish_bytes();
        // The first half of the fifth word.
        self.0[CHECKSUM_OFFSET / 4] |= u32::from_ne_bytes([high, low, 0, 0]);
        self
    }

    /// The header as [`partly_seal`] leaves it.
    #[inline]
    pub fn partly_sealed(mut self, pseudo_header: Sum) -> Self {
        let [high, low] = pseudo_header.0.to_ne_bytes();
        self.0[CHECKSUM_OFFSET / 4] |= u32::from_ne_bytes([high, low, 0, 0]);
        self
    }

    /// Writes the header to `out`, which is as long as it.
    #[inline]
    pub fn write(self, out: &mut [u8]) {
        debug_assert_eq!(out.len(), self.len());
        for (field, word) in out.as_chunks_mut::<4>().0.iter_mut().zip(self.0) {
            *field = word.to_ne_bytes();
        }
    }
}

fn emit_options(header: &TcpHeader, out: &mut [u8]) {
    let mut words = Words(out);
    if header.flags.contains(TcpFlags::SYN) {
        emit_syn_options(&as_fits(header), &mut words);
    } else {
        emit_later_options(header, &mut words);
    }
}

/// At most 40 bytes.
fn emit_syn_options(header: &TcpHeader, words: &mut Words<'_>) {
    if header.has(TcpHeader::HAS_MSS) {
        let [high, low] = header.mss.to_be_bytes();
        words.push([kind::MSS, 4, high, low]);
    }
    match (
        header.has(TcpHeader::HAS_TIMESTAMPS),
        header.has(TcpHeader::HAS_SACK_PERMITTED),
    ) {
        // SACK-permitted takes the place of the two NOPs.
        (true, true) => push_timestamps(
            header,
            [kind::SACK_PERMITTED, 2, kind::TIMESTAMPS, 10],
            words,
        ),
        (true, false) => push_timestamps(header, ALIGNED_TIMESTAMPS, words),
        (false, true) => words.push([kind::NOP, kind::NOP, kind::SACK_PERMITTED, 2]),
        (false, false) => {}
    }
    if header.has(TcpHeader::HAS_WINDOW_SCALE) {
        words.push([kind::NOP, kind::WINDOW_SCALE, 3, header.window_scale]);
    }
    push_user_timeout(header, words);
    if let Some(cookie) = header.fast_open() {
        push_fast_open(&cookie, words);
    }
}

/// RFC 7413 §4.1.1.
fn push_fast_open(cookie: &FastOpenCookie, words: &mut Words<'_>) {
    let bytes = cookie.as_bytes();
    let len = 2 + bytes.len();
    let mut option = [kind::NOP; 2 + FastOpenCookie::MAX_LEN + 2];
    option[0] = kind::FAST_OPEN;
    option[1] = len as u8;
    option[2..len].copy_from_slice(bytes);
    for word in option[..len.next_multiple_of(4)].as_chunks::<4>().0 {
        words.push(*word);
    }
}

/// At most 40 bytes.
fn emit_later_options(header: &TcpHeader, words: &mut Words<'_>) {
    if header.has(TcpHeader::HAS_TIMESTAMPS) {
        push_timestamps(header, ALIGNED_TIMESTAMPS, words);
    }
    push_user_timeout(header, words);
    let blocks = sack_blocks_that_fit(header);
    if blocks > 0 {
        words.push([kind::NOP, kind::NOP, kind::SACK, 2 + 8 * blocks as u8]);
        for block in &header.sack_blocks()[..blocks] {
            words.push(block.left.value().to_be_bytes());
            words.push(block.right.value().to_be_bytes());
        }
    }
}

fn push_timestamps(header: &TcpHeader, lead: [u8; 4], words: &mut Words<'_>) {
    words.push(lead);
    words.push(header.ts_value.to_be_bytes());
    words.push(header.ts_echo.to_be_bytes());
}

/// RFC 5482 §3.2.
fn push_user_timeout(header: &TcpHeader, words: &mut Words<'_>) {
    if header.has(TcpHeader::HAS_USER_TIMEOUT) {
        let [high, low] = header.user_timeout.to_be_bytes();
        words.push([kind::USER_TIMEOUT, 4, high, low]);
    }
}

/// RFC 2018 §3: four blocks fill the option space, and RFC 7323's timestamps take the place of one.
#[inline]
fn sack_blocks_that_fit(header: &TcpHeader) -> usize {
    let room = MAX_HEADER_LEN - MIN_HEADER_LEN - options_everywhere_len(header);
    usize::from(header.sack_count).min((room - 4) / 8)
}

/// Writes word after word into the option space, which [`header_len`] made large enough.
struct Words<'a>(&'a mut [u8]);

impl Words<'_> {
    fn push(&mut self, word: [u8; 4]) {
        let (front, rest) = core::mem::take(&mut self.0).split_at_mut(4);
        front.copy_from_slice(&word);
        self.0 = rest;
    }
}
