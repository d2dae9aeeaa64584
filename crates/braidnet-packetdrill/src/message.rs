//! What recvmsg(2) says beside the bytes: control messages.

use core::ffi::c_int;

/// `TCP_INQ`, which is also the type of the control message.
pub(crate) const TCP_INQ: c_int = 36;
/// `SO_ZEROCOPY`.
pub(crate) const SO_ZEROCOPY: c_int = 60;
/// `SO_EE_ORIGIN_ZEROCOPY` and `SO_EE_CODE_ZEROCOPY_COPIED` of `linux/errqueue.h`.
const ORIGIN_ZEROCOPY: u8 = 5;
const CODE_COPIED: u8 = 1;

/// One control message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Control {
    /// How much is left to read.
    Unread(u32),
    /// The bytes of these calls, from the first to the last, are the caller's again, and were copied.
    Copied(u32, u32),
}

impl Control {
    /// The message as it lies in memory: a `cmsghdr` and its data.
    pub(crate) fn bytes(self) -> Vec<u8> {
        let (level, kind, data) = match self {
            Control::Unread(bytes) => (libc::SOL_TCP, TCP_INQ, bytes.to_ne_bytes().to_vec()),
            Control::Copied(first, last) => {
                // `sock_extended_err`, and nobody's address behind it.
                let mut data = vec![0, 0, 0, 0, ORIGIN_ZEROCOPY, 0, CODE_COPIED, 0];
                data.extend(first.to_ne_bytes());
                data.extend(last.to_ne_bytes());
                data.extend([0; 16]);
                (libc::SOL_IP, libc::IP_RECVERR, data)
            }
        };
        let len = size_of::<usize>() + 2 * size_of::<c_int>() + data.len();
        let mut bytes = len.to_ne_bytes().to_vec();
        bytes.extend(level.to_ne_bytes());
        bytes.extend(kind.to_ne_bytes());
        bytes.extend(data);
        bytes.resize(bytes.len().next_multiple_of(size_of::<usize>()), 0);
        bytes
    }
}
