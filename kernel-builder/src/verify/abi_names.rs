//! Lists of names with the version that each came in with.
//!
//! Owns: how such a list is read. Never: knows whose names they are.

use std::collections::BTreeMap;

use kernel_plan::units::Version;

/// Names by the version in the heading above them, as in `3.2:`. Lines that begin with `#` are comments.
pub(super) fn first_versions(list: &'static str) -> BTreeMap<&'static str, Version> {
    let mut first = BTreeMap::new();
    let mut version = None;
    for line in list.lines().filter(|line| !line.starts_with('#')) {
        match line.strip_suffix(':') {
            Some(heading) => version = heading.parse().ok(),
            None => first.extend(
                version
                    .into_iter()
                    .flat_map(|version| line.split_whitespace().map(move |name| (name, version))),
            ),
        }
    }
    first
}
