//! `build`: every selected variant of a project, from wheels or the system's tools.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::{Duration, Instant};

use clap::Args as ClapArgs;
use kernel_plan::backend::{self, Naming};
use kernel_plan::kit::{DeviceKit, Toolchain};
use kernel_plan::plan::VariantPlan;
use kernel_plan::spec::build::Kernel;
use kernel_plan::units::RelPath;
use kernel_plan::variant::{self, Chosen, Decision, Framework, Toolkit, Torch, Variant};
use miette::Diagnostic;
use serde_json::json;
use thiserror::Error;

use crate::base::digest::DigestBuilder;
use crate::base::report::{Event, duration};
use crate::base::session::Session;
use crate::base::{files, interrupt};
use crate::compile::artifact::{self, Artifact};
use crate::compile::{self, Job, shell_line};
use crate::exit::{self, Failure, StageError};
use crate::toolchain::{self, Against, Provider, Want};

use super::libraries::{self, LibraryDirs};
use super::project::{self, Project, ProjectDir};
use super::variants;

/// Which variants and with which tools; shared by every verb that builds.
#[derive(Debug, Clone, ClapArgs)]
pub struct Selection {
    /// Build this variant only; may be given several times. `kernelwright variants` lists them
    #[arg(long = "variant", value_name = "ID")]
    pub variants: Vec<String>,
    /// Build for this backend only (cpu, cuda)
    #[arg(long, value_name = "NAME")]
    pub backend: Option<String>,
    /// Build those of them that this expression selects, as in `cuda:13.* and not abi:full`
    #[arg(long, value_name = "EXPRESSION")]
    pub selector: Option<String>,
    /// Where compilers and headers come from
    #[arg(long, value_enum, default_value_t = Provider::Wheels)]
    pub toolchain: Provider,
    /// Where header libraries are.
    #[command(flatten)]
    pub libraries: LibraryDirs,
    /// Build nothing: take what lies in .kernelwright/artifacts, built earlier or on another machine
    #[arg(long)]
    pub prebuilt: bool,
}

impl Selection {
    /// Whether an option leaves variants out.
    fn narrows(&self) -> bool {
        !self.variants.is_empty() || self.backend.is_some() || self.selector.is_some()
    }
}

/// Build every variant
///
/// Compilers and headers come from the package index (`--toolchain wheels`, the default: no CUDA and no PyTorch need
/// to be installed) or from this machine (`--toolchain system`). Unchanged units are not compiled again. Logs are kept
/// in .kernelwright/logs of the project.
#[derive(Debug, ClapArgs)]
pub struct Args {
    #[command(flatten)]
    project: ProjectDir,
    #[command(flatten)]
    selection: Selection,
    /// Print what would be run, and run nothing but the fetching of missing tools
    #[arg(long)]
    plan: bool,
}

/// Why there is nothing to build.
#[derive(Debug, Error, Diagnostic)]
pub enum SelectError {
    /// A variant was named that does not fit.
    #[error("the variant `{id}` is not for this project: {why}")]
    #[diagnostic(code(plan::unknown_variant), help("here it can be built for: {}", offered.join(", ")))]
    Unknown {
        /// What was asked for.
        id: String,
        /// Why not.
        why: String,
        /// What fits.
        offered: Vec<String>,
    },
    /// A variant was named that is right for the project, and something is missing here.
    #[error("the variant `{id}` cannot be built here: {missing}")]
    #[diagnostic(code(plan::not_buildable), help("here it can be built for: {}", offered.join(", ")))]
    Elsewhere {
        /// What was asked for.
        id: String,
        /// What is missing.
        missing: String,
        /// What can be built.
        offered: Vec<String>,
    },
    /// No variant is left.
    #[error("no variant is left: {by} leaves out what can be built here")]
    #[diagnostic(code(plan::nothing_selected), help("without it: {}", offered.join(", ")))]
    Nothing {
        /// The option.
        by: String,
        /// What can be built.
        offered: Vec<String>,
    },
    /// `--prebuilt`, and nothing was built.
    #[error("no build of {} lies in .kernelwright/artifacts", wanted.join(", "))]
    #[diagnostic(
        code(plan::not_built),
        help(
            "build without --prebuilt, or bring the folder from the machine that built it; a folder that was changed does not count"
        )
    )]
    NotBuilt {
        /// The variants that were wanted.
        wanted: Vec<String>,
    },
}

impl StageError for SelectError {
    fn exit(&self) -> u8 {
        exit::PLAN
    }
}

/// Runs the verb.
pub fn run(args: &Args, session: &Session) -> Result<(), Failure> {
    let project = project::load(&args.project.dir, session)?;
    if args.plan {
        let jobs = jobs(&project, &args.selection, session)?;
        let plans: Vec<&VariantPlan> = jobs.iter().map(|job| &job.plan).collect();
        session.report.result("build", &json!({ "plan": plans }), &plan_text(&plans));
        return Ok(());
    }
    let started = Instant::now();
    let artifacts = build(&project, &args.selection, session)?;
    let mut human = String::new();
    for artifact in &artifacts {
        human += &format!("{}  {}\n", artifact.variant, artifact.dir.display());
    }
    session.report.result(
        "build",
        &json!({ "artifacts": artifacts, "seconds": started.elapsed().as_secs_f64() }),
        &human,
    );
    Ok(())
}

/// Builds the selected variants; every failure is told, then the whole fails once.
pub fn build(project: &Project, selection: &Selection, session: &Session) -> Result<Vec<Artifact>, Failure> {
    if selection.prebuilt {
        return prebuilt(project, selection, session);
    }
    let jobs = jobs(project, selection, session)?;
    let started = Instant::now();
    let outcomes = compile::build(&jobs, &project.dir, session);
    let mut artifacts = Vec::new();
    let mut failure = Failure::told(exit::SUCCESS);
    for outcome in outcomes {
        match outcome {
            Ok(artifact) => artifacts.push(artifact),
            Err(errors) => {
                for error in errors {
                    let failed = Failure::from(error);
                    failure.exit = failure.exit.max(failed.exit);
                    failure.reports.extend(failed.reports);
                }
            }
        }
    }
    // Each unit that ran reports an interruption; a person pressed ctrl-C once.
    interrupt::check()?;
    if failure.exit != exit::SUCCESS {
        return Err(failure);
    }
    for artifact in &artifacts {
        session.report.emit(&Event::Done {
            action: "built",
            subject: &artifact.variant,
            detail: &artifact.id,
            seconds: started.elapsed().as_secs_f64(),
            cached: started.elapsed() < Duration::from_millis(200),
        });
    }
    Ok(artifacts)
}

/// The selected variants among those that lie in the project.
fn prebuilt(project: &Project, selection: &Selection, session: &Session) -> Result<Vec<Artifact>, Failure> {
    let wanted: BTreeSet<String> = select(project, selection, session)?
        .variants
        .iter()
        .map(|variant| variant.id().to_string())
        .collect();
    let mut found = artifact::existing(&project.dir)?;
    found.retain(|artifact| wanted.contains(&artifact.variant));
    if found.is_empty() {
        return Err(SelectError::NotBuilt { wanted: wanted.into_iter().collect() }.into());
    }
    Ok(found)
}

/// The selected variants, each with its tools and its plan.
pub fn jobs(project: &Project, selection: &Selection, session: &Session) -> Result<Vec<Job>, Failure> {
    let Chosen { variants, elsewhere } = select(project, selection, session)?;
    if elsewhere > 0 {
        let are = if elsewhere == 1 { "variant is" } else { "variants are" };
        session.report.note(format!(
            "{elsewhere} more {are} right for this project and cannot be built here; `kernelwright variants` says why"
        ));
    }
    let users = name_users(project)?;
    let commit = project.provenance().described();
    let mut jobs = Vec::new();
    for variant in &variants {
        let unplanned = || unplanned(variant, &variants);
        let Some(compiled) = variant.compiled() else {
            let extension = python_name(project, variant)?;
            let plan = backend::plan_python(&project.build, variant, &extension, project.python_files());
            jobs.push(Job { plan: plan.ok_or_else(unplanned)?, kit: None, commit: commit.clone() });
            continue;
        };
        let framework = match compiled.framework {
            Framework::Torch(torch) => Against::Torch(torch.version.to_string()),
            Framework::TvmFfi(version) => Against::TvmFfi(version.to_string()),
        };
        let cuda = variant.cuda().map(|version| version.to_string());
        let device = Some(compiled.toolkit)
            .filter(|toolkit| matches!(toolkit, Toolkit::Rocm(_) | Toolkit::Xpu(_) | Toolkit::Metal));
        // The headers of the full ABI for such a device are in no wheel of the index.
        let full =
            matches!(compiled.framework, Framework::Torch(Torch { abi, .. }) if abi != variant::Abi::Stable);
        let provider = if device.is_some() && full { Provider::System } else { selection.toolchain };
        let mut kit = toolchain::resolve(session, &Want { provider, framework, cuda, device })?;
        kit.libraries = libraries::of(project, compiled.toolkit, &selection.libraries, session)?;
        let extension = extension_name(project, variant, &kit)?;
        let naming = Naming { extension: &extension, users: &users };
        let plan = backend::plan(&project.build, variant, &kit, &naming, project.python_files());
        jobs.push(Job { plan: plan.ok_or_else(unplanned)?, kit: Some(kit), commit: commit.clone() });
    }
    Ok(jobs)
}

/// The provision and the plan agree on what is compiled; a variant that only one of them knows cannot be built.
fn unplanned(variant: &Variant, variants: &[Variant]) -> Failure {
    let offered = variants.iter().filter(|other| *other != variant).map(ToString::to_string).collect();
    let missing = "this version compiles nothing like it".to_owned();
    SelectError::Elsewhere { id: variant.to_string(), missing, offered }.into()
}

fn select(project: &Project, selection: &Selection, session: &Session) -> Result<Chosen, Failure> {
    let matrix = project::matrix()?;
    let selector = selection.selector.as_deref().map(variants::selector).transpose()?;
    let provision = variants::provision(selection.toolchain, toolchain::tools(session));
    let told = |problem| Failure::of(exit::PLAN, [problem]);
    let mut chosen = variant::select(&project.build, &matrix, &provision).map_err(told)?;
    let offered: Vec<String> = chosen.variants.iter().map(ToString::to_string).collect();
    let named: BTreeSet<&str> = selection.variants.iter().map(String::as_str).collect();
    if let Some(id) = named.iter().find(|id| !offered.iter().any(|offered| offered == *id)) {
        let explained = variant::explain(&project.build, &matrix, &provision);
        let decision = explained.iter().find(|row| row.row.variant.value.to_string() == *id);
        let id = (*id).to_owned();
        return Err(match decision.map(|row| &row.decision) {
            Some(Decision::Elsewhere(missing)) => {
                SelectError::Elsewhere { id, missing: missing.to_string(), offered }
            }
            Some(Decision::Out(refusal)) => SelectError::Unknown { id, why: refusal.to_string(), offered },
            Some(Decision::Built(_)) | None => {
                SelectError::Unknown { id, why: "there is no variant of that name".to_owned(), offered }
            }
        }
        .into());
    }
    let mut keep = |by: String, wanted: &dyn Fn(&Variant) -> bool| {
        chosen.variants.retain(wanted);
        let left = !chosen.variants.is_empty();
        left.then_some(()).ok_or_else(|| SelectError::Nothing { by, offered: offered.clone() })
    };
    if !named.is_empty() {
        keep("`--variant`".to_owned(), &|variant| named.contains(variant.id().as_str()))?;
    }
    if let Some(backend) = &selection.backend {
        let of = |variant: &Variant| variant.backend().is_some_and(|found| found.as_str() == backend);
        keep(format!("`--backend {backend}`"), &of)?;
    }
    if let Some(selector) = &selector {
        let by = format!("`--selector '{selector}'`");
        keep(by, &|variant| matrix.row(variant).is_some_and(|row| selector.matches(row)))?;
    }
    if selection.narrows() {
        // Who asked for some of them knows that there are others.
        chosen.elsewhere = 0;
    }
    Ok(chosen)
}

/// Sources that use the extension's name: those that mention it or the registration macros. A header that does makes
/// every source a user, since any may include it.
fn name_users(project: &Project) -> Result<BTreeSet<RelPath>, Failure> {
    const MARKS: &[&str] =
        &["TORCH_EXTENSION_NAME", "TVM_FFI_EXTENSION_NAME", "registration.h", "REGISTER_EXTENSION"];
    let (mut users, mut all) = (BTreeSet::new(), BTreeSet::new());
    let mut in_header = false;
    for path in &project.files {
        let header = matches!(path.extension(), Some("h" | "hpp" | "cuh" | "inc"));
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

/// `_<module>_<backend>_<digest>`: the digest covers every source of the variant, build.toml, the tools and this
/// program's version, so two builds share a name only when they are the same.
fn extension_name(project: &Project, variant: &Variant, kit: &Toolchain) -> Result<String, Failure> {
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
    for path in &project.files {
        let place = Path::new(path.as_str());
        // The project's root and the framework's folder hold other things than sources; there, only listed files count.
        let nested = place.parent().is_some_and(|parent| {
            parent != Path::new("") && parent != Path::new(framework.folder()) && folders.contains(parent)
        });
        if nested || listed.contains(path.as_str()) || python.contains(path.as_str()) {
            digest = digest.field(path.as_str(), files::read(&project.dir.join(place))?);
        }
    }
    Ok(format!("_{}_{backend}_{}", project.build.general.name.module(), digest.finish().short(10)))
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

fn plan_text(plans: &[&VariantPlan]) -> String {
    let mut text = String::new();
    for plan in plans {
        text += &format!("# {}\n", plan.id);
        let units = plan.units.iter().map(|unit| &unit.command);
        let steps = plan.before_link.iter().map(|step| &step.command);
        for command in plan.prepare.iter().chain(units).chain(steps) {
            text += &format!("{}\n", shell_line(command));
        }
        if let Some(link) = &plan.link {
            text += &format!("{}\n", shell_line(link));
        }
    }
    text
}

/// A sentence for the summary of `make`.
pub fn summary(artifacts: &[Artifact], took: Duration) -> String {
    let names: Vec<&str> = artifacts.iter().map(|artifact| artifact.variant.as_str()).collect();
    format!("{} in {}", names.join(", "), duration(took))
}
