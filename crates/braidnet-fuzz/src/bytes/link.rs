//! Ethernet and ARP.

use super::word;
use braidnet_wire::arp::{self, ArpError, Operation};
use braidnet_wire::ethernet::{self, EthernetError};

/// A frame is refused for its first fault, and else its header is written as it was read.
pub fn ethernet(input: &[u8]) {
    let expected = match input {
        [_, _, _, _, _, _, source, _, _, _, _, _, _, _, ..] if source & 1 != 0 => {
            Err(EthernetError::GroupSource)
        }
        bytes if bytes.len() < 14 => Err(EthernetError::Truncated),
        bytes if word(bytes, 12) < 0x600 => Err(EthernetError::LengthField),
        bytes if [0x8100, 0x88a8, 0x9100].contains(&word(bytes, 12)) => Err(EthernetError::VlanTag),
        _ => Ok(()),
    };
    let header = ethernet::parse(input);
    assert_eq!(header.map(|_| ()), expected);
    if let Ok(header) = header {
        let mut out = [0xee; 15];
        assert_eq!(ethernet::emit(&header, &mut out), 14);
        assert_eq!((&out[..14], out[14]), (&input[..14], 0xee));
    }
}

/// A packet that is taken is about IPv4 over Ethernet, its sender can be one host's, and it is written as it was read.
pub fn arp(input: &[u8]) {
    // IPv4 over Ethernet, so that most inputs get to what is behind; the plain reading below takes the others too.
    let mut helped = input.to_vec();
    if let Some(front) = helped.get_mut(..6) {
        front.copy_from_slice(&[0, 1, 8, 0, 6, 4]);
    }
    for bytes in [input, &helped] {
        arp_of(bytes);
    }
}

fn arp_of(bytes: &[u8]) {
    let parsed = arp::parse(bytes);
    let expected = if bytes.len() < 28 {
        Err(ArpError::Truncated)
    } else if word(bytes, 0) != 1 {
        Err(ArpError::HardwareType)
    } else if word(bytes, 2) != 0x0800 {
        Err(ArpError::ProtocolType)
    } else if bytes[4] != 6 {
        Err(ArpError::HardwareLen)
    } else if bytes[5] != 4 {
        Err(ArpError::ProtocolLen)
    } else if ![1, 2].contains(&word(bytes, 6)) {
        Err(ArpError::Operation)
    } else if bytes[8] & 1 != 0 || bytes[8..14] == [0; 6] {
        Err(ArpError::SenderHardware)
    } else if (224..240).contains(&bytes[14])
        || bytes[14..18] == [255; 4]
        || (bytes[14..18] == [0; 4] && bytes[7] == 2)
    {
        Err(ArpError::SenderProtocol)
    } else {
        Ok(())
    };
    assert_eq!(parsed.map(|_| ()), expected);
    if let Ok(packet) = parsed {
        assert_eq!(packet.operation == Operation::Reply, bytes[7] == 2);
        assert_eq!(packet.is_probe(), bytes[14..18] == [0; 4]);
        let mut out = [0xee; 29];
        assert_eq!(arp::emit(&packet, &mut out), 28);
        assert_eq!((&out[..28], out[28]), (&bytes[..28], 0xee));
    }
}
