//! What a run has measured so far, one line a case, until it is over: then it goes to the records.
//!
//! Owns: `.kernelwright/unfinished/`. Never: lets figures of a kernel that was refused become records: a kernel that lies in
//! its last case is not believed in its first.

use std::path::{Path, PathBuf};

use super::{ArchiveError, record};
use crate::base::digest::Digest;
use crate::base::files::{self, FileError};
use crate::bench::{Measurement, MeasurementStore};

/// What becomes of a run of the same kind that was interrupted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Earlier {
    /// It goes on after the cases that it measured.
    Resume,
    /// They are measured again.
    Forget,
}

/// A run that is not over.
#[derive(Debug)]
pub struct Unfinished {
    project: PathBuf,
    path: PathBuf,
    /// By case, those of an interrupted run first.
    cases: Vec<Measurement>,
}

impl Unfinished {
    /// Begins a run, or goes on with one of the same `kind`: the digest of all that figures depend on and a project knows.
    ///
    /// # Errors
    /// What is to be forgotten cannot be removed.
    pub fn begin(project: &Path, kind: &Digest, earlier: Earlier) -> Result<Self, ArchiveError> {
        let path = project.join(".kernelwright/unfinished").join(format!("{}.jsonl", kind.short(16)));
        let mut run = Self { project: project.to_owned(), path, cases: Vec::new() };
        match earlier {
            Earlier::Forget => run.discard()?,
            Earlier::Resume => {
                let text = files::read_text(&run.path).unwrap_or_default();
                // A case whose line was cut short is measured again.
                let read = |line: &str| serde_json::from_str::<Vec<Measurement>>(line).ok();
                run.cases = text.lines().filter_map(read).flatten().collect();
                if !text.is_empty() && !text.ends_with('\n') {
                    // What is kept next shall not become a part of it.
                    files::append_line(&run.path, "").map_err(unkept)?;
                }
            }
        }
        Ok(run)
    }

    /// How many measurements are kept.
    pub fn count(&self) -> usize {
        self.cases.len()
    }

    /// Records what the run measured, as whoever ran it completed it. Cases that it did not ask for stay for one that does.
    ///
    /// # Errors
    /// A file cannot be written.
    pub fn finish(self, measured: &[Measurement]) -> Result<(), ArchiveError> {
        record(&self.project, measured)?;
        let of = |one: &Measurement| (one.workload.clone(), one.dtype.clone(), one.axes.clone());
        let (asked, mut left) = (measured.iter().map(of).collect::<Vec<_>>(), self.cases);
        left.retain(|one| !asked.contains(&of(one)));
        match left.is_empty() {
            true => remove(&self.path),
            false => files::write(&self.path, format!("{}\n", line(&left))).map_err(unkept),
        }
    }

    /// Forgets all of it.
    ///
    /// # Errors
    /// The file cannot be removed.
    pub fn discard(&mut self) -> Result<(), ArchiveError> {
        self.cases.clear();
        remove(&self.path)
    }
}

impl MeasurementStore for Unfinished {
    fn earlier_measurements(&self) -> &[Measurement] {
        &self.cases
    }

    fn keep(&mut self, case: &[Measurement]) -> Result<(), FileError> {
        self.cases.extend_from_slice(case);
        files::append_line(&self.path, &line(case))
    }
}

fn line(measurements: &[Measurement]) -> String {
    serde_json::to_string(measurements).unwrap_or_default()
}

fn remove(path: &Path) -> Result<(), ArchiveError> {
    if files::exists(path) { files::remove_file(path).map_err(unkept) } else { Ok(()) }
}

fn unkept(cause: FileError) -> ArchiveError {
    ArchiveError::Unkept { cause }
}

#[cfg(test)]
mod tests {
    use super::super::records;
    use super::*;
    use crate::archive::old_records::old_record;

    fn kept() -> &'static str {
        old_record("2026-11-21-h200-rms-norm.jsonl")
    }

    /// Three measurements of different workloads.
    fn some() -> Vec<Measurement> {
        let mut read = kept().lines().map(|line| serde_json::from_str::<Measurement>(line).unwrap());
        let first = read.next().unwrap();
        let named = |name: &str| Measurement { workload: name.to_owned(), ..first.clone() };
        vec![named("one"), named("two"), named("three")]
    }

    fn begin(project: &Path, earlier: Earlier) -> Unfinished {
        Unfinished::begin(project, &Digest::blake3(b"kind"), earlier).unwrap()
    }

    #[test]
    fn what_was_kept_is_known_to_the_next_run_and_recorded_at_its_end() {
        let folder = files::scratch().unwrap();
        let (project, all) = (folder.path(), some());
        let mut run = begin(project, Earlier::Resume);
        run.keep(&all[..1]).unwrap();
        run.keep(&all[1..2]).unwrap();
        drop(run);
        assert!(records(project).is_empty(), "no run is over");
        // A process that is killed may leave half a line.
        let path = begin(project, Earlier::Resume).path;
        let text = files::read_text(&path).unwrap();
        files::write(&path, format!("{text}[{{\"protocol\": 2, \"artif")).unwrap();
        let other = Unfinished::begin(project, &Digest::blake3(b"other"), Earlier::Resume).unwrap();
        assert_eq!(other.count(), 0);
        let mut run = begin(project, Earlier::Resume);
        assert_eq!(run.earlier_measurements(), &all[..2]);
        run.keep(&all[2..]).unwrap();
        drop(run);
        let run = begin(project, Earlier::Resume);
        assert_eq!(run.earlier_measurements(), all);
        run.finish(&all[1..]).unwrap();
        assert_eq!(records(project), &all[1..]);
        let rest = begin(project, Earlier::Resume);
        assert_eq!(rest.earlier_measurements(), &all[..1], "the case that was not asked for waits");
        rest.finish(&all[..1]).unwrap();
        assert!(!files::exists(&path));
    }

    #[test]
    fn what_is_forgotten_or_refused_is_gone() {
        let folder = files::scratch().unwrap();
        let project = folder.path();
        begin(project, Earlier::Resume).keep(&some()).unwrap();
        assert_eq!(begin(project, Earlier::Forget).count(), 0);
        assert_eq!(begin(project, Earlier::Resume).count(), 0);
        let mut run = begin(project, Earlier::Resume);
        run.keep(&some()).unwrap();
        run.discard().unwrap();
        assert!(
            begin(project, Earlier::Resume).earlier_measurements().is_empty() && records(project).is_empty()
        );
    }
}
