//! Character generator (RFC 864): sends a pattern as fast as it is taken.

use braidnet::message::Message;
use braidnet::wire::address::Tuple;
use braidnet::{Duration, Io, Service, Session};

/// The character generator (RFC 864), over TCP: lines of 72 printing characters, each beginning one character further on
/// in the 95 of ASCII, until the peer closes.
#[derive(Clone, Copy, Debug, Default)]
pub struct Chargen;

impl Service for Chargen {
    fn open(&self, _: &Tuple) -> Box<dyn Session> {
        Box::new(Generating::default())
    }
}

/// Printing characters of ASCII, the space among them.
const CHARACTERS: usize = 95;
/// Characters of a line, and these with the line's end.
const LINE: usize = 72;
const LINE_WITH_END: usize = LINE + 2;
/// The pattern begins anew after as many lines as there are characters.
const PERIOD: usize = CHARACTERS * LINE_WITH_END;
/// The pattern, and so much of it once more that the longest message is one piece of it wherever it begins.
static PATTERN: [u8; PERIOD + LONGEST] = pattern();
const LONGEST: usize = 1 << 16;

const fn pattern() -> [u8; PERIOD + LONGEST] {
    let mut pattern = [0; PERIOD + LONGEST];
    let mut at = 0;
    while at < pattern.len() {
        let (line, column) = (at / LINE_WITH_END, at % LINE_WITH_END);
        pattern[at] = match column {
            LINE => b'\r',
            column if column > LINE => b'\n',
            column => b' ' + ((line + column) % CHARACTERS) as u8,
        };
        at += 1;
    }
    pattern
}

#[derive(Default)]
struct Generating {
    /// Where in the pattern the next byte is.
    at: usize,
    stopped: bool,
}

/// How long it waits when the stack has no buffer.
const RETRY: Duration = Duration::from_millis(20);

impl Generating {
    /// Fills what space there is with views of the pattern, in whole segments: what is short ends a train.
    fn fill(&mut self, io: &mut Io<'_, '_>) {
        let (mss, piece) = (io.mss(), io.piece().min(LONGEST));
        while io.space() >= mss as u64 && !self.stopped {
            let bytes = (io.space().min(piece as u64) as usize).max(mss);
            let bytes = bytes - bytes % mss;
            let Some(message) = io.pool().view_static(&PATTERN[self.at..self.at + bytes]) else {
                io.wake_at(io.now() + RETRY);
                return;
            };
            if io.send(message).is_err() {
                // The connection is closing.
                return;
            }
            self.at = (self.at + bytes) % PERIOD;
        }
    }
}

impl Session for Generating {
    fn connected(&mut self, io: &mut Io<'_, '_>) {
        self.fill(io);
    }

    fn space(&mut self, io: &mut Io<'_, '_>) {
        self.fill(io);
    }

    /// RFC 864: any input is thrown away.
    fn data(&mut self, message: Message, io: &mut Io<'_, '_>) {
        io.took(message.total_len());
    }

    /// Whoever only listens is sent on; a peer that is gone answers with a reset.
    fn end_of_data(&mut self, _: &mut Io<'_, '_>) {}

    fn stopping(&mut self, io: &mut Io<'_, '_>) {
        self.stopped = true;
        io.close();
    }

    fn wake(&mut self, io: &mut Io<'_, '_>) {
        self.fill(io);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pattern_is_that_of_the_rfc() {
        let lines: Vec<&[u8]> = PATTERN.chunks(LINE_WITH_END).collect();
        assert!(lines[0].starts_with(b" !\"#$%&'()") && lines[0].ends_with(b"cdefg\r\n"));
        assert!(lines[1].starts_with(b"!\"#$") && lines[1].ends_with(b"defgh\r\n"));
        assert!(lines[94].starts_with(b"~ !\"#"));
        assert!(lines.len() > 95);
        assert!(
            PATTERN
                .iter()
                .all(|byte| matches!(byte, b' '..=b'~' | b'\r' | b'\n'))
        );
    }
}
