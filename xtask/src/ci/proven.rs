//! The items that have passed, by digest: .ci/proven.toml, which is committed, and target/ci/passed.toml of this tree.
//!
//! Owns: both files, and which items a run leaves out. Never: computes a digest.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use super::sections::{self, Sections};

/// Digests by step and item.
pub(crate) type Digests = BTreeMap<(String, String), String>;

/// The committed file, from the root.
pub(crate) const FILE: &str = ".ci/proven.toml";
/// The items that passed in this tree.
const PASSED: &str = "target/ci/passed.toml";
/// In the place of a digest: the item failed. It is not recorded, whatever passed before with the same digest.
pub(crate) const FAILED: &str = "failed";
/// An unchanged item runs in one of so many successive commits.
const ROTATION: usize = 3;

const HEADER: &str = "\
# Items of CI that passed, each with the digest of the files that it is about (xtask/src/ci/inputs.rs).
# `.ci/run` leaves out two thirds of the items whose digest is still the same; `.ci/full` leaves out nothing.
# Written by `cargo xtask ci --record`; do not edit.
";
const PASSED_HEADER: &str = "# Items of CI that passed in this tree. Written by `cargo xtask ci`.\n";

/// The part of a step's items that a run takes.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Choice {
    /// Items to run, in their order.
    pub(crate) run: Vec<String>,
    /// Unchanged items that are not run.
    pub(crate) left_out: Vec<String>,
    /// Number of items that are unchanged, run or not.
    pub(crate) unchanged: usize,
}

/// Whether it is the turn of the item at `index`, in a step that begins `turn` commits later than others. Of three
/// successive counts of commits, each item has its turn at exactly one.
fn has_its_turn(index: usize, turn: usize, commits: usize) -> bool {
    (index + turn + commits).is_multiple_of(ROTATION)
}

/// Leaves out the unchanged items of a step whose turn it is not.
pub(crate) fn choose(items: &[(String, bool)], turn: usize, commits: usize) -> Choice {
    let mut choice = Choice { run: Vec::new(), left_out: Vec::new(), unchanged: 0 };
    for (index, (item, unchanged)) in items.iter().enumerate() {
        choice.unchanged += usize::from(*unchanged);
        let runs = !unchanged || has_its_turn(index, turn, commits);
        if runs { &mut choice.run } else { &mut choice.left_out }.push(item.clone());
    }
    choice
}

/// The committed table.
///
/// # Errors
/// It cannot be read.
pub(crate) fn read(root: &Path) -> Result<Sections, String> {
    sections::read(&root.join(FILE))
}

/// The digest of an item in a table.
pub(crate) fn digest<'a>(table: &'a Sections, step: &str, item: &str) -> Option<&'a str> {
    table.get(step)?.get(item).map(String::as_str)
}

/// The items that passed in this tree; the file follows at once, so that an interrupted run loses nothing.
pub(crate) struct Passed {
    path: PathBuf,
    table: Mutex<Sections>,
}

impl Passed {
    /// Reads what earlier runs in this tree left. A damaged file counts as none.
    pub(crate) fn open(root: &Path) -> Self {
        let path = root.join(PASSED);
        let table = Mutex::new(sections::read(&path).unwrap_or_default());
        Self { path, table }
    }

    /// Adds an item with the digest that passed, or with `FAILED`.
    ///
    /// # Errors
    /// The file cannot be written.
    pub(crate) fn add(&self, step: &str, item: &str, digest: &str) -> Result<(), String> {
        let mut table = self.table.lock().unwrap_or_else(PoisonError::into_inner);
        table.entry(step.to_owned()).or_default().insert(item.to_owned(), digest.to_owned());
        sections::write(&self.path, PASSED_HEADER, &table)
    }

    /// Whether an item failed when it last ran in this tree.
    pub(crate) fn has_failed(&self, step: &str, item: &str) -> bool {
        let table = self.table.lock().unwrap_or_else(PoisonError::into_inner);
        digest(&table, step, item) == Some(FAILED)
    }

    /// Writes the committed table: the items whose current digest passed, in this tree or as committed before. Returns
    /// their number.
    ///
    /// # Errors
    /// A file cannot be read or written.
    pub(crate) fn record(&self, root: &Path, current: &Digests) -> Result<usize, String> {
        let before = read(root)?;
        let table = merged(&self.table.lock().unwrap_or_else(PoisonError::into_inner), &before, current);
        sections::write(&root.join(FILE), HEADER, &table)?;
        Ok(table.values().map(|items| items.len()).sum())
    }
}

/// The items whose current digest is in one of two tables.
fn merged(passed: &Sections, before: &Sections, current: &Digests) -> Sections {
    let mut table = Sections::new();
    for ((step, item), now) in current {
        let failed = digest(passed, step, item) == Some(FAILED);
        if !failed && [passed, before].iter().any(|known| digest(known, step, item) == Some(now)) {
            table.entry(step.clone()).or_default().insert(item.clone(), now.clone());
        }
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ci::steps;
    use crate::repo;

    #[test]
    fn each_unchanged_item_runs_once_in_three_successive_commits() {
        for turn in 0..3 {
            for commits in 0..7 {
                for index in 0..10 {
                    let runs = (commits..commits + 3).filter(|count| has_its_turn(index, turn, *count));
                    assert_eq!(runs.count(), 1, "{index} {turn} {commits}");
                }
            }
        }
    }

    #[test]
    fn changed_items_always_run() {
        let items: Vec<(String, bool)> = [("a", true), ("b", false), ("c", true), ("d", true)]
            .map(|(name, same)| (name.to_owned(), same))
            .into();
        let choice = choose(&items, 0, 0);
        assert_eq!((choice.run, choice.unchanged), (vec!["a".into(), "b".into(), "d".into()], 3));
        assert_eq!(choice.left_out, ["c"]);
        assert_eq!(choose(&items, 0, 1).run, ["b", "c"]);
        assert_eq!(choose(&items, 1, 0).run, ["b", "c"]);
    }

    #[test]
    fn only_current_digests_are_recorded() {
        let table = |digests: &[(&str, &str)]| {
            let values = digests.iter().map(|(item, digest)| ((*item).to_owned(), (*digest).to_owned()));
            Sections::from([("cheats".to_owned(), values.collect())])
        };
        let current: Digests = [("new", "1"), ("old", "2"), ("stale", "3"), ("never", "4"), ("failed", "5")]
            .map(|(item, digest)| (("cheats".to_owned(), item.to_owned()), digest.to_owned()))
            .into();
        let passed = table(&[("new", "1"), ("stale", "0"), ("failed", FAILED)]);
        let before = table(&[("old", "2"), ("gone", "6"), ("failed", "5")]);
        let found = merged(&passed, &before, &current);
        assert_eq!(found, table(&[("new", "1"), ("old", "2")]));
    }

    #[test]
    fn the_committed_table_names_steps_and_items_that_exist() {
        let root = repo::root();
        for (name, items) in read(&root).unwrap() {
            let step = steps::STEPS.iter().find(|step| step.name == name && step.turn.is_some());
            let step =
                step.unwrap_or_else(|| panic!("{FILE}: `{name}` is not a step with items to leave out"));
            let there = steps::items(step, &root).unwrap();
            for item in items.keys() {
                assert!(there.contains(item), "{FILE}: `{item}` is not an item of the step {name}");
            }
        }
    }
}
