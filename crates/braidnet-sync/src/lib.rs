//! Locks, rings, parkers and thread groups for braidnet.
