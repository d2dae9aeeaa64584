//! A user-space TCP/IP stack whose process architecture is chosen at run time.
