use super::*;
use crate::{DropReason, Receiver, Transmitter};
use braidnet_message::{Arena, Pool, Run};
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
    let (ours, peers) = UnixStream::pair().unwrap();
    set_socket_send_buffer_size(&ours, 4096).unwrap();
    let device = QemuDevice::over(ours, QemuConfig::new(STATION)).unwrap();
    let QueuePair {
        receiver,
        transmitter,
    } = Box::new(device).open().unwrap().remove(0);
    let pool = Pool::new(&Arena::new(16 << 20));
    let end = End {
        receiver,
        transmitter,
        pool,
    };
    (end, peers)
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
        assert_eq!(dropped(&end, DropReason::ReceiveFramingMalformed), 1);
        assert!(end.receive(8).is_empty());
    }
}

#[test]
fn a_peer_that_leaves_in_the_middle_of_a_frame_is_gone() {
    let (mut end, mut peer) = pair();
    peer.write_all(&framed(&frame(1, 60))).unwrap();
    peer.write_all(&framed(&frame(2, 60))[..30]).unwrap();
    drop(peer);
    assert_eq!(end.receive(8), [frame(1, 60)]);
    assert!(end.receiver.is_gone());
    let counters = end.receiver.counters();
    assert_eq!(counters.dropped(DropReason::ReceiveFramingMalformed), 1);
    let message = end.pool.copy_from_slice(0, &[1; 60]).unwrap();
    end.transmitter.transmit(&mut Run::from_iter([message]));
    let counters = end.transmitter.counters();
    assert_eq!(counters.dropped(DropReason::DeviceGone), 1);
}

#[test]
fn what_the_socket_takes_in_parts_arrives_whole() {
    let (mut end, mut peer) = pair();
    peer.set_nonblocking(true).unwrap();
    let mut others = end.transmitter.another().unwrap();
    let frames: Vec<Vec<u8>> = (0..40).map(|number| frame(number, 1400)).collect();
    let mut run = |frames: &[Vec<u8>]| -> Run {
        let message = |frame: &Vec<u8>| {
            // In several blocks, as segments are.
            let mut message = end.pool.copy_from_slice(0, &frame[..700]).unwrap();
            message.push_continuation(end.pool.copy_from_slice(0, &frame[700..]).unwrap());
            message
        };
        frames.iter().map(message).collect()
    };
    let (mut ours, mut theirs) = (run(&frames[..20]), run(&frames[20..]));
    let (mut stream, mut was_blocked) = (Vec::new(), false);
    while !(ours.is_empty() && theirs.is_empty()) {
        end.transmitter.transmit(&mut ours);
        others.transmit(&mut theirs);
        was_blocked |= !ours.is_empty();
        // An odd number of bytes at a time, so that the socket's room ends anywhere.
        let mut some = [0; 777];
        if let Ok(read) = peer.read(&mut some) {
            stream.extend_from_slice(&some[..read]);
        }
    }
    assert!(was_blocked);
    let mut some = [0; 4096];
    while let Ok(read @ 1..) = peer.read(&mut some) {
        stream.extend_from_slice(&some[..read]);
    }
    let mut received = Vec::new();
    while let Some((length, rest)) = stream.split_first_chunk::<4>() {
        let (frame, rest) = rest.split_at(u32::from_be_bytes(*length) as usize);
        received.push(frame.to_vec());
        stream = rest.to_vec();
    }
    let mut sorted = received.clone();
    sorted.sort_by_key(|frame| frame[0]);
    assert_eq!(sorted, frames);
    for half in [0..20, 20..40] {
        let numbers = received.iter().map(|frame| frame[0]);
        assert!(numbers.filter(|number| half.contains(number)).is_sorted());
    }
    assert_eq!(end.transmitter.counters().packets, 20);
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
