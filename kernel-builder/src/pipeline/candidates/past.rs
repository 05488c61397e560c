//! The tool `history`, and what `kernelwright candidates` shows.
//!
//! Owns: the words for a candidate, the difference between two. Never: judges.

use std::collections::BTreeMap;

use kernel_plan::spec::OpSpec;
use serde_json::{Value, json};
use similar::{Algorithm, DiffOp, capture_diff_slices};

use crate::agent::kernel::ProposedKernel;
use crate::agent::lineage::{CandidateStatus, Entry};
use crate::agent::reply;
use crate::bench::render;
use crate::exit::Failure;
use crate::mcp::{History, Outcome};

use super::desk::{Desk, files_of};

/// Entries that `history` gives unless it is asked for more.
const LAST: usize = 20;

impl Desk<'_> {
    /// `history`.
    pub(super) fn history(&mut self, arguments: &History) -> Result<Outcome, Failure> {
        self.store.refresh()?;
        if let Some([from, to]) = &arguments.diff {
            let mut sides = Vec::new();
            for name in [from, to] {
                match self.find_candidate(name)? {
                    Ok((_, proposed)) => sides.push(proposed),
                    Err(absent) => return Ok(self.absent(absent)),
                }
            }
            let text = difference(&sides[0], &sides[1], &self.origin.op_name);
            return Ok(Outcome::done(json!({ "from": from, "to": to, "diff": reply::short(&text) })));
        }
        let lineage = self.store.lineage();
        let entries = lineage.entries();
        let skipped = entries.len().saturating_sub(arguments.last.unwrap_or(LAST));
        let mut refusals: BTreeMap<&str, usize> = lineage.refusals();
        for (code, count) in &self.turned_away {
            *refusals.entry(code).or_insert(0) += count;
        }
        Ok(Outcome::done(json!({
            "best": lineage.best().map(|entry| entry.id.as_str()),
            "seed": lineage.seed().map(|entry| entry.id.as_str()),
            "candidates": entries[skipped..].iter().map(row).collect::<Vec<_>>(),
            "older": skipped, "refusals": refusals, "tries_left": self.tries,
        })))
    }
}

/// A candidate for programs.
pub(crate) fn row(entry: &Entry) -> Value {
    json!(entry)
}

/// A candidate in a line: its standing, its times, or why it is refused.
pub(crate) fn words(entry: &Entry) -> String {
    let mut words = match entry.standing {
        CandidateStatus::Seed => "seed".to_owned(),
        CandidateStatus::Compiled => "compiled, not judged".to_owned(),
        CandidateStatus::Right => "passed".to_owned(),
        CandidateStatus::Refused => "refused".to_owned(),
        CandidateStatus::NotFaster => "not faster".to_owned(),
        CandidateStatus::Kept => "kept".to_owned(),
    };
    if let Some(code) = &entry.code {
        words += &format!("  {code}");
    }
    if let Some(gain) = &entry.gain {
        words += &format!("  {:.3}x [{:.3}, {:.3}] of its best", gain.ratio, gain.low, gain.high);
    }
    for (case, figure) in &entry.figures {
        words += &format!("  {case}: {}", render::time(figure.seconds));
    }
    if let Some(agent) = &entry.maker.agent {
        words += &format!("  by {agent}");
    }
    if let Some(note) = &entry.note {
        words += &format!("  {}", note.lines().next().unwrap_or_default());
    }
    words
}

/// What is different between two candidates, file by file, in the form of `diff -u`.
pub(crate) fn difference(from: &ProposedKernel, to: &ProposedKernel, op_name: &str) -> String {
    let texts = |proposed: &ProposedKernel, op: &OpSpec| files_of(proposed, op_name, op).unwrap_or_default();
    let (before, after) = (texts(from, &from.op), texts(to, &to.op));
    let mut names: Vec<&String> = before.keys().chain(after.keys()).collect();
    names.sort();
    names.dedup();
    let of = |texts: &BTreeMap<String, String>, name: &String| texts.get(name).cloned().unwrap_or_default();
    names.into_iter().map(|name| unified(name, &of(&before, name), &of(&after, name))).collect()
}

/// Lines around a change that are shown.
const CONTEXT: usize = 3;

fn unified(name: &str, before: &str, after: &str) -> String {
    let (before, after): (Vec<&str>, Vec<&str>) = (before.lines().collect(), after.lines().collect());
    let ops = capture_diff_slices(Algorithm::Myers, &before, &after);
    if ops.iter().all(|op| matches!(op, DiffOp::Equal { .. })) {
        return String::new();
    }
    let mut text = format!("--- a/{name}\n+++ b/{name}\n");
    for group in similar::group_diff_ops(ops, CONTEXT) {
        let (Some(first), Some(last)) = (group.first(), group.last()) else { continue };
        let (old, new) =
            (first.old_range().start..last.old_range().end, first.new_range().start..last.new_range().end);
        text += &format!("@@ -{},{} +{},{} @@\n", old.start + 1, old.len(), new.start + 1, new.len());
        for op in group {
            if matches!(op, DiffOp::Equal { .. }) {
                before[op.old_range()].iter().for_each(|line| text += &format!(" {line}\n"));
                continue;
            }
            before[op.old_range()].iter().for_each(|line| text += &format!("-{line}\n"));
            after[op.new_range()].iter().for_each(|line| text += &format!("+{line}\n"));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_difference_has_the_lines_that_changed() {
        let before: String = (1..=12).map(|line| format!("line {line}\n")).collect();
        let after = before.replace("line 6\n", "other\nmore\n");
        assert_eq!(
            unified("k.cu", &before, &after),
            "--- a/k.cu\n+++ b/k.cu\n@@ -3,7 +3,8 @@\n line 3\n line 4\n line 5\n-line 6\n+other\n+more\n line 7\n line 8\n line 9\n"
        );
        assert_eq!(unified("k.cu", &before, &before), "");
        assert!(unified("new.cuh", "", "x\n").ends_with("@@ -1,0 +1,1 @@\n+x\n"));
    }
}
