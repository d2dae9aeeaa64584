//! Connections that have ended, whose place TCP has given to others: nothing of what a socket has is lost by that.

use super::*;

impl Pair {
    /// A server that keeps so many that no socket has, and whose buckets soon give a place to another.
    fn keeping(ended: usize) -> Pair {
        let (here, there) = memory::wire(Capabilities::ip(1500), 256);
        let mut forgetful = config("10.0.0.2");
        forgetful.buckets = 2;
        forgetful.ended_connections = ended;
        Pair {
            client: Sockets::new(&config("10.0.0.1"), here).expect("a stack"),
            server: Sockets::new(&forgetful, there).expect("a stack"),
            now: Instant::from_millis(1),
        }
    }

    /// Calls, says something, and resets.
    fn come_and_go(&mut self) {
        let call = self.call();
        assert_eq!(self.client.send(call, b"truncated"), Ok(9));
        self.settle();
        let linger = SocketOption::Linger(Some(Duration::ZERO));
        self.client.set_option(call, linger).expect("open");
        self.client.close(call).expect("open");
        self.settle();
    }

    /// What has come, then how it has ended, then nothing: never a clean end.
    fn hears_all(&mut self, answer: Socket) {
        let mut heard = [0; 16];
        assert_eq!(self.server.recv(answer, &mut heard), Ok(9));
        let end = self.server.recv(answer, &mut heard);
        assert_eq!(end, Err(SocketError::Reset));
        assert_eq!(self.server.recv(answer, &mut heard), Ok(0), "told once");
    }

    fn forgotten(&self) -> u64 {
        let counters = self.server.counters();
        counters.get("tcp.gone_forgotten").copied().unwrap_or(0)
    }
}

#[test]
fn what_a_listener_has_forgotten_is_passed_over() {
    let mut pair = Pair::keeping(0);
    let listener = pair.listener(64);
    for _ in 0..12 {
        pair.come_and_go();
    }
    let call = pair.call();
    assert!(pair.forgotten() > 0, "others have their places");
    let (mut dead, mut alive) = (0, None);
    while let Ok((answer, _)) = pair.server.accept(listener) {
        match pair.server.readiness(answer) {
            Ok(OUT) => alive = Some(answer),
            _ => {
                pair.hears_all(answer);
                dead += 1;
            }
        }
    }
    let passed_over = pair.server.counters()["socket.dead_unaccepted"];
    assert_eq!(dead + passed_over, 12);
    assert_eq!(passed_over, pair.forgotten());
    let answer = alive.expect("the one that lives is behind them");
    assert_eq!(pair.server.send(answer, b"hello"), Ok(5));
    pair.settle();
    assert_eq!(pair.client.recv(call, &mut [0; 16]), Ok(5));
}

#[test]
fn what_a_socket_has_not_read_outlives_the_place_of_its_connection() {
    let mut pair = Pair::keeping(0);
    let listener = pair.listener(64);
    let mut answers = Vec::new();
    for _ in 0..12 {
        pair.come_and_go();
        answers.push(pair.server.accept(listener).expect("it has called").0);
    }
    assert_eq!(pair.forgotten(), 0);
    for answer in answers {
        pair.hears_all(answer);
        pair.server.close(answer).expect("open");
    }
}

#[test]
fn so_does_what_is_accepted_after_another_has_the_place() {
    let mut pair = Pair::keeping(6);
    let listener = pair.listener(64);
    for _ in 0..6 {
        pair.come_and_go();
    }
    let accept = |pair: &mut Pair| pair.server.accept(listener).expect("it has called").0;
    let answers = [(); 6].map(|()| accept(&mut pair));
    for _ in 0..12 {
        pair.come_and_go();
    }
    assert!(pair.forgotten() > 0, "of those that wait");
    for answer in answers {
        pair.hears_all(answer);
    }
}
