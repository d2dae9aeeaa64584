use super::*;
use crate::{DropReason, Receiver, Transmitter};
use braidnet_message::{Arena, Pool, Run};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::sockopt::set_socket_send_buffer_size;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;

const STATION: MacAddress = MacAddress([2, 0, 0, 0, 0, 1]);

struct End {
    receiver: Box<dyn Receiver>,
    transmitter: Box<dyn Transmitter>,
    pool: Pool,
}

impl End {
    /// All that waits, frame by frame.
    fn receive(&mut self, max: usize) -> Vec<Vec<u8>> {
        let mut run = Run::new();
        self.receiver.receive(&mut self.pool, &mut run, max);
        run.iter().map(|frame| frame.bytes().to_vec()).collect()
    }
}

/// The device, and the peer's end of its socket.
fn pair() -> (End, UnixStream) {
    pair_of(1500, 4096)
}

fn pair_of(mtu: usize, queue_packets: usize) -> (End, UnixStream) {
    let (ours, peers) = UnixStream::pair().unwrap();
    set_socket_send_buffer_size(&ours, 4096).unwrap();
    (end_over(ours, mtu, queue_packets), peers)
}

fn end_over(socket: UnixStream, mtu: usize, queue_packets: usize) -> End {
    let device = QemuDevice::over(
        socket,
        QemuConfig {
            station: STATION,
            mtu,
            queue_packets,
        },
    )
    .unwrap();
    let QueuePair {
        receiver,
        transmitter,
    } = Box::new(device).open().unwrap().remove(0);
    let pool = Pool::new(&Arena::new(16 << 20));
    End {
        receiver,
        transmitter,
        pool,
    }
}

fn framed(frame: &[u8]) -> Vec<u8> {
    [&(frame.len() as u32).to_be_bytes()[..], frame].concat()
}

fn frame(number: u8, length: usize) -> Vec<u8> {
    (0..length)
        .map(|at| number.wrapping_add(at as u8))
        .collect()
}

#[test]
fn frames_are_cut_out_of_the_stream_wherever_it_breaks() {
    let frames = [frame(1, 60), frame(2, 1), frame(3, 1518), frame(4, 100)];
    let stream: Vec<u8> = frames.iter().flat_map(|frame| framed(frame)).collect();
    for size in [1, 3, 4, 5, 64, 1000, stream.len()] {
        let (mut end, mut peer) = pair();
        let mut received = Vec::new();
        for chunk in stream.chunks(size) {
            peer.write_all(chunk).unwrap();
            received.extend(end.receive(64));
        }
        assert_eq!(received, frames, "{size} bytes at once");
        assert!(!end.receiver.has_waiting());
    }
}

#[test]
fn what_is_read_ahead_waits_in_order() {
    let (mut end, mut peer) = pair();
    for number in 0..10 {
        peer.write_all(&framed(&frame(number, 60))).unwrap();
    }
    for number in 0..10 {
        assert_eq!(end.receive(1), [frame(number, 60)]);
        assert_eq!(end.receiver.has_waiting(), number < 9);
    }
    // Without a buffer nothing is lost.
    peer.write_all(&framed(&frame(7, 60))).unwrap();
    let mut none = Pool::new(&Arena::new(0));
    assert_eq!(end.receiver.receive(&mut none, &mut Run::new(), 8), 0);
    assert!(end.receiver.has_waiting());
    assert_eq!(end.receive(8), [frame(7, 60)]);
}

#[test]
fn class_43_lengths_that_no_frame_has() {
    let dropped = |end: &End, reason| end.receiver.counters().dropped(reason);
    let (mut end, peer) = pair();
    // Too long for the MTU, and empty: the next frame is found behind them.
    for length in [1519, FRAME_MAX, 0] {
        let sender = peer.try_clone().unwrap();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                (&sender)
                    .write_all(&[framed(&frame(1, length)), framed(&[9])].concat())
                    .unwrap()
            });
            let mut received = Vec::new();
            while received.is_empty() {
                received = end.receive(8);
            }
            assert_eq!(received, [[9]], "behind {length} bytes");
        });
    }
    assert_eq!(dropped(&end, DropReason::ReceiveOversize), 2);
    assert_eq!(dropped(&end, DropReason::ReceiveFramingMalformed), 1);
    assert!(!end.receiver.is_gone());

    for length in [FRAME_MAX as u32 + 1, u32::MAX] {
        let (mut end, mut peer) = pair();
        peer.write_all(&framed(&[8])).unwrap();
        peer.write_all(&length.to_be_bytes()).unwrap();
        peer.write_all(&framed(&[9])).unwrap();
        assert_eq!(end.receive(8), [[8]]);
        assert!(end.receiver.is_gone(), "{length}");
        assert_eq!(dropped(&end, DropReason::ReceiveFramingLost), 1);
        assert_eq!(dropped(&end, DropReason::ReceiveFramingMalformed), 0);
        assert!(end.receive(8).is_empty());
        // Nor is anything said to it any more.
        assert_eq!(peer.read(&mut [0]).unwrap(), 0);
    }
}

#[test]
fn a_peer_that_leaves_in_the_middle_of_a_frame_is_gone() {
    let (mut end, mut peer) = pair();
    peer.write_all(&framed(&frame(1, 60))).unwrap();
    peer.write_all(&framed(&frame(2, 60))[..30]).unwrap();
    drop(peer);
    assert_eq!(end.receive(8), [frame(1, 60)]);
    assert!(end.receive(8).is_empty());
    assert!(end.receiver.is_gone());
    let counters = end.receiver.counters();
    assert_eq!(counters.dropped(DropReason::ReceiveFramingMalformed), 1);
    let message = end.pool.copy_from_slice(0, &[1; 60]).unwrap();
    end.transmitter.transmit(&mut Run::from_iter([message]));
    let counters = end.transmitter.counters();
    assert_eq!(counters.dropped(DropReason::DeviceGone), 1);
}

/// Whether whoever sleeps on the receiver's descriptor is woken.
fn wakes(end: &End) -> bool {
    let fd = end.receiver.fd().unwrap();
    let mut polled = [PollFd::from_borrowed_fd(fd, PollFlags::IN)];
    poll(&mut polled, Some(&Timespec::default())).unwrap() > 0
}

/// All that lies in the socket now.
fn drain(peer: &mut UnixStream, stream: &mut Vec<u8>) {
    peer.set_nonblocking(true).unwrap();
    let mut some = [0; 4096];
    while let Ok(read @ 1..) = peer.read(&mut some) {
        stream.extend_from_slice(&some[..read]);
    }
}

fn cut(mut stream: &[u8]) -> Vec<Vec<u8>> {
    let mut frames = Vec::new();
    while let Some((length, rest)) = stream.split_first_chunk::<4>() {
        let (frame, rest) = rest.split_at(u32::from_be_bytes(*length) as usize);
        frames.push(frame.to_vec());
        stream = rest;
    }
    frames
}

#[test]
fn a_peer_that_never_stops_keeps_no_call() {
    for (bytes, reason) in [
        (vec![0; 4096], DropReason::ReceiveFramingMalformed),
        (framed(&[1; 1519]), DropReason::ReceiveOversize),
    ] {
        let (mut end, mut peer) = pair();
        std::thread::scope(|scope| {
            scope.spawn(move || while peer.write_all(&bytes).is_ok() {});
            while end.receiver.counters().dropped(reason) < 100 {
                let before = end.receiver.counters().dropped(reason);
                assert!(end.receive(8).is_empty());
                assert!(end.receiver.counters().dropped(reason) <= before + 8);
            }
            drop(end);
        });
    }
}

#[test]
fn what_finds_no_room_waits_in_order_and_what_finds_no_place_to_wait_is_dropped() {
    let (mut end, mut peer) = pair_of(9000, 10);
    let mut others = end.transmitter.another().unwrap();
    let frames: Vec<Vec<u8>> = (0..60).map(|number| frame(number, 9000)).collect();
    let mut stream = Vec::new();
    peer.set_nonblocking(true).unwrap();
    for (number, frame) in frames.iter().enumerate() {
        // In several blocks, as segments are; in more than go to the system at once, too.
        let mut message = end.pool.copy_from_slice(0, &[]).unwrap();
        for block in frame.chunks([4500, 300][number / 2 % 2]) {
            message.push_continuation(end.pool.copy_from_slice(0, block).unwrap());
        }
        let handles = [&mut end.transmitter, &mut others];
        let mut run = Run::from_iter([message]);
        handles[number % 2].transmit(&mut run);
        assert!(run.is_empty());
        // An odd number of bytes at a time, so that the socket's room ends anywhere.
        let mut some = [0; 3777];
        if let Ok(read) = peer.read(&mut some) {
            stream.extend_from_slice(&some[..read]);
        }
    }
    while wakes(&end) || stream.len() % 9004 > 0 {
        end.receive(8);
        drain(&mut peer, &mut stream);
    }
    let received = cut(&stream);
    let mut counters = end.transmitter.counters();
    counters.add(&others.counters());
    assert_eq!(counters.packets, received.len() as u64);
    let dropped = counters.dropped(DropReason::TransmitFull);
    assert_eq!(counters.packets + dropped, 60);
    assert!(dropped > 0 && counters.packets > 10, "{counters:?}");
    assert!(received.is_sorted_by_key(|frame| frame[0]));
    for found in &received {
        assert_eq!(*found, frames[usize::from(found[0])]);
    }
}

#[test]
fn what_waits_wakes_whoever_sleeps_when_there_is_room_and_not_before() {
    let (mut end, mut peer) = pair_of(9000, 4096);
    assert!(!wakes(&end));
    let frames: Vec<Vec<u8>> = (0..100).map(|number| frame(number, 9000)).collect();
    for frame in &frames {
        let message = end.pool.copy_from_slice(0, frame).unwrap();
        end.transmitter.transmit(&mut Run::from_iter([message]));
    }
    assert!(!wakes(&end), "the socket is full");
    let (mut stream, mut wakenings) = (Vec::new(), 0);
    drain(&mut peer, &mut stream);
    while stream.len() < 100 * 9004 {
        assert!(wakes(&end), "{} bytes", stream.len());
        // Who sleeps is woken once for all that there is room for.
        wakenings += 1;
        assert!(end.receive(8).is_empty());
        assert!(!wakes(&end), "{} bytes", stream.len());
        let before = stream.len();
        drain(&mut peer, &mut stream);
        assert!(stream.len() > before);
    }
    assert!(!wakes(&end), "nothing is left");
    assert_eq!(cut(&stream), frames);
    assert!(wakenings > 10, "{wakenings}");
    assert_eq!(end.transmitter.counters().packets, 100);
}

#[test]
fn what_waits_when_the_peer_leaves_is_dropped_by_name() {
    let (mut end, peer) = pair_of(9000, 4096);
    for number in 0..20 {
        let message = end.pool.copy_from_slice(0, &frame(number, 9000)).unwrap();
        end.transmitter.transmit(&mut Run::from_iter([message]));
    }
    drop(peer);
    assert!(wakes(&end));
    end.receive(8);
    assert!(end.receiver.is_gone());
    let lost = end.receiver.counters().dropped(DropReason::DeviceGone);
    assert!((15..=20).contains(&lost), "{lost}");
}

#[test]
fn two_ends_that_are_both_full_go_on_receiving() {
    let (one, two) = UnixStream::pair().unwrap();
    let mut ends = [one, two].map(|socket| {
        set_socket_send_buffer_size(&socket, 4096).unwrap();
        end_over(socket, 1500, 4096)
    });
    // Each has as much to send as no socket holds, before either reads.
    for end in &mut ends {
        for number in 0..200 {
            let message = end.pool.copy_from_slice(0, &frame(number, 1500)).unwrap();
            end.transmitter.transmit(&mut Run::from_iter([message]));
        }
    }
    let mut received = [Vec::new(), Vec::new()];
    // Only who is woken is turned.
    while ends.iter().any(wakes) {
        for (end, received) in ends.iter_mut().zip(&mut received) {
            received.extend(end.receive(64));
            while end.receiver.has_waiting() {
                received.extend(end.receive(64));
            }
        }
    }
    let frames: Vec<Vec<u8>> = (0..200).map(|number| frame(number, 1500)).collect();
    assert!(received.iter().all(|received| *received == frames));
}

#[test]
fn what_cannot_leave_is_dropped_by_name() {
    let (mut end, _peer) = pair();
    let mut run: Run = [&[][..], &[0; 1519], &[0; 60]]
        .into_iter()
        .map(|bytes| end.pool.copy_from_slice(0, bytes).unwrap())
        .collect();
    end.transmitter.transmit(&mut run);
    let counters = end.transmitter.counters();
    assert_eq!((run.len(), counters.packets), (0, 1));
    for reason in [DropReason::TransmitEmpty, DropReason::TransmitOversize] {
        assert_eq!(counters.dropped(reason), 1, "{reason}");
    }
    let wrong = QemuConfig {
        mtu: 67,
        ..QemuConfig::new(STATION)
    };
    let (socket, _peer) = UnixStream::pair().unwrap();
    let refused = QemuDevice::over(socket, wrong).map(drop);
    assert!(matches!(refused, Err(QemuError::Mtu { mtu: 67 })));
}
