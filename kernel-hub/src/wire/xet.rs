//! Xorbs and shards: the two formats in which clients with `hf_xet` send large files.
//!
//! Owns: reading them, and the hash that names a xorb (github.com/huggingface/xet-core, `xet_core_structures`).
//! Never: writes either format, or keeps more of a xorb in memory than one chunk.

use std::fmt;
use std::io::{self, Read};
use std::str::FromStr;

use lz4_flex::frame::FrameDecoder;

use crate::name::{BadName, Sha256, hex, shown};

/// The most bytes of a chunk, of the content of a xorb, and the most chunks of a xorb (`xorb_object/constants.rs`).
const CHUNK: usize = 128 * 1024;
const XORB: u64 = 64 * 1024 * 1024;
const CHUNKS: usize = 8 * 1024;
/// Begins the footer of a xorb, which repeats what the chunks say.
const FOOTER: &[u8] = b"XETBLOB";
/// Begins a shard (`metadata_shard/shard_format.rs`).
const SHARD: [u8; 32] = [
    b'H', b'F', b'R', b'e', b'p', b'o', b'M', b'e', b't', b'a', b'D', b'a', b't', b'a', 0, 85, 105, 103, 69,
    106, 123, 129, 87, 131, 165, 189, 217, 92, 205, 209, 74, 169,
];
const SHARD_VERSION: u64 = 2;
/// Bytes of every entry of a shard.
const ENTRY: usize = 48;
const WITH_VERIFICATION: u32 = 1 << 31;
const WITH_METADATA: u32 = 1 << 30;
/// Keys of the hashes of chunks and of inner nodes (`merklehash/data_hash.rs`).
const DATA_KEY: [u8; 32] = [
    102, 151, 245, 119, 91, 149, 80, 222, 49, 53, 203, 172, 165, 151, 24, 28, 157, 228, 33, 16, 155, 235, 43,
    88, 180, 208, 176, 75, 147, 173, 242, 41,
];
const NODE_KEY: [u8; 32] = [
    1, 126, 197, 199, 165, 71, 41, 150, 253, 148, 102, 102, 180, 138, 2, 230, 93, 221, 83, 111, 55, 199, 109,
    210, 248, 99, 82, 230, 74, 83, 113, 63,
];

/// Why a body is not a xorb or a shard.
#[derive(Debug, thiserror::Error)]
pub enum XetError {
    /// The format.
    #[error("{0}")]
    Format(String),
    /// Reading it failed.
    #[error(transparent)]
    Io(#[from] io::Error),
}

fn wrong(what: impl Into<String>) -> XetError {
    XetError::Format(what.into())
}

/// The name of a chunk or a xorb. As text, each 8 bytes are a little-endian number of 16 digits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct MerkleHash([u8; 32]);

impl MerkleHash {
    /// What decides where a level of the tree is cut.
    fn cuts(&self) -> bool {
        // A little-endian number is a multiple of 4 if its first byte is.
        self.0[24].is_multiple_of(4)
    }

    fn words(&self) -> [u8; 32] {
        let mut bytes = self.0;
        bytes.chunks_exact_mut(8).for_each(<[u8]>::reverse);
        bytes
    }
}

impl fmt::Display for MerkleHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hex(&self.words()))
    }
}

impl FromStr for MerkleHash {
    type Err = BadName;

    fn from_str(text: &str) -> Result<Self, BadName> {
        // A SHA-256 digest has the same alphabet and length.
        let digits: Sha256 =
            text.parse().map_err(|_| BadName(format!("{} is not a xet hash", shown(text))))?;
        let mut bytes = [0; 32];
        for (byte, at) in bytes.iter_mut().zip((0..64).step_by(2)) {
            let digits = digits.as_str().get(at..at + 2).unwrap_or_default();
            *byte = u8::from_str_radix(digits, 16).unwrap_or_default();
        }
        Ok(Self(Self(bytes).words()))
    }
}

/// The head of a chunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Chunk {
    /// Bytes that follow.
    pub stored: usize,
    /// Bytes of the content.
    pub length: usize,
    scheme: Scheme,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Scheme {
    Plain,
    Lz4,
    /// The first bytes of all groups of 4, then the second ones; all of it as LZ4.
    GroupedLz4,
}

impl Chunk {
    /// Bytes of a head.
    pub const HEAD: usize = 8;

    /// Reads the next head; `None` behind the last chunk.
    ///
    /// # Errors
    /// It is not the head of a chunk.
    pub fn next(from: &mut impl Read) -> Result<Option<Self>, XetError> {
        let mut head = [0; Self::HEAD];
        let mut filled = 0;
        while filled < head.len() {
            match from.read(head.get_mut(filled..).unwrap_or_default()) {
                Ok(0) if filled == 0 => return Ok(None),
                Ok(0) => return Err(wrong("the xorb ends within the head of a chunk")),
                Ok(count) => filled += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error.into()),
            }
        }
        if head.starts_with(FOOTER) {
            return Ok(None);
        }
        let [version, stored0, stored1, stored2, scheme, length0, length1, length2] = head;
        let number = |bytes: [u8; 3]| {
            bytes.iter().rev().fold(0_usize, |number, byte| number * 256 + usize::from(*byte))
        };
        let (stored, length) = (number([stored0, stored1, stored2]), number([length0, length1, length2]));
        let scheme = match scheme {
            0 => Scheme::Plain,
            1 => Scheme::Lz4,
            2 => Scheme::GroupedLz4,
            other => return Err(wrong(format!("the compression scheme {other} is not supported"))),
        };
        if version != 0 || length > CHUNK || stored > 2 * CHUNK {
            return Err(wrong("a chunk has an unknown version, or is too large"));
        }
        Ok(Some(Self { stored, length, scheme }))
    }

    /// Reads the content behind the head.
    ///
    /// # Errors
    /// It is not the content that the head announces.
    pub fn content(&self, from: &mut impl Read) -> Result<Vec<u8>, XetError> {
        let mut stored = vec![0; self.stored];
        from.read_exact(&mut stored).map_err(|_| wrong("the xorb ends within a chunk"))?;
        let content = if self.scheme == Scheme::Plain {
            stored
        } else {
            let mut content = Vec::with_capacity(self.length);
            // One byte more than announced is enough to refuse.
            let mut decoder = FrameDecoder::new(stored.as_slice()).take(self.length as u64 + 1);
            decoder
                .read_to_end(&mut content)
                .map_err(|error| wrong(format!("a chunk is not valid LZ4: {error}")))?;
            if self.scheme == Scheme::GroupedLz4 { ungrouped(&content) } else { content }
        };
        if content.len() == self.length { Ok(content) } else { Err(wrong("a chunk has a wrong length")) }
    }
}

/// The bytes in their order: all first bytes of 4 come first, then all second ones, and so on.
fn ungrouped(grouped: &[u8]) -> Vec<u8> {
    let mut content = vec![0; grouped.len()];
    let mut rest = grouped.iter();
    for first in 0..4 {
        content.iter_mut().skip(first).step_by(4).zip(&mut rest).for_each(|(to, from)| *to = *from);
    }
    content
}

/// The name of a xorb, from its content.
///
/// # Errors
/// It is not a xorb, or too large for one.
pub fn name_of(xorb: &mut impl Read) -> Result<MerkleHash, XetError> {
    let (mut nodes, mut total) = (Vec::new(), 0);
    while let Some(chunk) = Chunk::next(xorb)? {
        let content = chunk.content(xorb)?;
        total += chunk.length as u64;
        if total > XORB || nodes.len() == CHUNKS {
            return Err(wrong(format!("a xorb has at most {XORB} bytes and {CHUNKS} chunks")));
        }
        let hash = MerkleHash(*blake3::keyed_hash(&DATA_KEY, &content).as_bytes());
        nodes.push((hash, chunk.length as u64));
    }
    root(nodes).ok_or_else(|| wrong("the xorb has no chunk"))
}

/// The root of the tree over these leaves (`merklehash/aggregated_hashes.rs`).
fn root(mut nodes: Vec<(MerkleHash, u64)>) -> Option<MerkleHash> {
    while nodes.len() > 1 {
        let mut above = Vec::with_capacity(nodes.len() / 2 + 1);
        let mut rest = nodes.as_slice();
        while !rest.is_empty() {
            // Groups of 2 to 9 nodes; from the third on, a multiple of 4 ends one.
            let most = rest.len().min(9);
            let cut = (2..most).find(|at| rest.get(*at).is_some_and(|(hash, _)| hash.cuts()));
            let (group, others) = rest.split_at(cut.map_or(most, |at| at + 1));
            let text: String = group.iter().map(|(hash, size)| format!("{hash} : {size}\n")).collect();
            let hash = MerkleHash(*blake3::keyed_hash(&NODE_KEY, text.as_bytes()).as_bytes());
            above.push((hash, group.iter().map(|(_, size)| size).sum()));
            rest = others;
        }
        nodes = above;
    }
    nodes.first().map(|(hash, _)| *hash)
}

/// A file of a shard.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShardFile {
    /// The digest of its content.
    pub digest: Sha256,
    /// Where its content is, in order.
    pub terms: Vec<Term>,
}

/// Chunks of a xorb.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Term {
    /// Which xorb.
    pub xorb: MerkleHash,
    /// The first chunk.
    pub start: usize,
    /// The chunk behind the last one.
    pub end: usize,
    /// Bytes of the content.
    pub length: u64,
}

/// Reads the files of a shard, one after the other.
#[derive(Debug)]
pub struct Shard<R> {
    from: R,
    ended: bool,
}

impl<R: Read> Shard<R> {
    /// Reads the head.
    ///
    /// # Errors
    /// It is not a shard of a version that is known.
    pub fn new(mut from: R) -> Result<Self, XetError> {
        let head = entry(&mut from)?;
        let (tag, version) = (head.hash.0, u64::from(head.numbers[0]) | u64::from(head.numbers[1]) << 32);
        if tag != SHARD || version != SHARD_VERSION {
            return Err(wrong(format!("the body is not a shard of version {SHARD_VERSION}")));
        }
        Ok(Self { from, ended: false })
    }

    fn file(&mut self) -> Result<Option<ShardFile>, XetError> {
        let head = entry(&mut self.from)?;
        if head.hash.0 == [0xff; 32] {
            // What follows lists the xorbs, which say the same themselves.
            return Ok(None);
        }
        let [flags, count, ..] = head.numbers;
        let mut terms = Vec::new();
        for _ in 0..count {
            let Entry { hash, numbers: [_, length, start, end] } = entry(&mut self.from)?;
            if start >= end || end as usize > CHUNKS {
                return Err(wrong("a term of the shard names no chunks"));
            }
            let (start, end) = (start as usize, end as usize);
            terms.push(Term { xorb: hash, start, end, length: u64::from(length) });
        }
        if flags & WITH_VERIFICATION != 0 {
            // Hashes of the terms; the digest of the whole content says more.
            for _ in 0..count {
                entry(&mut self.from)?;
            }
        }
        if flags & WITH_METADATA == 0 {
            return Err(wrong("a file of the shard has no SHA-256 digest"));
        }
        let digest = Sha256::of_bytes(&entry(&mut self.from)?.hash.words());
        Ok(Some(ShardFile { digest, terms }))
    }
}

impl<R: Read> Iterator for Shard<R> {
    type Item = Result<ShardFile, XetError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.ended {
            return None;
        }
        let file = self.file().transpose();
        self.ended = !matches!(file, Some(Ok(_)));
        file
    }
}

/// A hash and four numbers: the form of everything in a shard.
struct Entry {
    hash: MerkleHash,
    numbers: [u32; 4],
}

fn entry(from: &mut impl Read) -> Result<Entry, XetError> {
    let mut bytes = [0; ENTRY];
    from.read_exact(&mut bytes).map_err(|error| match error.kind() {
        io::ErrorKind::UnexpectedEof => wrong("the shard ends early"),
        _ => error.into(),
    })?;
    let (mut hash, mut numbers) = ([0; 32], [0; 4]);
    hash.copy_from_slice(bytes.get(..32).unwrap_or_default());
    for (number, word) in numbers.iter_mut().zip(bytes.get(32..).unwrap_or_default().chunks_exact(4)) {
        *number = word.iter().rev().fold(0, |number, byte| number << 8 | u32::from(*byte));
    }
    Ok(Entry { hash: MerkleHash(hash), numbers })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_hash_survives_its_text() {
        let text = "0706050403020100".repeat(4);
        let hash: MerkleHash = text.parse().unwrap();
        assert_eq!(hash.0.first_chunk::<8>(), Some(&[0, 1, 2, 3, 4, 5, 6, 7]));
        assert_eq!(hash.to_string(), text);
        assert!(
            "0".repeat(63).parse::<MerkleHash>().is_err() && "X".repeat(64).parse::<MerkleHash>().is_err()
        );
    }

    #[test]
    fn bytes_come_back_from_their_groups() {
        assert_eq!(ungrouped(&[0, 4, 8, 1, 5, 9, 2, 6, 3, 7]), [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]);
        assert_eq!(ungrouped(&[0, 1, 2]), [0, 1, 2]);
    }

    #[test]
    fn a_chunk_is_what_its_head_announces() {
        let chunk = |head: [u8; 8], content: &[u8]| {
            let bytes = [&head, content].concat();
            name_of(&mut bytes.as_slice()).map(|hash| hash.to_string()).map_err(|error| error.to_string())
        };
        assert!(chunk([0, 2, 0, 0, 0, 2, 0, 0], b"hi").is_ok());
        for (head, content, words) in [
            ([0, 2, 0, 0, 0, 3, 0, 0], &b"hi"[..], "a wrong length"),
            ([0, 3, 0, 0, 0, 3, 0, 0], b"hi", "ends within"),
            ([1, 2, 0, 0, 0, 2, 0, 0], b"hi", "an unknown version"),
            ([0, 2, 0, 0, 7, 2, 0, 0], b"hi", "scheme 7"),
            ([0, 2, 0, 0, 1, 2, 0, 0], b"hi", "not valid LZ4"),
            ([0, 2, 0, 0, 0, 2, 0, 255], b"hi", "too large"),
            (*b"XETBLOB\0", b"hi", "no chunk"),
        ] {
            let told = chunk(head, content).unwrap_err();
            assert!(told.contains(words), "{told}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_answered(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
            let _either = name_of(&mut bytes.as_slice());
            let _either = Shard::new(bytes.as_slice()).map(|shard| shard.count());
            let shard = [&SHARD[..], &[2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0], &bytes].concat();
            prop_assert!(Shard::new(shard.as_slice()).is_ok_and(|shard| shard.count() < 10));
        }
    }
}
