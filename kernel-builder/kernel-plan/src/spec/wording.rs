//! Problems as several rules put them.
//!
//! Owns: lists of versions, ranges without a variant, problems that repeat. Never: decides what a problem is.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::diagnostic::{Problem, SourceFile, in_words};
use crate::spec::build::VersionRange;
use crate::units::Version;

/// How many problems of one kind are told of one source. More are the same mistake, and would bury the rest.
pub(super) const MOST_OF_A_KIND: usize = 50;

/// Without those that point where an earlier one points, as a file may be compiled several times; and of each file the
/// first ones, the last of which says how many there are more. All are of one rule.
pub(super) fn once(mut problems: Vec<Problem>) -> Vec<Problem> {
    problems.sort_by_key(Problem::offset);
    let mut told = BTreeSet::new();
    let mut counts = BTreeMap::new();
    problems.retain(|problem| {
        let name = problem.source.as_ref().map(|file| file.name.clone());
        let new = told.insert((name.clone(), problem.offset()));
        let count = counts.entry(name).or_insert(0_usize);
        *count += usize::from(new);
        new && *count <= MOST_OF_A_KIND
    });
    for (name, count) in counts.into_iter().filter(|(_, count)| *count > MOST_OF_A_KIND) {
        let mut of_file = problems.iter_mut().rev();
        let last = of_file.find(|problem| problem.source.as_ref().map(|file| &file.name) == name.as_ref());
        if let Some(last) = last {
            last.message += &format!(", and {} more of this kind in the file", count - MOST_OF_A_KIND);
        }
    }
    problems
}

/// Versions in one line: `12.6, 12.8 and 13.0`.
pub(super) fn list(versions: &[Version]) -> String {
    in_words(&versions.iter().map(ToString::to_string).collect::<Vec<_>>())
}

/// An error for a range that no version of `what` lies in; `None` where the range has no bound or excludes itself.
pub(super) fn range_problem(
    code: &'static str,
    what: &str,
    file: &Arc<SourceFile>,
    range: &VersionRange,
) -> Option<Problem> {
    let (bounds, labels) = match (&range.min, &range.max) {
        (Some(min), Some(max)) if min.value > max.value => return None,
        (Some(min), Some(max)) if min.value == max.value => (format!("{}", min.value), vec![min, max]),
        (Some(min), Some(max)) => (format!("{} to {}", min.value, max.value), vec![min, max]),
        (Some(min), None) => (format!("{} or later", min.value), vec![min]),
        (None, Some(max)) => (format!("{} or earlier", max.value), vec![max]),
        (None, None) => return None,
    };
    let mut problem = Problem::error(code, format!("no variant is built for {what} {bounds}"));
    for bound in labels {
        problem = problem.at(file, &bound.span, "this bound");
    }
    Some(problem)
}
