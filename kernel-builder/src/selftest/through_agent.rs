//! Device code of the suite that is handed in through an agent: none that cheats may be kept.
//!
//! Owns: one search for each project of the suite, and what its outcome means. Never: judges; `fill` does, in a child
//! process.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::Value;

use super::fixture::{Candidate, Fixture, Ring};
use super::hand_in::{self, HandInResult};
use super::judge;
use super::row::Row;
use super::verdict::{Expected, SelftestOutcome};
use crate::base::session::Session;
use crate::base::{env, files, interrupt};
use crate::exit::Failure;

/// Seconds that the search of a project may take.
const BUDGET: &str = "1500";

/// Whether a fixture can be handed in by an agent: device code that differs from its project's.
pub fn can_be_handed_in(fixture: &Fixture) -> bool {
    fixture.candidate == Candidate::Device && fixture.queue.is_empty() && fixture.changes_files()
}

/// Hands in fixtures, project by project. `no_gpu` is why none is, if so.
///
/// # Errors
/// A file could not be written, or ctrl-C. That a kernel could not be judged is a row.
pub fn run(fixtures: &[Fixture], no_gpu: Option<&str>, session: &Session) -> Result<Vec<Row>, Failure> {
    let mut projects: BTreeMap<&str, Vec<&Fixture>> = BTreeMap::new();
    for fixture in fixtures.iter().filter(|fixture| can_be_handed_in(fixture)) {
        projects.entry(fixture.project()).or_default().push(fixture);
    }
    let scratch = files::scratch()?;
    let mut rows = Vec::new();
    for (project, members) in projects {
        interrupt::check()?;
        let seen = match no_gpu {
            Some(_) => ProjectResult::default(),
            None => handed_in(&scratch.path().join(project), &members, session)?,
        };
        for fixture in members {
            let (outcome, seconds) = match no_gpu {
                Some(reason) => (SelftestOutcome::not_run(reason), 0.0),
                None => seen.outcome(fixture),
            };
            for mut subject in fixture.subjects()? {
                subject.expected = expected(subject.expected, &outcome);
                rows.push(Row::new(subject, Ring::Gpu, outcome.clone(), seconds));
            }
        }
    }
    Ok(rows)
}

/// What must come of a fixture: any refusal of a cheat is right, since `try` makes other checks first than `verify`.
fn expected(expected: Expected, seen: &SelftestOutcome) -> Expected {
    match (expected, seen) {
        (Expected::Refused(_), SelftestOutcome::Refused { codes, .. }) => Expected::Refused(codes.clone()),
        // What is only warned of may be handed in, or be refused for just that: the rules for agents are stricter.
        (Expected::Warned(warned), SelftestOutcome::Refused { codes, .. })
            if codes.iter().all(|code| warned.contains(code)) =>
        {
            Expected::Refused(codes.clone())
        }
        (Expected::Warned(_), _) => Expected::Passed,
        (other, _) => other,
    }
}

/// What came of the fixtures of a project.
#[derive(Debug, Default)]
struct ProjectResult {
    rows: Vec<HandInResult>,
    /// Notes of the candidates that replaced the best.
    kept: Vec<String>,
    /// Why there may be rows missing.
    ending: String,
}

/// Why an honest kernel cannot be handed in, by the code of its refusal.
fn rule_for_agents(code: &str) -> Option<&'static str> {
    match code {
        "agent::frozen" => Some("it changes files that agents may not change"),
        "verify::clock" => Some("it reads a clock, which kernels of agents may not"),
        _ => None,
    }
}

fn handed_in(folder: &Path, members: &[&Fixture], session: &Session) -> Result<ProjectResult, Failure> {
    let temporary = folder.join("tmp");
    files::create_dirs(&temporary)?;
    let project = folder.join("project");
    if let Some(first) = members.first() {
        first.base_files()?.write_to(&project)?;
    }
    let program = env::own_program().display().to_string();
    let mut agent = vec![program.as_str(), "--worker", hand_in::ROLE, "{socket}"];
    agent.extend(members.iter().map(|fixture| fixture.name.as_str()));
    let agent = shlex::try_join(agent).unwrap_or_default();
    let words =
        ["fill", "--message-format", "json", "--sessions", "1", "--budget", BUDGET, "--agent-command"];
    let words = words.iter().map(|word| (*word).to_owned()).chain([agent]);
    let said = judge::ask(words.collect(), &project, &temporary, session)?;
    let error = said.lines.iter().find(|line| line["event"] == "error");
    let ending = error.and_then(|line| line["message"].as_str()).map_or(said.ending, str::to_owned);
    let kept = project.join(".kernelwright/candidates");
    let handed = ProjectResult { rows: transcripts(&kept)?, kept: notes_of_kept(&kept)?, ending };
    files::remove_dir(folder)?;
    Ok(handed)
}

/// The lines of all sessions.
fn transcripts(kept: &Path) -> Result<Vec<HandInResult>, Failure> {
    let mut rows = Vec::new();
    if !files::is_dir(&kept.join("sessions")) {
        return Ok(rows);
    }
    for path in files::walk_unfollowed(&kept.join("sessions"), |_| true)? {
        if path.file_name().is_some_and(|name| name == "transcript.jsonl") {
            let text = files::read_text(&kept.join("sessions").join(&path))?;
            rows.extend(text.lines().filter_map(|line| serde_json::from_str::<HandInResult>(line).ok()));
        }
    }
    Ok(rows)
}

fn notes_of_kept(kept: &Path) -> Result<Vec<String>, Failure> {
    let path = kept.join("lineage.jsonl");
    let text = if files::exists(&path) { files::read_text(&path)? } else { String::new() };
    let lines = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let kept = lines.filter(|entry| entry["standing"] == "kept");
    Ok(kept.filter_map(|entry| entry["note"].as_str().map(str::to_owned)).collect())
}

impl ProjectResult {
    /// What came of a fixture, and its seconds.
    fn outcome(&self, fixture: &Fixture) -> (SelftestOutcome, f64) {
        let Some(row) = self.rows.iter().find(|row| row.fixture == fixture.name) else {
            return (SelftestOutcome::failed(&format!("it was not handed in: {}", self.ending)), 0.0);
        };
        let code = row.code.clone().unwrap_or_default();
        let outcome = match row.verdict.as_deref() {
            _ if self.kept.contains(&fixture.name) => SelftestOutcome::Passed { warned: vec![] },
            Some("refused") if fixture.passes && rule_for_agents(&code).is_some() => {
                SelftestOutcome::not_run(rule_for_agents(&code).unwrap_or_default())
            }
            Some("refused") => {
                SelftestOutcome::Refused { codes: vec![code], summary: row.text.clone().unwrap_or_default() }
            }
            Some("passed" | "kept" | "not faster" | "not measured") => {
                SelftestOutcome::Passed { warned: vec![] }
            }
            _ => SelftestOutcome::failed(row.text.as_deref().unwrap_or("the tools gave no verdict")),
        };
        (outcome, row.seconds)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::selftest;

    fn fixture(name: &str) -> Fixture {
        let found = selftest::select(&[name.to_owned()]).unwrap();
        found.into_iter().find(|one| one.name == name).unwrap()
    }

    fn row(name: &str, verdict: &str, code: Option<&str>) -> HandInResult {
        HandInResult {
            fixture: name.to_owned(),
            verdict: Some(verdict.to_owned()),
            code: code.map(str::to_owned),
            text: None,
            seconds: 0.5,
        }
    }

    #[test]
    fn every_cheat_of_device_code_can_be_handed_in() {
        let all = selftest::all().unwrap();
        let cheats = all.iter().filter(|one| one.name.starts_with("device-") && !one.passes);
        assert!(cheats.clone().count() > 40);
        for cheat in cheats {
            assert!(can_be_handed_in(cheat), "{}", cheat.name);
        }
        assert!(!can_be_handed_in(&fixture("device-row-norm")), "it is the project itself");
        assert!(!can_be_handed_in(&fixture("skips-tail")), "it has host code");
    }

    #[test]
    fn a_cheat_is_right_if_it_is_refused_and_wrong_if_it_is_kept_or_only_slow() {
        let cheat = fixture("device-hangs");
        let is_right = |rows: Vec<HandInResult>, kept: &[&str]| {
            let kept = kept.iter().map(|name| (*name).to_owned()).collect();
            let handed = ProjectResult { rows, kept, ending: "the agent ended".to_owned() };
            let (outcome, _) = handed.outcome(&cheat);
            let wanted = expected(cheat.subjects().unwrap().remove(0).expected, &outcome);
            outcome.is_right(&wanted)
        };
        assert_eq!(is_right(vec![row("device-hangs", "refused", Some("verify::hang"))], &[]), Some(true));
        assert_eq!(is_right(vec![row("device-hangs", "refused", Some("agent::frozen"))], &[]), Some(true));
        assert_eq!(is_right(vec![row("device-hangs", "not faster", None)], &[]), Some(false));
        let refused = row("device-hangs", "refused", Some("verify::hang"));
        assert_eq!(is_right(vec![refused], &["device-hangs"]), Some(false), "the lineage decides");
        assert_eq!(is_right(vec![], &[]), Some(false), "it was not judged");
    }

    #[test]
    fn what_only_warns_elsewhere_may_be_refused_here_for_the_same_reason() {
        let warned = || fixture("device-reads-the-date").subjects().unwrap().remove(0).expected;
        let refused =
            |code: &str| SelftestOutcome::Refused { codes: vec![code.to_owned()], summary: String::new() };
        let is_right = |outcome: SelftestOutcome| outcome.is_right(&expected(warned(), &outcome));
        assert_eq!(is_right(refused("verify::clock")), Some(true));
        assert_eq!(is_right(refused("verify::numerics")), Some(false));
        assert_eq!(is_right(SelftestOutcome::Passed { warned: vec![] }), Some(true));
    }

    #[test]
    fn an_honest_kernel_passes_or_is_none_that_an_agent_could_write() {
        let honest = fixture("device-reverse-rows");
        let outcome_of = |row: HandInResult| {
            ProjectResult { rows: vec![row], ..ProjectResult::default() }.outcome(&honest).0
        };
        let is_right = |row| outcome_of(row).is_right(&Expected::Passed);
        assert_eq!(is_right(row("device-reverse-rows", "passed", None)), Some(true));
        assert_eq!(is_right(row("device-reverse-rows", "refused", Some("agent::frozen"))), None);
        assert_eq!(is_right(row("device-reverse-rows", "refused", Some("verify::clock"))), None);
        assert_eq!(is_right(row("device-reverse-rows", "refused", Some("verify::numerics"))), Some(false));
    }
}
