//! The loop between an agent and the judge: what is proposed is judged, and what came of it is heard.
//!
//! Owns: the budget, how many candidates are on their way, and the log: what was judged on one workload, a line each, in
//! `.kernelwright/fill/`, so that an interrupted search goes on. Never: proposes or judges; believes a line of another
//! source, device, driver or compiler: each has a file of its own, named by the digest of all that verdicts depend on.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use kernel_plan::spec::expr::Value;
use kernel_plan::spec::tune::Tuning;
use serde::{Deserialize, Serialize};

use crate::agent::{Agent, Budget, Candidate, Feedback};
use crate::archive::Earlier;
use crate::base::digest::Digest;
use crate::base::files::{self, FileError};
use crate::base::interrupt;
use crate::exit::Failure;

/// What the judge says of a candidate.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Verdict {
    pub(crate) candidate: Candidate,
    pub(crate) outcome: Result<Figures, Refusal>,
}

/// What a right candidate takes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Figures {
    /// Seconds a call.
    pub(crate) seconds: f64,
    /// Time of a copy of as many bytes over that.
    pub(crate) copy_fraction: Option<f64>,
}

/// What is wrong with a candidate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Refusal {
    pub(crate) code: String,
    pub(crate) text: String,
}

impl Figures {
    /// What an agent is to make small: time in units of a copy that was timed in turn, since clocks wander.
    pub(crate) fn cost(&self) -> f64 {
        self.copy_fraction.filter(|fraction| *fraction > 0.0).map_or(self.seconds, f64::recip)
    }
}

impl Verdict {
    /// What the agent hears.
    pub(crate) fn feedback(&self) -> Feedback {
        let Candidate { tuning, samples, .. } = self.candidate.clone();
        Feedback { tuning, samples, cost: self.outcome.as_ref().ok().map(Figures::cost) }
    }
}

/// Judges candidates while others are thought of.
pub(crate) trait Judge {
    /// Takes candidates in.
    fn take(&mut self, candidates: Vec<Candidate>);

    /// Waits until the next verdict can follow at once.
    ///
    /// # Errors
    /// There is no device, or the reference fails.
    fn ready(&mut self) -> Result<(), Failure>;

    /// The next verdict, in whatever order; nothing when nothing was taken in.
    ///
    /// # Errors
    /// The judge itself fails, or ctrl-C.
    fn verdict(&mut self) -> Result<Option<Verdict>, Failure>;

    /// Forgets what was taken in and has no verdict.
    ///
    /// # Errors
    /// As [`Self::verdict`].
    fn clear(&mut self) -> Result<(), Failure>;

    /// How many candidates it takes in at a time without losing any time.
    fn window(&self) -> usize;
}

/// How far a search is.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct SearchProgress {
    /// Candidates that were judged in this run.
    pub(crate) judged: usize,
    /// Those that were right, in this run and earlier ones.
    pub(crate) right: usize,
    /// Candidates by the code of their refusal, with what was said of the first.
    pub(crate) refused: BTreeMap<String, (usize, String)>,
    /// Verdicts of earlier runs.
    pub(crate) recalled: usize,
    /// The best verdict so far.
    pub(crate) best: Option<(Candidate, Figures)>,
    /// Seconds since the first candidate could be judged.
    pub(crate) seconds: f64,
}

impl SearchProgress {
    fn count(&mut self, verdict: &Verdict) {
        match &verdict.outcome {
            Ok(figures) => {
                self.right += 1;
                let is_best =
                    self.best.as_ref().is_none_or(|(_, best)| figures.cost().total_cmp(&best.cost()).is_lt());
                if is_best {
                    self.best = Some((verdict.candidate.clone(), *figures));
                }
            }
            Err(refusal) => {
                self.refused.entry(refusal.code.clone()).or_insert((0, refusal.text.clone())).0 += 1;
            }
        }
    }
}

/// Searches until the agent has nothing more, or the budget is spent. Verdicts of earlier runs are heard first and cost
/// nothing; every new one is in the log before the agent hears it.
///
/// # Errors
/// The judge fails, the log cannot be written, or ctrl-C: what was judged is in the log.
pub(crate) fn search(
    agent: &mut dyn Agent,
    judge: &mut dyn Judge,
    log: &mut Log,
    budget: &Budget,
    clock: &dyn Fn() -> f64,
    tell: &mut dyn FnMut(&SearchProgress, &Verdict),
) -> Result<SearchProgress, Failure> {
    let mut standing = SearchProgress::default();
    for verdict in log.earlier() {
        agent.hear(&verdict.feedback());
        standing.count(verdict);
        standing.recalled += 1;
    }
    let (mut began, mut flying) = (None, 0);
    loop {
        interrupt::check()?;
        standing.seconds = began.map_or(0.0, |began| clock() - began);
        let left = budget.left(standing.seconds, standing.judged + flying);
        let room = left.min(judge.window().saturating_sub(flying));
        if room > 0 {
            let batch = agent.propose(room);
            flying += batch.len();
            judge.take(batch);
        }
        if flying == 0 {
            break;
        }
        if began.is_none() {
            // Texts are compiled while the device gets ready, and the time of search begins when it is.
            judge.ready()?;
            began = Some(clock());
        }
        if standing.seconds >= budget.seconds {
            judge.clear()?;
            break;
        }
        let Some(verdict) = judge.verdict()? else { break };
        flying -= 1;
        standing.judged += 1;
        log.add(&verdict)?;
        agent.hear(&verdict.feedback());
        standing.count(&verdict);
        tell(&standing, &verdict);
    }
    Ok(standing)
}

/// A refusal that may be the doing of something else on the device, and is not remembered.
pub(crate) const PASSING: &str = "bench::state";

/// The verdicts on one workload.
#[derive(Debug)]
pub(crate) struct Log {
    path: PathBuf,
    earlier: Vec<Verdict>,
}

/// A line.
#[derive(Debug, Serialize, Deserialize)]
struct Line {
    tuning: BTreeMap<String, serde_json::Value>,
    samples: usize,
    seconds: Option<f64>,
    copy_fraction: Option<f64>,
    code: Option<String>,
    text: Option<String>,
}

impl Log {
    /// The log of all that `key` stands for.
    ///
    /// # Errors
    /// What is to be forgotten cannot be removed.
    pub(crate) fn open(project: &Path, key: &Digest, earlier: Earlier) -> Result<Self, FileError> {
        let path = project.join(".kernelwright/fill").join(format!("{}.jsonl", key.short(16)));
        if earlier == Earlier::Forget {
            files::remove_file(&path)?;
            return Ok(Self { path, earlier: vec![] });
        }
        let text = if files::exists(&path) { files::read_text(&path)? } else { String::new() };
        if !text.is_empty() && !text.ends_with('\n') {
            // A line that was cut short shall not become a part of the next one.
            files::append_line(&path, "")?;
        }
        let read = |line: &str| serde_json::from_str::<Line>(line).ok().and_then(Line::verdict);
        let earlier = text.lines().filter_map(read).collect();
        Ok(Self { path, earlier })
    }

    /// The verdicts of earlier runs.
    pub(crate) fn earlier(&self) -> &[Verdict] {
        &self.earlier
    }

    /// Keeps a verdict.
    pub(crate) fn add(&mut self, verdict: &Verdict) -> Result<(), FileError> {
        if verdict.outcome.as_ref().is_err_and(|refusal| refusal.code == PASSING) {
            return Ok(());
        }
        let line = serde_json::to_string(&Line::new(verdict)).unwrap_or_default();
        files::append_line(&self.path, &line)
    }
}

impl Line {
    fn new(verdict: &Verdict) -> Self {
        let Candidate { tuning, samples, .. } = &verdict.candidate;
        let pairs = tuning.iter().map(|(name, value)| (name.to_string(), serde_json::json!(value)));
        let (figures, refusal) = (verdict.outcome.as_ref().ok(), verdict.outcome.as_ref().err());
        Self {
            tuning: pairs.collect(),
            samples: *samples,
            seconds: figures.map(|figures| figures.seconds),
            copy_fraction: figures.and_then(|figures| figures.copy_fraction),
            code: refusal.map(|refusal| refusal.code.clone()),
            text: refusal.map(|refusal| refusal.text.clone()),
        }
    }

    /// Nothing for a line that says neither how fast nor what is wrong.
    fn verdict(self) -> Option<Verdict> {
        let value = |value: &serde_json::Value| match (value.as_i64(), value.as_bool()) {
            (Some(number), _) => Some(Value::Integer(number)),
            (_, Some(truth)) => Some(Value::Boolean(truth)),
            _ => None,
        };
        let pairs = self.tuning.iter().map(|(name, given)| Some((name.parse().ok()?, value(given)?)));
        let tuning: Tuning = pairs.collect::<Option<_>>()?;
        let outcome = match (self.seconds, self.code) {
            (Some(seconds), None) => Ok(Figures { seconds, copy_fraction: self.copy_fraction }),
            (None, Some(code)) => Err(Refusal { code, text: self.text.unwrap_or_default() }),
            _ => return None,
        };
        Some(Verdict { candidate: Candidate { tuning, samples: self.samples, enough: None }, outcome })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdict(block: i64, outcome: Result<Figures, Refusal>) -> Verdict {
        let pairs = [("block", Value::Integer(block)), ("stream", Value::Boolean(true))];
        let tuning = pairs.map(|(name, value)| (name.parse().unwrap(), value)).into();
        Verdict { candidate: Candidate { tuning, samples: 3, enough: None }, outcome }
    }

    #[test]
    fn a_log_goes_on_and_what_was_cut_short_is_forgotten() {
        let project = files::scratch().unwrap();
        let key = Digest::blake3(b"key");
        let refusal = |code: &str| Refusal { code: code.to_owned(), text: "why".to_owned() };
        let right = verdict(64, Ok(Figures { seconds: 1e-5, copy_fraction: Some(0.9) }));
        let wrong = verdict(32, Err(refusal("verify::guard")));
        let open = |earlier| Log::open(project.path(), &key, earlier).unwrap();
        let mut log = open(Earlier::Resume);
        for verdict in [&right, &verdict(16, Err(refusal(PASSING))), &wrong] {
            log.add(verdict).unwrap();
        }
        let text = files::read_text(&log.path).unwrap();
        files::write(&log.path, format!("{text}{}", &text[..20])).unwrap();
        let mut again = open(Earlier::Resume);
        assert_eq!(again.earlier(), [right.clone(), wrong.clone()]);
        again.add(&right).unwrap();
        assert_eq!(open(Earlier::Resume).earlier(), [right.clone(), wrong, right]);
        assert!(
            Log::open(project.path(), &Digest::blake3(b"other"), Earlier::Resume)
                .unwrap()
                .earlier()
                .is_empty()
        );
        assert!(open(Earlier::Forget).earlier().is_empty());
        assert!(open(Earlier::Resume).earlier().is_empty());
    }
}
