//! Why a segment, or a part of one, was not taken.

/// Declares the reasons: each variant with its documentation and its name as a counter.
macro_rules! reasons {
    ($($(#[$attribute:meta])* $variant:ident: $name:literal;)+) => {
        /// Why a segment, or a part of one, was not taken.
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
        #[repr(u8)]
        pub enum DropReason {
            $($(#[$attribute])* $variant,)+
        }

        impl DropReason {
            /// The names of all reasons, in snake case; each stands at its [`index`](DropReason::index).
            pub const ALL: &'static [&'static str] = &[$($name),+];

            #[cfg(test)]
            const VARIANTS: &'static [DropReason] = &[$(DropReason::$variant),+];
        }
    };
}

reasons! {
    /// The connection is closed already, or a listener got neither SYN, ACK nor RST (RFC 9293 §3.10.7.1, §3.10.7.2).
    Closed: "tcp_connection_closed";
    /// A RST that nothing answers to: no connection, or a listener (RFC 9293 §3.10.7.1, §3.10.7.2).
    ResetWithoutConnection: "tcp_reset_without_connection";
    /// SYN-SENT: the ACK is not one of our SYN (RFC 9293 §3.10.7.3).
    AckNotOfSyn: "tcp_ack_not_of_syn";
    /// SYN-SENT: a RST that acknowledges nothing (RFC 9293 §3.10.7.3).
    ResetWithoutAck: "tcp_reset_without_ack";
    /// SYN-SENT: neither SYN nor RST (RFC 9293 §3.10.7.3).
    NeitherSynNorReset: "tcp_neither_syn_nor_reset";
    /// Data or a FIN on a SYN; only the SYN was taken. See `docs/rfc-departures.md`.
    TextOnSyn: "tcp_text_on_syn";
    /// The peer's SYN once more; it was answered with our SYN-ACK once more.
    DuplicateSyn: "tcp_duplicate_syn";
    /// The peer's SYN once more, with the other kind of congestion notification; it was answered with a RST (RFC 9768 §3.1.5).
    OtherEcnSetup: "tcp_other_ecn_setup";
    /// The timestamp lies before the one last taken (RFC 7323 §5.3 R1).
    OldTimestamp: "tcp_old_timestamp";
    /// Timestamps were agreed on and this segment has none (RFC 7323 §3.2).
    MissingTimestamp: "tcp_missing_timestamp";
    /// All of it had arrived before (RFC 9293 §3.10.7.4, first check).
    OldSegment: "tcp_old_segment";
    /// The first part had arrived before; the rest was taken.
    PartlyOld: "tcp_partly_old";
    /// All of it lies past the window (RFC 9293 §3.10.7.4, first check).
    BeyondWindow: "tcp_beyond_window";
    /// The last part lies past the window; the rest was taken.
    PartlyBeyondWindow: "tcp_partly_beyond_window";
    /// A RST inside the window that is not at its left edge (RFC 5961 §3).
    ResetInWindow: "tcp_reset_in_window";
    /// A RST in TIME-WAIT (RFC 1337 §3).
    ResetInTimeWait: "tcp_reset_in_time_wait";
    /// A SYN on a connection that has passed its handshake (RFC 5961 §4).
    SynOnConnection: "tcp_syn_on_connection";
    /// No ACK bit (RFC 9293 §3.10.7.4, fifth check).
    NoAck: "tcp_no_ack";
    /// SYN-RECEIVED: the ACK is not one of our SYN; it was answered with a RST (RFC 9293 §3.10.7.4, fifth check).
    BadHandshakeAck: "tcp_bad_handshake_ack";
    /// An ACK of what was never sent (RFC 9293 §3.10.7.4, fifth check).
    AckOfUnsent: "tcp_ack_of_unsent";
    /// An ACK older than the largest window that the peer ever offered (RFC 5961 §5).
    AckTooOld: "tcp_ack_too_old";
    /// An ACK of what had been acknowledged before, without data, whose SACK blocks say nothing new. It does no harm.
    OldAck: "tcp_old_ack";
    /// A SACK block that does not lie between SND.UNA and SND.NXT; the rest of the segment was taken (RFC 2018 §5).
    BadSackBlock: "tcp_bad_sack_block";
    /// Data or a FIN after the peer's FIN (RFC 9293 §3.10.7.4, seventh check).
    TextAfterFin: "tcp_text_after_fin";
    /// A FIN at another place than the first, which stands (RFC 9293 §3.10.7.4, eighth check).
    FinMoved: "tcp_fin_moved";
    /// Data for nobody: the application reads no more; it was answered with a RST (RFC 9293 §3.6.1).
    NobodyReads: "tcp_nobody_reads";
    /// Out of order, and held already in whole or in part: what came first stays, or gives way to what reaches further.
    Overlap: "tcp_overlap";
    /// Out of order, and no room to keep it.
    ReassemblyFull: "tcp_reassembly_full";
    /// Out of order, and all connections together keep as much as they may ([`Allowance`](crate::Allowance)).
    AllowanceUsedUp: "tcp_allowance_used_up";
}

impl DropReason {
    /// The reason's name as a counter.
    pub const fn name(self) -> &'static str {
        Self::ALL[self as usize]
    }

    /// Its place in [`DropReason::ALL`].
    pub const fn index(self) -> usize {
        self as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn names_are_distinct_and_stand_at_their_index() {
        let names: BTreeSet<_> = DropReason::ALL.iter().collect();
        assert_eq!(names.len(), DropReason::ALL.len());
        for (index, reason) in DropReason::VARIANTS.iter().enumerate() {
            assert_eq!(
                (reason.index(), reason.name()),
                (index, DropReason::ALL[index])
            );
            assert!(reason.name().starts_with("tcp_"));
        }
    }
}
