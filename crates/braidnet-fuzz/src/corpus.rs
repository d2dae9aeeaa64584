//! Inputs worth keeping, a file for each target: one after the other, each behind its length in two bytes, big-endian.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// The folder of the corpora, one file for each target.
pub fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("corpora")
}

/// The inputs of a target.
///
/// # Errors
///
/// Those of reading the file, and [`io::ErrorKind::InvalidData`] if it ends within an input.
pub fn read(target: &str) -> io::Result<Vec<Vec<u8>>> {
    unpack(&fs::read(folder().join(target))?)
}

fn unpack(mut packed: &[u8]) -> io::Result<Vec<Vec<u8>>> {
    let mut inputs = Vec::new();
    while let Some((len, rest)) = packed.split_first_chunk::<2>() {
        let len = usize::from(u16::from_be_bytes(*len));
        let input = rest.get(..len).ok_or(io::ErrorKind::InvalidData)?;
        inputs.push(input.to_vec());
        packed = &rest[len..];
    }
    match packed {
        [] => Ok(inputs),
        _ => Err(io::ErrorKind::InvalidData.into()),
    }
}

/// A file of these inputs, the shortest first, each once; those of more than 65,535 bytes are left out.
pub fn pack(mut inputs: Vec<Vec<u8>>) -> Vec<u8> {
    inputs.sort_by(|a, b| (a.len(), a).cmp(&(b.len(), b)));
    inputs.dedup();
    let mut packed = Vec::new();
    for input in &inputs {
        if let Ok(len) = u16::try_from(input.len()) {
            packed.extend_from_slice(&len.to_be_bytes());
            packed.extend_from_slice(input);
        }
    }
    packed
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_packed_is_unpacked() {
        let inputs = vec![vec![], vec![7], vec![1, 2, 3]];
        let packed = pack(vec![
            inputs[2].clone(),
            inputs[0].clone(),
            inputs[1].clone(),
            vec![7],
        ]);
        assert_eq!(unpack(&packed).expect("it is whole"), inputs);
        assert!(unpack(&packed[..packed.len() - 1]).is_err());
        assert!(unpack(&[0]).is_err());
    }
}
