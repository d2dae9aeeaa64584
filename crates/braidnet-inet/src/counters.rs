//! One list per module that makes both the names of its counters and their indices.

/// Declares an enum of counters: each variant with its documentation and its name.
///
/// The reasons of one of the wire crate's refusals may follow the module's own names; [`refusal`](self) of the enum finds
/// the counter of one.
macro_rules! counters {
    (
        $(#[$attribute:meta])*
        $visibility:vis enum $enum:ident $(with $refusals:ty)? {
            $($(#[$variant_attribute:meta])* $variant:ident: $name:literal,)+
        }
    ) => {
        $(#[$attribute])*
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        #[repr(u16)]
        $visibility enum $enum {
            $($(#[$variant_attribute])* $variant,)+
        }

        impl $enum {
            const OWN: &'static [&'static str] = &[$($name),+];

            /// Where the module counts this.
            #[inline]
            pub(crate) const fn counter(self) -> braidnet_stream::Counter {
                braidnet_stream::Counter(self as u16)
            }

            counters!(@names $($refusals)?);
        }

        impl From<$enum> for braidnet_stream::Counter {
            #[inline]
            fn from(counter: $enum) -> Self {
                counter.counter()
            }
        }
    };
    (@names) => {
        /// The names of all counters, each at its index.
        pub(crate) const NAMES: &'static [&'static str] = Self::OWN;
    };
    (@names $refusals:ty) => {
        /// The names of all counters, each at its index: the module's own, then those of the refusals.
        pub(crate) const NAMES: &'static [&'static str] = &{
            let mut names = [""; Self::OWN.len() + <$refusals>::ALL.len()];
            let mut index = 0;
            while index < names.len() {
                names[index] = if index < Self::OWN.len() {
                    Self::OWN[index]
                } else {
                    <$refusals>::ALL[index - Self::OWN.len()].name()
                };
                index += 1;
            }
            names
        };

        /// Where the module counts this refusal.
        #[inline]
        pub(crate) const fn refusal(refusal: $refusals) -> braidnet_stream::Counter {
            braidnet_stream::Counter(Self::OWN.len() as u16 + refusal as u16)
        }
    };
}

pub(crate) use counters;
