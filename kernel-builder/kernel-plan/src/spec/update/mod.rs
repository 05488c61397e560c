//! Brings build.toml of an older edition to edition 5.
//!
//! Owns: what an older edition lacks, by the rules of Hugging Face's kernels-data (config/v3.rs, v4.rs).
//! Never: changes a byte that the update does not need, and never judges the rest of the file.

use std::sync::Arc;

use crate::diagnostic::{Problem, SourceFile, has_errors};

use super::codes;
use super::read::{self, Table};
use layout::{Draft, entry};

mod layout;
mod older;

/// The edition that is written.
pub const EDITION: u64 = 5;

/// build.toml in edition 5.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Update {
    /// The edition that the file was of.
    pub from: u64,
    /// The whole new text; the old one when nothing changes.
    pub text: String,
    /// What is different, in the order of the file; empty when the file is of edition 5.
    pub changes: Vec<Change>,
}

/// One line that is different.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// Where the new line stands in the new text, from 1; for a line that is gone, where it would stand.
    pub line: usize,
    /// The line before; none when it is new.
    pub old: Option<String>,
    /// The line after; none when it is gone.
    pub new: Option<String>,
}

/// Brings `file` to edition 5. `license` is what to write where the file names none.
///
/// # Errors
///
/// What keeps the file from being updated: it is not TOML, it is of an edition that cannot be updated, or it lacks what
/// nobody but its author knows.
pub fn update(file: &Arc<SourceFile>, license: Option<&str>) -> Result<Update, Vec<Problem>> {
    let (update, problems) = read::document(file, |root| plan(root, file, license));
    match update {
        Some(update) if !has_errors(&problems) => Ok(update),
        _ => Err(problems),
    }
}

fn plan(mut root: Table<'_>, file: &Arc<SourceFile>, license: Option<&str>) -> Option<Update> {
    let mut general = root.require_table("general", "[general] with name and backends")?;
    let written = match general.node("edition") {
        Some(node) => Some(node.read::<u64>()?),
        None => None,
    };
    if written.as_ref().is_some_and(|written| written.value == EDITION) {
        return Some(Update { from: EDITION, text: file.text.clone(), changes: Vec::new() });
    }
    if let Some(newer) = written.as_ref().filter(|written| written.value > EDITION) {
        let message =
            format!("build.toml is of edition {}, and this version writes edition {EDITION}", newer.value);
        let problem = Problem::error(codes::EDITION, message).help("use a newer kernelwright");
        general.report(problem, &newer.span, "a newer edition");
        return None;
    }
    let name = general.require::<String>("name", "name = \"fast-norm\"");
    older::refuse(&mut root, &mut general);
    let has_version = general.node("version").is_some();
    let has_license = general.node("license").is_some();
    let has_framework = FRAMEWORKS.iter().any(|name| root.node(name).is_some());
    if !has_license && license.is_none() {
        let problem =
            Problem::error(codes::MISSING_KEY, "`general` has no `license`, which edition 5 requires")
                .help("add it under [general], or give it: kernelwright update --license Apache-2.0");
        general.report(problem, &general.place(), "`license` is missing");
    }
    name?;

    let document = toml_edit::Document::parse(file.text.as_str()).ok();
    let section = document.as_ref().and_then(|document| document.get("general"));
    let Some(mut anchor) = section.and_then(|section| entry(section, "name")) else {
        let problem = Problem::error(codes::SYNTAX, "`general.name` stands in a way that cannot be edited")
            .help("write it as `name = \"...\"` under [general]");
        general.report(problem, &general.place(), "in this section");
        return None;
    };
    let mut draft = Draft::new(&file.text);
    let mut missing = Vec::new();
    if has_version {
        anchor = section.and_then(|section| entry(section, "version")).unwrap_or(anchor);
    } else {
        // The default of Hugging Face's update.
        missing.push(("version", "1".to_owned()));
    }
    match &written {
        Some(written) => draft.replace(written.span.clone(), EDITION.to_string()),
        None => missing.push(("edition", EDITION.to_string())),
    }
    if let Some(license) = license.filter(|_| !has_license) {
        missing.push(("license", toml::Value::from(license).to_string()));
    }
    if !missing.is_empty() {
        draft.add_after(&anchor, &missing);
    }
    if !has_framework {
        draft.add_section("torch-noarch");
    }
    let (text, changes) = draft.finish();
    let complete = has_version && has_license && has_framework;
    let from = written.map_or(if complete { 4 } else { 3 }, |written| written.value);
    Some(Update { from, text, changes })
}

/// The sections of which edition 5 wants one.
const FRAMEWORKS: [&str; 3] = ["torch", "torch-noarch", "tvm-ffi"];
