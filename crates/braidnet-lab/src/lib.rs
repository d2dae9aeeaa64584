//! The braidnet laboratory: simulated far ends, ttcp and compare.
