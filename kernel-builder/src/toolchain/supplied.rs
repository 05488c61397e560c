//! Wheels that a person or a builder hands in, in place of the package index: `KERNELWRIGHT_WHEELS`.
//!
//! A folder of the list holds whole wheels, by their file names, and folders of what is taken of a wheel, each named as the
//! lock calls it; or it is such a folder itself, and its name ends so. What is handed in counts only where
//! `kernelwright.lock` has it: a wheel by its SHA-256, a folder by the digest of all of its members.
//!
//! Owns: finding them, checking folders. Never: takes what the lock does not have, changes what was handed in.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};

use sha2::{Digest as _, Sha256};

use super::error::{ToolchainError, interrupted_or};
use super::index::{Located, Release};
use super::lock::{Lock, Locked};
use super::pins::Part;
use super::request::Request;
use super::store::{Entry, digest};
use crate::base::digest::hex;
use crate::base::files::{self, FileError};
use crate::base::process::ProcessError;
use crate::base::session::Session;
use crate::base::{disk, env, interrupt};

/// The folders that were named.
#[derive(Debug, Default)]
pub(super) struct Supplied {
    folders: Vec<PathBuf>,
}

impl Supplied {
    /// Those of the environment.
    pub(super) fn named() -> Self {
        let said = env::text(env::WHEELS).unwrap_or_default();
        let named = said.split(':').filter(|folder| !folder.is_empty());
        Self { folders: named.map(|folder| env::absolute(folder.as_ref())).collect() }
    }

    #[cfg(test)]
    pub(super) fn new(folders: Vec<PathBuf>) -> Self {
        Self { folders }
    }

    /// Puts into the store what folders hold of `requests`.
    ///
    /// # Errors
    /// A folder is not what the lock has under its name.
    pub(super) fn store(
        &self,
        session: &Session,
        lock: Option<&Lock>,
        requests: &[Request],
    ) -> Result<(), ToolchainError> {
        let Some(lock) = lock.filter(|_| !self.folders.is_empty()) else { return Ok(()) };
        for part in requests.iter().map(|request| &request.part) {
            let Some(locked) = lock.locked_wheel(part) else { continue };
            let Some(folder) = self.tree(&locked.key()) else { continue };
            let entry = Entry::new(session, &locked.sha256);
            let _lock = entry.lock(|| ()).map_err(interrupted_or)?;
            if entry.complete(part).is_none() {
                take(&entry, part, &locked, &folder)?;
            }
        }
        Ok(())
    }

    /// The folder of what is taken of a wheel.
    fn tree(&self, key: &str) -> Option<PathBuf> {
        let itself = |folder: &PathBuf| {
            let name = folder.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            // The Nix store puts a hash and a hyphen in front.
            name == key || name.strip_suffix(key).is_some_and(|before| before.ends_with('-'))
        };
        let of = |folder: &PathBuf| if itself(folder) { folder.clone() } else { folder.join(key) };
        self.folders.iter().map(of).find(|folder| files::is_dir(folder))
    }

    /// The whole wheel that is locked.
    pub(super) fn wheel(&self, locked: &Locked) -> Option<Located> {
        let file =
            self.folders.iter().map(|folder| folder.join(&locked.file)).find(|file| files::exists(file))?;
        let release = Release { file: locked.file.clone(), sha256: locked.sha256.clone() };
        Some(Located {
            release,
            url: format!("file://{}", file.to_str()?.replace('%', "%25").replace('#', "%23")),
        })
    }
}

fn take(entry: &Entry, part: &Part, locked: &Locked, folder: &Path) -> Result<(), ToolchainError> {
    let wrong = |problem: String| ToolchainError::Supplied {
        folder: folder.to_owned(),
        wheel: format!("{} {}", locked.name, locked.version),
        problem,
    };
    let mut taken = BTreeMap::new();
    for path in files::walk(folder, |_| true)? {
        let Some(name) = path.to_str().filter(|name| part.holds(name)) else {
            return Err(wrong(format!("{} is not part of it", path.display())));
        };
        let (from, to) = (folder.join(&path), entry.place(name));
        let sha256 = copy(&from, &to)?;
        if disk::is_executable(&from) {
            files::make_executable(&to)?;
        }
        taken.insert(name.to_owned(), sha256);
    }
    let members = digest(taken.iter().map(|(name, sha256)| (name.as_str(), sha256.as_str())).collect());
    if members != locked.members {
        return Err(wrong(format!(
            "the digest of its members is {members}, but the lock file has {}",
            locked.members
        )));
    }
    // Only now: what is recorded is trusted.
    taken.iter().try_for_each(|(name, sha256)| entry.record(name, sha256.clone()))?;
    entry.finish(part, taken.into_keys().collect())?;
    Ok(())
}

/// Copies a file; gives the SHA-256 of what was copied.
fn copy(from: &Path, to: &Path) -> Result<String, ToolchainError> {
    let mut source = files::open(from)?;
    files::write_with(to, |out: &mut dyn Write| {
        let (mut hasher, mut block) = (Sha256::new(), vec![0; 256 << 10]);
        loop {
            interrupt::check().map_err(|_| ProcessError::Interrupted)?;
            let unreadable = |cause| FileError { action: "read", path: from.to_owned(), cause };
            let count = source.read(&mut block).map_err(unreadable)?;
            if count == 0 {
                return Ok(hex(&hasher.finalize()));
            }
            hasher.update(&block[..count]);
            let unwritable = |cause| FileError { action: "write", path: to.to_owned(), cause };
            out.write_all(&block[..count]).map_err(unwritable)?;
        }
    })
}
