//! What was judged on one workload, a line each, so that an interrupted search goes on.
//!
//! Owns: `.kernelwright/fill/`. Never: believes a line of another source, device, driver or compiler: each has a file of
//! its own, named by the digest of all that verdicts depend on.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use kernel_plan::spec::expr::Value;
use kernel_plan::spec::tune::Tuning;
use serde::{Deserialize, Serialize};

use super::search::{Figures, Refusal, Verdict};
use crate::agent::Candidate;
use crate::archive::Earlier;
use crate::base::digest::Digest;
use crate::base::files::{self, FileError};

/// A refusal that may be the doing of something else on the device, and is not remembered.
const PASSING: &str = "bench::state";

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
        let line = serde_json::to_string(&Line::of(verdict)).unwrap_or_default();
        files::append_line(&self.path, &line)
    }
}

impl Line {
    fn of(verdict: &Verdict) -> Self {
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
        let key = Digest::of(b"key");
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
            Log::open(project.path(), &Digest::of(b"other"), Earlier::Resume).unwrap().earlier().is_empty()
        );
        assert!(open(Earlier::Forget).earlier().is_empty());
        assert!(open(Earlier::Resume).earlier().is_empty());
    }
}
