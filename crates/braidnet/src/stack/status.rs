//! How things stand with a stack's connections (RFC 9293 §3.10.6, STATUS).

use super::{Connection, PROTOCOL_TCP, Stack};
use crate::endpoint::Phase;
use braidnet_inet::tcp;
use braidnet_stream::BucketId;
use braidnet_tcp::TcpInfo;
use braidnet_wire::address::Tuple;

impl Stack {
    /// What TCP knows of a connection; `None` once it is gone.
    ///
    /// ```
    /// use braidnet::device::{memory, Capabilities};
    /// use braidnet::tcp::State;
    /// use braidnet::{Instant, Stack, StackConfig};
    ///
    /// let (here, _there) = memory::wire(Capabilities::ip(1500), 64);
    /// let mut stack = Stack::new(&StackConfig::new("10.0.0.1".parse()?), here)?;
    /// let call = stack.connect("10.0.0.2:7".parse()?)?;
    /// stack.turn(Instant::ZERO);
    /// let info = stack.info(call).ok_or("it is being opened")?;
    /// assert_eq!((info.state, info.is_active), (State::SynSent, true));
    /// assert_eq!(info.flight_size(), 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn info(&mut self, connection: Connection) -> Option<TcpInfo> {
        let endpoint = self.endpoints.get(connection)?;
        if let Phase::Gone(_) = endpoint.state {
            return None;
        }
        let tuple = endpoint.tuple;
        self.status(&tuple)
    }

    /// The variables of the connection between these two ends, seen from here; `None` if there is none. Connections that the
    /// application does not know of, or has forgotten, are found too: half-open ones, those that still close, those in TIME-WAIT.
    ///
    /// ```
    /// use braidnet::device::{memory, Capabilities};
    /// use braidnet::tcp::State;
    /// use braidnet::{Instant, Stack, StackConfig};
    ///
    /// let (here, _there) = memory::wire(Capabilities::ip(1500), 64);
    /// let mut stack = Stack::new(&StackConfig::new("10.0.0.1".parse()?), here)?;
    /// let call = stack.connect("10.0.0.2:7".parse()?)?;
    /// stack.turn(Instant::ZERO);
    /// let tuple = stack.tuple(call).ok_or("it is known")?;
    /// assert_eq!(stack.status(&tuple).map(|status| status.state), Some(State::SynSent));
    /// assert_eq!(stack.status(&tuple.reversed()), None);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn status(&mut self, tuple: &Tuple) -> Option<TcpInfo> {
        let (bucket, hash) = self.wiring.flows.bucket_of(tuple, PROTOCOL_TCP);
        let bucket = self.cluster.buckets().private_bucket(bucket)?;
        tcp::status(bucket.state(self.tcp), hash, tuple)
    }

    /// Whether some connection is such.
    pub(crate) fn any(&mut self, mut is_such: impl FnMut(&TcpInfo) -> bool) -> bool {
        let buckets = self.cluster.buckets();
        (0..buckets.count()).any(|id| {
            let bucket = buckets.private_bucket(BucketId(id as u16));
            bucket.is_some_and(|bucket| tcp::any(bucket.state(self.tcp), &mut is_such))
        })
    }

    /// The same of every connection, in no particular order.
    pub fn statuses(&mut self) -> Vec<(Tuple, TcpInfo)> {
        let mut all = Vec::new();
        let buckets = self.cluster.buckets();
        let ids = (0..buckets.count()).map(|id| BucketId(id as u16));
        for id in ids {
            if let Some(bucket) = buckets.private_bucket(id) {
                tcp::statuses(bucket.state(self.tcp), &mut all);
            }
        }
        all
    }
}
