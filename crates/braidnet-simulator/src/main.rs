//! Whole stacks on a bad network, in virtual time: see the library.

use std::process::ExitCode;

fn main() -> ExitCode {
    braidnet_simulator::command::main()
}
