//! Runs small calls of the kernel under compute-sanitizer, where it is asked for.
//!
//! Owns: which calls are made under it, and what its report means for the verdict. Never: reads the report itself.

use std::path::Path;
use std::time::Duration;

use kernel_plan::spec::op::{Device, Purpose};
use serde_json::json;

use super::super::evidence::{CheckResult, Outcome};
use super::super::sanitize::{self, FOUND, TOOLS};
use super::super::schedule::{self, ScheduledCase, TensorSpec};
use super::super::stage::Stage;
use super::super::{NO_GPU, NOT_LOADED, Subject, VerifyError};
use crate::base::files;
use crate::base::process::{Ending, Limits};
use crate::protocol::verify::Job;

/// Of a finding.
const CODE: &str = "verify::sanitizer";
/// The smallest cases that have elements, this many: a tool slows a kernel down a hundred times.
const CASES: usize = 3;
/// How long all calls under one tool may take.
pub(in crate::verify) const WALL: Duration = Duration::from_secs(600);

/// A result for each tool; nothing where none was asked for.
pub(crate) fn check(subject: &mut Subject<'_>) -> Result<Vec<CheckResult>, VerifyError> {
    if !subject.options.sanitize {
        return Ok(vec![]);
    }
    let skipped = |code: &str, summary: &str| Ok(skipped(code, summary));
    let (Some(op), Some(python)) = (subject.op, subject.python) else {
        return skipped(
            "verify::no_op",
            "no op.toml, or no Python with torch: nothing was called under compute-sanitizer",
        );
    };
    if subject.artifact.backend != "cuda" {
        return skipped("verify::no_device", "compute-sanitizer checks only CUDA kernels");
    }
    let Some(loaded) = subject.loaded.as_ref().filter(|loaded| loaded.has_function) else {
        return skipped(NOT_LOADED, "the package was not loaded, so it was not called");
    };
    if !loaded.cuda_available {
        return skipped(NO_GPU, "no NVIDIA GPU here: nothing was called under compute-sanitizer");
    }
    let Some(program) = sanitize::find() else {
        return Ok(not_installed());
    };
    let mut cases = small(&schedule::schedule(op, &op.cases(Purpose::Verify, Device::Cuda)));
    for (place, case) in cases.iter_mut().enumerate() {
        case.place = place;
    }
    if cases.is_empty() {
        return skipped(
            "verify::no_workload",
            "op.toml has no workload with elements to verify on this device",
        );
    }
    let options = subject.options;
    let Some(reference) = subject.reference else { return Ok(vec![]) };
    let stage = Stage::new(python, op, reference.clone(), Device::Cuda, options.threads, options.seed)?;
    let job = Job::Candidate(stage.candidate_job(&subject.artifact.dir, &subject.artifact.id, &cases));
    let (results, _) = stage.beside_oracle(&cases, || {
        TOOLS.iter().map(|tool| under(&stage, &job, &program, tool)).collect::<Result<Vec<_>, _>>()
    })?;
    Ok(results)
}

/// Why nothing was called under it.
pub(in crate::verify) fn skipped(code: &str, summary: &str) -> Vec<CheckResult> {
    vec![CheckResult::new("sanitizer", code, Outcome::Skipped, summary, json!({}))]
}

/// The result where there is no such tool.
pub(in crate::verify) fn not_installed() -> Vec<CheckResult> {
    let text = "compute-sanitizer not found on PATH, in CUDA_HOME/bin or in /usr/local/cuda/bin; it comes with the CUDA toolkit";
    skipped("verify::no_sanitizer", text)
}

/// The smallest cases, each with its first call.
pub(in crate::verify) fn small(schedule: &[ScheduledCase]) -> Vec<ScheduledCase> {
    let elements = |case: &ScheduledCase| case.outputs.iter().map(TensorSpec::elements).sum::<usize>();
    let mut cases: Vec<ScheduledCase> = schedule.iter().filter(|case| elements(case) > 0).cloned().collect();
    cases.sort_by_key(elements);
    cases.truncate(CASES);
    for case in &mut cases {
        case.sets.truncate(1);
        case.trials.truncate(1);
    }
    cases
}

fn under(stage: &Stage<'_>, job: &Job, program: &Path, tool: &str) -> Result<CheckResult, VerifyError> {
    let log = stage.path(&format!("{tool}.log"));
    let wrap = |line| sanitize::wrapped(line, program, tool, &log);
    let ended = stage.play_in(job.clone(), Limits::wall(WALL), Some(&wrap), &mut |_| {})?;
    let text = files::read_text(&log).unwrap_or_default();
    Ok(verdict(tool, &text, ended.process.ending, ended.done))
}

/// What a report and the end of the process mean.
pub(in crate::verify) fn verdict(tool: &str, report: &str, ending: Ending, done: bool) -> CheckResult {
    let report = sanitize::parse(report);
    let result = |outcome, code: &str, summary: String| {
        let facts = json!({ "tool": tool, "errors": report.errors, "ending": ending.to_string() });
        CheckResult::new(tool, code, outcome, summary, facts)
    };
    match (&report.first, &report.failed) {
        (Some(first), _) => {
            let more = match report.errors {
                0 | 1 => String::new(),
                errors => format!("; {} more errors", errors - 1),
            };
            result(Outcome::Refused, CODE, format!("{first}{more}"))
        }
        (None, Some(failed)) => result(
            Outcome::Skipped,
            "verify::no_sanitizer",
            format!("compute-sanitizer does not work here: {failed}"),
        ),
        (None, None) if ending == Ending::Exit(FOUND) || report.errors > 0 => result(
            Outcome::Refused,
            CODE,
            format!("compute-sanitizer counts {} errors and names none", report.errors),
        ),
        (None, None) if done => result(Outcome::Passed, CODE, "nothing found in small calls".to_owned()),
        (None, None) => result(
            Outcome::Skipped,
            "verify::no_sanitizer",
            format!("the process under compute-sanitizer {ending} before all calls were made"),
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(report: &str, ending: Ending, done: bool, wanted: (Outcome, &str, &str)) {
        let result = verdict("memcheck", report, ending, done);
        assert_eq!((result.outcome, result.code.as_str()), (wanted.0, wanted.1), "{result:?}");
        assert!(result.summary.contains(wanted.2), "{result:?}");
    }

    #[test]
    fn a_finding_refuses_and_a_tool_that_fails_does_not() {
        let found = "========= Invalid __shared__ read of size 8 bytes\n=========     at f(int)+0x10\n========= ERROR SUMMARY: 3 errors\n";
        check(found, Ending::Exit(FOUND), true, (Outcome::Refused, CODE, "in f(int)+0x10; 2 more errors"));
        check("", Ending::Exit(FOUND), true, (Outcome::Refused, CODE, "names none"));
        check(
            "========= ERROR SUMMARY: 0 errors\n",
            Ending::Exit(0),
            true,
            (Outcome::Passed, CODE, "nothing found"),
        );
        let failed = "========= Internal Sanitizer Error: no driver\n";
        check(failed, Ending::Exit(1), false, (Outcome::Skipped, "verify::no_sanitizer", "no driver"));
        check("", Ending::Deadline, false, (Outcome::Skipped, "verify::no_sanitizer", "deadline"));
    }
}
