//! Reading files.
//!
//! Owns: that only regular files are read, so that a named pipe or a device never makes the program wait.
//! Never: writes.

use std::fs::{self, File, FileType, Metadata};
use std::io::{self, Read};
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::Path;

use rustix::fs::OFlags;

use super::error::{FileError, failed};
use crate::base::interrupt;

/// The bytes of a regular file.
pub fn read(path: &Path) -> Result<Vec<u8>, FileError> {
    let (mut file, meta) = open_regular(path).map_err(failed("read", path))?;
    let mut bytes = Vec::with_capacity(usize::try_from(meta.len()).unwrap_or_default());
    file.read_to_end(&mut bytes).map_err(failed("read", path))?;
    Ok(bytes)
}

/// The text of a regular file.
pub fn read_text(path: &Path) -> Result<String, FileError> {
    text_of(read(path)?).map_err(failed("read", path))
}

/// The text of a file that the user named on the command line: a pipe is fine, as in `<(command)`.
/// The other end of a pipe may never write: ctrl-C ends the wait.
pub fn read_text_of_any(path: &Path) -> Result<String, FileError> {
    let owned = path.to_owned();
    let read = interrupt::unless_requested(move || fs::read(owned).and_then(text_of));
    read.unwrap_or_else(|| Err(io::ErrorKind::Interrupted.into())).map_err(failed("read", path))
}

fn text_of(bytes: Vec<u8>) -> io::Result<String> {
    String::from_utf8(bytes).map_err(|_| io::Error::new(io::ErrorKind::InvalidData, "it is not UTF-8"))
}

/// Why a file gave no text.
#[derive(Debug)]
pub enum NoText {
    /// It is longer than the limit.
    TooLong,
    /// It is not UTF-8.
    NotUtf8,
    /// It is not a regular file, or could not be read.
    Failed(FileError),
}

/// The text of a regular file of at most `limit` bytes.
pub fn read_text_up_to(path: &Path, limit: u64) -> Result<String, NoText> {
    let unreadable = |cause| NoText::Failed(failed("read", path)(cause));
    let (file, meta) = open_regular(path).map_err(unreadable)?;
    let mut bytes = Vec::with_capacity(usize::try_from(meta.len().min(limit)).unwrap_or_default());
    file.take(limit + 1).read_to_end(&mut bytes).map_err(unreadable)?;
    if bytes.len() as u64 > limit {
        return Err(NoText::TooLong);
    }
    String::from_utf8(bytes).map_err(|_| NoText::NotUtf8)
}

/// A file that came out of [`read_alone`], or why it is not read.
#[derive(Debug, PartialEq, Eq)]
pub enum UnfollowedFile {
    /// Its bytes.
    Bytes(Vec<u8>),
    /// A link, or a file with several names: the content may be that of any other file.
    Link,
    /// A folder, a pipe, a socket or a device.
    Irregular,
    /// Longer than the limit.
    TooLong,
}

/// The bytes of a regular file that has no other name and is not a link, of at most `limit` bytes.
///
/// # Errors
/// It does not exist, or may not be read.
pub fn read_alone(path: &Path, limit: u64) -> Result<UnfollowedFile, FileError> {
    let flags = OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::NOFOLLOW;
    let opened = File::options().read(true).custom_flags(flags.bits() as i32).open(path);
    let file = match opened {
        Ok(file) => file,
        Err(cause) if cause.raw_os_error() == Some(rustix::io::Errno::LOOP.raw_os_error()) => {
            return Ok(UnfollowedFile::Link);
        }
        // A socket cannot be opened.
        Err(cause) if cause.raw_os_error() == Some(rustix::io::Errno::NXIO.raw_os_error()) => {
            return Ok(UnfollowedFile::Irregular);
        }
        Err(cause) => return Err(failed("read", path)(cause)),
    };
    let meta = file.metadata().map_err(failed("look at", path))?;
    if !meta.is_file() {
        return Ok(UnfollowedFile::Irregular);
    }
    if meta.nlink() > 1 {
        return Ok(UnfollowedFile::Link);
    }
    let mut bytes = Vec::with_capacity(usize::try_from(meta.len().min(limit)).unwrap_or_default());
    file.take(limit + 1).read_to_end(&mut bytes).map_err(failed("read", path))?;
    Ok(if bytes.len() as u64 > limit { UnfollowedFile::TooLong } else { UnfollowedFile::Bytes(bytes) })
}

/// A regular file, open for reading.
pub fn open(path: &Path) -> Result<File, FileError> {
    open_regular(path).map(|(file, _)| file).map_err(failed("open", path))
}

/// Why `path` cannot be read as a regular file; `None` if it is one.
pub fn irregular(path: &Path) -> Option<String> {
    fs::metadata(path).and_then(|meta| regular(&meta)).err().map(|cause| in_words(&cause))
}

/// The operating system's error in words, as a clause about the file if one is known.
fn in_words(cause: &io::Error) -> String {
    match cause.raw_os_error().map(rustix::io::Errno::from_raw_os_error) {
        Some(rustix::io::Errno::LOOP) => "it is a link that leads back to itself".to_owned(),
        Some(rustix::io::Errno::NOENT) => "it is a link to a file that does not exist".to_owned(),
        _ => cause.to_string(),
    }
}

/// Opens a file if it is a regular one. Opening a named pipe waits for its other end, and opening a device may change it:
/// neither is opened, even if it takes the file's place meanwhile.
fn open_regular(path: &Path) -> io::Result<(File, Metadata)> {
    regular(&fs::metadata(path)?)?;
    let flags = OFlags::NONBLOCK | OFlags::NOCTTY;
    let file = File::options().read(true).custom_flags(flags.bits() as i32).open(path)?;
    let meta = file.metadata()?;
    regular(&meta)?;
    Ok((file, meta))
}

fn regular(meta: &Metadata) -> io::Result<()> {
    if meta.is_file() { Ok(()) } else { Err(io::Error::other(format!("it is {}", kind(meta.file_type())))) }
}

fn kind(of: FileType) -> &'static str {
    match of {
        of if of.is_dir() => "a folder, not a file",
        of if of.is_fifo() => "a named pipe, not a regular file",
        of if of.is_socket() => "a socket, not a regular file",
        of if of.is_char_device() || of.is_block_device() => "a device, not a regular file",
        _ => "not a regular file",
    }
}
