//! Gives an object file the extension's real name in the place of the placeholder that it was compiled with.
//!
//! Owns: the replacement, and the proof that nothing of the placeholder is left.
//! Never: changes the length of anything; both names are equally long.

use kernel_plan::plan::{CommandLine, PLACEHOLDER, Unit, placeholder_name};

use super::Shop;
use crate::base::digest::{Digest, DigestBuilder};
use crate::base::files::{self, FileError};

/// Pieces of the placeholder of this length must not be left over: a compiler may build a string from immediates of four
/// or eight bytes, which a replacement of the whole name would miss.
const PIECE: usize = 4;

/// The object with `extension` wherever the placeholder's name stands. `None` when there is none, or when a piece of it
/// is left elsewhere.
pub(super) fn rename(object: &[u8], extension: &str) -> Option<Vec<u8>> {
    let placeholder = placeholder_name(extension);
    let mut renamed = object.to_vec();
    let mut found = false;
    let mut at = 0;
    while let Some(offset) = position(&renamed[at..], placeholder.as_bytes()) {
        let start = at + offset;
        at = start + placeholder.len();
        renamed[start..at].copy_from_slice(extension.as_bytes());
        found = true;
    }
    let pieces = PLACEHOLDER.as_bytes().windows(PIECE);
    let left_over = pieces.into_iter().any(|piece| position(&renamed, piece).is_some());
    (found && !left_over).then_some(renamed)
}

/// Whether a preprocessed text is the same whatever the extension's name is.
pub(super) fn is_free(text: &[u8]) -> bool {
    position(text, PLACEHOLDER.as_bytes()).is_none()
}

/// The key under which the cache has that an object is the same whatever the extension's name is: its text was seen not
/// to have it. An object alone does not show that, since a compiler may compute with a name.
pub(super) fn free_key(shop: &Shop<'_>, unit: &Unit, object: &[u8]) -> Result<Digest, FileError> {
    let source = files::read(&shop.project.join(&unit.name))?;
    Ok(DigestBuilder::new("name-free-1")
        .field("unit", &unit.name)
        .field("source", source)
        .field("object", Digest::blake3(object).to_string())
        .finish())
}

/// Notes that the object of a unit does not depend on the extension's name.
pub(super) fn note_free(shop: &Shop<'_>, unit: &Unit, object: &[u8]) -> Result<(), FileError> {
    if unit.named.is_none() {
        return Ok(());
    }
    let key = free_key(shop, unit, object)?;
    shop.cache.once::<FileError>(&key, || Ok(b"free".to_vec()))?;
    Ok(())
}

/// The unit's command with the real name, making the object at `named`.
pub(super) fn with_real_name(
    command: &CommandLine,
    extension: &str,
    object: &str,
    named: &str,
) -> CommandLine {
    let placeholder = placeholder_name(extension);
    let mut command = command.clone();
    for arg in &mut command.args {
        *arg = if arg == object { named.to_owned() } else { arg.replace(&placeholder, extension) };
    }
    command
}

/// Where `wanted` begins in `bytes`.
pub(super) fn position(bytes: &[u8], wanted: &[u8]) -> Option<usize> {
    let first = *wanted.first()?;
    let mut from = 0;
    while let Some(offset) = bytes[from..].iter().position(|byte| *byte == first) {
        let start = from + offset;
        if bytes[start..].starts_with(wanted) {
            return Some(start);
        }
        from = start + 1;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAME: &str = "_k_cpu_0123456789";

    #[test]
    fn replaces_every_mention() {
        let object = b"..PyInit__k_cpu_zqjxvwkyzq\0.._k_cpu_zqjxvwkyzq";
        let renamed = rename(object, NAME).unwrap();
        assert_eq!(renamed, b"..PyInit__k_cpu_0123456789\0.._k_cpu_0123456789");
    }

    #[test]
    fn a_name_taken_apart_is_noticed() {
        assert_eq!(rename(b"_k_cpu_zqjxvwkyzq, mov zqjxvwky", NAME), None);
        assert_eq!(rename(b"nothing here", NAME), None);
    }

    #[test]
    fn the_real_name_goes_into_the_command() {
        let command = CommandLine::new("g++").args(["-DN=_k_cpu_zqjxvwkyzq", "-o", "a.o"]);
        assert_eq!(with_real_name(&command, NAME, "a.o", "b.o").args, ["-DN=_k_cpu_0123456789", "-o", "b.o"]);
    }
}
