//! Interface addresses over rtnetlink: added beside those that are there, with exact errors, for both IP versions.
//!
//! (The older `SIOCSIFADDR` would replace an adopted device's IPv4 address, and pass through the address's class-wide
//! route on the way.)

use braidnet_wire::address::Address;
use rustix::net::netlink::SocketAddrNetlink;
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recv, sendto, socket_with,
};
use std::io;
use std::os::fd::OwnedFd;

/// Bytes of the headers `nlmsghdr`, `ifaddrmsg` and `rtattr` (RFC 3549 §2.3.2, §3.1.1).
const MESSAGE_HEADER: usize = 16;
const ADDRESS_HEADER: usize = 8;
const ATTRIBUTE_HEADER: usize = 4;

/// No message that the kernel sends to a dump is longer than this (`NLMSG_GOODSIZE` is 8 KiB at most).
const ANSWER_MAX: usize = 32 << 10;

/// Acknowledgements carry this number; one request is in flight at a time.
const SEQUENCE: u32 = 1;

/// An address that some interface has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct InterfaceAddress {
    /// The interface's index.
    pub index: u32,
    /// The address.
    pub address: Address,
    /// Bits of the prefix that is on the link.
    pub prefix: u8,
}

/// A socket to the kernel's routing tables.
pub struct Netlink {
    socket: OwnedFd,
}

impl Netlink {
    /// Opens a socket in the calling thread's network namespace.
    pub fn open() -> io::Result<Self> {
        // Protocol 0 of this family is NETLINK_ROUTE.
        let socket = socket_with(
            AddressFamily::NETLINK,
            SocketType::RAW,
            SocketFlags::CLOEXEC,
            None,
        )?;
        Ok(Netlink { socket })
    }

    /// Every address of every interface.
    pub fn addresses(&self) -> io::Result<Vec<InterfaceAddress>> {
        let dump = libc::NLM_F_REQUEST | libc::NLM_F_DUMP;
        let mut found = Vec::new();
        self.ask(
            &request(libc::RTM_GETADDR, dump, &[0; ADDRESS_HEADER]),
            |body| found.extend(parse(body)),
        )?;
        Ok(found)
    }

    /// Adds an address. `EEXIST` if the interface has it already.
    pub fn add(&self, address: InterfaceAddress) -> io::Result<()> {
        let flags = libc::NLM_F_REQUEST | libc::NLM_F_ACK | libc::NLM_F_CREATE | libc::NLM_F_EXCL;
        self.ask(&request(libc::RTM_NEWADDR, flags, &body(address)), |_| ())
    }

    /// Removes an address.
    pub fn remove(&self, address: InterfaceAddress) -> io::Result<()> {
        let flags = libc::NLM_F_REQUEST | libc::NLM_F_ACK;
        self.ask(&request(libc::RTM_DELADDR, flags, &body(address)), |_| ())
    }

    /// Sends `request` and hands the body of every address message in the answer to `each`, until the kernel says that
    /// it is done.
    fn ask(&self, request: &[u8], mut each: impl FnMut(&[u8])) -> io::Result<()> {
        sendto(
            &self.socket,
            request,
            SendFlags::empty(),
            &SocketAddrNetlink::new(0, 0),
        )?;
        let mut buffer = vec![0u8; ANSWER_MAX];
        loop {
            let (length, _) = retry(|| recv(&self.socket, &mut buffer[..], RecvFlags::empty()))?;
            for (kind, body) in Messages(buffer.get(..length).unwrap_or_default()) {
                match i32::from(kind) {
                    libc::NLMSG_DONE => return Ok(()),
                    libc::NLMSG_ERROR => return acknowledgement(body),
                    _ if kind == libc::RTM_NEWADDR => each(body),
                    _ => {}
                }
            }
        }
    }
}

/// What an `NLMSG_ERROR` says: 0 is an acknowledgement, anything else a negated error number.
fn acknowledgement(body: &[u8]) -> io::Result<()> {
    match body.first_chunk().map(|bytes| i32::from_ne_bytes(*bytes)) {
        Some(0) => Ok(()),
        Some(error) => Err(io::Error::from_raw_os_error(error.wrapping_neg())),
        None => Err(io::Error::from(io::ErrorKind::UnexpectedEof)),
    }
}

fn retry<T>(mut call: impl FnMut() -> rustix::io::Result<T>) -> rustix::io::Result<T> {
    loop {
        match call() {
            Err(rustix::io::Errno::INTR) => {}
            other => return other,
        }
    }
}

/// A whole message: header and body.
fn request(kind: u16, flags: i32, body: &[u8]) -> Vec<u8> {
    let length = MESSAGE_HEADER + body.len();
    let mut message = Vec::with_capacity(length);
    message.extend((length as u32).to_ne_bytes());
    message.extend(kind.to_ne_bytes());
    message.extend((flags as u16).to_ne_bytes());
    message.extend(SEQUENCE.to_ne_bytes());
    message.extend([0; 4]);
    message.extend(body);
    message
}

/// An `ifaddrmsg` with the attributes that name `address`.
fn body(address: InterfaceAddress) -> Vec<u8> {
    let v4 = address.address.as_v4();
    let octets: &[u8] = match &v4 {
        Some(v4) => v4,
        None => address.address.octets(),
    };
    let family = if v4.is_some() {
        libc::AF_INET
    } else {
        libc::AF_INET6
    };
    // The link has one system and one stack on it and both addresses are configured: nothing to detect (RFC 4862 §5.4).
    let flags = if v4.is_some() {
        0
    } else {
        libc::IFA_F_NODAD as u8
    };
    let mut body = vec![family as u8, address.prefix, flags, 0];
    body.extend(address.index.to_ne_bytes());
    for kind in [libc::IFA_LOCAL, libc::IFA_ADDRESS] {
        // Four or sixteen bytes need no padding.
        body.extend(((ATTRIBUTE_HEADER + octets.len()) as u16).to_ne_bytes());
        body.extend(kind.to_ne_bytes());
        body.extend(octets);
    }
    body
}

/// The address in an `ifaddrmsg`: `IFA_LOCAL` where it is there (on a point-to-point link `IFA_ADDRESS` is the peer's).
fn parse(body: &[u8]) -> Option<InterfaceAddress> {
    let (header, attributes) = body.split_first_chunk::<ADDRESS_HEADER>()?;
    let [_, prefix, _, _, index @ ..] = *header;
    let mut found = None;
    for (kind, value) in Attributes(attributes) {
        let address = match *value {
            [a, b, c, d] => Address::v4([a, b, c, d]),
            _ => match value.try_into() {
                Ok(octets) => Address::v6(octets),
                Err(_) => continue,
            },
        };
        match kind {
            libc::IFA_LOCAL => found = Some(address),
            libc::IFA_ADDRESS => found = found.or(Some(address)),
            _ => {}
        }
    }
    Some(InterfaceAddress {
        index: u32::from_ne_bytes(index),
        address: found?,
        prefix,
    })
}

/// Walks the messages of one answer: type and body.
struct Messages<'a>(&'a [u8]);

impl<'a> Iterator for Messages<'a> {
    type Item = (u16, &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        let (header, _) = self.0.split_first_chunk::<MESSAGE_HEADER>()?;
        let [a, b, c, d, kind @ .., _, _, _, _, _, _, _, _, _, _] = *header;
        let length = u32::from_ne_bytes([a, b, c, d]) as usize;
        let body = self.0.get(MESSAGE_HEADER..length)?;
        self.0 = self.0.get(length.next_multiple_of(4)..).unwrap_or_default();
        Some((u16::from_ne_bytes(kind), body))
    }
}

/// Walks the attributes of one message: type and value.
struct Attributes<'a>(&'a [u8]);

impl<'a> Iterator for Attributes<'a> {
    type Item = (u16, &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        let (header, _) = self.0.split_first_chunk::<ATTRIBUTE_HEADER>()?;
        let [a, b, kind @ ..] = *header;
        let length = usize::from(u16::from_ne_bytes([a, b]));
        let value = self.0.get(ATTRIBUTE_HEADER..length)?;
        self.0 = self.0.get(length.next_multiple_of(4)..).unwrap_or_default();
        Some((u16::from_ne_bytes(kind), value))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn samples() -> [InterfaceAddress; 2] {
        let v6 = Address::v6([0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]);
        [
            InterfaceAddress {
                index: 7,
                address: Address::v4([10, 1, 2, 3]),
                prefix: 24,
            },
            InterfaceAddress {
                index: 70_000,
                address: v6,
                prefix: 64,
            },
        ]
    }

    #[test]
    fn what_is_asked_for_reads_back() {
        let message: Vec<u8> = samples()
            .iter()
            .flat_map(|sample| request(libc::RTM_NEWADDR, 0, &body(*sample)))
            .collect();
        let read: Vec<_> = Messages(&message)
            .map(|(kind, body)| (kind, parse(body)))
            .collect();
        assert_eq!(
            read,
            samples().map(|sample| (libc::RTM_NEWADDR, Some(sample)))
        );
    }

    #[test]
    fn a_point_to_point_address_is_the_local_one() {
        let mut body = body(samples()[0]);
        let last = body.len() - 1;
        body[last] = 99;
        assert_eq!(parse(&body), Some(samples()[0]));
    }

    #[test]
    fn cut_messages_end_the_walk() {
        let message = request(libc::RTM_NEWADDR, 0, &body(samples()[1]));
        for length in 0..message.len() {
            assert_eq!(Messages(&message[..length]).count(), 0, "{length}");
        }
        let body = body(samples()[1]);
        for length in 0..ADDRESS_HEADER + ATTRIBUTE_HEADER + 16 {
            assert_eq!(parse(&body[..length]), None, "{length}");
        }
        let zero_length = [0; 8];
        assert_eq!(Attributes(&zero_length).count(), 0);
    }

    #[test]
    fn the_kernel_answers_with_the_loopback_addresses_or_none() {
        let netlink = Netlink::open().expect("a netlink socket needs no privilege");
        for found in netlink
            .addresses()
            .expect("reading addresses needs no privilege")
        {
            assert!(found.index > 0 && found.prefix <= 128, "{found:?}");
        }
    }
}
