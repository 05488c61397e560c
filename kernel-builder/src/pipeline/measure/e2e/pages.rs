//! Records of models as pages.
//!
//! Owns: which lines are of one page, and where it is written. Never: what a page says; bench/report/model.rs does.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::base::files::{self, FileError};
use crate::bench::report;

/// What lines of one page have in common.
const SUBJECT: [&str; 8] = ["model", "small", "packages", "replaced", "dtype", "device", "torch", "rounds"];

/// The lines of a file that `bench --e2e` wrote; `None` if it has others.
pub(crate) fn read(path: &Path) -> Option<Vec<Value>> {
    let text = files::read_text(path).ok()?;
    let lines: Option<Vec<Value>> = text
        .lines()
        .filter(|line| !line.trim().is_empty())
        .map(|line| serde_json::from_str(line).ok().filter(is_of_model))
        .collect();
    lines.filter(|lines| !lines.is_empty())
}

fn is_of_model(line: &Value) -> bool {
    line["model"].is_string() && line["phase"].is_string()
}

/// Writes a page for each model with the same kernels: `to`, and beside it with numbers in their names. Of several lines of a
/// phase, the last one counts.
///
/// # Errors
/// A file cannot be written.
pub(crate) fn write(lines: &[Value], to: &Path) -> Result<Vec<PathBuf>, FileError> {
    let mut written = Vec::new();
    for (number, page) in subjects(lines).iter().enumerate() {
        let path = if number == 0 { to.to_owned() } else { numbered(to, number + 1) };
        files::write(&path, report::model::page(page))?;
        written.push(path);
    }
    Ok(written)
}

fn subjects(lines: &[Value]) -> Vec<Vec<Value>> {
    let subject = |line: &Value| -> Value { SUBJECT.iter().map(|key| line[key].clone()).collect() };
    let mut found: Vec<(Value, Vec<Value>)> = Vec::new();
    for line in lines {
        let own = subject(line);
        match found.iter_mut().find(|(known, _)| *known == own) {
            Some((_, page)) => {
                page.retain(|earlier| earlier["phase"] != line["phase"]);
                page.push(line.clone());
            }
            None => found.push((own, vec![line.clone()])),
        }
    }
    found.into_iter().map(|(_, page)| page).collect()
}

fn numbered(path: &Path, number: usize) -> PathBuf {
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    let ending = path.extension().map_or_else(String::new, |ending| format!(".{}", ending.to_string_lossy()));
    path.with_file_name(format!("{stem}-{number}{ending}"))
}

/// The pages as JSON.
pub(crate) fn facts(written: &[PathBuf], records: usize) -> Value {
    json!({ "file": written.first(), "files": written, "records": records })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(kernels: u32, phase: &str, milliseconds: f64) -> String {
        json!({ "model": "qwen3-8b", "packages": { "norm": kernels }, "phase": phase, "ms": { "eager": milliseconds } })
            .to_string()
    }

    #[test]
    fn each_model_with_its_kernels_has_a_page_and_the_last_line_of_a_phase_counts() {
        let folder = tempfile::tempdir().expect("a folder");
        let record = folder.path().join("e2e.jsonl");
        let text =
            [line(1, "decode 1", 11.5), line(2, "decode 1", 12.5), line(1, "decode 1", 13.5)].join("\n");
        files::write(&record, text).expect("a file");
        let lines = read(&record).expect("lines of models");
        let written = write(&lines, &folder.path().join("page.html")).expect("pages");
        let names: Vec<_> = written.iter().map(|path| path.file_name().expect("a name").to_owned()).collect();
        assert_eq!(names, ["page.html", "page-2.html"]);
        let page = |number: usize| files::read_text(&written[number]).expect("a page");
        assert!(page(0).contains("13.50") && !page(0).contains("11.50") && page(1).contains("12.50"));
    }

    #[test]
    fn records_of_kernels_are_none_of_models() {
        let folder = tempfile::tempdir().expect("a folder");
        let record = folder.path().join("records.jsonl");
        for text in ["", "{\"op\": \"norm\"}\n", "no JSON\n"] {
            files::write(&record, text).expect("a file");
            assert!(read(&record).is_none(), "{text}");
        }
        assert!(read(&folder.path().join("none.jsonl")).is_none());
    }
}
