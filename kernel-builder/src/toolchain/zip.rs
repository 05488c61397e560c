//! The directory of a zip archive, read from slices of it.
//!
//! Owns: the format (PKWARE's APPNOTE.TXT 6.3.10, sections 4.3 and 4.5.3, zip64 included).
//! Never: reads a file or a socket, unpacks.

use std::ops::Range;

use thiserror::Error;

/// How much of the end of an archive is enough to find its directory: the end record, the longest comment, and the
/// two zip64 records before them.
pub(super) const TAIL: u64 = 22 + 65_535 + 20 + 56;

/// Why an archive cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ZipError {
    /// No end-of-directory record.
    #[error("it is not a complete zip file")]
    NoEnd,
    /// A record is cut short or has the wrong signature.
    #[error("its directory is damaged")]
    Directory,
    /// A name that would leave the folder it is unpacked into.
    #[error("the file name `{0}` points outside of the archive")]
    Escapes(String),
    /// A compression that wheels do not use.
    #[error("`{name}` uses compression method {method}, which is not supported; wheels use 0 or 8")]
    Method {
        /// The member.
        name: String,
        /// The method's number.
        method: u16,
    },
}

/// One file of an archive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Member {
    pub(super) name: String,
    /// Deflated (method 8) rather than stored (method 0).
    pub(super) deflated: bool,
    pub(super) crc32: u32,
    /// Bytes in the archive.
    pub(super) packed: u64,
    /// Bytes once unpacked.
    pub(super) size: u64,
    /// Where its local header and data lie; reaches to the next member, or to the directory.
    pub(super) place: Range<u64>,
    /// Marked as executable.
    pub(super) executable: bool,
}

/// Where the directory of an archive of `length` bytes lies, given its last bytes.
pub(super) fn find_directory(tail: &[u8], length: u64) -> Result<Range<u64>, ZipError> {
    let end = (0..=tail.len().saturating_sub(22))
        .rev()
        .find(|at| tail[*at..].starts_with(b"PK\x05\x06"))
        .ok_or(ZipError::NoEnd)?;
    let record = &tail[end..];
    let (mut size, mut start) = (u64::from(u32_at(record, 12)?), u64::from(u32_at(record, 16)?));
    if size == u64::from(u32::MAX) || start == u64::from(u32::MAX) {
        let locator = end.checked_sub(20).ok_or(ZipError::NoEnd)?;
        if !tail[locator..].starts_with(b"PK\x06\x07") {
            return Err(ZipError::Directory);
        }
        let place = u64_at(tail, locator + 8)?;
        let offset = place.checked_sub(length - tail.len() as u64).ok_or(ZipError::Directory)?;
        let wide = usize::try_from(offset).map_err(|_| ZipError::Directory)?;
        if !tail.get(wide..).is_some_and(|bytes| bytes.starts_with(b"PK\x06\x06")) {
            return Err(ZipError::Directory);
        }
        (size, start) = (u64_at(tail, wide + 40)?, u64_at(tail, wide + 48)?);
    }
    let stop = start.checked_add(size).filter(|stop| *stop <= length).ok_or(ZipError::Directory)?;
    Ok(start..stop)
}

/// The files that a directory lists, in the order in which they lie in the archive; folders are left out.
pub(super) fn members(directory: &[u8], directory_start: u64) -> Result<Vec<Member>, ZipError> {
    let mut members = Vec::new();
    let mut at = 0;
    while at < directory.len() {
        let (member, length) = member(&directory[at..])?;
        at += length;
        members.push(member);
    }
    members.sort_by_key(|member| member.place.start);
    if members.last().is_some_and(|last| last.place.start >= directory_start) {
        return Err(ZipError::Directory);
    }
    let ends: Vec<u64> =
        members.iter().skip(1).map(|next| next.place.start).chain([directory_start]).collect();
    for (member, end) in members.iter_mut().zip(ends) {
        member.place.end = end;
    }
    members.retain(|member| !member.name.ends_with('/'));
    Ok(members)
}

/// How many bytes of a local header come before the data it describes.
pub(super) fn data_offset(header: &[u8]) -> Result<usize, ZipError> {
    if !header.starts_with(b"PK\x03\x04") {
        return Err(ZipError::Directory);
    }
    Ok(30 + usize::from(u16_at(header, 26)?) + usize::from(u16_at(header, 28)?))
}

/// One entry of the directory and its length there.
fn member(entry: &[u8]) -> Result<(Member, usize), ZipError> {
    if !entry.starts_with(b"PK\x01\x02") {
        return Err(ZipError::Directory);
    }
    let length = |at: usize| u16_at(entry, at).map(usize::from);
    let name_end = 46 + length(28)?;
    let extra_end = name_end + length(30)?;
    let name = entry.get(46..name_end).ok_or(ZipError::Directory)?;
    let extra = entry.get(name_end..extra_end).ok_or(ZipError::Directory)?;
    let name = String::from_utf8(name.to_vec()).map_err(|_| ZipError::Directory)?;
    if name.starts_with('/') || name.split('/').any(|part| part == "..") || name.contains('\\') {
        return Err(ZipError::Escapes(name));
    }
    let method = u16_at(entry, 10)?;
    if !matches!(method, 0 | 8) {
        return Err(ZipError::Method { name, method });
    }
    let mut wide = wide_values(extra)?;
    // The zip64 extra field holds, in this order, only the values that do not fit into 32 bits.
    let mut value = |at: usize| -> Result<u64, ZipError> {
        match u32_at(entry, at)? {
            u32::MAX => wide.next().ok_or(ZipError::Directory),
            value => Ok(u64::from(value)),
        }
    };
    let (size, packed, start) = (value(24)?, value(20)?, value(42)?);
    // Made on Unix: the high half of the external attributes is the file mode.
    let executable = entry[5] == 3 && (u32_at(entry, 38)? >> 16) & 0o111 != 0;
    let crc32 = u32_at(entry, 16)?;
    let member = Member { name, deflated: method == 8, crc32, packed, size, place: start..start, executable };
    Ok((member, extra_end + length(32)?))
}

/// The 64-bit values of the zip64 extra field (0x0001); none where there is no such field.
fn wide_values(extra: &[u8]) -> Result<impl Iterator<Item = u64>, ZipError> {
    let mut at = 0;
    let mut found = Vec::new();
    while at + 4 <= extra.len() {
        let (kind, length) = (u16_at(extra, at)?, usize::from(u16_at(extra, at + 2)?));
        let field = extra.get(at + 4..at + 4 + length).ok_or(ZipError::Directory)?;
        if kind == 1 {
            found = field.as_chunks::<8>().0.iter().map(|bytes| u64::from_le_bytes(*bytes)).collect();
        }
        at += 4 + length;
    }
    Ok(found.into_iter())
}

fn u16_at(bytes: &[u8], at: usize) -> Result<u16, ZipError> {
    Ok(u16::from_le_bytes(array(bytes, at)?))
}

fn u32_at(bytes: &[u8], at: usize) -> Result<u32, ZipError> {
    Ok(u32::from_le_bytes(array(bytes, at)?))
}

fn u64_at(bytes: &[u8], at: usize) -> Result<u64, ZipError> {
    Ok(u64::from_le_bytes(array(bytes, at)?))
}

fn array<const N: usize>(bytes: &[u8], at: usize) -> Result<[u8; N], ZipError> {
    bytes.get(at..at + N).and_then(|slice| slice.try_into().ok()).ok_or(ZipError::Directory)
}

#[cfg(test)]
pub(super) mod tests {
    use std::io::Write;

    use super::*;

    /// A member to be written: name, content, deflated, executable.
    pub(in crate::toolchain) type Content<'a> = (&'a str, &'a [u8], bool, bool);

    /// An archive with these members; `wide` writes zip64 records.
    pub(in crate::toolchain) fn archive(members: &[Content<'_>], wide: bool) -> Vec<u8> {
        let (mut bytes, mut directory) = (Vec::new(), Vec::new());
        for (name, content, deflated, executable) in members {
            let packed = if *deflated { deflate(content) } else { content.to_vec() };
            let start = bytes.len() as u64;
            let (method, crc) = (if *deflated { 8u16 } else { 0 }, crc32fast::hash(content));
            let small = |value: usize| if wide { u32::MAX } else { value as u32 };
            bytes.extend_from_slice(b"PK\x03\x04\x14\0\0\0");
            bytes.extend(method.to_le_bytes());
            bytes.extend([0; 4]);
            bytes.extend(crc.to_le_bytes());
            bytes.extend((packed.len() as u32).to_le_bytes());
            bytes.extend((content.len() as u32).to_le_bytes());
            // The local header has an extra field that the directory lacks, as real archives do.
            bytes.extend((name.len() as u16).to_le_bytes());
            bytes.extend(4u16.to_le_bytes());
            bytes.extend(name.as_bytes());
            bytes.extend([0xfe, 0xca, 0, 0]);
            bytes.extend(&packed);
            let mut extra = Vec::new();
            if wide {
                extra.extend([1, 0, 24, 0]);
                [content.len() as u64, packed.len() as u64, start]
                    .iter()
                    .for_each(|value| extra.extend(value.to_le_bytes()));
            }
            directory.extend_from_slice(b"PK\x01\x02\x14\x03\x14\0\0\0");
            directory.extend(method.to_le_bytes());
            directory.extend([0; 4]);
            directory.extend(crc.to_le_bytes());
            directory.extend(small(packed.len()).to_le_bytes());
            directory.extend(small(content.len()).to_le_bytes());
            directory.extend((name.len() as u16).to_le_bytes());
            directory.extend((extra.len() as u16).to_le_bytes());
            directory.extend([0; 6]);
            let mode: u32 = if *executable { 0o100_755 } else { 0o100_644 };
            directory.extend((mode << 16).to_le_bytes());
            directory.extend(small(start as usize).to_le_bytes());
            directory.extend(name.as_bytes());
            directory.extend(&extra);
        }
        finish(bytes, &directory, members.len() as u64, wide)
    }

    fn finish(mut bytes: Vec<u8>, directory: &[u8], count: u64, wide: bool) -> Vec<u8> {
        let start = bytes.len() as u64;
        bytes.extend(directory);
        let size = directory.len() as u64;
        if wide {
            let place = bytes.len() as u64;
            bytes.extend_from_slice(b"PK\x06\x06");
            bytes.extend(44u64.to_le_bytes());
            bytes.extend([45, 0, 45, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
            [count, count, size, start].iter().for_each(|value| bytes.extend(value.to_le_bytes()));
            bytes.extend_from_slice(b"PK\x06\x07\0\0\0\0");
            bytes.extend(place.to_le_bytes());
            bytes.extend(1u32.to_le_bytes());
        }
        bytes.extend_from_slice(b"PK\x05\x06\0\0\0\0");
        let narrow = |value: u64| if wide { u32::MAX } else { value as u32 };
        bytes.extend([count as u16; 2].map(u16::to_le_bytes).concat());
        bytes.extend(narrow(size).to_le_bytes());
        bytes.extend(narrow(start).to_le_bytes());
        bytes.extend([0; 2]);
        bytes
    }

    fn deflate(content: &[u8]) -> Vec<u8> {
        let mut encoder = flate2::write::DeflateEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder.write_all(content).unwrap();
        encoder.finish().unwrap()
    }

    fn read(bytes: &[u8]) -> Result<Vec<Member>, ZipError> {
        let length = bytes.len() as u64;
        let tail = &bytes[bytes.len().saturating_sub(TAIL as usize)..];
        let place = find_directory(tail, length)?;
        members(&bytes[place.start as usize..place.end as usize], place.start)
    }

    #[test]
    fn lists_members_of_both_kinds_of_archive() {
        for wide in [false, true] {
            let bytes = archive(
                &[
                    ("bin/tool", b"#!", false, true),
                    ("folder/", b"", false, false),
                    ("text", &[b'x'; 999], true, false),
                ],
                wide,
            );
            let members = read(&bytes).unwrap();
            assert_eq!(
                members.iter().map(|member| member.name.as_str()).collect::<Vec<_>>(),
                ["bin/tool", "text"]
            );
            assert!(members[0].executable && !members[0].deflated);
            assert_eq!((members[1].size, members[1].crc32), (999, crc32fast::hash(&[b'x'; 999])));
            let local = &bytes[members[1].place.start as usize..];
            assert_eq!(data_offset(local).unwrap(), 30 + "text".len() + 4);
        }
    }

    #[test]
    fn refuses_what_is_no_archive_or_leads_out() {
        assert_eq!(read(&[0; 400]), Err(ZipError::NoEnd));
        assert_eq!(read(b"PK"), Err(ZipError::NoEnd));
        for name in ["../evil", "/etc/evil", "a/../../evil"] {
            let bytes = archive(&[(name, b"x", false, false)], false);
            assert_eq!(read(&bytes), Err(ZipError::Escapes(name.to_owned())));
        }
    }

    #[test]
    fn a_member_behind_the_directory_is_an_error() {
        let bytes = archive(&[("a", b"x", false, false), ("b", b"y", false, false)], false);
        let place = find_directory(&bytes, bytes.len() as u64).unwrap();
        let directory = &bytes[place.start as usize..place.end as usize];
        assert_eq!(members(directory, place.start).map(|members| members.len()), Ok(2));
        assert_eq!(members(directory, 1), Err(ZipError::Directory));
    }

    #[test]
    fn a_damaged_directory_is_an_error_at_every_length() {
        let bytes = archive(&[("a", b"x", false, false), ("b", &[b'y'; 50], true, false)], true);
        let place = find_directory(&bytes, bytes.len() as u64).unwrap();
        let directory = &bytes[place.start as usize..place.end as usize];
        for length in 1..directory.len() {
            let cut = members(&directory[..length], place.start);
            assert!(cut.is_err() || cut.unwrap().len() == 1, "{length}");
        }
    }
}
