//! Daytime (RFC 867): says what time it is, and closes.

use braidnet::message::Message;
use braidnet::wire::address::Tuple;
use braidnet::{Duration, Io, Service, Session};
use std::time::SystemTime;

/// The daytime service (RFC 867), over TCP: one line with date and time in GMT, then it closes.
///
/// ```text
/// Sun, 06 Nov 1994 08:49:37 GMT
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Daytime {
    clock: fn() -> SystemTime,
}

impl Daytime {
    /// What the system's clock says.
    pub fn new() -> Daytime {
        Daytime::with_clock(SystemTime::now)
    }

    /// What this clock says.
    pub fn with_clock(clock: fn() -> SystemTime) -> Daytime {
        Daytime { clock }
    }

    /// The line that is sent.
    fn line(&self) -> String {
        format!("{}\r\n", httpdate::fmt_http_date((self.clock)()))
    }
}

impl Default for Daytime {
    fn default() -> Daytime {
        Daytime::new()
    }
}

impl Service for Daytime {
    fn open(&self, _: &Tuple) -> Box<dyn Session> {
        Box::new(Saying { service: *self })
    }
}

struct Saying {
    service: Daytime,
}

/// How long a peer that got its answer may keep the connection half open.
const PATIENCE: Duration = Duration::from_secs(10);

impl Session for Saying {
    fn connected(&mut self, io: &mut Io<'_, '_>) {
        let line = self.service.line();
        if io.write(line.as_bytes()) == line.len() {
            io.close();
            io.wake_at(io.now() + PATIENCE);
        } else {
            // No buffer: half a line is worse than none.
            io.abort();
        }
    }

    /// RFC 867: any input is thrown away.
    fn data(&mut self, message: Message, io: &mut Io<'_, '_>) {
        io.took(message.total_len());
    }

    fn wake(&mut self, io: &mut Io<'_, '_>) {
        io.abort();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_is_one_line_in_gmt() {
        let service =
            Daytime::with_clock(|| SystemTime::UNIX_EPOCH + Duration::from_secs(784_111_777));
        assert_eq!(service.line(), "Sun, 06 Nov 1994 08:49:37 GMT\r\n");
    }
}
