//! Limits which files a process and its children can read (Linux Landlock), and how much memory each of them can have.
//!
//! Owns: the use of Linux's Landlock (kernel documentation, "Landlock: unprivileged access control"). It is asked of the
//! kernel, so neither links nor macros nor another program lead around it.
//! Never: decides what may be read.

use std::path::PathBuf;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use thiserror::Error;

use super::files::{self, FileError};

/// A process that was not confined.
#[derive(Debug, Error)]
pub enum ConfineError {
    /// The kernel does not do it.
    #[cfg(target_os = "linux")]
    #[error(transparent)]
    Landlock(#[from] landlock::RulesetError),
    /// No other system has it.
    #[cfg(not(target_os = "linux"))]
    #[error("this system cannot confine a process")]
    NotSupported,
    /// The kernel refused a limit.
    #[error("failed to limit its memory")]
    Memory(#[from] rustix::io::Errno),
}

/// Lets this process, and each process that it starts, have at most `bytes` of address space (getrlimit(2), `RLIMIT_AS`).
///
/// # Errors
/// The kernel refuses it.
pub fn memory(bytes: u64) -> Result<(), ConfineError> {
    let maximum = getrlimit(Resource::As).maximum.map_or(bytes, |maximum| maximum.min(bytes));
    let limit = Rlimit { current: Some(maximum), maximum: Some(maximum) };
    Ok(setrlimit(Resource::As, limit)?)
}

/// Whether the kernel can confine a process: Linux 5.13 and later, where the container allows it.
#[cfg(target_os = "linux")]
pub fn is_possible() -> bool {
    linux::ruleset().is_ok()
}

/// A new folder for a process that can write to hardly anything else; `None` where a process cannot be confined.
///
/// # Errors
/// The folder cannot be made.
pub fn home() -> Result<Option<tempfile::TempDir>, FileError> {
    if is_possible() { files::scratch().map(Some) } else { Ok(None) }
}

/// Lets this thread, and what it starts from now on, read only files below `readable`; what is not there is left out.
/// Files that are open already stay so. A file elsewhere can only be opened for writing alone.
///
/// # Errors
/// The kernel does not do it; nothing is restricted then.
#[cfg(target_os = "linux")]
pub fn reading(readable: &[PathBuf]) -> Result<(), ConfineError> {
    Ok(linux::restrict(readable)?)
}

/// Lets this process, and what it starts, read and run files below `readable`, and do anything below `writable`, and
/// nothing elsewhere; what is not there is left out. Open files stay so. Sockets and the network are not restricted.
///
/// # Errors
/// The kernel does not do it; nothing is restricted then.
#[cfg(target_os = "linux")]
pub fn to_folders(readable: &[PathBuf], writable: &[PathBuf]) -> Result<(), ConfineError> {
    Ok(linux::keep(readable, writable)?)
}

/// No other system has it.
///
/// # Errors
/// Always.
#[cfg(not(target_os = "linux"))]
pub fn to_folders(_readable: &[PathBuf], _writable: &[PathBuf]) -> Result<(), ConfineError> {
    Err(ConfineError::NotSupported)
}

/// No other system has it.
#[cfg(not(target_os = "linux"))]
pub fn is_possible() -> bool {
    false
}

/// No other system has it.
///
/// # Errors
/// Always.
#[cfg(not(target_os = "linux"))]
pub fn reading(_readable: &[PathBuf]) -> Result<(), ConfineError> {
    Err(ConfineError::NotSupported)
}

#[cfg(target_os = "linux")]
mod linux {
    use std::path::PathBuf;

    use landlock::{
        ABI, Access as _, AccessFs, CompatLevel, Compatible as _, PathBeneath, PathFd, Ruleset,
        RulesetAttr as _, RulesetCreated, RulesetCreatedAttr as _, RulesetError,
    };

    pub(super) fn ruleset() -> Result<RulesetCreated, RulesetError> {
        Ruleset::default()
            .set_compatibility(CompatLevel::HardRequirement)
            .handle_access(AccessFs::ReadFile)?
            .create()
    }

    /// What newer kernels know beside the first version is asked for where they do.
    pub(super) fn keep(readable: &[PathBuf], writable: &[PathBuf]) -> Result<(), RulesetError> {
        let version = ABI::V5;
        let rules = |places: &[PathBuf], may| {
            let there: Vec<PathFd> = places.iter().filter_map(|path| PathFd::new(path).ok()).collect();
            let rules =
                there.into_iter().map(move |place| Ok::<_, RulesetError>(PathBeneath::new(place, may)));
            rules.collect::<Vec<_>>()
        };
        Ruleset::default()
            .set_compatibility(CompatLevel::HardRequirement)
            .handle_access(AccessFs::from_all(ABI::V1))?
            .set_compatibility(CompatLevel::BestEffort)
            .handle_access(AccessFs::from_all(version))?
            .create()?
            .add_rules(rules(readable, AccessFs::from_read(version)))?
            .add_rules(rules(writable, AccessFs::from_all(version)))?
            .restrict_self()?;
        Ok(())
    }

    pub(super) fn restrict(readable: &[PathBuf]) -> Result<(), RulesetError> {
        let there = readable.iter().filter_map(|path| PathFd::new(path).ok());
        let rules = there.map(|place| Ok::<_, RulesetError>(PathBeneath::new(place, AccessFs::ReadFile)));
        ruleset()?.add_rules(rules)?.restrict_self()?;
        Ok(())
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;
    use crate::base::files;

    #[test]
    #[expect(clippy::disallowed_macros, reason = "a skipped test says why")]
    fn a_thread_that_is_kept_to_folders_writes_in_one_of_them_alone() {
        if !is_possible() {
            eprintln!("skipped: this kernel has no Landlock");
            return;
        }
        let folder = files::scratch().unwrap();
        let at = |name: &str| folder.path().join(name);
        for name in ["own/a", "seen/a", "hidden/a"] {
            files::write(&at(name), "text").unwrap();
        }
        std::thread::scope(|scope| {
            scope.spawn(|| {
                to_folders(&[at("seen"), at("gone")], &[at("own")]).unwrap();
                files::write(&at("own/deep/b"), "new").unwrap();
                assert_eq!(files::read_text(&at("own/deep/b")).unwrap(), "new");
                assert_eq!(files::read_text(&at("seen/a")).unwrap(), "text");
                assert!(files::write(&at("seen/b"), "new").is_err());
                assert!(files::append_line(&at("hidden/a"), "more").is_err(), "not even for writing alone");
                assert!(
                    files::read_text(&at("hidden/a")).is_err()
                        && files::walk(&at("hidden"), |_| true).is_err()
                );
                assert!(files::rename(&at("own/a"), &at("seen/a")).is_err());
                assert!(files::remove_file(&at("seen/a")).is_err());
            });
        });
        assert_eq!(files::read_text(&at("hidden/a")).unwrap(), "text");
    }

    #[test]
    #[expect(clippy::disallowed_macros, reason = "a skipped test says why")]
    fn a_confined_thread_reads_what_it_may_and_nothing_else() {
        if !is_possible() {
            eprintln!("skipped: this kernel has no Landlock");
            return;
        }
        let folder = files::scratch().unwrap();
        let (inside, outside) = (folder.path().join("inside"), folder.path().join("outside"));
        for place in [&inside, &outside] {
            files::write(&place.join("file"), "text").unwrap();
        }
        std::os::unix::fs::symlink(outside.join("file"), inside.join("link")).unwrap();
        let read = |path: PathBuf| files::read_text(&path).ok();
        // The restriction is the thread's own.
        std::thread::scope(|scope| {
            scope.spawn(|| {
                reading(&[inside.clone(), folder.path().join("gone")]).unwrap();
                assert_eq!(read(inside.join("file")).as_deref(), Some("text"));
                assert_eq!(read(outside.join("file")), None);
                assert_eq!(read(inside.join("link")), None, "a link leads out");
                assert_eq!(read(inside.join("../outside/file")), None);
            });
        });
        assert_eq!(read(outside.join("file")).as_deref(), Some("text"));
    }
}
