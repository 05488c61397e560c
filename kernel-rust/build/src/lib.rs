//! Compiles CUDA kernels in a build script, and generates a typed Rust function for each one.
//!
//! The build script of a crate is one call:
//!
//! ```text
//! fn main() {
//!     kernelwright_build::compile();
//! }
//! ```
//!
//! `[package.metadata.kernelwright]` of Cargo.toml says which kernels. The program `kernelwright` compiles them and writes the
//! functions into `OUT_DIR`; `kernelwright_runtime::include_kernels!()` includes them.
//!
//! Owns: the settings in Cargo.toml, the call of the program, what cargo is told. Never: compiles; panics; writes outside of
//! `OUT_DIR`.

use std::path::{Path, PathBuf};

mod error;
mod location;
mod manifest;
mod outside;
mod program;
mod script;

pub use error::Error;
pub use script::{Built, LOCK};

/// Compiles the kernels of the crate whose build script calls this. If that fails, cargo shows the errors with their places,
/// and the build script ends.
pub fn compile() {
    let mut told = Vec::new();
    let result = script::run(&outside::Environment::of_process(), &mut told);
    told.iter().for_each(|line| outside::tell_cargo(line));
    if let Err(error) = result {
        for line in error.to_string().lines() {
            outside::tell_cargo(&format!("cargo::error={line}"));
        }
        std::process::exit(1);
    }
}

/// The kernels of a crate: folders with an op.toml, or files of that format. `folder` has the crate's Cargo.toml, and begins
/// the paths. Keys that the crate inherits come from its workspace, as in a build script.
///
/// # Errors
/// A Cargo.toml that cannot be read or lists no kernels.
pub fn kernels(folder: &Path) -> Result<Vec<PathBuf>, Error> {
    Ok(script::settings(folder, &mut Vec::new())?.kernels)
}

/// The published kernels that a crate uses, as `NAME@VERSION=PLACE` or `NAME@VERSION/VARIANT=PLACE`; a place is a folder or `hf:OWNER/NAME`. `folder` has the
/// crate's Cargo.toml.
///
/// # Errors
/// A Cargo.toml that cannot be read, or a dependency without a version or place.
pub fn dependencies(folder: &Path) -> Result<Vec<String>, Error> {
    Ok(script::settings(folder, &mut Vec::new())?.dependencies)
}

/// [`compile`] for a build script that handles errors itself. Cargo is told what to watch, and warnings.
///
/// # Errors
/// Settings that are wrong, a missing program, or kernels that do not compile.
pub fn try_compile() -> Result<Built, Error> {
    let mut told = Vec::new();
    let result = script::run(&outside::Environment::of_process(), &mut told);
    told.iter().for_each(|line| outside::tell_cargo(line));
    result
}
