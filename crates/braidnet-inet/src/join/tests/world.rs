//! A peer by hand, two connections of its to a stack without applications, and what comes of what it sends.

use super::*;

/// A whole stack up to TCP, and the peer's two connections to it.
pub(super) struct World {
    pub(super) cluster: Cluster,
    pub(super) layout: Layout,
    pub(super) stream: Arc<Stream>,
    pub(super) now: Instant,
    /// What has left at the tail, and of each connection at the head: data, and verbs.
    pub(super) sent: Vec<Vec<u8>>,
    pub(super) delivered: BTreeMap<u64, Vec<u8>>,
    pub(super) told: Vec<(u64, String)>,
    /// Messages with data that came to the head.
    pub(super) messages: usize,
    /// Our side's first sequence number plus one, by connection.
    pub(super) acks: Vec<u32>,
    /// The device joins what it hands up, as IP does where there is memory enough.
    pub(super) joins: bool,
}

/// What the peer's stream begins behind.
pub(super) const ISS: u32 = u32::MAX - 3000;

impl World {
    pub(super) fn new(with_timestamps: bool) -> World {
        // What a device says of checksums is heeded; most say nothing.
        let interface = testing::ip_interface().offloading(&[Offload::Segments]);
        let flows = Flows::new([1, 2], 16, &interface);
        let engine = braidnet_tcp::Config {
            timestamps: with_timestamps,
            receive_buffer_bytes: 20_000,
            ..braidnet_tcp::Config::default()
        };
        let config = TcpConfig {
            engine,
            mtu: MTU,
            connections_per_bucket: 16,
            listening: Default::default(),
            fast_opening: Default::default(),
            isn_secret: [3, 4],
        };
        let tcp = Tcp::new(config, flows).offloading(Offload::Segments);
        tcp.listeners().listen(None, PORT, 4).unwrap();
        let Inet { stream, layout, .. } = Inet::assemble(interface, flows, tcp);
        let stream = stream.build().unwrap();
        let buckets = Buckets::private(&stream, 16, |_| true, |_| true);
        let cluster = Cluster::new(&stream, ModuleSet::ALL, buckets, &Arena::new(64 << 20));
        let mut world = World {
            cluster,
            layout,
            stream,
            now: Instant::from_millis(1000),
            sent: Vec::new(),
            delivered: BTreeMap::new(),
            told: Vec::new(),
            messages: 0,
            acks: Vec::new(),
            joins: false,
        };
        for port in [4000, 4001] {
            let options = if with_timestamps {
                timestamps(1, 0)
            } else {
                Vec::new()
            };
            let syn = Segment {
                port,
                flags: SYN,
                options,
                ack: 0,
                ..Segment::new(ISS, 0)
            };
            world.arrive(&[syn.packet()]);
            let syn_ack = world.sent.pop().unwrap();
            let seq = u32_at(syn_ack.first_chunk().unwrap(), 24);
            world.acks.push(seq.wrapping_add(1));
            let options = if with_timestamps {
                timestamps(1, 0)
            } else {
                Vec::new()
            };
            let ack = seq.wrapping_add(1);
            world.arrive(&[Segment {
                port,
                ack,
                options,
                ..Segment::new(ISS + 1, 0)
            }
            .packet()]);
        }
        assert_eq!(world.told.len(), 2, "both are established");
        world
    }

    pub(super) fn arrive(&mut self, packets: &[Vec<u8>]) {
        let mut run = Run::new();
        for packet in packets {
            run.push(self.cluster.pool().copy_from_slice(64, packet).unwrap());
        }
        if self.joins && self.cluster.pool().scarcity() == Scarcity::Ample {
            run = joined(run, self.cluster.pool());
        }
        self.cluster
            .put(self.layout.bottom, Direction::Up, &mut run);
        self.turn();
    }

    pub(super) fn turn(&mut self) {
        let sent = &mut self.sent;
        self.cluster.turn(self.now, &mut |run: &mut Run| {
            sent.extend(run.drain().map(|message| bytes_of(&message)));
        });
        for message in self.cluster.head().drain() {
            let connection = message.connection();
            assert_eq!(message.segment_bytes(), 0, "a train ends at TCP");
            if message.kind() == Kind::Data {
                let bucket = ConnectionId(connection).bucket();
                assert_eq!(message.bucket(), bucket.0, "for modules above");
                let stream = self.delivered.entry(connection).or_default();
                assert_eq!(message.position(), stream.len() as u64);
                stream.extend(bytes_of(&message));
                self.messages += 1;
            } else {
                let control = Control::of(&message).unwrap();
                self.told.push((connection, format!("{control:?}")));
            }
        }
    }

    pub(super) fn wait(&mut self, time: Duration) {
        self.now += time;
        self.turn();
    }

    pub(super) fn counted(&mut self) -> BTreeMap<String, u64> {
        let mut counted = BTreeMap::new();
        self.cluster.counters().collect(&self.stream, &mut counted);
        counted
    }

    /// The application of the connection with this number among those that came has so much to send.
    pub(super) fn send(&mut self, number: usize, len: usize) {
        let (id, _) = self.told[number];
        let mut left = len;
        while left > 0 {
            let piece = left.min(1000);
            let pool = self.cluster.pool();
            let mut data = pool.copy_from_slice(128, &vec![7; piece]).unwrap();
            data.set_connection(id);
            data.set_bucket(ConnectionId(id).bucket().0);
            self.cluster.put_one(self.layout.tcp, Direction::Down, data);
            left -= piece;
        }
        self.turn();
    }

    /// The segment of the first connection that begins `at` bytes into its stream.
    pub(super) fn segment(&self, at: u32, len: usize) -> Segment {
        Segment {
            ack: self.acks[0],
            ..Segment::new(ISS.wrapping_add(1 + at), len)
        }
    }
}

/// A run as a device hands it up that joins segments: the header has the length of all, what is behind the first segment lies in one block, and the checksum is the
/// device's affair.
pub(super) fn joined(mut run: Run, pool: &mut Pool) -> Run {
    let interface = &testing::ip_interface();
    let framed = false;
    Joiner { interface, framed }.join(&mut run);
    let as_device = |mut message: Message| {
        let each = message.segment_bytes();
        if each == 0 {
            return message;
        }
        let rest = message.take_continuation().unwrap();
        let total_len = (message.len() + rest.total_len()) as u16;
        let front = message.bytes_mut().unwrap();
        front[2..4].copy_from_slice(&total_len.to_be_bytes());
        seal_ipv4(front);
        message.push_continuation(pool.copy_from_slice(0, &bytes_of(&rest)).unwrap());
        message.set_segment_bytes(each);
        message.set_checksum(Checksum::Partial);
        message
    };
    run.drain().map(as_device).collect()
}
