//! Files that are there after the power went, or are not there at all.
//!
//! Owns: temporary names, renaming, and fsync of files and folders.
//! Never: knows what is in a file. What it writes under a temporary name is no one's until it is renamed.
#![expect(
    clippy::disallowed_methods,
    reason = "this module is the hub's door to the disk; `base` is the program's"
)]

use std::fs::{self, File};
use std::io::{self, Seek as _, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use ring::rand::{SecureRandom as _, SystemRandom};

use crate::name::hex;

/// What went wrong with which file.
#[derive(Debug, thiserror::Error)]
#[error("{}: {error}", .path.display())]
pub struct DiskError {
    /// Where.
    pub path: PathBuf,
    /// What.
    #[source]
    pub error: io::Error,
}

impl DiskError {
    /// Whether there is no room, on the disk or in somebody's share of it.
    pub fn is_full(&self) -> bool {
        matches!(self.error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
    }
}

/// For `map_err`.
pub fn at(path: &Path) -> impl FnOnce(io::Error) -> DiskError {
    let path = path.to_owned();
    move |error| DiskError { path, error }
}

/// A file under a temporary name; it is removed with this value unless it was kept.
#[derive(Debug)]
pub struct Temporary {
    file: File,
    path: PathBuf,
    kept: bool,
}

impl Temporary {
    /// An empty one in `folder`.
    pub fn new(folder: &Path) -> Result<Self, DiskError> {
        let path = folder.join(random_name());
        let file = File::options().read(true).write(true).create_new(true).open(&path).map_err(at(&path))?;
        Ok(Self { file, path, kept: false })
    }

    /// An empty one of this name, for whoever holds the lock on what it becomes.
    pub fn named(path: &Path) -> Result<Self, DiskError> {
        let file = File::create(path).map_err(at(path))?;
        Ok(Self { file, path: path.to_owned(), kept: false })
    }

    /// Appends.
    pub fn write(&mut self, bytes: &[u8]) -> Result<(), DiskError> {
        self.file.write_all(bytes).map_err(at(&self.path))
    }

    /// The file, to be read from its beginning.
    pub fn rewound(&mut self) -> Result<&mut File, DiskError> {
        self.file.rewind().map_err(at(&self.path))?;
        Ok(&mut self.file)
    }

    /// What was written is on the disk.
    pub fn sync(&self) -> Result<(), DiskError> {
        self.file.sync_data().map_err(at(&self.path))
    }

    /// Gives it its name, for what need not be there after the power went.
    pub fn keep_unsynced_as(mut self, target: &Path) -> Result<(), DiskError> {
        fs::rename(&self.path, target).map_err(at(target))?;
        self.kept = true;
        Ok(())
    }

    /// Gives it its name; when this returns, content and name are on the disk.
    pub fn keep_as(mut self, target: &Path) -> Result<(), DiskError> {
        self.file.sync_all().map_err(at(&self.path))?;
        fs::rename(&self.path, target).map_err(at(target))?;
        self.kept = true;
        sync_folder_of(target)
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        if !self.kept {
            // It is swept at the next start, too.
            let _swept_later = fs::remove_file(&self.path);
        }
    }
}

/// Twenty letters that no one guesses.
pub fn random_name() -> String {
    let mut bytes = [0_u8; 10];
    // Without randomness a name may be taken, and then creating the file fails.
    let _checked_by_create_new = SystemRandom::new().fill(&mut bytes);
    hex(&bytes)
}

/// Writes a whole file; the old one is there until the new one is.
pub fn write(temporaries: &Path, target: &Path, bytes: &[u8]) -> Result<(), DiskError> {
    let mut temporary = Temporary::new(temporaries)?;
    temporary.write(bytes)?;
    temporary.keep_as(target)
}

/// Makes a folder with those above it.
pub fn create_folder(path: &Path) -> Result<(), DiskError> {
    if path.is_dir() {
        return Ok(());
    }
    if let Some(above) = path.parent().filter(|above| !above.as_os_str().is_empty()) {
        create_folder(above)?;
    }
    match fs::create_dir(path) {
        Ok(()) => sync_folder_of(path),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        Err(error) => Err(at(path)(error)),
    }
}

/// Makes a folder in one that is there. When this returns, its name is on the disk, also when somebody else has made it
/// a moment ago, or made it and was killed.
pub fn folder(path: &Path) -> Result<(), DiskError> {
    match fs::create_dir(path) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(at(path)(error)),
        _ => sync_folder_of(path),
    }
}

/// The 256 folders that blobs are spread over: made at once, so that none is made while something is acknowledged.
pub fn shards(folder: &Path) -> Result<(), DiskError> {
    for number in 0..=u8::MAX {
        let path = folder.join(hex(&[number]));
        match fs::create_dir(&path) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(at(&path)(error)),
            _ => {}
        }
    }
    File::open(folder).and_then(|folder| folder.sync_all()).map_err(at(folder))
}

/// The names in the folder of `path` are on the disk.
pub fn sync_folder_of(path: &Path) -> Result<(), DiskError> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    File::open(folder).and_then(|folder| folder.sync_all()).map_err(at(folder))
}

/// Gives a folder its name.
pub fn rename(from: &Path, to: &Path) -> Result<(), DiskError> {
    fs::rename(from, to).map_err(at(to))?;
    sync_folder_of(to)
}

/// Removes a file.
pub fn remove(path: &Path) -> Result<(), DiskError> {
    fs::remove_file(path).map_err(at(path))?;
    sync_folder_of(path)
}

/// Removes a folder: it is gone in one step, its content a little later.
pub fn remove_folder(temporaries: &Path, path: &Path) -> Result<(), DiskError> {
    let grave = temporaries.join(random_name());
    fs::rename(path, &grave).map_err(at(path))?;
    sync_folder_of(path)?;
    discard_folder(&grave);
    Ok(())
}

/// Removes a folder that nobody knows of.
pub fn discard_folder(path: &Path) {
    // What is left of it is swept at the next start.
    let _swept_later = fs::remove_dir_all(path);
}

/// What is left of a run that ended in the middle; says how much it was.
pub fn sweep(temporaries: &Path) -> Result<usize, DiskError> {
    let mut swept = 0;
    for name in names(temporaries)? {
        let path = temporaries.join(name);
        let removed = if path.is_dir() { fs::remove_dir_all(&path) } else { fs::remove_file(&path) };
        removed.map_err(at(&path))?;
        swept += 1;
    }
    Ok(swept)
}

/// The names in a folder, sorted; none where there is no folder.
pub fn names(folder: &Path) -> Result<Vec<String>, DiskError> {
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(at(folder)(error)),
    };
    let mut names = Vec::new();
    for entry in entries {
        names.extend(entry.map_err(at(folder))?.file_name().into_string().ok());
    }
    names.sort();
    Ok(names)
}

/// The content of a file; `None` where there is none.
pub fn read(path: &Path) -> Result<Option<Vec<u8>>, DiskError> {
    match fs::read(path) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if is_absent(&error) => Ok(None),
        Err(error) => Err(at(path)(error)),
    }
}

/// The size of a file; `None` where there is none.
pub fn size(path: &Path) -> Result<Option<u64>, DiskError> {
    match fs::metadata(path) {
        Ok(metadata) => Ok(Some(metadata.len())),
        Err(error) if is_absent(&error) => Ok(None),
        Err(error) => Err(at(path)(error)),
    }
}

/// The time since a file or folder last changed; `None` where there is none.
pub fn age(path: &Path) -> Result<Option<Duration>, DiskError> {
    match fs::metadata(path).and_then(|metadata| metadata.modified()) {
        // A time in the future is no age.
        Ok(changed) => Ok(Some(changed.elapsed().unwrap_or_default())),
        Err(error) if is_absent(&error) => Ok(None),
        Err(error) => Err(at(path)(error)),
    }
}

/// What tells one content of a file from the next: replaced files have other numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stamp {
    inode: u64,
    size: u64,
    changed: (i64, i64),
}

impl Stamp {
    /// The stamp of an open file.
    pub fn read(file: &File) -> io::Result<Self> {
        file.metadata().map(|metadata| Self::from(&metadata))
    }

    /// The size of the file.
    pub fn size(&self) -> u64 {
        self.size
    }
}

impl From<&fs::Metadata> for Stamp {
    fn from(metadata: &fs::Metadata) -> Self {
        let changed = (metadata.ctime(), metadata.ctime_nsec());
        Self { inode: metadata.ino(), size: metadata.len(), changed }
    }
}

/// The stamp of a file; `None` where there is none.
pub fn stamp(path: &Path) -> Result<Option<Stamp>, DiskError> {
    match fs::metadata(path) {
        Ok(metadata) => Ok(Some(Stamp::from(&metadata))),
        Err(error) if is_absent(&error) => Ok(None),
        Err(error) => Err(at(path)(error)),
    }
}

/// Opens a file; `None` where there is none.
pub fn open(path: &Path) -> Result<Option<File>, DiskError> {
    match File::open(path) {
        Ok(file) => Ok(Some(file)),
        Err(error) if is_absent(&error) => Ok(None),
        Err(error) => Err(at(path)(error)),
    }
}

/// A file that one process at a time can hold; `None` while another one does.
pub fn lock(path: &Path) -> Result<Option<File>, DiskError> {
    let file = File::options().create(true).append(true).open(path).map_err(at(path))?;
    match file.try_lock() {
        Ok(()) => Ok(Some(file)),
        Err(fs::TryLockError::WouldBlock) => Ok(None),
        Err(fs::TryLockError::Error(error)) => Err(at(path)(error)),
    }
}

/// The same; waits while another one does.
pub fn lock_in_turn(path: &Path) -> Result<File, DiskError> {
    let file = File::options().create(true).append(true).open(path).map_err(at(path))?;
    file.lock().map_err(at(path))?;
    Ok(file)
}

fn is_absent(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}
