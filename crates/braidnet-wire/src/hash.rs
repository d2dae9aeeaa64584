//! The keyed hash of flows.

use crate::address::{Address, Tuple};
use core::fmt;

/// Hashes flows under a secret key, so that nobody outside can choose flows that meet in one bucket.
///
/// It is SipHash-1-3 of the flow's bytes: both addresses (four bytes each if both are IPv4, else sixteen), the local and
/// the remote port in little endian, and the protocol; written out for these two lengths, 13 and 37 bytes, since the
/// hash of a packet is on every packet's way.
///
/// ```
/// use braidnet_wire::address::{Address, Tuple};
/// use braidnet_wire::hash::FlowHasher;
///
/// let flow = Tuple {
///     local: Address::v4([192, 0, 2, 1]),
///     remote: Address::v4([192, 0, 2, 2]),
///     local_port: 80,
///     remote_port: 40000,
/// };
/// let boot = FlowHasher::new([1, 2]);
/// assert_eq!(boot.hash(&flow, 6), boot.hash(&flow, 6));
/// assert_ne!(boot.hash(&flow, 6), FlowHasher::new([1, 3]).hash(&flow, 6));
/// ```
#[derive(Clone, Copy)]
pub struct FlowHasher {
    /// The state that the key makes.
    start: State,
}

impl FlowHasher {
    /// The hash under this key, which is drawn at random at every start of the stack.
    pub const fn new(key: [u64; 2]) -> FlowHasher {
        let [k0, k1] = key;
        FlowHasher {
            start: State([
                k0 ^ 0x736f_6d65_7073_6575,
                k1 ^ 0x646f_7261_6e64_6f6d,
                k0 ^ 0x6c79_6765_6e65_7261,
                k1 ^ 0x7465_6462_7974_6573,
            ]),
        }
    }

    /// The hash of a flow; all 64 bits are fit for use. The two directions of a flow have different hashes.
    #[inline(always)]
    pub fn hash(&self, tuple: &Tuple, protocol: u8) -> u64 {
        let tail = u64::from(tuple.local_port)
            | u64::from(tuple.remote_port) << 16
            | u64::from(protocol) << 32;
        match (tuple.local.as_v4(), tuple.remote.as_v4()) {
            (Some(local), Some(remote)) => self.hash_v4([local, remote], tail),
            _ => self.hash_v6(tuple, tail),
        }
    }

    #[inline]
    fn hash_v4(&self, [local, remote]: [[u8; 4]; 2], tail: u64) -> u64 {
        let (local, remote) = (u32::from_le_bytes(local), u32::from_le_bytes(remote));
        let mut state = self.start;
        state.absorb(u64::from(local) | u64::from(remote) << 32);
        // SipHash ends with the message's length in the uppermost byte.
        state.absorb(tail | 13 << 56);
        state.finish()
    }

    #[inline(never)]
    fn hash_v6(&self, tuple: &Tuple, tail: u64) -> u64 {
        let ([a, b], [c, d]) = (words(&tuple.local), words(&tuple.remote));
        let mut state = self.start;
        state.absorb(a);
        state.absorb(b);
        state.absorb(c);
        state.absorb(d);
        state.absorb(tail | 37 << 56);
        state.finish()
    }
}

/// Does not show the key.
impl fmt::Debug for FlowHasher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FlowHasher").finish_non_exhaustive()
    }
}

/// The two halves of an address in little endian.
#[inline]
fn words(address: &Address) -> [u64; 2] {
    let value = u128::from_le_bytes(*address.octets());
    [value as u64, (value >> 64) as u64]
}

/// SipHash's four words.
#[derive(Clone, Copy)]
struct State([u64; 4]);

impl State {
    /// Takes in eight bytes: one round.
    #[inline]
    fn absorb(&mut self, word: u64) {
        self.0[3] ^= word;
        self.round();
        self.0[0] ^= word;
    }

    /// Three rounds, and the words in one.
    #[inline]
    fn finish(mut self) -> u64 {
        self.0[2] ^= 0xff;
        self.round();
        self.round();
        self.round();
        let [a, b, c, d] = self.0;
        a ^ b ^ c ^ d
    }

    #[inline]
    fn round(&mut self) {
        let [mut a, mut b, mut c, mut d] = self.0;
        a = a.wrapping_add(b);
        b = b.rotate_left(13) ^ a;
        a = a.rotate_left(32);
        c = c.wrapping_add(d);
        d = d.rotate_left(16) ^ c;
        a = a.wrapping_add(d);
        d = d.rotate_left(21) ^ a;
        c = c.wrapping_add(b);
        b = b.rotate_left(17) ^ c;
        c = c.rotate_left(32);
        self.0 = [a, b, c, d];
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::hash::Hasher;
    use proptest::prelude::*;
    use siphasher::sip::SipHasher13;

    /// The bytes that the documentation promises to hash.
    fn bytes(tuple: &Tuple, protocol: u8) -> Vec<u8> {
        let addresses = match (tuple.local.as_v4(), tuple.remote.as_v4()) {
            (Some(local), Some(remote)) => [local, remote].concat(),
            _ => [*tuple.local.octets(), *tuple.remote.octets()].concat(),
        };
        let ports = [
            tuple.local_port.to_le_bytes(),
            tuple.remote_port.to_le_bytes(),
        ]
        .concat();
        [addresses, ports, vec![protocol]].concat()
    }

    fn reference(key: [u64; 2], tuple: &Tuple, protocol: u8) -> u64 {
        let mut hasher = SipHasher13::new_with_keys(key[0], key[1]);
        hasher.write(&bytes(tuple, protocol));
        hasher.finish()
    }

    #[test]
    fn the_key_is_not_shown() {
        assert_eq!(
            format!("{:?}", FlowHasher::new([1, 2])),
            "FlowHasher { .. }"
        );
    }

    proptest! {
        #[test]
        fn it_is_siphash_1_3(
            key: [u64; 2], addresses in any::<([u8; 16], [u8; 16])>(), versions in any::<(bool, bool)>(),
            ports in any::<(u16, u16)>(), protocol: u8,
        ) {
            let address = |bytes: [u8; 16], v4| match v4 {
                true => Address::v4([bytes[0], bytes[1], bytes[2], bytes[3]]),
                false => Address::v6(bytes),
            };
            let tuple = Tuple {
                local: address(addresses.0, versions.0),
                remote: address(addresses.1, versions.1),
                local_port: ports.0,
                remote_port: ports.1,
            };
            prop_assert_eq!(FlowHasher::new(key).hash(&tuple, protocol), reference(key, &tuple, protocol));
        }
    }
}
