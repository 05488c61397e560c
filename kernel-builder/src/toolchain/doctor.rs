//! What this machine has, what each absence costs, and the command that fixes it.
//!
//! Owns: looking; all looks run at once, and each waits [`SLOWEST`] for a program. Never: fetches or changes anything, or
//! calls a program missing that did not answer in time.

use std::path::{Path, PathBuf};
use std::time::Duration;

use kernel_plan::plan::CommandLine;
use serde::Serialize;

use super::interpreter::{self, Question};
use super::{compiler, python, system};
use crate::base::causes::chain;
use crate::base::files;
use crate::base::process::{self, Ending, Limits, ProcessError};
use crate::base::report;
use crate::base::session::Session;

/// How one thing is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Health {
    /// It is there.
    Ok,
    /// It is not there, and something that most people want does not work without it.
    Missing,
    /// It is not there, and that is fine: something is slower or needs another way.
    Optional,
    /// It did not answer in time, so nobody knows.
    Unknown,
}

impl Health {
    fn word(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Missing => "missing",
            Self::Optional => "optional",
            Self::Unknown => "unknown",
        }
    }
}

/// One thing that was looked at.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// What: `C++ compiler`, `GPU`.
    pub subject: &'static str,
    /// How it is.
    pub health: Health,
    /// Version and place, or what was not found.
    pub found: String,
    /// What its absence costs; empty when it is there.
    pub cost: String,
    /// The command that fixes it; empty when there is nothing to fix.
    pub fix: String,
}

impl Finding {
    fn ok(subject: &'static str, found: impl Into<String>) -> Self {
        Self { subject, health: Health::Ok, found: found.into(), cost: String::new(), fix: String::new() }
    }

    /// A program that is there and did not say what it is.
    fn silent(subject: &'static str, program: &str, limit: Duration) -> Self {
        let found = format!("no answer from `{program}` in {} s", limit.as_secs());
        let cost = "it is unknown whether it works; the machine may be busy";
        Self::without(subject, Health::Unknown, &found, cost, "kernelwright doctor")
    }

    fn without(subject: &'static str, health: Health, found: &str, cost: &str, fix: &str) -> Self {
        Self { subject, health, found: found.to_owned(), cost: cost.to_owned(), fix: fix.to_owned() }
    }
}

/// The coding agents that can write candidates, by program name.
const AGENTS: &[&str] = &["claude", "codex", "opencode", "gemini"];

/// Free space below which a first run may fail: 0.3 GB of downloads, unpacked, and a second copy while one is replaced.
const ROOM: u64 = 3_000_000_000;

/// How long a program may take to say its version. A first start from a cold disk on a busy machine takes seconds.
const SLOWEST: Duration = Duration::from_secs(30);

type Inspection = fn(&Session) -> Finding;

/// In the order in which they are shown.
const INSPECTIONS: &[Inspection] =
    &[cxx, active_python, torch, python_headers, installer, git, cuda, gpu, agents, nix, disk, cache];

/// Looks at everything. On an idle machine that takes a second or two.
pub fn examine(session: &Session) -> Vec<Finding> {
    std::thread::scope(|scope| {
        let looks: Vec<_> = INSPECTIONS.iter().map(|look| scope.spawn(move || look(session))).collect();
        looks.into_iter().filter_map(|look| look.join().ok()).collect()
    })
}

/// The findings as a table for people; below what is not there, what that costs and the command that fixes it.
pub fn table(findings: &[Finding]) -> String {
    let width = findings.iter().map(|finding| finding.subject.len()).max().unwrap_or_default();
    let mut text = String::new();
    for Finding { subject, health, found, cost, fix } in findings {
        text += &format!("{:<9} {subject:<width$}  {found}\n", health.word());
        for (label, line) in [("without it:", cost), ("to fix it: ", fix)] {
            if !line.is_empty() {
                text += &format!("{:<9} {:<width$}  {label} {line}\n", "", "");
            }
        }
    }
    text
}

/// A program's answer to `--version`.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Answer {
    /// Its first line.
    Line(String),
    /// It is not there.
    Missing,
    /// It ended without a line, or with an error.
    Broken,
    /// It did not end in this time.
    Silent(Duration),
}

impl Answer {
    /// Asks a program.
    fn from_program(program: impl AsRef<Path>, args: &[&str]) -> Self {
        Self::within(SLOWEST, program, args)
    }

    fn within(limit: Duration, program: impl AsRef<Path>, args: &[&str]) -> Self {
        let line = CommandLine::new(program.as_ref()).args(args.iter().copied());
        let done = match process::run(&line, Limits::wall(limit)) {
            Ok(done) => done,
            Err(ProcessError::Missing { .. }) => return Self::Missing,
            Err(_) => return Self::Broken,
        };
        let text = done.stdout_text();
        let first = text.lines().map(str::trim).find(|line| !line.is_empty());
        match (done.ending, first) {
            (Ending::Deadline, _) => Self::Silent(limit),
            (ending, Some(first)) if ending.success() => Self::Line(first.to_owned()),
            _ => Self::Broken,
        }
    }
}

fn cxx(_: &Session) -> Finding {
    let subject = "C++ compiler";
    match compiler::find() {
        Ok(program) => match Answer::from_program(&program, &["--version"]) {
            Answer::Line(version) => Finding::ok(subject, format!("{version}, {}", program.display())),
            Answer::Silent(limit) => Finding::silent(subject, &program.display().to_string(), limit),
            Answer::Missing | Answer::Broken => Finding::without(
                subject,
                Health::Missing,
                &format!("{} does not run", program.display()),
                "nothing can be built",
                "apt install --reinstall g++",
            ),
        },
        Err(error) => Finding::without(
            subject,
            Health::Missing,
            &chain(&error),
            "nothing can be built",
            "apt install g++",
        ),
    }
}

fn active_python(session: &Session) -> Finding {
    match interpreter::active(session, Question::Identity) {
        Ok(python) => Finding::ok("Python", format!("{}, {}", python.version, python.program.display())),
        Err(error) => Finding::without(
            "Python",
            Health::Missing,
            &chain(&error),
            "nothing can be fetched, verified or measured",
            "apt install python3 python3-pip",
        ),
    }
}

fn torch(session: &Session) -> Finding {
    let Ok(python) = interpreter::active(session, Question::Identity) else {
        return Finding::without("PyTorch", Health::Optional, "no Python found", "see Python", "");
    };
    match python.has_torch() {
        Some(place) => Finding::ok("PyTorch", format!("in the active Python, {}", place.display())),
        None => Finding::without(
            "PyTorch",
            Health::Optional,
            "not in the active Python",
            "it is fetched into the cache when first needed (0.2 GB; 2.7 GB with a GPU)",
            "python3 -m venv .venv && .venv/bin/pip install torch numpy kernels",
        ),
    }
}

fn python_headers(session: &Session) -> Finding {
    let subject = "Python headers";
    let place = interpreter::active(session, Question::Identity).map(|python| python.headers);
    match place {
        Ok(folder) if files::exists(&folder.join("Python.h")) => {
            Finding::ok(subject, folder.display().to_string())
        }
        _ => Finding::without(
            subject,
            Health::Optional,
            "no Python.h",
            "torch.compile does not work on the CPU, so it is not a baseline there; kernels do not need it",
            "apt install python3-dev",
        ),
    }
}

fn installer(session: &Session) -> Finding {
    let uv = process::find("uv");
    let python = interpreter::active(session, Question::Identity).ok();
    let pip = python.map(|python| Answer::from_program(python.program, &["-m", "pip", "--version"]));
    installer_of(pip.unwrap_or(Answer::Missing), uv)
}

fn installer_of(pip: Answer, uv: Option<PathBuf>) -> Finding {
    match (pip, uv) {
        (Answer::Line(version), _) => {
            let version = version.split(" from ").next().unwrap_or_default().to_owned();
            Finding::ok("pip or uv", version)
        }
        (_, Some(uv)) => Finding::ok("pip or uv", format!("uv, {}", uv.display())),
        (Answer::Silent(limit), None) => Finding::silent("pip or uv", "python -m pip", limit),
        (Answer::Missing | Answer::Broken, None) => Finding::without(
            "pip or uv",
            Health::Missing,
            "neither was found",
            "no toolchain can be fetched; `--toolchain system` works",
            "apt install python3-pip",
        ),
    }
}

fn git(_: &Session) -> Finding {
    match Answer::from_program("git", &["--version"]) {
        Answer::Line(version) => Finding::ok("git", version),
        Answer::Silent(limit) => Finding::silent("git", "git", limit),
        answer @ (Answer::Missing | Answer::Broken) => Finding::without(
            "git",
            Health::Optional,
            absence(&answer),
            "`new` creates no git repository, and records have no commit hash",
            "apt install git",
        ),
    }
}

/// Description of a program without a usable answer.
fn absence(answer: &Answer) -> &'static str {
    if *answer == Answer::Missing { "not on PATH" } else { "on PATH, but does not run" }
}

fn cuda(_: &Session) -> Finding {
    let subject = "CUDA toolkit";
    let Some(nvcc) = system::find_nvcc() else {
        return Finding::without(
            subject,
            Health::Optional,
            "not installed",
            "it is fetched into the cache when first needed (0.06 GB)",
            "",
        );
    };
    let line = CommandLine::new(&nvcc).arg("--version");
    let done = process::run(&line, Limits::wall(SLOWEST)).ok();
    if done.as_ref().is_some_and(|done| done.ending == Ending::Deadline) {
        return Finding::silent(subject, &nvcc.display().to_string(), SLOWEST);
    }
    let version = done.and_then(|done| system::nvcc_version(&done.stdout_text()));
    let version = version.unwrap_or_else(|| "unknown".to_owned());
    Finding::ok(subject, format!("{version}, {}; used with `--toolchain system`", nvcc.display()))
}

fn gpu(_: &Session) -> Finding {
    let subject = "NVIDIA GPU";
    let query = ["--query-gpu=name,driver_version,compute_cap", "--format=csv,noheader"];
    match (Answer::from_program("nvidia-smi", &query), python::has_nvidia_driver()) {
        (Answer::Line(line), _) => Finding::ok(subject, format!("{line} (name, driver, capability)")),
        (Answer::Silent(limit), _) => Finding::silent(subject, "nvidia-smi", limit),
        (_, true) => Finding::ok(subject, "a driver is loaded; nvidia-smi does not answer"),
        (_, false) => Finding::without(
            subject,
            Health::Optional,
            "no driver",
            "CUDA variants are built and inspected, but not run or measured",
            "",
        ),
    }
}

fn agents(_: &Session) -> Finding {
    let found: Vec<&str> = AGENTS.iter().copied().filter(|name| process::find(name).is_some()).collect();
    if found.is_empty() {
        return Finding::without(
            "Agents",
            Health::Optional,
            &format!("none of {}", AGENTS.join(", ")),
            "no agent can write candidates; kernels written by hand are not affected",
            "npm install -g @anthropic-ai/claude-code",
        );
    }
    Finding::ok("Agents", found.join(", "))
}

fn nix(_: &Session) -> Finding {
    match Answer::from_program("nix", &["--version"]) {
        Answer::Line(version) => Finding::ok("Nix", version),
        Answer::Silent(limit) => Finding::silent("Nix", "nix", limit),
        answer => Finding::without("Nix", Health::Optional, absence(&answer), "nothing: wheels are used", ""),
    }
}

fn disk(session: &Session) -> Finding {
    let place = session.cache.display();
    match files::free_space(&session.cache) {
        Some(free) if free < ROOM => Finding::without(
            "Free space",
            Health::Missing,
            &format!("{} at {place}", report::bytes(free)),
            "fetching and building may fail",
            "set KERNELWRIGHT_CACHE to a folder with more room",
        ),
        Some(free) => Finding::ok("Free space", format!("{} at {place}", report::bytes(free))),
        None => Finding::ok("Free space", format!("unknown at {place}")),
    }
}

fn cache(session: &Session) -> Finding {
    let holds = |name: &str| {
        files::is_dir(&session.cache.join(name)) && !files::is_empty_dir(&session.cache.join(name))
    };
    let what: Vec<&str> = [
        ("cuda", "a CUDA compiler"),
        ("stubs", "link stubs"),
        ("wheels", "parts of wheels"),
        ("python", "a Python with torch"),
    ]
    .into_iter()
    .filter_map(|(folder, what)| holds(folder).then_some(what))
    .collect();
    if what.is_empty() {
        return Finding::without(
            "Cache",
            Health::Optional,
            "empty",
            "the first run fetches its toolchain (0.3 GB for cpu and CUDA without a GPU)",
            "",
        );
    }
    Finding::ok("Cache", format!("{} at {}", what.join(", "), session.cache.display()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::report::{MessageFormat, Report};

    #[test]
    fn a_program_that_is_slow_is_not_missing() {
        let limit = Duration::from_millis(200);
        let slow = Answer::within(limit, "sh", &["-c", "sleep 600"]);
        assert_eq!(slow, Answer::Silent(limit));
        assert_eq!(
            Answer::within(SLOWEST, "sh", &["-c", "echo pip 24.0"]),
            Answer::Line("pip 24.0".to_owned())
        );
        assert_eq!(Answer::within(SLOWEST, "sh", &["-c", "echo no; exit 1"]), Answer::Broken);
        assert_eq!(Answer::within(SLOWEST, "no-such-program-anywhere", &[]), Answer::Missing);
        let found = installer_of(Answer::Silent(SLOWEST), None);
        assert_eq!(
            (found.health, found.found.as_str()),
            (Health::Unknown, "no answer from `python -m pip` in 30 s")
        );
        assert!(table(&[found]).starts_with("unknown   pip or uv"));
        assert_eq!(installer_of(Answer::Broken, None).health, Health::Missing);
        assert_eq!(installer_of(Answer::Silent(SLOWEST), Some("/usr/bin/uv".into())).health, Health::Ok);
    }

    #[test]
    fn every_absence_says_what_it_costs() {
        let scratch = files::scratch().unwrap();
        let report = Report::new(MessageFormat::Human, true);
        let session = Session { report, cache: scratch.path().to_owned(), offline: true, jobs: 1 };
        let findings = examine(&session);
        assert_eq!(findings.len(), INSPECTIONS.len());
        assert!(findings.iter().all(|finding| finding.health == Health::Ok || !finding.cost.is_empty()));
        assert!(table(&findings).contains("C++ compiler"));
    }
}
