//! Judges a task, not a kernel: what would pass that does no work, and what the workloads never ask.
//!
//! Owns: the run of the reference at many inputs, the findings and their words, the memory of earlier results.
//! Never: meets a candidate, and never refuses one: a finding is told in every result of the task.
//!
//! Wrong answers are held against the bound of the judge (`verify/bound.rs`) itself. The inputs are those of its ordinary
//! trials, several sets of them, since one set can flatter any task.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::mpsc;
use std::time::Duration;

use kernel_plan::spec::OpSpec;
use serde_json::Value;

use super::VerifyError;
use super::channel;
use super::evidence::Evidence;
use super::findings::first_few;
use super::reference::ReferenceFile;
use crate::base::digest::{Digest, DigestBuilder};
use crate::base::files;
use crate::base::files::FileError;
use crate::base::process::Limits;
use crate::base::report::ProgressKind;
use crate::base::session::Session;
use crate::protocol::verify::{Event, Job, LinterCase, LinterJob};
use crate::toolchain::PythonRuntime;

mod cases;
mod finding;
mod judge;
mod probes;
mod shapes;

use self::cases::{Linted, Role};
pub(super) use self::finding::CHECK;
pub use self::finding::{FindingCase, Lint, LintFinding};
use self::judge::{Computed, Subject};

/// Raised whenever a finding is added or judged otherwise, so that older results no longer count.
const PROTOCOL: u32 = 1;
/// The same inputs for everybody: nobody has to be kept from knowing them, and a result can be repeated.
const SEED: u64 = 0x6c69_6e74;
/// How long the reference may take for all cases.
const WALL: Duration = Duration::from_secs(900);

/// Lints a task, or recalls what was said of the same op.toml and reference.
///
/// # Errors
/// The reference fails, or its process does.
pub fn lint(
    op: &OpSpec,
    project: &Path,
    python: &PythonRuntime,
    threads: usize,
    session: &Session,
) -> Result<Lint, VerifyError> {
    lint_text(op, &ReferenceFile::read(op, project)?, python, threads, session)
}

/// The same with the text of the reference.
///
/// # Errors
/// As [`lint`].
pub(super) fn lint_text(
    op: &OpSpec,
    reference: &ReferenceFile,
    python: &PythonRuntime,
    threads: usize,
    session: &Session,
) -> Result<Lint, VerifyError> {
    let digest = reference.op_digest(op);
    if let Some(known) = recalled(digest, session) {
        return Ok(known);
    }
    let (linted, empty) = cases::choose(op);
    let progress =
        session.report.progress("linting the task", ProgressKind::Count, Some(linted.len() as u64));
    let mut findings: BTreeMap<Subject, Vec<(String, f64)>> = BTreeMap::new();
    let mut relations: BTreeMap<String, bool> = BTreeMap::new();
    let torch = compute(op, reference, python, threads, &linted, &mut |linted, computed| {
        progress.add(1);
        let found = judge::judge(linted, computed);
        for (subject, cases) in found.findings {
            findings.entry(subject).or_default().extend(cases);
        }
        for (relation, holds) in found.relations {
            *relations.entry(relation).or_insert(true) &= holds;
        }
    })?;
    let count = linted.iter().map(|linted| linted.stands_for.len()).sum();
    let mut told: Vec<LintFinding> =
        findings.into_iter().map(|(subject, cases)| worded(subject, cases, count)).collect();
    told.extend(shapes::findings(op));
    let stands_for = linted.iter().flat_map(|linted| &linted.stands_for);
    let cut = stands_for.filter_map(|case| Some((case.id.clone(), case.cut.clone()?)));
    let lint = Lint {
        op: digest,
        protocol: PROTOCOL,
        cases: count,
        empty,
        cut: cut.collect(),
        findings: told,
        relations: relations.into_iter().filter(|(_, holds)| *holds).map(|(relation, _)| relation).collect(),
        torch,
    };
    files::write(&memory(digest, session), serde_json::to_vec(&lint).unwrap_or_default())?;
    Ok(lint)
}

/// What was said of the same task, by this version of the linter.
pub fn recalled(op: Digest, session: &Session) -> Option<Lint> {
    let lint: Lint = serde_json::from_slice(&files::read(&memory(op, session)).ok()?).ok()?;
    (lint.op == op && lint.protocol == PROTOCOL).then_some(lint)
}

/// What the evidence says of the task on one workload, each finding a code and what it is about; nothing where the task
/// was not linted.
pub fn noted(evidence: &Evidence, workload: &str) -> Option<Vec<String>> {
    let mut checks = evidence.checks.iter().filter(|check| check.name == CHECK).peekable();
    checks.peek()?;
    let is_of = |near: &Value| {
        let case = near["case"].as_str().unwrap_or_default();
        case.split('/').next() == Some(workload)
    };
    let concerns = |facts: &Value| {
        let cases = facts["cases"].as_array().map_or(&[][..], Vec::as_slice);
        cases.is_empty() || cases.iter().any(is_of)
    };
    let mut findings = Vec::new();
    for check in checks {
        match check.outcome {
            super::Outcome::Skipped => return None,
            super::Outcome::Warned if concerns(&check.facts) => {
                let about = check.facts["about"].as_str().map(|about| format!(" {about}"));
                findings.push(format!("{}{}", check.code, about.unwrap_or_default()));
            }
            _ => {}
        }
    }
    Some(findings)
}

fn memory(op: Digest, session: &Session) -> std::path::PathBuf {
    let name = DigestBuilder::new("lint").field("op", op.to_string()).field("protocol", PROTOCOL.to_string());
    session.cache.join("lint").join(format!("{}.json", name.finish().short(32)))
}

/// Runs the reference on every set of every case, and hands each case over as it comes; gives torch's version.
fn compute(
    op: &OpSpec,
    reference: &ReferenceFile,
    python: &PythonRuntime,
    threads: usize,
    linted: &[Linted],
    each: &mut (dyn FnMut(&Linted, &Computed) + Send),
) -> Result<String, VerifyError> {
    let folder = files::scratch()?;
    let harness = channel::unpack(&folder.path().join("harness"))?;
    let values = folder.path().join("values");
    files::create_dirs(&values)?;
    let cases = linted.iter().map(|linted| LinterCase {
        case: linted.scheduled.for_oracle(vec![]),
        plain: linted.roles.iter().map(|role| *role == Role::Plain).collect(),
    });
    let job = Job::Linter(LinterJob {
        seed: SEED,
        threads,
        device: "cpu".to_owned(),
        reference: reference.source(),
        function: op.reference.function.to_string(),
        values_dir: values.display().to_string(),
        cases: cases.collect(),
    });
    let (mut torch, mut failed) = (String::new(), None);
    // Values are judged beside the process that computes, which is never kept waiting.
    let (done, computed) = mpsc::channel::<usize>();
    let (ended, judged) = std::thread::scope(|scope| {
        let values = &values;
        let judge = scope.spawn(move || {
            for linted in computed.iter().filter_map(|place| linted.get(place)) {
                each(linted, &take_values(values, linted)?);
            }
            Ok::<(), FileError>(())
        });
        let ended = channel::play(python, &harness, job, Limits::wall(WALL), &mut |event| match event {
            Event::Started { torch: version, .. } => torch = version,
            Event::NoReference { case, error } => {
                let case = case.and_then(|place| linted.get(place));
                let when = case
                    .map_or_else(String::new, |linted| format!("on the workload `{}`", linted.scheduled.id));
                failed.get_or_insert(VerifyError::Reference { when, exception: error });
            }
            // The judge has gone only when a file could not be read, which it says.
            Event::Computed { case } => drop(done.send(case)),
            _ => {}
        });
        drop(done);
        (ended, judge.join())
    });
    match judged {
        Ok(read) => read?,
        Err(panic) => std::panic::resume_unwind(panic),
    }
    let ended = ended?;
    match failed {
        Some(error) => Err(error),
        None if ended.complete() => Ok(torch),
        None => Err(VerifyError::Harness {
            role: "linter",
            ending: ended.process.ending.to_string(),
            output: ended.last_words(),
        }),
    }
}

/// Reads the files of one case and removes them.
fn take_values(values: &Path, linted: &Linted) -> Result<Computed, FileError> {
    let place = linted.scheduled.place;
    let mut computed = Computed { outputs: vec![], inputs: vec![] };
    for (set, role) in linted.roles.iter().enumerate() {
        let outputs = values.join(format!("{place}-{set}.bin"));
        computed.outputs.push(files::read(&outputs)?);
        files::remove_file(&outputs)?;
        if *role == Role::Plain {
            let inputs = values.join(format!("{place}-{set}.inputs.bin"));
            computed.inputs.push(files::read(&inputs)?);
            files::remove_file(&inputs)?;
        }
    }
    Ok(computed)
}

/// A finding in words. `all` is how many cases there are.
fn worded((code, about): Subject, cases: Vec<(String, f64)>, all: usize) -> LintFinding {
    let least = cases.iter().map(|(_, figure)| *figure).fold(f64::INFINITY, f64::min);
    let names: Vec<String> = cases.iter().map(|(case, _)| format!("`{case}`")).collect();
    let place = match names.len() {
        count if count == all => format!("in all {all} cases"),
        count => format!("in {count} of {all} cases ({})", first_few(&names)),
    };
    let share = match least {
        share if share >= 1.0 => "every element".to_owned(),
        share => format!("{:.1}% of the elements or more", share * 100.0),
    };
    let (summary, help) = match code {
        "lint::zeros" => (
            format!("`{about}` is so close to zero that zeros pass at {share}"),
            "choose inputs, scalars or an operation whose results differ from zero by more than the error bound",
        ),
        "lint::constant" => (
            format!("one constant passes for `{about}` at {share}, whatever the inputs are"),
            "the result hardly depends on the inputs: judge an earlier result of the chain, or other lengths",
        ),
        "lint::replay" => (
            format!("a result for other inputs passes for `{about}` at {share}"),
            "the result hardly depends on the inputs: judge an earlier result of the chain, or other lengths",
        ),
        "lint::copy" => (
            format!("a copy passes at {share}: {about}"),
            "let an input that scales or shifts decide more of the result",
        ),
        "lint::repeated" => (
            format!("one line passes for all: {about}"),
            "the result is the same along an axis: leave the axis out, or let an input differ along it",
        ),
        "lint::narrow" => (
            format!(
                "`{about}` has fewer than {:.0} values that the bound tells apart",
                least.ceil().max(2.0)
            ),
            "a guess comes close: choose inputs for which the result varies more",
        ),
        "lint::tiny" => (
            format!(
                "`{about}` deviates by {least:.1e}, so a constant passes a judge with an absolute tolerance"
            ),
            "this judge refuses the constant; scale the result before you compare it elsewhere",
        ),
        "lint::ignored_input" => (
            format!("no output changes when `{about}` is drawn anew"),
            "a kernel that ignores it passes: leave it out, or let its values matter",
        ),
        "lint::ignored_scalar" => (
            format!("no output changes with `{about}`"),
            "a kernel that ignores it passes: let a workload give it a value that matters",
        ),
        _ => (
            format!(
                "no output changes when values are reordered: {about}; the product with it is never needed"
            ),
            "the operation is less work than it seems, so skipping the product is no real gain: judge the product itself",
        ),
    };
    let cases = cases.into_iter().map(|(case, figure)| FindingCase { case, figure }).collect();
    LintFinding {
        code: code.to_owned(),
        about: Some(about),
        summary: format!("{summary}, {place}"),
        help: help.to_owned(),
        cases,
    }
}
