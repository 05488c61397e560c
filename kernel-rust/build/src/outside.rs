//! The environment, files and standard output of a build script.
//!
//! Owns: the only uses of the operating system beside `program`. Never: decides.

#![expect(
    clippy::disallowed_methods,
    clippy::disallowed_macros,
    reason = "this crate is not part of the program and does not use its base"
)]

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use crate::error::Error;

/// Variables with their values, as a build script has them.
#[derive(Debug, Clone, Default)]
pub(crate) struct Environment {
    pub(crate) variables: BTreeMap<String, OsString>,
}

impl Environment {
    /// Those of this process.
    pub(crate) fn of_process() -> Self {
        let variables =
            std::env::vars_os().filter_map(|(name, value)| Some((name.into_string().ok()?, value)));
        Self { variables: variables.collect() }
    }

    /// A value that is set and not empty.
    pub(crate) fn value(&self, name: &str) -> Option<&OsString> {
        self.variables.get(name).filter(|value| !value.is_empty())
    }

    /// Whether a variable is set to something other than 0.
    pub(crate) fn says_yes(&self, name: &str) -> bool {
        self.value(name).is_some_and(|value| value != "0")
    }

    /// A folder that cargo sets.
    pub(crate) fn folder(&self, variable: &'static str) -> Result<PathBuf, Error> {
        self.value(variable).map(PathBuf::from).ok_or(Error::NotABuildScript { variable })
    }
}

/// The text of a file.
pub(crate) fn read(path: &Path) -> Result<String, Error> {
    fs::read_to_string(path).map_err(|cause| Error::File { action: "read", path: path.to_owned(), cause })
}

/// Copies a file into a folder, which is made.
pub(crate) fn copy_into(from: &Path, folder: &Path) -> Result<(), Error> {
    fs::create_dir_all(folder).map_err(|cause| Error::File {
        action: "create",
        path: folder.to_owned(),
        cause,
    })?;
    let to = folder.join(from.file_name().unwrap_or_default());
    fs::copy(from, &to).map_err(|cause| Error::File { action: "copy", path: from.to_owned(), cause })?;
    Ok(())
}

/// Prints one line to cargo.
pub(crate) fn tell_cargo(line: &str) {
    println!("{line}");
}
