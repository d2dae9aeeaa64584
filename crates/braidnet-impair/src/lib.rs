//! What a bad network does to packets: it loses them, alone and in bursts, repeats, delays and damages them, lets some
//! overtake others, and queues them in front of a line that is too slow.
//!
//! Only the decisions are made here. There is no clock, no thread, no IO and no packet's format: whoever has packets says
//! what time it is and how long each is, and hears when it arrives, if it does. So the same code stands behind a real
//! device, behind a relay between two, and in a simulator's virtual time, and does the same to the same packets.
//!
//! | type | what it is |
//! |---|---|
//! | [`Impairments`] | what one direction of a link does, as a value and as [text](Impairments#text) |
//! | [`Link`] | decides over packet after packet, and counts by name |
//! | [`Line`] | packets under way, in the order in which they arrive |
//!
//! ```
//! use braidnet_impair::{Impairments, Line, Link};
//!
//! let impairments: Impairments = "loss=50%,delay=20ms,seed=7".parse()?;
//! let mut link = Link::new(&impairments, 0);
//! let mut line = Line::new(impairments.limit_packets);
//! for number in 0..1000u64 {
//!     // At so many nanoseconds, so many bytes; and how to copy the packet, should it come twice.
//!     let _ = line.offer(&mut link, (number, 1500), number, |number| Some(*number));
//! }
//! assert_eq!(line.len() as u64 + link.tally().lost, 1000);
//! assert!(line.take(19_999_999).is_none());
//! let first = line.take(20_001_000).expect("they are not all lost");
//! assert_eq!(first.at, 20_000_000 + first.packet);
//! # Ok::<(), braidnet_impair::ImpairmentError>(())
//! ```
//!
//! # In which order
//!
//! A packet first finds the queue in front of the line: full, and it is dropped; above the mark, and it is marked; otherwise it
//! leaves when the rate lets it. Then it is on the wire: lost there, alone or in a burst, repeated, and each of what remains
//! damaged, delayed and held back by itself. What is lost on the wire has taken its time on the line.
//!
//! # Seeds
//!
//! Equal seeds and equal packets at equal times have equal fates. Each kind of impairment draws from a sequence of its own, so
//! that the packets that are lost stay the same when a delay is added or a rate changed.
//!
//! # What it refuses
//!
//! It changes no packet itself: [`Damage`] says which bit, and marking is for who knows where the mark belongs. It keeps at most
//! as many packets as it is told to; more are dropped by name.
#![forbid(unsafe_code)]

mod impairments;
mod line;
mod link;
mod random;
mod share;
mod text;

pub use impairments::{BurstLoss, Impairments, Jitter, Rate, Reorder};
pub use line::{Delivery, Line};
pub use link::{Arrival, Damage, Dropped, Fate, Link, Tally};
pub use share::Share;
pub use text::ImpairmentError;
