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
//! Without more, the stack is set as the shell command sets Linux that scripts begin with (`defaults.sh`), which never gets here. Where a
//! script sets more, flags of the same names do: `tcp_timestamps`, `tcp_sack` and `tcp_window_scaling` (0, 1), `tcp_ecn` (0, 1, 2),
//! `tcp_congestion_control` (`reno`, `cubic`, `bbr`), `tcp_rmem` and `tcp_wmem` (three numbers), `tcp_rto_max_ms`,
//! `tcp_fastopen` (its bits 1, 2, 0x200 and 0x400), `tcp_fastopen_key`.
//!
//! # As Linux does
//!
//! Scripts were written against Linux, and say where it chooses among what the RFCs allow. Here, and nowhere else unless it is asked for, the first
//! sixteen acknowledgments of data do not wait, that of a FIN behind data does, and what leaves at once goes in pairs of segments, the second
//! with PSH. Buffers are told twice as large as they were set. `SO_ZEROCOPY` and `MSG_ZEROCOPY` are taken, and the bytes copied, which is said as Linux
//! says it. Segments longer than the MTU are taken as a device gives them to Linux that has joined them.
//!
//! # What it refuses
//!
//! UDP, IPv6 on the wire (AF_INET6 sockets carry mapped addresses), `pipe` and `splice` (`ENOSYS`), options, flags and requests
//! that sockets here do not have (`ENOPROTOOPT`, `EOPNOTSUPP`, `EINVAL`), `IP_PMTUDISC_INTERFACE` and `IP_PMTUDISC_OMIT` among them. Shell commands and code blocks of a script never get here:
//! packetdrill runs them on the system. Which scripts that concerns, and which ask for what is Linux's alone, `docs/testing.md` says.
//!
//! # Threads
//!
//! packetdrill makes blocking calls on a second thread, while the first one sends packets, sleeps and waits. All state is behind one
//! monitor (`world.rs`); who blocks sleeps on its condition, as packetdrill expects to see it do.

mod address;
mod epoll;
mod errno;
mod flags;
mod interface;
mod message;
mod options;
mod state;
mod waiting;
mod world;
mod worn;

pub use interface::{Interface, packetdrill_interface_init};
