//! Members of a wheel, from a slice of its bytes into the store.
//!
//! Owns: inflating, and three checks of each member: its size, the zip's CRC-32, and the SHA-256 that the wheel's
//! RECORD gives (the binary distribution format of PyPA).
//! Never: fetches.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufReader, Read, Seek, SeekFrom, Write};
use std::path::Path;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use flate2::read::DeflateDecoder;
use sha2::{Digest as _, Sha256};

use super::error::ToolchainError;
use super::store::Entry;
use super::zip::{self, Member};
use crate::base::digest::hex;
use crate::base::files::{self, FileError};
use crate::base::interrupt;
use crate::base::process::ProcessError;

/// What RECORD says: SHA-256, hexadecimal, by name.
pub(super) type Promised = BTreeMap<String, String>;

/// A file with some of a wheel's bytes.
pub(super) struct Slice<'a> {
    /// The wheel, for messages.
    pub(super) wheel: &'a str,
    /// The file.
    pub(super) file: &'a Path,
    /// The wheel's byte at the start of the file.
    pub(super) start: u64,
}

impl Slice<'_> {
    /// Unpacks one member into the store and records it. Without `promised` only size and CRC are checked: for RECORD
    /// itself, and for wheels whose digest was checked as a whole.
    pub(super) fn unpack(
        &self,
        member: &Member,
        promised: Option<&Promised>,
        entry: &Entry,
    ) -> Result<(), ToolchainError> {
        let place = entry.place(&member.name);
        let sha256 = files::write_with(&place, |out| self.check(member, promised, &place, out))?;
        if member.executable {
            files::make_executable(&place)?;
        }
        Ok(entry.record(&member.name, sha256)?)
    }

    fn check(
        &self,
        member: &Member,
        promised: Option<&Promised>,
        place: &Path,
        out: &mut dyn Write,
    ) -> Result<String, ToolchainError> {
        let damaged = |problem: &str, cause: Option<std::io::Error>| ToolchainError::Damaged {
            wheel: self.wheel.to_owned(),
            problem: format!("{} {problem}", member.name),
            cause,
        };
        let mut data = self.data(member)?;
        let mut tally = Tally { crc32: crc32fast::Hasher::new(), sha256: Sha256::new(), size: 0 };
        let mut block = vec![0; 256 << 10];
        loop {
            interrupt::check().map_err(|_| ProcessError::Interrupted)?;
            let count = match data.read(&mut block) {
                Ok(0) => break,
                Ok(count) => count,
                Err(error) => return Err(damaged("cannot be decompressed", Some(error))),
            };
            tally.take(&block[..count]);
            out.write_all(&block[..count]).map_err(|cause| FileError::new("write", place, cause))?;
        }
        if tally.size != member.size || tally.crc32.finalize() != member.crc32 {
            return Err(damaged("does not match the CRC-32 in the wheel's directory", None));
        }
        let sha256 = hex(&tally.sha256.finalize());
        match promised.map(|promised| promised.get(&member.name)) {
            None => Ok(sha256),
            Some(Some(wanted)) if *wanted == sha256 => Ok(sha256),
            Some(Some(_)) => Err(damaged("does not match the SHA-256 in the wheel's RECORD", None)),
            Some(None) => Err(damaged("is not listed in the wheel's RECORD", None)),
        }
    }

    fn data(&self, member: &Member) -> Result<Box<dyn Read>, ToolchainError> {
        let mut file = files::open(self.file)?;
        let unreadable = |cause| FileError { action: "read", path: self.file.to_owned(), cause };
        let not_a_zip = |cause| ToolchainError::NotAZip { wheel: self.wheel.to_owned(), cause };
        let mut header = [0; 30];
        let start = member.place.start - self.start;
        file.seek(SeekFrom::Start(start)).and_then(|_| file.read_exact(&mut header)).map_err(unreadable)?;
        let skip = zip::data_offset(&header).map_err(not_a_zip)? as u64;
        file.seek(SeekFrom::Start(start + skip)).map_err(unreadable)?;
        let data = BufReader::<File>::with_capacity(256 << 10, file).take(member.packed);
        Ok(if member.deflated { Box::new(DeflateDecoder::new(data)) } else { Box::new(data) })
    }
}

struct Tally {
    crc32: crc32fast::Hasher,
    sha256: Sha256,
    size: u64,
}

impl Tally {
    fn take(&mut self, block: &[u8]) {
        self.crc32.update(block);
        self.sha256.update(block);
        self.size += block.len() as u64;
    }
}

/// Reads RECORD: lines of `name,sha256=BASE64,size`; lines without a digest (RECORD's own) are left out.
pub(super) fn promised(record: &str) -> Promised {
    let line = |line: &str| {
        let mut fields = line.rsplitn(3, ',');
        let (_size, digest, name) = (fields.next()?, fields.next()?, fields.next()?);
        let digest = URL_SAFE_NO_PAD.decode(digest.strip_prefix("sha256=")?).ok()?;
        Some((name.trim_matches('"').to_owned(), hex(&digest)))
    };
    record.lines().filter_map(line).collect()
}
