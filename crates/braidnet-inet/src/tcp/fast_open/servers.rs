//! What is known of servers (RFC 7413 §4.1.3): the cookies that they have given, and which of them took no data.

use braidnet_sync::lock::{Lock, LockClass, LockKind};
use braidnet_tcp::KnownServer;
use braidnet_wire::address::{Address, Tuple};
use braidnet_wire::time::Instant;
use core::hash::Hash;
use std::collections::HashMap;

/// The servers that a stack knows. Connections look here when they begin.
pub(in super::super) struct Servers {
    /// A cookie is good for both addresses, and all ports of a server (§4.1.3).
    cookies: Lock<Recent<(Address, Address), KnownServer>>,
    /// Of a server that takes data on one port, another may not; until when none is to be sent there (§4.1.3.1).
    refusals: Lock<Recent<(Address, Address, u16), Instant>>,
}

impl Servers {
    /// None yet, and at most so many of either.
    pub(in super::super) fn new(most: usize) -> Servers {
        Servers {
            cookies: Lock::new(LockKind::Adaptive, LockClass::Map, Recent::new(most)),
            refusals: Lock::new(LockKind::Adaptive, LockClass::Map, Recent::new(most)),
        }
    }

    /// What is known of the server of a connection.
    pub(super) fn find(&self, tuple: &Tuple, now: Instant) -> Option<KnownServer> {
        self.cookies
            .with(|cookies| cookies.find(&(tuple.local, tuple.remote), now))
    }

    /// Remembers what a server has given, in place of what it gave before; whether another had to be forgotten for it.
    pub(super) fn learn(&self, tuple: &Tuple, server: KnownServer, now: Instant) -> bool {
        self.cookies
            .with(|cookies| cookies.insert((tuple.local, tuple.remote), server, now))
    }

    /// Remembers that a server took no data; whether another had to be forgotten for it.
    pub(super) fn note_refusal(&self, tuple: &Tuple, until: Instant, now: Instant) -> bool {
        let key = (tuple.local, tuple.remote, tuple.remote_port);
        self.refusals
            .with(|refusals| refusals.insert(key, until, now))
    }

    /// Whether no data are to go with a SYN to this server yet.
    pub(super) fn is_refusing(&self, tuple: &Tuple, now: Instant) -> bool {
        let key = (tuple.local, tuple.remote, tuple.remote_port);
        self.refusals.with(|refusals| {
            let until = refusals.find(&key, now);
            let is_over = until.is_some_and(|until| until <= now);
            if is_over {
                refusals.entries.remove(&key);
            }
            until.is_some() && !is_over
        })
    }
}

/// At most so many entries; of one more, the one that was last asked for longest ago gives way.
struct Recent<K, V> {
    most: usize,
    entries: HashMap<K, (V, Instant)>,
}

impl<K: Hash + Eq + Copy, V: Copy> Recent<K, V> {
    fn new(most: usize) -> Recent<K, V> {
        Recent {
            most,
            entries: HashMap::new(),
        }
    }

    fn find(&mut self, key: &K, now: Instant) -> Option<V> {
        let (value, asked) = self.entries.get_mut(key)?;
        *asked = now;
        Some(*value)
    }

    fn insert(&mut self, key: K, value: V, now: Instant) -> bool {
        let is_full = self.entries.len() >= self.most && !self.entries.contains_key(&key);
        if is_full {
            let oldest = self.entries.iter().min_by_key(|(_, (_, asked))| *asked);
            let oldest = oldest.map(|(key, _)| *key);
            oldest.and_then(|key| self.entries.remove(&key));
        }
        if self.most > 0 {
            self.entries.insert(key, (value, now));
        }
        is_full
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use braidnet_wire::tcp::FastOpenCookie;

    fn to(host: u8, port: u16) -> Tuple {
        Tuple {
            local: Address::v4([10, 0, 0, 1]),
            remote: Address::v4([10, 0, 1, host]),
            local_port: 40_000,
            remote_port: port,
        }
    }

    fn server(mss: u16) -> KnownServer {
        KnownServer {
            cookie: FastOpenCookie::new(&[9; 8]).unwrap(),
            mss,
        }
    }

    #[test]
    fn the_server_that_was_asked_for_longest_ago_gives_way() {
        let servers = Servers::new(2);
        let at = Instant::from_millis;
        assert!(!servers.learn(&to(1, 80), server(100), at(1)));
        assert!(!servers.learn(&to(2, 80), server(200), at(2)));
        // Its ports share a cookie, and the last counts.
        assert!(!servers.learn(&to(1, 443), server(101), at(3)));
        assert_eq!(servers.find(&to(1, 80), at(4)), Some(server(101)));
        assert!(servers.learn(&to(3, 80), server(300), at(5)));
        assert_eq!(servers.find(&to(2, 80), at(6)), None);
        assert_eq!(servers.find(&to(1, 80), at(6)), Some(server(101)));
        assert_eq!(servers.find(&to(3, 80), at(6)), Some(server(300)));
        let elsewhere = Tuple {
            local: Address::v4([10, 0, 0, 9]),
            ..to(3, 80)
        };
        assert_eq!(servers.find(&elsewhere, at(6)), None);
        assert!(Servers::new(0).learn(&to(1, 80), server(1), at(1)));
    }

    #[test]
    fn a_refusal_is_of_one_port_and_for_a_time() {
        let servers = Servers::new(2);
        let at = Instant::from_millis;
        assert!(!servers.note_refusal(&to(1, 80), at(100), at(0)));
        assert!(servers.is_refusing(&to(1, 80), at(99)));
        assert!(!servers.is_refusing(&to(1, 443), at(99)));
        assert!(!servers.is_refusing(&to(2, 80), at(99)));
        assert!(!servers.is_refusing(&to(1, 80), at(100)));
        assert!(!servers.is_refusing(&to(1, 80), at(99)), "it is forgotten");
    }
}
