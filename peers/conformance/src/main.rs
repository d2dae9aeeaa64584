//! A black-box test of a TCP/IP stack, from the wire: more than a thousand short exchanges of packets with `braidnet serve` on a TUN device, and with the kernel for
//! reference. It shares no code with what it tests: headers are made and read by `etherparse`.
//!
//! Each case names the section of the RFC that it is about and how much that asks for it. What fails against the kernel has read an RFC wrong, or
//! the kernel does otherwise on purpose; either is said in the table. Many cases run at a time, each from an address of its own.

mod case;
mod cases;
mod connection;
mod packet;
mod peer;
mod report;
mod run;
mod seen;
mod side;
mod wire;

use std::io;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;

use crate::case::{Case, Place, Table};
use crate::side::{Server, Side};

/// Tests a TCP/IP stack from the wire
#[derive(Parser)]
struct Arguments {
    /// Who is tested
    #[arg(long, value_enum, default_value = "braidnet")]
    against: Side,
    /// The program that is tested
    #[arg(long, default_value = "target/release/braidnet")]
    braidnet: PathBuf,
    /// Only cases whose class, source or name has this in it
    #[arg(long, default_value = "")]
    only: String,
    /// List the cases, and run none
    #[arg(long)]
    list: bool,
    /// What is set of `net.ipv4` where the kernel is tested, such as tcp_sack=0: to see cases fail
    #[arg(long, value_name = "NAME=VALUE")]
    sysctl: Vec<String>,
    /// Further arguments of `braidnet serve`
    #[arg(last = true)]
    arguments: Vec<String>,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let mut table = Table::default();
    cases::all(&mut table);
    let is_wanted = |case: &&Case| {
        let parts = [case.class, case.source, &case.name];
        parts.iter().any(|part| part.contains(&arguments.only))
    };
    let cases: Vec<&Case> = table.cases.iter().filter(is_wanted).collect();
    if arguments.list {
        report::list(&cases);
        return ExitCode::SUCCESS;
    }
    if cases.is_empty() {
        eprintln!("conformance: no case has `{}` in it", arguments.only);
        return ExitCode::FAILURE;
    }
    match test(&arguments, &cases) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("conformance: {error}");
            ExitCode::from(2)
        }
    }
}

/// Runs cases against a side, and prints what became of them: whether all is well.
fn test(arguments: &Arguments, cases: &[&Case]) -> io::Result<bool> {
    if !rustix::process::geteuid().is_root() {
        return Err(io::Error::other(
            "a network namespace and a TUN device need root",
        ));
    }
    let side = arguments.against;
    let (mut run, mut ran) = (Vec::new(), Vec::new());
    for place in [Place::Network, Place::Between] {
        let of_place = cases.iter().filter(|case| case.place == place);
        let cases: Vec<&Case> = of_place.copied().collect();
        if cases.is_empty() {
            continue;
        }
        let (wires, mut server) = match side {
            Side::Braidnet => Server::braidnet(&arguments.braidnet, &arguments.arguments, place)?,
            Side::Linux => Server::linux(&arguments.sysctl, place)?,
        };
        ran.extend(run::all(&cases, wires));
        run.extend(cases);
        if let Some(status) = server.ended() {
            report::report(side, &run, &ran);
            eprintln!("conformance: braidnet serve has ended: {status}");
            return Ok(false);
        }
    }
    Ok(report::report(side, &run, &ran))
}
