//! How files lie on a disk: how much of it folders take, which files are programs, and that they are there to stay.
//!
//! Owns: looking, and waiting for the disk. Never: changes anything.
#![expect(clippy::disallowed_methods, reason = "a part of the door to the file system")]

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use super::files::{self, FileError};

/// The path without links in it, of what is there; else as it was given.
pub fn real(path: &Path) -> PathBuf {
    fs::canonicalize(path).unwrap_or_else(|_| path.to_owned())
}

/// Brings every file below `dir`, and the folders with their names, to the disk: what is moved into place after it is
/// whole when the power comes back.
pub fn settle(dir: &Path) -> Result<(), FileError> {
    let mut folders = BTreeSet::from([dir.to_owned()]);
    for name in files::walk(dir, |_| true)? {
        let path = dir.join(name);
        sync(&path)?;
        let between = path.ancestors().skip(1).take_while(|above| *above != dir);
        folders.extend(between.map(Path::to_owned));
    }
    folders.iter().try_for_each(|folder| sync(folder))
}

/// Brings a file, or the names in a folder, to the disk.
pub fn sync(path: &Path) -> Result<(), FileError> {
    let done = fs::File::open(path).and_then(|file| file.sync_all());
    done.map_err(|cause| FileError { action: "write", path: path.to_owned(), cause })
}

/// One file on disk; links to it have the same identity.
#[derive(Debug, Clone, Copy)]
pub struct OnDisk {
    /// Device and number.
    pub identity: (u64, u64),
    /// Bytes that it takes, in whole blocks.
    pub bytes: u64,
    /// How many names it has.
    pub names: u64,
}

/// Every file below a folder, links not followed. What vanishes meanwhile is left out.
pub fn on_disk(root: &Path) -> Vec<OnDisk> {
    use std::os::unix::fs::MetadataExt;
    let (mut found, mut pending) = (Vec::new(), vec![root.to_owned()]);
    while let Some(folder) = pending.pop() {
        for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
            let Ok(meta) = entry.metadata() else { continue };
            if meta.is_dir() {
                pending.push(entry.path());
            }
            let (identity, bytes) = ((meta.dev(), meta.ino()), meta.blocks() * 512);
            found.push(OnDisk { identity, bytes, names: if meta.is_dir() { 1 } else { meta.nlink() } });
        }
    }
    found
}

/// The folders in a folder, sorted; none where there is no such folder.
pub fn folders(root: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(root).into_iter().flatten().flatten();
    let mut found: Vec<PathBuf> = entries.map(|entry| entry.path()).filter(|path| path.is_dir()).collect();
    found.sort();
    found
}

/// Whether a file is marked as executable for its owner.
pub fn is_executable(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    fs::metadata(path).is_ok_and(|metadata| metadata.permissions().mode() & 0o100 != 0)
}
