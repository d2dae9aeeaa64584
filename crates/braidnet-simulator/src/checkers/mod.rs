//! The laws, one file each. A checker sees a turn of a stack from outside ([`Visit`](crate::ledger::Visit)) and keeps its own account
//! of a connection's life.

pub(crate) mod acknowledgment;
pub(crate) mod congestion;
pub(crate) mod ecn;
pub(crate) mod incarnation;
pub(crate) mod memory;
pub(crate) mod reduction;
pub(crate) mod reset;
pub(crate) mod timeout;
pub(crate) mod window;
