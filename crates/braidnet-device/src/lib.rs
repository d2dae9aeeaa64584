//! Device drivers for braidnet: memory, TUN/TAP and pcapng capture.
