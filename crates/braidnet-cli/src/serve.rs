//! `braidnet serve`: a stack on a TUN or TAP device, beside the system on an Ethernet interface, or on a socket's frames, that answers real clients.

mod attached;
mod carrier;
mod further;
mod impair;
mod pcap;
mod placing;
mod report;
mod running;
mod settings;
pub mod values;

use crate::failure::Failure;
use settings::{Settings, Setup};
use std::path::PathBuf;

/// Run a stack on a TUN or TAP device, or beside the system on an Ethernet interface, and answer real clients
///
/// Creates the device, gives the host's side its address, and runs until Ctrl-C or SIGTERM. A persistent device that exists
/// and that nobody holds is adopted, and stays. Needs root or CAP_NET_ADMIN, or a device that an administrator made for
/// this user; one whose descriptors are passed in, and frames over a Unix socket, need no privilege. An Ethernet interface needs root or
/// CAP_NET_RAW, and root where it is taken over (--xdp).
#[derive(clap::Args, Debug)]
#[command(after_help = EXAMPLE)]
pub struct Serve {
    /// Read what is not said here from this TOML file; it knows the same words
    #[arg(short, long, value_name = "FILE")]
    config: Option<PathBuf>,
    #[command(flatten)]
    settings: Settings,
}

const EXAMPLE: &str = "\
Example:
  braidnet serve --tun bn0 --host 10.77.0.1/24 --address 10.77.0.2 --echo 7 --http 80=/srv/www --processors 2
  curl http://10.77.0.2/

On an interface of the system's, for whoever is at the other end of its wire:
  braidnet serve --packet eth0 --address 192.0.2.7/24 --route default=192.0.2.1 --echo 7

The same as a file, for -c:
  tun = \"bn0\"
  host = \"10.77.0.1/24\"
  address = \"10.77.0.2\"
  echo = 7
  http = \"80=/srv/www\"
  processors = 2";

impl Serve {
    /// Runs until it is told to stop.
    pub fn run(self) -> Result<(), Failure> {
        let settings = match &self.config {
            Some(file) => self.settings.or(Settings::read(file)?),
            None => self.settings,
        };
        running::run(Setup::check(settings)?)
    }
}
