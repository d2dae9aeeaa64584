//! What services have to say, sent by applications: outside of every perimeter.

use braidnet_message::Message;
use braidnet_process::{Application, Architecture, top_processor_of};
use braidnet_stream::{BucketId, Cluster, Direction, ModuleId, Next};
use braidnet_wire::time::Instant;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

/// What waits to be sent, by processor: each one's application sends for the same buckets all the time, in order.
#[derive(Clone)]
pub struct Outside {
    architecture: Architecture,
    waiting: Arc<Mutex<Vec<VecDeque<Message>>>>,
}

impl Outside {
    /// Applications on so many processors, each of which sends for the buckets whose services are turned there.
    pub fn new(architecture: Architecture, processors: usize) -> Outside {
        let waiting = (0..processors).map(|_| VecDeque::new()).collect();
        Outside {
            architecture,
            waiting: Arc::new(Mutex::new(waiting)),
        }
    }

    /// Leaves a message to the application that sends for `bucket`.
    pub fn leave(&self, bucket: BucketId, mut message: Message) {
        message.set_bucket(bucket.0);
        let mut waiting = self.waiting.lock().expect("no test thread panicked");
        let processors = waiting.len();
        let processor = top_processor_of(self.architecture, bucket, processors);
        // Where any processor may, it is always the same one.
        let processor = processor.unwrap_or(usize::from(bucket.0) % processors);
        waiting[processor].push_back(message);
    }

    /// Whether anything waits.
    pub fn has_any(&self) -> bool {
        let waiting = self.waiting.lock().expect("no test thread panicked");
        waiting.iter().any(|waiting| !waiting.is_empty())
    }

    /// The application on this processor, which sends what it is left for `services`.
    pub fn sender(&self, processor: usize, services: ModuleId) -> Sender {
        Sender {
            outside: self.clone(),
            processor,
            services,
        }
    }
}

/// An application that sends.
pub struct Sender {
    outside: Outside,
    processor: usize,
    services: ModuleId,
}

impl Application for Sender {
    fn turn(&mut self, cluster: &mut Cluster, _: Instant) -> Next {
        let waiting = self.outside.waiting.lock();
        let mut waiting = waiting.expect("no test thread panicked");
        for message in waiting[self.processor].drain(..) {
            cluster.put_one(self.services, Direction::Down, message);
        }
        Next::Idle
    }
}
