//! The meanings of diagnostic codes, read from the pages of docs/reference/codes.
//!
//! Owns: the entries and the search for one. Never: prints; `commands` does.

use miette::Diagnostic;
use serde::Serialize;
use thiserror::Error;

use crate::base::nearest;
use crate::exit::{self, StageError};

/// The pages that people read, one for each stage. `cargo xtask tidy` compares them with the sources.
const PAGES: &[&str] = &[
    include_str!("../../docs/reference/codes/base.md"),
    include_str!("../../docs/reference/codes/spec.md"),
    include_str!("../../docs/reference/codes/plan.md"),
    include_str!("../../docs/reference/codes/exchange.md"),
    include_str!("../../docs/reference/codes/variant.md"),
    include_str!("../../docs/reference/codes/scaffold.md"),
    include_str!("../../docs/reference/codes/toolchain.md"),
    include_str!("../../docs/reference/codes/compile.md"),
    include_str!("../../docs/reference/codes/verify.md"),
    include_str!("../../docs/reference/codes/lint.md"),
    include_str!("../../docs/reference/codes/agent.md"),
    include_str!("../../docs/reference/codes/bench.md"),
    include_str!("../../docs/reference/codes/selftest.md"),
    include_str!("../../docs/reference/codes/serve.md"),
    include_str!("../../docs/reference/codes/archive.md"),
    include_str!("../../docs/reference/codes/hub.md"),
    include_str!("../../docs/reference/codes/package.md"),
    include_str!("../../docs/reference/codes/publish.md"),
    include_str!("../../docs/reference/codes/load.md"),
];

/// How many similar codes are offered for one that does not exist.
const OFFERED: usize = 4;

/// A diagnostic code.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Entry {
    /// `verify::guard`.
    pub code: &'static str,
    /// One line of Markdown.
    pub meaning: &'static str,
    /// Cause, example and fix, as Markdown.
    pub details: Option<&'static str>,
}

impl Entry {
    /// The stage that says it: `verify`.
    pub fn stage(&self) -> &'static str {
        self.code.split_once("::").map_or(self.code, |(stage, _)| stage)
    }
}

/// A code that does not exist.
#[derive(Debug, Error, Diagnostic)]
#[error("there is no diagnostic code `{asked}`")]
#[diagnostic(code(base::unknown_code), help("{}", help(.similar)))]
pub struct UnknownCode {
    asked: String,
    similar: Vec<&'static str>,
}

impl StageError for UnknownCode {
    fn exit(&self) -> u8 {
        exit::USAGE
    }
}

fn help(similar: &[&str]) -> String {
    let list = "`kernelwright explain` lists all codes";
    if similar.is_empty() { list.to_owned() } else { format!("similar: {}; {list}", similar.join(", ")) }
}

/// Every code, in the order of the pages.
pub fn all() -> Vec<Entry> {
    let lines = PAGES.iter().flat_map(|page| page.lines());
    let rows = lines.filter_map(|line| line.strip_prefix("| `")?.split_once("` | "));
    rows.map(|(code, rest)| Entry {
        code,
        meaning: rest.trim_end().trim_end_matches('|').trim_end(),
        details: details(code),
    })
    .collect()
}

/// The text below the heading of a code.
fn details(code: &str) -> Option<&'static str> {
    let heading = format!("\n## `{code}`\n");
    let (_, rest) = PAGES.iter().find_map(|page| page.split_once(&heading))?;
    let end = rest.find("\n#").unwrap_or(rest.len());
    Some(rest[..end].trim())
}

/// The entries that a text names: a code, the name of a code without its stage, or a stage, for all of its codes.
///
/// # Errors
/// It names none.
pub fn find(asked: &str) -> Result<Vec<Entry>, UnknownCode> {
    let mut entries = all();
    let lower = asked.to_lowercase();
    let names = |entry: &Entry| {
        entry.code == lower
            || entry.stage() == lower
            || entry.code.split_once("::").is_some_and(|(_, name)| name == lower)
    };
    if entries.iter().any(names) {
        entries.retain(names);
        return Ok(entries);
    }
    let similar = nearest::alike(&lower, entries.iter().map(|entry| entry.code), OFFERED);
    Err(UnknownCode { asked: asked.to_owned(), similar })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_is_an_entry_and_every_heading_belongs_to_one() {
        let entries = all();
        assert!(entries.len() > 300, "{}", entries.len());
        for entry in &entries {
            assert!(!entry.meaning.is_empty() && !entry.meaning.contains('|'), "{entry:?}");
            assert!(entry.details.is_some(), "`{}` has no cause, example and fix", entry.code);
        }
        let lines = PAGES.iter().flat_map(|page| page.lines());
        let headings = lines.filter_map(|line| line.strip_prefix("## `")?.strip_suffix('`'));
        for code in headings {
            let entry = entries.iter().find(|entry| entry.code == code);
            let text = entry.and_then(|entry| entry.details).unwrap_or_else(|| panic!("`{code}` has no row"));
            for part in ["**Cause.**", "**Example.**", "**Fix.**"] {
                assert!(text.contains(part), "`{code}` has no {part}");
            }
        }
    }

    #[test]
    fn every_page_is_read() {
        let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/reference/codes");
        assert_eq!(crate::base::files::walk(&folder, |_| true).unwrap().len(), PAGES.len());
    }

    #[test]
    fn a_code_its_name_and_a_stage_are_found() {
        assert_eq!(find("verify::guard").unwrap()[0].code, "verify::guard");
        assert_eq!(find("VERIFY::Guard").unwrap()[0].code, "verify::guard");
        assert_eq!(find("stream_escape").unwrap()[0].code, "bench::stream_escape");
        assert!(find("bench").unwrap().iter().all(|entry| entry.stage() == "bench"));
    }

    #[test]
    fn a_slip_of_the_pen_is_answered_with_the_code() {
        let slip = "verify::guard".replace("ua", "au");
        let error = find(&slip).unwrap_err();
        assert!(error.similar.contains(&"verify::guard"), "{error:?}");
        assert!(find("nonsense").unwrap_err().similar.is_empty());
    }
}
