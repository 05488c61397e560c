//! The candidates of a screening: settings of `[tune]`, or the lines of a file.
//!
//! Owns: what a line may say. Never: compiles or judges one.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use kernel_plan::spec::OpSpec;
use kernel_plan::spec::expr::{Bindings, Value};
use kernel_plan::spec::op::Case;
use kernel_plan::spec::tune::{Tune, Tuning};
use miette::Diagnostic;
use serde::Deserialize;
use tempfile::TempDir;
use thiserror::Error;

use crate::agent::kernel::KernelRefusal;
use crate::agent::tuned::TuningChoice;
use crate::agent::tuner::drawn::{DrawSize, Drawn, drawn};
use crate::agent::tuner::prune::{PruneReason, Reason};
use crate::agent::tuner::space::Space;
use crate::base::causes::Cause;
use crate::base::env;
use crate::base::files::{self, UnfollowedFile};
use crate::compile::nvrtc::Source;
use crate::exit::{self, Failure, StageError};
use crate::pipeline::project::device::DeviceProject;
use crate::pipeline::project::kernel;
use crate::verify::lab::{Attempt, CandidateRefusal};

use super::screening::Coded;

/// Bytes of the longest source that a line may name.
const LONGEST: u64 = 8 << 20;
/// What a candidate with a schedule of its own has where its line names no value.
const OWN_DEFAULTS: &str = "the defaults of its own [tune]";

/// What stops screening.
#[derive(Debug, Error, Diagnostic)]
pub(super) enum ScreenError {
    #[error("line {line} of the candidates is not valid")]
    #[diagnostic(
        code(bench::candidate),
        help(
            "a line is a JSON object with `tuning` (values of tunables in op.toml) and `source` (a file) or `dir` (a folder \
             with the layout of the project)"
        )
    )]
    Line {
        line: usize,
        #[source]
        cause: Cause,
    },
    #[error("[tune] has too many settings to screen all of them")]
    #[diagnostic(
        code(bench::candidate),
        help(
            "screen a sample with `--limit N`, or write candidates to a file and pass it with `--candidates`"
        )
    )]
    TooMany,
}

impl StageError for ScreenError {
    fn exit(&self) -> u8 {
        exit::BENCH
    }
}

/// One candidate.
pub(crate) struct Candidate {
    /// Its tunables.
    pub(crate) tuning: Tuning,
    /// Its code, or why it is refused before it is compiled.
    pub(crate) code: Attempt<Coded>,
    /// Its source or folder as it was named, where it is not the project's.
    pub(crate) file: Option<String>,
    /// Where the tunables come from that it does not name; nothing for one that names all.
    pub(crate) base: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Line {
    #[serde(default)]
    tuning: serde_json::Map<String, serde_json::Value>,
    source: Option<PathBuf>,
    dir: Option<PathBuf>,
}

/// The candidates that lines of a text name, and the folders that hold the code of those with `dir`.
pub(super) struct Lines<'a> {
    project: &'a DeviceProject,
    case: &'a Case,
    own: Arc<Source>,
    folder: TempDir,
}

impl<'a> Lines<'a> {
    pub(super) fn new(project: &'a DeviceProject, case: &'a Case) -> Result<Self, Failure> {
        let own = Arc::new(project.source.clone());
        Ok(Self { project, case, own, folder: files::scratch()? })
    }

    /// Every candidate, in the order of the lines.
    ///
    /// # Errors
    /// A line that is no candidate. A folder that is none is refused by itself.
    pub(super) fn read(&self, text: &str) -> Result<Vec<Candidate>, Failure> {
        let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
        lines.map(|(number, line)| self.candidate(number, line)).collect()
    }

    fn candidate(&self, number: usize, line: &str) -> Result<Candidate, Failure> {
        let not_a_candidate = |cause: Cause| Failure::from(ScreenError::Line { line: number + 1, cause });
        let wrong = |problem: String| not_a_candidate(problem.into());
        let read: Line = serde_json::from_str(line).map_err(|error| not_a_candidate(error.into()))?;
        let op = &self.project.op;
        // What a line does not name is as the project has it for this workload.
        let TuningChoice { tuning: base, from } = self.project.settings.choose(op, self.case);
        let tuned = |tune: &Tune, base: &Tuning| with(tune, base, &read.tuning, self.case).map_err(wrong);
        match (&read.source, &read.dir) {
            (Some(_), Some(_)) => Err(wrong("it has both `source` and `dir`".to_owned())),
            (None, None) => {
                let code = Ok(Coded::new(&self.own));
                Ok(Candidate { tuning: tuned(&op.tune, &base)?, code, file: None, base: Some(from) })
            }
            (Some(file), None) => {
                let mut other = self.project.source.clone();
                other.text = source_text(file)?.map_err(wrong)?;
                other.name = file.display().to_string();
                other.include.extend(env::absolute(file).parent().map(Path::to_owned));
                let (code, name) = (Ok(Coded::new(&Arc::new(other))), file.display().to_string());
                Ok(Candidate { tuning: tuned(&op.tune, &base)?, code, file: Some(name), base: Some(from) })
            }
            (None, Some(dir)) => {
                let file = Some(dir.display().to_string());
                let Some(origin) = kernel::origin(self.project)? else {
                    return Err(wrong("op.toml has no [launch]".to_owned()));
                };
                if !files::is_dir(dir) {
                    return Err(wrong(format!("`{}` is not a folder", dir.display())));
                }
                let proposed = match kernel::read(dir, &origin)? {
                    Ok(proposed) => proposed,
                    Err(refused) => return Ok(Candidate::refused(refused, file)),
                };
                let source = kernel::lay_out(&proposed, &self.folder.path().join(number.to_string()))?;
                let tune = &proposed.op.tune;
                let tuning = tuned(tune, &tune.default_tuning())?;
                let launch = proposed.op.launch.map(Arc::new);
                let code = Ok(Coded { source: Arc::new(source), launch });
                Ok(Candidate { tuning, code, file, base: Some(OWN_DEFAULTS.to_owned()) })
            }
        }
    }
}

impl Candidate {
    fn refused(refused: KernelRefusal, file: Option<String>) -> Self {
        let complaint = CandidateRefusal { code: refused.code, text: refused.text };
        Self { tuning: Tuning::new(), code: Err(complaint), file, base: None }
    }
}

/// The text of a file that a line names. A link could lead to any file of the user, and the compiler quotes what it reads.
fn source_text(file: &Path) -> Result<Result<String, String>, Failure> {
    let name = file.display();
    Ok(match files::read_alone(file, LONGEST)? {
        UnfollowedFile::Bytes(bytes) => {
            String::from_utf8(bytes).map_err(|_| format!("`{name}` is not UTF-8 text"))
        }
        UnfollowedFile::Link => Err(format!("`{name}` is a link; name the file itself")),
        UnfollowedFile::Irregular => Err(format!("`{name}` is not a regular file")),
        UnfollowedFile::TooLong => Err(format!("`{name}` is longer than {LONGEST} bytes")),
    })
}

/// A setting with some values in the place of others.
///
/// # Errors
/// A name or a value that `[tune]` does not have, or a constraint that does not hold.
pub(crate) fn with(
    tune: &Tune,
    base: &Tuning,
    given: &serde_json::Map<String, serde_json::Value>,
    case: &Case,
) -> Result<Tuning, String> {
    let mut tuning = base.clone();
    for (name, value) in given {
        let known = tuning.iter_mut().find(|(known, _)| known.as_str() == name);
        let (_, place) = known.ok_or_else(|| format!("`{name}` is not a tunable of op.toml"))?;
        let given = match (value.as_i64(), value.as_bool()) {
            (Some(number), _) => Value::Integer(number),
            (_, Some(truth)) => Value::Boolean(truth),
            _ => return Err(format!("`{name}` is not an integer or a boolean")),
        };
        let choice = tune.tunables.iter().find(|tunable| tunable.name.value.as_str() == name);
        if choice.is_some_and(|tunable| !tunable.values.contains(&given)) {
            return Err(format!("{given} is not one of the values that op.toml lists for `{name}`"));
        }
        *place = given;
    }
    if !tune.admits(&Bindings::new(case, &tuning)).unwrap_or_default() {
        return Err("the values violate a constraint of [tune] for this workload".to_owned());
    }
    Ok(tuning)
}

/// The settings of `[tune]` as candidates, and of how many they are a sample.
pub(super) fn of_tune(
    project: &DeviceProject,
    case: &Case,
    amount: DrawSize,
    seed: u64,
) -> Result<(Vec<Candidate>, Option<String>), ScreenError> {
    let own = Arc::new(project.source.clone());
    let own_candidate = |tuning| Candidate { tuning, code: Ok(Coded::new(&own)), file: None, base: None };
    let Drawn { settings, of } = settings(&project.op, case, amount, seed)?;
    Ok((settings.into_iter().map(own_candidate).collect(), of.map(|of| of.to_string())))
}

/// Settings that the constraints admit for a case, the last tunable changing fastest.
fn settings(op: &OpSpec, case: &Case, amount: DrawSize, seed: u64) -> Result<Drawn, ScreenError> {
    let admit = |tuning: &Tuning| match op.tune.admits(&Bindings::new(case, tuning)) {
        Ok(true) => Ok(()),
        _ => Err(PruneReason { reason: Reason::Constraint, text: String::new() }),
    };
    let mut space = Space::new(&op.tune.tunables, Box::new(admit));
    drawn(&mut space, &op.tune.default_tuning(), amount, seed).ok_or(ScreenError::TooMany)
}

#[cfg(test)]
mod tests {
    use super::*;
    use kernel_plan::diagnostic::SourceFile;

    #[test]
    fn every_setting_that_is_admitted_is_a_candidate() {
        let text = include_str!("../../../../examples/rms-norm-device/op.toml");
        let (op, problems) = kernel_plan::spec::parse_op(SourceFile::new("op.toml", text));
        assert!(problems.is_empty(), "{problems:?}");
        let op = op.unwrap();
        let case = super::super::screening::cases(&op, Some("llm-4096x4096")).unwrap().remove(0);
        let all = settings(&op, &case, DrawSize::AtMost(1000), 0).unwrap();
        assert_eq!((all.settings.len(), all.of), (16 * 3 * 4 * 2 * 2, None));
        assert!(all.settings.contains(&op.tune.default_tuning()));
    }
}
