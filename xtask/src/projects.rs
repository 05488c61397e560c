//! `cargo xtask projects`: every project of tests/projects is built as it stands, and what came of it is compared with
//! its expected.toml.
//!
//! Owns: the comparison and its table. Never: builds or judges; it reads what `kernelwright` says and leaves behind.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::Instant;

use crate::expected::{self, Expected, Run};
use crate::talk::{self, Talk};
use crate::{copy, repo};

const FOLDER: &str = "tests/projects";

/// Imports packages as the client does, each under a name of its own, and evaluates an expression over them.
const IMPORT: &str = r#"
import importlib.util, sys
sites, expression, *folders = sys.argv[1:]
sys.path[:0] = sites.split(":")
def load(folder, name):
    spec = importlib.util.spec_from_file_location(name, folder + "/__init__.py", submodule_search_locations=[folder])
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module
import torch
packages = [load(folder, f"package_{at}") for at, folder in enumerate(folders)]
found = eval(expression, {"torch": torch, "kernel": packages[0], "other": packages[-1]})
if found is not True:
    sys.exit(f"not true but {found!r}: {expression}")
"#;

/// Runs every project whose name contains one of `wanted`; all of them when nothing is named.
pub(crate) fn run(wanted: &[&str]) -> ExitCode {
    match run_all(wanted) {
        Ok(0) => ExitCode::SUCCESS,
        Ok(_) => ExitCode::FAILURE,
        Err(message) => {
            eprintln!("error: {message}");
            ExitCode::FAILURE
        }
    }
}

fn run_all(wanted: &[&str]) -> Result<usize, String> {
    let root = repo::root();
    let mut projects = read(&root)?;
    let names: Vec<&str> = projects.iter().map(|project| project.name.as_str()).collect();
    repo::named(FOLDER, &names, wanted)?;
    let program = repo::program(&root)?;
    projects.retain(|project| wanted.is_empty() || wanted.iter().any(|part| project.name.contains(part)));
    let outcomes = talk::side_by_side(
        &projects,
        |project| project.name.clone(),
        |project, talk| judge(project, &root, &program, talk),
    );
    let right = outcomes.iter().filter(|outcome| outcome.is_ok()).count();
    let wrong = outcomes.len() - right;
    println!("{right} projects passed, {wrong} failed");
    Ok(wrong)
}

/// All projects, by name.
///
/// # Errors
/// An expected.toml cannot be read.
pub(crate) fn read(root: &Path) -> Result<Vec<Expected>, String> {
    expected::read_all(&root.join(FOLDER))
}

/// Does every run of a project, one after the other, and prints a row for each.
///
/// # Errors
/// A run cannot be done, or differs from what is expected; the differences are in the talk.
pub(crate) fn judge(project: &Expected, root: &Path, program: &Path, talk: &mut Talk) -> Result<(), String> {
    let mut wrong = Vec::new();
    for run in &project.runs {
        let started = Instant::now();
        let found = ProjectOutcome::run(&project.name, run, root, program)?;
        let differences = found.differences(run, root)?;
        let built = if found.built.is_empty() { "-".to_owned() } else { join(&found.built) };
        let seconds = started.elapsed().as_secs_f64();
        let name = format!("{} {}", project.name, run.name);
        talk.say(&format!("{name:<36} exit {:<3} {seconds:4.0} s  built {built}", found.exit));
        for difference in &differences {
            talk.say(&format!("    <- WRONG: {difference}"));
        }
        if !differences.is_empty() {
            wrong.push(run.name.as_str());
        }
    }
    if wrong.is_empty() {
        Ok(())
    } else {
        Err(format!("wrong runs of {}: {}", project.name, wrong.join(", ")))
    }
}

/// What a run came to.
struct ProjectOutcome {
    /// The copy of the project that was built.
    project: PathBuf,
    /// The copy of the project that `beside` names.
    beside: Option<PathBuf>,
    exit: i32,
    /// Lines of errors, as JSON.
    errors: Vec<String>,
    /// Variants that lie in the project now.
    built: BTreeSet<String>,
}

impl ProjectOutcome {
    /// Runs the program in a fresh copy of a project.
    fn run(project: &str, run: &Run, root: &Path, program: &Path) -> Result<Self, String> {
        // Runs of several projects go on at the same time, and one project may lie beside two others.
        let place = format!("{project}-{}", run.name);
        let (folder, exit, text) = start(project, &place, run, root, program)?;
        let beside = match &run.beside {
            Some(other) => {
                let (folder, exit, text) = start(other, &format!("{place}-{other}"), run, root, program)?;
                if exit != 0 {
                    return Err(format!("{project}: {other} was not built beside it:\n{text}"));
                }
                Some(folder)
            }
            None => None,
        };
        let errors = text.lines().filter(|line| line.starts_with(r#"{"event":"error""#));
        let built = entries(&folder.join(".kernelwright/artifacts"));
        let built = built.iter().filter(|path| path.is_dir()).filter_map(|path| name_of(path)).collect();
        Ok(Self { errors: errors.map(str::to_owned).collect(), project: folder, beside, exit, built })
    }

    /// What differs from what is expected, one sentence each.
    fn differences(&self, run: &Run, root: &Path) -> Result<Vec<String>, String> {
        let mut differences = Vec::new();
        let mut compare = |what: &str, found: &str, wanted: &str| {
            if found != wanted {
                differences.push(format!("{what}: {found}; expected: {wanted}"));
            }
        };
        compare("exit code", &self.exit.to_string(), &run.exit.to_string());
        compare("variants that are built", &join(&self.built), &join(&run.built));
        compare("codes of errors", &join(&codes(&self.errors)), &join(&run.codes));
        for variant in &self.built {
            let package = self.package(variant);
            if let Some(files) = &run.files {
                compare(&format!("files of {variant}"), &join(&package_files(&package)), &join(files));
            }
            if let Some(capabilities) = &run.capabilities {
                let about = self.project.join(format!(".kernelwright/artifacts/{variant}.json"));
                let text = fs::read_to_string(&about).map_err(|error| format!("{variant}.json: {error}"))?;
                compare(
                    "capabilities",
                    &join(&expected::list_in_json(&text, "capabilities")),
                    &join(capabilities),
                );
            }
        }
        for words in &run.says {
            if !self.errors.iter().any(|line| line.contains(words)) {
                differences.push(format!("no error says `{words}`"));
            }
        }
        if let (Some(expression), Some(variant)) = (&run.python, run.built.first())
            && self.built.contains(variant)
            && let Err(complaint) = self.import(variant, expression, root)
        {
            differences.push(complaint);
        }
        if !differences.is_empty() {
            let shown = self.errors.iter().flat_map(|line| expected::text_in_json(line, "message"));
            differences.extend(shown.map(|message| format!("it said: {message}")));
        }
        Ok(differences)
    }

    fn package(&self, variant: &str) -> PathBuf {
        self.project.join(".kernelwright/artifacts").join(variant)
    }

    /// Imports the package in a process of its own, and what lies beside it, and evaluates the expression there.
    fn import(&self, variant: &str, expression: &str, root: &Path) -> Result<(), String> {
        let python = std::env::var("KERNELWRIGHT_PYTHON").unwrap_or_else(|_| "python3".to_owned());
        let sites: Vec<String> = sites_for(variant)?.iter().map(|site| site.display().to_string()).collect();
        let mut command = Command::new(&python);
        command.args(["-I", "-B", "-c", IMPORT, &sites.join(":"), expression]).arg(self.package(variant));
        if let Some(beside) = &self.beside {
            command.arg(beside.join(".kernelwright/artifacts").join(variant));
        }
        let output = command.current_dir(root).output().map_err(|error| format!("{python}: {error}"))?;
        if output.status.success() {
            return Ok(());
        }
        let said = String::from_utf8_lossy(&output.stderr);
        let last: Vec<&str> = said.lines().rev().take(3).collect();
        Err(format!("import of {variant}: {}", last.into_iter().rev().collect::<Vec<_>>().join(" | ")))
    }
}

/// Starts the program on a fresh copy, `target/projects/<place>`: the copy, the exit code, standard output.
fn start(
    project: &str,
    place: &str,
    run: &Run,
    root: &Path,
    program: &Path,
) -> Result<(PathBuf, i32, String), String> {
    let failed = |error: std::io::Error| format!("{project}: {error}");
    let folder = root.join("target/projects").join(place);
    if folder.exists() {
        fs::remove_dir_all(&folder).map_err(failed)?;
    }
    copy::sources(&root.join(FOLDER).join(project), &folder).map_err(failed)?;
    fs::remove_file(folder.join("expected.toml")).map_err(failed)?;
    let output = Command::new(program)
        .args(&run.arguments)
        .args(["--message-format", "json"])
        .arg(&folder)
        .stdin(std::process::Stdio::null())
        .output()
        .map_err(failed)?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    Ok((folder, output.status.code().unwrap_or(-1), text))
}

/// The managed packages of the cache that a variant is imported with: those with a torch that it is for, and tvm_ffi
/// where it needs it.
fn sites_for(variant: &str) -> Result<Vec<PathBuf>, String> {
    let wanted = expected::torch_of(variant);
    let fits = |found: u32| match wanted {
        Some((release, exact)) => found == release || (!exact && found > release),
        None => true,
    };
    let all = entries(&repo::cache().join("python"));
    let mut with_torch: Vec<(u32, &PathBuf)> = all
        .iter()
        .filter(|site| site.join("kernelwright.json").exists())
        .filter_map(|site| {
            let torch = entries(site).iter().filter_map(|path| name_of(path)).find_map(|name| {
                expected::release_of(name.strip_prefix("torch-")?.strip_suffix(".dist-info")?)
            });
            torch.filter(|release| fits(*release)).map(|release| (release, site))
        })
        .collect();
    with_torch.sort();
    let missing = |what: &str| {
        format!(
            "no {what} for {variant} is in the cache; `cargo xtask kernel make examples/rms-norm` fetches one"
        )
    };
    let mut sites = vec![with_torch.first().ok_or_else(|| missing("torch"))?.1.clone()];
    if variant.starts_with("tvm-ffi") {
        let with_tvm = all.iter().find(|site| site.join("tvm_ffi").exists());
        sites.push(with_tvm.ok_or_else(|| missing("tvm_ffi"))?.clone());
    }
    Ok(sites)
}

/// Codes of the errors, each once.
fn codes(errors: &[String]) -> BTreeSet<String> {
    errors.iter().flat_map(|line| expected::text_in_json(line, "code")).collect()
}

/// Files of a package, but for those that the program makes.
fn package_files(package: &Path) -> BTreeSet<String> {
    let mut files = BTreeSet::new();
    let mut folders = vec![package.to_owned()];
    while let Some(folder) = folders.pop() {
        for path in entries(&folder) {
            if path.is_dir() {
                folders.push(path);
            } else if let Ok(place) = path.strip_prefix(package) {
                let place = place.display().to_string();
                if place != "_ops.py" && !place.ends_with(".so") && !place.contains("__pycache__") {
                    files.insert(place);
                }
            }
        }
    }
    files
}

fn entries(folder: &Path) -> Vec<PathBuf> {
    fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path()).collect()
}

fn name_of(path: &Path) -> Option<String> {
    path.file_name().and_then(|name| name.to_str()).map(str::to_owned)
}

fn join<'a>(words: impl IntoIterator<Item = &'a String>) -> String {
    words.into_iter().map(String::as_str).collect::<Vec<_>>().join(" ")
}
