//! What the cache holds of toolchains: how large it is, when it was used, whether it is whole; and its removal.
//!
//! Owns: `cuda/`, `wheels/`, `python/` and `pip/` of the cache as a list. Never: fetches; compiled objects have a cache
//! and a limit of their own.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::Serialize;

use super::error::ToolchainError;
use super::fetch::{self, Request};
use super::interpreter::{self, Question};
use super::store::Entry;
use super::taking::WheelCollector;
use super::{index, parts, pins, used};
use crate::base::disk::{self, OnDisk};
use crate::base::files;
use crate::base::session::Session;

/// What something of the cache is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// A CUDA toolkit, put together from wheels.
    Cuda,
    /// PyTorch: its headers, or what runs of it.
    Torch,
    /// Packages that a Python imports.
    Python,
    /// A part of another wheel.
    Wheel,
    /// The private pip.
    Tool,
}

/// One thing.
#[derive(Debug, Clone, Serialize)]
pub struct Item {
    /// What it is for.
    pub kind: Kind,
    /// `CUDA 13.0`, `torch 2.11.0`; the digest of a wheel where nobody knows its name any more.
    pub name: String,
    /// Bytes of its files. CUDA toolkits and Pythons share theirs with the wheels that they are made of.
    pub bytes: u64,
    /// Bytes that are free once it alone is removed.
    pub own: u64,
    /// The last use, in seconds since 1970; absent when it was never used.
    pub used: Option<u64>,
    /// Whether all that was begun is there.
    pub complete: bool,
    /// Its folder.
    pub dir: PathBuf,
    #[serde(skip)]
    content: Vec<OnDisk>,
}

/// Everything, by kind and name.
///
/// # Errors
/// The cache cannot be read.
pub fn list(session: &Session) -> Result<Vec<Item>, ToolchainError> {
    let names = index::names(session);
    let mut items = Vec::new();
    for (folder, kind) in
        [("cuda", Kind::Cuda), ("wheels", Kind::Wheel), ("python", Kind::Python), ("pip", Kind::Tool)]
    {
        for dir in disk::folders(&session.cache.join(folder)) {
            let Some(place) = dir.file_name().map(|name| name.to_string_lossy().into_owned()) else {
                continue;
            };
            let unfinished = place.starts_with(".staging-");
            let content = disk::on_disk(&dir);
            let bytes = content.iter().map(|file| file.bytes).sum();
            let own = content.iter().filter(|file| file.names == 1).map(|file| file.bytes).sum();
            let (kind, name) = match kind {
                Kind::Wheel => match names.get(&place) {
                    Some(name) if name.starts_with("torch ") => (Kind::Torch, name.clone()),
                    Some(name) => (kind, name.clone()),
                    None => (kind, format!("wheel {}", place.chars().take(12).collect::<String>())),
                },
                Kind::Cuda => (kind, format!("CUDA {}", place.split('-').next().unwrap_or(&place))),
                Kind::Tool => (kind, format!("pip {place}")),
                _ => (kind, readable(&place)),
            };
            let complete = !unfinished && (folder != "wheels" || Entry::new(session, &place).is_whole());
            let used = used::last(session, &place);
            items.push(Item { kind, name, bytes, own, used, complete, dir, content });
        }
    }
    items.sort_by(|a, b| (a.kind, &a.name, &a.dir).cmp(&(b.kind, &b.name, &b.dir)));
    Ok(items)
}

/// `Python cp311-x86_64 with torch 2.11.0` from `cp311-x86_64-torch2.11.0-0123456789ab`.
fn readable(place: &str) -> String {
    let mut parts = place.rsplitn(3, '-');
    let (_digest, what, tag) = (parts.next(), parts.next(), parts.next());
    match (what, tag) {
        (Some(what), Some(tag)) => format!("Python {tag} with {}", what.replacen("torch", "torch ", 1)),
        _ => place.to_owned(),
    }
}

/// Bytes on disk of all of them, shared files counted once.
pub fn total(items: &[Item]) -> u64 {
    let all = items.iter().flat_map(|item| &item.content);
    let once: BTreeMap<_, u64> = all.map(|file| (file.identity, file.bytes)).collect();
    once.values().sum()
}

/// What was not used for so long, in seconds; without an age, everything. What was never used counts as old.
pub fn idle(items: Vec<Item>, age: Option<u64>) -> Vec<Item> {
    let now = files::now();
    let old = |item: &Item| match (age, item.used) {
        (Some(age), Some(used)) => now.saturating_sub(used) >= age,
        _ => true,
    };
    items.into_iter().filter(|item| old(item) || !item.complete).collect()
}

/// Removes things, unless a run uses the cache.
///
/// # Errors
/// A run uses the cache, or something cannot be removed.
pub fn remove(items: &[Item], session: &Session) -> Result<(), ToolchainError> {
    let Some(_alone) = used::hold_alone(session)? else {
        return Err(ToolchainError::InUse { cache: session.cache.clone() });
    };
    for item in items {
        let Some(name) = item.dir.file_name() else { continue };
        // Out of sight first: a run that is killed here leaves a folder that counts as unfinished.
        let gone = item.dir.with_file_name(format!(".staging-{}", name.to_string_lossy()));
        files::rename(&item.dir, &gone)?;
        files::remove_dir(&gone)?;
        used::forget(session, &name.to_string_lossy())?;
    }
    // What was found before may lie in what was removed; it is found again.
    Ok(files::remove_dir(&session.cache.join("state"))?)
}

/// A member of a wheel that is not what was fetched.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Damage {
    /// Name and version, or the wheel's SHA-256.
    pub name: String,
    /// SHA-256 of the wheel.
    pub wheel: String,
    /// The member.
    pub member: String,
}

/// Reads every byte that was fetched again. With `repair`, damaged members are forgotten, so that they are fetched when
/// next needed, and what was made of them is removed.
///
/// # Errors
/// The cache cannot be read; with `repair`, a run uses it.
pub fn verify(session: &Session, repair: bool) -> Result<Vec<Damage>, ToolchainError> {
    let names = index::names(session);
    let named = |wheel: &String| names.get(wheel).cloned().unwrap_or_else(|| wheel.clone());
    let damaged = super::audit(session)?;
    let told: Vec<Damage> =
        damaged.into_iter().map(|(wheel, member)| Damage { name: named(&wheel), wheel, member }).collect();
    if repair && !told.is_empty() {
        let made_of_them = [Kind::Cuda, Kind::Python];
        let made = list(session)?.into_iter().filter(|item| made_of_them.contains(&item.kind));
        remove(&made.collect::<Vec<_>>(), session)?;
        for Damage { wheel, member, .. } in &told {
            files::remove_file(&Entry::new(session, wheel).place(member))?;
        }
        refetch(session, &told)?;
    }
    Ok(told)
}

/// Fetches what this version uses of the wheels that were damaged; what it does not use is left out.
fn refetch(session: &Session, damaged: &[Damage]) -> Result<(), ToolchainError> {
    let python = interpreter::active(session, Question::Identity)?;
    let taking = WheelCollector::unlocked(session);
    for (target, part) in pins::load().parts().into_iter().chain(parts::wheels()) {
        let release = index::remembered_release(session, &python, target, &part);
        if release.is_some_and(|release| damaged.iter().any(|damage| damage.wheel == release.sha256)) {
            let request = Request { part, why: "again, since it was damaged" };
            fetch::obtain(&taking, &python, target, &[request])?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::report::{MessageFormat, Report};

    fn session(cache: &std::path::Path) -> Session {
        let report = Report::new(MessageFormat::Human, true);
        Session { report, cache: cache.to_owned(), offline: true, jobs: 1 }
    }

    /// A cache with a toolkit that shares its file with a wheel, and a Python.
    fn cache() -> (tempfile::TempDir, Session) {
        let folder = files::scratch().unwrap();
        let session = session(folder.path());
        let place = |name: &str| folder.path().join(name);
        files::write(&place("wheels/aabb/files/bin/nvcc"), vec![1; 100_000]).unwrap();
        files::write(&place("wheels/aabb/taken/1.json"), "[]").unwrap();
        files::link_or_copy(&place("wheels/aabb/files/bin/nvcc"), &place("cuda/13.0-0123/bin/nvcc")).unwrap();
        files::write(&place("python/cp311-x86_64-torch2.11.0-ab12/torch/a.py"), vec![2; 50_000]).unwrap();
        files::write(
            &place("index/any-x86_64/nvidia-nvcc-1.json"),
            r#"{"file":"nvidia_nvcc-1-py3-none-any.whl","sha256":"aabb"}"#,
        )
        .unwrap();
        (folder, session)
    }

    #[test]
    fn things_have_names_and_shared_files_count_once() {
        let (_folder, session) = cache();
        let items = list(&session).unwrap();
        let names: Vec<&str> = items.iter().map(|item| item.name.as_str()).collect();
        assert_eq!(names, ["CUDA 13.0", "Python cp311-x86_64 with torch 2.11.0", "nvidia-nvcc 1"]);
        assert!(items.iter().all(|item| item.complete && item.used.is_none()));
        assert!(items[0].bytes >= 100_000 && items[0].own < 100_000);
        let all: u64 = items.iter().map(|item| item.bytes).sum();
        assert!(total(&items) >= 150_000 && total(&items) + 100_000 <= all);
    }

    #[test]
    fn what_is_used_stays_and_nothing_goes_while_a_run_lasts() {
        let (folder, session) = cache();
        used::now(&session, "aabb");
        used::folder(&session, &folder.path().join("cuda/13.0-0123"));
        let left = |session: &Session| list(session).unwrap().len();
        let old = idle(list(&session).unwrap(), Some(60));
        assert_eq!(old.iter().map(|item| item.kind).collect::<Vec<_>>(), [Kind::Python]);
        let running = used::hold(&session).unwrap();
        assert!(matches!(remove(&old, &session), Err(ToolchainError::InUse { .. })));
        assert_eq!(left(&session), 3);
        drop(running);
        remove(&old, &session).unwrap();
        assert_eq!(left(&session), 2);
        remove(&idle(list(&session).unwrap(), None), &session).unwrap();
        assert_eq!((left(&session), used::last(&session, "aabb")), (0, None));
    }

    #[test]
    fn what_was_not_finished_is_said_and_goes_first() {
        let (folder, session) = cache();
        files::write(&folder.path().join("wheels/aabb/parts/0-9"), "x").unwrap();
        files::write(&folder.path().join("cuda/.staging-x/bin/nvcc"), "x").unwrap();
        ["aabb", "13.0-0123", "cp311-x86_64-torch2.11.0-ab12"]
            .iter()
            .for_each(|name| used::now(&session, name));
        let unfinished = idle(list(&session).unwrap(), Some(60));
        assert_eq!(unfinished.iter().map(|item| item.kind).collect::<Vec<_>>(), [Kind::Cuda, Kind::Wheel]);
    }
}
