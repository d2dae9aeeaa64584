//! What can be done with a socket without waiting.

bitflags::bitflags! {
    /// What can be done with a socket without waiting, as poll(2) has it for TCP.
    #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
    pub struct Readiness: u8 {
        /// Something can be received, or accepted, or the answer is that there is nothing more (`POLLIN`).
        const READABLE = 1;
        /// Something can be sent, or the answer is that nothing can any more (`POLLOUT`).
        const WRITABLE = 1 << 1;
        /// An error waits to be [taken](super::Sockets::take_error) (`POLLERR`).
        const ERROR = 1 << 2;
        /// Neither side will send any more, or there is no connection (`POLLHUP`).
        const HANG_UP = 1 << 3;
        /// The peer will send no more, or this side receives no more (`POLLRDHUP`).
        const READ_HANG_UP = 1 << 4;
    }
}

impl Readiness {
    /// What everybody hears of who waits for anything at all, as with poll(2).
    pub const ALWAYS: Readiness = Readiness::ERROR.union(Readiness::HANG_UP);
}
