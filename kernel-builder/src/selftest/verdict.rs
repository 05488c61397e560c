//! What must come of a kernel, what came of it, and whether the two agree.
//!
//! Owns: the reading of what `verify` and `bench` print as JSON. Never: starts them.

use serde::Serialize;
use serde_json::Value;

/// What must come of a kernel.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Expected {
    /// It passes every check.
    Passed,
    /// One of these codes refuses it.
    Refused(Vec<String>),
    /// It passes, and one of these codes warns of it.
    Warned(Vec<String>),
}

/// What came of a kernel.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum SelftestOutcome {
    /// Every check passed but for those that warned.
    Passed {
        /// Their codes.
        warned: Vec<String>,
    },
    /// At least one check refused it.
    Refused {
        /// The codes, the earliest first.
        codes: Vec<String>,
        /// What the first of them found.
        summary: String,
    },
    /// It was not judged, since something is not here.
    NotRun {
        /// What.
        reason: String,
    },
    /// It could not be judged, and that is not the kernel's fault.
    Failed {
        /// What happened.
        reason: String,
        /// Whether the machine was too busy for a figure: another try, with more samples, may have one.
        #[serde(skip)]
        is_noise: bool,
    },
}

/// The code of a bench whose figures the machine's noise hid.
const UNMEASURED: &str = "bench::not_measured";
/// Codes of the judge's own misfortunes.
const MISFORTUNES: &[&str] = &["verify::harness", "verify::reference", "verify::scratch"];
/// The first parts of the codes that refuse a kernel.
const JUDGES: &[&str] = &["verify::", "bench::", "compile::"];
/// The first parts of the codes that say that something is not here.
const ABSENCES: &[&str] = &["toolchain::", "base::program_missing"];
/// Codes of skipped checks without which a kernel has not been judged.
const UNJUDGED: &[&str] = &[
    "verify::no_op",
    "verify::no_python",
    crate::verify::NO_GPU,
    "verify::no_device",
    "verify::not_loaded",
    "verify::no_workload",
    "verify::other_torch",
];

impl SelftestOutcome {
    pub(super) fn not_run(reason: &str) -> Self {
        Self::NotRun { reason: reason.to_owned() }
    }

    pub(super) fn failed(reason: &str) -> Self {
        Self::Failed { reason: reason.to_owned(), is_noise: false }
    }

    /// Whether the machine was too busy for a figure, which says nothing of the kernel.
    pub(super) fn is_unmeasured(&self) -> bool {
        matches!(self, Self::Failed { is_noise: true, .. })
    }

    /// Reads the JSON lines of a child that ended in this way; `ending` is for people.
    pub(super) fn read(lines: &[Value], succeeded: bool, ending: &str) -> Self {
        let of = |name: &'static str| lines.iter().filter(move |line| line["event"] == name);
        let checks: Vec<&Value> = of("result")
            .flat_map(|line| line["variants"].as_array().into_iter().flatten())
            .flat_map(|variant| variant["evidence"]["checks"].as_array().into_iter().flatten())
            .collect();
        let with = |outcome: &'static str| checks.iter().filter(move |check| check["outcome"] == outcome);
        let errors: Vec<(&str, &str)> =
            of("error").map(|line| (text(&line["code"]), text(&line["message"]))).collect();
        if let Some((_, message)) = errors.iter().find(|(code, _)| MISFORTUNES.contains(code)) {
            return Self::failed(message);
        }
        let refused = with("refused").map(|check| (text(&check["code"]), text(&check["summary"])));
        let judged = errors.iter().copied().filter(|(code, _)| begins(code, JUDGES) && *code != UNMEASURED);
        let mut found: Vec<(&str, &str)> = Vec::new();
        for one in refused.chain(judged) {
            if !found.iter().any(|(code, _)| *code == one.0) {
                found.push(one);
            }
        }
        if let Some((_, summary)) = found.first() {
            let codes = found.iter().map(|(code, _)| (*code).to_owned()).collect();
            return Self::Refused { codes, summary: (*summary).to_owned() };
        }
        if let Some((code, message)) = errors.first() {
            let reason = (*message).to_owned();
            let is_noise = *code == UNMEASURED;
            let is_absent = begins(code, ABSENCES);
            return if is_absent { Self::NotRun { reason } } else { Self::Failed { reason, is_noise } };
        }
        if !succeeded || of("result").next().is_none() {
            return Self::failed(ending);
        }
        if let Some(check) = with("skipped").find(|check| UNJUDGED.contains(&text(&check["code"]))) {
            return Self::not_run(text(&check["summary"]));
        }
        if of("result").any(|line| line["measurements"].as_array().is_some_and(Vec::is_empty)) {
            let noted = of("note").next_back().map_or("nothing was measured", |line| text(&line["text"]));
            return Self::not_run(noted);
        }
        Self::Passed { warned: with("warned").map(|check| text(&check["code"]).to_owned()).collect() }
    }

    /// Whether this is what must be; nothing where it was not run.
    pub(super) fn is_right(&self, expected: &Expected) -> Option<bool> {
        match (self, expected) {
            (Self::NotRun { .. }, _) => None,
            (Self::Passed { .. }, Expected::Passed) => Some(true),
            (Self::Refused { .. }, Expected::Refused(_)) | (Self::Passed { .. }, Expected::Warned(_)) => {
                Some(self.wanted_code(expected).is_some())
            }
            _ => Some(false),
        }
    }

    /// The code that caught the kernel: one of the expected, else the first.
    pub(super) fn caught_by(&self, expected: &Expected) -> Option<&str> {
        let first = match self {
            Self::Refused { codes, .. } => codes.first().map(String::as_str),
            _ => None,
        };
        self.wanted_code(expected).or(first)
    }

    fn wanted_code(&self, expected: &Expected) -> Option<&str> {
        let (found, wanted) = match (self, expected) {
            (Self::Refused { codes, .. }, Expected::Refused(wanted)) => (codes, wanted),
            (Self::Passed { warned }, Expected::Warned(wanted)) => (warned, wanted),
            _ => return None,
        };
        found.iter().find(|code| wanted.contains(code)).map(String::as_str)
    }
}

fn begins(code: &str, parts: &[&str]) -> bool {
    parts.iter().any(|part| code.starts_with(part))
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn result(checks: &Value) -> Value {
        json!({ "event": "result", "command": "verify", "variants": [{ "evidence": { "checks": checks } }] })
    }

    fn check(code: &str, outcome: &str) -> Value {
        json!({ "code": code, "outcome": outcome, "summary": format!("about {code}") })
    }

    fn error(code: &str) -> Value {
        json!({ "event": "error", "code": code, "message": format!("said of {code}") })
    }

    fn codes(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn a_refusal_is_read_once_with_the_earliest_first() {
        let lines = [
            result(&json!([
                check("verify::load", "passed"),
                check("verify::unwritten", "refused"),
                check("verify::numerics", "refused")
            ])),
            error("verify::unwritten"),
            error("verify::numerics"),
        ];
        let seen = SelftestOutcome::read(&lines, false, "returned 15");
        let SelftestOutcome::Refused { codes: found, summary } = &seen else { panic!("{seen:?}") };
        assert_eq!(found, &codes(&["verify::unwritten", "verify::numerics"]));
        assert_eq!(summary, "about verify::unwritten");
        let expected = Expected::Refused(codes(&["verify::numerics"]));
        assert_eq!(
            (seen.is_right(&expected), seen.caught_by(&expected)),
            (Some(true), Some("verify::numerics"))
        );
        let other = Expected::Refused(codes(&["verify::guard"]));
        assert_eq!((seen.is_right(&other), seen.caught_by(&other)), (Some(false), Some("verify::unwritten")));
        assert_eq!(seen.is_right(&Expected::Passed), Some(false));
    }

    #[test]
    fn what_bench_refuses_is_an_error_of_its_own() {
        let seen = SelftestOutcome::read(&[error("bench::wrong_while_timed")], false, "returned 16");
        assert_eq!(seen.is_right(&Expected::Refused(codes(&["bench::wrong_while_timed"]))), Some(true));
    }

    #[test]
    fn a_pass_may_warn() {
        let seen =
            SelftestOutcome::read(&[result(&json!([check("verify::falls_back", "warned")]))], true, "");
        assert_eq!(seen.is_right(&Expected::Passed), Some(true));
        assert_eq!(seen.is_right(&Expected::Warned(codes(&["verify::falls_back"]))), Some(true));
        assert_eq!(seen.is_right(&Expected::Warned(codes(&["verify::determinism"]))), Some(false));
        assert_eq!(seen.is_right(&Expected::Refused(codes(&["verify::guard"]))), Some(false));
    }

    #[test]
    fn what_is_not_here_counts_for_nothing() {
        let skipped =
            SelftestOutcome::read(&[result(&json!([check("verify::no_gpu", "skipped")]))], true, "");
        let unbuilt = SelftestOutcome::read(&[error("toolchain::offline")], false, "returned 13");
        let idle = SelftestOutcome::read(&[json!({ "event": "result", "measurements": [] })], true, "");
        for seen in [skipped, unbuilt, idle] {
            assert!(matches!(seen, SelftestOutcome::NotRun { .. }), "{seen:?}");
            assert_eq!(seen.is_right(&Expected::Passed), None);
        }
    }

    #[test]
    fn a_figure_that_noise_hid_is_no_refusal() {
        let seen = SelftestOutcome::read(&[error("bench::not_measured")], false, "returned 16");
        assert!(seen.is_unmeasured());
        assert_eq!(seen.is_right(&Expected::Passed), Some(false));
        assert_eq!(seen.is_right(&Expected::Refused(codes(&["bench::not_measured"]))), Some(false));
        let both = [error("bench::not_measured"), error("bench::wrong_while_timed")];
        let wrong = SelftestOutcome::read(&both, false, "returned 16");
        assert!(!wrong.is_unmeasured());
        assert_eq!(wrong.is_right(&Expected::Refused(codes(&["bench::wrong_while_timed"]))), Some(true));
    }

    #[test]
    fn a_misfortune_is_no_verdict() {
        for lines in [vec![error("verify::harness")], vec![error("spec::syntax")], vec![]] {
            let seen = SelftestOutcome::read(&lines, false, "was killed by SIGKILL");
            assert!(matches!(seen, SelftestOutcome::Failed { .. }), "{seen:?}");
            assert_eq!(seen.is_right(&Expected::Refused(codes(&["verify::harness"]))), Some(false));
        }
    }
}
