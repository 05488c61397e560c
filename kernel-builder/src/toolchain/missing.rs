//! Packages to fetch, and their size.
//!
//! Owns: the words. Never: fetches.

/// Something to fetch.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Missing {
    /// Name and version.
    what: String,
    /// About how much there is to fetch.
    megabytes: u32,
}

impl Missing {
    pub(super) fn new(what: String, megabytes: u32) -> Self {
        Self { what, megabytes }
    }
}

/// The most names in one line.
const NAMED: usize = 5;

/// All of it in one line: the first names, and how many more there are.
pub(super) fn listed(missing: &[Missing]) -> String {
    let each = missing.iter().map(|Missing { what, megabytes }| format!("{what} ({megabytes} MB)"));
    let all: u32 = missing.iter().map(|missing| missing.megabytes).sum();
    let more = match missing.len().saturating_sub(NAMED) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let together = if missing.len() > 1 { format!("; {all} MB together") } else { String::new() };
    format!("{}{more}{together}", each.take(NAMED).collect::<Vec<_>>().join(", "))
}

/// How much there is to fetch, behind its name.
pub(super) fn to_fetch(megabytes: Option<u32>) -> String {
    megabytes
        .map(|megabytes| format!(" (about {megabytes} MB to fetch, more when unpacked)"))
        .unwrap_or_default()
}
