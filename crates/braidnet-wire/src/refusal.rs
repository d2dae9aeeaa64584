//! The shape that all reasons for refusing a packet share.

/// Declares an enum of reasons: each variant with its documentation, its name as a counter and its sentence.
macro_rules! refusals {
    (
        $(#[$attribute:meta])*
        pub enum $enum:ident {
            $($(#[$variant_attribute:meta])* $variant:ident: $name:literal, $sentence:literal;)+
        }
    ) => {
        $(#[$attribute])*
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, thiserror::Error)]
        pub enum $enum {
            $($(#[$variant_attribute])* #[error($sentence)] $variant,)+
        }

        impl $enum {
            /// Every reason; one stands at the index that `reason as usize` gives.
            pub const ALL: &'static [$enum] = &[$($enum::$variant),+];

            /// The reason's name as a counter, in snake case, with the protocol in front.
            pub const fn name(self) -> &'static str {
                match self {
                    $($enum::$variant => $name,)+
                }
            }
        }
    };
}

pub(crate) use refusals;

#[cfg(test)]
mod tests {
    use crate::arp::ArpError;
    use crate::ethernet::EthernetError;
    use crate::icmpv4::Icmpv4Error;
    use crate::ipv4::Ipv4Error;
    use crate::ipv6::Ipv6Error;
    use crate::tcp::TcpError;
    use crate::udp::UdpError;
    use std::collections::BTreeSet;

    /// The index and the name of every reason of every protocol.
    fn all() -> Vec<(usize, usize, &'static str)> {
        macro_rules! list {
            ($($enum:ty),+) => {
                [$(<$enum>::ALL.iter().enumerate().map(|(at, reason)| (at, *reason as usize, reason.name())).collect()),+]
            };
        }
        let all: [Vec<_>; 7] = list![
            ArpError,
            EthernetError,
            Icmpv4Error,
            Ipv4Error,
            Ipv6Error,
            TcpError,
            UdpError
        ];
        all.concat()
    }

    /// Counters of different reasons must not run together.
    #[test]
    fn names_are_distinct_and_snake_case() {
        let names: Vec<_> = all().into_iter().map(|(_, _, name)| name).collect();
        let distinct: BTreeSet<&str> = names.iter().copied().collect();
        assert_eq!(distinct.len(), names.len());
        for name in names {
            let fits =
                |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
            assert!(name.bytes().all(fits), "{name}");
        }
    }

    #[test]
    fn reasons_stand_at_their_index() {
        for (at, discriminant, name) in all() {
            assert_eq!(at, discriminant, "{name}");
        }
    }
}
