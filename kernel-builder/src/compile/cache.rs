//! The compile cache: what a command made from given inputs, by content digest, shared between projects.
//!
//! A unit's key is its command, its compiler's identity and its source. Behind a key lies a list of outcomes, each with
//! the headers that were read (from the compiler's own dependency file) and their digests; an outcome is used when all
//! of them are as they were. This is the direct mode of ccache (its manual, "How ccache works").
//!
//! Owns: `<cache>/objects` (blobs by digest) and `<cache>/units` (outcomes by key).
//! Never: runs a compiler.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::{Condvar, Mutex, PoisonError};

use serde::{Deserialize, Serialize};

use crate::base::digest::Digest;
use crate::base::files::{self, FileError};

/// One file that an outcome depends on.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Dependency {
    /// As the compiler named it: relative to the project, or absolute.
    path: PathBuf,
    /// Size in bytes and time of change in nanoseconds when it was read: equal stamps are trusted.
    stamp: (u64, i128),
    /// The content, compared when the stamp differs.
    digest: Digest,
}

/// What a command made from one set of inputs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Outcome {
    dependencies: Vec<Dependency>,
    object: Digest,
    log: String,
}

/// At most this many outcomes are kept behind one key; the oldest goes first.
const KEPT_OUTCOMES: usize = 8;

/// A hit: the object's digest and what the compiler had printed (warnings).
#[derive(Debug)]
pub struct Hit {
    /// Digest of the object.
    pub object: Digest,
    /// What the compiler printed.
    pub log: String,
}

/// The cache below one folder.
#[derive(Debug)]
pub struct Cache {
    root: PathBuf,
    /// Keys that a thread of this run is making something for.
    making: Mutex<BTreeSet<String>>,
    made: Condvar,
}

impl Cache {
    /// The compile cache inside the program's cache folder.
    pub fn new(root: &Path) -> Self {
        Self { root: root.to_owned(), making: Mutex::default(), made: Condvar::new() }
    }

    fn object_path(&self, digest: &Digest) -> PathBuf {
        let name = digest.to_string();
        self.root.join("objects").join(&name[..2]).join(name)
    }

    fn unit_path(&self, key: &Digest) -> PathBuf {
        let name = key.to_string();
        self.root.join("units").join(&name[..2]).join(format!("{name}.json"))
    }

    /// What `make` gives for this key, from the cache where an earlier call made it. The key names everything that the
    /// result follows from. Of several threads that ask at once, one makes it and the others wait.
    ///
    /// # Errors
    /// What `make` says, or the cache cannot be written.
    pub fn once<E: From<FileError>>(
        &self,
        key: &Digest,
        make: impl FnOnce() -> Result<Vec<u8>, E>,
    ) -> Result<Vec<u8>, E> {
        let name = key.to_string();
        let _turn = self.turn(&name);
        let place = self.root.join("steps").join(&name[..2]).join(&name);
        if let Some(bytes) = self.recall(&place) {
            return Ok(bytes);
        }
        let bytes = make()?;
        let digest = Digest::of(&bytes);
        let blob = self.object_path(&digest);
        if !files::exists(&blob) {
            files::write(&blob, &bytes)?;
        }
        files::write(&place, digest.to_string())?;
        Ok(bytes)
    }

    /// The bytes that a step's file points at; nothing when either is missing or damaged.
    fn recall(&self, place: &Path) -> Option<Vec<u8>> {
        let named = files::read_text(place).ok()?;
        let blob = self.root.join("objects").join(named.get(..2)?).join(&named);
        let bytes = files::read(&blob).ok()?;
        (Digest::of(&bytes).to_string() == named).then_some(bytes)
    }

    /// Waits until no other thread makes this key.
    fn turn(&self, name: &str) -> Turn<'_> {
        let making = self.making.lock().unwrap_or_else(PoisonError::into_inner);
        let mut making = self
            .made
            .wait_while(making, |making| making.contains(name))
            .unwrap_or_else(PoisonError::into_inner);
        making.insert(name.to_owned());
        Turn { cache: self, name: name.to_owned() }
    }

    /// An earlier outcome whose inputs are all as they were. Relative dependencies are looked up below `project`.
    pub fn look_up(&self, key: &Digest, project: &Path) -> Option<Hit> {
        let outcomes = self.outcomes(key);
        let hit = outcomes.into_iter().rev().find(|outcome| {
            outcome.dependencies.iter().all(|dependency| unchanged(dependency, project))
                && files::exists(&self.object_path(&outcome.object))
        })?;
        Some(Hit { object: hit.object, log: hit.log })
    }

    /// Keeps what a command made: the object at `object`, made from `dependencies`.
    pub fn store(
        &self,
        key: &Digest,
        project: &Path,
        object: &Path,
        dependencies: &[PathBuf],
        log: &str,
    ) -> Result<Digest, FileError> {
        let bytes = files::read(object)?;
        let digest = Digest::of(&bytes);
        let blob = self.object_path(&digest);
        if !files::exists(&blob) {
            files::write(&blob, &bytes)?;
        }
        let mut recorded = Vec::with_capacity(dependencies.len());
        for path in dependencies {
            let place = project.join(path);
            recorded.push(Dependency {
                path: path.clone(),
                stamp: files::stamp(&place)?,
                digest: Digest::of(&files::read(&place)?),
            });
        }
        let outcome = Outcome { dependencies: recorded, object: digest, log: log.to_owned() };
        let mut outcomes = self.outcomes(key);
        outcomes.retain(|other| other.dependencies != outcome.dependencies);
        outcomes.push(outcome);
        let surplus = outcomes.len().saturating_sub(KEPT_OUTCOMES);
        outcomes.drain(..surplus);
        let text = serde_json::to_vec(&outcomes).unwrap_or_default();
        files::write(&self.unit_path(key), text)?;
        Ok(digest)
    }

    /// Puts a cached object at `place`, checking its content; an object that rotted on disk is dropped and not used.
    pub fn restore(&self, object: &Digest, place: &Path) -> Result<bool, FileError> {
        if files::read(place).is_ok_and(|bytes| Digest::of(&bytes) == *object) {
            return Ok(true);
        }
        let blob = self.object_path(object);
        let bytes = files::read(&blob)?;
        if Digest::of(&bytes) != *object {
            files::remove_file(&blob)?;
            return Ok(false);
        }
        files::write(place, bytes)?;
        Ok(true)
    }

    /// Outcomes behind a key; an unreadable list counts as none, so that a damaged cache costs time, never a build.
    fn outcomes(&self, key: &Digest) -> Vec<Outcome> {
        files::read(&self.unit_path(key))
            .ok()
            .and_then(|bytes| serde_json::from_slice(&bytes).ok())
            .unwrap_or_default()
    }
}

/// The right to make one key; over when dropped.
struct Turn<'a> {
    cache: &'a Cache,
    name: String,
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        let mut making = self.cache.making.lock().unwrap_or_else(PoisonError::into_inner);
        making.remove(&self.name);
        self.cache.made.notify_all();
    }
}

fn unchanged(dependency: &Dependency, project: &Path) -> bool {
    let place = project.join(&dependency.path);
    match files::stamp(&place) {
        Ok(stamp) if stamp == dependency.stamp => true,
        Ok(stamp) if stamp.0 == dependency.stamp.0 => {
            files::read(&place).is_ok_and(|bytes| Digest::of(&bytes) == dependency.digest)
        }
        _ => false,
    }
}

/// The prerequisites in a dependency file as GCC and nvcc write it (`-MD -MF`): make syntax, escaped blanks.
pub fn parse_depfile(text: &str) -> Vec<PathBuf> {
    let joined = text.replace("\\\n", " ");
    let Some((_, prerequisites)) = joined.split_once(": ") else { return Vec::new() };
    let mut paths = Vec::new();
    let mut current = String::new();
    let mut letters = prerequisites.chars().peekable();
    while let Some(letter) = letters.next() {
        match letter {
            '\\' if matches!(letters.peek(), Some(' ' | '#' | '\\')) => current.extend(letters.next()),
            '$' if letters.peek() == Some(&'$') => current.extend(letters.next()),
            // A second rule begins after the first line (`-MP`); the first one holds every file.
            '\n' => break,
            blank if blank.is_whitespace() => {
                if !current.is_empty() {
                    paths.push(PathBuf::from(std::mem::take(&mut current)));
                }
            }
            other => current.push(other),
        }
    }
    if !current.is_empty() {
        paths.push(PathBuf::from(current));
    }
    paths.sort();
    paths.dedup();
    paths
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_dependency_files() {
        let text = "out/a.o : src/a.cu \\\n /inc/b\\ c.h \\\n  /inc/d.h /inc/d.h\n";
        assert_eq!(parse_depfile(text), ["/inc/b c.h", "/inc/d.h", "src/a.cu"].map(PathBuf::from));
        assert!(parse_depfile("nonsense").is_empty());
    }

    #[test]
    fn of_many_threads_one_makes() {
        let root = files::scratch().unwrap();
        let cache = Cache::new(root.path());
        let made = std::sync::atomic::AtomicUsize::new(0);
        let ask = || {
            cache.once::<FileError>(&Digest::of(b"k"), || {
                made.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                Ok(b"made".to_vec())
            })
        };
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| assert_eq!(ask().unwrap(), b"made"));
            }
        });
        assert_eq!(made.into_inner(), 1);
    }

    #[test]
    fn a_changed_header_misses_and_the_old_one_hits_again() {
        let root = files::scratch().unwrap();
        let project = root.path().join("project");
        let cache = Cache::new(&root.path().join("cache"));
        let (header, object) = (project.join("a.h"), project.join("a.o"));
        let key = Digest::of(b"key");
        for (text, made) in [("one", "object one"), ("three", "object three")] {
            files::write(&header, text).unwrap();
            files::write(&object, made).unwrap();
            assert!(cache.look_up(&key, &project).is_none());
            cache.store(&key, &project, &object, &[PathBuf::from("a.h")], "").unwrap();
        }
        files::write(&header, "one").unwrap();
        let hit = cache.look_up(&key, &project).unwrap();
        assert!(cache.restore(&hit.object, &object).unwrap());
        assert_eq!(files::read_text(&object).unwrap(), "object one");
    }

    #[test]
    fn a_rotten_object_is_not_used() {
        let root = files::scratch().unwrap();
        let cache = Cache::new(root.path());
        let object = root.path().join("a.o");
        files::write(&object, "good").unwrap();
        let digest = cache.store(&Digest::of(b"k"), root.path(), &object, &[], "").unwrap();
        files::write(&cache.object_path(&digest), "rot!").unwrap();
        files::remove_file(&object).unwrap();
        assert!(!cache.restore(&digest, &object).unwrap());
        assert!(cache.look_up(&Digest::of(b"k"), root.path()).is_none());
    }
}
