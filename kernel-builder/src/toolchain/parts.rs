//! Parts of wheels that are headers and nothing else: tvm-ffi, CUTLASS.
//!
//! Owns: fetching them by name and version. Never: says what they are for.

use std::path::PathBuf;

use serde::Deserialize;

use super::error::ToolchainError;
use super::fetch::{self, Request};
use super::index::Target;
use super::interpreter::{self, Question};
use super::pins::Part;
use super::taking::WheelCollector;

/// The table of header libraries.
pub(super) const TEXT: &str = include_str!("pins/parts.toml");

/// The name of Apache TVM's foreign function interface in the table.
pub(super) const TVM_FFI: &str = "tvm-ffi";

/// Headers that lie on this machine.
#[derive(Debug, Clone)]
pub(super) struct Headers {
    /// The release, e.g. `3.8.0`.
    pub(super) version: String,
    /// Folders to search for headers, in order.
    pub(super) include: Vec<PathBuf>,
    /// Identity of the content, hexadecimal.
    pub(super) id: String,
}

/// One library at one version.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Pinned {
    name: String,
    /// As it is asked for: `3.8`.
    line: String,
    /// The library's own version.
    version: String,
    pub(super) wheel: Part,
    /// Folders inside the wheel.
    include: Vec<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    part: Vec<Pinned>,
}

fn table() -> Vec<Pinned> {
    let table: Table =
        toml::from_str(TEXT).expect("parts.toml is part of the program and parses: tested below");
    table.part
}

/// The versions of one library that are known.
pub(super) fn versions(name: &str) -> Vec<String> {
    table().into_iter().filter(|pinned| pinned.name == name).map(|pinned| pinned.line).collect()
}

/// Every part of a wheel in the table.
pub(super) fn wheels() -> Vec<(Target, Part)> {
    table().into_iter().map(|pinned| (Target::Machine, pinned.wheel)).collect()
}

/// What the table has of one library at one version.
pub(super) fn pinned(name: &str, line: &str) -> Result<Pinned, ToolchainError> {
    table().into_iter().find(|pinned| pinned.name == name && pinned.line == line).ok_or_else(|| {
        ToolchainError::UnknownPart {
            name: name.to_owned(),
            version: line.to_owned(),
            known: versions(name).join(", "),
        }
    })
}

/// Fetches every library of the table; gives names and versions.
pub(super) fn obtain_all(session: &WheelCollector<'_>) -> Result<Vec<String>, ToolchainError> {
    let all = table().into_iter().map(|Pinned { name, line, .. }| {
        let headers = obtain(session, &name, &line)?;
        Ok(format!("headers of {name} {}", headers.version))
    });
    all.collect()
}

/// Fetches one library, or finds it in the cache.
pub(super) fn obtain(
    session: &WheelCollector<'_>,
    name: &str,
    line: &str,
) -> Result<Headers, ToolchainError> {
    let pinned = pinned(name, line)?;
    let python = interpreter::active(session, Question::Identity)?;
    let request = Request { part: pinned.wheel, why: "headers to compile against" };
    let stored = fetch::obtain(session, &python, Target::Machine, &[request])?.into_iter().next();
    let (files, id) = stored.map(|stored| (stored.files, stored.id)).unwrap_or_default();
    let include = pinned.include.iter().map(|folder| files.join(folder)).collect();
    Ok(Headers { version: pinned.version, include, id })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_parses_and_knows_its_names() {
        assert!(versions("cutlass").contains(&"3.8".to_owned()));
        assert!(pinned(TVM_FFI, "0.1").unwrap().wheel.holds("tvm_ffi/include/tvm/ffi/c_api.h"));
        let missing = pinned("cutlass", "2.10").unwrap_err().to_string();
        assert!(missing.contains("cutlass 2.10") && missing.contains("3.8"), "{missing}");
    }
}
