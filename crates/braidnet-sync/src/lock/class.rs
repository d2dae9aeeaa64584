//! What locks guard.

/// What a lock guards: what its counts are kept under, and its place in the order of locks.
///
/// A thread that holds a lock may enter locks of classes that stand later in this list: a user's handle first, buffers last.
/// [`set_rank_check`](super::set_rank_check) has the rule enforced.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum LockClass {
    /// What a user's handle shares with the stack.
    Socket,
    /// TCP: taking headers off (PLP §5.1).
    HeaderRemove,
    /// TCP: putting headers on (PLP §5.1).
    HeaderPrepend,
    /// The state of one connection or of a group of them.
    Connection,
    /// TCP: data out of order (PLP §5.1).
    Reassembly,
    /// TCP: the sending half of connections, or its window alone (PLP §5.1).
    Send,
    /// TCP: data that may have to be sent again (PLP §5.1).
    Retransmission,
    /// Look-up tables.
    Map,
    /// Queues between processors.
    Queue,
    /// Buffer pools and reference counts.
    Buffers,
}

impl LockClass {
    /// Every class, in the order in which they are listed.
    pub const fn all() -> [LockClass; 10] {
        [
            LockClass::Socket,
            LockClass::HeaderRemove,
            LockClass::HeaderPrepend,
            LockClass::Connection,
            LockClass::Reassembly,
            LockClass::Send,
            LockClass::Retransmission,
            LockClass::Map,
            LockClass::Queue,
            LockClass::Buffers,
        ]
    }

    /// The name users read.
    pub const fn name(self) -> &'static str {
        match self {
            LockClass::Buffers => "buffers",
            LockClass::Map => "map",
            LockClass::Queue => "queue",
            LockClass::Connection => "connection",
            LockClass::Socket => "socket",
            LockClass::Send => "send",
            LockClass::Reassembly => "reassembly",
            LockClass::Retransmission => "retransmission",
            LockClass::HeaderRemove => "header remove",
            LockClass::HeaderPrepend => "header prepend",
        }
    }
}

/// How many there are.
pub(super) const CLASSES: usize = LockClass::all().len();
