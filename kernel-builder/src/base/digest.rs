//! Content digests (BLAKE3), the names under which everything is cached and recorded.
//!
//! Owns: the digest type and how several fields become one digest without ambiguity.
//! Never: holds a whole file.

use std::fmt;
use std::path::Path;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::files::{self, FileError};

/// A BLAKE3 digest of 32 bytes, shown in lower-case hexadecimal.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Digest([u8; 32]);

impl Digest {
    /// The digest of some bytes.
    pub fn blake3(bytes: &[u8]) -> Self {
        Self(*blake3::hash(bytes).as_bytes())
    }

    /// The first `length` hexadecimal characters, for names that people read.
    pub fn short(&self, length: usize) -> String {
        self.to_string()[..length.min(64)].to_owned()
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&hex(&self.0))
    }
}

/// Bytes as lower-case hex digits.
pub fn hex(bytes: &[u8]) -> String {
    use fmt::Write as _;
    bytes.iter().fold(String::with_capacity(2 * bytes.len()), |mut text, byte| {
        let _infallible = write!(text, "{byte:02x}");
        text
    })
}

impl fmt::Debug for Digest {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "Digest({self})")
    }
}

/// What is wrong with the text of a digest.
#[derive(Debug, thiserror::Error)]
#[error("`{0}` is not a digest: 64 hexadecimal characters are expected")]
pub struct BadDigest(String);

impl FromStr for Digest {
    type Err = BadDigest;

    fn from_str(text: &str) -> Result<Self, BadDigest> {
        let hash = blake3::Hash::from_hex(text).map_err(|_| BadDigest(text.to_owned()))?;
        Ok(Self(*hash.as_bytes()))
    }
}

impl Serialize for Digest {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Digest {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

/// Collects named fields into one digest; every field is prefixed with its length, so fields cannot run together.
pub struct DigestBuilder(blake3::Hasher);

impl DigestBuilder {
    /// Starts a digest for one purpose; digests of different purposes never collide.
    pub fn new(purpose: &str) -> Self {
        let mut hasher = blake3::Hasher::new();
        hasher.update(&(purpose.len() as u64).to_le_bytes());
        hasher.update(purpose.as_bytes());
        Self(hasher)
    }

    /// Adds one field.
    #[must_use]
    pub fn field(mut self, name: &str, value: impl AsRef<[u8]>) -> Self {
        for part in [name.as_bytes(), value.as_ref()] {
            self.0.update(&(part.len() as u64).to_le_bytes());
            self.0.update(part);
        }
        self
    }

    /// Adds the content of a file as a field, and holds no more of it than a block: the same as [`Self::field`] of its bytes.
    pub fn file(mut self, name: &str, path: &Path) -> Result<Self, FileError> {
        let failed = |cause| FileError { action: "read", path: path.to_owned(), cause };
        let (size, _) = files::stamp(path)?;
        self.0.update(&(name.len() as u64).to_le_bytes());
        self.0.update(name.as_bytes());
        self.0.update(&size.to_le_bytes());
        let before = self.0.count();
        self.0.update_reader(files::open(path)?).map_err(failed)?;
        if self.0.count() - before == size {
            return Ok(self);
        }
        Err(failed(std::io::Error::other("it was changed while it was read")))
    }

    /// The digest of all fields so far.
    pub fn finish(self) -> Digest {
        Digest(*self.0.finalize().as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_do_not_run_together() {
        let one = DigestBuilder::new("t").field("a", "bc").finish();
        let other = DigestBuilder::new("t").field("ab", "c").finish();
        assert_ne!(one, other);
    }

    #[test]
    fn a_file_is_a_field_of_its_bytes() {
        let folder = files::scratch().unwrap();
        let (path, bytes) = (folder.path().join("f"), vec![7; 300_000]);
        files::write(&path, &bytes).unwrap();
        let one = DigestBuilder::new("t").file("f", &path).unwrap().finish();
        assert_eq!(one, DigestBuilder::new("t").field("f", &bytes).finish());
    }

    #[test]
    fn text_round_trips() {
        let digest = Digest::blake3(b"kernel");
        assert_eq!(digest.to_string().parse::<Digest>().unwrap(), digest);
        assert!("zz".parse::<Digest>().is_err());
    }
}
