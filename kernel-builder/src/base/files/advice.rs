//! Next steps after a file operation that failed.
//!
//! Owns: the code and the help of [`FileError`], by what the operating system said. Never: touches a file.

use std::fmt::Display;
use std::path::{Path, PathBuf};

use miette::Diagnostic;
use rustix::io::Errno;

use super::error::{FileError, errno_of};
use super::free_space;
use crate::base::env;
use crate::base::report::bytes;

/// Kind of folder that a path is in; it decides the advice.
enum Place {
    Cache(PathBuf),
    Temporary(PathBuf),
    Elsewhere,
}

impl Place {
    fn classify(path: &Path) -> Self {
        let (cache, temporary) = (env::cache_dir(), env::temp_dir());
        if path.starts_with(&cache) {
            Self::Cache(cache)
        } else if path.starts_with(&temporary) {
            Self::Temporary(temporary)
        } else {
            Self::Elsewhere
        }
    }

    /// Advice that frees disk space.
    fn more_room(&self) -> String {
        match self {
            Self::Cache(cache) => format!(
                "`kernelwright toolchain gc --all --yes` removes fetched toolchains from the cache `{}`; or set {} to a folder \
                 on another disk",
                cache.display(),
                env::CACHE
            ),
            Self::Temporary(folder) => {
                format!("delete files in `{}`, or set TMPDIR to a folder on another disk", folder.display())
            }
            Self::Elsewhere => "delete files there, or use a folder on another disk".to_owned(),
        }
    }

    /// Advice for a folder that is not writable.
    fn other_folder(&self) -> String {
        match self {
            Self::Cache(_) => format!("set {} to a folder that you can write to", env::CACHE),
            Self::Temporary(_) => "set TMPDIR to a folder that you can write to".to_owned(),
            Self::Elsewhere => {
                "to build a project that you cannot write to: `kernelwright build --to DIR`".to_owned()
            }
        }
    }
}

impl FileError {
    fn errno(&self) -> Option<Errno> {
        errno_of(&self.cause)
    }

    /// Whether it is the disk, a quota, a limit or a permission that is in the way, whatever was written.
    pub fn is_about_room_or_rights(&self) -> bool {
        matches!(
            self.errno(),
            Some(Errno::NOSPC | Errno::DQUOT | Errno::FBIG | Errno::ROFS | Errno::ACCESS | Errno::PERM)
        )
    }

    /// The next step.
    pub fn advice(&self) -> String {
        let place = Place::classify(&self.path);
        let writes = !matches!(self.action, "read" | "open" | "list" | "look at" | "find");
        match self.errno() {
            Some(Errno::NOSPC) => {
                let left =
                    free_space(&self.path).map_or(String::new(), |left| format!(" ({} left)", bytes(left)));
                format!("not enough disk space{left}: {}", place.more_room())
            }
            Some(Errno::DQUOT) => format!("your disk quota is used up: {}", place.more_room()),
            Some(Errno::FBIG) => {
                "file size limit reached: raise it with `ulimit -f`, or use another file system".to_owned()
            }
            Some(Errno::ROFS) => format!("the file system is mounted read-only: {}", place.other_folder()),
            Some(Errno::ACCESS | Errno::PERM) if writes => {
                format!("check the owner and the permissions of the folder; {}", place.other_folder())
            }
            Some(Errno::ACCESS | Errno::PERM) => "check the owner and the permissions of the file".to_owned(),
            Some(Errno::NOENT) => {
                "check that the path exists and that no other program removes it".to_owned()
            }
            Some(Errno::LOOP) => "replace the link with the file that it should point to".to_owned(),
            _ => "check that the path exists and that you have permission to use it".to_owned(),
        }
    }
}

impl Diagnostic for FileError {
    fn code<'a>(&'a self) -> Option<Box<dyn Display + 'a>> {
        let code = match self.errno() {
            Some(Errno::NOSPC | Errno::DQUOT | Errno::FBIG) => "base::disk_full",
            Some(Errno::ROFS) => "base::read_only",
            _ => "base::file",
        };
        Some(Box::new(code))
    }

    fn help<'a>(&'a self) -> Option<Box<dyn Display + 'a>> {
        Some(Box::new(self.advice()))
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;

    #[test]
    fn a_full_disk_is_called_one_with_the_way_out() {
        let told = |errno: Errno, action, path: PathBuf| {
            let error = FileError { action, path, cause: errno.into() };
            (
                error.code().unwrap().to_string(),
                error.help().unwrap().to_string(),
                error.is_about_room_or_rights(),
            )
        };
        let in_cache = || env::cache_dir().join("wheels/a");
        for (errno, code) in [(Errno::NOSPC, "base::disk_full"), (Errno::DQUOT, "base::disk_full")] {
            let (said, help, room) = told(errno, "write", in_cache());
            assert!(room && said == code, "{said}");
            assert!(help.contains("toolchain gc") && help.contains(env::CACHE), "{help}");
        }
        let (code, help, _) = told(Errno::ROFS, "write", in_cache());
        assert!(code == "base::read_only" && help.contains(env::CACHE), "{code}: {help}");
        // As a library wraps it.
        let wrapped =
            io::Error::new(io::ErrorKind::StorageFull, "No space left on device at path \"/x/.tmp1\"");
        let error = FileError::new("write", Path::new("/x/file"), wrapped);
        assert!(!error.to_string().contains("tmp1") && error.is_about_room_or_rights(), "{error}");
        let (_, help, _) = told(Errno::NOSPC, "write", env::temp_dir().join("x"));
        assert!(help.contains("TMPDIR"), "{help}");
        let (code, help, _) = told(Errno::ROFS, "write", "/project/.kernelwright/x".into());
        assert!(code == "base::read_only" && help.contains("build --to"), "{code}: {help}");
        let (code, help, room) = told(Errno::NOENT, "read", "/project/x".into());
        assert!(code == "base::file" && help.contains("exists") && !room, "{code}: {help}");
    }
}
