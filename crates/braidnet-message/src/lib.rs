//! Messages, buffers, pools and runs for braidnet.
