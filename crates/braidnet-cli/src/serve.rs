//! `braidnet serve`: a stack on a TUN or TAP device that answers real clients.

use crate::failure::Failure;

/// Run a stack on a TUN or TAP device and answer real clients
#[derive(clap::Args, Debug)]
pub struct Serve {}

impl Serve {
    /// Runs until it is told to stop.
    pub fn run(self) -> Result<(), Failure> {
        Err(Failure::Usage(
            "serve: name a device with --tun NAME or --tap NAME".to_owned(),
        ))
    }
}
