//! What a person sets: values of tunables, and choices among files.
//!
//! Owns: which names and values are admitted, the new text of op.toml. Never: changes a byte that is not a default.

use std::collections::BTreeMap;
use std::ops::Range;

use kernel_plan::diagnostic::{Problem, SourceFile, has_errors};
use kernel_plan::spec::OpSpec;
use kernel_plan::spec::parse_op;

use super::hole::{Hole, Kind, last_part};
use super::template::manifest::Template;
use super::{FileSet, ScaffoldError};

/// The contract of an operation, in a project.
pub(crate) const OP: &str = "op.toml";

/// Refuses a name that is no hole, and code, which is not set on a command line.
pub(crate) fn refuse_unknown(
    template: &Template,
    set: &BTreeMap<String, String>,
) -> Result<(), ScaffoldError> {
    for name in set.keys() {
        let Some(hole) = template.holes.iter().find(|hole| hole.name == *name) else {
            let is_set = |hole: &&Hole| matches!(hole.kind, Kind::Value | Kind::Choice { .. });
            let settable = template.holes.iter().filter(is_set);
            return Err(ScaffoldError::UnknownHole {
                template: template.name.clone(),
                name: name.clone(),
                offered: settable.map(|hole| hole.name.clone()).collect(),
            });
        };
        let file = match &hole.kind {
            Kind::Code { file, .. } => last_part(file),
            Kind::Kernel { .. } => OP,
            Kind::Value | Kind::Choice { .. } => continue,
        };
        return Err(ScaffoldError::CodeHole { name: name.clone(), file: file.to_owned() });
    }
    Ok(())
}

/// The file that a choice stands for: what was set, by its name with or without an ending, or the default.
pub(crate) fn chosen(
    template: &Template,
    hole: &Hole,
    set: &BTreeMap<String, String>,
) -> Result<String, ScaffoldError> {
    let Kind::Choice { files, default, .. } = &hole.kind else {
        return Err(template.defect(format!("the hole `{}` is not a choice", hole.name)));
    };
    let Some(value) = set.get(&hole.name) else { return Ok(default.clone()) };
    let stem = |file: &str| file.split('.').next().unwrap_or(file).to_owned();
    let found = files.iter().find(|file| *file == value || stem(file) == *value);
    found.cloned().ok_or_else(|| ScaffoldError::BadHole {
        name: hole.name.clone(),
        value: value.clone(),
        problem: "it is not one of its files".to_owned(),
        admitted: files.iter().map(|file| stem(file)).collect(),
    })
}

/// Writes the values that were set into op.toml, as defaults of their tunables.
pub(crate) fn write_values(
    template: &Template,
    set: &BTreeMap<String, String>,
    files: &mut FileSet,
) -> Result<(), ScaffoldError> {
    let values: Vec<(&String, &String)> = set
        .iter()
        .filter(|(name, _)| template.holes.iter().any(|hole| hole.name == **name && hole.kind == Kind::Value))
        .collect();
    if values.is_empty() {
        return Ok(());
    }
    let (text, op) = contract(template, files, OP)?;
    let mut edits = Vec::new();
    for (name, value) in &values {
        let tunable = op.tune.tunables.iter().find(|tunable| tunable.name.value.as_str() == *name);
        let tunable = tunable.ok_or_else(|| template.defect(format!("op.toml has no tunable `{name}`")))?;
        let written: Vec<String> = tunable.values.iter().map(ToString::to_string).collect();
        if !written.contains(value) {
            return Err(ScaffoldError::BadHole {
                name: (*name).clone(),
                value: (*value).clone(),
                problem: "it is not one of its values".to_owned(),
                admitted: written,
            });
        }
        edits.push((tunable.default.span.clone(), (*value).clone()));
    }
    let text = spliced(&text, edits);
    let problems = problems_of(&text);
    if let Some(problem) = problems.first() {
        let together: Vec<String> = values.iter().map(|(name, value)| format!("{name}={value}")).collect();
        return Err(ScaffoldError::Inadmissible { set: together, problem: problem.clone() });
    }
    files.insert(OP, text)
}

/// op.toml of rendered files, or a file like it, as text and as read.
pub(crate) fn contract(
    template: &Template,
    files: &FileSet,
    file: &str,
) -> Result<(String, OpSpec), ScaffoldError> {
    let bytes = files.get(file).ok_or_else(|| template.defect(format!("it does not write {file}")))?;
    let text = String::from_utf8_lossy(bytes).into_owned();
    let (op, problems) = parse_op(SourceFile::new(file, text.clone()));
    match op {
        Some(op) if !has_errors(&problems) => Ok((text, op)),
        _ => {
            let first = problems.first().map(|problem| problem.message.clone()).unwrap_or_default();
            Err(template.defect(format!("its {file} is not valid: {first}")))
        }
    }
}

/// What is wrong with a text of op.toml, each problem in one line.
fn problems_of(text: &str) -> Vec<String> {
    let (_, problems) = parse_op(SourceFile::new(OP, text));
    let errors = problems.iter().filter(|problem| has_errors(std::slice::from_ref(*problem)));
    errors.map(|problem: &Problem| problem.message.clone()).collect()
}

/// A text with other words at some places.
pub(crate) fn spliced(text: &str, mut edits: Vec<(Range<usize>, String)>) -> String {
    edits.sort_by_key(|(span, _)| std::cmp::Reverse(span.start));
    let mut text = text.to_owned();
    for (span, word) in edits {
        text.replace_range(span, &word);
    }
    text
}
