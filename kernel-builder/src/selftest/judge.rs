//! One fixture before the judge: this program again, in a child process.
//!
//! Owns: what the child is asked and what it may use. Never: looks at the kernel.

use std::path::Path;
use std::time::Duration;

use kernel_plan::plan::CommandLine;
use serde_json::Value;

use super::fixture::{Candidate, Fixture, JudgedBy, Ring};
use super::verdict::SelftestOutcome;
use crate::base::env;
use crate::base::process::{self, Limits, ProcessError};
use crate::base::session::Session;

/// A build from nothing, with downloads, and a judgement of every workload.
const WALL: Duration = Duration::from_secs(1800);
/// Seconds of sampling for each workload: enough calls that a kernel that counts them comes to its end. A busy machine can
/// hide every figure; then the fixture is judged again with more.
const BUDGETS: &[&str] = &["0.5", "4", "20"];

/// Builds and judges the project of a fixture.
pub(super) fn judge(
    fixture: &Fixture,
    project: &Path,
    temporary: &Path,
    threads: usize,
    session: &Session,
) -> Result<SelftestOutcome, ProcessError> {
    let mut outcome = SelftestOutcome::failed("it was not judged");
    for budget in BUDGETS {
        let output = ask(arguments(fixture, threads, budget), project, temporary, session)?;
        outcome = SelftestOutcome::read(&output.lines, output.succeeded, &output.ending);
        if !outcome.is_unmeasured() {
            break;
        }
    }
    Ok(outcome)
}

/// Judges candidates, a file of `--candidates`, one after the other in one run. One compiler, so that they come to be
/// judged in their order.
pub(super) fn screen(
    candidates: &Path,
    project: &Path,
    temporary: &Path,
    session: &Session,
) -> Result<JudgeOutput, ProcessError> {
    let words = ["screen", "--message-format", "json", "--jobs", "1", "--candidates"];
    let words = words.map(str::to_owned).into_iter().chain([candidates.display().to_string()]);
    ask(words.collect(), project, temporary, session)
}

/// What a child said, and how it ended.
pub(super) struct JudgeOutput {
    /// Its JSON lines.
    pub(super) lines: Vec<Value>,
    pub(super) succeeded: bool,
    /// For people.
    pub(super) ending: String,
}

/// What this program said as a child, called with these words and the project.
pub(super) fn ask(
    words: Vec<String>,
    project: &Path,
    temporary: &Path,
    session: &Session,
) -> Result<JudgeOutput, ProcessError> {
    let mut line = CommandLine::new(env::own_program())
        .args(words)
        .path(project)
        .env("TMPDIR", temporary.display().to_string())
        .env(env::CACHE, session.cache.display().to_string());
    for (name, value) in env::settings() {
        line.env.entry(name).or_insert(value);
    }
    if session.offline {
        line = line.env(env::OFFLINE, "1");
    }
    let mut lines: Vec<Value> = Vec::new();
    let done = process::converse(&line, Limits::wall(WALL), &[], &mut |text| {
        lines.extend(serde_json::from_str(text));
    })?;
    let said = done.stderr_text();
    let last = said.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or_default();
    let ending = format!("the judge {}: {last}", done.ending);
    Ok(JudgeOutput { lines, succeeded: done.ending.success(), ending })
}

/// The words before the project.
fn arguments(fixture: &Fixture, threads: usize, budget: &str) -> Vec<String> {
    let mut words = match fixture.judged_by {
        JudgedBy::Verify => vec!["verify"],
        JudgedBy::Bench => vec!["bench", "--budget", budget],
    };
    words.extend(["--fresh", "--message-format", "json"]);
    let threads = threads.to_string();
    words.extend(["--jobs", &threads]);
    let deadline = fixture.deadline.map(|seconds| seconds.to_string());
    if let Some(seconds) = &deadline {
        words.extend(["--deadline", seconds]);
    }
    match (fixture.candidate, fixture.ring) {
        (Candidate::Device, _) => words.push("--device"),
        (Candidate::Extension, Ring::Cpu) => words.extend(["--threads", &threads, "--backend", "cpu"]),
        (Candidate::Extension, _) => words.extend(["--backend", "cuda"]),
    }
    words.into_iter().map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::selftest;

    #[test]
    fn the_child_is_asked_for_what_the_fixture_needs() {
        let of = |name: &str| {
            let found = selftest::select(&[name.to_owned()]).unwrap();
            let one = found.iter().find(|one| one.name == name).unwrap();
            arguments(one, 2, BUDGETS[0]).join(" ")
        };
        let common = "--fresh --message-format json --jobs 2";
        assert_eq!(of("never-returns"), format!("verify {common} --deadline 20 --threads 2 --backend cpu"));
        assert_eq!(of("stops-when-timed"), format!("bench --budget 0.5 {common} --threads 2 --backend cpu"));
        assert_eq!(of("device-writes-nothing"), format!("verify {common} --device"));
        assert_eq!(of("leaves-its-stream"), format!("verify {common} --backend cuda"));
    }
}
