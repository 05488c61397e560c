//! The files of a publication, by the names that a hub knows them by.
//!
//! Owns: the one reading of each file that gives both names. Never: holds more of a file than a block.

use std::io::Read;
use std::path::{Path, PathBuf};

use sha1::Sha1;
use sha2::{Digest as _, Sha256};

use crate::base::digest::hex;
use crate::base::files::{self, FileError};
use crate::hub::write::SAMPLE;

/// A file that is published.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Local {
    /// Its path in the repository.
    pub path: String,
    /// The file here.
    pub file: PathBuf,
    /// Its size in bytes.
    pub size: u64,
    /// Its first bytes, by which a hub tells text from data.
    pub sample: Vec<u8>,
    /// SHA-256 of its content, in hex: its name as a large file.
    pub sha256: String,
    /// Git's name of its content, in hex: its name as a regular file.
    pub blob: String,
}

/// Reads a file once.
pub(super) fn read(path: String, file: &Path) -> Result<Local, FileError> {
    let failed = |cause| FileError { action: "read", path: file.to_owned(), cause };
    let (size, _) = files::stamp(file)?;
    let mut source = files::open(file)?;
    let (mut large, mut regular) = (Sha256::new(), Sha1::new());
    regular.update(format!("blob {size}\0"));
    let (mut sample, mut block, mut length) = (Vec::new(), vec![0; 256 << 10], 0);
    loop {
        let count = match source.read(&mut block) {
            Ok(0) => break,
            Ok(count) => count,
            Err(cause) if cause.kind() == std::io::ErrorKind::Interrupted => continue,
            Err(cause) => return Err(failed(cause)),
        };
        sample.extend(block[..count].iter().take(SAMPLE - sample.len().min(SAMPLE)));
        large.update(&block[..count]);
        regular.update(&block[..count]);
        length += count as u64;
    }
    if length != size {
        return Err(failed(std::io::Error::other("it was changed while it was read")));
    }
    let (sha256, blob) = (hex(&large.finalize()), hex(&regular.finalize()));
    Ok(Local { path, file: file.to_owned(), size, sample, sha256, blob })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_names_are_those_that_git_and_git_lfs_give() {
        let folder = files::scratch().unwrap();
        let file = folder.path().join("a");
        files::write(&file, "hello\n").unwrap();
        let local = read("a".to_owned(), &file).unwrap();
        // `echo hello | git hash-object --stdin`, `echo hello | sha256sum`
        assert_eq!(local.blob, "ce013625030ba8dba906f756967f9e9ca394464a");
        assert_eq!(local.sha256, "5891b5b522d5df086d0ff0b110fbd9d21bb4fc7163af34d08286a2e846f6be03");
        assert_eq!((local.size, local.sample.as_slice()), (6, b"hello\n".as_slice()));
        files::write(&file, vec![7; 600_000]).unwrap();
        let local = read("a".to_owned(), &file).unwrap();
        assert_eq!((local.size, local.sample.len()), (600_000, 512));
    }
}
