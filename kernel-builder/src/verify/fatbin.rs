//! The container that nvcc puts device code in: section `.nv_fatbin`.
//!
//! Owns: walking the container and unpacking its entries. Never: interprets machine code.
//!
//! The format is not documented. Established by writing containers with nvcc 13.0 and reading them beside
//! `cuobjdump -lelf -lptx`: a 16-byte header (magic, version, header size, size of what follows), then entries of a
//! header (64 bytes or more, size given) and a payload, which may be compressed by LZ4 or Zstandard.

use thiserror::Error;

const MAGIC: u32 = 0xba55_ed50;
const LZ4: u64 = 0x2000;
const ZSTD: u64 = 0x8000;
const ARCH_SPECIFIC: u64 = 0x10_0000;
const FAMILY_SPECIFIC: u64 = 0x20_0000;
/// No entry of a real library comes near; a container that claims more is damaged.
const LARGEST: u64 = 1 << 30;
/// All entries of a library together; a few megabytes could otherwise unpack to more than the judge has.
const ALL: usize = 4 << 30;

/// A container that cannot be read.
#[derive(Debug, Error)]
pub(crate) enum FatbinError {
    #[error("entries that hold more than {ALL} bytes together")]
    TooLarge,
    #[error("an entry with a header of {0} bytes")]
    Header(u64),
    #[error("an entry that claims to hold {0} bytes")]
    Claim(u64),
    #[error("an entry shorter than its compressed data")]
    Short,
    #[error("an entry that runs over the end")]
    Overrun,
    #[error("a container that ends early")]
    CutOff,
    #[error("Zstandard")]
    Zstandard(#[from] ruzstd::decoding::errors::FrameDecoderError),
    #[error("LZ4")]
    Lz4(#[from] lz4_flex::block::DecompressError),
}

/// What an entry holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Text in NVIDIA's virtual instruction set.
    Ptx,
    /// Machine code: an ELF file.
    Cubin,
}

/// One entry, unpacked.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Entry {
    pub kind: Kind,
    /// The architecture, as after `sm_` and `compute_`: `80`, `90a`, `100f`.
    pub arch: String,
    pub payload: Vec<u8>,
}

/// Every entry of all containers in a section.
///
/// # Errors
/// A container is damaged, or holds too much.
pub(crate) fn entries(section: &[u8]) -> Result<Vec<Entry>, FatbinError> {
    let mut found: Vec<Entry> = Vec::new();
    let (mut place, mut held) = (0, 0);
    while place + 16 <= section.len() {
        let magic: u32 = number(section, place, 4)? as u32;
        if magic != MAGIC {
            // Containers are aligned to eight bytes; zeros lie between them.
            place += 8;
            continue;
        }
        let start = place + number(section, place + 6, 2)? as usize;
        let size = number(section, place + 8, 8)?;
        let end = end_of(start, size, section.len())?;
        let mut next = start;
        while next < end {
            let (entry, after) = entry(&section[..end], next)?;
            held += entry.as_ref().map_or(0, |entry| entry.payload.len());
            if held > ALL {
                return Err(FatbinError::TooLarge);
            }
            found.extend(entry);
            next = after;
        }
        place = end.next_multiple_of(8);
    }
    Ok(found)
}

/// The entry at `place`, when it holds code, and where the next one starts.
fn entry(section: &[u8], place: usize) -> Result<(Option<Entry>, usize), FatbinError> {
    let field = |offset, width| number(section, place + offset, width);
    let header = field(4, 4)?;
    let size = field(8, 8)?;
    let (compressed, arch, flags, unpacked) = (field(16, 4)?, field(28, 4)?, field(40, 8)?, field(56, 8)?);
    if header < 64 {
        return Err(FatbinError::Header(header));
    }
    let start = end_of(place, header, section.len())?;
    let end = end_of(start, size, section.len())?;
    let kind = match field(0, 2)? {
        1 => Kind::Ptx,
        2 => Kind::Cubin,
        _ => return Ok((None, end)),
    };
    let stored = &section[start..end];
    let payload = if flags & (LZ4 | ZSTD) == 0 {
        stored.to_vec()
    } else {
        if unpacked > LARGEST {
            return Err(FatbinError::Claim(unpacked));
        }
        let stored = stored.get(..compressed as usize).ok_or(FatbinError::Short)?;
        unpack(stored, unpacked as usize, flags & ZSTD != 0)?
    };
    let suffix = match flags {
        flags if flags & ARCH_SPECIFIC != 0 => "a",
        flags if flags & FAMILY_SPECIFIC != 0 => "f",
        _ => "",
    };
    Ok((Some(Entry { kind, arch: format!("{arch}{suffix}"), payload }), end))
}

fn unpack(stored: &[u8], size: usize, zstd: bool) -> Result<Vec<u8>, FatbinError> {
    if zstd {
        let mut payload = vec![0; size];
        let written = ruzstd::decoding::FrameDecoder::new().decode_all(stored, &mut payload)?;
        payload.truncate(written);
        Ok(payload)
    } else {
        Ok(lz4_flex::block::decompress(stored, size)?)
    }
}

fn end_of(start: usize, size: u64, length: usize) -> Result<usize, FatbinError> {
    let end = usize::try_from(size).ok().and_then(|size| start.checked_add(size));
    end.filter(|end| *end <= length && *end > start).ok_or(FatbinError::Overrun)
}

/// A little-endian number of `width` bytes.
fn number(bytes: &[u8], place: usize, width: usize) -> Result<u64, FatbinError> {
    let bytes = bytes.get(place..place + width).ok_or(FatbinError::CutOff)?;
    Ok(bytes.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte)))
}

/// Containers for tests.
#[cfg(test)]
pub(crate) mod samples {
    use super::*;

    /// An entry as nvcc writes it; `packed` is the payload with its flag, when it is compressed.
    pub(crate) fn entry(kind: u16, arch: u32, flags: u64, payload: &[u8], packed: Option<&[u8]>) -> Vec<u8> {
        let mut stored = packed.unwrap_or(payload).to_vec();
        let compressed = packed.map_or(0, <[u8]>::len);
        stored.resize(stored.len().next_multiple_of(8), 0);
        let mut bytes = Vec::new();
        bytes.extend(kind.to_le_bytes());
        bytes.extend(0x101u16.to_le_bytes());
        bytes.extend(64u32.to_le_bytes());
        bytes.extend((stored.len() as u64).to_le_bytes());
        bytes.extend((compressed as u32).to_le_bytes());
        bytes.extend([0; 8]);
        bytes.extend(arch.to_le_bytes());
        bytes.extend([0; 8]);
        bytes.extend(flags.to_le_bytes());
        bytes.extend([0; 8]);
        bytes.extend((packed.map_or(0, |_| payload.len()) as u64).to_le_bytes());
        assert_eq!(bytes.len(), 64);
        bytes.extend(stored);
        bytes
    }

    pub(crate) fn container(entries: &[Vec<u8>]) -> Vec<u8> {
        let body = entries.concat();
        let mut bytes = MAGIC.to_le_bytes().to_vec();
        bytes.extend(1u16.to_le_bytes());
        bytes.extend(16u16.to_le_bytes());
        bytes.extend((body.len() as u64).to_le_bytes());
        bytes.extend(body);
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::samples::{container, entry};
    use super::*;

    #[test]
    fn walks_several_containers_and_names_architectures() {
        let plain = entry(2, 80, 0x11, b"8 bytes.", None);
        let specific = entry(2, 90, 0x11 | ARCH_SPECIFIC, b"8 bytes.", None);
        let family = entry(1, 100, 0x11 | FAMILY_SPECIFIC, b"8 bytes.", None);
        let unknown = entry(64, 100, 0, b"8 bytes.", None);
        let section = [container(&[plain, unknown]), vec![0; 8], container(&[specific, family])].concat();
        let found = entries(&section).unwrap();
        let archs: Vec<_> = found.iter().map(|entry| (entry.kind, entry.arch.as_str())).collect();
        assert_eq!(archs, [(Kind::Cubin, "80"), (Kind::Cubin, "90a"), (Kind::Ptx, "100f")]);
        assert_eq!(found[0].payload, b"8 bytes.");
    }

    #[test]
    fn unpacks_both_compressions() {
        let text = b".version 9.0 .target sm_120 .target sm_120 .target sm_120".as_slice();
        let lz4 = lz4_flex::block::compress(text);
        let zstd = ruzstd::encoding::compress_to_vec(text, ruzstd::encoding::CompressionLevel::Fastest);
        let section = container(&[
            entry(1, 120, 0x11 | LZ4, text, Some(&lz4)),
            entry(1, 120, 0x11 | ZSTD, text, Some(&zstd)),
        ]);
        assert!(entries(&section).unwrap().iter().all(|entry| entry.payload == text));
    }

    #[test]
    fn a_damaged_container_is_an_error_and_no_panic() {
        let section = container(&[entry(2, 80, 0x11, b"8 bytes.", None)]);
        for length in 17..section.len() {
            assert!(entries(&section[..length]).is_err(), "{length}");
        }
        for place in 0..section.len() {
            let mut damaged = section.clone();
            damaged[place] = 0xff;
            let _any = entries(&damaged);
        }
    }
}
