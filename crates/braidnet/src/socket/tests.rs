//! Verbs, errors and readiness over two stacks joined in memory. What goes over the wire is in the packet scripts.

mod datagrams;
mod ended;
mod fast_open;
mod low_water;
mod messages;
mod ports;
mod records;
mod waiting;

use super::*;
use braidnet_device::{Capabilities, memory};

const PORT: u16 = 7;

/// Two hosts and what time it is.
struct Pair {
    client: Sockets,
    server: Sockets,
    now: Instant,
}

fn config(address: &str) -> StackConfig {
    let mut config = StackConfig::new(address.parse().expect("an address"));
    config.buckets = 4;
    config.memory_bytes = 8 << 20;
    config.tcp.nagle = false;
    config
}

fn at(text: &str) -> SocketAddr {
    text.parse().expect("an address and port")
}

fn server_at() -> SocketAddr {
    SocketAddr::new("10.0.0.2".parse().expect("an address"), PORT)
}

impl Pair {
    fn new() -> Pair {
        let (here, there) = memory::wire(Capabilities::ip(1500), 256);
        Pair {
            client: Sockets::new(&config("10.0.0.1"), here).expect("a stack"),
            server: Sockets::new(&config("10.0.0.2"), there).expect("a stack"),
            now: Instant::from_millis(1),
        }
    }

    /// Turns both until nothing is left to do at this time.
    fn settle(&mut self) {
        for _ in 0..12 {
            self.client.turn(self.now);
            self.server.turn(self.now);
        }
    }

    /// So many milliseconds later, in steps of ten.
    fn pass(&mut self, millis: u64) {
        for _ in 0..millis.div_ceil(10) {
            self.now += Duration::from_millis(10);
            self.settle();
        }
    }

    fn listener(&mut self, backlog: u32) -> Socket {
        let listener = self.server.socket().expect("room");
        let option = SocketOption::ReuseAddress(true);
        self.server.set_option(listener, option).expect("known");
        self.server.bind(listener, server_at()).expect("free");
        self.server.listen(listener, backlog).expect("bound");
        listener
    }

    fn call(&mut self) -> Socket {
        let call = self.client.socket().expect("room");
        let begun = self.client.connect(call, server_at());
        assert_eq!(begun, Err(SocketError::InProgress));
        self.settle();
        call
    }

    /// A connection: the client's end and the server's.
    fn connected(&mut self) -> (Socket, Socket) {
        let listener = self.listener(4);
        let call = self.call();
        let (answer, _) = self.server.accept(listener).expect("somebody calls");
        assert_eq!(self.client.connect(call, server_at()), Ok(()));
        (call, answer)
    }
}

const NOTHING: Readiness = Readiness::empty();
const IN: Readiness = Readiness::READABLE;
const OUT: Readiness = Readiness::WRITABLE;
const ERR: Readiness = Readiness::ERROR;
const HUP: Readiness = Readiness::HANG_UP;
const RDHUP: Readiness = Readiness::READ_HANG_UP;

#[test]
fn opening_is_asked_for_once_and_told_once() {
    let mut pair = Pair::new();
    let listener = pair.listener(4);
    let call = pair.client.socket().unwrap();
    assert_eq!(pair.client.readiness(call), Ok(OUT | HUP), "as poll says");
    let told = |pair: &mut Pair| pair.client.connect(call, server_at());
    assert_eq!(told(&mut pair), Err(SocketError::InProgress));
    assert_eq!(told(&mut pair), Err(SocketError::Already));
    assert_eq!(pair.client.readiness(call), Ok(NOTHING));
    assert_eq!(
        pair.client.send(call, b"early"),
        Err(SocketError::WouldBlock)
    );
    assert_eq!(
        pair.client.recv(call, &mut [0]),
        Err(SocketError::WouldBlock)
    );
    assert_eq!(pair.server.readiness(listener), Ok(NOTHING));
    assert_eq!(pair.server.accept(listener), Err(SocketError::WouldBlock));
    pair.settle();
    assert_eq!(pair.client.changed(), Some(call));
    assert_eq!(pair.client.readiness(call), Ok(OUT));
    assert_eq!(told(&mut pair), Ok(()));
    assert_eq!(told(&mut pair), Err(SocketError::Connected));
    assert_eq!(pair.client.peer_address(call), Ok(server_at()));
    assert_eq!(pair.server.readiness(listener), Ok(IN));
    let (answer, from) = pair.server.accept(listener).unwrap();
    assert_eq!(Ok(from), pair.client.local_address(call));
    assert_eq!(Ok(from), pair.server.peer_address(answer));
    assert_eq!(pair.server.local_address(answer), Ok(server_at()));
    assert_eq!(pair.server.accept(listener), Err(SocketError::WouldBlock));
}

#[test]
fn a_refusal_is_told_once_by_whichever_verb_asks_first() {
    type Ask = fn(&mut Sockets, Socket) -> Option<SocketError>;
    let rows: [(Ask, Option<SocketError>); 4] = [
        (
            |sockets, call| sockets.connect(call, server_at()).err(),
            Some(SocketError::InProgress),
        ),
        (
            |sockets, call| sockets.send(call, b"x").err(),
            Some(SocketError::BrokenPipe),
        ),
        (|sockets, call| sockets.recv(call, &mut [0]).err(), None),
        (|sockets, call| sockets.take_error(call).unwrap(), None),
    ];
    for (row, (ask, again)) in rows.into_iter().enumerate() {
        let mut pair = Pair::new();
        let call = pair.call();
        let ready = ERR | IN | OUT | HUP | RDHUP;
        assert_eq!(pair.client.readiness(call), Ok(ready), "{row}");
        let first = ask(&mut pair.client, call);
        assert_eq!(first, Some(SocketError::Refused), "{row}");
        assert_eq!(ask(&mut pair.client, call), again, "{row}");
        assert!(!pair.client.readiness(call).unwrap().contains(ERR));
    }
}

#[test]
fn who_does_not_answer_times_out() {
    let mut pair = Pair::new();
    let call = pair.client.socket().unwrap();
    let _ = pair.client.connect(call, at("10.0.0.77:7"));
    pair.pass(300_000);
    assert_eq!(
        pair.client.take_error(call),
        Ok(Some(SocketError::TimedOut))
    );
}

#[test]
fn each_direction_ends_by_itself() {
    let mut pair = Pair::new();
    let (call, answer) = pair.connected();
    pair.client.send(call, b"last words").unwrap();
    assert_eq!(pair.client.shutdown(call, How::Write), Ok(()));
    assert_eq!(pair.client.shutdown(call, How::Write), Ok(()), "again");
    assert_eq!(
        pair.client.send(call, b"more"),
        Err(SocketError::BrokenPipe)
    );
    pair.settle();
    assert_eq!(pair.client.readiness(call), Ok(OUT), "an answer is EPIPE");
    assert_eq!(pair.server.readiness(answer), Ok(IN | OUT | RDHUP));
    assert_eq!(pair.server.readable_bytes(answer), Ok(10));
    let mut heard = [0; 32];
    assert_eq!(pair.server.recv(answer, &mut heard), Ok(10));
    assert_eq!(pair.server.recv(answer, &mut heard), Ok(0));
    assert_eq!(pair.server.send(answer, b"still here"), Ok(10));
    pair.settle();
    assert_eq!(pair.client.recv(call, &mut heard), Ok(10));
    assert_eq!(
        pair.client.recv(call, &mut heard),
        Err(SocketError::WouldBlock)
    );
    assert_eq!(pair.server.shutdown(answer, How::Write), Ok(()));
    pair.settle();
    assert_eq!(pair.client.readiness(call), Ok(IN | OUT | RDHUP | HUP));
    assert_eq!(pair.client.recv(call, &mut heard), Ok(0));
    assert_eq!(pair.client.take_error(call), Ok(None));
    assert_eq!(
        pair.client.shutdown(call, How::Both),
        Err(SocketError::NotConnected)
    );
}

#[test]
fn who_shuts_reading_reads_what_has_come_and_then_the_end() {
    let mut pair = Pair::new();
    let (call, answer) = pair.connected();
    pair.client.send(call, b"one").unwrap();
    pair.settle();
    pair.server.shutdown(answer, How::Read).unwrap();
    assert_eq!(pair.server.recv(answer, &mut [0; 8]), Ok(3));
    assert_eq!(pair.server.recv(answer, &mut [0; 8]), Ok(0));
    assert_eq!(pair.server.readiness(answer), Ok(IN | OUT | RDHUP));
    pair.client.send(call, b"two").unwrap();
    pair.settle();
    assert_eq!(pair.server.recv(answer, &mut [0; 8]), Ok(3), "as on Linux");
}

#[test]
fn a_reset_is_told_once_behind_what_came_before() {
    let mut pair = Pair::new();
    let (call, answer) = pair.connected();
    pair.server.send(answer, b"before").unwrap();
    pair.settle();
    let linger = SocketOption::Linger(Some(Duration::ZERO));
    pair.server.set_option(answer, linger).unwrap();
    pair.server.close(answer).unwrap();
    pair.settle();
    let ready = pair.client.readiness(call);
    assert_eq!(ready, Ok(ERR | IN | OUT | HUP | RDHUP));
    let mut heard = [0; 32];
    assert_eq!(pair.client.recv(call, &mut heard), Ok(6));
    assert_eq!(pair.client.recv(call, &mut heard), Err(SocketError::Reset));
    assert_eq!(pair.client.recv(call, &mut heard), Ok(0));
    assert_eq!(pair.client.send(call, b"x"), Err(SocketError::BrokenPipe));
    assert_eq!(
        pair.client.peer_address(call),
        Err(SocketError::NotConnected)
    );
}

#[test]
fn closing_over_unread_data_resets() {
    let mut pair = Pair::new();
    let (call, answer) = pair.connected();
    pair.client.send(call, b"unread").unwrap();
    pair.settle();
    pair.server.close(answer).unwrap();
    pair.settle();
    assert_eq!(pair.client.take_error(call), Ok(Some(SocketError::Reset)));
    assert_eq!(pair.server.readiness(answer), Err(SocketError::BadSocket));
}

#[test]
fn a_reset_behind_the_peers_end_breaks_the_pipe_only() {
    let mut pair = Pair::new();
    let (call, answer) = pair.connected();
    pair.server.close(answer).unwrap();
    pair.settle();
    assert_eq!(pair.client.send(call, b"too late"), Ok(8));
    pair.settle();
    assert_eq!(pair.client.recv(call, &mut [0]), Ok(0));
    assert_eq!(
        pair.client.take_error(call),
        Ok(Some(SocketError::BrokenPipe))
    );
}

#[test]
fn a_backlog_of_n_holds_n_and_one_and_the_dead_go_first() {
    let mut pair = Pair::new();
    let listener = pair.listener(1);
    let calls = [(); 3].map(|()| pair.call());
    let open = |pair: &mut Pair, call| pair.client.readiness(call) == Ok(OUT);
    let are_open = calls.map(|call| open(&mut pair, call));
    assert_eq!(are_open, [true, true, false]);
    // One that dies in the queue makes room in TCP; it is handed out all the same.
    let linger = SocketOption::Linger(Some(Duration::ZERO));
    pair.client.set_option(calls[0], linger).unwrap();
    pair.client.close(calls[0]).unwrap();
    pair.settle();
    let (dead, _) = pair.server.accept(listener).unwrap();
    assert_eq!(
        pair.server.recv(dead, &mut [0]),
        Err(SocketError::Reset),
        "as on Linux"
    );
    let linger = SocketOption::Linger(Some(Duration::ZERO));
    pair.client.set_option(calls[1], linger).unwrap();
    pair.client.close(calls[1]).unwrap();
    pair.pass(3_000);
    let more = pair.call();
    // The dead one and two that live would be three: it goes.
    assert!(open(&mut pair, calls[2]) && open(&mut pair, more));
    assert_eq!(pair.server.counters()["socket.dead_unaccepted"], 1);
    for _ in 0..2 {
        let (answer, _) = pair.server.accept(listener).unwrap();
        assert_eq!(pair.server.readiness(answer), Ok(OUT));
    }
    assert_eq!(pair.server.accept(listener), Err(SocketError::WouldBlock));
}

#[test]
fn a_socket_that_listens_already_has_another_backlog() {
    let mut pair = Pair::new();
    let listener = pair.listener(0);
    let open = |pair: &mut Pair| {
        let call = pair.call();
        pair.client.readiness(call) == Ok(OUT)
    };
    assert_eq!([(); 2].map(|()| open(&mut pair)), [true, false]);
    pair.server.listen(listener, 2).unwrap();
    // The one that was refused has its SYN sent again.
    pair.pass(3_000);
    assert_eq!([(); 2].map(|()| open(&mut pair)), [true, false]);
    pair.server.listen(listener, 0).unwrap();
    for _ in 0..3 {
        assert!(pair.server.accept(listener).is_ok(), "all stay");
    }
    pair.pass(10_000);
    assert!(pair.server.accept(listener).is_ok(), "one has asked again");
    assert_eq!([(); 2].map(|()| open(&mut pair)), [true, false]);
}

#[test]
fn who_waits_at_a_listener_is_reset_with_it() {
    type End = fn(&mut Sockets, Socket);
    let ends: [End; 2] = [
        |sockets, listener| sockets.close(listener).unwrap(),
        |sockets, listener| sockets.shutdown(listener, How::Read).unwrap(),
    ];
    for end in ends {
        let mut pair = Pair::new();
        let listener = pair.listener(4);
        let call = pair.call();
        end(&mut pair.server, listener);
        pair.settle();
        assert_eq!(pair.client.take_error(call), Ok(Some(SocketError::Reset)));
        let late = pair.call();
        assert_eq!(pair.client.take_error(late), Ok(Some(SocketError::Refused)));
    }
}

#[test]
fn ports_are_shared_by_those_who_both_allow_it_and_never_with_a_listener() {
    let mut pair = Pair::new();
    let sockets = &mut pair.server;
    let mut bind = |reuse: bool, to: &str| {
        let socket = sockets.socket().unwrap();
        let option = SocketOption::ReuseAddress(reuse);
        sockets.set_option(socket, option).unwrap();
        (socket, sockets.bind(socket, at(to)))
    };
    let (first, bound) = bind(true, "10.0.0.2:80");
    assert_eq!(bound, Ok(()));
    assert_eq!(bind(false, "10.0.0.2:80").1, Err(SocketError::AddressInUse));
    assert_eq!(bind(false, "0.0.0.0:80").1, Err(SocketError::AddressInUse));
    assert_eq!(bind(true, "0.0.0.0:80").1, Ok(()));
    assert_eq!(bind(false, "10.0.0.2:81").1, Ok(()));
    assert_eq!(
        bind(true, "10.0.0.9:80").1,
        Err(SocketError::AddressNotAvailable)
    );
    assert_eq!(
        bind(true, "[::1]:80").1,
        Err(SocketError::FamilyNotSupported)
    );
    let (any, bound) = bind(false, "10.0.0.2:0");
    assert_eq!(bound, Ok(()));
    let sockets = &mut pair.server;
    assert!(sockets.local_address(any).unwrap().port() >= 49_152);
    assert_eq!(
        sockets.bind(any, at("10.0.0.2:0")),
        Err(SocketError::Invalid)
    );
    assert_eq!(sockets.listen(first, 1), Ok(()));
    let late = sockets.socket().unwrap();
    let option = SocketOption::ReuseAddress(true);
    sockets.set_option(late, option).unwrap();
    assert_eq!(
        sockets.bind(late, at("10.0.0.2:80")),
        Err(SocketError::AddressInUse)
    );
}

/// RFC 9293 §3.9.1.1, MUST-42.
#[test]
fn a_port_is_listened_on_while_a_connection_from_it_is_being_opened() {
    let mut pair = Pair::new();
    pair.listener(4);
    let from = at("10.0.0.1:5000");
    let mut bound = || {
        let socket = pair.client.socket().unwrap();
        let option = SocketOption::ReuseAddress(true);
        pair.client.set_option(socket, option).unwrap();
        pair.client.bind(socket, from).unwrap();
        socket
    };
    let (call, listener) = (bound(), bound());
    let told = pair.client.connect(call, server_at());
    assert_eq!(told, Err(SocketError::InProgress));
    assert_eq!(pair.client.listen(listener, 4), Ok(()));
    let back = pair.server.socket().unwrap();
    let told = pair.server.connect(back, from);
    assert_eq!(told, Err(SocketError::InProgress));
    pair.settle();
    assert_eq!(pair.client.connect(call, server_at()), Ok(()));
    assert_eq!(pair.server.connect(back, from), Ok(()));
    assert!(pair.client.accept(listener).is_ok());
}

#[test]
fn verbs_in_the_wrong_state_say_so() {
    let mut pair = Pair::new();
    let listener = pair.listener(1);
    let sockets = &mut pair.server;
    let idle = sockets.socket().unwrap();
    assert_eq!(sockets.accept(idle), Err(SocketError::Invalid));
    assert_eq!(sockets.send(idle, b"x"), Err(SocketError::BrokenPipe));
    assert_eq!(sockets.recv(idle, &mut [0]), Err(SocketError::NotConnected));
    assert_eq!(
        sockets.shutdown(idle, How::Both),
        Err(SocketError::NotConnected)
    );
    assert_eq!(
        sockets.connect(idle, at("[::1]:7")),
        Err(SocketError::FamilyNotSupported)
    );
    assert_eq!(
        sockets.recv(listener, &mut [0]),
        Err(SocketError::NotConnected)
    );
    assert_eq!(sockets.readable_bytes(listener), Err(SocketError::Invalid));
    assert_eq!(sockets.listen(listener, 9), Ok(()), "once more");
    assert_eq!(
        sockets.connect(listener, server_at()),
        Err(SocketError::Connected)
    );
    assert_eq!(sockets.close(idle), Ok(()));
    assert_eq!(sockets.close(idle), Err(SocketError::BadSocket));
}

#[test]
fn a_peek_leaves_what_it_sees() {
    let mut pair = Pair::new();
    let (call, answer) = pair.connected();
    for part in [&b"see"[..], b" and", b" leave"] {
        pair.client.send(call, part).unwrap();
        pair.settle();
    }
    let mut seen = [0; 8];
    assert_eq!(pair.server.peek(answer, &mut seen), Ok(8));
    assert_eq!(&seen, b"see and ");
    let mut all = [0; 32];
    assert_eq!(pair.server.peek(answer, &mut all), Ok(13));
    assert_eq!(pair.server.recv(answer, &mut all), Ok(13));
    assert_eq!(
        pair.server.peek(answer, &mut all),
        Err(SocketError::WouldBlock)
    );
}

#[test]
fn a_cork_holds_back_what_fills_no_segment_until_it_is_drawn_or_200_ms_have_passed() {
    let mut pair = Pair::new();
    let (call, answer) = pair.connected();
    let heard = |pair: &mut Pair| pair.server.readable_bytes(answer).unwrap();
    let cork = |pair: &mut Pair, on| {
        let option = SocketOption::Cork(on);
        pair.client.set_option(call, option).unwrap();
    };
    cork(&mut pair, true);
    pair.client.send(call, &[1; 2000]).unwrap();
    pair.settle();
    let full = heard(&mut pair);
    assert!((1400..2000).contains(&full), "{full}");
    cork(&mut pair, false);
    pair.settle();
    assert_eq!(heard(&mut pair), 2000);
    cork(&mut pair, true);
    pair.client.send(call, &[2; 10]).unwrap();
    pair.pass(190);
    assert_eq!(heard(&mut pair), 2000);
    pair.pass(20);
    assert_eq!(heard(&mut pair), 2010);
    // However long nobody has turned it.
    pair.now += Duration::from_secs(1);
    pair.client.send(call, &[2; 10]).unwrap();
    pair.pass(190);
    assert_eq!(heard(&mut pair), 2010);
    pair.pass(20);
    assert_eq!(heard(&mut pair), 2020);
    // Whoever closes has nothing to add.
    pair.client.send(call, &[3; 10]).unwrap();
    pair.client.shutdown(call, How::Write).unwrap();
    pair.settle();
    assert_eq!(heard(&mut pair), 2030);
}

#[test]
fn what_is_sent_is_on_its_way_until_it_is_acknowledged() {
    let mut pair = Pair::new();
    let (call, answer) = pair.connected();
    pair.settle();
    assert!(!pair.client.is_sending(), "nothing was sent");
    pair.client.send(call, b"some").unwrap();
    assert!(pair.client.is_sending(), "it has not left");
    pair.client.turn(pair.now);
    assert!(pair.client.is_sending(), "it is not acknowledged");
    pair.server.turn(pair.now);
    pair.pass(200);
    assert!(!pair.client.is_sending());
    let cork = SocketOption::Cork(true);
    pair.client.set_option(call, cork).unwrap();
    pair.client.send(call, b"held back").unwrap();
    pair.settle();
    assert!(pair.client.is_sending());
    pair.pass(500);
    assert!(!pair.client.is_sending());
    pair.client.close(call).unwrap();
    pair.client.turn(pair.now);
    assert!(pair.client.is_sending(), "the end of data");
    pair.pass(500);
    assert!(!pair.client.is_sending() && !pair.server.is_sending());
    assert_eq!(pair.server.readable_bytes(answer), Ok(13));
}

#[test]
fn those_whom_a_listener_takes_are_set_as_it_is() {
    let mut pair = Pair::new();
    let listener = pair.listener(4);
    let nodelay = SocketOption::NoDelay(false);
    pair.server.set_option(listener, nodelay).unwrap();
    let small = SocketOption::ReceiveBuffer(4_000);
    pair.server.set_option(listener, small).unwrap();
    let call = pair.call();
    let (answer, _) = pair.server.accept(listener).unwrap();
    assert_eq!(pair.server.option(answer, OptionName::NoDelay), Ok(nodelay));
    assert_eq!(
        pair.server.option(answer, OptionName::ReceiveBuffer),
        Ok(small)
    );
    assert_eq!(pair.client.send(call, &[0; 10_000]), Ok(10_000));
    pair.pass(1_000);
    assert_eq!(pair.server.readable_bytes(answer), Ok(4_000));
    let mut to = [0; 10_000];
    let mut got = 0;
    for _ in 0..20 {
        got += pair.server.recv(answer, &mut to).unwrap_or(0);
        pair.pass(1_000);
    }
    assert_eq!(got, 10_000);
}

#[test]
fn a_send_buffer_takes_as_much_as_it_holds() {
    let mut pair = Pair::new();
    let listener = pair.listener(4);
    let call = pair.client.socket().unwrap();
    let small = SocketOption::SendBuffer(5_000);
    pair.client.set_option(call, small).unwrap();
    let _ = pair.client.connect(call, server_at());
    pair.settle();
    assert_eq!(pair.client.send(call, &[0; 9_000]), Ok(5_000));
    assert_eq!(
        pair.client.send(call, &[0; 9_000]),
        Err(SocketError::WouldBlock)
    );
    assert_eq!(pair.client.readiness(call), Ok(NOTHING));
    let larger = SocketOption::SendBuffer(7_000);
    pair.client.set_option(call, larger).unwrap();
    // The peer has not been turned, so nothing has been acknowledged.
    pair.client.turn(pair.now);
    assert_eq!(pair.client.send(call, &[0; 9_000]), Ok(2_000));
    pair.settle();
    let (answer, _) = pair.server.accept(listener).unwrap();
    let mut to = vec![0; 20_000];
    let mut total = 7_000;
    for _ in 0..10 {
        total += pair.client.send(call, &[0; 1_000]).unwrap_or(0);
        pair.pass(100);
    }
    let mut got = 0;
    while let Ok(n) = pair.server.recv(answer, &mut to) {
        got += n;
    }
    assert_eq!(got, total);
    assert!(total > 10_000);
}

#[test]
fn a_wait_ends_with_readiness_an_error_or_its_time() {
    let (here, _there) = memory::wire(Capabilities::ip(1500), 16);
    let shared = Shared::new(Sockets::new(&config("10.0.0.1"), here).expect("a stack"));
    let call = shared.with(Sockets::socket).unwrap();
    let millisecond = Some(Duration::from_millis(1));
    assert_eq!(shared.wait(call, IN, millisecond), Ok(OUT | HUP));
    assert_eq!(
        shared.connect(call, server_at(), millisecond),
        Err(SocketError::WouldBlock)
    );
    assert_eq!(
        shared.wait(call, OUT, millisecond),
        Err(SocketError::WouldBlock)
    );
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| shared.wait(call, OUT, None));
        shared
            .with(|sockets| sockets.shutdown(call, How::Both))
            .unwrap();
        let ready = waiting.join().expect("no panic").unwrap();
        assert!(ready.contains(ERR | HUP));
    });
    assert_eq!(
        shared.recv(call, &mut [0], None),
        Err(SocketError::Reset),
        "given up"
    );
}

#[test]
fn both_ends_are_told_of_one_connection() {
    let mut pair = Pair::new();
    let idle = pair.client.socket().unwrap();
    assert_eq!(pair.client.info(idle), Err(SocketError::NotConnected));
    let (call, answer) = pair.connected();
    pair.client.send(call, &[7; 3000]).unwrap();
    pair.settle();
    let here = pair.client.info(call).unwrap();
    let there = pair.server.info(answer).unwrap();
    assert_eq!((here.is_active, there.is_active), (true, false));
    assert_eq!((here.iss, here.irs), (there.irs, there.iss));
    assert_eq!((here.sent_bytes(), there.received_bytes()), (3000, 3000));
    assert_eq!(there.unread_bytes, 3000);
    assert_eq!(here.snd_nxt, there.rcv_nxt);
    assert_eq!(here.path_mtu, 1500);
    pair.client.close(call).unwrap();
    pair.settle();
    assert_eq!(pair.client.info(call), Err(SocketError::BadSocket));
    let end = pair.server.info(answer).unwrap();
    assert_eq!(end.state, braidnet_tcp::State::CloseWait);
    assert_eq!(end.received_bytes(), 3001, "the FIN");
    let option = SocketOption::Linger(Some(Duration::ZERO));
    pair.server.set_option(answer, option).unwrap();
    pair.server.close(answer).unwrap();
    assert_eq!(pair.server.info(answer), Err(SocketError::BadSocket));
}
