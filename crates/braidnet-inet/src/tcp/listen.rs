//! Ports that are listened on, known to every bucket.
//!
//! Listeners are few, change rarely and are asked only when a SYN arrives: a published snapshot that one owner replaces.
//! Their limits hold for the whole stack, so the counts are atomic and shared.

use arc_swap::ArcSwap;
use braidnet_wire::address::Address;
use core::fmt;
use core::sync::atomic::{AtomicU32, Ordering};
use std::sync::Arc;

/// The set of listeners of one stack.
#[derive(Default)]
pub struct Listeners {
    all: ArcSwap<Vec<Arc<Listener>>>,
}

/// One port that is listened on.
#[derive(Debug)]
pub struct Listener {
    /// On this address, or on all.
    address: Option<Address>,
    port: u16,
    /// Most connections that may be half-open at a time.
    backlog: u32,
    half_open: AtomicU32,
}

/// Why a port cannot be listened on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ListenError {
    /// Somebody listens on it already.
    InUse(u16),
    /// Port 0 cannot be listened on.
    Zero,
}

impl fmt::Display for ListenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ListenError::InUse(port) => write!(f, "TCP port {port} is listened on already"),
            ListenError::Zero => write!(f, "TCP port 0 cannot be listened on"),
        }
    }
}

impl std::error::Error for ListenError {}

impl Listeners {
    /// Listens on `port` of `address`, or of every address of the stack; at most `backlog` connections (at least 1) may
    /// be half-open at a time.
    ///
    /// # Errors
    /// If the port is 0 or taken.
    pub fn listen(
        &self,
        address: Option<Address>,
        port: u16,
        backlog: u32,
    ) -> Result<(), ListenError> {
        if port == 0 {
            return Err(ListenError::Zero);
        }
        let mut taken = false;
        self.all.rcu(|all| {
            taken = all.iter().any(|listener| {
                listener.port == port
                    && (listener.address.is_none()
                        || address.is_none()
                        || listener.address == address)
            });
            let mut all = Vec::clone(all);
            if !taken {
                let half_open = AtomicU32::new(0);
                all.push(Arc::new(Listener {
                    address,
                    port,
                    backlog: backlog.max(1),
                    half_open,
                }));
            }
            all
        });
        if taken {
            Err(ListenError::InUse(port))
        } else {
            Ok(())
        }
    }

    /// Stops listening; connections that exist go on.
    pub fn stop(&self, address: Option<Address>, port: u16) {
        self.all.rcu(|all| {
            let mut all = Vec::clone(all);
            all.retain(|listener| listener.port != port || listener.address != address);
            all
        });
    }

    /// Stops listening on everything.
    pub fn stop_all(&self) {
        self.all.store(Arc::default());
    }

    pub(super) fn find(&self, address: &Address, port: u16) -> Option<Arc<Listener>> {
        self.all
            .load()
            .iter()
            .find(|listener| {
                listener.port == port && listener.address.is_none_or(|own| own == *address)
            })
            .cloned()
    }
}

/// A half-open connection's place in its listener's queue, given back when dropped.
#[derive(Debug)]
pub(super) struct HalfOpen(Arc<Listener>);

impl HalfOpen {
    /// A place, if there is one.
    pub(super) fn take(listener: Arc<Listener>) -> Option<HalfOpen> {
        let taken =
            listener
                .half_open
                .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |half_open| {
                    (half_open < listener.backlog).then_some(half_open + 1)
                });
        taken.ok().map(|_| HalfOpen(listener))
    }
}

impl Drop for HalfOpen {
    fn drop(&mut self) {
        self.0.half_open.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_is_taken_by_one_listener_only() {
        let listeners = Listeners::default();
        let one = Address::v4([10, 0, 0, 1]);
        let two = Address::v4([10, 0, 0, 2]);
        assert_eq!(listeners.listen(None, 0, 1), Err(ListenError::Zero));
        assert_eq!(listeners.listen(Some(one), 80, 1), Ok(()));
        assert_eq!(listeners.listen(Some(two), 80, 1), Ok(()));
        assert_eq!(listeners.listen(None, 80, 1), Err(ListenError::InUse(80)));
        listeners.stop(Some(one), 80);
        assert!(listeners.find(&one, 80).is_none());
        assert!(listeners.find(&two, 80).is_some());
    }

    #[test]
    fn the_backlog_bounds_half_open_connections() {
        let listeners = Listeners::default();
        let address = Address::v4([10, 0, 0, 1]);
        listeners.listen(None, 7, 2).unwrap();
        let take = || HalfOpen::take(listeners.find(&address, 7).unwrap());
        let (first, _second) = (take().unwrap(), take().unwrap());
        assert!(take().is_none());
        drop(first);
        assert!(take().is_some());
    }
}
