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
static PATTERN: [u8; PERIOD] = pattern();

const fn pattern() -> [u8; PERIOD] {
    let mut pattern = [0; PERIOD];
    let mut at = 0;
    while at < PERIOD {
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
    /// Fills what space there is, in whole segments, wherever the pattern begins anew: what is short ends a train.
    fn fill(&mut self, io: &mut Io<'_, '_>) {
        while io.space() > 0 && !self.stopped {
            let bytes = (io.space() as usize).min(io.mss());
            let Some(mut message) = io.allocate(bytes) else {
                io.wake_at(io.now() + RETRY);
                return;
            };
            let mut at = self.at;
            while message.total_len() < bytes {
                let left = bytes - message.total_len();
                let pattern = &PATTERN[at..];
                let copied = message.extend_from_slice_summed(&pattern[..left.min(pattern.len())]);
                at = (at + copied) % PERIOD;
            }
            if io.send(message).is_err() {
                // The connection is closing.
                return;
            }
            self.at = at;
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
        assert_eq!(lines.len(), 95);
        assert!(
            PATTERN
                .iter()
                .all(|byte| matches!(byte, b' '..=b'~' | b'\r' | b'\n'))
        );
    }
}
