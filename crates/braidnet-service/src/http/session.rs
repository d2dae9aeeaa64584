//! One connection's conversation.

use super::at_once::{Answer, answer};
use super::files::{Errand, FAILED, Queue, Returns, Transfer, Work};
use super::request::{Parsed, Request, parse};
use super::response::{Status, plain};
use super::root::Root;
use super::{HEAD_TIME, IDLE_TIME, MAX_HEAD, STALL_TIME};
use crate::pending::{Pending, Widened};
use braidnet::message::Message;
use braidnet::wire::address::Tuple;
use braidnet::{Instant, Io, Service, Session};
use std::collections::VecDeque;
use std::sync::{Arc, PoisonError};

/// The files of a directory, over HTTP/1.1. Made by [`Files::directory`](super::Files::directory).
pub struct Http {
    root: Arc<Root>,
    queue: Arc<Queue>,
}

impl Http {
    pub(super) fn new(root: Root, queue: Arc<Queue>) -> Http {
        Http {
            root: Arc::new(root),
            queue,
        }
    }
}

impl Service for Http {
    fn open(&self, _: &Tuple) -> Box<dyn Session> {
        Box::new(Conversation {
            root: self.root.clone(),
            queue: self.queue.clone(),
            received: Pending::default(),
            searched: 0,
            skip: 0,
            phase: Phase::Head,
            keep_alive: true,
            ended: false,
            stopping: false,
            outgoing: VecDeque::new(),
            at_once: 0,
            transfer: None,
            returns: Returns::default(),
            progress: Instant::ZERO,
        })
    }
}

struct Conversation {
    root: Arc<Root>,
    queue: Arc<Queue>,
    /// Received, and not understood yet: the peer may send on only as requests are taken.
    received: Pending,
    /// Bytes of it that have been looked at and hold no whole head.
    searched: usize,
    /// Bytes of a request's body that are still to be read over.
    skip: u64,
    phase: Phase,
    /// Another request may follow the one that is being answered.
    keep_alive: bool,
    /// The peer has sent everything it will.
    ended: bool,
    stopping: bool,
    /// Segments that there was no space for.
    outgoing: VecDeque<Message>,
    /// Requests that were answered by the session itself since it was called.
    at_once: usize,
    /// What of the file is still to be read.
    transfer: Option<Transfer>,
    returns: Returns,
    /// When something last went forward.
    progress: Instant,
}

/// Where a conversation stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Phase {
    /// A request is to come.
    Head,
    /// A file thread is at work for the response.
    Errand,
    /// The response is being sent.
    Sending,
    /// The last response has been sent; whatever comes is thrown away.
    Over,
}

/// Bytes of a file that one errand reads at most.
const ERRAND_BYTES: u64 = 128 << 10;

/// Requests that a session answers by itself before it leaves one to a thread, and lets others have their turn meanwhile.
const AT_ONCE: usize = 16;

impl Conversation {
    /// Carries the conversation as far as it goes now.
    fn advance(&mut self, io: &mut Io<'_, '_>) {
        self.at_once = 0;
        loop {
            self.send_outgoing(io);
            let went_on = match self.phase {
                Phase::Head => self.take_request(io),
                Phase::Errand => false,
                Phase::Sending => self.send_more(io),
                Phase::Over => {
                    io.took(self.received.clear());
                    false
                }
            };
            if !went_on {
                return;
            }
        }
    }

    /// Sends what there is space for.
    fn send_outgoing(&mut self, io: &mut Io<'_, '_>) {
        while let Some(message) = self.outgoing.pop_front() {
            if let Err(message) = io.send(message) {
                self.outgoing.push_front(message);
                return;
            }
            self.progress = io.now();
        }
    }

    /// Looks for the next request; true if there is one.
    fn take_request(&mut self, io: &mut Io<'_, '_>) -> bool {
        if self.skip > 0 {
            let over = self
                .received
                .strip(usize::try_from(self.skip).unwrap_or(usize::MAX));
            io.took(over);
            self.skip -= over as u64;
        }
        if self.received.is_empty() || self.skip > 0 {
            if self.ended || self.stopping {
                self.finish(io);
            }
            return false;
        }
        let first_look = self.searched == 0;
        loop {
            let head = self.received.front();
            let has_line = head[self.searched.min(head.len())..].contains(&b'\n');
            let parsed = if has_line || head.len() >= MAX_HEAD {
                parse(head)
            } else {
                Parsed::Partial
            };
            match parsed {
                Parsed::Request(len, request) => {
                    io.took(self.received.strip(len));
                    self.searched = 0;
                    self.open_file(request, io);
                    return true;
                }
                Parsed::Refused(status) => {
                    self.refuse(status, io);
                    return true;
                }
                Parsed::Partial => self.searched = head.len(),
            }
            match self.received.widen(MAX_HEAD, io.pool()) {
                Widened::More => {}
                Widened::Nothing => break,
                Widened::NoBuffer => {
                    io.abort();
                    return false;
                }
            }
        }
        if self.ended {
            self.finish(io);
        } else if first_look {
            io.wake_at(io.now() + HEAD_TIME);
        }
        false
    }

    fn open_file(&mut self, request: Box<Request>, io: &mut Io<'_, '_>) {
        self.skip = request.body;
        self.keep_alive = request.keep_alive && !self.stopping;
        self.progress = io.now();
        io.wake_at(io.now() + STALL_TIME);
        let work = match self.answer(&request, io) {
            Some(Answer::Whole(response)) if self.put(&response, io) => {
                self.phase = Phase::Sending;
                return;
            }
            Some(Answer::Begun(head, transfer)) => Work::Answer(head, transfer),
            // Or there is no memory for it, for which a thread can wait.
            _ => Work::Open {
                root: self.root.clone(),
                request,
                keep_alive: self.keep_alive,
            },
        };
        self.send_out(work, io);
    }

    /// Answers by itself, as far as that goes.
    fn answer(&mut self, request: &Request, io: &mut Io<'_, '_>) -> Option<Answer> {
        if self.at_once == AT_ONCE || !self.queue.has_threads() {
            return None;
        }
        self.at_once += 1;
        let now = self.queue.now();
        answer(&self.root, request, self.keep_alive, io.space(), now)
    }

    /// Puts a response where there is nothing else to be sent: whole, or nothing of it if there is no memory. False then.
    fn put(&mut self, response: &[u8], io: &mut Io<'_, '_>) -> bool {
        for piece in response.chunks(io.piece()) {
            let Some(mut message) = io.allocate(piece.len()) else {
                self.outgoing.clear();
                return false;
            };
            message.extend_from_slice_summed(piece);
            self.outgoing.push_back(message);
        }
        true
    }

    /// Reads on, or goes on to the next request; false if that has to wait.
    fn send_more(&mut self, io: &mut Io<'_, '_>) -> bool {
        if !self.outgoing.is_empty() {
            return false;
        }
        match &self.transfer {
            Some(transfer) if io.space() < transfer.left().min(io.piece() as u64) => return false,
            Some(_) => {
                if let Some(transfer) = self.transfer.take() {
                    self.send_out(Work::Read(transfer), io);
                }
            }
            None if self.keep_alive => {
                self.phase = Phase::Head;
                io.wake_at(io.now() + IDLE_TIME);
            }
            None => {
                self.finish(io);
                return false;
            }
        }
        true
    }

    /// Gives a file thread something to do: never more than there is room to send.
    fn send_out(&mut self, work: Work, io: &mut Io<'_, '_>) {
        let Some(envelope) = io.pool().allocate(0, 0) else {
            io.abort();
            self.phase = Phase::Over;
            return;
        };
        self.phase = Phase::Errand;
        self.queue.push(Errand {
            ticket: io.ticket(),
            envelope,
            returns: self.returns.clone(),
            piece: io.piece(),
            max: io.space().min(ERRAND_BYTES) as usize,
            work,
        });
    }

    /// Answers with no more than a status, and closes.
    fn refuse(&mut self, status: Status, io: &mut Io<'_, '_>) {
        self.keep_alive = false;
        self.phase = Phase::Sending;
        self.progress = io.now();
        io.wake_at(io.now() + STALL_TIME);
        let response = plain(status, self.queue.now(), false, None);
        if !self.put(&response, io) {
            io.abort();
        }
    }

    /// Sends no more. What the peer still sends is read over for a while, so that a reset does not overtake the last
    /// response (RFC 9112 §9.6).
    fn finish(&mut self, io: &mut Io<'_, '_>) {
        self.phase = Phase::Over;
        io.took(self.received.clear());
        io.close();
        io.wake_at(io.now() + STALL_TIME);
    }
}

impl Session for Conversation {
    fn connected(&mut self, io: &mut Io<'_, '_>) {
        io.wake_at(io.now() + IDLE_TIME);
    }

    fn data(&mut self, message: Message, io: &mut Io<'_, '_>) {
        self.received.push(message);
        if matches!(self.phase, Phase::Head | Phase::Over) {
            self.advance(io);
        }
    }

    fn space(&mut self, io: &mut Io<'_, '_>) {
        self.progress = io.now();
        self.advance(io);
    }

    fn end_of_data(&mut self, io: &mut Io<'_, '_>) {
        self.ended = true;
        self.advance(io);
    }

    fn job(&mut self, mut envelope: Message, io: &mut Io<'_, '_>) {
        self.progress = io.now();
        if envelope.note::<u32>() == FAILED {
            self.phase = Phase::Over;
            return io.abort();
        }
        let mut rest = envelope.take_continuation();
        while let Some(mut segment) = rest {
            rest = segment.take_continuation();
            self.outgoing.push_back(segment);
        }
        self.transfer = self
            .returns
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        self.phase = Phase::Sending;
        self.advance(io);
    }

    fn wake(&mut self, io: &mut Io<'_, '_>) {
        match self.phase {
            Phase::Head if self.received.is_empty() && self.skip == 0 => self.finish(io),
            Phase::Head => {
                self.refuse(Status::RequestTimeout, io);
                self.advance(io);
            }
            _ if io.now().since(self.progress) >= STALL_TIME => io.abort(),
            _ => io.wake_at(self.progress + STALL_TIME),
        }
    }

    fn stopping(&mut self, io: &mut Io<'_, '_>) {
        self.stopping = true;
        self.keep_alive = false;
        if self.phase == Phase::Head {
            self.finish(io);
        }
    }
}
