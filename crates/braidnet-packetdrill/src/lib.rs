//! braidnet as a shared object for packetdrill, the scripted test tool for TCP (github.com/google/packetdrill).
//!
//! ```sh
//! cargo build --release -p braidnet-packetdrill
//! packetdrill --so_filename=$PWD/target/release/libbraidnet_packetdrill.so \
//!     --so_flags=local=192.168.0.1 --local_ip=192.168.0.1 script.pkt
//! ```
//!
//! packetdrill looks one symbol up, [`packetdrill_interface_init`], and gets a table of functions that stand for the system's calls,
//! for its network device and for its clock. Behind them are [`braidnet::socket`]s in *virtual time*: the clock stands still while
//! packetdrill works, ticks by a microsecond whenever it is asked for, and jumps when packetdrill sleeps or waits for a packet. So
//! a script takes as long as its steps do, and a timeout of a minute takes no time.
//!
//! # Flags
//!
//! `--so_flags` has words with commas between them: `local=ADDRESS`, the stack's address, which has to be what packetdrill is
//! told with `--local_ip` (192.168.0.1 unless said otherwise); `mtu=BYTES` (1500).
//!
//! # What it refuses
//!
//! UDP, IPv6 on the wire (AF_INET6 sockets carry mapped addresses), `pipe` and `splice` (`ENOSYS`), options, flags and requests
//! that sockets here do not have (`ENOPROTOOPT`, `EOPNOTSUPP`, `EINVAL`). Shell commands and code blocks of a script never get here:
//! packetdrill runs them on the system.
//!
//! # Threads
//!
//! packetdrill makes blocking calls on a second thread, while the first one sends packets, sleeps and waits. All state is behind one
//! monitor (`world.rs`); who blocks sleeps on its condition, as packetdrill expects to see it do.

mod address;
mod errno;
mod interface;
mod options;
mod state;
mod world;

pub use interface::{Interface, packetdrill_interface_init};
