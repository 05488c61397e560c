//! Several files in one entry of the cache.
//!
//! Owns: their form, a length of eight bytes before each. Never: reads a file.

/// All of `parts` in one.
pub(super) fn pack<'a>(parts: impl IntoIterator<Item = &'a [u8]>) -> Vec<u8> {
    let mut packed = Vec::new();
    for part in parts {
        packed.extend((part.len() as u64).to_le_bytes());
        packed.extend(part);
    }
    packed
}

/// The parts again; nothing when the bytes are no such entry.
pub(super) fn unpack(mut packed: &[u8]) -> Option<Vec<&[u8]>> {
    let mut parts = Vec::new();
    while !packed.is_empty() {
        let (length, rest) = packed.split_first_chunk::<8>()?;
        let length = usize::try_from(u64::from_le_bytes(*length)).ok()?;
        let (part, rest) = rest.split_at_checked(length)?;
        parts.push(part);
        packed = rest;
    }
    Some(parts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_packed_comes_out() {
        let packed = pack([b"one".as_slice(), b"", b"three"]);
        assert_eq!(unpack(&packed).unwrap(), [b"one".as_slice(), b"", b"three"]);
        assert_eq!(unpack(&packed[..packed.len() - 1]), None);
        assert_eq!(unpack(&packed[1..]), None);
    }
}
