//! What is read and written of one connection, in parts of any size.

use super::*;
use braidnet_message::Arena;
use braidnet_stream::{BucketId, Verb};
use braidnet_wire::address::Address;

fn endpoint() -> Endpoint {
    let tuple = Tuple {
        local: Address::default(),
        remote: Address::default(),
        local_port: 1,
        remote_port: 2,
    };
    Endpoint::new(ConnectionId::new(BucketId(3), 4, 5), tuple)
}

/// One that may send, on a device that takes four segments of 1,000 bytes at once.
fn endpoint_of_pieces() -> Endpoint {
    let mut endpoint = endpoint();
    endpoint.open(&Control::new(Verb::Connected).pieces(1000, 4).value(1 << 20));
    endpoint
}

/// A header's block, of which nothing is left, and `blocks` behind it.
fn chain(blocks: &[&[u8]], pool: &mut Pool) -> Message {
    let mut message = pool.allocate(HEADROOM, 0).unwrap();
    message.set_connection(7);
    for block in blocks {
        message.push_continuation(pool.copy_from_slice(HEADROOM, block).unwrap());
    }
    message
}

#[test]
fn a_chain_is_read_in_parts_of_any_size_and_its_blocks_are_freed_on_the_way() {
    let mut pool = Pool::new(&Arena::new(1 << 20));
    let mut pool = pool.bind();
    let blocks: [&[u8]; 4] = [b"once ", b"", b"upon a time", b"!"];
    let whole = blocks.concat();
    for part in 1..=2 * whole.len() + 1 {
        let mut endpoint = endpoint();
        endpoint.push(chain(&blocks, &mut pool));
        endpoint.push(chain(&blocks, &mut pool));
        let mut heard: Vec<u8> = Vec::new();
        while endpoint.readable() > 0 {
            let mut to = vec![0; part];
            let n = endpoint.read(&mut to, &mut pool);
            heard.extend_from_slice(&to[..n]);
            assert_eq!(endpoint.readable(), 2 * whole.len() - heard.len());
        }
        assert_eq!(heard, [&whole[..], &whole].concat(), "{part} at a time");
        assert_eq!(endpoint.unreported as usize, heard.len());
        assert!(endpoint.front.is_none() && endpoint.behind.is_empty());
    }
}

#[test]
fn what_is_left_of_a_message_can_be_taken_out() {
    let mut pool = Pool::new(&Arena::new(1 << 20));
    let mut pool = pool.bind();
    let mut endpoint = endpoint();
    let message = chain(&[b"one ", b"two ", b"three"], &mut pool);
    let seen = message.share(&mut pool).unwrap();
    endpoint.push(message);
    assert_eq!(endpoint.read(&mut [0; 6], &mut pool), 6);
    let freed = std::iter::successors(Some(&seen), |block| block.continuation());
    assert_eq!(
        freed.map(Message::is_unique).collect::<Vec<_>>(),
        [true, true, false, false],
        "the blocks in front are freed at once"
    );
    let rest = endpoint.take().unwrap();
    assert_eq!(rest.blocks().collect::<Vec<_>>(), [&b"o "[..], b"three"]);
    assert_eq!((rest.connection(), endpoint.readable()), (7, 0));
    assert!(endpoint.take().is_none());
}

/// Where a device takes several segments at once, what is written goes down in pieces of whole segments, in the order of the stream, and a last segment that is not
/// full is filled by what is written next.
#[test]
fn long_writes_go_down_in_pieces_of_whole_segments() {
    let rows: [(&[usize], &[usize]); 6] = [
        (&[300], &[300]),
        (&[1000], &[1000]),
        (&[10_000, 10_000], &[4000, 4000, 2000, 4000, 4000, 2000]),
        (&[4500], &[4000, 500]),
        (&[2500, 700, 100], &[3000, 300]),
        (&[3960], &[3960]),
    ];
    for (writes, pieces) in rows {
        let mut pool = Pool::new(&Arena::new(4 << 20));
        let mut pool = pool.bind();
        let mut endpoint = endpoint_of_pieces();
        let (mut down, mut written) = (Vec::new(), Vec::new());
        for (number, len) in writes.iter().enumerate() {
            let bytes: Vec<u8> = (0..*len).map(|at| (at * 7 + number) as u8).collect();
            let taken = endpoint.write(&bytes, &mut pool, |piece| down.push(piece));
            assert_eq!(taken, *len);
            written.extend(bytes);
        }
        endpoint.flush(|piece| down.push(piece));
        let lengths: Vec<usize> = down.iter().map(Message::total_len).collect();
        assert_eq!(lengths, pieces, "{writes:?}");
        let sent: Vec<u8> = down
            .iter()
            .flat_map(|piece| piece.bytes().to_vec())
            .collect();
        assert!(sent == written, "{writes:?}");
    }
}

/// What is held back is less than a segment, however long the pieces are.
#[test]
fn full_segments_are_not_held_back() {
    // What is written, and whether it is held back; what has gone down by then.
    type Row = (&'static [(usize, bool)], &'static [usize]);
    let rows: [Row; 6] = [
        (&[(3500, true)], &[3000]),
        (&[(500, true)], &[]),
        (&[(5000, true), (1200, true)], &[4000, 1000, 1000]),
        (&[(3500, true), (700, true)], &[3000, 1000]),
        (&[(500, false), (400, true)], &[]),
        (&[(3500, false), (400, true)], &[3500]),
    ];
    for (writes, pieces) in rows {
        let mut pool = Pool::new(&Arena::new(4 << 20));
        let mut pool = pool.bind();
        let mut endpoint = endpoint_of_pieces();
        let mut down = Vec::new();
        for (len, holds) in writes {
            endpoint.hold_back(*holds, |piece| down.push(piece));
            endpoint.write(&vec![7; *len], &mut pool, |piece| down.push(piece));
        }
        endpoint.flush(|piece| down.push(piece));
        let lengths: Vec<usize> = down.iter().map(Message::total_len).collect();
        assert_eq!(lengths, pieces, "{writes:?}");
    }
}

/// Where no long buffer is to be had, short ones do.
#[test]
fn a_long_write_makes_do_with_short_buffers() {
    let mut pool = Pool::new(&Arena::new(2 << 20));
    let mut pool = pool.bind();
    // They are out of long ones, and of all others but these.
    assert_eq!(pool.fill_reserve(1, 1000), 1);
    let short: Vec<Message> = (0..64)
        .map(|_| pool.allocate(HEADROOM, 1000).unwrap())
        .collect();
    let mut long = Vec::new();
    while let Some(buffer) = pool.allocate_spare(HEADROOM, 4000) {
        long.push(buffer);
    }
    short.into_iter().for_each(|buffer| pool.free(buffer));
    let mut endpoint = endpoint_of_pieces();
    let mut down = Vec::new();
    assert_eq!(
        endpoint.write(&[7; 8000], &mut pool, |piece| down.push(piece)),
        8000
    );
    endpoint.flush(|piece| down.push(piece));
    assert!(down.iter().all(|piece| piece.total_len() == 1000));
    // Nobody else is refused anything for that.
    assert_eq!((pool.scarcity(), pool.refused()), (Scarcity::Ample, 0));
}
