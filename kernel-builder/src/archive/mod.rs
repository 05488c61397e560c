//! Keeps every measurement: one JSON line each, only ever appended, in `.kernelwright/records.jsonl` of the project.
//!
//! Owns: the file and the question "was this measured already".
//! Never: changes a line; an index, if one is wanted, is derived from the lines.

use std::path::{Path, PathBuf};

use miette::Diagnostic;
use thiserror::Error;

use crate::base::digest::Digest;
use crate::base::files::{self, FileError};
use crate::bench::Measurement;
use crate::exit::{self, StageError};

/// A record that could not be kept.
#[derive(Debug, Error, Diagnostic)]
#[error("the measurement could not be recorded: {cause}")]
#[diagnostic(
    code(archive::record),
    help("the figures were printed; make the project's folder writable to keep them")
)]
pub struct ArchiveError {
    #[source]
    cause: FileError,
}

impl StageError for ArchiveError {
    fn exit(&self) -> u8 {
        exit::ARCHIVE
    }
}

/// Where the records of a project are.
pub fn records_path(project: &Path) -> PathBuf {
    project.join(".kernelwright/records.jsonl")
}

/// Appends one line a measurement.
pub fn record(project: &Path, measurements: &[Measurement]) -> Result<(), ArchiveError> {
    for measurement in measurements {
        let line = serde_json::to_string(measurement).unwrap_or_default();
        files::append_line(&records_path(project), &line).map_err(|cause| ArchiveError { cause })?;
    }
    Ok(())
}

/// Every record that can be read, oldest first; lines of other versions or cut short by a crash are passed over.
pub fn records(project: &Path) -> Vec<Measurement> {
    let text = files::read_text(&records_path(project)).unwrap_or_default();
    text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
}

/// The newest record of each (workload, dtype, regime, device) of one artifact, in the order of first sight.
pub fn latest(project: &Path, artifact: &Digest) -> Vec<Measurement> {
    let mut found: Vec<Measurement> = Vec::new();
    for record in records(project) {
        if record.artifact != *artifact {
            continue;
        }
        let same = |other: &Measurement| {
            (&other.workload, &other.dtype, &other.regime, &other.device)
                == (&record.workload, &record.dtype, &record.regime, &record.device)
        };
        match found.iter().position(same) {
            Some(at) => found[at] = record,
            None => found.push(record),
        }
    }
    found
}
