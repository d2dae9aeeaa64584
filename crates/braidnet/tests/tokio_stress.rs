//! Two thousand connections at a time over a bad network: random sizes, half closes, futures that are dropped while they wait and streams that are, byte for byte.

use braidnet::device::impair::{Impairment, Impairments};
use braidnet::device::{Capabilities, memory};
use braidnet::net::Host;
use braidnet::tokio::{TcpListener, TcpStream};
use braidnet::{Duration, StackConfig};
use std::io::{self, ErrorKind};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::task::JoinSet;
use tokio::time::timeout;

const CONNECTIONS: u64 = 2000;
const SERVER: &str = "10.0.0.2:7";
const MOST_BYTES: u64 = 30_000;

/// What happens to packets on their way, each way.
const BAD: &str =
    "loss=1%,duplicate=0.5%,reorder=1%:1ms-5ms,corrupt=0.2%,delay=2ms,jitter=1ms,seed=7";

/// Numbers drawn by a seed (xorshift64*).
struct Random(u64);

impl Random {
    fn new(seed: u64) -> Random {
        Random(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 33) % bound
    }
}

/// What a client sends, and the server answers: each byte by its place and the connection.
fn byte(number: u64, place: u64) -> u8 {
    (place * 7 + place / 251 + number * 31) as u8
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_thousand_connections_over_a_bad_network() {
    let (here, there) = memory::wire(Capabilities::ip(1500), 4096);
    let bad: Impairments = BAD.parse().expect("a bad network");
    let impairment = Impairment::new(&bad, &bad);
    let start = |address: &str| {
        let mut config = StackConfig::new(address.parse().expect("an address"));
        // Their closing takes no minute.
        config.tcp.time_wait = Duration::from_millis(100);
        config
    };
    let server = Host::start(&start("10.0.0.2"), there).expect("a host");
    let client = Host::start(&start("10.0.0.1"), impairment.around(here)).expect("a host");
    let listener = TcpListener::bind(&server, SERVER).await.expect("free");
    listener.get_ref().set_backlog(4096).expect("a listener");
    let echoes = tokio::spawn(async move {
        let mut all = JoinSet::new();
        loop {
            let (stream, _) = listener.accept().await.expect("room");
            all.spawn(echo(stream));
            // Those that are over.
            while all.try_join_next().is_some() {}
        }
    });

    let mut calls = JoinSet::new();
    for number in 0..CONNECTIONS {
        calls.spawn(call(client.clone(), number));
    }
    let (mut broken_off, mut dropped) = (0, 0);
    while let Some(outcome) = calls.join_next().await {
        let outcome = outcome.expect("no panic").expect("it goes well");
        broken_off += u64::from(!outcome.is_whole);
        dropped += outcome.dropped;
    }
    echoes.abort();
    let (out, back) = (impairment.outgoing(), impairment.incoming());
    assert!(broken_off > CONNECTIONS / 20, "{broken_off}");
    assert!(dropped > CONNECTIONS, "{dropped} futures were dropped");
    assert!(out.lost > 100 && back.lost > 100, "{out:?} {back:?}");
}

struct Outcome {
    /// All was sent, and all came back.
    is_whole: bool,
    /// Futures that were dropped while they waited.
    dropped: u64,
}

/// Sends so many bytes, ends that, and reads them back; or breaks off in between.
async fn call(host: Host, number: u64) -> io::Result<Outcome> {
    let mut random = Random::new(number + 1);
    let bytes = random.below(MOST_BYTES);
    let breaks_off = (random.below(10) == 0).then(|| random.below(bytes + 1));
    let mut stream = TcpStream::connect(&host, SERVER).await?;
    let (mut sent, mut heard, mut dropped) = (0, 0, 0);
    let mut has_ended = false;
    let mut room = vec![0; 4096];
    loop {
        if breaks_off.is_some_and(|place| heard >= place) {
            return Ok(Outcome {
                is_whole: false,
                dropped,
            });
        }
        if sent < bytes && random.below(2) == 0 {
            let most = 1 + random.below(5000);
            let piece: Vec<u8> = (sent..bytes.min(sent + most))
                .map(|place| byte(number, place))
                .collect();
            match timeout(patience(&mut random), stream.write(&piece)).await {
                Ok(written) => sent += written? as u64,
                Err(_) => dropped += 1,
            }
            continue;
        }
        if sent == bytes && !has_ended {
            stream.shutdown().await?;
            has_ended = true;
        }
        let most = 1 + random.below(4096) as usize;
        match timeout(patience(&mut random), stream.read(&mut room[..most])).await {
            Ok(read) => {
                let read = read?;
                if read == 0 {
                    break;
                }
                for (place, own) in (heard..).zip(&room[..read]) {
                    assert_eq!(*own, byte(number, place), "{number} at {place}");
                }
                heard += read as u64;
            }
            Err(_) => dropped += 1,
        }
    }
    assert_eq!((sent, heard), (bytes, bytes), "{number}");
    Ok(Outcome {
        is_whole: true,
        dropped,
    })
}

/// How long a future may wait before it is dropped.
fn patience(random: &mut Random) -> Duration {
    Duration::from_millis(1 + random.below(100))
}

/// Sends back what comes, until the end of it; whoever breaks off is no error.
async fn echo(stream: TcpStream) {
    let (mut reads, mut writes) = stream.into_split();
    if let Err(error) = tokio::io::copy(&mut reads, &mut writes).await {
        let kind = error.kind();
        let is_gone = matches!(
            kind,
            ErrorKind::ConnectionReset | ErrorKind::BrokenPipe | ErrorKind::NotConnected
        );
        assert!(is_gone, "{error}");
    }
}
