//! What the cache holds of a wheel: unpacked members with their digests.
//!
//! Owns: the folder of a wheel, `wheels/<sha256 of the wheel>/`: `files/` (the members), `members.jsonl` (a line for
//! each member that was checked), `parts/` (unfinished downloads), `taken/` (which choices of members are complete).
//! Never: trusts a member without a line, or one whose size or time changed since.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::pins::Part;
use super::state;
use crate::base::digest::{DigestBuilder, hex};
use crate::base::disk;
use crate::base::files::{self, FileError, FileLock};
use crate::base::session::Session;

/// The folder of one wheel.
#[derive(Debug, Clone)]
pub(super) struct Entry {
    root: PathBuf,
    sha256: String,
}

/// One checked member.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Line {
    /// The name inside the wheel.
    pub(super) name: String,
    /// Bytes.
    pub(super) size: u64,
    /// SHA-256 of the content, hexadecimal.
    pub(super) sha256: String,
    /// When the file here was written, nanoseconds since 1970.
    pub(super) time: i64,
}

/// Members of one wheel, complete and checked.
#[derive(Debug, Clone)]
pub(super) struct Stored {
    /// The folder that the names are relative to.
    pub(super) files: PathBuf,
    /// The names of the members.
    pub(super) names: Vec<String>,
    /// Identity of these members, hexadecimal.
    pub(super) id: String,
    /// SHA-256 of the wheel, as the index gives it.
    pub(super) sha256: String,
    /// SHA-256 of what `sha256sum` would print of these members, by name.
    pub(super) members: String,
}

impl Entry {
    /// The folder for the wheel with this digest.
    pub(super) fn new(session: &Session, sha256: &str) -> Self {
        // GCC writes the real path of a header into `__FILE__` where that is shorter than the one it was given, so
        // a path through a link would not be the one that is mapped.
        let root = disk::real(&session.cache.join("wheels")).join(sha256);
        Self { root, sha256: sha256.to_owned() }
    }

    /// The place of a member.
    pub(super) fn place(&self, name: &str) -> PathBuf {
        self.root.join("files").join(name)
    }

    /// The place of an unfinished download.
    pub(super) fn part(&self, start: u64, end: u64) -> PathBuf {
        self.root.join("parts").join(format!("{start}-{end}"))
    }

    /// The folder of unfinished downloads.
    pub(super) fn parts(&self) -> PathBuf {
        self.root.join("parts")
    }

    /// Takes the lock on this wheel; `waiting` is called when another run holds it.
    pub(super) fn lock(&self, waiting: impl FnOnce()) -> Result<FileLock, FileError> {
        files::lock(&self.root.join("lock"), waiting)
    }

    /// The members `part` asks for, when all of them are here and unchanged.
    pub(super) fn complete(&self, part: &Part) -> Option<Stored> {
        let Some(names) = state::load::<Vec<String>>(&self.record_path(part)) else {
            tracing::debug!(target: "cache", "{} {}: miss, not fetched yet", part.name, part.version);
            return None;
        };
        let lines = self.lines();
        let intact = |name: &String| lines.get(name).is_some_and(|line| self.unchanged(line));
        if let Some(name) = names.iter().find(|name| !intact(name)) {
            tracing::debug!(target: "cache", "{} {}: miss, {name} has changed", part.name, part.version);
            return None;
        }
        tracing::debug!(target: "cache", "{} {}: hit", part.name, part.version);
        Some(self.stored(part, names, &lines))
    }

    /// Records that `names` are all that `part` asks for, and forgets unfinished downloads.
    pub(super) fn finish(&self, part: &Part, names: Vec<String>) -> Result<Stored, FileError> {
        state::save(&self.record_path(part), &names)?;
        files::remove_dir(&self.parts())?;
        Ok(self.stored(part, names, &self.lines()))
    }

    /// Records one member that was just checked and written.
    pub(super) fn record(&self, name: &str, sha256: String) -> Result<(), FileError> {
        let (size, time) = files::stamp(&self.place(name))?;
        let line = Line { name: name.to_owned(), size, sha256, time: time as i64 };
        let text = serde_json::to_string(&line).unwrap_or_default();
        files::append_line(&self.root.join("members.jsonl"), &text)
    }

    /// Every checked member by name.
    pub(super) fn lines(&self) -> BTreeMap<String, Line> {
        let text = files::read_text(&self.root.join("members.jsonl")).unwrap_or_default();
        // A run that was killed may have left half a line.
        let lines = text.lines().filter_map(|line| serde_json::from_str::<Line>(line).ok());
        lines.map(|line| (line.name.clone(), line)).collect()
    }

    /// Whether the file of a member is as it was written, by size and time.
    pub(super) fn unchanged(&self, line: &Line) -> bool {
        state::stamp_of(&self.place(&line.name))
            .is_some_and(|(_, size, time)| (size, time) == (line.size, line.time))
    }

    /// Whether a choice of members was fetched to its end, and none was begun since.
    pub(super) fn is_whole(&self) -> bool {
        files::is_dir(&self.root.join("taken")) && !files::is_dir(&self.parts())
    }

    /// The members whose content is no longer what was checked; reads every byte.
    pub(super) fn damaged(&self) -> Vec<String> {
        let lines = self.lines().into_values();
        lines
            .filter(|line| digest_of(&self.place(&line.name)).as_deref() != Some(&line.sha256))
            .map(|line| line.name)
            .collect()
    }

    fn record_path(&self, part: &Part) -> PathBuf {
        self.root.join("taken").join(format!("{}.json", part.choice()))
    }

    fn stored(&self, part: &Part, names: Vec<String>, lines: &BTreeMap<String, Line>) -> Stored {
        let id = DigestBuilder::new("wheel-part")
            .field("wheel", &self.sha256)
            .field("choice", part.choice())
            .finish()
            .to_string();
        let taken = names.iter().filter_map(|name| Some((name.as_str(), lines.get(name)?.sha256.as_str())));
        let members = digest(taken.collect());
        Stored { files: self.root.join("files"), names, id, sha256: self.sha256.clone(), members }
    }
}

/// SHA-256 of what `sha256sum` would print of members, given the digest of each by name.
pub(super) fn digest(members: BTreeMap<&str, &str>) -> String {
    let mut hasher = Sha256::new();
    members.iter().for_each(|(name, sha256)| hasher.update(format!("{sha256}  {name}\n")));
    hex(&hasher.finalize())
}

/// Reads every member of every wheel of the cache again; what comes back is damaged: `(wheel's sha256, member)`.
pub(super) fn audit(session: &Session) -> Result<Vec<(String, String)>, FileError> {
    let folder = session.cache.join("wheels");
    if !files::is_dir(&folder) {
        return Ok(Vec::new());
    }
    let mut damaged = Vec::new();
    for file in files::walk(&folder, |path| path.components().count() < 2)? {
        let (Some(sha256), true) = (file.parent().and_then(Path::to_str), file.ends_with("members.jsonl"))
        else {
            continue;
        };
        let entry = Entry::new(session, sha256);
        damaged.extend(entry.damaged().into_iter().map(|name| (sha256.to_owned(), name)));
    }
    Ok(damaged)
}

/// SHA-256 of a file's content, hexadecimal; nothing when it cannot be read.
pub(super) fn digest_of(path: &Path) -> Option<String> {
    let mut file = files::open(path).ok()?;
    let mut hasher = Sha256::new();
    std::io::copy(&mut file, &mut HashWriter(&mut hasher)).ok()?;
    Some(hex(&hasher.finalize()))
}

struct HashWriter<'a>(&'a mut Sha256);

impl std::io::Write for HashWriter<'_> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.update(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}
