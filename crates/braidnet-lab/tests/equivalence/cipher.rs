//! A module whose work on a message can be divided, between TCP and the services.

use braidnet_message::{Kind, Message, Part, Run};
use braidnet_stream::dividing::MAX_PIECES;
use braidnet_stream::{Context, Direction, Divisible, Module, Stages};

/// It changes nothing, but only if every byte of a message is worked on once, whoever does it: each piece is enciphered in place where that can
/// be, and the message deciphered when it is whole. Every seventh message goes through whole.
pub struct Cipher;

const KEY: u8 = 0x5a;

impl Module for Cipher {
    fn name(&self) -> &'static str {
        "cipher"
    }

    fn stages(&self) -> Stages {
        Stages::AFTER_UP | Stages::BEFORE_DOWN
    }

    fn divisible(&self) -> Option<&dyn Divisible> {
        Some(self)
    }

    fn before(&self, _: Direction, run: &mut Run, _: &mut Context<'_>) {
        assert!(run.iter().all(|message| !divides(message)));
    }

    fn after(&self, _: Direction, run: &mut Run, _: &mut Context<'_>) {
        assert!(run.iter().all(|message| !divides(message)));
    }
}

fn divides(message: &Message) -> bool {
    message.kind() == Kind::Data && !message.total_len().is_multiple_of(7)
}

/// The bytes that a piece enciphered in place, and the sum of all its bytes as they were.
fn result(enciphered: usize, sum: u64) -> u128 {
    u128::from(enciphered as u64) << 64 | u128::from(sum)
}

impl Divisible for Cipher {
    fn functions(&self) -> Stages {
        Stages::AFTER_UP | Stages::BEFORE_DOWN
    }

    fn pieces(&self, _: Stages, message: &Message) -> usize {
        if divides(message) {
            (1 + message.total_len() / 300).min(MAX_PIECES)
        } else {
            0
        }
    }

    fn work(&self, _: Stages, part: &mut Part) -> u128 {
        let sum = part.slices().flatten().map(|byte| u64::from(*byte)).sum();
        let mut enciphered = 0;
        for byte in part.slices_mut().into_iter().flatten().flatten() {
            *byte ^= KEY;
            enciphered += 1;
        }
        result(enciphered, sum)
    }

    fn join(
        &self,
        _: Stages,
        mut message: Message,
        results: &[u128],
        _: &mut Context<'_>,
    ) -> Option<Message> {
        assert_eq!(results.len(), self.pieces(Stages::AFTER_UP, &message));
        let worked: u128 = results.iter().sum();
        let enciphered = (worked >> 64) as usize;
        if enciphered > 0 {
            assert_eq!(enciphered, message.total_len());
            let (divided, parts) = message.divide(1);
            let deciphered = parts.map(|mut part| {
                let slices = part.slices_mut().expect("it could be enciphered");
                slices.flatten().for_each(|byte| *byte ^= KEY);
                part
            });
            message = divided.join(deciphered).expect("all its parts");
        }
        let bytes = message.blocks().flatten();
        let sum = bytes.map(|byte| u64::from(*byte)).sum();
        assert_eq!(worked, result(enciphered, sum));
        Some(message)
    }
}
