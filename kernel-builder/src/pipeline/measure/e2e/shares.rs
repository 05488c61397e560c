//! Finds the parts of a model that kernels could compute, and creates projects for those that are worth it.
//!
//! Owns: the table, and which projects there are. Never: measures; e2e/shares.py does.

use std::path::{Path, PathBuf};

use comfy_table::presets::NOTHING;
use comfy_table::{CellAlignment, Table};
use kernel_plan::translate::Choices;
use serde_json::{Value, json};

use super::{Job, has_gpu, process, python, source};
use crate::base::files;
use crate::base::report::{self, Event};
use crate::base::session::Session;
use crate::exit::{self, Failure};
use crate::pipeline::create::tracing::{self, ReferencePath, ReferenceProject, TemplateChoice};
use crate::pipeline::create::{fresh, told};
use crate::scaffold::template;

/// What is looked at.
#[derive(Debug)]
pub(crate) struct ProfileRun {
    /// As for [`super::ModelRun`].
    pub(crate) model: String,
    /// Takes the sizes of a small model.
    pub(crate) small: bool,
    /// `bf16`, `f16` or `f32`.
    pub(crate) dtype: String,
    /// The phase; the model's first one if there is none.
    pub(crate) phases: Vec<String>,
    /// Whether the model runs on the processor, even if there is a GPU.
    pub(crate) on_cpu: bool,
}

/// A project for a part of a model.
#[derive(Debug)]
pub(crate) struct PartProject {
    /// Its folder.
    pub(crate) dir: PathBuf,
    /// What it was created from; why there is none otherwise.
    pub(crate) found: Result<Value, String>,
}

/// The parts of a model, those with the largest gain first, and the whole at the end.
///
/// # Errors
/// There is no such model, or it cannot be run.
pub(crate) fn profile(run: &ProfileRun, session: &Session) -> Result<Vec<Value>, Failure> {
    let from = source(&run.model)?;
    let python = python(session)?;
    let on_gpu = !run.on_cpu && has_gpu(&python);
    let job = Job::new(&run.model, from, run.small, &run.dtype, on_gpu, &run.phases)?;
    process("shares.py", &job, &python, |_, _| (), session)
}

/// Creates a project in `folder` for each part that is worth it. A part that can be neither is told with its reason.
///
/// # Errors
/// A file cannot be written.
pub(crate) fn projects(
    lines: &[Value],
    folder: &Path,
    session: &Session,
) -> Result<Vec<PartProject>, Failure> {
    let mut projects = Vec::new();
    for line in lines {
        let name = line["phase"].as_str().unwrap_or_default();
        if let Some(why) = line["refused"].as_str() {
            projects.push(PartProject { dir: folder.join(name), found: Err(why.to_owned()) });
        }
        let Some(text) = line["file"].as_str() else { continue };
        session.report.emit(&Event::Stage { name: "new", subject: name });
        let file = folder.join(format!("{name}.py"));
        if !file.exists() {
            files::write(&file, text)?;
        }
        let reference = ReferencePath { file, name: Some(name.to_owned()) };
        let own = reference.kernel_name()?;
        let dir = folder.join(own.as_str());
        if dir.join("build.toml").is_file() {
            session.report.note(format!("{} already has a project, which is left as it is", dir.display()));
            projects.push(PartProject { dir, found: Ok(Value::Null) });
            continue;
        }
        let found = match kernel_for(&reference, session) {
            Ok(found) => {
                fresh::of_function(&found, own, &dir, session)?;
                session.report.note(told::sentences(&found).trim_end());
                Ok(told::facts(&found))
            }
            Err(failure) if failure.exit == exit::INTERRUPTED => return Err(failure),
            // One part that cannot be a kernel keeps no other from being one.
            Err(failure) => {
                Err(failure.reports.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))
            }
        };
        projects.push(PartProject { dir, found });
    }
    Ok(projects)
}

/// The template that takes the tensors of the part as they are, else its translation.
fn kernel_for(reference: &ReferencePath, session: &Session) -> Result<ReferenceProject, Failure> {
    let found = tracing::find(reference, TemplateChoice::All(template::all()?), session)?;
    match found.matched().and_then(|matched| matched.fit.form.as_ref()) {
        None => Ok(found),
        // `inject` does not rearrange the tensors of a model.
        Some(_) => tracing::find(reference, TemplateChoice::None(Choices::default()), session),
    }
}

/// The parts as a table for people.
pub(crate) fn table(lines: &[Value], projects: &[PartProject]) -> String {
    let Some((whole, parts)) = lines.split_last() else { return "nothing was measured\n".to_owned() };
    let text = |key: &str| whole[key].as_str().unwrap_or_default().to_owned();
    let number = |line: &Value, key: &str| line[key].as_f64().unwrap_or(f64::NAN);
    let mut told = format!(
        "{}{}, {}, {}, {}, torch {}\n",
        text("model"),
        if whole["small"] == true { " (small)" } else { "" },
        text("phase"),
        text("dtype"),
        text("device"),
        text("torch"),
    );
    if parts.is_empty() {
        return told
            + "a kernel could compute no part of it: either its code has none between matrix products, convolutions and \
               attention, or that code cannot be traced\n";
    }
    let mut rows = Table::new();
    rows.load_style(NOTHING);
    rows.set_header(["part", "where", "calls", "share of time", "bytes", "at least", "model at most"]);
    for line in parts {
        rows.add_row([
            line["phase"].as_str().unwrap_or_default().to_owned(),
            line["where"].as_str().unwrap_or_default().to_owned(),
            line["calls"].to_string(),
            format!("{:.1}%", number(line, "share") * 100.0),
            report::bytes(line["moved"].as_u64().unwrap_or_default()),
            report::bytes(line["least"].as_u64().unwrap_or_default()),
            format!("{:.2}x", number(line, "at_most")),
        ]);
    }
    for column in rows.column_iter_mut() {
        column.set_padding((0, 2));
    }
    for column in 2..7 {
        if let Some(column) = rows.column_mut(column) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    told.extend(rows.lines().map(|line| format!("{}\n", line.trim_end())));
    told += &format!(
        "all parts take {:.1}% of the time; if each moved its bytes once, at the speed at which it moves them now, the model \
         would be {:.2}x as fast\n",
        number(whole, "share") * 100.0,
        number(whole, "at_most"),
    );
    let made: Vec<&PartProject> = projects.iter().filter(|project| project.found.is_ok()).collect();
    for project in projects {
        if let Err(why) = &project.found {
            told += &format!("no project {}: {why}\n", project.dir.display());
        }
    }
    if !made.is_empty() {
        told += "\nnext:\n";
        for project in &made {
            told += &format!("  kernelwright make {}\n", project.dir.display());
        }
        let dirs: Vec<String> = made.iter().map(|project| project.dir.display().to_string()).collect();
        let small = if whole["small"] == true { " --small" } else { "" };
        told += &format!("  kernelwright bench --e2e {}{small} {}\n", text("model"), dirs.join(" "));
    }
    told
}

/// The projects as JSON.
pub(crate) fn facts(projects: &[PartProject]) -> Value {
    let described = projects.iter().map(|project| match &project.found {
        Ok(found) => json!({ "dir": project.dir, "from": found }),
        Err(why) => json!({ "dir": project.dir, "refused": why }),
    });
    described.collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_table_has_every_part_and_what_to_do_next() {
        let lines = [
            json!({ "phase": "qwen3_mlp", "where": "36 of Qwen3MLP", "calls": 36, "share": 0.081, "moved": 1_000_000_000,
                    "least": 600_000_000, "gain": 0.0324, "at_most": 1.033, "file": "" }),
            json!({ "phase": "prefill 8192", "model": "qwen3-8b", "small": false, "dtype": "bfloat16",
                    "device": "NVIDIA H100", "torch": "2.11.0", "share": 0.081, "at_most": 1.033 }),
        ];
        let projects = [
            PartProject { dir: PathBuf::from("parts/qwen3-mlp"), found: Ok(Value::Null) },
            PartProject { dir: PathBuf::from("parts/other"), found: Err("it sorts".to_owned()) },
        ];
        insta::assert_snapshot!(table(&lines, &projects));
        let none = table(&lines[1..], &[]);
        assert!(
            none.contains("a kernel could compute no part of it: either its code has none between"),
            "{none}"
        );
    }
}
