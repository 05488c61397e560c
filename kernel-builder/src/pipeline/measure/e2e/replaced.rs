//! What packages would replace in a model.
//!
//! Owns: the table. Never: compares anything; e2e/replaced.py does.

use serde_json::Value;

use super::{Job, ModelRun, has_gpu, packages, process, python, source, table};
use crate::base::session::Session;
use crate::exit::Failure;
use crate::pipeline::judge::Judging;
use crate::pipeline::project::selection::Selection;

/// Builds and judges the projects, and puts them into the model; a line for each package and one for the numbers, as
/// e2e/replaced.py writes them.
///
/// # Errors
/// There is no such model, or a project does not build or is refused.
pub(crate) fn replaced(
    run: &ModelRun,
    selection: &Selection,
    judging: &Judging,
    session: &Session,
) -> Result<Vec<Value>, Failure> {
    let from = source(&run.model)?;
    let python = python(session)?;
    let on_gpu = selection.backend.as_deref() != Some("cpu") && has_gpu(&python);
    let job = Job {
        packages: packages(&run.kernels, selection, on_gpu, judging, &python, session)?,
        ..Job::new(&run.model, from, run.small, &run.dtype, on_gpu, &run.phases)?
    };
    process("replaced.py", &job, &python, |_, _| (), session)
}

/// The lines as a table for people.
pub(crate) fn summary(lines: &[Value]) -> String {
    let Some((numbers, packages)) = lines.split_last() else { return "there is no package\n".to_owned() };
    let mut shown = table::about(numbers) + "\n";
    for package in packages {
        let name = package["phase"].as_str().unwrap_or_default();
        if let Some(why) = package["refused"].as_str() {
            shown += &format!("{name}: {why}\n");
            continue;
        }
        let kinds = package["replaced"].as_object();
        let words: Vec<String> =
            kinds.into_iter().flatten().map(|(kind, count)| format!("{kind} ({count} times)")).collect();
        let found = if words.is_empty() { "nothing".to_owned() } else { words.join(", ") };
        shown += &format!("{name}: replaces {found}\n");
        for left in package["left"].as_array().into_iter().flatten() {
            let modules: Vec<&str> =
                left["modules"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
            let others =
                if modules.len() > 1 { format!(" and {} more", modules.len() - 1) } else { String::new() };
            shown += &format!(
                "  leaves {}{others}: {}\n",
                modules.first().unwrap_or(&""),
                left["reason"].as_str().unwrap_or_default()
            );
        }
    }
    if numbers["eager"].is_object() {
        shown += &table::numbers(numbers);
    }
    shown
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_table_has_what_is_replaced_and_why_the_rest_is_left() {
        let lines = [
            json!({ "phase": "my-norm", "replaced": { "Qwen3RMSNorm": 9, "part of Layer": 2 }, "refused": null,
                    "left": [{ "modules": ["model.norm", "model.last"], "reason": "its results differ by 1.0e-1" }] }),
            json!({ "phase": "other", "replaced": {}, "left": [], "refused": null }),
            json!({ "phase": "integers", "replaced": {}, "left": [], "refused": "it has no `inject`" }),
            json!({ "phase": "numbers", "model": "qwen3-8b", "small": true, "dtype": "bfloat16", "device": "cpu",
                    "torch": "2.11.0", "eager": { "error": 0.01 }, "kernels": { "error": 0.009 }, "within": true }),
        ];
        let shown = "\
qwen3-8b (small), bfloat16, cpu, torch 2.11.0
my-norm: replaces Qwen3RMSNorm (9 times), part of Layer (2 times)
  leaves model.norm and 1 more: its results differ by 1.0e-1
other: replaces nothing
integers: it has no `inject`
off from float32, of the norm: 1.00e-2 as it is, 9.00e-3 with kernels
";
        assert_eq!(summary(&lines), shown);
    }
}
