//! Describes the project that was made from a user's function, for people and as JSON.
//!
//! Owns: the words that `new` and `make` share. Never: finds or writes anything.

use serde_json::{Value, json};

use crate::scaffold::adopt;
use crate::scaffold::fit::Unfit;
use crate::scaffold::translated::Translated;

use super::tracing::{ReferenceProject, TemplateMatch};

/// Describes the project for people. Every line ends with a line break.
pub(crate) fn sentences(found: &ReferenceProject) -> String {
    match found {
        ReferenceProject::Matched(matched) => matching(matched),
        ReferenceProject::Translated(translated, unfit) => translation(translated, unfit.as_ref()),
    }
}

/// Describes the project as JSON.
pub(crate) fn facts(found: &ReferenceProject) -> Value {
    match found {
        ReferenceProject::Matched(matched) => json!(adopt::facts(&matched.fit)),
        ReferenceProject::Translated(translated, unfit) => json!({
            "translated": translated.function,
            "kernels": translated.table(),
            "notes": translated.notes,
            "nearest": unfit.as_ref().and_then(|unfit| unfit.nearest.clone()),
            "why": unfit.as_ref().map(|unfit| unfit.why.clone()),
        }),
    }
}

/// Describes a template that matches the function.
fn matching(matched: &TemplateMatch) -> String {
    let TemplateMatch { fit, function, .. } = matched;
    let mut text = format!(
        "{function} is {}: over {} sets of inputs it differs by at most {:.1e} in float64\n",
        fit.template, fit.sets, fit.deviation
    );
    text += &fit.form.as_ref().map(|form| format!("  form: {form}\n")).unwrap_or_default();
    for (own, argument) in &fit.arguments {
        text += &format!("  your `{own}` is {argument}\n");
    }
    for (scalar, value) in &fit.defaults {
        text += &format!("  `{scalar}` is {value} by default\n");
    }
    for note in &fit.notes {
        text += &format!("  {note}\n");
    }
    let kept = adopt::KEPT;
    text + &match &fit.keeps_template {
        None => format!("  the kernel is verified against your function, in {kept}\n"),
        Some(why) => format!(
            "  the kernel is verified against the template's reference, since {why}; your file is {kept}\n"
        ),
    }
}

/// Describes the kernels that the function was translated into.
fn translation(translated: &Translated, unfit: Option<&Unfit>) -> String {
    let function = &translated.function;
    let mut text = match unfit {
        Some(Unfit { nearest, why, .. }) => {
            let nearest = nearest.as_ref().map(|name| format!("the nearest is {name}: ")).unwrap_or_default();
            format!("no template matches {function}, so it is translated\n  {nearest}{why}\n")
        }
        None => format!("{function} is translated\n"),
    };
    for line in translated.table().iter().chain(&translated.notes) {
        text += &format!("  {line}\n");
    }
    text + "  the kernel is verified against your function, in reference.py; plan.md explains it\n  \
            a coding agent can replace it as a whole: `kernelwright fill DIR --agent NAME`, or `kernelwright mcp DIR`\n"
}
