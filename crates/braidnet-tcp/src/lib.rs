//! The TCP engine of braidnet, without IO, clocks or threads.
