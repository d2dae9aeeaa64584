//! Passes over a run, with one verdict for each message.

use braidnet_message::{Message, Run};
use braidnet_stream::{Context, Counter, Trace};

/// What becomes of a message.
#[derive(Clone, Copy)]
pub(crate) enum Verdict {
    /// It goes on to the first neighbour in its direction.
    Stay,
    /// It goes up this link.
    Up(u8),
    /// It goes down this link.
    Down(u8),
    /// It is more than one: this takes it apart, and hands on what comes of it.
    Split(fn(Message, &mut Context<'_>)),
    /// It is dropped under this name, counted by segments.
    Drop(Counter),
}

impl Verdict {
    /// Dropped under the name of `reason`.
    #[inline]
    pub(crate) fn drop(reason: impl Into<Counter>) -> Verdict {
        Verdict::Drop(reason.into())
    }
}

/// Asks `judge` for a verdict on each message of `run`, in order, and carries it out.
///
/// As long as all messages stay none is moved: most runs are of one kind. From the first that does not stay, the run is
/// taken apart, and order is kept on every link. For modules whose first neighbour comes right behind this stage: what
/// stays must not be owed to a later stage of the module.
#[inline]
pub(crate) fn sift(
    run: &mut Run,
    cx: &mut Context<'_>,
    judge: impl FnMut(&mut Message, &mut Context<'_>) -> Verdict,
) {
    sift_from(0, run, cx, judge);
}

/// [`sift`], where nearly every message is a usual one: it stays, and `take` does all that is to be done with it. What `take`
/// refuses it leaves as it was, and from there on the run is judged; `judge` takes usual messages, too.
#[inline(always)]
pub(crate) fn sift_usual(
    run: &mut Run,
    cx: &mut Context<'_>,
    take: impl FnMut(&mut Message) -> bool,
    judge: impl FnMut(&mut Message, &mut Context<'_>) -> Verdict,
) {
    let taken = take_front(run, take);
    if taken < run.len() {
        sift_from(taken, run, cx, judge);
    }
}

/// Shows the messages of `run` to `take` until it refuses one; how many it took. A loop without calls needs no stack, and none is
/// made where `take` makes none.
#[inline(always)]
pub(crate) fn take_front(run: &mut Run, mut take: impl FnMut(&mut Message) -> bool) -> usize {
    let mut messages = run.iter_mut();
    while let Some(message) = messages.next() {
        if !take(message) {
            let left = messages.len() + 1;
            return run.len() - left;
        }
    }
    run.len()
}

/// [`sift`] from the message at `start` on; those before it stay.
#[inline(never)]
fn sift_from(
    start: usize,
    run: &mut Run,
    cx: &mut Context<'_>,
    mut judge: impl FnMut(&mut Message, &mut Context<'_>) -> Verdict,
) {
    for (index, message) in run.iter_mut().enumerate().skip(start) {
        match judge(message, cx) {
            Verdict::Stay => {}
            other => return take_apart(run, cx, index, other, judge),
        }
    }
}

/// Drops the messages of `run`, from the one at `start` on, for which `judge` says no; the others keep their order. It is shown
/// each with those that were kept before it.
///
/// As [`Run::retain_mut`], with one call of `judge`, so that it becomes part of the loop.
#[inline(always)]
pub(crate) fn keep(
    start: usize,
    run: &mut Run,
    mut judge: impl FnMut(&[Message], &mut Message) -> bool,
) {
    let messages = run.as_mut_slice();
    let mut kept = start;
    for index in start..messages.len() {
        let (before, rest) = messages.split_at_mut(index);
        if judge(&before[..kept], &mut rest[0]) {
            if kept != index {
                messages.swap(kept, index);
            }
            kept += 1;
        }
    }
    while run.len() > kept {
        run.pop();
    }
}

/// Goes on with a run of which the first `stayed` messages stay and the next has got the verdict `other`.
fn take_apart(
    run: &mut Run,
    cx: &mut Context<'_>,
    stayed: usize,
    other: Verdict,
    mut judge: impl FnMut(&mut Message, &mut Context<'_>) -> Verdict,
) {
    let mut messages = run.drain();
    for message in messages.by_ref().take(stayed) {
        cx.put_next(message);
    }
    if let Some(message) = messages.next() {
        carry_out(message, other, cx);
    }
    for mut message in messages {
        let verdict = judge(&mut message, cx);
        carry_out(message, verdict, cx);
    }
}

#[inline]
fn carry_out(message: Message, verdict: Verdict, cx: &mut Context<'_>) {
    match verdict {
        Verdict::Stay => cx.put_next(message),
        Verdict::Up(link) => cx.up_link(usize::from(link), message),
        Verdict::Down(link) => cx.down_link(usize::from(link), message),
        Verdict::Split(split) => split(message, cx),
        Verdict::Drop(reason) => {
            cx.count_dropped(Trace::of(&message), reason, message.segments() as u64);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use braidnet_message::{Arena, Pool};

    fn run_of(pool: &mut Pool, bytes: &[u8]) -> Run {
        let message = |byte: &u8| pool.copy_from_slice(0, &[*byte]).unwrap();
        bytes.iter().map(message).collect()
    }

    fn bytes_of(messages: &[Message]) -> Vec<u8> {
        messages.iter().map(|message| message.bytes()[0]).collect()
    }

    /// A message is refused if its byte is 0.
    #[test]
    fn what_is_refused_goes_and_what_is_kept_keeps_its_order() {
        let mut pool = Pool::new(&Arena::new(1 << 20));
        let rows: [(usize, &[u8], &[u8]); 8] = [
            (0, &[], &[]),
            (0, &[1, 2, 3], &[1, 2, 3]),
            (0, &[0, 1, 2], &[1, 2]),
            (0, &[1, 0, 2, 0, 0, 3], &[1, 2, 3]),
            (0, &[0, 0], &[]),
            (1, &[0, 0, 1], &[0, 1]),
            (2, &[1, 2, 0, 3, 4], &[1, 2, 3, 4]),
            (2, &[1, 2], &[1, 2]),
        ];
        for (start, bytes, expected) in rows {
            let mut run = run_of(&mut pool, bytes);
            let mut shown = Vec::new();
            keep(start, &mut run, |before, message| {
                let byte = message.bytes()[0];
                let meant = expected.iter().take(before.len()).copied();
                assert!(bytes_of(before).into_iter().eq(meant), "{bytes:?}");
                shown.push(byte);
                byte != 0
            });
            assert_eq!(shown, bytes[start..], "{bytes:?}");
            assert_eq!(bytes_of(run.as_mut_slice()), expected, "{bytes:?}");
        }
    }

    #[test]
    fn the_front_ends_where_one_is_refused() {
        let mut pool = Pool::new(&Arena::new(1 << 20));
        let rows: [(&[u8], usize); 5] = [
            (&[], 0),
            (&[0, 1], 0),
            (&[1, 0, 2], 1),
            (&[1, 2, 0], 2),
            (&[1, 2, 3], 3),
        ];
        for (bytes, taken) in rows {
            let mut run = run_of(&mut pool, bytes);
            let mut shown = Vec::new();
            let count = take_front(&mut run, |message| {
                shown.push(message.bytes()[0]);
                message.bytes()[0] != 0
            });
            assert_eq!(count, taken, "{bytes:?}");
            assert_eq!(shown, bytes[..bytes.len().min(taken + 1)], "{bytes:?}");
            assert_eq!(bytes_of(run.as_mut_slice()), bytes);
        }
    }
}
