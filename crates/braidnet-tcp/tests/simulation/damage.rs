//! Headers that were changed on the way so that no checksum finds it.

use crate::host::packet;
use crate::link::Packet;
use crate::random::Random;
use braidnet_wire::seq::SeqNumber;
use braidnet_wire::tcp::{self, SackBlock, TcpFlags};

/// The packet of host `from` with one to three fields of its header changed.
pub fn damage(from: usize, intact: Packet, random: &mut Random) -> Packet {
    let Ok(parsed) = tcp::parse(&intact) else {
        return intact;
    };
    let mut header = parsed.header;
    let mut data = intact[parsed.header_len..].to_vec();
    for _ in 0..random.between(1, 3) {
        match random.below(10) {
            0 => header.seq = near(random, header.seq),
            1 => header.ack = near(random, header.ack),
            2 => header.window = near(random, SeqNumber::new(0)).value() as u16,
            3 => header.flags = TcpFlags(header.flags.0 ^ (1 << random.below(8))),
            4 => header.flags = TcpFlags(random.word() as u8),
            5 => header.ts_value = near(random, SeqNumber::new(header.ts_value)).value(),
            6 => header.ts_echo = near(random, SeqNumber::new(header.ts_echo)).value(),
            7 => {
                header.sack_count = random.below(5) as u8;
                let edge = header.ack;
                header.sack = [(); 4].map(|()| SackBlock {
                    left: near(random, edge),
                    right: near(random, edge),
                });
            }
            8 => {
                header.present = random.below(16) as u8;
                header.mss = random.pick(&[0, 1, 88, u16::MAX]);
                header.window_scale = random.word() as u8;
            }
            _ => data.truncate(random.below(data.len() as u64 + 1) as usize),
        }
    }
    // A header holds three blocks beside timestamps (RFC 2018 §3).
    header.sack_count = header.sack_count.min(3);
    packet(from, &header, &data)
}

/// A number near another, by a distance of any size.
pub fn near(random: &mut Random, place: SeqNumber) -> SeqNumber {
    let distance = random.sized(1 << 32) as u32;
    if random.chance(500) {
        place + distance
    } else {
        place - distance
    }
}
