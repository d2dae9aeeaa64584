//! Packet scripts: rules of TCP as exchanges of segments, readable as the figures of the RFCs.
//!
//! ```
//! use braidnet_scripts::scripts;
//!
//! scripts! {
//!     /// RFC 9293 §3.5, figure 6, seen by TCP peer B.
//!     rfc9293_3_5_three_way_handshake on both {
//!         host.listen();
//!         <- syn(0);
//!         -> syn_ack(0, 1);
//!         <- ack(1, 1);
//!         host.accept();
//!     }
//! }
//! # fn main() {
//! braidnet_scripts::ours::play(&SCRIPTS[0]).unwrap();
//! # }
//! ```
//!
//! `<-` is a segment that arrives at the host, `->` one that it has to send, at once, and nothing else before it. Sequence numbers count
//! from either side's SYN. `host.verb()` is a user's call, which succeeds; `host.verb() == n;` answers so, and `host.verb() fails
//! ENAME;` with this error. `after 200.ms();` lets time pass: a segment that is expected next has to leave then and not before,
//! and none may leave meanwhile if none is. `opened by syn(0);` stands for a passive opening, and behind `new
//! connection;` the host's sequence numbers count from its next SYN. `within 500.ms();` gives the next one so long. What is received is compared byte by byte
//! with what was sent, and so is what the host sends, also when it sends it again.
//!
//! A script says what is *one* rule, in a section of an RFC after which it is called. Those `on both` are played against braidnet
//! ([`ours`], in virtual time) and against Linux ([`kernel`], in real time over a TUN device in a network namespace); those
//! `on ours("why")` against braidnet only.
//!
//! What it refuses: anything but IPv4, and more than one connection to a script.
#![forbid(unsafe_code)]

mod exchange;
pub mod host;
pub mod kernel;
pub mod ours;
mod packet;
mod play;
pub mod segment;

pub use exchange::Failure;
pub use play::Play;

use std::time::Duration;

/// A script.
#[derive(Clone, Copy)]
pub struct Script {
    /// Its name: the RFC, the section, the rule.
    pub name: &'static str,
    /// Where it stands.
    pub file: &'static str,
    /// Why it is not played against Linux, if it is not.
    pub ours_only: Option<&'static str>,
    /// What is to happen.
    pub steps: fn(&mut Play<'_>) -> Result<(), Failure>,
}

/// Numbers as times.
pub trait Times {
    /// Milliseconds.
    fn ms(self) -> Duration;
    /// Seconds.
    fn s(self) -> Duration;
}

impl Times for u64 {
    fn ms(self) -> Duration {
        Duration::from_millis(self)
    }

    fn s(self) -> Duration {
        Duration::from_secs(self)
    }
}

/// Scripts, as the crate describes them: makes `SCRIPTS`, and for each a test that plays it against braidnet.
#[macro_export]
macro_rules! scripts {
    ($($(#[$doc:meta])* $name:ident on $on:ident $(($why:literal))? { $($steps:tt)* })*) => {
        /// The scripts of this file.
        pub const SCRIPTS: &[$crate::Script] = &[$($crate::Script {
            name: stringify!($name),
            file: file!(),
            ours_only: $crate::scripts!(@on $on $($why)?),
            steps: steps::$name,
        }),*];

        mod steps {
            #[allow(unused_imports, reason = "what scripts are written with")]
            use $crate::{host::{calls, ERR, HUP, IN, OUT, RDHUP}, segment::*, Times};
            $($(#[$doc])* pub(super) fn $name(play: &mut $crate::Play<'_>) -> Result<(), $crate::Failure> {
                $crate::scripts!(@steps play $($steps)*);
                play.is_over()
            })*
        }

        #[cfg(test)]
        mod against_braidnet {
            $(#[test] fn $name() {
                let all = super::SCRIPTS.iter();
                let script = all.clone().find(|script| script.name == stringify!($name));
                if let Err(failure) = $crate::ours::play(script.expect("it stands there")) {
                    panic!("{failure}");
                }
            })*
        }
    };
    (@on both) => { None };
    (@on ours $why:literal) => { Some($why) };
    (@steps $play:ident) => {};
    (@steps $play:ident <- $segment:expr; $($rest:tt)*) => {
        $play.arrives($segment)?;
        $crate::scripts!(@steps $play $($rest)*);
    };
    (@steps $play:ident -> $segment:expr; $($rest:tt)*) => {
        $play.leaves($segment)?;
        $crate::scripts!(@steps $play $($rest)*);
    };
    (@steps $play:ident after $time:expr; $($rest:tt)*) => {
        $play.after($time);
        $crate::scripts!(@steps $play $($rest)*);
    };
    (@steps $play:ident within $time:expr; $($rest:tt)*) => {
        $play.within($time);
        $crate::scripts!(@steps $play $($rest)*);
    };
    (@steps $play:ident nothing for $time:expr; $($rest:tt)*) => {
        $play.nothing_for($time)?;
        $crate::scripts!(@steps $play $($rest)*);
    };
    (@steps $play:ident repeat $times:literal { $($body:tt)* } $($rest:tt)*) => {
        for _ in 0..$times {
            $crate::scripts!(@steps $play $($body)*);
        }
        $crate::scripts!(@steps $play $($rest)*);
    };
    (@steps $play:ident new connection; $($rest:tt)*) => {
        $play.renewed();
        $crate::scripts!(@steps $play $($rest)*);
    };
    (@steps $play:ident opened by $syn:expr; $($rest:tt)*) => {
        $play.opened($syn)?;
        $crate::scripts!(@steps $play $($rest)*);
    };
    (@steps $play:ident host.$call:ident($($argument:expr),*); $($rest:tt)*) => {
        $play.calls(calls::$call($($argument),*), Ok(None))?;
        $crate::scripts!(@steps $play $($rest)*);
    };
    (@steps $play:ident host.$call:ident($($argument:expr),*) == $answer:expr; $($rest:tt)*) => {
        $play.calls(calls::$call($($argument),*), Ok(Some($answer)))?;
        $crate::scripts!(@steps $play $($rest)*);
    };
    (@steps $play:ident host.$call:ident($($argument:expr),*) fails $error:ident; $($rest:tt)*) => {
        $play.calls(calls::$call($($argument),*), Err(stringify!($error)))?;
        $crate::scripts!(@steps $play $($rest)*);
    };
}
