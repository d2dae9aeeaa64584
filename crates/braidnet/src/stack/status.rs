//! How things stand with a stack's connections (RFC 9293 §3.10.6, STATUS).

use super::{PROTOCOL_TCP, Stack};
use braidnet_inet::tcp;
use braidnet_stream::BucketId;
use braidnet_tcp::Status;
use braidnet_wire::address::Tuple;

impl Stack {
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
    pub fn status(&mut self, tuple: &Tuple) -> Option<Status> {
        let (bucket, hash) = self.wiring.flows.bucket_of(tuple, PROTOCOL_TCP);
        let bucket = self.cluster.buckets().private_bucket(bucket)?;
        tcp::status(bucket.state(self.tcp), hash, tuple)
    }

    /// The same of every connection, in no particular order.
    pub fn statuses(&mut self) -> Vec<(Tuple, Status)> {
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
