//! XDR presentation for braidnet.
