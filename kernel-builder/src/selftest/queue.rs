//! Candidates that break the process in which those after them run, in one run of `screen`.
//!
//! Owns: the list that `screen` is given, and the reading of what it prints as JSON. Never: starts it.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::fixture::Fixture;
use super::judge::JudgeOutput;
use super::verdict::SelftestOutcome;
use crate::base::files;
use crate::exit::Failure;

/// Seconds that may go by from the end of a process that a candidate broke until the next one has its memory.
const RESTART: f64 = 2.0;

/// Writes the candidates of a fixture's queue into a folder; gives the list for `screen`.
pub(super) fn write(fixture: &Fixture, folder: &Path) -> Result<PathBuf, Failure> {
    let mut lines = String::new();
    for (at, text) in fixture.candidates()?.into_iter().enumerate() {
        let mut line = json!({});
        if let Some(text) = text {
            let path = folder.join(format!("candidate-{}.cu", at + 1));
            files::write(&path, text)?;
            line["source"] = json!(path.display().to_string());
        }
        lines += &format!("{line}\n");
    }
    let list = folder.join("candidates.jsonl");
    files::write(&list, lines)?;
    Ok(list)
}

/// What came of each of `count` candidates, and the seconds that its judgement took.
pub(super) fn read(count: usize, said: &JudgeOutput) -> Vec<(SelftestOutcome, f64)> {
    let rows = said.lines.iter().filter(|line| line["event"] == "result" && line["command"] == "screen");
    let rows: Vec<&Value> = rows.collect();
    let seconds = |row: &Value| row["judge_seconds"].as_f64().unwrap_or_default();
    let outcome_at = |place: usize| {
        let Some(at) = rows.iter().position(|row| row["place"] == place) else {
            return (unjudged(said), 0.0);
        };
        let before = at.checked_sub(1).map(|before| rows[before]);
        let seen = match (said.succeeded, restart(before, rows[at])) {
            (false, _) => SelftestOutcome::failed(&said.ending),
            (true, Err(reason)) => SelftestOutcome::failed(&reason),
            (true, Ok(())) => verdict(rows[at]),
        };
        (seen, seconds(rows[at]))
    };
    (0..count).map(outcome_at).collect()
}

/// Why a candidate has no line.
fn unjudged(said: &JudgeOutput) -> SelftestOutcome {
    let error = said.lines.iter().find(|line| line["event"] == "error");
    if error.is_some_and(|line| line["code"] == "bench::no_gpu") {
        return SelftestOutcome::not_run(text(&error.map_or(Value::Null, |line| line["message"].clone())));
    }
    // What is not here is no verdict; whatever else ended the run says nothing of this candidate.
    match SelftestOutcome::read(&said.lines, false, &said.ending) {
        seen @ SelftestOutcome::NotRun { .. } => seen,
        _ => SelftestOutcome::failed(&error.map_or_else(
            || format!("it was not judged; {}", said.ending),
            |line| format!("it was not judged: {}", text(&line["message"])),
        )),
    }
}

/// Whether a candidate had a process that none before it broke, and had it in time.
fn restart(before: Option<&Value>, row: &Value) -> Result<(), String> {
    let worker = |row: &Value| row["worker"].as_u64();
    let Some(own) = worker(row) else { return Err("screen does not say in which process it ran".to_owned()) };
    let Some(before) = before else { return Ok(()) };
    let broken = before["verdict"] == "refused" && !text(&before["code"]).starts_with("compile::");
    match (Some(own) == worker(before), row["worker_seconds"].as_f64()) {
        (true, _) if broken => Err("it ran in the process of one that was refused".to_owned()),
        (true, _) => Ok(()),
        (false, Some(took)) if took < RESTART => Ok(()),
        (false, Some(took)) => {
            Err(format!("the process before it was replaced within {took:.2} s; {RESTART} s are allowed"))
        }
        (false, None) => Err("screen does not say how long its process took to start".to_owned()),
    }
}

fn verdict(row: &Value) -> SelftestOutcome {
    match row["verdict"].as_str() {
        Some("passed") if row["seconds"].as_f64().is_some_and(|seconds| seconds > 0.0) => {
            SelftestOutcome::Passed { warned: vec![] }
        }
        Some("passed") => SelftestOutcome::failed("it passed, but has no time"),
        Some("refused") => SelftestOutcome::Refused {
            codes: vec![text(&row["code"]).to_owned()],
            summary: text(&row["summary"]).to_owned(),
        },
        _ => SelftestOutcome::failed("screen gives no verdict"),
    }
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::selftest;
    use crate::selftest::verdict::Expected;

    fn passed(place: usize, worker: u64, started: Option<f64>) -> Value {
        json!({
            "event": "result", "command": "screen", "place": place, "tuning": {}, "source": null,
            "compile_seconds": 0.1, "judge_seconds": 0.05, "worker": worker, "worker_seconds": started,
            "verdict": "passed", "seconds": 1e-5, "samples": [1e-5], "copy_fraction": 0.9, "of_bound": 0.2,
            "functions": []
        })
    }

    fn refused(place: usize, worker: u64, code: &str) -> Value {
        json!({
            "event": "result", "command": "screen", "place": place, "tuning": {}, "source": "a.cu",
            "compile_seconds": 0.1, "judge_seconds": 2.1, "worker": worker, "worker_seconds": null,
            "verdict": "refused", "code": code, "summary": "the kernel did"
        })
    }

    fn output(lines: Vec<Value>) -> JudgeOutput {
        JudgeOutput { lines, succeeded: true, ending: "the judge returned 0".to_owned() }
    }

    fn reason(seen: &SelftestOutcome) -> &str {
        match seen {
            SelftestOutcome::Failed { reason, .. } | SelftestOutcome::NotRun { reason } => reason,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn each_candidate_has_its_verdict_and_its_own_process() {
        let lines = vec![
            passed(0, 1, Some(0.9)),
            refused(1, 1, "verify::hang"),
            json!({ "event": "note", "text": "in between" }),
            passed(2, 2, Some(1.3)),
        ];
        let seen = read(3, &output(lines));
        let expected =
            [Expected::Passed, Expected::Refused(vec!["verify::hang".to_owned()]), Expected::Passed];
        for ((seen, seconds), expected) in seen.iter().zip(&expected) {
            assert_eq!(seen.is_right(expected), Some(true), "{seen:?}");
            assert!(*seconds > 0.0);
        }
    }

    #[test]
    fn a_restart_that_is_slow_or_did_not_happen_is_wrong() {
        let after = |row: Value| read(2, &output(vec![refused(0, 1, "verify::crash"), row])).remove(1).0;
        assert!(matches!(after(passed(1, 2, Some(1.99))), SelftestOutcome::Passed { .. }));
        assert_eq!(
            reason(&after(passed(1, 2, Some(2.5)))),
            "the process before it was replaced within 2.50 s; 2 s are allowed"
        );
        assert_eq!(reason(&after(passed(1, 1, None))), "it ran in the process of one that was refused");
        assert_eq!(
            reason(&after(passed(1, 2, None))),
            "screen does not say how long its process took to start"
        );
        let mut silent = passed(1, 2, Some(0.5));
        silent["worker"] = Value::Null;
        assert_eq!(reason(&after(silent)), "screen does not say in which process it ran");
        // What did not compile was never in a process.
        let lines = vec![refused(0, 1, "compile::device_code"), passed(1, 1, None)];
        assert!(matches!(read(2, &output(lines))[1].0, SelftestOutcome::Passed { .. }));
    }

    #[test]
    fn a_pass_without_a_time_and_a_run_that_broke_off_are_no_success() {
        let mut timeless = passed(0, 1, Some(0.9));
        timeless["seconds"] = Value::Null;
        assert_eq!(reason(&read(1, &output(vec![timeless]))[0].0), "it passed, but has no time");
        let ended =
            JudgeOutput { succeeded: false, ending: "the judge was killed".to_owned(), ..output(vec![]) };
        let broke = JudgeOutput { lines: vec![passed(0, 1, Some(0.9))], ..ended };
        let seen = read(2, &broke);
        assert_eq!(reason(&seen[0].0), "the judge was killed");
        assert_eq!(reason(&seen[1].0), "it was not judged; the judge was killed");
        let error = json!({ "event": "error", "code": "verify::judge", "message": "the checker died" });
        let seen = read(1, &JudgeOutput { lines: vec![error], ..broke });
        assert_eq!(reason(&seen[0].0), "it was not judged: the checker died");
    }

    #[test]
    fn what_is_not_here_is_not_run() {
        for code in ["bench::no_gpu", "toolchain::offline"] {
            let error = json!({ "event": "error", "code": code, "message": "it is not here" });
            let seen = read(2, &JudgeOutput { succeeded: false, ..output(vec![error]) });
            for (seen, _) in &seen {
                assert!(matches!(seen, SelftestOutcome::NotRun { .. }), "{seen:?}");
                assert_eq!(reason(seen), "it is not here");
            }
        }
    }

    #[test]
    fn the_list_names_files_that_are_there() {
        let fixture = selftest::select(&["queue".to_owned()]).unwrap().remove(0);
        let folder = files::scratch().unwrap();
        let list = files::read_text(&write(&fixture, folder.path()).unwrap()).unwrap();
        let lines: Vec<Value> = list.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(lines.len(), fixture.queue.len());
        assert_eq!(lines[0], json!({}), "the project's own");
        let source = files::read_text(Path::new(text(&lines[1]["source"]))).unwrap();
        assert!(source.contains("while (flag[0] != 1"), "{source}");
    }
}
