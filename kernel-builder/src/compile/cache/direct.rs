//! The direct way: an outcome is used when every file that was read is as it was.
//!
//! Owns: `units` of the cache. Never: reads a dependency file, knows what a key is for.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::seen::{Dependency, remembered};
use super::{Cache, DirectHit, TextQueries, entry};
use crate::base::digest::{Digest, DigestBuilder};
use crate::base::files::{self, FileError};

/// What a command made from one set of inputs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Outcome {
    dependencies: Vec<Dependency>,
    object: Digest,
    log: String,
    /// Of an outcome that stands for several frameworks: the names that the files asked the folders of headers for, one
    /// a line.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    names: String,
}

/// At most this many outcomes are kept behind one key; the oldest goes first.
const KEPT_OUTCOMES: usize = 8;

impl Cache {
    fn unit_path(&self, key: &Digest) -> PathBuf {
        let name = key.to_string();
        self.root.join("units").join(&name[..2]).join(format!("{name}.json"))
    }

    /// An earlier outcome whose inputs are all as they were. Relative dependencies are looked up below `project`.
    pub fn look_up(&self, key: &Digest, project: &Path) -> Option<DirectHit> {
        self.look_up_where(key, project, |_| true)
    }

    /// [`look_up`](Self::look_up), where the names that an outcome was kept with are fine with `holds` as well.
    pub fn look_up_where(
        &self,
        key: &Digest,
        project: &Path,
        holds: impl Fn(&str) -> bool,
    ) -> Option<DirectHit> {
        let place = self.unit_path(key);
        let Some(outcomes) = entry::read::<Vec<Outcome>>(&place) else {
            tracing::debug!(target: "cache", "miss by files: no outcome of this command and source, {key}");
            return None;
        };
        let hit = outcomes.into_iter().rev().find(|outcome| {
            let changed = outcome.dependencies.iter().find(|it| !self.seen.unchanged(it, project));
            if let Some(Dependency { path, .. }) = changed {
                tracing::debug!(target: "cache", "miss by files: {} has changed, {key}", path.display());
            }
            changed.is_none() && holds(&outcome.names)
        })?;
        tracing::debug!(target: "cache", "hit by files: {key}");
        files::used(&place);
        Some(DirectHit { object: hit.object, log: hit.log, dependencies: hit.dependencies })
    }

    /// A digest of the names of the files below a folder of a project, hidden ones and what builds leave behind left out.
    /// A folder that cannot be listed has none: what a compiler finds there is a dependency like any other.
    pub fn names_below(&self, folder: &Path) -> String {
        const NO_SOURCES: &[&str] = &["venv", "node_modules", "__pycache__"];
        // Deeper down a folder of such a name is the project's own.
        const RESULTS: &[&str] = &["build", "dist", "result", "target"];
        let enter = |below: &Path| {
            let name = below.file_name().and_then(|name| name.to_str()).unwrap_or(".");
            let result = below.components().count() == 1
                && RESULTS.contains(&name)
                && files::exists(&folder.join("build.toml"));
            !name.starts_with('.') && !NO_SOURCES.contains(&name) && !result
        };
        let look = || {
            let names = files::walk(folder, enter).ok()?;
            let builder = DigestBuilder::new("names-1");
            let name = |builder: DigestBuilder, name: &PathBuf| {
                builder.field("name", name.as_os_str().as_encoded_bytes())
            };
            Some(names.iter().fold(builder, name).finish())
        };
        let known = remembered(&self.seen.names, folder, look);
        known.map(|digest| digest.to_string()).unwrap_or_default()
    }

    /// What the text of a file asks, as `read` says; asked once a run.
    pub fn asks(&self, place: &Path, read: impl FnOnce(&[u8]) -> TextQueries) -> Option<Arc<TextQueries>> {
        remembered(&self.seen.asks, place, || Some(Arc::new(read(&files::read(place).ok()?))))
    }

    /// The names of what lies in a folder, in small letters; looked at once a run. `None`: it cannot be listed.
    pub fn entries_of(&self, folder: &Path) -> Option<Arc<BTreeSet<String>>> {
        let small = |path: &Path| path.to_string_lossy().to_ascii_lowercase();
        let look = || {
            let folders = RefCell::new(BTreeSet::new());
            let enter = |below: &Path| {
                folders.borrow_mut().insert(small(below));
                false
            };
            let mut entries: BTreeSet<String> =
                files::walk(folder, enter).ok()?.iter().map(|path| small(path)).collect();
            entries.append(&mut folders.into_inner());
            Some(Arc::new(entries))
        };
        remembered(&self.seen.entries, folder, look)
    }

    /// Whether a file lies in a folder whose name follows from its content.
    pub fn is_named_by_content(&self, place: &Path) -> bool {
        self.seen.named.iter().any(|folder| place.starts_with(folder))
    }

    /// The files that a command read, as they are now. `None`: one of them is gone, or was written after `since`, the
    /// time of change of a file that was made before the command started; what the command read is then unknown.
    pub fn observe(&self, project: &Path, paths: &[PathBuf], since: i128) -> Option<Vec<Dependency>> {
        let mut found = Vec::new();
        for path in paths {
            let place = project.join(path);
            if self.is_named_by_content(&place) {
                continue;
            }
            let stamp = files::stamp(&place).ok()?;
            if stamp.1 > since {
                return None;
            }
            let digest = Digest::blake3(&files::read(&place).ok()?);
            found.push(Dependency { path: path.clone(), stamp, digest });
        }
        Some(found)
    }

    /// Whether none of them was written since they were observed.
    pub fn still(&self, project: &Path, dependencies: &[Dependency]) -> bool {
        dependencies.iter().all(|dependency| {
            files::stamp(&project.join(&dependency.path)).is_ok_and(|stamp| stamp == dependency.stamp)
        })
    }

    /// Keeps what a command made of these files, with the `names` that they asked for where
    /// [`look_up_where`](Self::look_up_where) is going to look at them.
    ///
    /// # Errors
    /// The cache cannot be written.
    pub fn remember(
        &self,
        key: &Digest,
        object: &[u8],
        dependencies: Vec<Dependency>,
        log: &str,
        names: String,
    ) -> Result<(), FileError> {
        let digest = Digest::blake3(object);
        self.keep(&digest, object)?;
        self.add(key, Outcome { dependencies, object: digest, log: log.to_owned(), names })
    }

    /// Keeps a hit behind another key.
    ///
    /// # Errors
    /// The cache cannot be written.
    pub fn remember_hit(&self, key: &Digest, hit: DirectHit) -> Result<(), FileError> {
        let DirectHit { object, log, dependencies } = hit;
        self.add(key, Outcome { dependencies, object, log, names: String::new() })
    }

    fn add(&self, key: &Digest, outcome: Outcome) -> Result<(), FileError> {
        let place = self.unit_path(key);
        let mut outcomes: Vec<Outcome> = entry::read(&place).unwrap_or_default();
        outcomes.retain(|other| !same_inputs(&other.dependencies, &outcome.dependencies));
        outcomes.push(outcome);
        let surplus = outcomes.len().saturating_sub(KEPT_OUTCOMES);
        outcomes.drain(..surplus);
        entry::write(&place, &outcomes)?;
        Ok(())
    }
}

/// The same files with the same content, whenever they were written.
fn same_inputs(one: &[Dependency], other: &[Dependency]) -> bool {
    let content = |list: &[Dependency]| -> Vec<(PathBuf, Digest)> {
        list.iter().map(|dependency| (dependency.path.clone(), dependency.digest)).collect()
    };
    content(one) == content(other)
}
