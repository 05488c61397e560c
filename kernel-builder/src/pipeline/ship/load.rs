//! Loads a published folder with the stock client in a clean process, and runs the project's example.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use kernel_plan::units::Version;
use miette::Diagnostic;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::base::process::{self, Limits};
use crate::base::report::Event;
use crate::base::session::Session;
use crate::base::{env, files};
use crate::exit::{self, Failure, StageError};
use crate::pipeline::project::TORCH;
use crate::toolchain::python::{self, Torch};
use crate::toolchain::{Extras, PythonRuntime};
use crate::verify::lost_operators;

/// Why a published kernel is not usable.
#[derive(Debug, Error, Diagnostic)]
pub(crate) enum LoadError {
    /// There is no published kernel there.
    #[error("`{}` has no published kernel: build/VARIANT/metadata.json is missing", dir.display())]
    #[diagnostic(
        code(load::nothing),
        help("name the folder that was published to: kernelwright publish --to DIR")
    )]
    Nothing {
        /// The folder.
        dir: PathBuf,
    },
    /// The client did not load it.
    #[error("the `kernels` client failed to load `{}` for {backend}: {problem}", dir.display())]
    #[diagnostic(
        code(load::client),
        help("build and package it again: kernelwright make; the client's own error is above")
    )]
    Client {
        /// The published folder.
        dir: PathBuf,
        /// The backend asked for.
        backend: String,
        /// The client's exception, or what is missing after loading.
        problem: String,
    },
    /// The client took another variant than the one that it should.
    #[error(
        "under torch {torch} the client takes {} for {backend}, not {}{}",
        quoted_variant(taken),
        quoted_variant(predicted),
        because(output)
    )]
    #[diagnostic(
        code(load::preference),
        help(
            "`kernelwright variants --client` shows the order; users with this torch would get another build"
        )
    )]
    Preference {
        /// `torch.__version__`.
        torch: String,
        /// The backend asked for.
        backend: String,
        /// What was taken.
        taken: Option<String>,
        /// What is best of what fits.
        predicted: Option<String>,
        /// What the client printed, if it took none.
        output: String,
    },
    /// The example failed.
    #[error("`{}` {ending}:\n{output}", example.display())]
    #[diagnostic(code(load::example), help("run it by hand to see more: python {}", example.display()))]
    Example {
        /// The example.
        example: PathBuf,
        /// How it ended.
        ending: String,
        /// What it printed last.
        output: String,
    },
}

fn quoted_variant(variant: &Option<String>) -> String {
    variant.as_ref().map_or_else(|| "nothing".to_owned(), |variant| format!("`{variant}`"))
}

fn because(output: &str) -> String {
    if output.is_empty() { String::new() } else { format!(": {output}") }
}

impl StageError for LoadError {
    fn exit(&self) -> u8 {
        exit::LOAD
    }
}

/// What the client did with one backend.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct LoadReport {
    /// The backend that was asked for.
    pub(crate) backend: String,
    /// The variant that the client chose; absent when it cannot be loaded here.
    pub(crate) variant: Option<String>,
    /// The names that the package offers.
    #[serde(default)]
    pub(crate) names: Vec<String>,
    /// Why it was not loaded.
    #[serde(default)]
    pub(crate) reason: Option<String>,
    /// Whether the reason is this torch, not the package: it is built for another backend, or none of the backend's
    /// variants is for it.
    #[serde(default)]
    pub(crate) skipped: bool,
}

impl LoadReport {
    /// A backend of which the client's process said nothing.
    pub(crate) fn silent(backend: &str) -> Self {
        let reason = Some("the client did not report it".to_owned());
        Self { backend: backend.to_owned(), variant: None, names: Vec::new(), reason, skipped: false }
    }
}

const LOADER: &str = include_str!("../../../harness/load.py");
const LIMIT: Duration = Duration::from_secs(600);

/// A Python with the client that can load a published folder, with a torch that was named.
///
/// # Errors
/// It cannot be had; see [`python::runtime`].
pub(crate) fn python_for(
    dir: &Path,
    torch: Option<Version>,
    session: &Session,
) -> Result<PythonRuntime, Failure> {
    let line = torch.map(|line| line.to_string());
    let torch = line.as_deref().map_or(Torch::AtLeast(TORCH), Torch::Exactly);
    Ok(python::runtime(session, torch, Extras { client: true, tvm_ffi: has_tvm_ffi(dir)? })?)
}

/// Whether one of the variants is called through tvm_ffi.
fn has_tvm_ffi(dir: &Path) -> Result<bool, Failure> {
    let names = files::walk(&dir.join("build"), |folder| folder.components().count() == 1)?;
    Ok(names.iter().any(|name| name.to_string_lossy().starts_with("tvm-ffi")))
}

/// A folder without a kernel is an error, not a success with nothing in it.
pub(crate) fn refuse_empty(dir: &Path) -> Result<(), Failure> {
    let build = dir.join("build");
    let holds = |name: &PathBuf| name.components().count() == 2 && name.ends_with("metadata.json");
    if files::is_dir(&build) && files::walk(&build, |_| true)?.iter().any(holds) {
        return Ok(());
    }
    Err(LoadError::Nothing { dir: dir.to_owned() }.into())
}

/// What the client does with every backend of a published folder, by `kernels.get_local_kernel` in one clean process.
pub(crate) fn ask(dir: &Path, python: &PythonRuntime) -> Result<Vec<LoadReport>, Failure> {
    refuse_empty(dir)?;
    let line = python.command().arg("-c").arg(LOADER).path(dir).cwd(env::temp_dir());
    let mut loaded: Vec<LoadReport> = Vec::new();
    let finished = process::converse(&line, Limits::wall(LIMIT), b"\n", &mut |text| {
        loaded.extend(serde_json::from_str::<LoadReport>(text));
    })?;
    if !finished.ending.success() {
        let words = finished.stderr_text();
        let problem =
            format!("the process {}: {}", finished.ending, words.lines().last().unwrap_or_default());
        return Err(
            LoadError::Client { dir: dir.to_owned(), backend: "any backend".to_owned(), problem }.into()
        );
    }
    let lost = lost_operators(&finished.stderr_text(), &[]);
    if !lost.is_empty() {
        let all: Vec<_> =
            loaded.iter().filter(|one| one.variant.is_some()).map(|one| one.backend.as_str()).collect();
        let backend = all.join(" and ");
        return Err(LoadError::Client { dir: dir.to_owned(), backend, problem: lost.join("; ") }.into());
    }
    Ok(loaded)
}

/// Loads every backend of a published folder. What the torch at hand does not take is said.
///
/// # Errors
/// A variant that is for this torch is not loaded, or none is for it.
pub(crate) fn load(
    dir: &Path,
    python: &PythonRuntime,
    session: &Session,
) -> Result<Vec<LoadReport>, Failure> {
    let started = Instant::now();
    let loaded = ask(dir, python)?;
    let any = loaded.iter().any(|one| one.variant.is_some());
    for one in &loaded {
        match (&one.variant, &one.reason) {
            (Some(variant), _) => session.report.emit(&Event::Done {
                action: "loaded",
                subject: variant,
                detail: "by kernels.get_local_kernel",
                seconds: started.elapsed().as_secs_f64(),
                cached: false,
            }),
            (None, reason) if one.skipped && any => session.report.note(format!(
                "the {} variant was not loaded here: {}",
                one.backend,
                reason.as_deref().unwrap_or("no reason given")
            )),
            (None, reason) => {
                let problem = reason.clone().unwrap_or_default();
                return Err(
                    LoadError::Client { dir: dir.to_owned(), backend: one.backend.clone(), problem }.into()
                );
            }
        }
    }
    Ok(loaded)
}

/// Runs the example on the published folder; gives what it printed.
pub(crate) fn run_example(
    example: &Path,
    dir: &Path,
    python: &PythonRuntime,
    session: &Session,
) -> Result<String, Failure> {
    const RUN: &str = "import os, runpy, site, sys\n\
        folder = os.environ.get('KERNELWRIGHT_SITE')\n\
        if folder: site.addsitedir(folder)\n\
        sys.path[:0] = filter(None, os.environ.get('KERNELWRIGHT_BESIDE', '').split(':'))\n\
        sys.argv = sys.argv[1:]\n\
        runpy.run_path(sys.argv[0], run_name='__main__')\n";
    let example = env::absolute(example);
    files::stamp(&example)?;
    let line = python.command().arg("-c").arg(RUN).path(&example).path(dir).cwd(env::temp_dir());
    let finished = process::run(&line, Limits::wall(LIMIT))?;
    let output = finished.stdout_text();
    if !finished.ending.success() {
        let all = format!("{output}{}", finished.stderr_text());
        let lines: Vec<&str> = all.lines().collect();
        let output = lines[lines.len().saturating_sub(15)..].join("\n");
        return Err(LoadError::Example { example, ending: finished.ending.to_string(), output }.into());
    }
    session.report.emit(&Event::Done {
        action: "ran",
        subject: "example.py",
        detail: output.lines().next().unwrap_or_default(),
        seconds: finished.wall.as_secs_f64(),
        cached: false,
    });
    Ok(output)
}
