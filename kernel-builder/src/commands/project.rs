//! Reads a kernel project from its folder: build.toml, op.toml, the list of its files.
//!
//! Owns: what counts as a file of the project; telling every problem of the specification, then failing once.
//! Never: judges a specification (kernel-plan does).

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use kernel_plan::diagnostic::{Problem, Severity, SourceFile, has_errors};
use kernel_plan::plan::CommandLine;
use kernel_plan::spec::{self, BuildSpec, OpSpec};
use kernel_plan::units::RelPath;
use kernel_plan::variant::Matrix;
use miette::Diagnostic;
use thiserror::Error;

use crate::base::process::{self, Limits};
use crate::base::session::Session;
use crate::base::{env, files};
use crate::exit::{self, Failure, StageError};
use crate::package::Provenance;

/// The list of every variant that exists, compiled in: `variants.toml` of the repository.
const MATRIX: &str = include_str!("../../../variants.toml");

/// The torch that judges a kernel when no build says otherwise.
pub const TORCH: &str = "2.11";

/// The folder argument that every verb has.
#[derive(Debug, Clone, Args)]
pub struct ProjectDir {
    /// The kernel project: a folder with a build.toml
    #[arg(value_name = "DIR", default_value = ".")]
    pub dir: PathBuf,
}

/// A project as it was read.
#[derive(Debug)]
pub struct Project {
    /// Its folder, absolute.
    pub dir: PathBuf,
    /// build.toml.
    pub build: BuildSpec,
    /// op.toml, where there is one.
    pub op: Option<OpSpec>,
    /// Every file, without what is generated.
    pub files: BTreeSet<RelPath>,
}

/// What is no project, or what a project lacks for a step.
#[derive(Debug, Error, Diagnostic)]
pub enum ProjectError {
    /// There is no build.toml.
    #[error("`{}` is not a kernel project: it has no build.toml", dir.display())]
    #[diagnostic(
        code(spec::no_project),
        help(
            "name a folder that has one, or make a project: kernelwright new OWNER/NAME --template rms-norm"
        )
    )]
    NoProject {
        /// The folder.
        dir: PathBuf,
    },
    /// There is no op.toml, so nothing says what the kernel means.
    #[error("`{}` has no op.toml, so there is nothing to {step} against", dir.display())]
    #[diagnostic(
        code(spec::no_op),
        help(
            "op.toml says what the operation computes and on which shapes (docs/formats.md); `kernelwright new` writes one"
        )
    )]
    NoOp {
        /// The folder.
        dir: PathBuf,
        /// The verb.
        step: &'static str,
    },
}

impl StageError for ProjectError {
    fn exit(&self) -> u8 {
        exit::SPEC
    }
}

/// Folders that hold what is made from the project and are no part of it.
const GENERATED: &[&str] =
    &[".git", ".kernelwright", "build", "dist", "target", "__pycache__", "result", ".pytest_cache"];

/// Reads and judges a project. Problems are told as they are found; any error among them fails.
pub fn load(dir: &Path, session: &Session) -> Result<Project, Failure> {
    let (project, problems) = read(dir)?;
    tell(&problems, session)?;
    project.ok_or(Failure::told(exit::SPEC))
}

/// Reads a project and gives its problems back: all of them, in the order of the files.
pub fn read(dir: &Path) -> Result<(Option<Project>, Vec<Problem>), Failure> {
    let shown = |name: &str| dir.join(name).display().to_string().trim_start_matches("./").to_owned();
    let (build_name, op_name) = (shown("build.toml"), shown("op.toml"));
    let dir = env::absolute(dir);
    let build_path = dir.join("build.toml");
    if !files::exists(&build_path) {
        return Err(ProjectError::NoProject { dir }.into());
    }
    let build_file = SourceFile::new(build_name, files::read_text(&build_path)?);
    let (build, mut problems) = spec::parse_build(build_file);
    let op_path = dir.join("op.toml");
    let mut op = None;
    if files::exists(&op_path) {
        let (parsed, found) = spec::parse_op(SourceFile::new(op_name, files::read_text(&op_path)?));
        problems.extend(found);
        op = parsed;
    }
    let enter = |folder: &Path| {
        !folder.file_name().is_some_and(|name| GENERATED.iter().any(|generated| name == *generated))
    };
    let files: BTreeSet<RelPath> =
        files::walk(&dir, enter)?.iter().filter_map(|path| path.to_str()?.parse().ok()).collect();
    let Some(build) = build else { return Ok((None, problems)) };
    problems.extend(spec::rules::check(&spec::rules::Project {
        build: &build,
        op: op.as_ref(),
        files: &files,
    }));
    Ok((Some(Project { dir, build, op, files }), problems))
}

/// Tells problems: errors and warnings to people with the source line, everything to programs. Fails when one is an error.
pub fn tell(problems: &[Problem], session: &Session) -> Result<(), Failure> {
    for problem in problems.iter().filter(|problem| problem.severity == Severity::Warning) {
        session.report.warn(format!("{}: {}", problem.code, problem.message));
    }
    if !has_errors(problems) {
        return Ok(());
    }
    let errors = problems.iter().filter(|problem| problem.severity == Severity::Error);
    Err(Failure {
        exit: exit::SPEC,
        reports: errors.map(|problem| miette::Report::new(problem.clone())).collect(),
    })
}

/// The matrix of variants. It is part of the program, so an error in it is a defect that the tests find.
pub fn matrix() -> Result<Matrix, Failure> {
    Matrix::parse(MATRIX).map_err(|problems| Failure {
        exit: exit::PLAN,
        reports: problems.into_iter().map(miette::Report::new).collect(),
    })
}

/// The torch release that the project's variants are built against, the newest of them: the one that judges.
pub fn torch_of(project: &Project) -> Result<String, Failure> {
    let chosen = kernel_plan::variant::select(&project.build, &matrix()?, super::build::host_cpu());
    let newest = chosen.ok().into_iter().flatten().map(|variant| variant.framework.version).max();
    Ok(newest.map_or_else(|| TORCH.to_owned(), |version| version.to_string()))
}

impl Project {
    /// op.toml, or an error that says what it is needed for.
    pub fn op_for(&self, step: &'static str) -> Result<&OpSpec, Failure> {
        self.op.as_ref().ok_or_else(|| ProjectError::NoOp { dir: self.dir.clone(), step }.into())
    }

    /// The files that are shipped in the Python package: those of the framework's folder, `torch-ext/<module>` or
    /// `tvm-ffi-ext/<module>`, with an extension of `pyext`.
    pub fn python_files(&self) -> Vec<RelPath> {
        let framework = &self.build.framework;
        let folder = format!("{}/{}/", framework.folder(), self.build.general.name.module());
        let shipped = |path: &&RelPath| {
            path.as_str().starts_with(&folder)
                && framework.pyext().iter().any(|extension| extension.is_of(path))
        };
        self.files.iter().filter(shipped).cloned().collect()
    }

    /// The commit that the project's folder is at and whether the folder differs from it; default outside of git.
    pub fn provenance(&self) -> Provenance {
        let git = |arguments: &[&str]| {
            let line = CommandLine::new("git").args(arguments.iter().copied()).cwd(&self.dir);
            let done = process::run(&line, Limits::wall(Duration::from_secs(20))).ok()?;
            done.ending.success().then(|| done.stdout_text().trim().to_owned())
        };
        let Some(commit) = git(&["rev-parse", "HEAD"]) else { return Provenance::default() };
        let dirty = git(&["status", "--porcelain", "--", "."]).is_none_or(|text| !text.is_empty());
        Provenance { commit: Some(commit), dirty }
    }
}
