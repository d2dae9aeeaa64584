//! An interface that is there, and what is joined to it.

use super::PacketError;
use super::ring::Ring;
use super::socket::{Filter, PacketSocket};
use crate::{Capabilities, MacAddress, Medium, ioctl};
use rustix::net::{AddressFamily, SocketFlags, SocketType, netdevice, socket_with};
use std::io;
use std::os::fd::OwnedFd;

/// What there is to know of an interface.
pub struct Interface {
    pub index: u32,
    pub mtu: usize,
    pub address: MacAddress,
    /// Queues of its own, for what it receives.
    pub queues: usize,
}

impl Interface {
    /// One that is there, is up, and is Ethernet.
    pub fn find(name: &str) -> Result<Interface, PacketError> {
        let failed = |error: io::Error| match error.raw_os_error() {
            Some(libc::ENODEV | libc::EINVAL) => PacketError::NoInterface { name: name.into() },
            _ => PacketError::refused(name, error),
        };
        if name.is_empty() || name.len() >= libc::IFNAMSIZ || name.contains('\0') {
            return Err(PacketError::NoInterface { name: name.into() });
        }
        let control: OwnedFd = socket_with(
            AddressFamily::INET,
            SocketType::DGRAM,
            SocketFlags::CLOEXEC,
            None,
        )
        .map_err(|error| failed(error.into()))?;
        let index = netdevice::name_to_index(&control, name);
        let index = index.map_err(|error| failed(error.into()))?;
        let (kind, address) = ioctl::hardware(&control, name).map_err(failed)?;
        if kind != libc::ARPHRD_ETHER {
            return Err(PacketError::NotEthernet { name: name.into() });
        }
        if ioctl::flags(&control, name).map_err(failed)? & libc::IFF_UP as u16 == 0 {
            return Err(PacketError::Down { name: name.into() });
        }
        Ok(Interface {
            index,
            mtu: ioctl::mtu(&control, name).map_err(failed)?,
            // A driver that does not say has one.
            queues: ioctl::receive_queues(&control, name).map_or(1, |queues| queues.max(1)),
            address: MacAddress(address),
        })
    }

    /// A socket and a ring for each queue, among which packets are dealt.
    pub fn share(&self, capabilities: &Capabilities) -> io::Result<Vec<(PacketSocket, Ring)>> {
        let Medium::Ethernet { address } = capabilities.medium else {
            return Err(io::ErrorKind::InvalidInput.into());
        };
        let mut queues: Vec<(PacketSocket, Ring)> = Vec::new();
        let mut group = None;
        for _ in 0..capabilities.queues {
            let socket = PacketSocket::open()?;
            socket.describe_packets()?;
            let ring = Ring::of(&socket, capabilities.packet_max())?;
            // Until all share, each would get everything.
            socket.filter(Filter::Nothing)?;
            socket.begin_receiving(self.index)?;
            if capabilities.queues > 1 {
                group = Some(socket.share(group)?);
            }
            queues.push((socket, ring));
        }
        for (socket, _) in &queues {
            socket.filter(Filter::For(address))?;
        }
        if let Some((socket, _)) = queues.first() {
            socket.listen_for(self.index, address)?;
        }
        Ok(queues)
    }

    /// Has the interface take what is for this address, too, as long as the socket is there.
    pub fn listen_for(&self, station: MacAddress) -> io::Result<PacketSocket> {
        let socket = PacketSocket::open()?;
        socket.listen_for(self.index, station)?;
        Ok(socket)
    }
}
