//! What is known of servers (RFC 7413 §4.1.3): the cookies that they have given, and which of them took no data.

use super::FastOpening;
use crate::oldest::forget_beyond;
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
    /// None yet.
    pub(in super::super) fn new() -> Servers {
        Servers {
            cookies: Lock::new(LockKind::Adaptive, LockClass::Map, Recent::new()),
            refusals: Lock::new(LockKind::Adaptive, LockClass::Map, Recent::new()),
        }
    }

    /// What is known of the server of a connection.
    pub(super) fn find(&self, tuple: &Tuple, now: Instant) -> Option<KnownServer> {
        self.cookies
            .with(|cookies| cookies.find(&(tuple.local, tuple.remote), now))
    }

    /// Remembers within these limits what a server has given, in place of what it gave before; how many had to be forgotten for it.
    pub(super) fn learn(
        &self,
        limits: &FastOpening,
        tuple: &Tuple,
        server: KnownServer,
        now: Instant,
    ) -> u64 {
        let key = (tuple.local, tuple.remote);
        self.cookies
            .with(|cookies| cookies.insert(limits.servers, key, server, now))
    }

    /// Remembers within these limits that a server took no data; how many others had to be forgotten for it.
    pub(super) fn note_refusal(&self, limits: &FastOpening, tuple: &Tuple, now: Instant) -> u64 {
        let key = (tuple.local, tuple.remote, tuple.remote_port);
        let until = now + limits.pause;
        self.refusals
            .with(|refusals| refusals.insert(limits.servers, key, until, now))
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

/// Entries; of one more than may be, the one that was last asked for longest ago gives way.
struct Recent<K, V> {
    entries: HashMap<K, (V, Instant)>,
}

impl<K: Hash + Eq + Copy, V: Copy> Recent<K, V> {
    fn new() -> Recent<K, V> {
        Recent {
            entries: HashMap::new(),
        }
    }

    fn find(&mut self, key: &K, now: Instant) -> Option<V> {
        let (value, asked) = self.entries.get_mut(key)?;
        *asked = now;
        Some(*value)
    }

    /// Takes an entry in, in place of one with this key; how many were forgotten for it, itself if there may be none.
    fn insert(&mut self, most: usize, key: K, value: V, now: Instant) -> u64 {
        self.entries.remove(&key);
        let Some(others) = most.checked_sub(1) else {
            return 1 + forget_beyond(&mut self.entries, 0, |(_, asked)| *asked);
        };
        let forgotten = forget_beyond(&mut self.entries, others, |(_, asked)| *asked);
        self.entries.insert(key, (value, now));
        forgotten
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use braidnet_wire::tcp::FastOpenCookie;
    use braidnet_wire::time::Duration;

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

    fn limits(servers: usize) -> FastOpening {
        FastOpening {
            servers,
            pause: Duration::from_millis(100),
            ..FastOpening::default()
        }
    }

    #[test]
    fn the_server_that_was_asked_for_longest_ago_gives_way() {
        let servers = Servers::new();
        let at = Instant::from_millis;
        let learn = |most, (host, port), mss, now| {
            servers.learn(&limits(most), &to(host, port), server(mss), at(now))
        };
        assert_eq!(learn(2, (1, 80), 100, 1), 0);
        assert_eq!(learn(2, (2, 80), 200, 2), 0);
        // Its ports share a cookie, and the last counts.
        assert_eq!(learn(2, (1, 443), 101, 3), 0);
        assert_eq!(servers.find(&to(1, 80), at(4)), Some(server(101)));
        assert_eq!(learn(2, (3, 80), 300, 5), 1);
        assert_eq!(servers.find(&to(2, 80), at(6)), None);
        assert_eq!(servers.find(&to(1, 80), at(6)), Some(server(101)));
        assert_eq!(servers.find(&to(3, 80), at(7)), Some(server(300)));
        let elsewhere = Tuple {
            local: Address::v4([10, 0, 0, 9]),
            ..to(3, 80)
        };
        assert_eq!(servers.find(&elsewhere, at(7)), None);
        // A limit that has come down counts with the next that is learned.
        assert_eq!(learn(4, (4, 80), 400, 8), 0);
        assert_eq!(learn(2, (5, 80), 500, 9), 2);
        let known = [1, 3, 4, 5].map(|host| servers.find(&to(host, 80), at(10)));
        assert_eq!(known, [None, None, Some(server(400)), Some(server(500))]);
        assert_eq!(learn(0, (6, 80), 600, 11), 3);
        let known = [4, 5, 6].map(|host| servers.find(&to(host, 80), at(12)));
        assert_eq!(known, [None; 3]);
    }

    #[test]
    fn a_refusal_is_of_one_port_and_for_a_time() {
        let servers = Servers::new();
        let at = Instant::from_millis;
        assert_eq!(servers.note_refusal(&limits(2), &to(1, 80), at(0)), 0);
        assert!(servers.is_refusing(&to(1, 80), at(99)));
        assert!(!servers.is_refusing(&to(1, 443), at(99)));
        assert!(!servers.is_refusing(&to(2, 80), at(99)));
        assert!(!servers.is_refusing(&to(1, 80), at(100)));
        assert!(!servers.is_refusing(&to(1, 80), at(99)), "it is forgotten");
    }
}
