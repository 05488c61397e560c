//! What one run of the program takes for one project: each toolchain once, in agreement with the project's lock.
//!
//! Owns: asking for many toolchains at once, and when the lock is written. Never: finds or fetches by itself.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::{Mutex, OnceLock, PoisonError};

use kernel_plan::kit::Toolchain;

use super::error::ToolchainError;
use super::lock::{Lock, Locked};
use super::missing::Missing;
use super::resolve::resolve;
use super::taking::WheelCollector;
use super::want::ToolchainRequest;
use super::{parts, used};
use crate::base::files::FileLock;
use crate::base::session::Session;

/// Toolchains for one project.
#[derive(Debug)]
pub struct Supply<'a> {
    session: &'a Session,
    lock: Lock,
    known: Mutex<BTreeMap<String, Toolchain>>,
    settled: Mutex<BTreeSet<Locked>>,
}

/// Held until the process ends: what it found is not removed under it.
static IN_USE: OnceLock<Option<FileLock>> = OnceLock::new();

impl<'a> Supply<'a> {
    /// For the project in a folder; with `locked`, nothing is taken that its lock does not have.
    ///
    /// # Errors
    /// The lock cannot be read.
    pub fn open(project: &Path, locked: bool, session: &'a Session) -> Result<Self, ToolchainError> {
        Ok(Self { lock: Lock::open(project, locked)?, ..Self::without_project(session) })
    }

    /// For nobody's project.
    pub fn without_project(session: &'a Session) -> Self {
        in_use(session);
        Self { session, lock: Lock::default(), known: Mutex::default(), settled: Mutex::default() }
    }

    /// Finds or fetches everything that compiling needs.
    ///
    /// # Errors
    /// What is missing, with the command that helps; see [`ToolchainError`].
    pub fn resolve(&self, want: &ToolchainRequest) -> Result<Toolchain, ToolchainError> {
        let key = format!("{want:?}");
        let known = || self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(toolchain) = known().get(&key) {
            return Ok(toolchain.clone());
        }
        let (toolchain, wheels) = resolve(&self.taking(), want)?;
        self.settle(&wheels)?;
        self.lock.allow_compiler(&toolchain.cxx)?;
        known().insert(key, toolchain.clone());
        Ok(toolchain)
    }

    /// Finds or fetches all of `wants`. Where downloads are off, all that is missing is told at once.
    ///
    /// # Errors
    /// As [`Self::resolve`].
    pub fn prepare(&self, wants: &[ToolchainRequest]) -> Result<(), ToolchainError> {
        let mut all: Vec<Missing> = Vec::new();
        for want in wants {
            match self.resolve(want) {
                Ok(_) => {}
                Err(ToolchainError::Offline { missing }) => all.extend(missing),
                Err(error) => return Err(error),
            }
        }
        all.sort();
        all.dedup();
        if all.is_empty() { Ok(()) } else { Err(ToolchainError::Offline { missing: all }) }
    }

    /// Fetches every header library that is known; gives their names.
    ///
    /// # Errors
    /// As [`Self::resolve`].
    pub fn header_libraries(&self) -> Result<Vec<String>, ToolchainError> {
        let taking = self.taking();
        let names = parts::obtain_all(&taking)?;
        self.settle(&taking.locked_wheels())?;
        Ok(names)
    }

    /// Writes the lock.
    ///
    /// # Errors
    /// The lock was replaced meanwhile by something that is none.
    pub fn close(self) -> Result<(), ToolchainError> {
        self.lock.write(self.session)
    }

    /// The keys in the lock of every wheel that was taken so far.
    pub fn wheels(&self) -> BTreeSet<String> {
        self.settled.lock().unwrap_or_else(PoisonError::into_inner).iter().map(Locked::key).collect()
    }

    /// For one thing that is made of wheels.
    pub(super) fn taking(&self) -> WheelCollector<'_> {
        WheelCollector::new(self.session, &self.lock)
    }

    /// Compares what was taken with the lock, and records that it is used.
    pub(super) fn settle(&self, wheels: &[Locked]) -> Result<(), ToolchainError> {
        self.lock.agree(wheels)?;
        wheels.iter().for_each(|wheel| used::now(self.session, &wheel.sha256));
        self.settled.lock().unwrap_or_else(PoisonError::into_inner).extend(wheels.iter().cloned());
        Ok(())
    }
}

/// Keeps what the cache holds from being removed while this process runs.
pub(super) fn in_use(session: &Session) {
    // A cache that cannot be locked cannot be written to either, so nothing is removed from it.
    IN_USE.get_or_init(|| used::hold(session).ok());
}
