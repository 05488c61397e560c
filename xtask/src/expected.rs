//! expected.toml of tests/projects, and the little that is read of the program's JSON.
//!
//! Owns: the format. Never: runs anything.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// One folder of tests/projects.
pub(crate) struct Expected {
    pub(crate) name: String,
    pub(crate) runs: Vec<Run>,
}

/// `[run.NAME]`: one start of the program, in a fresh copy of the project, and what must come of it.
#[derive(Default)]
pub(crate) struct Run {
    pub(crate) name: String,
    /// What the program is given, without the project's folder.
    pub(crate) arguments: Vec<String>,
    /// Its exit code; 0 when absent.
    pub(crate) exit: i32,
    /// Variants that lie in the project afterwards.
    pub(crate) built: BTreeSet<String>,
    /// Codes of all errors.
    pub(crate) codes: BTreeSet<String>,
    /// Words of which each is in an error.
    pub(crate) says: Vec<String>,
    /// Files of every package, without the library and `_ops.py`.
    pub(crate) files: Option<BTreeSet<String>>,
    /// Capabilities that the artifact declares.
    pub(crate) capabilities: Option<BTreeSet<String>>,
    /// An expression that is true in a clean process, with `torch`, `kernel` (the first of `built`) and `other`.
    pub(crate) python: Option<String>,
    /// Another project, which is built alike and is `other`.
    pub(crate) beside: Option<String>,
}

/// Reads all, by name.
pub(crate) fn read_all(folder: &Path) -> Result<Vec<Expected>, String> {
    let entries = fs::read_dir(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let mut projects = Vec::new();
    for path in entries.flatten().map(|entry| entry.path()).filter(|path| path.is_dir()) {
        let file = path.join("expected.toml");
        let failed = |why: String| format!("{}: {why}", file.display());
        let text = fs::read_to_string(&file).map_err(|error| failed(error.to_string()))?;
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        projects.push(Expected { name, runs: read(&text).map_err(failed)? });
    }
    projects.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(projects)
}

/// Reads the part of TOML that these files are written in: tables, and values on one line.
fn read(text: &str) -> Result<Vec<Run>, String> {
    let mut runs: Vec<Run> = Vec::new();
    for line in text.lines().filter(|line| !line.trim().is_empty() && !line.starts_with('#')) {
        if let Some(name) = line.strip_prefix("[run.").and_then(|rest| rest.strip_suffix(']')) {
            runs.push(Run { name: name.to_owned(), ..Run::default() });
            continue;
        }
        let (key, value) = line.split_once(" = ").ok_or_else(|| format!("`{line}` is not `key = value`"))?;
        let unknown = || format!("`{key}` is not a key of expected.toml");
        let Some(run) = runs.last_mut() else {
            if key == "about" {
                continue;
            }
            return Err(unknown());
        };
        let set = || strings(value).into_iter().collect::<BTreeSet<_>>();
        match key {
            "arguments" => run.arguments = strings(value),
            "exit" => run.exit = value.parse().map_err(|_| format!("`{value}` is not an exit code"))?,
            "built" => run.built = set(),
            "codes" => run.codes = set(),
            "says" => run.says = strings(value),
            "files" => run.files = Some(set()),
            "capabilities" => run.capabilities = Some(set()),
            "python" => run.python = strings(value).pop(),
            "beside" => run.beside = strings(value).pop(),
            _ => return Err(unknown()),
        }
    }
    if runs.is_empty() || runs.iter().any(|run| run.arguments.is_empty()) {
        return Err("at least one run is required, and every run needs `arguments`".to_owned());
    }
    Ok(runs)
}

/// The strings of a value: of a list, or of one alone. They hold no quote and no backslash.
fn strings(value: &str) -> Vec<String> {
    value.split('"').skip(1).step_by(2).map(str::to_owned).collect()
}

/// The texts of a field wherever it is in a line of JSON; escapes stay as they are.
pub(crate) fn text_in_json(line: &str, field: &str) -> Vec<String> {
    let start = format!("\"{field}\":\"");
    let starts = line.split(&start).skip(1);
    starts.map(|rest| rest.split("\",\"").next().unwrap_or(rest).to_owned()).collect()
}

/// The texts of a list in JSON.
pub(crate) fn list_in_json(text: &str, field: &str) -> BTreeSet<String> {
    let after = text.split_once(&format!("\"{field}\"")).map_or("", |(_, rest)| rest);
    let list = after.split_once('[').and_then(|(_, rest)| rest.split_once(']')).map_or("", |(list, _)| list);
    strings(list).into_iter().collect()
}

/// The torch that a variant is for, as in 211, and whether it is for no later one; nothing where any will do.
pub(crate) fn torch_of(variant: &str) -> Option<(u32, bool)> {
    let digits = |text: &str| text.split('-').next()?.parse().ok();
    if let Some(rest) = variant.strip_prefix("torch-stable-abi") {
        return Some((digits(rest)?, false));
    }
    Some((digits(variant.strip_prefix("torch")?)?, true))
}

/// `2.11.0` is 211.
pub(crate) fn release_of(version: &str) -> Option<u32> {
    let (major, rest) = version.split_once('.')?;
    format!("{major}{}", rest.split_once('.')?.0).parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::repo;

    #[test]
    fn every_project_can_be_read() {
        let projects = read_all(&repo::root().join("tests/projects")).unwrap();
        let built = projects.iter().filter(|project| project.runs.iter().any(|run| !run.built.is_empty()));
        assert!(built.count() >= 8);
        assert!(projects.iter().filter(|project| project.runs.iter().all(|run| run.exit != 0)).count() >= 3);
        for run in projects.iter().flat_map(|project| &project.runs) {
            assert_eq!(run.exit != 0, !run.codes.is_empty(), "{}: a failure has a code", run.name);
        }
    }

    #[test]
    fn a_key_that_nobody_reads_is_refused() {
        assert!(read("[run.a]\narguments = [\"build\"]\nbuild = [\"x\"]").is_err());
        assert!(read("about = \"nothing is run\"").is_err());
    }

    #[test]
    fn variants_and_releases() {
        assert_eq!(torch_of("torch-stable-abi211-cpu-x86_64-linux"), Some((211, false)));
        assert_eq!(torch_of("torch29-cxx11-cu130-x86_64-linux"), Some((29, true)));
        assert_eq!(torch_of("torch-cuda"), None);
        assert_eq!(torch_of("tvm-ffi01-cpu-x86_64-linux"), None);
        assert_eq!(release_of("2.11.0+cu130"), Some(211));
    }

    #[test]
    fn fields_of_json() {
        let line = r#"{"event":"error","exit":14,"code":"compile::unit","message":"a \"b\"","help":null}"#;
        assert_eq!(text_in_json(line, "code"), ["compile::unit"]);
        assert!(list_in_json(r#"{ "capabilities": ["8.0", "9.0a"] }"#, "capabilities").contains("9.0a"));
    }
}
