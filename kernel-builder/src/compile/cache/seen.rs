//! Files as they were when a command read them, and as they are in this run.
//!
//! Owns: when a file counts as unchanged. Never: knows what a command made of it.

use std::collections::{BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use serde::{Deserialize, Serialize};

use super::texts::TextQueries;
use crate::base::digest::Digest;
use crate::base::files;

/// Size in bytes and time of change in nanoseconds.
type Stamp = (u64, i128);

/// One file that an outcome depends on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Dependency {
    /// As the compiler named it: relative to the project, or absolute.
    pub(super) path: PathBuf,
    /// When it was read: equal stamps are trusted.
    pub(super) stamp: Stamp,
    /// The content, compared when the stamp differs.
    pub(super) digest: Digest,
}

impl Dependency {
    /// As the compiler named it.
    pub(super) fn path(&self) -> PathBuf {
        self.path.clone()
    }
}

/// Folders beside `compile` whose names follow from what is in them. Every key has them, through the identities of the
/// tools, so that their files are not looked at one by one: PyTorch's headers are five thousand.
const NAMED_BY_CONTENT: &[&str] = &["wheels", "cuda", "include"];

/// Stamps and digests of files, asked once a run: many units read the same headers.
#[derive(Debug)]
pub(super) struct StampCache {
    pub(super) named: Vec<PathBuf>,
    stamps: Mutex<HashMap<PathBuf, Option<Stamp>>>,
    digests: Mutex<HashMap<PathBuf, Option<Digest>>>,
    pub(super) names: Mutex<HashMap<PathBuf, Option<Digest>>>,
    pub(super) asks: Mutex<HashMap<PathBuf, Option<Arc<TextQueries>>>>,
    pub(super) entries: Mutex<HashMap<PathBuf, Option<Arc<BTreeSet<String>>>>>,
}

impl StampCache {
    pub(super) fn new(root: &Path) -> Self {
        let beside = root.parent().unwrap_or(root);
        let named = NAMED_BY_CONTENT.iter().map(|name| beside.join(name)).collect();
        Self {
            named,
            stamps: Mutex::default(),
            digests: Mutex::default(),
            names: Mutex::default(),
            asks: Mutex::default(),
            entries: Mutex::default(),
        }
    }

    pub(super) fn stamp(&self, place: &Path) -> Option<Stamp> {
        remembered(&self.stamps, place, || files::stamp(place).ok())
    }

    pub(super) fn digest(&self, place: &Path) -> Option<Digest> {
        remembered(&self.digests, place, || Some(Digest::blake3(&files::read(place).ok()?)))
    }

    pub(super) fn unchanged(&self, dependency: &Dependency, project: &Path) -> bool {
        let place = project.join(&dependency.path);
        match self.stamp(&place) {
            Some(stamp) if stamp == dependency.stamp => true,
            Some((size, _)) if size == dependency.stamp.0 => self.digest(&place) == Some(dependency.digest),
            _ => false,
        }
    }
}

/// An answer that is asked for once a run.
pub(super) fn remembered<T: Clone>(
    known: &Mutex<HashMap<PathBuf, Option<T>>>,
    place: &Path,
    look: impl FnOnce() -> Option<T>,
) -> Option<T> {
    let mut known = known.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(answer) = known.get(place) {
        return answer.clone();
    }
    let answer = look();
    known.insert(place.to_owned(), answer.clone());
    answer
}
