//! One step at work: its items, and what it shares with the steps before and after it.
//!
//! Owns: which items are noted as passed or failed. Never: decides what is left out.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use super::proven::{Digests, FAILED, Passed};
use super::ready::Ready;
use crate::talk::{self, Talk};

/// State that all steps share.
pub(crate) struct Site {
    /// The root of the checkout.
    pub(crate) root: PathBuf,
    pub(crate) ready: Ready,
    pub(crate) passed: Passed,
    /// Digests as of the start, or why there are none.
    pub(crate) digests: Result<Digests, String>,
    /// Closing lines of test runners.
    closing: Mutex<Vec<String>>,
    /// How the output of each failed item ended.
    ends: Mutex<Vec<String>>,
}

/// Number of lines of a failed item that are printed again at the end, where a reader of a long or cut log looks.
const LINES_AGAIN: usize = 15;

impl Site {
    pub(crate) fn new(root: &Path, digests: Result<Digests, String>) -> Self {
        Self {
            root: root.to_owned(),
            ready: Ready::new(root),
            passed: Passed::open(root),
            digests,
            closing: Mutex::new(Vec::new()),
            ends: Mutex::new(Vec::new()),
        }
    }

    /// How the output of each failed item ended, for a reader who has only the end of the log.
    pub(crate) fn ends(&self) -> Vec<String> {
        self.ends.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The lines that a reader of CI looks for at the end: nextest's, or else those of `cargo test`.
    pub(crate) fn closing(&self) -> Vec<String> {
        let lines = self.closing.lock().unwrap_or_else(PoisonError::into_inner);
        let of_nextest: Vec<String> = lines.iter().filter(|line| is_summary(line)).cloned().collect();
        if of_nextest.is_empty() { lines.clone() } else { of_nextest }
    }
}

/// A step with the items that it is to run.
pub(crate) struct Run<'a> {
    pub(crate) site: &'a Site,
    pub(crate) step: &'static str,
    pub(crate) items: Vec<String>,
    /// Whether these are all items of the step.
    pub(crate) complete: bool,
}

impl Run<'_> {
    /// Runs every item, as many at a time as there are processors, and notes what came of each. Returns those that failed.
    pub(crate) fn each(
        &self,
        work: impl Fn(&str, &mut Talk) -> Result<(), String> + Sync,
    ) -> Result<Vec<String>, String> {
        let outcomes = talk::side_by_side(&self.items, String::clone, |item, talk| {
            let outcome = work(item, talk);
            if let Err(reason) = &outcome {
                let mut ends = self.site.ends.lock().unwrap_or_else(PoisonError::into_inner);
                ends.push(format!("{} {item} ended so:\n{}\n{reason}", self.step, talk.end(LINES_AGAIN)));
            }
            self.note(item, outcome.is_ok()).and(outcome)
        });
        let ended = self.items.iter().zip(outcomes);
        Ok(ended.filter(|(_, outcome)| outcome.is_err()).map(|(item, _)| item.clone()).collect())
    }

    /// Runs a step without items.
    pub(crate) fn whole(
        &self,
        work: impl FnOnce(&mut Talk) -> Result<(), String>,
    ) -> Result<Vec<String>, String> {
        let outcome = work(&mut Talk::Live);
        self.note(self.step, outcome.is_ok())?;
        outcome.map(|()| Vec::new())
    }

    /// Remembers the outcome of an item that has a digest.
    pub(crate) fn note(&self, item: &str, passed: bool) -> Result<(), String> {
        let digests = self.site.digests.as_ref().ok();
        match digests.and_then(|all| all.get(&(self.step.to_owned(), item.to_owned()))) {
            Some(digest) => self.site.passed.add(self.step, item, if passed { digest } else { FAILED }),
            None => Ok(()),
        }
    }

    /// Keeps the closing lines of a test runner's output.
    pub(crate) fn remember(&self, output: &str) {
        let mut closing = self.site.closing.lock().unwrap_or_else(PoisonError::into_inner);
        closing.extend(output.lines().filter(|line| is_summary(line) || is_result(line)).map(str::to_owned));
    }
}

/// nextest's closing line.
fn is_summary(line: &str) -> bool {
    line.trim_start().starts_with("Summary [")
}

/// The closing line of a test binary with at least one test.
fn is_result(line: &str) -> bool {
    let count = line.strip_prefix("test result: ").and_then(|rest| rest.split(" passed").next());
    count.and_then(|text| text.rsplit(' ').next()?.parse::<u32>().ok()).is_some_and(|count| count > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn closing_lines_of_both_runners() {
        assert!(is_summary("     Summary [  47.1s] 1510 tests run: 1510 passed, 0 skipped"));
        assert!(!is_summary("a Summary [ of it"));
        assert!(is_result("test result: ok. 5 passed; 0 failed; 0 ignored"));
        assert!(is_result("test result: FAILED. 10 passed; 1 failed"));
        assert!(!is_result("test result: ok. 0 passed; 0 failed"));
        assert!(!is_result("test result: none"));
    }
}
