//! Presentation for braidnet: XDR (RFC 4506) and the record marks that delimit it on a byte stream (RFC 5531 §11).
//!
//! - [`xdr`]: the primitives as a pair of cursors over slices, and the batch of samples that the laboratory sends, encoded
//!   and decoded with vector instructions where the processor has them.
//! - [`module`]: records as a module above TCP, framing in its core.
//! - [`record`]: where one record ends and the next begins, whatever the segments of the stream look like.
//!
//! Everything here is plain state: no threads, locks, clocks or sockets. A peer's bytes are either decoded or refused with a
//! named error; every length is checked against what is there and against a bound that the caller states, before
//! anything is reserved for it. What this crate refuses: values that RFC 4506 gives no meaning (a boolean of 2, an
//! unassigned enumerator, pad bytes that are not zero), bytes left over after a value, and records above the caller's limit.

pub mod module;
pub mod record;
pub mod xdr;
