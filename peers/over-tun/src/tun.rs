//! A TUN device for smoltcp: with `vnet_hdr`, as long packets as IP has both ways, and no checksum made or verified.

use std::fs::File;
use std::io::{self, Read, Write};
use std::num::NonZeroUsize;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::OpenOptionsExt;

use rustix::fs::OFlags;
use smoltcp::phy::{Checksum, Device, DeviceCapabilities, Medium, PacketMeta, RxToken, TxToken};
use smoltcp::time::Instant;

/// `struct virtio_net_hdr` (virtio 1.2 §5.1.6) in front of each packet.
const VNET_LEN: usize = 10;
const NEEDS_CSUM: u8 = 1;
const GSO_NONE: u8 = 0;
const GSO_TCPV4: u8 = 1;
/// The longest packet of IP.
const PACKET_MAX: usize = 65_535;
const IP_HEADER: usize = 20;

/// The device, and a buffer for each direction.
pub struct Tun {
    file: File,
    offloads: bool,
    mtu: usize,
    inward: Box<[u8]>,
    outward: Box<[u8]>,
}

impl Tun {
    /// Attaches to the device `name`, which lets nobody else have it meanwhile.
    ///
    /// # Errors
    /// If there is none, or the system refuses it.
    pub fn attach(name: &str, mtu: usize, offloads: bool) -> io::Result<Tun> {
        let file = File::options()
            .read(true)
            .write(true)
            .custom_flags(OFlags::NONBLOCK.bits() as i32)
            .open("/dev/net/tun")?;
        ioctl::attach(&file, name, offloads)?;
        let room = VNET_LEN + PACKET_MAX;
        Ok(Tun {
            file,
            offloads,
            mtu,
            inward: vec![0; room].into(),
            outward: vec![0; room].into(),
        })
    }

    /// What becomes readable when something comes.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }

    fn header_len(&self) -> usize {
        if self.offloads { VNET_LEN } else { 0 }
    }
}

impl Device for Tun {
    type RxToken<'a> = Arrival<'a>;
    type TxToken<'a> = Departure<'a>;

    fn receive(&mut self, _: Instant) -> Option<(Arrival<'_>, Departure<'_>)> {
        let header = self.header_len();
        let len = self.file.read(&mut self.inward).ok()?;
        let packet = self.inward.get(header..len)?;
        let departure = Departure {
            file: &mut self.file,
            buffer: &mut self.outward,
            offloads: self.offloads,
            segment: None,
        };
        Some((Arrival { packet }, departure))
    }

    fn transmit(&mut self, _: Instant) -> Option<Departure<'_>> {
        Some(Departure {
            file: &mut self.file,
            buffer: &mut self.outward,
            offloads: self.offloads,
            segment: None,
        })
    }

    fn capabilities(&self) -> DeviceCapabilities {
        let mut capabilities = DeviceCapabilities::default();
        capabilities.medium = Medium::Ip;
        capabilities.max_transmission_unit = self.mtu;
        if self.offloads {
            capabilities.checksum.tcp = Checksum::None;
            capabilities.segmentation.tcpv4 = NonZeroUsize::new(PACKET_MAX);
        }
        capabilities
    }
}

/// A packet that has come.
pub struct Arrival<'a> {
    packet: &'a [u8],
}

impl RxToken for Arrival<'_> {
    fn consume<R, F: FnOnce(&[u8]) -> R>(self, work: F) -> R {
        work(self.packet)
    }
}

/// A packet that is to leave.
pub struct Departure<'a> {
    file: &'a mut File,
    buffer: &'a mut [u8],
    offloads: bool,
    segment: Option<u16>,
}

impl TxToken for Departure<'_> {
    fn consume<R, F: FnOnce(&mut [u8]) -> R>(self, len: usize, work: F) -> R {
        let header = if self.offloads { VNET_LEN } else { 0 };
        let end = header + len;
        let result = work(&mut self.buffer[header..end]);
        if self.offloads {
            let (vnet, packet) = self.buffer[..end].split_at_mut(VNET_LEN);
            vnet.copy_from_slice(&describe(packet, self.segment));
        }
        // What the device has no room for is lost, as on any wire.
        let _ = self.file.write(&self.buffer[..end]);
        result
    }

    fn set_meta(&mut self, meta: PacketMeta) {
        self.segment = meta.segmentation_offload_size.map(Into::into);
    }
}

/// What the device is told of a packet of TCP, whose checksum becomes that of its pseudo-header; of any other packet, nothing.
fn describe(packet: &mut [u8], segment: Option<u16>) -> [u8; VNET_LEN] {
    let mut vnet = [0; VNET_LEN];
    if packet.len() < IP_HEADER + 20 || packet[0] != 0x45 || packet[9] != 6 {
        return vnet;
    }
    let tcp_len = packet.len() - IP_HEADER;
    let words = packet[12..IP_HEADER].chunks_exact(2);
    let addresses: u32 = words
        .map(|word| u32::from(u16::from_be_bytes([word[0], word[1]])))
        .sum();
    let mut sum = addresses + 6 + tcp_len as u32;
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    packet[IP_HEADER + 16..IP_HEADER + 18].copy_from_slice(&(sum as u16).to_be_bytes());
    let tcp_header = usize::from(packet[IP_HEADER + 12] >> 4) * 4;
    let headers = IP_HEADER + tcp_header;
    vnet[0] = NEEDS_CSUM;
    let cut = segment.filter(|segment| packet.len() - headers > usize::from(*segment));
    vnet[1] = if cut.is_some() { GSO_TCPV4 } else { GSO_NONE };
    vnet[2..4].copy_from_slice(&(headers as u16).to_ne_bytes());
    vnet[4..6].copy_from_slice(&cut.unwrap_or(0).to_ne_bytes());
    vnet[6..8].copy_from_slice(&(IP_HEADER as u16).to_ne_bytes());
    vnet[8..10].copy_from_slice(&16u16.to_ne_bytes());
    vnet
}

/// The two calls that make a file a TUN device.
#[allow(unsafe_code)]
mod ioctl {
    use std::fs::File;
    use std::io;

    use rustix::ioctl::{IntegerSetter, Updater, ioctl, opcode};

    const IFF_TUN: u16 = 0x0001;
    const IFF_NO_PI: u16 = 0x1000;
    const IFF_VNET_HDR: u16 = 0x4000;
    const TUN_F_CSUM: usize = 1;
    const TUN_F_TSO4: usize = 2;
    const TUNSETIFF: u32 = opcode::write::<i32>(b'T', 202);
    const TUNSETOFFLOAD: u32 = opcode::write::<u32>(b'T', 208);

    /// The kernel's `struct ifreq`: a name and flags.
    #[repr(C, align(8))]
    struct Request {
        name: [u8; 16],
        flags: u16,
        rest: [u8; 22],
    }

    pub fn attach(file: &File, name: &str, offloads: bool) -> io::Result<()> {
        let mut request = Request {
            name: [0; 16],
            flags: IFF_TUN | IFF_NO_PI,
            rest: [0; 22],
        };
        for (to, from) in request.name.iter_mut().take(15).zip(name.bytes()) {
            *to = from;
        }
        if offloads {
            request.flags |= IFF_VNET_HDR;
        }
        // SAFETY: TUNSETIFF reads a `struct ifreq` and writes the name back into it; `Request` is as long as that, and borrowed to be written.
        unsafe { ioctl(file, Updater::<TUNSETIFF, Request>::new(&mut request)) }?;
        if offloads {
            // SAFETY: TUNSETOFFLOAD takes a number.
            unsafe {
                ioctl(
                    file,
                    IntegerSetter::<TUNSETOFFLOAD>::new_usize(TUN_F_CSUM | TUN_F_TSO4),
                )
            }?;
        }
        Ok(())
    }
}
