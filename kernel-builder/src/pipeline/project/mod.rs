//! Reads a kernel project from its folder: build.toml, op.toml, the list of its files.
//!
//! Owns: what counts as a file of the project, and how much of one is read; telling every problem of the specification,
//! then failing once.
//! Never: judges a specification (kernel-plan does).

pub(crate) mod device;
pub(crate) mod full_abi;
pub(crate) mod kernel;
pub(crate) mod selection;
pub(crate) mod task;
pub(crate) mod tuned;
pub(crate) mod variants;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use kernel_plan::diagnostic::{Problem, Severity, SourceFile};
use kernel_plan::plan::CommandLine;
use kernel_plan::spec::{self, BuildSpec, OpSpec, Sources, Unread, scan};
use kernel_plan::units::{BackendId, RelPath};
use kernel_plan::variant::{Extent, Variant};
use miette::Diagnostic;
use thiserror::Error;

use crate::base::causes::Cause;
use crate::base::files::{FileError, NoText};
use crate::base::nearest;
use crate::base::process::{self, Limits};
use crate::base::session::Session;
use crate::base::{env, files};
use crate::exit::{self, Failure, StageError};
use crate::package::Provenance;
use crate::toolchain::Provider;

/// The torch that judges a kernel when no build says otherwise.
pub const TORCH: &str = "2.11";

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
    /// What is in the sources.
    pub sources: Sources,
}

/// What is no project, or what a project lacks for a step.
#[derive(Debug, Error, Diagnostic)]
pub enum ProjectError {
    /// There is no build.toml.
    #[error("`{}` is not a kernel project: it has no build.toml", dir.display())]
    #[diagnostic(
        code(spec::no_project),
        help(
            "name a folder that has one, or create a project: kernelwright new OWNER/NAME --template rms-norm"
        )
    )]
    NoProject {
        /// The folder.
        dir: PathBuf,
    },
    /// There is no such folder or file.
    #[error("`{}` does not exist", path.display())]
    #[diagnostic(
        code(spec::no_project),
        help(
            "{}name a folder with a build.toml, or create a project: kernelwright new OWNER/NAME --template rms-norm",
            alike.as_ref().map_or_else(String::new, |path| format!("did you mean `{}`? otherwise ", path.display()))
        )
    )]
    Absent {
        /// What was named.
        path: PathBuf,
        /// The project beside it whose name is most like it.
        alike: Option<PathBuf>,
    },
    /// build.toml or op.toml is there and cannot be read as a text.
    #[error("cannot read `{}`", path.display())]
    #[diagnostic(
        code(spec::unreadable),
        help("build.toml and op.toml must be readable UTF-8 files of at most 1 MiB")
    )]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        #[source]
        cause: Cause,
    },
    /// There is no op.toml, so nothing says what the kernel means.
    #[error("`{}` has no op.toml, which is needed to {step}", dir.display())]
    #[diagnostic(
        code(spec::no_op),
        help(
            "op.toml says what the operation computes and on which shapes (docs/reference/op-toml.md); `kernelwright new` writes one"
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

/// Folders that are no part of a project, wherever they lie.
const NO_PART: &[&str] = &[".git", ".kernelwright", "__pycache__", ".pytest_cache"];

/// Folders in the project's root that hold what is made from it. Further down they are the project's own.
const GENERATED: &[&str] = &["build", "dist", "target", "result"];

/// Bytes of the longest build.toml or op.toml that is read: what is longer was not written by a person.
const SPECIFICATION_LIMIT: u64 = 1 << 20;

/// Bytes of the longest source that is looked into.
const SOURCE_LIMIT: u64 = 8 << 20;

/// What is said to be the commit is none.
#[derive(Debug, Error, Diagnostic)]
#[error("{} is not a valid commit: `{text}`", env::COMMIT)]
#[diagnostic(
    code(base::bad_commit),
    help(
        "set all 40 digits, followed by `-dirty` if the sources differ from the commit, or unset the variable"
    )
)]
struct BadCommit {
    text: String,
}

impl StageError for BadCommit {
    fn exit(&self) -> u8 {
        exit::USAGE
    }
}

/// That what is said of the commit is one: whoever reads metadata.json takes it for one.
fn commit_is_whole() -> Result<(), BadCommit> {
    let Some(text) = env::text(env::COMMIT) else { return Ok(()) };
    let commit = text.strip_suffix("-dirty").unwrap_or(&text);
    let whole = matches!(commit.len(), 40 | 64) && commit.bytes().all(|byte| byte.is_ascii_hexdigit());
    if whole { Ok(()) } else { Err(BadCommit { text }) }
}

/// Reads and judges a project. Problems are told as they are found; any error among them fails.
pub fn load(dir: &Path, session: &Session) -> Result<Project, Failure> {
    commit_is_whole()?;
    let Reading { project, problems, missing } = read(dir)?;
    tell(&problems, session)?;
    if let Some(missing) = missing {
        return Err(missing.into());
    }
    project.ok_or(Failure::already_reported(exit::SPEC))
}

/// What a folder holds, and everything that is wrong with it.
#[derive(Debug)]
pub struct Reading {
    /// The project, as soon as build.toml could be understood.
    pub project: Option<Project>,
    /// Every problem, in the order of the files.
    pub problems: Vec<Problem>,
    /// That there is no build.toml; an op.toml has been judged all the same.
    pub missing: Option<ProjectError>,
}

/// Reads a project and gives its problems back. `dir` may be its build.toml.
///
/// # Errors
/// A file cannot be read, or the folder cannot be listed.
pub fn read(dir: &Path) -> Result<Reading, Failure> {
    let dir = folder(dir);
    let shown = |name: &str| dir.join(name).display().to_string().trim_start_matches("./").to_owned();
    let (build_name, op_name) = (shown("build.toml"), shown("op.toml"));
    let absolute = env::absolute(dir);
    let (mut build, mut op, mut problems) = (None, None, Vec::new());
    let build_path = absolute.join("build.toml");
    let has_build = files::exists(&build_path);
    if has_build {
        (build, problems) =
            spec::parse_build(SourceFile::new(build_name.as_str(), specification(&build_path)?));
    }
    let op_path = absolute.join("op.toml");
    if files::exists(&op_path) {
        let (parsed, found) = spec::parse_op(SourceFile::new(op_name.as_str(), specification(&op_path)?));
        problems.extend(found);
        op = parsed;
    }
    let Some(build) = build else {
        let missing = (!has_build).then(|| no_project(dir));
        return Ok(Reading { project: None, problems, missing });
    };
    let enter = |folder: &Path| {
        let is = |names: &[&str]| folder.file_name().is_some_and(|name| names.iter().any(|it| name == *it));
        !(is(NO_PART) || (folder.components().count() == 1 && is(GENERATED)))
    };
    let (files, irregular) = files::walk_apart(&absolute, enter)?;
    let mut files: BTreeSet<RelPath> = files.iter().filter_map(|path| path.to_str()?.parse().ok()).collect();
    let mut source =
        |path: &RelPath| match files::read_text_up_to(&absolute.join(path.as_str()), SOURCE_LIMIT) {
            Ok(text) => Ok(SourceFile::new(shown(path.as_str()), text)),
            Err(NoText::TooLong) => Err(Unread::TooLong { limit: SOURCE_LIMIT }),
            Err(NoText::NotUtf8) => Err(Unread::NotText),
            Err(NoText::Failed(error)) => {
                Err(Unread::Refused(files::irregular(&error.path).unwrap_or_else(|| error.cause.to_string())))
            }
        };
    let mut sources = Sources::gather(&build, &files, &mut source);
    // A pipe or a link that leads nowhere is no part of the project, unless it stands where something is read.
    for path in irregular.iter().filter_map(|path| path.to_str()?.parse::<RelPath>().ok()) {
        if scan::is_code(&path) || is_shipped(&build, &path) || is_listed(&build, op.as_ref(), &path) {
            let why = files::irregular(&absolute.join(path.as_str()));
            why.into_iter().for_each(|why| sources.refuse(path.clone(), why));
        } else {
            files.remove(&path);
        }
    }
    problems.extend(spec::rules::check(&spec::rules::Project {
        build: &build,
        op: op.as_ref(),
        files: &files,
        sources: &sources,
        matrix: &variants::matrix()?,
    }));
    spec::rules::in_order(&mut problems, &build_name, &op_name);
    let project = Project { dir: absolute, build, op, files, sources };
    Ok(Reading { project: Some(project), problems, missing: None })
}

/// Whether a file of the project is shipped in the Python package.
fn is_shipped(build: &BuildSpec, path: &RelPath) -> bool {
    let framework = &build.framework;
    let folder = format!("{}/{}/", framework.folder(), build.general.name.module());
    path.as_str().starts_with(&folder) && framework.pyext().iter().any(|extension| extension.is_of(path))
}

/// Whether build.toml or op.toml names a file.
fn is_listed(build: &BuildSpec, op: Option<&OpSpec>, path: &RelPath) -> bool {
    let kernels = build.kernels.iter().flat_map(|kernel| &kernel.src);
    let launched = op.and_then(|op| op.launch.as_ref()).map(|launch| &launch.source);
    let named = op.map(|op| &op.reference.file).into_iter().chain(launched);
    build.framework.src().iter().chain(kernels).chain(named).any(|listed| listed.value == *path)
}

/// Why a path without an op.toml is not an operation: it does not exist, or it is something else.
pub(crate) fn no_op(path: &Path, step: &'static str) -> ProjectError {
    let dir = env::absolute(path);
    if files::exists(&dir) { ProjectError::NoOp { dir, step } } else { no_project(path) }
}

/// Why a path without a build.toml is not a project: it does not exist, or it is something else.
pub(crate) fn no_project(path: &Path) -> ProjectError {
    let absolute = env::absolute(path);
    // Without the `.` or `..` that a message should not end with.
    let shown = if path.file_name().is_some() { path.to_owned() } else { absolute.clone() };
    if files::exists(&absolute) {
        return ProjectError::NoProject { dir: shown };
    }
    let alike = absolute.parent().zip(absolute.file_name()).and_then(|(parent, name)| {
        let inside = |folder: &Path| folder.components().count() == 1;
        // A folder that cannot be listed has no names to offer.
        let beside = files::walk_unfollowed(parent, inside).unwrap_or_default();
        let projects = beside.iter().filter(|file| file.ends_with("build.toml"));
        let names: Vec<&str> = projects.filter_map(|file| file.parent()?.to_str()).collect();
        let name = nearest::alike(name.to_str()?, names.iter().copied().filter(|name| !name.is_empty()), 1);
        Some(shown.with_file_name(name.first()?))
    });
    ProjectError::Absent { path: shown, alike }
}

/// The folder of a project that was named by it or by its build.toml.
pub fn folder(dir: &Path) -> &Path {
    let is_build = dir.file_name().is_some_and(|name| name == "build.toml") && !files::is_dir(dir);
    if is_build { dir.parent().unwrap_or(Path::new("")) } else { dir }
}

/// The file that says what an operation means.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpFile {
    /// The folder it lies in, which is the project.
    pub folder: PathBuf,
    /// Its name there.
    pub name: String,
    /// Whether it was named itself, and not its folder.
    pub named: bool,
}

impl OpFile {
    /// What was named: any `.toml` but build.toml is such a file itself; else it is the op.toml of a folder.
    pub fn at(dir: &Path) -> Self {
        let own = dir.file_name().and_then(|name| name.to_str()).filter(|name| {
            let is_toml = name.strip_suffix(".toml").is_some_and(|stem| !stem.is_empty());
            is_toml && *name != "build.toml" && !files::is_dir(dir)
        });
        match own {
            Some(name) => {
                let folder = dir.parent().unwrap_or(Path::new("")).to_owned();
                Self { folder, name: name.to_owned(), named: true }
            }
            None => Self { folder: folder(dir).to_owned(), name: "op.toml".to_owned(), named: false },
        }
    }

    /// Whether it is beside the project's op.toml.
    pub fn is_beside(&self) -> bool {
        self.name != "op.toml"
    }

    /// Where it is, absolute.
    pub fn path(&self) -> PathBuf {
        env::absolute(&self.folder).join(&self.name)
    }

    /// Where it is, as it was named.
    pub fn shown(&self) -> String {
        self.folder.join(&self.name).display().to_string().trim_start_matches("./").to_owned()
    }

    /// Reads and judges it. Problems are told; any error among them fails.
    ///
    /// # Errors
    /// There is none, `step` needs one; it cannot be read; or it has errors.
    pub fn read(&self, step: &'static str, session: &Session) -> Result<OpSpec, Failure> {
        let path = self.path();
        // One that was named and is not there is told by its own name.
        if !self.named && !files::exists(&path) {
            return Err(no_op(&self.folder, step).into());
        }
        let (op, problems) = spec::parse_op(SourceFile::new(self.shown().as_str(), specification(&path)?));
        tell(&problems, session)?;
        op.ok_or(Failure::already_reported(exit::SPEC))
    }
}

/// The text of build.toml or op.toml.
pub fn specification(path: &Path) -> Result<String, ProjectError> {
    let cause: Cause = match files::read_text_up_to(path, SPECIFICATION_LIMIT) {
        Ok(text) => return Ok(text),
        Err(NoText::TooLong) => format!("it is longer than {SPECIFICATION_LIMIT} bytes").into(),
        Err(NoText::NotUtf8) => "it is not UTF-8".into(),
        Err(NoText::Failed(error)) => error.cause.into(),
    };
    Err(ProjectError::Unreadable { path: path.to_owned(), cause })
}

/// Tells warnings, one line each, and fails with the errors. Notes are for `check`.
pub fn tell(problems: &[Problem], session: &Session) -> Result<(), Failure> {
    for problem in problems.iter().filter(|problem| problem.severity == Severity::Warning) {
        let place = problem.place().map(|place| format!("{}:{}: ", place.file, place.start.line));
        session.report.warn(format!("{}{}: {}", place.unwrap_or_default(), problem.code, problem.message));
    }
    Failure::check_errors(problems)
}

/// The torch release that judges: the newest that a needed variant for cpu is built against, since those can be run
/// everywhere; without any, the newest of all.
pub fn torch_of(project: &Project) -> Result<String, Failure> {
    let provision = variants::provision(Provider::Wheels, Vec::new());
    let chosen =
        kernel_plan::variant::select(&project.build, &variants::matrix()?, &provision, Extent::Needed);
    let built = chosen.map(|chosen| chosen.variants).unwrap_or_default();
    let newest = |wanted: &dyn Fn(&Variant) -> bool| {
        let torch = built.iter().filter(|variant| wanted(variant)).filter_map(Variant::torch);
        torch.map(|torch| torch.version).max()
    };
    let judge = newest(&|variant| variant.backend() == Some(BackendId::Cpu)).or_else(|| newest(&|_| true));
    Ok(judge.map_or_else(|| TORCH.to_owned(), |version| version.to_string()))
}

impl Project {
    /// op.toml, or an error that says what it is needed for.
    pub fn op_for(&self, step: &'static str) -> Result<&OpSpec, Failure> {
        self.op.as_ref().ok_or_else(|| ProjectError::NoOp { dir: self.dir.clone(), step }.into())
    }

    /// The files that are shipped in the Python package: those of the framework's folder, `torch-ext/<module>` or
    /// `tvm-ffi-ext/<module>`, with an extension of `pyext`.
    pub fn python_files(&self) -> Vec<RelPath> {
        self.files.iter().filter(|path| is_shipped(&self.build, path)).cloned().collect()
    }

    /// Copies every file into another folder, which is a project then; what is copied can be written to.
    pub fn copy_to(&self, folder: &Path) -> Result<(), FileError> {
        self.files.iter().try_for_each(|file| {
            let to = folder.join(file.as_str());
            files::write(&to, files::read(&self.dir.join(file.as_str()))?)
        })
    }

    /// The commit that the project's folder is at and whether the folder differs from it; default outside of git.
    pub fn provenance(&self) -> Provenance {
        provenance(&self.dir)
    }
}

/// The commit that a folder is at and whether it differs from it; default outside of git, where nobody names one.
pub fn provenance(dir: &Path) -> Provenance {
    if let Some(said) = env::text(env::COMMIT) {
        let (commit, dirty) =
            said.strip_suffix("-dirty").map_or((said.as_str(), false), |commit| (commit, true));
        return Provenance { commit: Some(commit.to_owned()), dirty };
    }
    let git = |arguments: &[&str]| {
        let line = CommandLine::new("git").args(arguments.iter().copied()).cwd(dir);
        let done = process::run(&line, Limits::wall(Duration::from_secs(20))).ok()?;
        done.ending.success().then(|| done.stdout_text().trim().to_owned())
    };
    let Some(commit) = git(&["rev-parse", "HEAD"]) else { return Provenance::default() };
    // The lock follows from what is fetched; that it was written now is no change of the sources.
    let sources = ["status", "--porcelain", "--", ".", ":(exclude)kernelwright.lock"];
    let dirty = git(&sources).is_none_or(|text| !text.is_empty());
    Provenance { commit: Some(commit), dirty }
}
