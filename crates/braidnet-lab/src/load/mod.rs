//! The applications of the laboratory, as modules over the same stack.
//!
//! | | below it | core (ordered) | order-free |
//! |---|---|---|---|
//! | [`Sink`](sink::Sink) | TCP | counts what came and gives the window back | copies every message out |
//! | [`Samples`](records::Samples) | records | | decodes every record and sums it |
//! | [`Source`](source::Source) and [`Compose`](compose::Compose) | TCP | takes the space that it is given; keeps order | fills segments, copying and summing in one pass |
//! | [`Client`](echo::Client) and [`Server`](echo::Server) | TCP | one message there and back | |
//! | [`datagrams`] | UDP | | all of it |
//! | [`Work`](work::Work) | any of those that receive | | as much as was asked for, which can be done in pieces |
//!
//! Each counts what it has received under `bytes`, `hash` and `samples`, in the counters of its processor.

pub(crate) mod compose;
pub(crate) mod consumer;
pub(crate) mod datagrams;
pub(crate) mod echo;
pub(crate) mod records;
pub(crate) mod sink;
pub(crate) mod source;
pub(crate) mod work;

use braidnet_stream::{ConnectionId, Context, Control, Counter, Verb};
use braidnet_wire::address::Tuple;
use std::cell::RefCell;
use std::sync::Arc;

/// Numbers of connections by the port that tells them apart, the same at both ends: that of the far end, or of the client.
#[derive(Clone)]
pub(crate) struct Numbers(Arc<[u32]>);

impl Numbers {
    /// Of connections seen from the near end.
    pub(crate) fn new(lines: &[Tuple]) -> Numbers {
        let mut numbers = vec![u32::MAX; 1 << 16];
        for (number, line) in lines.iter().enumerate() {
            numbers[usize::from(line.remote_port)] = number as u32;
        }
        Numbers(numbers.into())
    }

    /// Of a connection, seen from the near end.
    #[inline]
    pub(crate) fn of(&self, line: &Tuple) -> u32 {
        self.0[usize::from(line.remote_port)]
    }
}

/// Takes a connection up; counts under `lost` if that cannot be said.
pub(crate) fn accept(id: ConnectionId, lost: Counter, cx: &mut Context<'_>) {
    tell(Control::new(Verb::Accepted), id, lost, cx);
}

/// Gives `bytes` back to a connection's window; counts under `lost` if that cannot be said.
#[inline]
pub(crate) fn give_credit(id: ConnectionId, bytes: u64, lost: Counter, cx: &mut Context<'_>) {
    tell(Control::new(Verb::Credit).value(bytes), id, lost, cx);
}

#[inline]
fn tell(control: Control, id: ConnectionId, lost: Counter, cx: &mut Context<'_>) {
    match control.message(id, cx.pool()) {
        Some(message) => cx.down(message),
        None => cx.count(lost, 1),
    }
}

thread_local! {
    static BUFFER: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// The application's buffer on this thread, of at least `bytes` bytes.
#[inline]
pub(crate) fn with_buffer<R>(bytes: usize, work: impl FnOnce(&mut [u8]) -> R) -> R {
    BUFFER.with_borrow_mut(|buffer| {
        if buffer.len() < bytes {
            buffer.resize(bytes, 0);
        }
        work(buffer)
    })
}
