//! The Fast Open option (RFC 7413 §4.1.1).
//!
//! Only a SYN carries it, and no SYN carries SACK blocks: in [`TcpHeader`] the cookie lies where those would, so that the header of all
//! other segments is no longer for it.

use super::{TcpFlags, TcpHeader};
use zerocopy::IntoBytes;

/// What a Fast Open option carries: a cookie of 4 to 16 bytes, or an empty one, by which a client asks for one.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct FastOpenCookie {
    bytes: [u8; FastOpenCookie::MAX_LEN],
    len: u8,
}

impl FastOpenCookie {
    /// Length in bytes of the longest cookie.
    pub const MAX_LEN: usize = 16;
    const MIN_LEN: usize = 4;

    /// The empty cookie.
    pub const REQUEST: FastOpenCookie = FastOpenCookie {
        bytes: [0; FastOpenCookie::MAX_LEN],
        len: 0,
    };

    /// A cookie of these bytes; `None` unless there are none, or an even number from 4 to 16.
    pub fn new(cookie: &[u8]) -> Option<FastOpenCookie> {
        let len = cookie.len();
        let is_cookie = (FastOpenCookie::MIN_LEN..=FastOpenCookie::MAX_LEN).contains(&len);
        if len != 0 && (!is_cookie || !len.is_multiple_of(2)) {
            return None;
        }
        let mut bytes = [0; FastOpenCookie::MAX_LEN];
        bytes[..len].copy_from_slice(cookie);
        Some(FastOpenCookie {
            bytes,
            len: len as u8,
        })
    }

    /// Its bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.len)]
    }

    /// Whether it asks for one.
    pub const fn is_request(&self) -> bool {
        self.len == 0
    }

    /// Bytes of option space that it takes, in whole words.
    pub const fn option_len(&self) -> usize {
        (2 + self.len as usize).next_multiple_of(4)
    }
}

impl core::fmt::Debug for FastOpenCookie {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self.is_request() {
            true => f.write_str("request"),
            false => self
                .as_bytes()
                .iter()
                .try_for_each(|byte| write!(f, "{byte:02x}")),
        }
    }
}

impl TcpHeader {
    /// The Fast Open option of a SYN, if it carries one.
    pub fn fast_open(&self) -> Option<FastOpenCookie> {
        if !self.flags.contains(TcpFlags::SYN) || self.sack_count == 0 {
            return None;
        }
        let len = usize::from(self.sack_count) - 1;
        FastOpenCookie::new(self.sack.as_bytes().get(..len)?)
    }

    /// The same header with this Fast Open option. On what is no SYN it means nothing, and is not to be.
    pub fn with_fast_open(self, cookie: FastOpenCookie) -> TcpHeader {
        debug_assert!(self.flags.contains(TcpFlags::SYN));
        let mut header = self;
        header.sack = Default::default();
        header.sack.as_mut_bytes()[..cookie.bytes.len()].copy_from_slice(&cookie.bytes);
        header.sack_count = cookie.len + 1;
        header
    }

    /// The same header without a Fast Open option.
    pub fn without_fast_open(self) -> TcpHeader {
        let mut header = self;
        if header.flags.contains(TcpFlags::SYN) {
            header.sack = Default::default();
            header.sack_count = 0;
        }
        header
    }
}

#[cfg(test)]
mod tests {
    use super::super::{MAX_HEADER_LEN, emit, header_len, parse};
    use super::*;

    const EVERYTHING: u8 = TcpHeader::HAS_MSS
        | TcpHeader::HAS_WINDOW_SCALE
        | TcpHeader::HAS_SACK_PERMITTED
        | TcpHeader::HAS_TIMESTAMPS
        | TcpHeader::HAS_USER_TIMEOUT;

    fn syn(present: u8) -> TcpHeader {
        TcpHeader {
            flags: TcpFlags::SYN,
            present,
            ..TcpHeader::default()
        }
    }

    /// What is emitted, and what is found in it.
    fn sent(header: &TcpHeader) -> (Vec<u8>, TcpHeader) {
        let mut bytes = [0; MAX_HEADER_LEN];
        let len = emit(header, 1, 2, &mut bytes);
        assert_eq!(len, header_len(header));
        let parsed = parse(&bytes[..len]).expect("what is emitted is right");
        assert_eq!(parsed.header_len, len);
        (bytes[20..len].to_vec(), parsed.header)
    }

    #[test]
    fn cookies_have_no_bytes_or_an_even_number_from_4_to_16() {
        let lens: Vec<usize> = (0..=18)
            .filter(|len| FastOpenCookie::new(&vec![7; *len]).is_some())
            .collect();
        assert_eq!(lens, [0, 4, 6, 8, 10, 12, 14, 16]);
    }

    #[test]
    fn a_cookie_stands_aligned_beside_all_other_options() {
        let bytes: Vec<u8> = (1..=16).collect();
        for len in [0, 4, 6, 8, 10, 12, 14] {
            let cookie = FastOpenCookie::new(&bytes[..len]).unwrap();
            for present in [0, TcpHeader::HAS_MSS, EVERYTHING] {
                let header = syn(present).with_fast_open(cookie);
                let (options, found) = sent(&header);
                assert_eq!(found, header, "{len} bytes beside {present:#x}");
                assert_eq!(options.len() % 4, 0);
            }
        }
        let request = sent(&syn(0).with_fast_open(FastOpenCookie::REQUEST)).0;
        assert_eq!(request, [34, 2, 1, 1]);
        let eight = FastOpenCookie::new(&bytes[..8]).unwrap();
        let (options, _) = sent(&syn(0).with_fast_open(eight));
        assert_eq!(options, [34, 10, 1, 2, 3, 4, 5, 6, 7, 8, 1, 1]);
        let six = FastOpenCookie::new(&bytes[..6]).unwrap();
        let (options, _) = sent(&syn(0).with_fast_open(six));
        assert_eq!(options, [34, 8, 1, 2, 3, 4, 5, 6]);
    }

    #[test]
    fn a_user_timeout_gives_way_to_the_longest_cookie() {
        let cookie = FastOpenCookie::new(&[9; 16]).unwrap();
        let (options, found) = sent(&syn(EVERYTHING).with_fast_open(cookie));
        assert_eq!(found.fast_open(), Some(cookie));
        assert_eq!(found.present, EVERYTHING & !TcpHeader::HAS_USER_TIMEOUT);
        assert_eq!(options.len(), 40);
    }

    #[test]
    fn an_option_of_a_wrong_length_and_one_without_syn_are_ignored() {
        for len in [3, 5, 7, 17, 19] {
            let mut options = vec![34, len as u8];
            options.resize(20, 1);
            let mut segment = vec![0; 20];
            segment.extend(&options);
            segment[12] = (segment.len() as u8 / 4) << 4;
            segment[13] = TcpFlags::SYN.0;
            let header = parse(&segment).expect("it is no fault").header;
            assert_eq!(header.fast_open(), None, "{len}");
        }
        let mut segment = vec![0; 20];
        segment.extend([34, 6, 1, 2, 3, 4, 1, 1]);
        segment[12] = 7 << 4;
        segment[13] = TcpFlags::ACK.0;
        let header = parse(&segment).unwrap().header;
        assert_eq!((header.fast_open(), header.sack_count), (None, 0));
        segment[13] = TcpFlags::SYN.0;
        let header = parse(&segment).unwrap().header;
        assert_eq!(header.fast_open(), FastOpenCookie::new(&[1, 2, 3, 4]));
        // A cookie is no SACK block.
        assert!(header.sack_blocks().is_empty());
        assert_eq!(header.without_fast_open().fast_open(), None);
    }
}
