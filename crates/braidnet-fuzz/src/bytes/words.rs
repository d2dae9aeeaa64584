//! What people write: impairments.

use braidnet_impair::{Impairments, Share};
use std::fmt::Display;
use std::str::FromStr;

/// What is understood reads the same when it is written again, and what is refused is told in words that name it.
pub fn impairments(input: &[u8]) {
    let Ok(text) = str::from_utf8(input) else {
        return;
    };
    read::<Impairments>(text);
    read::<Share>(text);
    if let Ok(impairments) = text.parse::<Impairments>() {
        // Within what a line can be.
        assert!(impairments.delay.as_secs() <= 3600 && impairments.jitter.most.as_secs() <= 3600);
        assert!(impairments.reorder.least <= impairments.reorder.most);
        assert!(impairments.limit_packets > 0);
        assert!(
            impairments.delay_max()
                <= impairments.delay + impairments.jitter.most + impairments.reorder.most
        );
    }
}

fn read<T: FromStr<Err: Display> + Display + PartialEq>(text: &str) {
    match text.parse::<T>() {
        Ok(value) => {
            let written = value.to_string();
            assert!(
                written.parse::<T>().is_ok_and(|again| again == value),
                "{text:?} is written {written:?}"
            );
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}
