//! Brings build.toml of an older edition to edition 5.
//!
//! Owns: what an older edition lacks, by the rules of Hugging Face's kernels-data (config/v1.rs to v4.rs).
//! Never: changes a byte that the update does not need, and never judges the rest of the file.

use std::ops::Range;
use std::sync::Arc;

use toml::de::DeTable;

use crate::diagnostic::{Problem, SourceFile, has_errors};
use crate::units::License;

use super::dialect::quoted;
use super::read::{self, Table};
use super::{Edition, codes, edition};
pub use layout::Change;
use layout::{Draft, entry};

mod layout;
mod older;
mod renamed;

/// The number of the edition that is written.
const WANTED: u64 = Edition::Five.number();

/// build.toml in edition 5.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Update {
    /// The edition that the file was of.
    pub from: Edition,
    /// The whole new text; the old one when nothing changes.
    pub text: String,
    /// What is different, in the order of the file; empty when the file is of edition 5.
    pub changes: Vec<Change>,
}

/// Brings `file` to edition 5. `license` is what to write where the file names none.
///
/// # Errors
///
/// What keeps the file from being updated: it is not TOML, it is of an edition that cannot be updated, or it lacks what
/// nobody but its author knows.
pub fn update(file: &Arc<SourceFile>, license: Option<&License>) -> Result<Update, Vec<Problem>> {
    let (update, problems) = read::document(file, |root| plan(root, file, license));
    match update {
        Some(update) if !has_errors(&problems) => Ok(update),
        _ => Err(problems),
    }
}

fn plan(mut root: Table<'_>, file: &Arc<SourceFile>, license: Option<&License>) -> Option<Update> {
    let mut general = root.require_table("general", "[general] with name and backends")?;
    let number = match general.node("edition") {
        Some(node) => Some(node.read::<u64>()?),
        None => None,
    };
    let Some(from) = edition(&file.text).filter(|found| *found <= Edition::Five) else {
        let span = number.as_ref().map_or_else(|| general.place(), |number| number.span.clone());
        let found =
            number.map_or_else(|| "another edition".to_owned(), |number| format!("edition {}", number.value));
        let message =
            format!("build.toml uses {found}, but this version of kernelwright reads editions 1 to {WANTED}");
        let problem =
            Problem::error(codes::EDITION, message).help("update kernelwright to read a newer edition");
        general.report(problem, &span, "not one of them");
        return None;
    };
    if from == Edition::Five {
        return Some(Update { from, text: file.text.clone(), changes: Vec::new() });
    }
    let name = general.require::<String>("name", "name = \"fast-norm\"");
    let has_license = general.node("license").is_some();
    // From edition 4 on it was required: there, its absence is a mistake of its own, and so are those below.
    if !has_license && license.is_none() && from <= Edition::Three {
        let problem =
            Problem::error(codes::MISSING_KEY, "`general` has no `license`, which edition 5 requires")
                .help("add it under [general], or give it: kernelwright update --license Apache-2.0");
        general.report(problem, &general.place(), "`license` is missing");
    }
    name?;
    let license = license.filter(|_| !has_license);
    let (text, changes) = rewrite(&general, file, from, number.map(|number| number.span), license)
        .filter(|(text, _)| DeTable::parse(text).is_ok())
        .or_else(|| {
            let message = "the keys of edition 5 cannot be added to the file in its present form";
            let problem = Problem::error(codes::EDITION, message)
                .help("write its tables as sections, [general] and [kernel.NAME], and try again");
            general.report(problem, &general.place(), "a section, or the tables below it");
            None
        })?;
    Some(Update { from, text, changes })
}

/// The new text. `None`: something has no place of its own in the text.
fn rewrite(
    general: &Table<'_>,
    file: &Arc<SourceFile>,
    from: Edition,
    number: Option<Range<usize>>,
    license: Option<&License>,
) -> Option<(String, Vec<Change>)> {
    let document = toml_edit::Document::parse(file.text.as_str()).ok()?;
    let root = document.as_table();
    let section = root.get("general")?;
    let mut draft = Draft::new(&file.text);
    let mut anchor = entry(section, "name")?;
    let mut missing = Vec::new();
    if section.get("version").is_some() {
        anchor = entry(section, "version").unwrap_or(anchor);
    } else if from <= Edition::Three {
        // The default of Hugging Face's update.
        missing.push(("version", "1".to_owned()));
    }
    match number {
        Some(span) => draft.replace(span, WANTED.to_string()),
        None => missing.push(("edition", WANTED.to_string())),
    }
    missing.extend(license.map(|license| ("license", quoted(license.as_str()))));
    let backends = match from {
        Edition::One => older::edition_one(root, general, &mut draft),
        Edition::Two => older::two(root, general, &mut draft),
        _ => None,
    };
    missing.extend(backends.map(|backends| ("backends", backends)));
    renamed::name(section, &mut draft);
    renamed::dependencies(root, &mut draft);
    if !missing.is_empty() {
        draft.add_after(&anchor, &missing);
    }
    // Only in edition 3 the absence of a framework says something.
    let has_framework = ["torch", "torch-noarch", "tvm-ffi"].iter().any(|name| root.contains_key(name));
    if !has_framework && from == Edition::Three {
        draft.add_section("torch-noarch", &[]);
    }
    Some(draft.finish())
}
