//! Another program in place of this one.
//!
//! Owns: finding it beside this program or on `PATH`, and becoming it: signals and exit codes need no forwarding.
//! Never: returns when that works.
#![expect(clippy::disallowed_methods, reason = "this module is a door to other programs")]

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::env;
use super::process;

/// A program that is installed together with this one, else the first of its name on `PATH`.
pub fn installed_with(name: &str) -> Option<PathBuf> {
    let beside = env::own_program().with_file_name(name);
    if beside.is_file() { Some(beside) } else { process::find(name) }
}

/// Becomes `program` with these variables and no others, in a folder; why not, when it cannot.
pub fn become_with(
    program: &Path,
    arguments: &[String],
    variables: &BTreeMap<String, String>,
    folder: &Path,
) -> io::Error {
    Command::new(program).args(arguments).env_clear().envs(variables).current_dir(folder).exec()
}

/// Becomes `program`; why not, when it cannot.
pub fn become_program(program: &Path, arguments: &[OsString]) -> io::Error {
    Command::new(program).args(arguments).exec()
}
