//! The step `cheats`: kernels that must be refused, each by its own code, and honest ones that must pass.
//!
//! Owns: which kernels, and which of them the report complains of. Never: judges; `kernelwright selftest` does.

use std::path::Path;

use super::folders;
use super::run::Run;
use crate::talk;

const FOLDER: &str = "tests/cheats";
/// The folder of the honest ones, in the other.
const HONEST: &str = "honest";

/// The kernels that need no GPU, as `kernelwright selftest --list` names them.
pub(crate) fn items(root: &Path) -> Result<Vec<String>, String> {
    let mut items = Vec::new();
    for folder in [root.join(FOLDER), root.join(FOLDER).join(HONEST)] {
        let names = folders::folders(&folder)?.into_iter().filter(|name| {
            let about = folder.join(name).join("cheat.toml");
            about.is_file() && !folders::has_line(&about, "ring = \"gpu")
        });
        items.extend(names);
    }
    Ok(items)
}

/// Judges all in one process.
pub(crate) fn run(run: &Run<'_>) -> Result<Vec<String>, String> {
    let mut command =
        run.site.ready.kernelwright(&["selftest", "--jobs", &talk::processors().to_string()])?;
    if !run.complete {
        command.args(&run.items);
    }
    let (text, outcome) = talk::Talk::Live.heard(&mut command);
    let wrong: Vec<String> = run.items.iter().filter(|item| is_wrong(&text, item)).cloned().collect();
    if wrong.is_empty() {
        outcome?;
        let judged = judged(&text);
        if judged < run.items.len() {
            return Err(format!("`selftest` judged {judged} kernels instead of {}", run.items.len()));
        }
    }
    for item in &run.items {
        run.note(item, !wrong.contains(item))?;
    }
    Ok(wrong)
}

/// Whether the report complains of a kernel.
fn is_wrong(report: &str, item: &str) -> bool {
    report.lines().any(|line| line.starts_with(&format!("WRONG: {item}: ")))
}

/// The number of kernels that were judged: `caught: 3 of 3 cheats` and `passed: 1 of 1 honest kernels`.
fn judged(report: &str) -> usize {
    let totals = report.lines().filter(|line| line.starts_with("caught: ") || line.starts_with("passed: "));
    let counts =
        totals.filter_map(|line| line.split_once(" of ")?.1.split(' ').next()?.parse::<usize>().ok());
    counts.sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::repo;

    #[test]
    fn the_kernels_that_need_no_gpu() {
        let items = items(&repo::root()).unwrap();
        let has = |name: &str| items.iter().any(|item| item == name);
        assert!(has("skips-tail") && has("plain-double") && !has("device-hangs") && !has("queue"));
        assert!(!has(HONEST) && !has("projects"));
    }

    #[test]
    fn totals_and_complaints() {
        let report = "WRONG: skips-tail: it passed\ncaught: 3 of 4 cheats\npassed: 2 of 2 honest kernels\n";
        assert_eq!(judged(report), 6);
        assert!(is_wrong(report, "skips-tail") && !is_wrong(report, "skips"));
    }
}
