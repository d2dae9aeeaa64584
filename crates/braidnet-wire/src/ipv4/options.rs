//! IPv4 options (RFC 791 §3.1), which are checked and skipped, but for source routes, which are refused (RFC 7126 §4.3, §4.4): a packet with one may be
//! for another host yet, and its answer is to be sent where a forger wants it.

use super::Ipv4Error;

const END: u8 = 0;
const NOP: u8 = 1;
const RECORD_ROUTE: u8 = 7;
const TIMESTAMP: u8 = 68;
const LOOSE_SOURCE_ROUTE: u8 = 131;
const STRICT_SOURCE_ROUTE: u8 = 137;
const ROUTER_ALERT: u8 = 148;

/// Walks the options; every turn takes at least one byte.
#[cold]
pub(super) fn check(mut options: &[u8]) -> Result<(), Ipv4Error> {
    loop {
        match options {
            [] | [END, ..] => return Ok(()),
            [NOP, rest @ ..] => options = rest,
            [_] => return Err(Ipv4Error::OptionWithoutLength),
            [_, 0 | 1, ..] => return Err(Ipv4Error::OptionTooShort),
            [kind, len, ..] => {
                let (option, rest) = options
                    .split_at_checked(usize::from(*len))
                    .ok_or(Ipv4Error::OptionPastEnd)?;
                check_value(*kind, &option[2..])?;
                options = rest;
            }
        }
    }
}

/// Checks what is behind the length byte. Pointers count from the option's first byte, which is 1; one beyond the
/// option says that its data is full.
fn check_value(kind: u8, value: &[u8]) -> Result<(), Ipv4Error> {
    match (kind, value) {
        (RECORD_ROUTE | LOOSE_SOURCE_ROUTE | STRICT_SOURCE_ROUTE, []) => {
            Err(Ipv4Error::OptionTooShort)
        }
        (RECORD_ROUTE | LOOSE_SOURCE_ROUTE | STRICT_SOURCE_ROUTE, [0..4, ..]) => {
            Err(Ipv4Error::OptionPointer)
        }
        (LOOSE_SOURCE_ROUTE | STRICT_SOURCE_ROUTE, _) => Err(Ipv4Error::SourceRoute),
        // Pointer, overflow and flag.
        (TIMESTAMP, [] | [_]) => Err(Ipv4Error::OptionTooShort),
        (TIMESTAMP, [0..5, ..]) => Err(Ipv4Error::OptionPointer),
        // RFC 2113 §2.1: two bytes of value.
        (ROUTER_ALERT, [] | [_]) => Err(Ipv4Error::OptionTooShort),
        _ => Ok(()),
    }
}
