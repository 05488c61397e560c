//! Lists of the files below a folder.
//!
//! Owns: which folders are visited, and that no list is without end. Never: opens a file.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::error::{FileError, failed};
use super::stamp;

/// A file of a cache.
#[derive(Debug)]
pub struct CachedFile {
    /// Its path.
    pub path: PathBuf,
    /// Bytes.
    pub size: u64,
    /// When it was written or [`used`](super::used), in nanoseconds since 1970.
    pub used: i128,
}

/// The files below a folder of a cache, as far as they are listed before `end`. What another process removes meanwhile,
/// or what cannot be looked at, is left out.
pub fn aged(root: &Path, end: std::time::Instant) -> Vec<CachedFile> {
    let (mut found, mut pending) = (Vec::new(), vec![root.to_owned()]);
    while let Some(folder) = pending.pop() {
        for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
            if std::time::Instant::now() > end {
                return found;
            }
            let path = entry.path();
            match entry.file_type() {
                Ok(kind) if kind.is_dir() => pending.push(path),
                Ok(kind) if kind.is_file() => {
                    if let Ok((size, used)) = stamp(&path) {
                        found.push(CachedFile { path, size, used });
                    }
                }
                _ => {}
            }
        }
    }
    found
}

/// The most files, and the most folders, that [`walk`] visits: a folder with more is something else than a project.
const MOST_FILES: usize = 100_000;

/// Every file below `root`, as sorted paths relative to it; `enter` says which folders are visited.
/// Links to folders are followed, but not into a folder that is being visited already.
pub fn walk(root: &Path, enter: impl Fn(&Path) -> bool) -> Result<Vec<PathBuf>, FileError> {
    Ok(walk_apart(root, enter)?.0)
}

/// [`walk`], and those of the files that are not regular ones: named pipes, sockets, devices, links that lead nowhere.
pub fn walk_apart(
    root: &Path,
    enter: impl Fn(&Path) -> bool,
) -> Result<(Vec<PathBuf>, BTreeSet<PathBuf>), FileError> {
    up_to(MOST_FILES, root, enter)
}

/// What lies below `root` without following a link: the paths of all files, links and other entries that are no folders,
/// sorted; `enter` says which folders are visited.
///
/// # Errors
/// A folder cannot be listed, or there are too many entries.
pub fn walk_unfollowed(root: &Path, enter: impl Fn(&Path) -> bool) -> Result<Vec<PathBuf>, FileError> {
    let (mut found, mut pending) = (Vec::new(), vec![PathBuf::new()]);
    let mut seen = 0;
    while let Some(folder) = pending.pop() {
        let absolute = root.join(&folder);
        for entry in fs::read_dir(&absolute).map_err(failed("list", &absolute))? {
            let entry = entry.map_err(failed("list", &absolute))?;
            let relative = folder.join(entry.file_name());
            seen += 1;
            if seen > MOST_FILES {
                let cause = io::Error::other(format!("there are more than {MOST_FILES} entries in it"));
                return Err(failed("list", root)(cause));
            }
            if !entry.file_type().map_err(failed("look at", &absolute))?.is_dir() {
                found.push(relative);
            } else if enter(&relative) {
                pending.push(relative);
            }
        }
    }
    found.sort();
    Ok(found)
}

/// [`walk_apart`] of at most so many files, and so many folders.
pub(super) fn up_to(
    most: usize,
    root: &Path,
    enter: impl Fn(&Path) -> bool,
) -> Result<(Vec<PathBuf>, BTreeSet<PathBuf>), FileError> {
    use std::os::unix::fs::MetadataExt;
    let (mut found, mut irregular, mut folders) = (Vec::new(), BTreeSet::new(), 0);
    let mut pending = vec![(PathBuf::new(), Vec::new())];
    while let Some((folder, above)) = pending.pop() {
        let absolute = root.join(&folder);
        let meta = fs::metadata(&absolute).map_err(failed("list", &absolute))?;
        let identity = (meta.dev(), meta.ino());
        if above.contains(&identity) {
            continue;
        }
        folders += 1;
        for entry in fs::read_dir(&absolute).map_err(failed("list", &absolute))? {
            let entry = entry.map_err(failed("list", &absolute))?;
            let relative = folder.join(entry.file_name());
            let mut kind = entry.file_type().map_err(failed("look at", &absolute))?;
            if kind.is_symlink() {
                kind = fs::metadata(entry.path()).map_or(kind, |meta| meta.file_type());
            }
            if !kind.is_dir() {
                if !kind.is_file() {
                    irregular.insert(relative.clone());
                }
                found.push(relative);
            } else if enter(&relative) {
                pending.push((relative, above.iter().copied().chain([identity]).collect()));
            }
        }
        // Links between folders make paths without end, even where there are few files.
        for (count, what) in [(found.len(), "files"), (folders, "folders")] {
            if count > most {
                let cause = io::Error::other(format!("there are more than {most} {what} in it"));
                return Err(failed("list", root)(cause));
            }
        }
    }
    found.sort();
    Ok((found, irregular))
}
