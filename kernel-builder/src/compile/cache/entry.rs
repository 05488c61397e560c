//! The small files of the cache: each begins with a digest of what follows, so that a damaged one is noticed.
//!
//! Owns: that form. Never: knows what an entry means.

use std::path::Path;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::base::digest::Digest;
use crate::base::files::{self, FileError};

/// Writes a value.
pub(super) fn write(place: &Path, value: &impl Serialize) -> Result<u64, FileError> {
    // Plain structs without maps: JSON has them all.
    let text = serde_json::to_string(value).unwrap_or_default();
    let sealed = format!("{}\n{text}", Digest::blake3(text.as_bytes()));
    files::write(place, &sealed)?;
    Ok(sealed.len() as u64)
}

/// Reads a value. One that is damaged is removed, and is as absent as a missing one.
pub(super) fn read<T: DeserializeOwned>(place: &Path) -> Option<T> {
    let sealed = files::read(place).ok()?;
    let value = unseal(&sealed);
    if value.is_none() {
        // Where it cannot be removed, the next writer replaces it.
        let _stays = files::remove_file(place);
    }
    value
}

fn unseal<T: DeserializeOwned>(sealed: &[u8]) -> Option<T> {
    let end = sealed.iter().position(|byte| *byte == b'\n')?;
    let (digest, text) = (sealed.get(..end)?, sealed.get(end + 1..)?);
    let digest: Digest = std::str::from_utf8(digest).ok()?.parse().ok()?;
    if Digest::blake3(text) != digest {
        return None;
    }
    serde_json::from_slice(text).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_flipped_bit_makes_it_absent() {
        let root = files::scratch().unwrap();
        let place = root.path().join("entry");
        let value = ("some text".to_owned(), 17);
        write(&place, &value).unwrap();
        let good = files::read(&place).unwrap();
        assert_eq!(read(&place), Some(value));
        for at in 0..good.len() {
            let mut bad = good.clone();
            bad[at] ^= 0x04;
            files::write(&place, bad).unwrap();
            assert_eq!(read::<(String, i32)>(&place), None, "byte {at}");
            assert!(!files::exists(&place));
        }
    }
}
