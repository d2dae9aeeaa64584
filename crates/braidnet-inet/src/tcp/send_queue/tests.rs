//! Which pieces make a train, and that nothing is sent twice or left out.

use super::*;
use crate::testing::bytes_of;
use braidnet_message::Arena;
use proptest::prelude::*;

const MAX: u32 = 1000;

/// A queue of pieces of these lengths, and their bytes.
fn queue(lengths: &[usize], pool: &mut Pool) -> (SendQueue, Vec<u8>) {
    let (mut queue, mut stream) = (SendQueue::default(), Vec::new());
    for (number, len) in lengths.iter().enumerate() {
        let bytes: Vec<u8> = (0..*len).map(|i| (i * 7 + number) as u8).collect();
        queue.push(pool.copy_from_slice(HEADROOM, &bytes).unwrap());
        stream.extend(bytes);
    }
    (queue, stream)
}

const fn room(room: u32) -> Room {
    Room { max: MAX, room }
}

#[test]
fn pieces_that_are_alike_make_a_train() {
    let endless = room(1 << 30);
    let most = (TRAIN_BYTES - 1000) / 1000 * 1000;
    let window = Room {
        max: 400,
        room: 400,
    };
    let rows: [(&str, &[usize], Room, usize); 19] = [
        ("alike", &[1000; 5], endless, 4000),
        ("a shorter last", &[1000, 1000, 400], endless, 1400),
        ("a shorter one ends it", &[1000, 600, 1000], endless, 600),
        ("a longer one", &[900, 1000], endless, 0),
        ("more than a segment", &[1000, 3000], endless, 3000),
        (
            "as much of it as there is room for",
            &[1000, 5000],
            room(3999),
            3000,
        ),
        ("all segments of one piece", &[5000], endless, 4000),
        ("and a short last", &[4500], endless, 3500),
        ("but not what is gathered", &[4500, 400], endless, 3000),
        (
            "one after the other",
            &[3000, 2000, 2500, 1000],
            endless,
            6500,
        ),
        ("to the end of a packet", &[65_000, 1000], endless, most),
        (
            "short ones do not cut a long one short",
            &[600, 3000],
            endless,
            0,
        ),
        ("what would be gathered", &[1000, 300, 300], endless, 0),
        ("it was gathered", &[500, 500, 1000], endless, 0),
        ("no room for one more", &[1000; 5], room(2999), 2000),
        ("one packet's worth", &[1000; 99], endless, most),
        ("longer than the window", &[1000; 3], window, 0),
        ("the last longer than the window", &[1000; 2], window, 0),
        ("short ones alike", &[600; 5], room(1700), 1200),
    ];
    for (what, lengths, room, expected) in rows {
        let mut pool = Pool::new(&Arena::new(4 << 20));
        let mut pool = pool.bind();
        let (mut queue, stream) = queue(lengths, &mut pool);
        let (first, train) = queue.segment(0, MAX, &mut pool);
        let mut train = train.unwrap();
        let coupled = queue.couple(&mut train, first, room, &mut pool);
        assert_eq!(coupled as usize, expected, "{what}");
        let end = (first + coupled) as usize;
        assert_eq!(bytes_of(&train), stream[..end], "{what}");
        assert_eq!(
            train.segment_bytes(),
            if coupled > 0 { first } else { 0 },
            "{what}"
        );
        // The rest follows.
        let mut sent = end;
        while sent < stream.len() {
            let (len, segment) = queue.segment(sent as u32, MAX, &mut pool);
            let bytes = bytes_of(&segment.unwrap());
            assert_eq!(bytes, stream[sent..sent + len as usize], "{what}");
            sent += len as usize;
        }
        // And again, alone, whatever it was sent with.
        let (len, again) = queue.segment((lengths[0] % stream.len()) as u32, MAX, &mut pool);
        let again = again.unwrap();
        let from = lengths[0] % stream.len();
        assert_eq!(again.segment_bytes(), 0, "{what}");
        assert_eq!(
            bytes_of(&again),
            stream[from..from + len as usize],
            "{what}"
        );
    }
}

#[test]
fn a_piece_that_cannot_carry_its_headers_begins_no_train_but_goes_on_with_one() {
    let mut pool = Pool::new(&Arena::new(4 << 20));
    let mut pool = pool.bind();
    let (mut queue, _) = queue(&[1000; 2], &mut pool);
    queue.push(pool.copy_from_slice(HEADROOM - 64, &[1; 1000]).unwrap());
    queue.push(pool.copy_from_slice(HEADROOM, &[2; 1000]).unwrap());
    // Somebody else sees it, as the receiver does what was sent before.
    let seen = pool.copy_from_slice(HEADROOM, &[3; 1000]).unwrap();
    let _view = seen.share(&mut pool).unwrap();
    queue.push(seen);
    for (offset, coupled) in [(0, 4000), (2000, 2000), (4000, 0)] {
        let (first, train) = queue.segment(offset, MAX, &mut pool);
        let mut train = train.unwrap();
        assert_eq!(
            queue.couple(&mut train, offset + first, room(1 << 30), &mut pool),
            coupled,
            "{offset}"
        );
    }
}

/// At the largest MTU a segment is larger than a train may be.
#[test]
fn nothing_is_coupled_to_the_largest_segments() {
    let mut pool = Pool::new(&Arena::new(4 << 20));
    let mut pool = pool.bind();
    let max = 65_483;
    let (mut queue, _) = queue(&[max as usize; 3], &mut pool);
    let (first, train) = queue.segment(0, max, &mut pool);
    let mut train = train.unwrap();
    let room = Room { max, room: 1 << 20 };
    assert_eq!(queue.couple(&mut train, first, room, &mut pool), 0);
}

/// A probe of the path is as long as it is meant to be, wherever pieces end.
#[test]
fn a_whole_segment_takes_parts_of_pieces() {
    let mut pool = Pool::new(&Arena::new(4 << 20));
    let mut pool = pool.bind();
    let (mut queue, stream) = queue(&[700, 700, 50, 1000], &mut pool);
    for (offset, bytes, expected) in [
        (0, 1200, 1200),
        (600, 860, 860),
        (1450, 1000, 1000),
        (2000, 1200, 450),
        (0, 5000, 2450),
    ] {
        let (len, segment) = queue.whole(offset, bytes, &mut pool);
        assert_eq!(len, expected, "{offset}, {bytes}");
        let from = offset as usize;
        let expected = &stream[from..from + len as usize];
        assert_eq!(bytes_of(&segment.unwrap()), expected, "{offset}, {bytes}");
        // What follows leaves as ever.
        assert!(queue.segment(0, MAX, &mut pool).1.is_some());
    }
}

/// What a connection does next.
#[derive(Clone, Debug)]
enum Step {
    /// It is given a piece: bytes in each of its blocks, whether others see it, and whether it has room in front.
    Push(Vec<usize>, bool, bool),
    /// New data leaves, in segments of at most so many bytes, as the window and the congestion window let it out.
    Send(u32, u32),
    /// What has been sent leaves again, from a part of it on, so many bytes at most.
    Again(f64, u32),
    /// A part of what has been sent is acknowledged.
    Acknowledge(f64),
    /// What has left is gone.
    Complete,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let block = prop_oneof![
        Just(100usize),
        Just(1000),
        1usize..400,
        1usize..3000,
        Just(700)
    ];
    let mss = prop_oneof![3 => Just(100u32), 1 => Just(70), 1 => 1u32..300];
    let step = prop_oneof![
        4 => (proptest::collection::vec(block, 1..4), any::<bool>(), any::<bool>())
            .prop_map(|(blocks, seen, room)| Step::Push(blocks, seen, room)),
        6 => (mss.clone(), prop_oneof![1u32..200, 1u32..5000, Just(100_000)])
            .prop_map(|(mss, room)| Step::Send(mss, room)),
        3 => (0.0..1.0, mss).prop_map(|(from, bytes)| Step::Again(from, bytes)),
        3 => prop_oneof![0.0..1.0, Just(1.0)].prop_map(Step::Acknowledge),
        1 => Just(Step::Complete),
    ];
    proptest::collection::vec(step, 1..40)
}

/// The segments that a train stands for, as IP cuts it.
fn segments_of(train: &Message) -> Vec<Vec<u8>> {
    let each = train.segment_bytes() as usize;
    if each == 0 {
        return vec![bytes_of(train)];
    }
    let blocks = core::iter::successors(Some(train), |block| block.continuation());
    blocks
        .flat_map(|block| block.bytes().chunks(each).map(<[u8]>::to_vec))
        .collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    /// Pieces of all kinds, windows that end anywhere, segments that become shorter, and what is sent again while it is still on its way.
    #[test]
    fn whatever_happens_segments_are_the_stream(steps in steps()) {
        let mut pool = Pool::new(&Arena::new(16 << 20));
        let mut pool = pool.bind();
        let (mut queue, mut stream) = (SendQueue::default(), Vec::new());
        let (mut una, mut nxt) = (0usize, 0usize);
        let (mut seen, mut left) = (Vec::new(), Vec::new());
        for step in steps {
            match step {
                Step::Push(blocks, is_seen, has_room) => {
                    let headroom = if has_room { HEADROOM } else { 0 };
                    let mut whole: Option<Message> = None;
                    for len in &blocks {
                        let bytes: Vec<u8> = (stream.len()..stream.len() + len).map(|at| (at * 7 + at / 251) as u8).collect();
                        stream.extend(&bytes);
                        let block = pool.copy_from_slice_summed(headroom, &bytes, *len).unwrap();
                        if is_seen {
                            seen.push(block.share(&mut pool).unwrap());
                        }
                        match &mut whole {
                            None => whole = Some(block),
                            Some(whole) => whole.push_continuation(block),
                        }
                    }
                    let whole = whole.unwrap();
                    if whole.total_len() <= 100 {
                        queue.push(whole);
                    } else {
                        queue.push_long(whole);
                    }
                }
                Step::Send(mss, window) => {
                    // As the engine has it in `lengthen`.
                    let mut window = window.min((stream.len() - nxt) as u32);
                    while window > 0 {
                        let max = mss.min(window);
                        let (len, train) = queue.segment((nxt - una) as u32, max, &mut pool);
                        prop_assert!((1..=max).contains(&len));
                        let mut train = train.unwrap();
                        prop_assert_eq!(train.total_len(), len as usize);
                        let from = nxt;
                        nxt += len as usize;
                        window -= len;
                        while window > 0 {
                            let unsent = (stream.len() - nxt) as u32;
                            let max = mss.min(window);
                            let room = if unsent > max { window.min(unsent - 1).max(max) } else { max };
                            let coupled = queue.couple(&mut train, (nxt - una) as u32, Room { max, room }, &mut pool);
                            prop_assert!(coupled <= room);
                            nxt += coupled as usize;
                            window -= coupled;
                            if coupled == 0 || coupled % len != 0 || nxt == stream.len() {
                                break;
                            }
                        }
                        prop_assert!(train.total_len() <= TRAIN_BYTES.max(mss as usize));
                        prop_assert_eq!(train.total_len(), nxt - from);
                        let segments = segments_of(&train);
                        prop_assert_eq!(&segments.concat()[..], &stream[from..nxt]);
                        if train.segment_bytes() != 0 {
                            prop_assert_eq!(train.segments(), segments.len());
                            prop_assert_eq!(train.segment_bytes(), len);
                            prop_assert_eq!(train.len(), len as usize);
                            let (last, full) = segments.split_last().unwrap();
                            prop_assert!(full.iter().all(|segment| segment.len() == len as usize));
                            prop_assert!((1..=len as usize).contains(&last.len()));
                        }
                        // Headers go in front, and change nothing behind them.
                        train.prepend(52).unwrap().fill(0xee);
                        left.push((train, from..nxt));
                    }
                }
                Step::Again(part, bytes) => {
                    let from = una + ((nxt - una) as f64 * part) as usize;
                    if from < nxt {
                        let max = bytes.min((nxt - from) as u32);
                        let (len, again) = queue.segment((from - una) as u32, max, &mut pool);
                        prop_assert!((1..=max).contains(&len));
                        let mut again = again.unwrap();
                        prop_assert_eq!(&bytes_of(&again)[..], &stream[from..from + len as usize]);
                        again.prepend(52).unwrap().fill(0xdd);
                        left.push((again, from..from + len as usize));
                    }
                }
                Step::Acknowledge(part) => {
                    let bytes = ((nxt - una) as f64 * part) as usize;
                    queue.release(bytes as u32);
                    una += bytes;
                }
                Step::Complete => left.clear(),
            }
            for (segment, range) in &left {
                prop_assert_eq!(&bytes_of(segment)[52..], &stream[range.clone()]);
            }
        }
        drop(seen);
    }
}

/// What ends a record ends a segment, whatever would fit into it, and how often it is sent; and pieces that have come from a peer end none.
#[test]
fn records_do_not_share_segments() {
    /// Pieces, whether each ends a record, and the segments of them.
    type Row = (&'static [(usize, bool)], &'static [u32]);
    let rows: [Row; 7] = [
        (&[(300, false), (300, false), (300, false)], &[900]),
        (&[(300, true), (300, false), (300, false)], &[300, 600]),
        (&[(300, false), (300, true), (300, false)], &[600, 300]),
        (&[(300, true), (300, true), (300, true)], &[300, 300, 300]),
        (&[(1000, true), (300, false)], &[1000, 300]),
        (&[(1300, true), (300, false)], &[1000, 300, 300]),
        (&[(1300, false), (300, true), (9, false)], &[1000, 600, 9]),
    ];
    for (pieces, segments) in rows {
        let mut pool = Pool::new(&Arena::new(4 << 20));
        let mut pool = pool.bind();
        let mut queue = SendQueue::default();
        let mut ends = Vec::new();
        let mut end = 0;
        for (len, ends_record) in pieces {
            let mut piece = pool.copy_from_slice(HEADROOM, &vec![7; *len]).unwrap();
            end += *len as u32;
            // Others have been somewhere in a stream.
            piece.set_position(7);
            if *ends_record {
                piece.set_position(RECORD_END);
                ends.push(end);
            }
            match *len > MAX as usize {
                true => queue.push_long(piece),
                false => queue.push(piece),
            }
        }
        for _ in 0..2 {
            let mut sent = 0;
            for expected in segments {
                let (len, segment) = queue.segment(sent, MAX, &mut pool);
                assert_eq!(len, *expected, "{pieces:?}");
                sent += len;
                let is_end = segment.unwrap().position() == RECORD_END;
                assert_eq!(is_end, ends.contains(&sent), "{pieces:?}");
            }
            assert_eq!(sent, end);
        }
        let (len, _) = queue.whole(0, end, &mut pool);
        assert_eq!(len, *ends.first().unwrap_or(&end), "{pieces:?}");
    }
}
