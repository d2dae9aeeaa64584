use super::*;
use core::fmt;
use core::str::FromStr;

#[test]
fn what_cannot_be_measured_is_refused_with_a_sentence() {
    let good = TtcpConfig::default;
    let rows = [
        (
            TtcpConfig {
                processors: 0,
                ..good()
            },
            "processors cannot be 0: from 1 to 256",
        ),
        (
            TtcpConfig {
                connections: 10_001,
                ..good()
            },
            "connections cannot be 10001: from 1 to 10000",
        ),
        (
            TtcpConfig { size: 0, ..good() },
            "the size of a message cannot be 0: from 1 to 16777216",
        ),
        (
            TtcpConfig {
                mtu: 65_536,
                ..good()
            },
            "the MTU cannot be 65536: from 128 to 65535",
        ),
        (
            TtcpConfig { batch: 0, ..good() },
            "the batch cannot be 0: from 1 to 1024",
        ),
        (
            TtcpConfig {
                window_bytes: 1,
                ..good()
            },
            "the window cannot be 1: from 2048 to 1073725440",
        ),
        (
            TtcpConfig {
                work: Duration::from_millis(11),
                ..good()
            },
            "the work of a message cannot be 11ms: at most 10 ms",
        ),
        (
            TtcpConfig {
                work: Duration::from_micros(2),
                direction: Direction::Send,
                ..good()
            },
            "work is done on messages that a stack receives: it needs direction receive or both, and mode bulk",
        ),
        (
            TtcpConfig {
                skew: Some("0.8".parse().unwrap()),
                ..good()
            },
            "one connection has all messages: a skewed mix needs at least two",
        ),
        (
            TtcpConfig {
                skew: Some("0.8".parse().unwrap()),
                connections: 2,
                direction: Direction::Both,
                ..good()
            },
            "a skewed mix is kept by the simulated sender: it needs direction receive, and mode bulk",
        ),
        (
            TtcpConfig {
                impair: Some(Default::default()),
                ..TtcpConfig::default()
            },
            "a wire is impaired between two whole stacks that make it good: it needs transport tcp, and direction both or mode echo",
        ),
        (
            TtcpConfig {
                impair: Some(Default::default()),
                mode: Mode::Echo,
                transport: Transport::Udp,
                size: 8,
                ..TtcpConfig::default()
            },
            "a wire is impaired between two whole stacks that make it good: it needs transport tcp, and direction both or mode echo",
        ),
        (
            TtcpConfig {
                messages: 0,
                ..good()
            },
            "at least one message must be measured",
        ),
        (
            TtcpConfig {
                messages: u64::MAX,
                ..good()
            },
            "the number of messages cannot be 18446744073709551615: from 1 to 1000000000000",
        ),
        (
            TtcpConfig {
                warmup: u64::MAX,
                ..good()
            },
            "the number of messages before cannot be 18446744073709551615: from 0 to 1000000000000",
        ),
        (
            TtcpConfig {
                transport: Transport::Udp,
                size: 4325,
                ..good()
            },
            "a UDP message of 4325 bytes does not fit into a packet of 4352: 4324 at most, for nothing is fragmented",
        ),
        (
            TtcpConfig {
                presentation: Presentation::Xdr,
                size: 4097,
                ..good()
            },
            "an XDR message must be a multiple of four bytes and at least 8, not 4097",
        ),
        (
            TtcpConfig {
                presentation: Presentation::Xdr,
                window_bytes: 8199,
                ..good()
            },
            "XDR messages of 4096 bytes need a window of at least 8200 bytes, not 8199: a record stays in the window until it is whole",
        ),
        (
            TtcpConfig {
                presentation: Presentation::Xdr,
                mode: Mode::Echo,
                ..good()
            },
            "round trips (mode echo) carry bytes as they are: there is no XDR in them",
        ),
        (
            TtcpConfig {
                mode: Mode::Echo,
                size: 1 << 21,
                ..good()
            },
            "a round trip's message of 2097152 bytes must fit into half of the window of 1048576",
        ),
        (
            TtcpConfig {
                tcp_locks: TcpLocks::Two,
                ..good()
            },
            "TCP locks `2` divide a connection's lock, and under connection there is none: choose message",
        ),
        (
            TtcpConfig {
                architecture: Architecture::Message,
                transport: Transport::Udp,
                size: 4324,
                tcp_locks: TcpLocks::Six,
                ..good()
            },
            "TCP locks divide a connection's lock, and UDP has no connections",
        ),
        (
            TtcpConfig {
                architecture: Architecture::Message,
                span: Span::QueuePair,
                order: Order::Numbered,
                ..good()
            },
            "runs are numbered for a connection's perimeter, and each module has its own: choose order none, or a perimeter for a connection or stream",
        ),
        (
            TtcpConfig {
                order_above: OrderAbove::Numbered,
                transport: Transport::Udp,
                ..good()
            },
            "order above TCP is kept, or declined, where a stack receives streams: it needs transport tcp, direction receive or both, and mode bulk",
        ),
        (
            TtcpConfig {
                architecture: Architecture::Braid,
                processors: 66,
                ..good()
            },
            "braid shares work among 65 processors at most, not 66: choose fewer, or connection",
        ),
        (
            TtcpConfig {
                perimeter: Perimeter::Delegated,
                ..good()
            },
            "delegated perimeters can be chosen where any processor may have a connection's messages, and under connection that is not so: choose message",
        ),
        (
            TtcpConfig {
                architecture: Architecture::Braid,
                order: Order::Numbered,
                ..good()
            },
            "an order of arrival can be chosen where any processor may have a connection's messages, and under braid that is not so: choose message",
        ),
        (
            TtcpConfig {
                lock: LockKind::Ticket,
                ..good()
            },
            "lock ticket has nothing to lock under connection as the rest is set: choose message, counts locked or caches off",
        ),
        (
            TtcpConfig {
                architecture: Architecture::Message,
                span: Span::QueuePair,
                order_above: OrderAbove::Declined,
                ..good()
            },
            "order above TCP is lost where the perimeter of a connection is left, and each module has its own: choose a perimeter for a connection or stream",
        ),
        (
            TtcpConfig {
                agents: Agents::Tasks,
                state: Place::Apart,
                ..good()
            },
            "state apart lies beside the thread that turns its processor, and tasks are turned by whichever is next: it needs agents threads",
        ),
        (
            TtcpConfig {
                architecture: Architecture::Message,
                perimeter: Perimeter::Delegated,
                lock: LockKind::Mcs,
                ..good()
            },
            "lock mcs has nothing to lock under message as the rest is set: choose perimeter locked, counts locked or caches off",
        ),
        (
            TtcpConfig {
                span: Span::Stream,
                ..good()
            },
            "a perimeter spans a stream where processors share it, and under connection they do not: choose message",
        ),
        (
            TtcpConfig {
                architecture: Architecture::Message,
                processors: 3,
                device_queues: 2,
                order: Order::Waiting,
                ..good()
            },
            "processors that share 2 queues and wait for each other's numbers could wait for ever: choose one queue, or one for each, or order numbered",
        ),
        (
            TtcpConfig {
                device_queues: 2,
                ..good()
            },
            "2 device queues for 1 processors that take from the device: from 1 to 1",
        ),
        (
            TtcpConfig {
                threads: Some(1),
                ..good()
            },
            "threads carry tasks: a number of them needs agents tasks",
        ),
        (
            TtcpConfig {
                agents: Agents::Tasks,
                threads: Some(0),
                ..good()
            },
            "the threads that carry tasks cannot be 0: from 1 to 256",
        ),
        (
            TtcpConfig {
                architecture: Architecture::Message,
                thread_per_connection: true,
                ..good()
            },
            "under message no agent has a connection of its own: that needs architecture connection",
        ),
        (
            TtcpConfig {
                connections: 256,
                thread_per_connection: true,
                ..good()
            },
            "256 connections cannot have an agent each: 255 at most, one for each bucket",
        ),
        (
            TtcpConfig {
                architecture: Architecture::Task,
                processors: 3,
                device_queues: 2,
                ..good()
            },
            "2 device queues for 1 processors that take from the device: from 1 to 1",
        ),
    ];
    for (config, sentence) in rows {
        assert_eq!(
            config.validate().map_err(|error| error.to_string()),
            Err(sentence.to_owned())
        );
    }
    let udp = TtcpConfig {
        transport: Transport::Udp,
        size: 4324,
        ..good()
    };
    let queues = TtcpConfig {
        processors: 4,
        device_queues: 4,
        ..good()
    };
    let task = TtcpConfig {
        architecture: Architecture::Task,
        processors: 5,
        device_queues: 2,
        ..good()
    };
    let agents = TtcpConfig {
        connections: 20,
        device_queues: 20,
        thread_per_connection: true,
        agents: Agents::Tasks,
        threads: Some(3),
        ..good()
    };
    let store = TtcpConfig {
        lock: LockKind::Mcs,
        caches: false,
        ..good()
    };
    for config in [good(), udp, queues, task, agents, store] {
        assert_eq!(config.validate(), Ok(()));
    }
}

#[test]
fn words_are_read_as_they_are_written() {
    fn law<T: Copy + FromStr + fmt::Display + PartialEq + fmt::Debug>(all: &[T]) {
        for word in all {
            assert_eq!(word.to_string().parse::<T>().ok(), Some(*word));
        }
        assert!("sideways".parse::<T>().is_err());
    }
    law(Transport::ALL);
    law(Presentation::ALL);
    law(Direction::ALL);
    law(Mode::ALL);
    law(Agents::ALL);
    law(Wait::ALL);
    law(Span::ALL);
    law(Place::ALL);
    let error = "up".parse::<Direction>().map_err(|error| error.to_string());
    assert_eq!(
        error,
        Err("no direction is called `up`: choose receive, send or both".to_owned())
    );
}
