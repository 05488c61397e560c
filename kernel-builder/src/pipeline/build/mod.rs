//! Builds the variants of a project that were selected.
//!
//! Owns: how a project becomes plans, the names of extensions, the gates: every library is read before anything may package
//! it. Never: compiles (`compile` does), or runs what was built.

pub(crate) mod embed;
pub(crate) mod fetch;
pub(crate) mod lock;
pub(crate) mod published;
pub(crate) mod reproducible;
pub(crate) mod summary;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Instant;

use kernel_plan::backend::{self, Naming};
use kernel_plan::kit::{DeviceKit, LibraryKit, Toolchain};
use kernel_plan::spec::build::{Dependency, Kernel};
use kernel_plan::units::RelPath;
use kernel_plan::variant::{
    Abi, Compiled, Framework, SelectedVariants, Toolkit, Torch, Variant, compiled_with,
};
use miette::Diagnostic;
use thiserror::Error;

use crate::base::digest::DigestBuilder;
use crate::base::session::Session;
use crate::base::{env, files};
use crate::compile::artifact::{self, Artifact, Builds};
use crate::compile::{self, Job};
use crate::exit::{self, Failure, StageError};
use crate::pipeline::project::selection::{SelectError, Selection, select};
use crate::pipeline::project::{self, Project, full_abi, variants};
use crate::toolchain::libraries::{self, Folders};
use crate::toolchain::{self, FrameworkRelease, Provider, Supply, ToolchainRequest};
use crate::verify::{self, CheckResult, Gated, Options, Outcome};

use summary::Summary;

/// What would be replaced as a whole is somebody's.
#[derive(Debug, Error, Diagnostic)]
#[error("`{}` already exists and is not empty", path.display())]
#[diagnostic(code(base::occupied), help("name a new or empty folder; nothing was written"))]
struct FolderOccupied {
    path: PathBuf,
}

impl StageError for FolderOccupied {
    fn exit(&self) -> u8 {
        exit::USAGE
    }
}

/// That a folder for results is new or empty.
///
/// # Errors
/// Something is there.
pub(crate) fn vacant(path: &Path) -> Result<(), Failure> {
    if files::exists(path) && !files::is_empty_dir(path) {
        return Err(FolderOccupied { path: path.to_owned() }.into());
    }
    Ok(())
}

/// A refusal, as an error with the code of the check that refused.
#[derive(Debug, Error)]
#[error("{variant} is refused: {summary}")]
pub(crate) struct Refusal {
    /// The variant that was judged.
    variant: String,
    /// The check's code.
    code: String,
    /// What it found.
    summary: String,
    /// Where all that was found is kept.
    log: PathBuf,
}

impl Refusal {
    /// What a check said of a variant; `log` has the rest.
    pub(crate) fn new(variant: &str, check: &CheckResult, log: &Path) -> Self {
        let (variant, log) = (variant.to_owned(), log.to_owned());
        Self { variant, code: check.code.clone(), summary: check.summary.clone(), log }
    }
}

impl Diagnostic for Refusal {
    fn code<'a>(&'a self) -> Option<Box<dyn std::fmt::Display + 'a>> {
        Some(Box::new(&self.code))
    }

    fn help<'a>(&'a self) -> Option<Box<dyn std::fmt::Display + 'a>> {
        Some(Box::new(format!(
            "`kernelwright explain {}` says what to look for; all findings are in {}",
            self.code,
            self.log.display()
        )))
    }
}

/// One variant that was built.
#[derive(Debug)]
pub(crate) struct Built {
    /// What was made.
    pub(crate) artifact: Artifact,
    /// What the gates say of it; none of them refuses it.
    pub(crate) gates: Gated,
    /// Bytes of its library; absent for Python alone.
    pub(crate) size: Option<u64>,
}

/// Builds the selected variants; every failure is told, then the whole fails once.
pub(crate) fn build(
    project: &Project,
    selection: &Selection,
    session: &Session,
) -> Result<Vec<Artifact>, Failure> {
    let (built, summary) = gated(project, selection, &Options::standard(), session)?;
    summary.verdict()?;
    Ok(built.into_iter().map(|built| built.artifact).collect())
}

/// Builds the selected variants and judges each by what can be read from it. What is refused is taken away, so that
/// nothing packages it. What failed is in the summary.
pub(crate) fn gated(
    project: &Project,
    selection: &Selection,
    options: &Options,
    session: &Session,
) -> Result<(Vec<Built>, Summary), Failure> {
    let started = Instant::now();
    let (artifacts, mut summary) = if selection.prebuilt {
        let found = prebuilt(project, selection, session)?;
        let summary = Summary::new(found.len());
        (found, summary)
    } else {
        let jobs = jobs(project, selection, session)?;
        Summary::sort(&jobs, compile::build(&jobs, &project.dir, session, &selection.conduct))?
    };
    let mut built = Vec::new();
    for artifact in artifacts {
        match pass_gates(project, &artifact, options, session) {
            Ok(gates) => {
                let size = artifact.library.as_ref().map(|library| files::stamp(library)).transpose()?;
                built.push(Built { artifact, gates, size: size.map(|(bytes, _)| bytes) });
            }
            Err(refused) => {
                summary.refuse(&artifact.variant, refused);
                if !selection.prebuilt {
                    artifact::discard(&project.dir, &artifact.variant)?;
                }
            }
        }
    }
    let artifacts: Vec<&Artifact> = built.iter().map(|built| &built.artifact).collect();
    summary.announce(&artifacts, started.elapsed(), &session.report);
    Ok((built, summary))
}

/// Builds the selected variants in a copy of the project, for one that is not to be written to; `to` gets what the gates
/// let pass, when nothing failed.
///
/// # Errors
/// Something is in `to`, or a variant failed.
pub(crate) fn build_into(
    project: &Project,
    selection: &Selection,
    to: &Path,
    session: &Session,
) -> Result<Vec<Built>, Failure> {
    vacant(to)?;
    let scratch = files::scratch()?;
    let folder = scratch.path().join(project.build.general.name.as_str());
    project.copy_to(&folder)?;
    let copy = project::load(&folder, session)?;
    let (built, summary) = gated(&copy, selection, &Options::standard(), session)?;
    summary.verdict()?;
    let staged = files::staging_beside(to)?;
    for built in &built {
        artifact::copy_into(&built.artifact, staged.path())?;
    }
    files::replace_dir(staged, to)?;
    Ok(built)
}

/// Where the verdict of the gates on a variant lies in a project.
fn gates_path(project: &Path, variant: &str) -> PathBuf {
    project.join(".kernelwright/gates").join(format!("{variant}.json"))
}

/// What the gates say of an artifact that no gate refuses.
///
/// # Errors
/// Every refusal, with the code of its check; or the artifact could not be read.
fn pass_gates(
    project: &Project,
    artifact: &Artifact,
    options: &Options,
    session: &Session,
) -> Result<Gated, Failure> {
    let variant = &artifact.variant;
    let log = gates_path(&project.dir, variant);
    let gated = verify::gate(artifact, options, &log, session)?;
    let refusals = gated.ended(Outcome::Refused).map(|check| Refusal::new(variant, check, &log).into());
    let reports: Vec<miette::Report> = refusals.collect();
    if reports.is_empty() { Ok(gated) } else { Err(Failure { exit: exit::VERIFY, reports }) }
}

/// The selected variants among those that lie in the project. If none of those that a build would make do, others that the options
/// allow.
fn prebuilt(project: &Project, selection: &Selection, session: &Session) -> Result<Vec<Artifact>, Failure> {
    let first = prebuilt_of(project, selection, session);
    if selection.all || !matches!(&first, Err(failure) if failure.exit == exit::PLAN) {
        return first;
    }
    let every = Selection { all: true, ..selection.clone() };
    prebuilt_of(project, &every, session).or(first)
}

/// The variants that the options choose, among those that lie in the project.
fn prebuilt_of(
    project: &Project,
    selection: &Selection,
    session: &Session,
) -> Result<Vec<Artifact>, Failure> {
    let wanted: BTreeSet<String> = select(project, selection, session)?
        .variants
        .iter()
        .map(|variant| variant.id().to_string())
        .collect();
    let Builds { mut sound, mut damaged } = artifact::existing(&project.dir)?;
    damaged.retain(|variant| wanted.contains(variant));
    if !damaged.is_empty() {
        return Err(SelectError::Damaged { damaged }.into());
    }
    let there = sound.iter().map(|artifact| artifact.variant.clone()).collect();
    sound.retain(|artifact| wanted.contains(&artifact.variant));
    let lacks = |variant: &&String| !sound.iter().any(|artifact| artifact.variant == **variant);
    let lacking: Vec<String> = wanted.iter().filter(lacks).cloned().collect();
    // Of those that are right for the project some may lie there; what was named must.
    if sound.is_empty() || (!selection.variants.is_empty() && !lacking.is_empty()) {
        return Err(SelectError::NotBuilt { wanted: lacking, there }.into());
    }
    Ok(sound)
}

/// The selected variants, each with its tools and its plan.
pub(crate) fn jobs(project: &Project, selection: &Selection, session: &Session) -> Result<Vec<Job>, Failure> {
    let SelectedVariants { variants, elsewhere } = select(project, selection, session)?;
    if elsewhere > 0 {
        let are = if elsewhere == 1 { "variant is" } else { "variants are" };
        session.report.note(format!(
            "{elsewhere} more {are} possible for this project but cannot be built here; `kernelwright variants` says why"
        ));
    }
    if variants.iter().filter_map(Variant::torch).any(|torch| torch.abi != Abi::Stable) {
        let full = full_abi::find(
            project,
            &variants::matrix()?,
            &variants::provision(selection.toolchain, toolchain::tools(session)),
        );
        full_abi::sentences(&full).iter().for_each(|sentence| session.report.note(sentence));
    }
    let users = name_users(project)?;
    let commit = project.provenance().described();
    let supply = Supply::open(&project.dir, selection.locked, session)?;
    let wants = variants.iter().filter_map(|of| Some(want(of, of.compiled()?, selection.toolchain)));
    supply.prepare(&wants.collect::<Vec<_>>())?;
    let mut jobs = Vec::new();
    for variant in &variants {
        let unplanned = || unplanned(variant, &variants);
        let Some(compiled) = variant.compiled() else {
            let extension = python_name(project, variant)?;
            let plan = backend::plan_python(&project.build, variant, &extension, project.python_files());
            let (plan, named) = (plan.ok_or_else(unplanned)?, BTreeSet::new());
            jobs.push(Job { plan, kit: None, commit: commit.clone(), named });
            continue;
        };
        let mut kit = supply.resolve(&want(variant, compiled, selection.toolchain))?;
        kit.libraries = libraries(project, compiled.toolkit, &selection.libraries, &supply)?;
        let (extension, named) = extension_name(project, variant, &kit)?;
        let naming = Naming { extension: &extension, users: &users };
        let plan = backend::plan(&project.build, variant, &kit, &naming, project.python_files());
        jobs.push(Job { plan: plan.ok_or_else(unplanned)?, kit: Some(kit), commit: commit.clone(), named });
    }
    tell_routes(&jobs, session);
    supply.close()?;
    Ok(jobs)
}

/// The header libraries of a project's kernels for one toolkit.
pub(crate) fn libraries(
    project: &Project,
    toolkit: Toolkit,
    named: &Folders,
    supply: &Supply<'_>,
) -> Result<Vec<LibraryKit>, Failure> {
    let kernels = project.build.kernels_of(toolkit.id()).filter(|kernel| compiled_with(kernel, toolkit));
    let mut wanted: Vec<Dependency> =
        kernels.flat_map(|kernel| kernel.depends.iter().map(|dependency| dependency.value)).collect();
    wanted.sort_by_key(|dependency| dependency.as_str());
    wanted.dedup();
    let mut folders = named.clone();
    if folders.cutlass.is_empty() {
        let said = env::text(env::CUTLASS_DIR).unwrap_or_default();
        folders.cutlass.extend(said.split(':').filter(|folder| !folder.is_empty()).map(PathBuf::from));
    }
    Ok(libraries::libraries(supply, &wanted, &folders)?)
}

/// Tells once where a compiler comes from, where that is not the obvious place.
fn tell_routes(jobs: &[Job], session: &Session) {
    let odd = |job: &&Job| {
        job.kit
            .as_ref()
            .and_then(|kit| kit.cuda.as_ref())
            .is_some_and(|cuda| cuda.front.is_some() || cuda.installed)
    };
    let routes: BTreeSet<&String> =
        jobs.iter().filter(odd).filter_map(|job| job.plan.route.as_ref()).collect();
    routes.into_iter().for_each(|route| session.report.note(route));
}

/// The tools that a variant is compiled with.
pub(crate) fn want(variant: &Variant, compiled: &Compiled, provider: Provider) -> ToolchainRequest {
    let framework = match compiled.framework {
        Framework::Torch(torch) => FrameworkRelease::Torch(torch.version.to_string()),
        Framework::TvmFfi(version) => FrameworkRelease::TvmFfi(version.to_string()),
    };
    let cuda = variant.cuda().map(|version| version.to_string());
    let device = Some(compiled.toolkit)
        .filter(|toolkit| matches!(toolkit, Toolkit::Rocm(_) | Toolkit::Xpu(_) | Toolkit::Metal));
    // The headers of the full ABI for such a device are in no wheel of the index.
    let full = matches!(compiled.framework, Framework::Torch(Torch { abi, .. }) if abi != Abi::Stable);
    let provider = if device.is_some() && full { Provider::System } else { provider };
    ToolchainRequest { provider, framework, cuda, device }
}

/// The provision and the plan agree on what is compiled; a variant that only one of them knows cannot be built.
fn unplanned(variant: &Variant, variants: &[Variant]) -> Failure {
    let offered = variants.iter().filter(|other| *other != variant).map(ToString::to_string).collect();
    let missing = "this version of kernelwright cannot compile it".to_owned();
    SelectError::Elsewhere { id: variant.to_string(), missing, offered }.into()
}

/// Sources that use the extension's name: those that mention it or the registration macros. A header that does makes
/// every source a user, since any may include it.
fn name_users(project: &Project) -> Result<BTreeSet<RelPath>, Failure> {
    const MARKS: &[&str] =
        &["TORCH_EXTENSION_NAME", "TVM_FFI_EXTENSION_NAME", "registration.h", "REGISTER_EXTENSION"];
    let (mut users, mut all) = (BTreeSet::new(), BTreeSet::new());
    let mut in_header = false;
    for path in &project.files {
        let header = is_header(path);
        let source = matches!(path.extension(), Some("cpp" | "cc" | "cxx" | "c" | "cu" | "hip" | "mm" | "m"));
        if !header && !source {
            continue;
        }
        let bytes = files::read(&project.dir.join(path.as_str()))?;
        let text = String::from_utf8_lossy(&bytes);
        let mentions = MARKS.iter().any(|mark| text.contains(mark));
        in_header |= header && mentions;
        if source {
            all.insert(path.clone());
            if mentions {
                users.insert(path.clone());
            }
        }
    }
    Ok(if in_header { all } else { users })
}

/// What sources include, by its ending.
fn is_header(path: &RelPath) -> bool {
    const ENDINGS: &[&str] = &["h", "hh", "hpp", "hxx", "cuh", "inc", "inl", "ipp", "tpp", "def"];
    path.extension().is_some_and(|ending| ENDINGS.contains(&ending))
}

/// `_<module>_<backend>_<digest>`: the digest covers every source of the variant, every header of the project, build.toml,
/// the tools and this program's version, so two builds share a name only when they are the same.
///
/// Given with the files that it covers; what the compiler reads beside them is added when that is known
/// (`compile::outside`).
fn extension_name(
    project: &Project,
    variant: &Variant,
    kit: &Toolchain,
) -> Result<(String, BTreeSet<String>), Failure> {
    let Some(backend) = variant.backend() else { return Err(unplanned(variant, &[])) };
    let framework = &project.build.framework;
    let kernels: Vec<&Kernel> = project.build.kernels_of(backend).collect();
    let sources = framework.src().iter().chain(kernels.iter().flat_map(|kernel| &kernel.src));
    let includes = framework.include().iter().chain(kernels.iter().flat_map(|kernel| &kernel.include));
    let folder = |path: &str| Path::new(path).parent().map(Path::to_owned).unwrap_or_default();
    let mut folders: BTreeSet<_> = sources.clone().map(|path| folder(path.as_str())).collect();
    folders.extend(includes.map(|path| Path::new(path.as_str()).to_owned()));
    let listed: BTreeSet<&str> = sources.map(|path| path.as_str()).collect();
    let python: BTreeSet<String> =
        project.python_files().iter().map(|path| path.as_str().to_owned()).collect();
    let mut digest = DigestBuilder::new("extension-1")
        .field("program", env!("CARGO_PKG_VERSION"))
        .field("variant", variant.id().as_str())
        .field("cxx", &kit.cxx.id)
        .field("framework", kit.framework.id())
        .field("cuda", kit.cuda.as_ref().map_or("", |cuda| cuda.id.as_str()))
        .field("device", kit.device.as_ref().map_or("", DeviceKit::id))
        .field("portable", kit.portable.as_ref().map_or("", |portable| portable.id.as_str()))
        .field("build.toml", &project.build.file.text);
    digest = kit.libraries.iter().fold(digest, |digest, library| digest.field(&library.name, &library.id));
    let mut named = BTreeSet::new();
    for path in &project.files {
        let place = Path::new(path.as_str());
        // The project's root and the framework's folder hold other things than sources; there, only listed files and
        // headers count.
        let nested = place.ancestors().skip(1).any(|folder| {
            folder != Path::new("") && folder != Path::new(framework.folder()) && folders.contains(folder)
        });
        if nested || is_header(path) || listed.contains(path.as_str()) || python.contains(path.as_str()) {
            digest = digest.field(path.as_str(), files::read(&project.dir.join(place))?);
            named.insert(path.as_str().to_owned());
        }
    }
    let name = format!("_{}_{backend}_{}", project.build.general.name.module(), digest.finish().short(10));
    Ok((name, named))
}

/// The name of a variant of Python only: its digest covers what is shipped, and not the backend, so that `_ops.py` is the
/// same for all of them.
fn python_name(project: &Project, variant: &Variant) -> Result<String, Failure> {
    let Some(backend) = variant.backend() else { return Err(unplanned(variant, &[])) };
    let mut digest = DigestBuilder::new("python-1")
        .field("program", env!("CARGO_PKG_VERSION"))
        .field("build.toml", &project.build.file.text);
    for path in project.python_files() {
        digest = digest.field(path.as_str(), files::read(&project.dir.join(path.as_str()))?);
    }
    Ok(format!("_{}_{backend}_{}", project.build.general.name.module(), digest.finish().short(10)))
}
