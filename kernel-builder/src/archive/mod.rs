//! Keeps every measurement: one JSON line each, only ever appended, in `.kernelwright/records.jsonl` of the project.
//!
//! Owns: the file, the questions "was this measured already" and "which records are meant", and a record's name.
//! Never: changes a line; an index, if one is wanted, is derived from the lines.

#[cfg(test)]
pub(crate) mod old_records;
mod unfinished;

use std::path::{Path, PathBuf};

use miette::Diagnostic;
use thiserror::Error;

use crate::base::causes::Cause;
use crate::base::digest::Digest;
use crate::base::files::{self, FileError};
use crate::base::input;
use crate::base::process::ProcessError;
use crate::bench::Measurement;
use crate::exit::{self, StageError};

pub use unfinished::{Earlier, Unfinished};

/// A record that could not be kept, or cannot be had.
#[derive(Debug, Error, Diagnostic)]
pub enum ArchiveError {
    /// It could not be written.
    #[error("the measurement could not be recorded")]
    #[diagnostic(
        code(archive::record),
        help("the figures were printed; make the project's folder writable to keep them")
    )]
    Unkept {
        /// What the system said.
        #[source]
        cause: FileError,
    },
    /// Nothing is there under this name.
    #[error("`{name}` not found: there is no such file, and no digest in {} begins with it", archive.display())]
    #[diagnostic(
        code(archive::no_record),
        help(
            "name a file with one JSON line a record, `-` for standard input, or the first eight digits or more of a \
             record's digest or of an artifact's"
        )
    )]
    Unknown {
        /// What was asked for.
        name: String,
        /// Where it was looked for.
        archive: PathBuf,
    },
    /// A line is no record.
    #[error("line {line} of `{name}` is not a record")]
    #[diagnostic(
        code(archive::bad_record),
        help(
            "docs/reference/records.md says what a line holds; this program writes them to .kernelwright/records.jsonl"
        )
    )]
    Unreadable {
        /// Where it stands.
        name: String,
        /// Which one, from one.
        line: usize,
        /// What is wrong.
        #[source]
        cause: Cause,
    },
    /// Records of models, and others.
    #[error("`{model}` has records of models, and `{other}` has records of kernels")]
    #[diagnostic(
        code(archive::two_kinds),
        help("write a page of each kind, such as `kernelwright report {model} -o models.html`")
    )]
    TwoKinds {
        /// The argument with records of models.
        model: String,
        /// An argument with other records.
        other: String,
    },
    /// Ctrl-C while standard input was read.
    #[error(transparent)]
    #[diagnostic(transparent)]
    Process(#[from] ProcessError),
    /// There is no line at all.
    #[error("`{name}` has no record")]
    #[diagnostic(code(archive::empty), help("`kernelwright bench` makes records"))]
    Empty {
        /// What was read.
        name: String,
    },
}

impl StageError for ArchiveError {
    fn exit(&self) -> u8 {
        match self {
            Self::Process(error) => error.exit(),
            _ => exit::ARCHIVE,
        }
    }
}

/// Where the records of a project are.
pub fn records_path(project: &Path) -> PathBuf {
    project.join(".kernelwright/records.jsonl")
}

/// Appends one line a measurement. One whose samples say nothing well enough is not a result, and is not recorded: it would
/// hide an earlier one.
pub fn record(project: &Path, measurements: &[Measurement]) -> Result<(), ArchiveError> {
    let says_something = |one: &&Measurement| {
        one.contender("kernel").is_none() || Measurement::clone(one).settled().has_results()
    };
    for measurement in measurements.iter().filter(says_something) {
        files::append_line(&records_path(project), &line(measurement))
            .map_err(|cause| ArchiveError::Unkept { cause })?;
    }
    Ok(())
}

fn line(measurement: &Measurement) -> String {
    serde_json::to_string(measurement).unwrap_or_default()
}

/// Every record that can be read, oldest first; lines of other versions or cut short by a crash are passed over.
pub fn records(project: &Path) -> Vec<Measurement> {
    named(project).into_iter().map(|(_, record)| record).collect()
}

/// As [`records`], each with its name: the digest of its line.
fn named(project: &Path) -> Vec<(Digest, Measurement)> {
    let text = files::read_text(&records_path(project)).unwrap_or_default();
    let read = |line: &str| {
        let record: Measurement = serde_json::from_str(line).ok()?;
        Some((Digest::blake3(line.as_bytes()), record.settled()))
    };
    text.lines().filter_map(read).collect()
}

/// The records that a person means: of a file, of standard input (`-`), or those of the project's archive whose digest,
/// or whose artifact's, begins like this.
pub fn find(name: &str, project: &Path) -> Result<Vec<Measurement>, ArchiveError> {
    let unreadable = |cause: std::io::Error| ArchiveError::Unreadable {
        name: name.to_owned(),
        line: 1,
        cause: cause.into(),
    };
    let path = Path::new(name);
    if name == "-" {
        return match input::text() {
            Ok(text) => read(name, &text),
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {
                Err(ProcessError::Interrupted.into())
            }
            Err(error) => Err(unreadable(error)),
        };
    }
    if files::exists(path) && !files::is_dir(path) {
        return read(name, &files::read_text_of_any(path).map_err(|error| unreadable(error.cause))?);
    }
    let begins = |digest: &Digest| digest.to_string().starts_with(&name.to_lowercase());
    let archived =
        named(project).into_iter().filter(|(digest, record)| begins(digest) || begins(&record.artifact));
    let found: Vec<_> = archived.map(|(_, record)| record).collect();
    if name.len() < 8 || found.is_empty() {
        return Err(ArchiveError::Unknown { name: name.to_owned(), archive: records_path(project) });
    }
    Ok(found)
}

/// The records in a text, one a line; empty lines are passed over.
fn read(name: &str, text: &str) -> Result<Vec<Measurement>, ArchiveError> {
    let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    let records: Vec<Measurement> = lines
        .map(|(at, line)| {
            let read = serde_json::from_str(line).map(Measurement::settled);
            read.map_err(|error| ArchiveError::Unreadable {
                name: name.to_owned(),
                line: at + 1,
                cause: error.into(),
            })
        })
        .collect::<Result<_, _>>()?;
    if records.is_empty() { Err(ArchiveError::Empty { name: name.to_owned() }) } else { Ok(records) }
}

/// The newest record of each (workload, dtype, regime, device) of one artifact, in the order of first sight. Drawn cases are
/// left out: no project names them.
pub fn latest(project: &Path, artifact: &Digest) -> Vec<Measurement> {
    latest_named(project, artifact).into_iter().map(|(_, record)| record).collect()
}

/// As [`latest`], each with its name.
pub fn latest_named(project: &Path, artifact: &Digest) -> Vec<(Digest, Measurement)> {
    let mut found: Vec<(Digest, Measurement)> = Vec::new();
    let is_of_workload = |record: &Measurement| record.artifact == *artifact && record.drawn.is_none();
    for (name, record) in named(project).into_iter().filter(|(_, record)| is_of_workload(record)) {
        let same = |(_, other): &(Digest, Measurement)| {
            (&other.workload, &other.dtype, &other.regime, &other.device)
                == (&record.workload, &record.dtype, &record.regime, &record.device)
        };
        match found.iter().position(same) {
            Some(at) if hides(&record, &found[at].1) => {}
            Some(at) => found[at] = (name, record),
            None => found.push((name, record)),
        }
    }
    found
}

/// Whether a newer record would take a figure away: it sampled one that it does not know, and the older record knows it.
fn hides(newer: &Measurement, older: &Measurement) -> bool {
    newer.unmeasured.iter().any(|one| match one.figure.strip_prefix("vs ") {
        Some(rival) => older.versus(rival).is_some(),
        None => one.figure == "time" && older.time().is_some(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::archive::old_records::old_record;

    fn kept() -> &'static str {
        old_record("2026-11-21-h200-rms-norm.jsonl")
    }

    #[test]
    fn a_record_is_found_by_its_name() {
        let folder = files::scratch().unwrap();
        let project = folder.path();
        files::write(&records_path(project), kept()).unwrap();
        let first = kept().lines().next().unwrap();
        let digest = Digest::blake3(first.as_bytes()).short(12);
        let found = find(&digest.to_uppercase(), project).unwrap();
        assert_eq!((found.len(), found[0].workload.as_str()), (1, "video-1024x2048"));
        // An artifact's digest means all of its records.
        assert_eq!(find("7ab2567cf603", project).unwrap().len(), kept().lines().count());
        for unknown in ["7ab256", "0000000000", "gone.jsonl"] {
            assert!(matches!(find(unknown, project), Err(ArchiveError::Unknown { .. })), "{unknown}");
        }
    }

    #[test]
    fn a_file_of_records_is_read_or_refused_by_line() {
        let folder = files::scratch().unwrap();
        let path = folder.path().join("records.jsonl");
        let ask = |text: &str| {
            files::write(&path, text).unwrap();
            find(&path.display().to_string(), folder.path())
        };
        let first = kept().lines().next().unwrap();
        assert_eq!(ask(&format!("\n{first}\n\n")).unwrap().len(), 1);
        assert!(matches!(ask(&format!("{first}\n{{}}\n")), Err(ArchiveError::Unreadable { line: 2, .. })));
        assert!(matches!(ask("\n"), Err(ArchiveError::Empty { .. })));
    }

    #[test]
    fn what_is_recorded_has_the_name_of_its_line() {
        let folder = files::scratch().unwrap();
        let read: Measurement = serde_json::from_str(kept().lines().next().unwrap()).unwrap();
        record(folder.path(), std::slice::from_ref(&read)).unwrap();
        let (name, _) = latest_named(folder.path(), &read.artifact).remove(0);
        assert_eq!(find(&name.short(16), folder.path()).unwrap().len(), 1);
    }

    #[test]
    fn what_is_no_result_is_not_recorded_as_one_nor_read_as_one() {
        let folder = files::scratch().unwrap();
        let project = folder.path();
        let mut read: Measurement = serde_json::from_str(kept().lines().next().unwrap()).unwrap();
        let versus = read.ratios[0].versus.clone();
        (read.ratios[0].ratio, read.ratios[0].low, read.ratios[0].high) = (324.0, 9.0, 672.0);
        // As an earlier version recorded it.
        files::append_line(&records_path(project), &line(&read)).unwrap();
        let found = latest(project, &read.artifact).remove(0);
        assert!(found.versus(&versus).is_none() && found.unmeasured_versus(&versus).is_some());
        assert_eq!(found.ratios.len(), read.ratios.len() - 1);
        // A newer measurement that says nothing does not hide it.
        let mut nothing = read.clone();
        for contender in &mut nothing.contenders {
            contender.samples.truncate(3);
        }
        record(project, &[nothing]).unwrap();
        assert_eq!(records(project).len(), 1);
        record(project, &[read]).unwrap();
        assert_eq!(records(project).len(), 2);
    }

    #[test]
    fn drawn_cases_are_kept_but_are_not_those_of_a_project() {
        let folder = files::scratch().unwrap();
        let good: Measurement = serde_json::from_str(kept().lines().next().unwrap()).unwrap();
        let drawn = Measurement { drawn: Some(7), workload: "drawn-7-3x4097".to_owned(), ..good.clone() };
        record(folder.path(), &[good.clone(), drawn]).unwrap();
        assert_eq!(records(folder.path()).iter().map(|one| one.drawn).collect::<Vec<_>>(), [None, Some(7)]);
        let found = latest(folder.path(), &good.artifact);
        assert_eq!(found.iter().map(|one| &one.workload).collect::<Vec<_>>(), [&good.workload]);
    }

    #[test]
    fn a_noisy_run_takes_no_earlier_figure_away() {
        let folder = files::scratch().unwrap();
        let project = folder.path();
        let good: Measurement = serde_json::from_str(kept().lines().next().unwrap()).unwrap();
        let mut noisy = good.clone();
        (noisy.ratios[0].low, noisy.ratios[0].high) = (0.1, 90.0);
        record(project, &[good.clone(), noisy.clone()]).unwrap();
        assert_eq!(records(project).len(), 2);
        assert_eq!(latest(project, &good.artifact).remove(0).ratios, good.ratios);
        // The other way round the newer record is used.
        record(project, std::slice::from_ref(&good)).unwrap();
        assert_eq!(latest(project, &good.artifact).remove(0).ratios, good.ratios);
    }
}
