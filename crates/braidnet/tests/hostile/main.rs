//! Hostile input, one class after the other: packets made by hand against a whole stack that its caller turns.
//!
//! The classes are numbered as in the list of malformed, forged and abusive input that has broken user-space stacks before
//! (AMNESIA:33, Ripple20, URGENT/11, NAME:WRECK and the fix history of smoltcp, gVisor, VPP, lwIP and libslirp). Each is
//! sent to a stack through a wire in memory whose other end the test plays by hand, bare and in Ethernet frames, and the
//! outcome is always the same: no panic (with overflow checks on), no hang (a rig that does not come to rest fails), memory
//! within the arena's limit, a named reason with a counter or the answer that the RFC asks for, and a friend's connection
//! to the same stack on which bytes still flow exactly.
//!
//! [The table](https://github.com/braidnet/braidnet/blob/main/docs/hostile-input.md) has each class by itself; here they stand by files.
//!
//! | classes | where |
//! |---|---|
//! | 1-5, 21-25, 45, 46: link and IP | [`packets::link`], [`packets::ip`] |
//! | 34: ARP | [`packets::link`], [`floods`] |
//! | 35-38: ICMP and UDP | [`packets::icmp`], [`packets::transport`] |
//! | 6-8, 10, 13-15, 17, 46: segments into a connection, the attacker's own and the friend's | [`segments`] |
//! | 9, 11-14, 17-19: what a peer plays by hand | [`peers`] |
//! | 15, 16, 20, 23, 34, 47: floods | [`floods`], [`cookies`] |
//! | 5, 12, 23, 35, 49: what is to be forwarded | [`forwarding`] |
//! | 44: segments that are joined | [`trains`] |
//! | 48-50: timers, memory, local abuse | [`limits`] |
//! | limits that change meanwhile | [`live`] |
//!
//! Not exposed, because the stack has no such feature, and so only shown to be refused by name ([`packets::absent`]): 26-33
//! (IPv6 and its neighbour discovery), 39 (IGMP, MLD), 40 (DHCP), 41 (DNS), 42 (tunnels). Not exposed at all: 43 (no
//! offload passes a device).

mod cookies;
mod floods;
mod forwarding;
mod limits;
mod live;
mod packet;
mod packets;
mod peers;
mod rig;
mod segments;
mod trains;
