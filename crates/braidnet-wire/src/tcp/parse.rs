//! From bytes to [`TcpHeader`].

use super::{
    ALIGNED_TIMESTAMPS, FastOpenCookie, Layout, MAX_WINDOW_SCALE, MIN_HEADER_LEN, PROTOCOL,
    SackBlock, TcpFlags, TcpHeader, kind,
};
use crate::address::Address;
use crate::bytes::{u16_at, u32_at};
use crate::checksum::Sum;
use crate::refusal::refusals;
use crate::seq::SeqNumber;

refusals! {
    /// Why a TCP segment is refused before any connection is looked for.
    pub enum TcpError {
        /// Fewer than 20 bytes.
        Truncated: "tcp_truncated", "shorter than a TCP header";
        /// A data offset of less than 5 words.
        DataOffsetTooSmall: "tcp_data_offset_too_small", "TCP data offset inside the fixed header";
        /// A data offset beyond the segment.
        DataOffsetPastEnd: "tcp_data_offset_past_end", "TCP data offset past the end of the segment";
        /// The last byte of the options begins an option that needs a length.
        OptionWithoutLength: "tcp_option_without_length", "TCP option without a length byte";
        /// An option whose length is 0 or 1, which does not cover its own kind and length.
        OptionTooShort: "tcp_option_too_short", "TCP option length of 0 or 1";
        /// An option that ends past the data offset.
        OptionPastEnd: "tcp_option_past_end", "TCP option past the end of the header";
        /// A maximum segment size option whose length is not 4.
        MssLength: "tcp_mss_option_length", "TCP maximum segment size option of a wrong length";
        /// A window scale option whose length is not 3.
        WindowScaleLength: "tcp_window_scale_option_length", "TCP window scale option of a wrong length";
        /// A SACK-permitted option whose length is not 2.
        SackPermittedLength: "tcp_sack_permitted_option_length", "TCP SACK-permitted option of a wrong length";
        /// A SACK option whose length is not that of one to four blocks.
        SackLength: "tcp_sack_option_length", "TCP SACK option that does not hold whole blocks";
        /// A timestamps option whose length is not 10.
        TimestampsLength: "tcp_timestamps_option_length", "TCP timestamps option of a wrong length";
        /// A user timeout option whose length is not 4.
        UserTimeoutLength: "tcp_user_timeout_option_length", "TCP user timeout option of a wrong length";
        /// The checksum does not match.
        Checksum: "tcp_checksum_wrong", "TCP checksum wrong";
    }
}

/// What [`parse`] finds in a segment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Parsed {
    /// The sender's port.
    pub source_port: u16,
    /// The receiver's port.
    pub destination_port: u16,
    /// All but the ports.
    pub header: TcpHeader,
    /// Where the payload starts: 20 to 60 bytes, at most the segment's length.
    pub header_len: usize,
}

/// Parses the header of a segment, which ends where the IP payload ends. The checksum is [`verify`]'s.
///
/// - MSS, window scale, SACK-permitted and Fast Open count on SYN segments only and are skipped elsewhere, as are SACK blocks on
///   SYN segments and unknown kinds everywhere (RFC 9293 §3.1, RFC 7323 §2.2, RFC 2018 §2, RFC 7413 §4.1.1).
/// - A Fast Open option of a length that it cannot have is ignored (RFC 7413 §4.1.1).
/// - Of an option that comes twice, the last one wins.
/// - A window scale above 14 is kept as 14 (RFC 7323 §2.3).
/// - An MSS is kept as it is, 0 included, and SACK blocks are neither ordered nor held against a window: whether they
///   make sense is for the connection to say. So are control bits that exclude each other, and an urgent pointer
///   without [`TcpFlags::URG`].
/// - The reserved bits are ignored (RFC 9293 §3.1).
///
/// # Errors
///
/// A [`TcpError`] for lengths that contradict each other. RFC 9293 §3.1 (MUST-7) asks only that a stack be prepared for
/// illegal option lengths; here they cost the sender the segment.
pub fn parse(segment: &[u8]) -> Result<Parsed, TcpError> {
    match parse_usual(segment) {
        Some(parsed) => Ok(parsed),
        None => parse_unusual(segment),
    }
}

/// The ports of a segment, from it and to it.
///
/// # Errors
///
/// [`TcpError::Truncated`].
#[inline(always)]
pub fn ports(segment: &[u8]) -> Result<(u16, u16), TcpError> {
    match segment.first_chunk::<MIN_HEADER_LEN>() {
        Some(fixed) => {
            // One word: whoever keeps them side by side writes one as well, and reads it back without waiting.
            let both = u32_at(fixed, 0);
            Ok(((both >> 16) as u16, both as u16))
        }
        None => Err(TcpError::Truncated),
    }
}

/// The layout of nearly every header: without options, or with timestamps alone, laid out as RFC 7323 appendix A has them.
/// `None` if [`parse`] must look closer, at a faulty header too; never [`Layout::Other`].
#[inline(always)]
pub fn usual_layout(segment: &[u8]) -> Option<Layout> {
    let fixed = segment.first_chunk::<MIN_HEADER_LEN>()?;
    match fixed[12] >> 4 {
        5 => Some(Layout::Fixed),
        8 => {
            let options = segment[MIN_HEADER_LEN..].first_chunk::<12>()?;
            let aligned = options.first_chunk() == Some(&ALIGNED_TIMESTAMPS);
            aligned.then_some(Layout::Timestamps)
        }
        _ => None,
    }
}

/// [`parse`] for a segment whose layout is known to be one of the [usual](usual_layout) ones. `None` for any other, and for what
/// is shorter than the layout.
///
/// It is made to be inlined where the header is used, so that no field stops in memory on the way.
#[inline(always)]
pub fn parse_as(layout: Layout, segment: &[u8]) -> Option<Parsed> {
    let fixed = segment.first_chunk::<MIN_HEADER_LEN>()?;
    let header = header_without_options(fixed);
    match layout {
        Layout::Fixed => Some(parsed(fixed, header, MIN_HEADER_LEN)),
        Layout::Timestamps => {
            let options = segment[MIN_HEADER_LEN..].first_chunk::<12>()?;
            let header = TcpHeader {
                present: header.present | TcpHeader::HAS_TIMESTAMPS,
                ts_value: u32_at(options, 4),
                ts_echo: u32_at(options, 8),
                ..header
            };
            Some(parsed(fixed, header, MIN_HEADER_LEN + options.len()))
        }
        Layout::Other => None,
    }
}

/// [`parse`] for the headers of one of the [usual](usual_layout) layouts.
#[inline(always)]
pub fn parse_usual(segment: &[u8]) -> Option<Parsed> {
    parse_as(usual_layout(segment)?, segment)
}

/// All other headers, by their options one after the other.
#[inline(never)]
pub(super) fn parse_unusual(segment: &[u8]) -> Result<Parsed, TcpError> {
    let Some((fixed, _)) = segment.split_first_chunk::<MIN_HEADER_LEN>() else {
        return Err(TcpError::Truncated);
    };
    let header_len = usize::from(fixed[12] >> 4) * 4;
    match segment.get(MIN_HEADER_LEN..header_len) {
        Some(options) => parse_options(fixed, options),
        None if header_len < MIN_HEADER_LEN => Err(TcpError::DataOffsetTooSmall),
        None => Err(TcpError::DataOffsetPastEnd),
    }
}

#[inline]
fn header_without_options(fixed: &[u8; MIN_HEADER_LEN]) -> TcpHeader {
    TcpHeader {
        seq: SeqNumber::new(u32_at(fixed, 4)),
        ack: SeqNumber::new(u32_at(fixed, 8)),
        flags: TcpFlags(fixed[13]),
        present: (fixed[12] & 1) << 5,
        window: u16_at(fixed, 14),
        urgent: u16_at(fixed, 18),
        ..TcpHeader::default()
    }
}

#[inline]
fn parsed(fixed: &[u8; MIN_HEADER_LEN], header: TcpHeader, header_len: usize) -> Parsed {
    let (source_port, destination_port) = (u16_at(fixed, 0), u16_at(fixed, 2));
    Parsed {
        source_port,
        destination_port,
        header,
        header_len,
    }
}

/// Verifies the checksum of a segment, which ends where the IP payload ends.
///
/// # Errors
///
/// [`TcpError::Checksum`].
#[inline]
pub fn verify(source: &Address, destination: &Address, segment: &[u8]) -> Result<(), TcpError> {
    let pseudo_header = Sum::pseudo_header(source, destination, PROTOCOL, segment.len() as u32);
    if pseudo_header.combine(Sum::of(segment)).is_valid() {
        Ok(())
    } else {
        Err(TcpError::Checksum)
    }
}

/// Walks the options; every turn takes at least one byte.
fn parse_options(fixed: &[u8; MIN_HEADER_LEN], all: &[u8]) -> Result<Parsed, TcpError> {
    let mut header = header_without_options(fixed);
    let mut options = all;
    loop {
        match options {
            [] | [kind::END, ..] => return Ok(parsed(fixed, header, MIN_HEADER_LEN + all.len())),
            [kind::NOP, rest @ ..] => options = rest,
            [_] => return Err(TcpError::OptionWithoutLength),
            [_, 0 | 1, ..] => return Err(TcpError::OptionTooShort),
            [kind, len, ..] => {
                let (option, rest) = options
                    .split_at_checked(usize::from(*len))
                    .ok_or(TcpError::OptionPastEnd)?;
                parse_option(*kind, &option[2..], &mut header)?;
                options = rest;
            }
        }
    }
}

/// Takes over one option, given without its kind and length, if it is known and in place.
fn parse_option(kind: u8, value: &[u8], header: &mut TcpHeader) -> Result<(), TcpError> {
    let syn = header.flags.contains(TcpFlags::SYN);
    match kind {
        kind::TIMESTAMPS => {
            let value: &[u8; 8] = value.try_into().map_err(|_| TcpError::TimestampsLength)?;
            header.ts_value = u32_at(value, 0);
            header.ts_echo = u32_at(value, 4);
            header.present |= TcpHeader::HAS_TIMESTAMPS;
        }
        kind::USER_TIMEOUT => {
            let value: &[u8; 2] = value.try_into().map_err(|_| TcpError::UserTimeoutLength)?;
            header.user_timeout = u16_at(value, 0);
            header.present |= TcpHeader::HAS_USER_TIMEOUT;
        }
        kind::SACK if !syn => parse_sack(value, header)?,
        kind::MSS if syn => {
            let value: &[u8; 2] = value.try_into().map_err(|_| TcpError::MssLength)?;
            header.mss = u16_at(value, 0);
            header.present |= TcpHeader::HAS_MSS;
        }
        kind::WINDOW_SCALE if syn => {
            let [shift] = value else {
                return Err(TcpError::WindowScaleLength);
            };
            header.window_scale = (*shift).min(MAX_WINDOW_SCALE);
            header.present |= TcpHeader::HAS_WINDOW_SCALE;
        }
        kind::SACK_PERMITTED if syn => {
            let [] = value else {
                return Err(TcpError::SackPermittedLength);
            };
            header.present |= TcpHeader::HAS_SACK_PERMITTED;
        }
        kind::FAST_OPEN if syn => {
            // A wrong length is to be ignored (RFC 7413 §4.1.1).
            if let Some(cookie) = FastOpenCookie::new(value) {
                *header = header.with_fast_open(cookie);
            }
        }
        _ => {}
    }
    Ok(())
}

/// RFC 2018 §3: a SACK option of n blocks is 8n + 2 bytes long.
fn parse_sack(value: &[u8], header: &mut TcpHeader) -> Result<(), TcpError> {
    let (blocks, odd) = value.as_chunks::<8>();
    if !odd.is_empty() || !(1..=header.sack.len()).contains(&blocks.len()) {
        return Err(TcpError::SackLength);
    }
    header.sack = Default::default();
    header.sack_count = blocks.len() as u8;
    for (into, block) in header.sack.iter_mut().zip(blocks) {
        *into = SackBlock {
            left: SeqNumber::new(u32_at(block, 0)),
            right: SeqNumber::new(u32_at(block, 4)),
        };
    }
    Ok(())
}
