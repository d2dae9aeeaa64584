//! However segments come, joined or each by itself, the same comes of them.

use super::world::{ISS, World, joined};
use super::*;

/// Three stacks to which the same comes: to one in runs, to one as a device hands it up that joins segments itself, and to one with a runt between
/// any two packets, so that nothing joins there.
struct Alike {
    whole: World,
    by_device: World,
    apart: World,
}

impl Alike {
    fn new(with_timestamps: bool) -> Alike {
        let [whole, mut by_device, apart] = [(); 3].map(|()| World::new(with_timestamps));
        assert_eq!(whole.acks, apart.acks);
        assert_eq!(by_device.acks, apart.acks);
        by_device.joins = true;
        Alike {
            whole,
            by_device,
            apart,
        }
    }

    fn each(&mut self, mut change: impl FnMut(&mut World)) {
        change(&mut self.whole);
        change(&mut self.by_device);
        change(&mut self.apart);
    }

    /// A run arrives, and time passes.
    fn arrive(&mut self, packets: &[Vec<u8>]) {
        let runt = vec![0x45u8; 8];
        let separated: Vec<_> = packets
            .iter()
            .flat_map(|packet| [packet.clone(), runt.clone()])
            .collect();
        let runts = vec![runt; packets.len()];
        let run = [packets, &runts].concat();
        self.whole.arrive(&run);
        self.by_device.arrive(&run);
        self.apart.arrive(&separated);
        self.each(|world| world.wait(Duration::from_millis(50)));
    }

    /// What differs between them, if anything does.
    fn difference(&mut self) -> Option<String> {
        let shown = |world: &mut World| {
            [
                format!("{:?}", world.sent),
                format!("{:?}", world.told),
                format!("{:?}", world.delivered),
                format!("{:?}", world.counted()),
            ]
        };
        let apart = shown(&mut self.apart);
        let others = [
            ("whole", &mut self.whole),
            ("by device", &mut self.by_device),
        ];
        others.into_iter().find_map(|(name, world)| {
            let mut pairs = shown(world).into_iter().zip(&apart);
            let (other, apart) = pairs.find(|(other, apart)| other != *apart)?;
            Some(format!("{name}: {other}\napart: {apart}"))
        })
    }
}

/// Packets of the first connection, by where each begins in its stream, in bytes, and how many it has.
fn packets_at(alike: &Alike, places: &[(u32, usize)]) -> Vec<Vec<u8>> {
    let segment = |&(at, len): &(u32, usize)| alike.whole.segment(at, len).packet();
    places.iter().map(segment).collect()
}

const SIX: [(u32, usize); 6] = [
    (0, 1000),
    (1000, 1000),
    (2000, 1000),
    (3000, 1000),
    (4000, 1000),
    (5000, 1000),
];

/// Neither more is kept nor less refused, whether or not the first of them is old.
#[test]
fn what_there_is_no_memory_for_is_refused_alike() {
    for (scarcity, old, kept) in [
        (Scarcity::Dire, false, 0),
        (Scarcity::Dire, true, 1000),
        (Scarcity::Short, false, 1000),
        (Scarcity::Short, true, 2000),
    ] {
        let mut alike = Alike::new(false);
        if old {
            let first = packets_at(&alike, &SIX[..1]);
            alike.arrive(&first);
        }
        alike.each(|world| world.cluster.pool().set_scarcity(scarcity));
        let run = packets_at(&alike, &SIX);
        alike.arrive(&run);
        assert_eq!(alike.difference(), None, "{scarcity:?} {old}");
        let delivered: usize = alike.whole.delivered.values().map(Vec::len).sum();
        assert_eq!(delivered, kept, "{scarcity:?} {old}");
        // Of six, what was taken or old already is not refused.
        let refused = alike.whole.counted()["tcp.text_refused"];
        assert_eq!(refused, 6 - kept as u64 / 1000, "{scarcity:?} {old}");
    }
}

/// What a device has joined stays together: there may be no buffer for what taking it apart needs.
#[test]
fn what_a_device_has_joined_is_refused_or_taken_as_a_whole() {
    for (scarcity, delivered, refused) in
        [(Scarcity::Short, 6000, None), (Scarcity::Dire, 0, Some(6))]
    {
        let mut alike = Alike::new(false);
        let run = packets_at(&alike, &SIX);
        let world = &mut alike.by_device;
        let pool = world.cluster.pool();
        let packets = run
            .iter()
            .map(|packet| pool.copy_from_slice(64, packet).unwrap());
        let mut run = joined(packets.collect(), world.cluster.pool());
        assert_eq!(run.len(), 1);
        world.cluster.pool().set_scarcity(scarcity);
        world
            .cluster
            .put(world.layout.bottom, Direction::Up, &mut run);
        world.turn();
        let bytes: usize = world.delivered.values().map(Vec::len).sum();
        assert_eq!(bytes, delivered, "{scarcity:?}");
        assert_eq!(world.counted().get("tcp.text_refused"), refused.as_ref());
    }
}

/// The new part of a segment of which a part is old would be kept as well.
#[test]
fn what_is_partly_new_is_refused_where_nothing_is_to_be_kept() {
    let mut world = World::new(false);
    world.arrive(&[world.segment(0, 1000).packet()]);
    world.cluster.pool().set_scarcity(Scarcity::Dire);
    world.arrive(&[world.segment(500, 1000).packet()]);
    let delivered: Vec<_> = world.delivered.values().map(Vec::len).collect();
    assert_eq!(delivered, [1000]);
    assert_eq!(world.counted()["tcp.text_refused"], 1);
}

/// SND.WL1 is the last segment's sequence number (RFC 9293 §3.10.7.4, fifth check): an older one's window says nothing after
/// it.
#[test]
fn the_window_is_that_of_the_last_segment() {
    let mut alike = Alike::new(false);
    let run = packets_at(&alike, &SIX[..3]);
    alike.arrive(&run);
    // Partly old, with another window.
    let mut packet = alike.whole.segment(1000, 2500).packet();
    packet[34..36].copy_from_slice(&100u16.to_be_bytes());
    seal(&mut packet);
    alike.arrive(&[packet]);
    alike.each(|world| world.send(0, 1000));
    assert_eq!(alike.difference(), None);
}

/// The peer's segments are no longer than the longest that has come, so two of them are acknowledged without delay.
#[test]
fn what_is_left_of_a_train_is_as_long_as_it_is() {
    let mut alike = Alike::new(true);
    let mut clock = 1;
    let mut places = [ISS + 1; 2];
    let usual = |offset, len| Step {
        offset,
        len,
        ..Step::default()
    };
    let runs = [
        vec![usual(-1000, 1000), usual(0, 777)],
        vec![usual(0, 75), usual(0, 513), usual(0, 777), usual(0, 512)],
    ];
    for steps in runs {
        let packets = packets_of(&steps, &alike.whole.acks, &mut places, &mut clock, true);
        alike.arrive(&packets);
        assert_eq!(alike.difference(), None);
    }
}

/// One segment of a generated run.
#[derive(Clone, Debug, Default)]
struct Step {
    other_flow: bool,
    /// Where it begins, from where the flow's last one ended.
    offset: i32,
    len: usize,
    flags: u8,
    /// How the time of its timestamps differs.
    later: u32,
    ack_offset: u32,
    window_high: u8,
    type_of_service: u8,
    damage: Option<(usize, u8)>,
}

fn scarcity() -> impl Strategy<Value = Scarcity> {
    prop_oneof![8 => Just(Scarcity::Ample), 1 => Just(Scarcity::Short), 1 => Just(Scarcity::Dire)]
}

fn step() -> impl Strategy<Value = Step> {
    let offset = prop_oneof![
        12 => Just(0), 1 => Just(1000), 1 => -2500..2500i32, 1 => Just(-1000), 1 => Just(-2000)
    ];
    let len = prop_oneof![
        8 => Just(1000usize), 2 => Just(777), 2 => 0..1400usize, 1 => Just(512), 1 => Just(513), 1 => Just(1)
    ];
    let flags = prop_oneof![
        16 => Just(ACK), 4 => Just(ACK | PSH), 1 => Just(ACK | URG), 1 => Just(ACK | 0x40),
        1 => prop_oneof![9 => Just(ACK), 2 => Just(ACK | FIN), 1 => Just(RST), 1 => Just(SYN | ACK), 1 => Just(0)],
    ];
    let rare = |value: u8| prop_oneof![20 => Just(0u8), 1 => Just(value)];
    let damage = prop_oneof![
        20 => Just(None), 1 => (0..1040usize, 1..=255u8).prop_map(Some)
    ];
    let numbers = (
        prop_oneof![12 => Just(0u32), 1 => 0..3u32],
        prop_oneof![12 => Just(0u32), 3 => 0..4000u32, 1 => 4000..9000u32],
        rare(3),
        rare(3),
    );
    (
        prop_oneof![6 => Just(false), 1 => Just(true)],
        offset,
        len,
        flags,
        numbers,
        damage,
    )
        .prop_map(
            |(
                other_flow,
                offset,
                len,
                flags,
                (later, ack_offset, window_high, type_of_service),
                damage,
            )| Step {
                other_flow,
                offset,
                len,
                flags,
                later,
                ack_offset,
                window_high,
                type_of_service,
                damage,
            },
        )
}

/// The packets of some steps; `places` and `clock` are where each flow stands and the peer's time.
fn packets_of(
    steps: &[Step],
    acks: &[u32],
    places: &mut [u32; 2],
    clock: &mut u32,
    with_timestamps: bool,
) -> Vec<Vec<u8>> {
    let mut packets = Vec::new();
    for step in steps {
        let flow = usize::from(step.other_flow);
        *clock += step.later;
        let seq = places[flow].wrapping_add_signed(step.offset);
        if step.offset >= -100 {
            places[flow] = seq.wrapping_add(step.len as u32);
        }
        let options = if with_timestamps {
            timestamps(*clock, 0)
        } else {
            Vec::new()
        };
        let segment = Segment {
            port: 4000 + flow as u16,
            ack: acks[flow].wrapping_add(step.ack_offset),
            flags: step.flags,
            options,
            ..Segment::new(seq, step.len)
        };
        let mut packet = segment.packet();
        packet[1] = step.type_of_service;
        packet[34] ^= step.window_high;
        seal(&mut packet);
        if let Some((at, bits)) = step.damage {
            let at = at % packet.len();
            packet[at] ^= bits;
        }
        packets.push(packet);
    }
    packets
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, ..ProptestConfig::default() })]

    /// Alike stacks say and deliver the same, to the byte, and count the same, while they have something to send and their memory
    /// comes and goes.
    #[test]
    fn trains_change_nothing(
        runs in proptest::collection::vec((scarcity(), proptest::collection::vec(step(), 1..24)), 1..5),
        to_send in prop_oneof![Just(0usize), 1..8000usize],
        with_timestamps: bool,
    ) {
        let mut alike = Alike::new(with_timestamps);
        alike.each(|world| world.send(0, to_send));
        let (mut places, mut clock) = ([ISS + 1; 2], 1);
        for (scarcity, steps) in runs {
            let packets = packets_of(&steps, &alike.whole.acks, &mut places, &mut clock, with_timestamps);
            alike.each(|world| world.cluster.pool().set_scarcity(scarcity));
            alike.arrive(&packets);
            let difference = alike.difference();
            prop_assert!(difference.is_none(), "{}", difference.unwrap_or_default());
        }
        let Alike { whole, apart, .. } = alike;
        prop_assert!(whole.messages <= apart.messages);
        for stream in whole.delivered.values() {
            prop_assert!(stream.iter().enumerate().all(|(at, byte)| *byte == text(ISS + 1, at)));
        }
    }
}
