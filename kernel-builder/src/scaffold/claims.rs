//! Holds a template against its own words.
//!
//! Owns: what every hole, form and shared file must have. Never: compiles or runs anything of a template.

use std::collections::BTreeSet;

use kernel_plan::spec::OpSpec;
use kernel_plan::units::KernelName;

use super::hole::{Hole, Kind, region};
use super::template::manifest::scalar_value;
use super::template::{self, Answers, Template};
use super::{FileSet, ScaffoldError, settings};
use crate::base::causes::chain;
use crate::base::nearest;

/// A template's project under a name that is none of a template, for looking into its files.
pub(crate) fn specimen(template: &Template) -> Result<(Answers, FileSet), ScaffoldError> {
    let name: KernelName =
        "some-kernel".parse().map_err(|error| template.defect(format!("no name for a specimen: {error}")))?;
    let answers = template::sample(template, name);
    let files = template::render(template, &answers)?;
    Ok((answers, files))
}

/// The template of that name, with everything that it claims looked at.
///
/// # Errors
/// There is none, or it claims what is not so.
pub(crate) fn find(name: &str) -> Result<Template, ScaffoldError> {
    let templates = template::all()?;
    let names: Vec<String> = templates.iter().map(|template| template.name.clone()).collect();
    let found = templates.into_iter().find(|template| template.name == name).ok_or_else(|| {
        ScaffoldError::UnknownTemplate {
            name: name.to_owned(),
            hint: match nearest::alike(name, names.iter().map(String::as_str), 1).first() {
                Some(near) => format!("did you mean `{near}`? templates: {}", names.join(", ")),
                None => format!("templates: {}", names.join(", ")),
            },
        }
    })?;
    check(&found)?;
    Ok(found)
}

/// Looks at everything that `template.toml` claims.
///
/// # Errors
/// The first claim that is not so.
pub(crate) fn check(template: &Template) -> Result<(), ScaffoldError> {
    let mut names = BTreeSet::new();
    for hole in &template.holes {
        if !names.insert(&hole.name) {
            return Err(template.defect(format!("two holes are named `{}`", hole.name)));
        }
        // Before anything is rendered, which takes the default.
        of_choice(template, hole).map_err(|what| template.defect(what))?;
    }
    let (answers, files) = specimen(template)?;
    if template.holes.is_empty() && template.serves.is_empty() && template.indexes.is_empty() {
        return Ok(());
    }
    let (_, op) = settings::contract(template, &files, settings::OP)?;
    for hole in &template.holes {
        of_hole(template, hole, &answers, &files, &op).map_err(|what| template.defect(what))?;
    }
    of_forms(template, &op).map_err(|what| template.defect(what))
}

/// That every file of a choice is there, has a name of its own, and that the default is one of them.
fn of_choice(template: &Template, hole: &Hole) -> Result<(), String> {
    let Kind::Choice { from, files, default, .. } = &hole.kind else { return Ok(()) };
    let name = &hole.name;
    let missing = files.iter().find(|file| !template.files().contains_key(&format!("{from}/{file}")));
    if let Some(file) = missing {
        return Err(format!("the hole `{name}` offers `{from}/{file}`, which is not a file of the template"));
    }
    let stems: BTreeSet<_> = files.iter().map(|file| file.split('.').next()).collect();
    if stems.len() < files.len() {
        return Err(format!("two files of the hole `{name}` have the same name before the point"));
    }
    if files.contains(default) {
        return Ok(());
    }
    Err(format!("the default of the hole `{name}` is `{default}`, which is not one of its files"))
}

fn of_hole(
    template: &Template,
    hole: &Hole,
    answers: &Answers,
    files: &FileSet,
    op: &OpSpec,
) -> Result<(), String> {
    let name = &hole.name;
    match &hole.kind {
        Kind::Value => {
            let known = op.tune.tunables.iter().any(|tunable| tunable.name.value.as_str() == name);
            if known {
                Ok(())
            } else {
                Err(format!("the hole `{name}` is a value, and op.toml has no [tune.{name}]"))
            }
        }
        Kind::Choice { .. } => Ok(()),
        Kind::Code { file, contract } => {
            let path = template::path_of(template, answers, file).map_err(|error| chain(&error))?;
            let bytes = files.get(&path).ok_or_else(|| {
                format!("the hole `{name}` is in `{file}`, which the template does not write")
            })?;
            if contract.trim().is_empty() {
                return Err(format!("the hole `{name}` has an empty contract"));
            }
            let text = String::from_utf8_lossy(bytes);
            region(&text, name).map(drop).map_err(|what| format!("the hole `{name}` in `{file}`: {what}"))
        }
        Kind::Kernel { contract } if contract.trim().is_empty() => {
            Err(format!("the hole `{name}` has an empty contract"))
        }
        Kind::Kernel { .. } if op.launch.is_none() => {
            Err(format!("the hole `{name}` is a kernel, and op.toml has no [launch]"))
        }
        Kind::Kernel { .. } => Ok(()),
    }
}

fn of_forms(template: &Template, op: &OpSpec) -> Result<(), String> {
    let input = |name: &str| op.inputs.iter().find(|input| input.tensor.name.value.as_str() == name);
    let scalar = |name: &str| op.scalars.iter().any(|scalar| scalar.name.value.as_str() == name);
    for (name, indexes) in &template.indexes {
        if input(name).is_none() {
            return Err(format!("[indexes.{name}] names an input that op.toml does not have"));
        }
        if !op.axes.iter().any(|axis| axis.name.value.as_str() == indexes.axis) {
            return Err(format!(
                "[indexes.{name}] counts along `{}`, which is not an axis of op.toml",
                indexes.axis
            ));
        }
        if let Some(ignored) = indexes.ignored.as_deref().filter(|ignored| !scalar(ignored)) {
            return Err(format!("[indexes.{name}] names `{ignored}`, which is not a scalar of op.toml"));
        }
    }
    for form in &template.serves {
        if form.arguments.is_empty() {
            return Err(format!("the form \"{}\" has no arguments", form.as_words));
        }
        if let Some(name) = form.scalars.keys().find(|name| !scalar(name)) {
            return Err(format!(
                "the form \"{}\" sets `{name}`, which is not a scalar of op.toml",
                form.as_words
            ));
        }
        if let Some((name, _)) = form.scalars.iter().find(|(_, value)| scalar_value(value).is_none()) {
            return Err(format!("the form \"{}\" sets `{name}` to what is no scalar", form.as_words));
        }
        let mut without = form.without.iter().flatten();
        if let Some(name) = without.find(|name| !input(name).is_some_and(|input| input.optional)) {
            return Err(format!(
                "the form \"{}\" is without `{name}`, which is not an optional input of op.toml",
                form.as_words
            ));
        }
        if let Some(name) = form.given.keys().find(|name| input(name).is_none()) {
            return Err(format!(
                "the form \"{}\" gives `{name}`, which is not an input of op.toml",
                form.as_words
            ));
        }
        let axis = |name: &str| op.axes.iter().any(|axis| axis.name.value.as_str() == name);
        if let Some(name) = form.multiples.keys().find(|name| !axis(name)) {
            return Err(format!(
                "the form \"{}\" has multiples of `{name}`, which is not an axis of op.toml",
                form.as_words
            ));
        }
    }
    Ok(())
}
