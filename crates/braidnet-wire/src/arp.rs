//! ARP for IPv4 over Ethernet (RFC 826).

use crate::address::Address;
use crate::bytes::{array_at, u16_at};
use crate::ethernet::{MacAddress, ether_type};
use crate::refusal::refusals;

/// Length in bytes of a packet; the frame around it is padded.
pub const PACKET_LEN: usize = 28;

refusals! {
    /// Why an ARP packet is refused, and the neighbour table left alone.
    pub enum ArpError {
        /// Fewer than 28 bytes.
        Truncated: "arp_truncated", "shorter than an ARP packet";
        /// Hardware that is not Ethernet.
        HardwareType: "arp_hardware_type_wrong", "ARP hardware type is not Ethernet";
        /// A protocol that is not IPv4.
        ProtocolType: "arp_protocol_type_wrong", "ARP protocol type is not IPv4";
        /// A hardware address length that is not 6.
        HardwareLen: "arp_hardware_length_wrong", "ARP hardware address length is not 6";
        /// A protocol address length that is not 4.
        ProtocolLen: "arp_protocol_length_wrong", "ARP protocol address length is not 4";
        /// Neither a request nor a reply.
        Operation: "arp_operation_unknown", "ARP operation is neither request nor reply";
        /// A sender's Ethernet address of zero, or of a group.
        SenderHardware: "arp_sender_hardware_bad", "ARP sender's Ethernet address is not one station's";
        /// A sender's IPv4 address of multicast or broadcast, or of zero in a reply.
        SenderProtocol: "arp_sender_protocol_bad", "ARP sender's IPv4 address is not one host's";
    }
}

/// What an ARP packet is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Operation {
    /// Who has the target's IPv4 address?
    Request,
    /// The sender has it.
    Reply,
}

/// An ARP packet. All four addresses are as on the wire; the IPv4 ones are IPv4 [`Address`]es.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ArpPacket {
    /// Request or reply.
    pub operation: Operation,
    /// The sender's station.
    pub sender_hardware: MacAddress,
    /// The sender's address; unspecified in a probe.
    pub sender: Address,
    /// The target's station, of no meaning in a request.
    pub target_hardware: MacAddress,
    /// The address that is asked for, or of the host that asked.
    pub target: Address,
}

impl ArpPacket {
    /// Whether it asks if anyone has an address, on behalf of a host that has none yet (RFC 5227 §1.1). It is answered
    /// like any request but says nothing about its sender.
    #[inline]
    pub fn is_probe(&self) -> bool {
        self.sender.is_unspecified()
    }
}

/// Parses the payload of a frame, which may be padded.
///
/// # Errors
///
/// An [`ArpError`] for what is not about IPv4 over Ethernet or cannot be true of its sender.
pub fn parse(payload: &[u8]) -> Result<ArpPacket, ArpError> {
    let fixed = payload
        .first_chunk::<PACKET_LEN>()
        .ok_or(ArpError::Truncated)?;
    if u16_at(fixed, 0) != ETHERNET {
        return Err(ArpError::HardwareType);
    }
    if u16_at(fixed, 2) != ether_type::IPV4 {
        return Err(ArpError::ProtocolType);
    }
    if fixed[4] != 6 {
        return Err(ArpError::HardwareLen);
    }
    if fixed[5] != 4 {
        return Err(ArpError::ProtocolLen);
    }
    let operation = match u16_at(fixed, 6) {
        1 => Operation::Request,
        2 => Operation::Reply,
        _ => return Err(ArpError::Operation),
    };
    let packet = ArpPacket {
        operation,
        sender_hardware: MacAddress(array_at(fixed, 8)),
        sender: Address::v4(array_at(fixed, 14)),
        target_hardware: MacAddress(array_at(fixed, 18)),
        target: Address::v4(array_at(fixed, 24)),
    };
    if !packet.sender_hardware.is_station() {
        return Err(ArpError::SenderHardware);
    }
    let probe_reply = packet.is_probe() && operation == Operation::Reply;
    if packet.sender.is_multicast_or_broadcast() || probe_reply {
        return Err(ArpError::SenderProtocol);
    }
    Ok(packet)
}

/// Writes the packet to the front of `out` and returns its length, 28.
///
/// # Panics
///
/// If `out` is shorter than that.
pub fn emit(packet: &ArpPacket, out: &mut [u8]) -> usize {
    debug_assert!(
        packet.sender.is_v4() && packet.target.is_v4(),
        "not IPv4 addresses"
    );
    let operation: u16 = match packet.operation {
        Operation::Request => 1,
        Operation::Reply => 2,
    };
    let mut bytes = [0; PACKET_LEN];
    bytes[..2].copy_from_slice(&ETHERNET.to_be_bytes());
    bytes[2..4].copy_from_slice(&ether_type::IPV4.to_be_bytes());
    bytes[4..6].copy_from_slice(&[6, 4]);
    bytes[6..8].copy_from_slice(&operation.to_be_bytes());
    bytes[8..14].copy_from_slice(&packet.sender_hardware.0);
    bytes[14..18].copy_from_slice(&packet.sender.octets()[12..]);
    bytes[18..24].copy_from_slice(&packet.target_hardware.0);
    bytes[24..].copy_from_slice(&packet.target.octets()[12..]);
    out[..PACKET_LEN].copy_from_slice(&bytes);
    PACKET_LEN
}

/// The hardware type (IANA ARP parameters).
const ETHERNET: u16 = 1;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SOUND: ArpPacket = ArpPacket {
        operation: Operation::Reply,
        sender_hardware: MacAddress([2, 0, 0, 0, 0, 1]),
        sender: Address::v4([192, 0, 2, 1]),
        target_hardware: MacAddress([2, 0, 0, 0, 0, 2]),
        target: Address::v4([192, 0, 2, 2]),
    };

    fn with(at: usize, value: &[u8]) -> Vec<u8> {
        let mut bytes = vec![0; 46];
        emit(&SOUND, &mut bytes);
        bytes[at..at + value.len()].copy_from_slice(value);
        bytes
    }

    /// Class 34.
    #[test]
    fn hostile_packets_are_refused_by_name() {
        let rows: [(&str, Vec<u8>, ArpError); 15] = [
            ("1: empty", vec![], ArpError::Truncated),
            (
                "34: one byte short",
                with(0, &[])[..27].to_vec(),
                ArpError::Truncated,
            ),
            (
                "34: hardware type",
                with(0, &[0, 6]),
                ArpError::HardwareType,
            ),
            (
                "34: protocol type",
                with(2, &[0x86, 0xdd]),
                ArpError::ProtocolType,
            ),
            (
                "34: hardware length 0",
                with(4, &[0]),
                ArpError::HardwareLen,
            ),
            (
                "34: hardware length 255",
                with(4, &[255]),
                ArpError::HardwareLen,
            ),
            (
                "34: protocol length 16",
                with(5, &[16]),
                ArpError::ProtocolLen,
            ),
            ("34: operation 0", with(6, &[0, 0]), ArpError::Operation),
            ("34: reverse request", with(6, &[0, 3]), ArpError::Operation),
            (
                "34: zero station",
                with(8, &[0; 6]),
                ArpError::SenderHardware,
            ),
            (
                "34: broadcast station",
                with(8, &[255; 6]),
                ArpError::SenderHardware,
            ),
            (
                "34: group of stations",
                with(8, &[1]),
                ArpError::SenderHardware,
            ),
            (
                "34: reply from zero",
                with(14, &[0; 4]),
                ArpError::SenderProtocol,
            ),
            (
                "34: from broadcast",
                with(14, &[255; 4]),
                ArpError::SenderProtocol,
            ),
            (
                "34: from multicast",
                with(14, &[224, 0, 0, 1]),
                ArpError::SenderProtocol,
            ),
        ];
        for (class, bytes, refusal) in rows {
            assert_eq!(parse(&bytes), Err(refusal), "class {class}");
        }
    }

    #[test]
    fn probes_are_requests_from_nobody() {
        let probe = ArpPacket {
            operation: Operation::Request,
            sender: Address::v4([0; 4]),
            ..SOUND
        };
        let mut bytes = [0; PACKET_LEN];
        emit(&probe, &mut bytes);
        assert_eq!(parse(&bytes), Ok(probe));
        assert!(probe.is_probe() && !SOUND.is_probe());
    }

    proptest! {
        #[test]
        fn what_is_emitted_parses(
            request: bool, mut stations in any::<[[u8; 6]; 2]>(), mut hosts in any::<[[u8; 4]; 2]>(),
        ) {
            stations[0][0] = stations[0][0] & 0xfe | 2;
            hosts[0][0] = hosts[0][0] & 0x7f | 1;
            let packet = ArpPacket {
                operation: if request { Operation::Request } else { Operation::Reply },
                sender_hardware: MacAddress(stations[0]),
                sender: Address::v4(hosts[0]),
                target_hardware: MacAddress(stations[1]),
                target: Address::v4(hosts[1]),
            };
            let mut out = [0xee; PACKET_LEN + 2];
            prop_assert_eq!(emit(&packet, &mut out), PACKET_LEN);
            prop_assert_eq!(parse(&out), Ok(packet));
            prop_assert_eq!(&out[PACKET_LEN..], &[0xee; 2]);
        }

        #[test]
        fn no_bytes_panic(bytes in proptest::collection::vec(any::<u8>(), 0..60)) {
            let _ = parse(&bytes);
        }
    }
}
