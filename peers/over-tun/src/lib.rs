//! What this package's programs share with those of `peers/over-veth`: the services that every server has, the loads that every client is measured by, and smoltcp's part of both.

pub mod load;
pub mod smoltcp;

/// Where bytes are thrown away.
pub const DISCARD: u16 = 9;
/// Where bytes come from without end.
pub const CHARGEN: u16 = 19;
/// Where bytes come back.
pub const ECHO: u16 = 7;
