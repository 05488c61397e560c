//! Files and folders: nothing is ever half-written.
//!
//! Owns: every read and write of the program; writes go to a temporary name in the same folder and are renamed.
//! Never: knows what the bytes mean.
#![expect(clippy::disallowed_methods, reason = "this module is the door to the file system")]

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use error::failed;
use rustix::fs::OFlags;

mod advice;
mod error;
mod locks;
mod reading;
mod walking;

pub use error::FileError;
pub use locks::{FileLock, lock, lock_shared, try_lock};
pub use reading::{
    NoText, UnfollowedFile, irregular, open, read, read_alone, read_text, read_text_of_any, read_text_up_to,
};
pub use walking::{CachedFile, aged, walk, walk_apart, walk_unfollowed};

/// Opens (or creates) a file for reading and writing without truncating it: resumable downloads.
pub fn open_for_resume(path: &Path) -> Result<File, FileError> {
    if let Some(parent) = path.parent() {
        create_dirs(parent)?;
    }
    File::options()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .open(path)
        .map_err(failed("open", path))
}

/// Writes a whole file: to a temporary name beside it, then renamed over it. Makes the folders above it.
pub fn write(path: &Path, bytes: impl AsRef<[u8]>) -> Result<(), FileError> {
    let folder = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    create_dirs(folder)?;
    let mut temporary = tempfile::Builder::new()
        .prefix(".writing-")
        .permissions(std::os::unix::fs::PermissionsExt::from_mode(0o644))
        .tempfile_in(folder)
        .map_err(failed("write", path))?;
    temporary.write_all(bytes.as_ref()).map_err(failed("write", path))?;
    temporary.persist(path).map_err(|error| failed("write", path)(error.error))?;
    Ok(())
}

/// Writes a file that no other user may read, with the promise of [`write()`].
pub fn write_private(path: &Path, bytes: &[u8]) -> Result<(), FileError> {
    let folder = path.parent().unwrap_or(Path::new("."));
    // Nobody else may read a temporary file, and that stays.
    let mut temporary =
        tempfile::Builder::new().prefix(".writing-").tempfile_in(folder).map_err(failed("write", path))?;
    temporary.write_all(bytes).map_err(failed("write", path))?;
    temporary.persist(path).map_err(|error| failed("write", path)(error.error))?;
    Ok(())
}

/// Replaces the text of a file that a person wrote, with the promise of [`write()`]: its permissions stay, a link to it
/// stays a link, and a file that is marked as read-only is not replaced.
pub fn rewrite(path: &Path, text: &str) -> Result<(), FileError> {
    let target = fs::canonicalize(path).map_err(failed("find", path))?;
    let permissions = fs::metadata(&target).map_err(failed("look at", path))?.permissions();
    if permissions.readonly() {
        let cause = io::Error::new(io::ErrorKind::PermissionDenied, "it is marked as read-only");
        return Err(failed("write", path)(cause));
    }
    let folder = target.parent().unwrap_or(Path::new("/"));
    let mut temporary =
        tempfile::Builder::new().prefix(".writing-").tempfile_in(folder).map_err(failed("write", path))?;
    temporary.write_all(text.as_bytes()).map_err(failed("write", path))?;
    fs::set_permissions(temporary.path(), permissions).map_err(failed("write", path))?;
    temporary.persist(&target).map_err(|error| failed("write", path)(error.error))?;
    Ok(())
}

/// Writes a file piece by piece, with the promise of [`write()`]: the name appears only when `fill` succeeded.
pub fn write_with<T, E: From<FileError>>(
    path: &Path,
    fill: impl FnOnce(&mut dyn Write) -> Result<T, E>,
) -> Result<T, E> {
    let folder = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    create_dirs(folder)?;
    let temporary = tempfile::Builder::new()
        .prefix(".writing-")
        .permissions(std::os::unix::fs::PermissionsExt::from_mode(0o644))
        .tempfile_in(folder)
        .map_err(failed("write", path))?;
    let mut buffered = io::BufWriter::with_capacity(256 << 10, temporary);
    let value = fill(&mut buffered)?;
    let temporary = buffered.into_inner().map_err(|error| failed("write", path)(error.into_error()))?;
    temporary.persist(path).map_err(|error| failed("write", path)(error.error))?;
    Ok(value)
}

/// Writes a file only when its content would change; says whether it did.
pub fn write_if_changed(path: &Path, bytes: impl AsRef<[u8]>) -> Result<bool, FileError> {
    if read(path).is_ok_and(|old| old == bytes.as_ref()) {
        return Ok(false);
    }
    write(path, bytes)?;
    Ok(true)
}

/// Appends one line to a file that is only ever appended to.
pub fn append_line(path: &Path, line: &str) -> Result<(), FileError> {
    let mut file = open_for_appending(path)?;
    // One write call: with O_APPEND, lines of concurrent writers do not mix.
    file.write_all(format!("{line}\n").as_bytes()).map_err(failed("append to", path))
}

/// Opens (or creates) a file that is only ever appended to: a log.
pub fn open_for_appending(path: &Path) -> Result<File, FileError> {
    if let Some(parent) = path.parent() {
        create_dirs(parent)?;
    }
    // Opening a named pipe for writing would wait for its reader.
    let flags = OFlags::NONBLOCK.bits() as i32;
    let mut options = File::options();
    options.append(true).create(true).custom_flags(flags);
    options.open(path).map_err(failed("open", path))
}

/// Makes a folder and those above it.
pub fn create_dirs(path: &Path) -> Result<(), FileError> {
    fs::create_dir_all(path).map_err(failed("create the folder", path))
}

/// Whether something is there.
pub fn exists(path: &Path) -> bool {
    path.exists()
}

/// Whether a folder is there.
pub fn is_dir(path: &Path) -> bool {
    path.is_dir()
}

/// Whether a folder is there and holds nothing.
pub fn is_empty_dir(path: &Path) -> bool {
    fs::read_dir(path).is_ok_and(|mut entries| entries.next().is_none())
}

/// Size in bytes and time of the last change in nanoseconds since 1970, as a cheap stamp of a file.
pub fn stamp(path: &Path) -> Result<(u64, i128), FileError> {
    use std::os::unix::fs::MetadataExt;
    let meta = fs::metadata(path).map_err(failed("look at", path))?;
    Ok((meta.len(), i128::from(meta.mtime()) * 1_000_000_000 + i128::from(meta.mtime_nsec())))
}

/// The time, in seconds since 1970, as file systems count it.
pub fn now() -> u64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.map_or(0, |since| since.as_secs())
}

/// A use within this time of the last one is not written down.
const USE_COUNTS_AFTER: u64 = 3600;

/// Notes that a cached file was used, in its time of change. A file that cannot be marked is only removed earlier.
pub fn used(path: &Path) {
    use rustix::fs::{AtFlags, CWD, Timespec, Timestamps, UTIME_NOW, utimensat};
    let Ok((_, changed)) = stamp(path) else { return };
    if i128::from(now()) - changed / 1_000_000_000 < i128::from(USE_COUNTS_AFTER) {
        return;
    }
    let at = Timespec { tv_sec: 0, tv_nsec: UTIME_NOW };
    let _unmarked =
        utimensat(CWD, path, &Timestamps { last_access: at, last_modification: at }, AtFlags::empty());
}

/// Makes a file look as if it had been written earlier.
#[cfg(test)]
pub(crate) fn backdate(path: &Path, by: std::time::Duration) {
    let file = File::options().append(true).open(path).unwrap();
    file.set_modified(std::time::SystemTime::now() - by).unwrap();
}

/// Copies one file with its permissions, by a temporary name.
pub fn copy(from: &Path, to: &Path) -> Result<(), FileError> {
    let bytes = read(from)?;
    write(to, bytes)?;
    let mode = fs::metadata(from).map_err(failed("look at", from))?.permissions();
    fs::set_permissions(to, mode).map_err(failed("write", to))
}

/// Puts the file `from` at `to` without copying its bytes where the file system can; copies elsewhere.
pub fn link_or_copy(from: &Path, to: &Path) -> Result<(), FileError> {
    match fs::hard_link(from, to) {
        Ok(()) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            if let Some(parent) = to.parent() {
                create_dirs(parent)?;
            }
            fs::hard_link(from, to)
                .or_else(|_| copy(from, to).map_err(io::Error::other))
                .map_err(failed("link", to))
        }
        Err(_) => copy(from, to),
    }
}

/// Fills the folder `to` with links to what lies in `from`, those names excepted.
pub fn link_entries(from: &Path, to: &Path, except: &[&str]) -> Result<(), FileError> {
    create_dirs(to)?;
    for entry in fs::read_dir(from).map_err(failed("list", from))? {
        let entry = entry.map_err(failed("list", from))?;
        if !except.iter().any(|name| entry.file_name() == *name) {
            let link = to.join(entry.file_name());
            std::os::unix::fs::symlink(entry.path(), &link).map_err(failed("link", &link))?;
        }
    }
    Ok(())
}

/// Marks a file as executable.
pub fn make_executable(path: &Path) -> Result<(), FileError> {
    fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(0o755))
        .map_err(failed("write", path))
}

/// Removes a file; a missing one is fine.
pub fn remove_file(path: &Path) -> Result<(), FileError> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(failed("remove", path)(error)),
        _ => Ok(()),
    }
}

/// Removes a folder with all that is in it; a missing one is fine.
pub fn remove_dir(path: &Path) -> Result<(), FileError> {
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(failed("remove", path)(error)),
        _ => Ok(()),
    }
}

/// Renames a file or folder within one file system.
pub fn rename(from: &Path, to: &Path) -> Result<(), FileError> {
    fs::rename(from, to).map_err(failed("rename", from))
}

/// A temporary folder beside `target`, on the same file system, removed unless it is moved into place.
pub fn staging_beside(target: &Path) -> Result<tempfile::TempDir, FileError> {
    let parent = target.parent().filter(|path| !path.as_os_str().is_empty()).unwrap_or(Path::new("."));
    create_dirs(parent)?;
    tempfile::Builder::new()
        .prefix(".staging-")
        .tempdir_in(parent)
        .map_err(failed("create a folder in", parent))
}

/// A temporary folder for the time of one step.
pub fn scratch() -> Result<tempfile::TempDir, FileError> {
    let parent = super::env::temp_dir();
    tempfile::Builder::new()
        .prefix("kernelwright-")
        .tempdir_in(&parent)
        .map_err(failed("create a folder in", &parent))
}

/// Puts a staged folder in the place of `target` in one step: readers see the old tree or the new one.
pub fn replace_dir(staged: tempfile::TempDir, target: &Path) -> Result<(), FileError> {
    use rustix::fs::{CWD, RenameFlags, renameat_with};
    fs::set_permissions(staged.path(), std::os::unix::fs::PermissionsExt::from_mode(0o755))
        .map_err(failed("write", staged.path()))?;
    if !target.exists() {
        let path = staged.keep();
        return rename(&path, target);
    }
    // Exchange, then let `staged` remove what used to be the target. Some file systems cannot exchange.
    if renameat_with(CWD, staged.path(), CWD, target, RenameFlags::EXCHANGE).is_ok() {
        return Ok(());
    }
    let old = staging_beside(target)?;
    rename(target, &old.path().join("old"))?;
    let path = staged.keep();
    rename(&path, target)
}

/// Free bytes on the file system that holds `path` (or its nearest existing folder).
pub fn free_space(path: &Path) -> Option<u64> {
    let place = path.ancestors().find(|folder| folder.exists())?;
    let info = rustix::fs::statvfs(place).ok()?;
    Some(info.f_bavail * info.f_frsize)
}

#[cfg(test)]
mod tests;
