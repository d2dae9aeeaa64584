//! HTTP/1.1 (RFC 9110, RFC 9112): the files of a directory.
//!
//! GET and HEAD, with keep-alive, pipelining, single ranges and conditions on dates. The data path parses requests and
//! sends segments; everything that may wait (opening, looking up, reading a file) is done by a few file threads, which
//! read into the stack's own buffers, sum what they copy, and hand segments back. A connection has one such errand out at
//! a time, and never for more than it has room to send. What need not be waited for, as a small file that the system has in memory, is answered
//! without them.
//!
//! ```no_run
//! use braidnet::{ServerBuilder, StackConfig};
//! use braidnet::device::tun::{Mode, TunConfig, TunDevice};
//! use braidnet_service::http::Files;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let device = TunDevice::create(TunConfig::new(Mode::Tun))?;
//! let files = Files::new();
//! let server = ServerBuilder::new(StackConfig::new("10.77.0.2".parse()?))
//!     .tcp(80, files.directory("/srv/www")?)
//!     .start(device)?;
//! let threads = files.start(2, &server.jobs())?;
//! # Ok(())
//! # }
//! ```
//!
//! # What it refuses
//!
//! - Nothing outside the directory is reached, by `..`, by a symbolic link or by a mount's magic link: every look-up is
//!   one `openat2` beneath it. A directory without an `index.html` is not found; it is not listed.
//! - A request head of more than [`MAX_HEAD`] bytes (431), a body of more than [`MAX_BODY`] bytes (413), a transfer
//!   coding (501: RFC 9112 §6.1 allows it, and GET and HEAD have no use for a body), an unknown method (501), another
//!   version (505), and whatever RFC 9112 says may smuggle a request: two lengths, a length and a coding, no host or
//!   two (400). The connection is closed then.
//! - Several ranges at once: the file is sent whole, as RFC 9110 §14.2 allows.
//! - A peer that takes more than [`HEAD_TIME`] for a request's head (408), is idle for [`IDLE_TIME`], or takes nothing of
//!   what is sent to it for [`STALL_TIME`].
//!
//! There are no entity tags: conditions on them are answered as RFC 9110 §13.1 says for a resource without.

mod answer;
mod at_once;
mod files;
mod range;
pub mod request;
mod response;
mod root;
mod session;

pub use files::{FileReader, FileThreads, Files};
pub use root::DirectoryError;
pub use session::Http;

use braidnet::Duration;

/// Longest head of a request, in bytes.
pub const MAX_HEAD: usize = 16 << 10;
/// Longest body of a request that is read over, in bytes.
pub const MAX_BODY: u64 = 64 << 10;
/// Most time from a request's first byte to the end of its head.
pub const HEAD_TIME: Duration = Duration::from_secs(15);
/// Most time without a request.
pub const IDLE_TIME: Duration = Duration::from_secs(60);
/// Most time without any progress in sending.
pub const STALL_TIME: Duration = Duration::from_secs(60);
