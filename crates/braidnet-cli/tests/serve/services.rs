//! Real clients of every service, under every architecture.

use crate::namespace::Namespace;
use crate::server::{HOST, PATIENCE, STACK, Server, connect};
use crate::{Scratch, echo};
use rustix::process::Signal;
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream, UdpSocket};
use std::sync::Barrier;
use std::time::{Duration, Instant};

#[test]
fn task_serves_kernel_clients() {
    serve_everybody("tun", "task");
}

#[test]
fn connection_serves_kernel_clients() {
    serve_everybody("tun", "connection");
}

#[test]
fn message_serves_kernel_clients() {
    serve_everybody("tun", "message");
}

#[test]
fn ethernet_clients_are_served() {
    serve_everybody("tap", "connection");
}

/// Bytes of the file that is fetched.
const FILE: usize = 64 << 20;
/// Connections that echo at the same time, and bytes of each.
const ECHOES: usize = 200;
const ECHO: usize = 1 << 20;
const UPLOAD: usize = 16 << 20;

fn serve_everybody(mode: &str, architecture: &str) {
    let test = format!("{mode}-{architecture}");
    let Some(namespace) = Namespace::new(&test) else {
        return;
    };
    let scratch = Scratch::new(&test);
    let file = noise(FILE, 1);
    scratch.file("big", &file);
    scratch.file("index.html", b"<p>index");
    let http = format!("80={}", scratch.0.display());
    let device = format!("--{mode}");
    let server = Server::start(
        &namespace,
        &[
            &device,
            "bn0",
            "--host",
            HOST,
            "--address",
            STACK,
            "--echo",
            "7",
            "--discard",
            "9",
            "--daytime",
            "13",
            "--chargen",
            "19",
            "--http",
            &http,
            "--architecture",
            architecture,
            "--processors",
            "2",
        ],
    );
    ping(&namespace);
    fetch(&namespace, &file);
    converse(&namespace);
    namespace.inside(|| {
        closed_port();
        datagrams();
        daytime();
        chargen();
        upload();
        http_by_hand();
        echo_at_once();
    });
    let ended = server.stop(Signal::TERM);
    assert_eq!(
        (ended.code, ended.errors.as_str()),
        (Some(0), ""),
        "{}",
        ended.report
    );
    assert!(!namespace.has_device("bn0"));
}

/// Bytes that repeat nowhere, from a seed (xorshift64*).
fn noise(len: usize, seed: u64) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut bytes = Vec::with_capacity(len + 8);
    while bytes.len() < len {
        state ^= state >> 12;
        state ^= state << 25;
        state ^= state >> 27;
        bytes.extend(state.wrapping_mul(0x2545_f491_4f6c_dd1d).to_le_bytes());
    }
    bytes.truncate(len);
    bytes
}

fn ping(namespace: &Namespace) {
    let output = namespace.output("ping", &["-c", "3", "-i", "0.2", "-w", "30", STACK]);
    assert!(output.status.success(), "{output:?}");
    let big = namespace.output(
        "ping",
        &["-c", "1", "-w", "30", "-s", "1472", "-M", "do", STACK],
    );
    assert!(big.status.success(), "{big:?}");
}

/// `curl`, silent but for errors.
fn curl(namespace: &Namespace, arguments: &[&str]) -> Vec<u8> {
    let all: Vec<&str> = ["-sS", "--max-time", "60"]
        .into_iter()
        .chain(arguments.iter().copied())
        .collect();
    let output = namespace.output("curl", &all);
    assert!(
        output.status.success(),
        "{arguments:?}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    output.stdout
}

fn fetch(namespace: &Namespace, file: &[u8]) {
    let url = format!("http://{STACK}/big");
    assert!(
        curl(namespace, &[&url]) == file,
        "the file arrives as it is"
    );
    assert!(curl(namespace, &["-r", "1000000-1999999", &url]) == file[1_000_000..2_000_000]);
    assert!(curl(namespace, &["-r", "-5", &url]) == file[FILE - 5..]);
    let head = String::from_utf8(curl(namespace, &["-I", &url])).expect("a head is text");
    for line in [
        "HTTP/1.1 200 OK",
        "Content-Length: 67108864",
        "Accept-Ranges: bytes",
        "Last-Modified: ",
    ] {
        assert!(head.contains(line), "{head}");
    }
}

/// Conditions, refusals, and several requests on one connection.
fn converse(namespace: &Namespace) {
    let root = format!("http://{STACK}/");
    let status = |arguments: &[&str]| {
        let all: Vec<&str> = ["-o", "/dev/null", "-w", "%{http_code} %{num_connects}\\n"]
            .into_iter()
            .chain(arguments.iter().copied())
            .collect();
        String::from_utf8(curl(namespace, &all)).expect("numbers")
    };
    assert_eq!(curl(namespace, &[&root]), b"<p>index");
    assert_eq!(
        status(&[&root, "-o", "/dev/null", &root]),
        "200 1\n200 0\n",
        "the connection is kept"
    );
    let absent = format!("{root}absent");
    let big = format!("{root}big");
    let rows: &[(&[&str], &str)] = &[
        (&[&absent], "404 1\n"),
        (
            &["--path-as-is", &format!("{root}../../etc/passwd")],
            "404 1\n",
        ),
        (&["-X", "DELETE", &root], "405 1\n"),
        (&["-r", "99999999-", &big], "416 1\n"),
        (
            &[
                "-H",
                "If-Modified-Since: Fri, 31 Dec 9999 23:59:59 GMT",
                &big,
            ],
            "304 1\n",
        ),
        (
            &[
                "-H",
                "Transfer-Encoding: chunked",
                "-X",
                "GET",
                "-d",
                "x",
                &big,
            ],
            "501 1\n",
        ),
    ];
    for (arguments, expected) in rows {
        assert_eq!(status(arguments), *expected, "{arguments:?}");
    }
}

/// Three requests sent at once, the last in pieces, are answered in order; then the peer's close is answered.
fn http_by_hand() {
    let mut stream = connect(80);
    stream
        .write_all(
            b"GET / HTTP/1.1\r\nHost: a\r\n\r\nHEAD /big HTTP/1.1\r\nHost: a\r\n\r\nGET /big HTTP/1.1\r\nHost: a\r\nRange: by",
        )
        .expect("the stack takes it");
    stream
        .write_all(b"tes=0-0\r\n\r\n")
        .expect("the stack takes it");
    stream.shutdown(Shutdown::Write).expect("it is open");
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).expect("it closes in order");
    let text = String::from_utf8_lossy(&answer);
    let statuses: Vec<&str> = text
        .matches("HTTP/1.1 200 OK")
        .chain(text.matches("HTTP/1.1 206"))
        .collect();
    assert_eq!(
        statuses,
        ["HTTP/1.1 200 OK", "HTTP/1.1 200 OK", "HTTP/1.1 206"],
        "{text}"
    );
    assert!(text.contains("Content-Range: bytes 0-0/67108864"), "{text}");

    let mut endless = connect(80);
    // The refusal may come, and with it a reset, before everything is written.
    let _ = endless.write_all(&[b'a'; 20_000]);
    let mut answer = [0; 12];
    endless
        .read_exact(&mut answer)
        .expect("it is refused, not dropped");
    assert_eq!(&answer, b"HTTP/1.1 431");
}

fn closed_port() {
    let begun = Instant::now();
    let refused = TcpStream::connect((STACK, 8)).map_err(|error| error.kind());
    assert_eq!(refused.err(), Some(ErrorKind::ConnectionRefused));
    // A lost SYN would be sent again after a second at the earliest.
    assert!(
        begun.elapsed() < Duration::from_secs(1),
        "{:?}",
        begun.elapsed()
    );
}

fn datagrams() {
    let socket = UdpSocket::bind("0.0.0.0:0").expect("a port is free");
    socket.set_read_timeout(Some(PATIENCE)).expect("not zero");
    let mut answer = [0; 2000];
    for len in [0, 1, 512, 1472] {
        let question = noise(len, 7);
        socket.send_to(&question, (STACK, 7)).expect("it fits");
        let (answered, from) = socket.recv_from(&mut answer).expect("it is answered");
        assert_eq!((&answer[..answered], from.port()), (&question[..], 7));
    }
    socket.connect((STACK, 8)).expect("any port");
    socket.send(b"x").expect("it fits");
    let refused = socket.recv(&mut answer).map_err(|error| error.kind());
    assert_eq!(
        refused,
        Err(ErrorKind::ConnectionRefused),
        "a closed port is said to be unreachable"
    );
    socket.connect((STACK, 9)).expect("any port");
    socket.send(b"discarded").expect("it fits");
    socket.connect((STACK, 7)).expect("any port");
    socket.send(b"echoed").expect("it fits");
    let answered = socket.recv(&mut answer).expect("it is answered");
    assert_eq!(&answer[..answered], b"echoed", "and discard said nothing");
}

fn daytime() {
    let mut line = String::new();
    connect(13)
        .read_to_string(&mut line)
        .expect("it closes in order");
    assert!(line.ends_with(" GMT\r\n") && line.len() == 31, "{line:?}");
}

fn chargen() {
    let mut stream = connect(19);
    let mut text = vec![0; 1 << 20];
    stream.read_exact(&mut text).expect("it goes on for ever");
    for (number, line) in text.chunks_exact(74).enumerate() {
        let expected: Vec<u8> = (0..72)
            .map(|column| b' ' + ((number + column) % 95) as u8)
            .collect();
        assert_eq!(
            line.strip_suffix(b"\r\n"),
            Some(&expected[..]),
            "line {number}"
        );
    }
}

fn upload() {
    let mut stream = connect(9);
    stream.write_all(&noise(UPLOAD, 3)).expect("it is taken");
    stream.shutdown(Shutdown::Write).expect("it is open");
    assert_eq!(
        stream.read(&mut [0; 1]).expect("it closes in order"),
        0,
        "and says nothing"
    );
}

/// Many connections at once, each with bytes of its own.
fn echo_at_once() {
    let open = Barrier::new(ECHOES);
    std::thread::scope(|scope| {
        for number in 0..ECHOES {
            let open = &open;
            scope.spawn(move || {
                let mut stream = connect(7);
                open.wait();
                let bytes = noise(ECHO, number as u64 + 10);
                for piece in bytes.chunks(64 << 10) {
                    echo(&mut stream, piece);
                }
                stream.shutdown(Shutdown::Write).expect("it is open");
                assert_eq!(stream.read(&mut [0; 1]).expect("it closes in order"), 0);
            });
        }
    });
}
