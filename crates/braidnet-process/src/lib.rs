//! The process architectures of braidnet: placement and spawned processors.
