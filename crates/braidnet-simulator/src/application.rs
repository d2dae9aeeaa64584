//! What an application does with its end of a connection.

use crate::case::{End, Habit};
use crate::content::{HEAD_BYTES, Stream, head};
use crate::random::Random;
use braidnet::{CloseReason, Connection, ReceiveError, SendError, Stack};

/// Most bytes that it takes or gives at once.
const MOST: u64 = 16_384;

/// One side of a talk.
#[derive(Debug)]
pub(crate) struct Application {
    pub(crate) connection: Connection,
    /// Which talk and which attempt of it; a server knows once it has read the head.
    pub(crate) talk: Option<(u32, u32)>,
    pub(crate) is_server: bool,
    pub(crate) habit: Habit,
    /// Bytes that it is to send, and to get.
    pub(crate) outgoing: u64,
    pub(crate) incoming: u64,
    pub(crate) sent: u64,
    pub(crate) received: u64,
    pub(crate) is_connected: bool,
    /// It has read the end of the other side's stream.
    pub(crate) is_at_end: bool,
    pub(crate) has_closed: bool,
    /// The stack has said that the connection is gone.
    pub(crate) gone: Option<CloseReason>,
    /// What is left of the long pause.
    long_pause: Option<(u64, u64)>,
    /// It does nothing before that, and at that time something if `wants`.
    pub(crate) acts_at: u64,
    pub(crate) wants: bool,
    head: Vec<u8>,
}

/// What came of an application's turn.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Act {
    Nothing,
    Something,
    /// A server has read which talk it is in.
    Named,
    /// It is done with the connection.
    Over(Over),
    /// The byte at this place of what it reads is not the one that was sent.
    Wrong(u64),
}

/// How a side ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Over {
    /// The connection was closed by both, reset and so on, as the stack says.
    Gone(CloseReason),
    /// It has aborted.
    Aborted,
    /// It has gone away.
    Left,
    /// Its host has lost all state.
    Lost,
}

impl Application {
    pub(crate) fn new(connection: Connection, is_server: bool, habit: Habit) -> Application {
        Application {
            connection,
            talk: None,
            is_server,
            long_pause: habit.long_pause,
            habit,
            outgoing: 0,
            incoming: HEAD_BYTES,
            sent: 0,
            received: 0,
            is_connected: is_server,
            is_at_end: false,
            has_closed: false,
            gone: None,
            acts_at: 0,
            wants: true,
            head: Vec::new(),
        }
    }

    pub(crate) fn is_named(&self) -> bool {
        self.talk.is_some()
    }

    fn stream(&self, back: bool) -> Option<Stream> {
        let (talk, attempt) = self.talk?;
        Some(Stream {
            talk,
            attempt,
            back,
        })
    }

    /// Reads, writes and ends, as it is used to.
    pub(crate) fn act(&mut self, now: u64, stack: &mut Stack, random: &mut Random) -> Act {
        self.wants = false;
        if !self.is_connected && self.gone.is_none() {
            return Act::Nothing;
        }
        let read = match self.read(stack, random) {
            Act::Nothing => false,
            Act::Something => true,
            other => return other,
        };
        let wrote = self.write(stack, random);
        if let Some(over) = self.end(stack) {
            return Act::Over(over);
        }
        if !read && !wrote {
            return Act::Nothing;
        }
        self.pause(now, random);
        Act::Something
    }

    fn pause(&mut self, now: u64, random: &mut Random) {
        self.wants = true;
        self.acts_at = now + random.below(self.habit.pause + 1);
        if let Some((after, pause)) = self.long_pause
            && self.received >= after
        {
            self.long_pause = None;
            self.acts_at = now + pause;
        }
    }

    fn read(&mut self, stack: &mut Stack, random: &mut Random) -> Act {
        if self.is_at_end {
            return Act::Nothing;
        }
        let most = random.sized(self.habit.reads.min(MOST)) as usize;
        let unnamed = (HEAD_BYTES as usize).saturating_sub(self.head.len());
        let is_unnamed = self.is_server && self.talk.is_none();
        let mut bytes = vec![0; if is_unnamed { unnamed } else { most }];
        match stack.receive(self.connection, &mut bytes) {
            Ok(0) => {
                self.is_at_end = true;
                Act::Something
            }
            Ok(n) => self.take(bytes.get(..n).unwrap_or_default()),
            Err(ReceiveError::Empty | ReceiveError::Gone) => Act::Nothing,
        }
    }

    fn take(&mut self, bytes: &[u8]) -> Act {
        let place = self.received;
        self.received += bytes.len() as u64;
        let Some(stream) = self.stream(!self.is_server) else {
            self.head.extend(bytes);
            let Ok(whole) = <[u8; HEAD_BYTES as usize]>::try_from(self.head.as_slice()) else {
                return Act::Something;
            };
            self.talk = Some(head(whole));
            return Act::Named;
        };
        match stream.differs(place, bytes) {
            Some(place) => Act::Wrong(place),
            None => Act::Something,
        }
    }

    fn write(&mut self, stack: &mut Stack, random: &mut Random) -> bool {
        let left = self.outgoing - self.sent;
        if left == 0 || self.has_closed {
            return false;
        }
        let Some(stream) = self.stream(self.is_server) else {
            return false;
        };
        let space = stack.send_space(self.connection) as u64;
        let most = random
            .sized(self.habit.writes.min(MOST))
            .min(left)
            .min(space);
        let mut bytes = vec![0; most as usize];
        stream.fill(self.sent, &mut bytes);
        match stack.send(self.connection, &bytes) {
            Ok(n) => {
                self.sent += n as u64;
                n > 0
            }
            Err(SendError::Closing | SendError::Gone) => false,
        }
    }

    /// Ends its side if it is time to.
    fn end(&mut self, stack: &mut Stack) -> Option<Over> {
        let exchanged = self.sent + self.received;
        let all = self.outgoing + self.incoming;
        match self.habit.end {
            End::Abort(after) if self.is_named() && exchanged >= after.min(all) => {
                stack.abort(self.connection);
                return Some(Over::Aborted);
            }
            End::Leave(after) if self.is_named() && exchanged >= after.min(all) => {
                stack.forget(self.connection);
                return Some(Over::Left);
            }
            _ => {}
        }
        if let Some(reason) = self.gone {
            let is_read = stack.readable(self.connection) == 0;
            if is_read && (self.is_at_end || reason != CloseReason::Closed) {
                stack.forget(self.connection);
                return Some(Over::Gone(reason));
            }
        }
        let has_sent = self.is_named() && self.sent == self.outgoing;
        let has_all = self.received >= self.incoming || self.is_at_end;
        let closes = match self.habit.end {
            End::WhenSent => has_sent,
            End::WhenDone => has_sent && has_all,
            End::Last => has_sent && self.is_at_end,
            End::Abort(_) | End::Leave(_) => false,
        };
        // Whoever has ended before saying which talk it is wants no answer.
        let is_nobody = self.is_at_end && !self.is_named();
        if (closes || is_nobody) && !self.has_closed {
            self.has_closed = true;
            self.wants = true;
            stack.close(self.connection);
        }
        None
    }
}
