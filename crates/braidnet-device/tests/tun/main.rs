//! TUN and TAP devices against the system's own stack.
//!
//! Every test runs on a thread of its own in a network namespace of its own, which disappears with the thread and its
//! last device. Where that is not allowed the tests print SKIPPED and why; with `CI=true` in the environment they
//! fail instead.
//!
//! | what | where |
//! |---|---|
//! | namespaces, devices made behind the library's back, packets by hand | [`system`] |
//! | what comes and goes over a device | [`traffic`] |
//! | many segments in one packet, and checksums that nobody makes | [`offloads`] |
//! | several queues | [`queues`] |
//! | descriptors that are passed in | [`passed`] |
//! | what is made, adopted, refused and left behind | [`interfaces`] |

mod interfaces;
mod offloads;
mod passed;
mod queues;
mod system;
mod traffic;
