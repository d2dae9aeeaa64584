//! How far a comparison is, on a terminal; in a pipe nothing.

use braidnet_lab::compare::Progress;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::io;

/// One line on standard error, rewritten in place if that is a terminal.
pub struct Bar {
    bar: ProgressBar,
}

impl Bar {
    /// An empty one.
    pub fn new() -> Bar {
        let bar = ProgressBar::with_draw_target(Some(0), ProgressDrawTarget::stderr_with_hz(4));
        let style = ProgressStyle::with_template(
            "{bar:16} {pos}/{len}, {elapsed} of about {duration}  {wide_msg}",
        );
        if let Ok(style) = style {
            bar.set_style(style);
        }
        Bar { bar }
    }

    /// From now on Ctrl-C takes the line away and ends the process, as a shell expects of one that was interrupted.
    ///
    /// # Errors
    /// If the system does not let signals be handled or gives no thread.
    pub fn clear_on_interrupt(&self) -> io::Result<()> {
        let mut signals = Signals::new([SIGINT, SIGTERM])?;
        let bar = self.bar.clone();
        // What is measured is in memory, so there is nothing to undo: the process may end where it stands.
        std::thread::Builder::new()
            .name("signals".to_owned())
            .spawn(move || {
                if let Some(signal) = signals.forever().next() {
                    bar.finish_and_clear();
                    std::process::exit(128 + signal);
                }
            })?;
        Ok(())
    }

    /// Takes the line away.
    pub fn clear(&self) {
        self.bar.finish_and_clear();
    }
}

impl Progress for Bar {
    fn expect(&mut self, measurements: usize) {
        self.bar
            .set_length(self.bar.position() + measurements as u64);
    }

    fn begin(&mut self, what: &str) {
        self.bar.set_message(what.to_owned());
        self.bar.tick();
    }

    fn end(&mut self) {
        self.bar.inc(1);
    }
}
