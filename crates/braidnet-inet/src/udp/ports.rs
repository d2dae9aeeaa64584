//! The UDP ports that are open.

use crate::flows::Flows;
use core::ops::RangeInclusive;
use core::sync::atomic::{AtomicU64, Ordering};

/// First of the ports that are picked for whoever does not ask for one (RFC 6335 §6).
const EPHEMERAL: u16 = 49152;

/// The set of open UDP ports of a stack, on all of its addresses.
///
/// One bit for each port. Whoever binds or unbinds changes the bit in one atomic operation; every processor looks at it
/// for every datagram without waiting. A datagram that races an unbind may still come up: what stands above UDP
/// drops what it does not know.
pub struct UdpPorts {
    open: Box<[AtomicU64]>,
    flows: Flows,
    /// How many ephemeral ports were asked for.
    asked: AtomicU64,
}

/// Why a port cannot be bound.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum BindError {
    /// The port is open already.
    #[error("UDP port {0} is in use")]
    PortInUse(u16),
    /// Port 0 was asked for, and all ports that it may stand for are open.
    #[error("all {count} UDP ports from {EPHEMERAL} up are in use", count = u16::MAX - EPHEMERAL + 1)]
    NoneLeft,
}

impl UdpPorts {
    /// None open. The key of `flows` makes the ephemeral ports unpredictable (RFC 6056 §3.1).
    pub fn new(flows: Flows) -> UdpPorts {
        let open = (0..(1 << 16) / 64).map(|_| AtomicU64::new(0)).collect();
        UdpPorts {
            open,
            flows,
            asked: AtomicU64::new(0),
        }
    }

    /// Opens `port`, or one from 49152 up that is free if it is 0, and returns which.
    ///
    /// # Errors
    /// [`BindError`], if there is none.
    pub fn bind(&self, port: u16) -> Result<u16, BindError> {
        if port != 0 {
            return if self.open(port) {
                Ok(port)
            } else {
                Err(BindError::PortInUse(port))
            };
        }
        self.bind_any(EPHEMERAL..=u16::MAX)
            .ok_or(BindError::NoneLeft)
    }

    /// Opens one of these that is free, and returns which; nobody can tell which that will be where there are many (RFC 6056 §3.3.1).
    pub fn bind_any(&self, ports: RangeInclusive<u16>) -> Option<u16> {
        let (first, count) = (*ports.start(), ports.len() as u64);
        let start = self
            .flows
            .secret_number(self.asked.fetch_add(1, Ordering::Relaxed));
        (0..count)
            .map(|step| first + (start.wrapping_add(step) % count) as u16)
            .find(|port| self.open(*port))
    }

    /// Closes `port`; whether it was open.
    pub fn unbind(&self, port: u16) -> bool {
        let (word, bit) = self.place(port);
        word.fetch_and(!bit, Ordering::AcqRel) & bit != 0
    }

    /// Whether `port` is open.
    #[inline]
    pub fn is_open(&self, port: u16) -> bool {
        let (word, bit) = self.place(port);
        // Acquire: who sees the port open sees what its owner made ready before.
        word.load(Ordering::Acquire) & bit != 0
    }

    /// Opens `port`; whether it was closed.
    fn open(&self, port: u16) -> bool {
        let (word, bit) = self.place(port);
        word.fetch_or(bit, Ordering::AcqRel) & bit == 0
    }

    #[inline]
    fn place(&self, port: u16) -> (&AtomicU64, u64) {
        (&self.open[usize::from(port) / 64], 1 << (port % 64))
    }
}

impl core::fmt::Debug for UdpPorts {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_set()
            .entries((0..=u16::MAX).filter(|port| self.is_open(*port)))
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;

    fn ports() -> UdpPorts {
        UdpPorts::new(Flows::new([1, 2], 2, &testing::ip_interface()))
    }

    #[test]
    fn a_port_opens_once_and_closes_once() {
        let ports = ports();
        for port in [1, 63, 64, 7, 65535] {
            assert!(!ports.is_open(port));
            assert_eq!(ports.bind(port), Ok(port));
            assert!(ports.is_open(port) && !ports.is_open(port ^ 1 << 9));
            let again = ports.bind(port).unwrap_err();
            assert_eq!(again, BindError::PortInUse(port));
            assert_eq!(again.to_string(), format!("UDP port {port} is in use"));
            assert!(ports.unbind(port) && !ports.unbind(port));
            assert!(!ports.is_open(port));
        }
    }

    #[test]
    fn ephemeral_ports_are_scattered_and_run_out() {
        let ports = ports();
        let first: Vec<u16> = (0..100).map(|_| ports.bind(0).unwrap()).collect();
        let steps = first
            .windows(2)
            .filter(|pair| pair[1].wrapping_sub(pair[0]) == 1)
            .count();
        assert!(steps < 5, "{first:?}");
        assert!(
            first
                .iter()
                .all(|port| *port >= EPHEMERAL && ports.is_open(*port))
        );
        for _ in 100..1 << 14 {
            ports.bind(0).unwrap();
        }
        let none = ports.bind(0).unwrap_err();
        assert_eq!(
            none.to_string(),
            "all 16384 UDP ports from 49152 up are in use"
        );
        for port in [50000, 60000] {
            assert!(ports.unbind(port));
        }
        assert_eq!(ports.bind_any(59_000..=59_999), None);
        assert_eq!(ports.bind_any(60_000..=60_000), Some(60_000));
        assert_eq!(ports.bind(0), Ok(50000));
    }
}
