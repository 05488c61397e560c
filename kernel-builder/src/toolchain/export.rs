//! What is taken of wheels, as folders: for a machine without a network, and for builders that fetch by hash, such as Nix.
//!
//! Owns: which folders are written and how they are hashed. Never: decides what is taken of a wheel.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use kernel_plan::kit::Compiler;

use super::error::ToolchainError;
use super::fetch::{self, Request};
use super::index::Target;
use super::interpreter::{self, Question};
use super::lock::{self, Lock, Locked, LockedVariant, Variants};
use super::pins::Part;
use super::store::Stored;
use super::supply::Supply;
use super::taking::WheelCollector;
use super::{nar, parts, pins};
use crate::base::files;
use crate::base::session::Session;

/// The part of a wheel that an entry of a lock speaks of, where this version takes the same of it.
fn part_of(locked: &Locked) -> Option<Part> {
    let all = pins::load().parts().into_iter().chain(parts::wheels());
    let same = |part: &Part| {
        let named = (&part.name, &part.version) == (&locked.name, &locked.version);
        named && part.choice() == locked.part
    };
    all.map(|(_, part)| part).find(same)
}

/// Everything of these keys, fetched where the cache lacks it.
fn stored(
    lock: &Lock,
    path: &Path,
    keys: &BTreeSet<String>,
    session: &Session,
) -> Result<Vec<(String, Stored)>, ToolchainError> {
    super::supply::in_use(session);
    let wheels = lock.wheels();
    let unknown = |key: &str| ToolchainError::NotInLock { path: path.to_owned(), key: key.to_owned() };
    let mut requests = Vec::new();
    for key in keys {
        let locked = wheels.iter().find(|wheel| wheel.key() == *key).ok_or_else(|| unknown(key))?;
        let part = part_of(locked).ok_or_else(|| unknown(key))?;
        requests.push(Request { part, why: "as kernelwright.lock has it" });
    }
    let python = interpreter::active(session, Question::Identity)?;
    let taking = WheelCollector::new(session, lock);
    let stored = fetch::obtain(&taking, &python, Target::Machine, &requests)?;
    lock.agree(&taking.locked_wheels())?;
    Ok(keys.iter().cloned().zip(stored).collect())
}

/// The hash that Nix gives to the folder of each of these keys of a project's lock.
///
/// # Errors
/// The lock has no such key, or what it has cannot be fetched.
pub fn trees(
    project: &Path,
    keys: &BTreeSet<String>,
    session: &Session,
) -> Result<BTreeMap<String, String>, ToolchainError> {
    let lock = Lock::open(project, true)?;
    let stored = stored(&lock, project, keys, session)?;
    stored.into_iter().map(|(key, stored)| Ok((key, nar::hash(&stored.files, &stored.names)?))).collect()
}

/// What the lock of a project says of variants.
///
/// # Errors
/// The lock cannot be read.
pub fn locked_variants(project: &Path) -> Result<Variants, ToolchainError> {
    Variants::read(project)
}

/// The keys of what these variants of a lock are built from; without any, of everything that it has for machines of this
/// kind.
///
/// # Errors
/// The lock cannot be read, or lists no such variant.
pub fn keys_of(lock: &Path, variants: &[String]) -> Result<BTreeSet<String>, ToolchainError> {
    if variants.is_empty() {
        let wheels = Lock::at(lock.to_owned(), true)?.wheels();
        let keys: BTreeSet<String> =
            wheels.iter().filter(|wheel| wheel.is_for_this_machine()).map(Locked::key).collect();
        // A lock that is not there has none either.
        return match keys.is_empty() {
            true => {
                let key = "wheel for this kind of machine".to_owned();
                Err(ToolchainError::NotInLock { path: lock.to_owned(), key })
            }
            false => Ok(keys),
        };
    }
    let locked = Variants::at(lock)?;
    let mut keys = BTreeSet::new();
    for id in variants {
        let row = locked.rows.iter().find(|row| row.id == *id);
        let row = row.ok_or_else(|| ToolchainError::NotInLock { path: lock.to_owned(), key: id.clone() })?;
        keys.extend(row.wheels.iter().cloned());
    }
    Ok(keys)
}

/// Locks `rows` as the variants of this machine; gives what the lock says then, and whether that is new.
///
/// # Errors
/// The lock cannot be read or written.
pub fn lock_variants(
    project: &Path,
    before: &Variants,
    rows: BTreeSet<LockedVariant>,
    trees: BTreeMap<String, String>,
) -> Result<(Variants, bool), ToolchainError> {
    let now = before.with(rows, trees);
    let changed = now.write(project)?;
    Ok((now, changed))
}

/// Writes which C++ compiler machines of this kind build a project with into its lock; gives whether that changed something.
///
/// # Errors
/// The lock cannot be read or written.
pub fn lock_compiler(project: &Path, compiler: &Compiler) -> Result<bool, ToolchainError> {
    lock::lock_compiler(project, compiler)
}

/// Writes what is taken of wheels below `to`: `alone`, that of one key as this very folder; else each as a folder in it.
///
/// # Errors
/// As [`trees`].
pub fn export(
    lock: &Path,
    keys: &BTreeSet<String>,
    alone: bool,
    to: &Path,
    session: &Session,
) -> Result<Vec<PathBuf>, ToolchainError> {
    let _held = Supply::without_project(session);
    let locked = Lock::at(lock.to_owned(), true)?;
    let mut made = Vec::new();
    for (key, stored) in stored(&locked, lock, keys, session)? {
        let folder = if alone { to.to_owned() } else { to.join(key) };
        let staged = files::staging_beside(&folder)?;
        for name in &stored.names {
            files::copy(&stored.files.join(name), &staged.path().join(name))?;
        }
        files::replace_dir(staged, &folder)?;
        made.push(folder);
    }
    Ok(made)
}
