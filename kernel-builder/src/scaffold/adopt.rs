//! Puts a person's reference into the project of the template that serves it.
//!
//! Owns: the file `from_reference.py`, the defaults and the reference that op.toml then has. Never: decides what fits.

use std::collections::BTreeMap;

use kernel_plan::diagnostic::{SourceFile, has_errors};
use kernel_plan::spec::parse_op;
use serde_json::Value;

use super::fit::Fit;
use super::settings::{OP, contract, spliced};
use super::template::Template;
use super::{FileSet, ScaffoldError};

/// Where the person's file is kept.
pub const KEPT: &str = "from_reference.py";

/// Adds the person's file to a rendered project, and lets op.toml speak of it.
///
/// # Errors
/// A value of the person's is one that op.toml does not admit; a defect of the template.
pub fn adopt(
    template: &Template,
    fit: &Fit,
    function: &str,
    text: &str,
    files: &mut FileSet,
) -> Result<(), ScaffoldError> {
    let (contract_text, op) = contract(template, files, OP)?;
    let mut edits = Vec::new();
    for scalar in &op.scalars {
        if let Some(value) = fit.defaults.get(scalar.name.value.as_str()) {
            edits.push((scalar.default.span.clone(), written(value)));
        }
    }
    let mut kept = text.to_owned();
    if fit.keeps_template.is_none() {
        edits.push((op.reference.file.span.clone(), format!("{KEPT:?}")));
        edits.push((op.reference.function.span.clone(), format!("{function:?}")));
        if let Some(fused) = &op.reference.fused {
            let reference = files.get(op.reference.file.value.as_str()).unwrap_or_default();
            let reference = String::from_utf8_lossy(reference).into_owned();
            let found = function_text(&reference, fused.value.as_str())
                .ok_or_else(|| template.defect(format!("its reference has no function `{}`", fused.value)))?;
            if function_text(text, fused.value.as_str()).is_none() {
                kept += &format!(
                    "\n\n# From the template {}.\nimport torch  # noqa: E402\n\n\n{found}",
                    template.name
                );
            }
        }
    }
    let new = spliced(&contract_text, edits);
    let (_, problems) = parse_op(SourceFile::new(OP, new.clone()));
    if has_errors(&problems) {
        let set = fit.defaults.iter().map(|(name, value)| format!("{name}={value}")).collect();
        let problem = problems.first().map(|problem| problem.message.clone()).unwrap_or_default();
        return Err(ScaffoldError::Inadmissible { set, problem });
    }
    files.insert(OP, new)?;
    files.insert(KEPT, kept)
}

/// A number as TOML writes it.
fn written(value: &Value) -> String {
    match value.as_f64() {
        Some(number) if value.is_f64() => format!("{number:?}"),
        _ => value.to_string(),
    }
}

/// The text of a top-level function of a Python file, to the next line that is not indented.
fn function_text(file: &str, name: &str) -> Option<String> {
    let head = format!("def {name}(");
    let mut lines = file.lines().skip_while(|line| !line.starts_with(&head));
    let first = lines.next()?;
    let is_inside = |line: &&str| line.is_empty() || line.starts_with([' ', '\t', ')']);
    let body: Vec<&str> = lines.take_while(is_inside).collect();
    Some(format!("{first}\n{}\n", body.join("\n").trim_end()))
}

/// What of the match is for a program.
pub fn facts(fit: &Fit) -> BTreeMap<&'static str, Value> {
    let reference = if fit.keeps_template.is_none() { "yours" } else { "the template's" };
    BTreeMap::from([
        ("form", serde_json::json!(fit.form)),
        ("arguments", serde_json::json!(fit.arguments)),
        ("defaults", serde_json::json!(fit.defaults)),
        ("deviation", serde_json::json!(fit.deviation)),
        ("sets", serde_json::json!(fit.sets)),
        ("notes", serde_json::json!(fit.notes)),
        ("reference", serde_json::json!(reference)),
        ("keeps_template", serde_json::json!(fit.keeps_template)),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scaffold::{serves, template};

    fn fitting(template: &str, keeps: Option<&str>, defaults: &[(&str, Value)]) -> Fit {
        Fit {
            template: template.to_owned(),
            form: None,
            arguments: Vec::new(),
            defaults: defaults.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect(),
            deviation: 0.0,
            sets: 32,
            notes: Vec::new(),
            keeps_template: keeps.map(str::to_owned),
        }
    }

    #[test]
    fn the_own_reference_takes_the_place_and_keeps_the_fused_baseline() {
        let mut served = serves::served(template::find("layer-norm").unwrap()).unwrap();
        let text = "import torch\n\n\ndef mine(input, weight, bias, eps=1e-6):\n    return input\n";
        let fit = fitting("layer-norm", None, &[("eps", Value::from(1e-5))]);
        adopt(&served.template, &fit, "mine", text, &mut served.files).unwrap();
        let (new, op) = contract(&served.template, &served.files, OP).unwrap();
        assert_eq!(op.reference.file.value.as_str(), KEPT);
        assert_eq!(op.reference.function.value.as_str(), "mine");
        assert!(new.contains("eps = { type = \"float\", default = 1e-5 }"), "{new}");
        let kept = String::from_utf8(served.files.get(KEPT).unwrap().to_vec()).unwrap();
        assert!(kept.starts_with(text), "{kept}");
        assert!(kept.contains("def layer_norm_fused(\n") && kept.ends_with("bias, eps)\n"), "{kept}");
    }

    #[test]
    fn the_templates_reference_stays_where_it_must() {
        let mut served = serves::served(template::find("geglu").unwrap()).unwrap();
        let fit = fitting("geglu", Some("yours is a module"), &[("tanh", Value::from(false))]);
        adopt(&served.template, &fit, "mine", "x = 1\n", &mut served.files).unwrap();
        let (new, op) = contract(&served.template, &served.files, OP).unwrap();
        assert_eq!(op.reference.file.value.as_str(), "reference.py");
        assert!(new.contains("tanh = { type = \"bool\", default = false }"), "{new}");
        assert_eq!(served.files.get(KEPT), Some(b"x = 1\n".as_slice()));
    }
}
