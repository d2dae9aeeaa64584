//! UDP as the caller of a stack sees it: ports that are bound, datagrams to and from there.

use super::{Stack, ephemeral};
use crate::error::{BindError, ReceiveFromError, SendToError, Undelivered};
use crate::inboxes::Only;
use braidnet_inet::HEADROOM;
use braidnet_inet::notes::{Datagram, UdpFlow};
use braidnet_message::{Message, Scarcity};
use braidnet_stream::Direction;
use braidnet_wire::address::{Address, Tuple};
use braidnet_wire::{ipv4, udp};
use core::net::{Ipv4Addr, SocketAddr};

/// A datagram that [`Stack::receive_from`] has copied out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Received {
    /// Who sent it. Port 0 says that no answer is expected (RFC 768).
    pub from: SocketAddr,
    /// Bytes that were copied.
    pub copied: usize,
    /// Bytes that it had; where that is more, the rest is lost.
    pub len: usize,
}

impl Received {
    /// Copies a datagram out, as much of it as there is room for.
    fn copy(message: &Message, to: &mut [u8]) -> Received {
        let UdpFlow { tuple, .. } = message.note();
        Received {
            from: SocketAddr::new(tuple.remote.into(), tuple.remote_port),
            copied: message.copy_to_slice(to),
            len: message.total_len(),
        }
    }

    /// Whether it was longer than the room for it.
    pub fn is_truncated(&self) -> bool {
        self.copied < self.len
    }
}

/// Bytes that are to be sent, and how many of them in each datagram.
#[derive(Clone, Copy)]
pub(crate) struct Segments<'a> {
    pub(crate) bytes: &'a [u8],
    pub(crate) each: usize,
    /// Nobody may fragment them.
    pub(crate) uncut: bool,
}

impl<'a> Segments<'a> {
    /// All in one.
    pub(crate) fn one(bytes: &'a [u8]) -> Segments<'a> {
        Segments::of(bytes, bytes.len().max(1))
    }

    /// So many bytes in each, which routers may fragment.
    pub(crate) fn of(bytes: &'a [u8], each: usize) -> Segments<'a> {
        Segments {
            bytes,
            each,
            uncut: false,
        }
    }

    /// Bytes of the longest.
    pub(crate) fn longest(self) -> usize {
        self.each.min(self.bytes.len())
    }

    /// Whether they can be sent.
    fn check(self) -> Result<(), SendToError> {
        let len = self.bytes.len();
        let max = ipv4::MAX_TOTAL_LEN - ipv4::MIN_HEADER_LEN - udp::HEADER_LEN;
        if len > max {
            return Err(SendToError::TooLong { len, max });
        }
        if self.each == 0 {
            return Err(SendToError::SegmentEmpty);
        }
        let (count, max) = (len.div_ceil(self.each), Stack::SEGMENTS_MAX);
        match count <= max {
            true => Ok(()),
            false => Err(SendToError::TooManySegments { count, max }),
        }
    }
}

/// UDP (RFC 768). Nothing of it is reliable: datagrams may get lost, double and overtake each other.
impl Stack {
    /// Binds UDP port `port` on every address: what comes for it waits to be [received](Stack::receive_from), and what is
    /// [sent](Stack::send_to) through it comes from there. Ports of TCP are others, of the same numbers.
    ///
    /// At most [a 64th](crate::MemoryParts::datagrams_of_port) of the stack's memory may wait at a port, and
    /// [a quarter](crate::MemoryParts::datagrams) at all together, counted in whole buffers; what comes beyond that is dropped as `udp.receive_queue_full`, and what comes while the stack's memory is used up as
    /// `udp.memory_short`.
    ///
    /// ```
    /// use braidnet::device::{memory, Capabilities};
    /// use braidnet::{Instant, Stack, StackConfig};
    ///
    /// let (here, there) = memory::wire(Capabilities::ip(1500), 64);
    /// let mut asker = Stack::new(&StackConfig::new("10.0.0.1".parse()?), here)?;
    /// let mut oracle = Stack::new(&StackConfig::new("10.0.0.2".parse()?), there)?;
    /// oracle.bind(53)?;
    /// asker.bind(40_000)?;
    /// asker.send_to(40_000, "10.0.0.2:53".parse()?, b"who?")?;
    /// asker.turn(Instant::ZERO);
    /// oracle.turn(Instant::ZERO);
    /// let mut question = [0; 512];
    /// let received = oracle.receive_from(53, &mut question)?;
    /// assert_eq!(received.from, "10.0.0.1:40000".parse()?);
    /// assert!(!received.is_truncated());
    /// assert_eq!(&question[..received.copied], b"who?");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// If the port is 0 or bound already, or too many are.
    pub fn bind(&mut self, port: u16) -> Result<(), BindError> {
        self.inboxes.bind(port)
    }

    /// Sends `bytes`, which may be none, in one datagram from the bound port `port` to `to`; it leaves with the next turn,
    /// in fragments if it is longer than the device's MTU.
    ///
    /// It comes from the stack's address on the network of `to`, or of the gateway to there, or its first. It goes out once or is dropped under a name; that it
    /// arrives nobody says, and that it does not, [sometimes somebody](Stack::undelivered).
    ///
    /// # Errors
    /// If the port is not bound, `to` is an IPv6 address, has port 0 or is where no route leads, there are more bytes than a datagram holds, or memory
    /// is short: then nothing is sent.
    pub fn send_to(&mut self, port: u16, to: SocketAddr, bytes: &[u8]) -> Result<(), SendToError> {
        let from = (Ipv4Addr::UNSPECIFIED.into(), port);
        self.send_between(from, to, Segments::one(bytes))
    }

    /// Most datagrams that [`send_segments_to`](Stack::send_segments_to) sends at once: as many as Linux has always taken (`UDP_MAX_SEGMENTS`).
    pub const SEGMENTS_MAX: usize = 64;

    /// Sends `bytes` in datagrams of `segment_bytes` each, the last of which may have fewer, as if each were [sent](Stack::send_to) by itself and none came between. They
    /// are passed down as one message, and leave the stack as one packet where the device cuts it (`UDP_SEGMENT`, as Linux calls it).
    ///
    /// ```
    /// use braidnet::device::{memory, Capabilities};
    /// use braidnet::{Instant, Stack, StackConfig};
    ///
    /// let (here, there) = memory::wire(Capabilities::ip(1500), 64);
    /// let mut speaker = Stack::new(&StackConfig::new("10.0.0.1".parse()?), here)?;
    /// let mut listener = Stack::new(&StackConfig::new("10.0.0.2".parse()?), there)?;
    /// listener.bind(53)?;
    /// speaker.bind(40_000)?;
    /// speaker.send_segments_to(40_000, "10.0.0.2:53".parse()?, b"one two three", 4)?;
    /// speaker.turn(Instant::ZERO);
    /// listener.turn(Instant::ZERO);
    /// for expected in [&b"one "[..], b"two ", b"thre", b"e"] {
    ///     let mut heard = [0; 512];
    ///     let received = listener.receive_from(53, &mut heard)?;
    ///     assert_eq!(&heard[..received.copied], expected);
    /// }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`send_to`](Stack::send_to), where all bytes together are no more than one datagram holds; if `segment_bytes` is 0, or they are more than
    /// [`SEGMENTS_MAX`](Stack::SEGMENTS_MAX) datagrams. Nothing is sent then.
    pub fn send_segments_to(
        &mut self,
        port: u16,
        to: SocketAddr,
        bytes: &[u8],
        segment_bytes: usize,
    ) -> Result<(), SendToError> {
        let from = (Ipv4Addr::UNSPECIFIED.into(), port);
        self.send_between(from, to, Segments::of(bytes, segment_bytes))
    }

    /// The same from one of the stack's addresses; the unspecified one leaves the choice to the stack.
    pub(crate) fn send_between(
        &mut self,
        (local, port): (Address, u16),
        to: SocketAddr,
        segments: Segments<'_>,
    ) -> Result<(), SendToError> {
        if !self.inboxes.is_bound(port) {
            return Err(SendToError::Unbound(port));
        }
        if to.is_ipv6() {
            return Err(SendToError::NotIpv4);
        }
        if to.port() == 0 {
            return Err(SendToError::PortZero);
        }
        let remote = to.ip().into();
        if !self.interface.reaches(&remote) {
            return Err(SendToError::NoRoute);
        }
        segments.check()?;
        let mut message = self.train(segments).ok_or(SendToError::NoMemory)?;
        message.set_note(UdpFlow {
            tuple: Tuple {
                local,
                remote,
                local_port: port,
                remote_port: to.port(),
            },
            flags: match segments.uncut {
                true => Datagram::UNCUT,
                false => 0,
            },
            ..UdpFlow::default()
        });
        self.inboxes.sends(port, to);
        self.cluster
            .put_one(self.wiring.udp, Direction::Down, message);
        Ok(())
    }

    /// Copies the next datagram that has come for the bound port `port` out and lets go of it. One that is longer than `to` is
    /// cut off there, and the answer says so.
    ///
    /// # Errors
    /// [`ReceiveFromError::Empty`] if none is there yet, [`ReceiveFromError::Unbound`] if none will ever come.
    pub fn receive_from(&mut self, port: u16, to: &mut [u8]) -> Result<Received, ReceiveFromError> {
        let message = self.inboxes.next(port)?;
        let received = Received::copy(&message, to);
        self.spent.push(message);
        Ok(received)
    }

    /// The same, and leaves it there.
    pub(crate) fn peek_from(
        &mut self,
        port: u16,
        to: &mut [u8],
    ) -> Result<Received, ReceiveFromError> {
        Ok(Received::copy(self.inboxes.first(port)?, to))
    }

    /// Bytes of the next datagram at a port; `None` if none waits.
    pub(crate) fn next_datagram_bytes(&self, port: u16) -> Option<usize> {
        let first = self.inboxes.first(port).ok()?;
        Some(first.total_len())
    }

    /// [`bind`](Stack::bind) to a port that is free, of those from one to another where these can be chosen; `None` if none is.
    pub(crate) fn bind_any(&mut self, ports: (u16, u16)) -> Result<Option<u16>, BindError> {
        self.inboxes.bind_any(ephemeral(ports))
    }

    /// Which datagrams a bound port takes from now on.
    pub(crate) fn restrict(&mut self, port: u16, only: Only) {
        self.inboxes.restrict(port, only);
    }

    /// The next bound port at which something has come, for who [watches](Stack::watch).
    pub(crate) fn stirred_port(&mut self) -> Option<u16> {
        self.inboxes.stirred()
    }

    /// The address from which something goes to `to`.
    pub(crate) fn source_for(&self, to: &Address) -> Address {
        self.interface.source_for(to)
    }

    /// Bytes of the longest datagram in a packet of `mtu` bytes, or in one that the device carries if that is less.
    pub(crate) fn datagram_within(&self, mtu: usize) -> usize {
        let headers = ipv4::MIN_HEADER_LEN + udp::HEADER_LEN;
        self.interface.mtu().min(mtu).saturating_sub(headers)
    }

    /// Whether what goes to `to` is for every host of a network here.
    pub(crate) fn is_broadcast(&self, to: &Address) -> bool {
        self.interface.is_broadcast(to)
    }

    /// What the network says of a datagram that was sent from the bound port `port`: the first of what has come and was not asked for yet
    /// (RFC 1122 §4.1.3.3).
    ///
    /// Anybody can forge it, so it is heard only of the last 64 destinations that something was sent to from there, else counted as
    /// `udp.report_not_sent_there`. Sixteen may wait; more are counted as `udp.reports_full`. Silence says nothing.
    pub fn undelivered(&mut self, port: u16) -> Option<Undelivered> {
        self.inboxes.undelivered(port)
    }

    /// Lets go of a bound port; whether it was bound. What waits there unread is dropped as `udp.released_unread`, and what comes
    /// later is answered by ICMP that the port is unreachable (RFC 1122 §4.1.3.1). What was sent still goes out.
    pub fn release(&mut self, port: u16) -> bool {
        self.inboxes.release(port, &mut self.spent)
    }

    /// A message of these datagrams, each in a buffer of its own: a train if they are several. `None` if memory is short.
    fn train(&mut self, segments: Segments<'_>) -> Option<Message> {
        let Segments { bytes, each, .. } = segments;
        let mut pieces = bytes.chunks(each);
        let mut message = self.filled(pieces.next().unwrap_or_default())?;
        if bytes.len() > each {
            for piece in pieces {
                message.push_continuation(self.filled(piece)?);
            }
            // It is less than what there is to send.
            message.set_segment_bytes(each as u32);
        }
        Some(message)
    }

    /// A message of these bytes, which are summed on the way; `None` if memory is short.
    fn filled(&mut self, bytes: &[u8]) -> Option<Message> {
        let pool = self.cluster.pool();
        if pool.scarcity() != Scarcity::Ample {
            // What is left is not for more to be sent.
            return None;
        }
        pool.withhold_reserve(true);
        let message = pool.allocate(HEADROOM, bytes.len());
        pool.withhold_reserve(false);
        let mut message = message?;
        let copied = message.extend_from_slice_summed(bytes);
        debug_assert_eq!(copied, bytes.len());
        Some(message)
    }
}
