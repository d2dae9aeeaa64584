//! The cases, a file for each class or two.

mod acceptance;
mod close;
mod forwarding;
mod fragments;
mod handshake;
mod icmp;
mod malformed;
mod options;
mod reset;
mod sack;
mod timers;
mod timestamps;
mod udp;
mod urgent;
mod window;

use crate::case::Table;

/// All of them.
pub fn all(table: &mut Table) {
    handshake::add(table);
    reset::add(table);
    options::add(table);
    acceptance::add(table);
    sack::add(table);
    timestamps::add(table);
    window::add(table);
    timers::add(table);
    close::add(table);
    urgent::add(table);
    icmp::add(table);
    fragments::add(table);
    udp::add(table);
    malformed::add(table);
    forwarding::add(table);
}

/// Initial sequence numbers at which arithmetic modulo 2^32 may go wrong.
const NUMBERS: [u32; 6] = [0, 1, 0x7fff_ffff, 0x8000_0000, 0xffff_fffe, 0xffff_ffff];

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn each_case_has_a_name_of_its_own_and_an_address() {
        let mut table = Table::default();
        all(&mut table);
        let mut names = HashSet::new();
        for case in &table.cases {
            assert!(
                names.insert((case.class, &case.name)),
                "twice: {}",
                case.name
            );
        }
        assert!(table.cases.len() <= crate::run::MOST);
    }
}
