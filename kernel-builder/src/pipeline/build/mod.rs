//! `build`: every selected variant of a project, from wheels or the system's tools.

pub(crate) mod elsewhere;
pub(crate) mod gates;
pub(crate) mod libraries;
pub(crate) mod lock;
pub(crate) mod reproducible;
pub(crate) mod summary;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use clap::Args as ClapArgs;
use kernel_plan::backend::{self, Naming};
use kernel_plan::kit::{DeviceKit, Toolchain};
use kernel_plan::plan::VariantPlan;
use kernel_plan::spec::build::Kernel;
use kernel_plan::units::RelPath;
use kernel_plan::variant::{Abi, Chosen, Compiled, Framework, Toolkit, Torch, Variant};
use serde_json::{Value, json};

use crate::base::digest::DigestBuilder;
use crate::base::env;
use crate::base::files;
use crate::base::report::duration;
use crate::base::session::Session;
use crate::commands::variants::provision;
use crate::compile::artifact::{self, Artifact, Builds};
use crate::compile::{self, Job, shell_line};
use crate::exit::{self, Failure};
use crate::pipeline::build::summary::Summary;
use crate::pipeline::project::full_abi;
use crate::pipeline::project::selection::{SelectError, Selection, select};
use crate::pipeline::project::{self, Project, ProjectDir};
use crate::pipeline::ship::prove::{self, Depth, Proof};
use crate::toolchain::{self, Against, Provider, Supply, Want};
use crate::verify::{Gated, Options};

/// Build the variants that users need, or all with `--all`
///
/// With PyTorch's stable ABI, one build serves many PyTorch releases. Builds for older CUDA releases are added if the
/// newer build does not load there or has no code for a GPU.
///
/// By default, compilers and headers come from PyPI wheels, so neither CUDA nor PyTorch has to be installed. With
/// `--toolchain system` they come from this machine. Unchanged units are not compiled again. Every library is
/// checked: symbols, dependencies, architectures. Libraries that fail are not kept. Logs are in .kernelwright/logs.
#[derive(Debug, ClapArgs)]
#[command(after_help = "Examples:
  kernelwright build examples/rms-norm
  kernelwright build --all --selector 'cuda:13.* and not abi:full'
  kernelwright build --check-reproducible")]
pub(crate) struct Args {
    #[command(flatten)]
    project: ProjectDir,
    #[command(flatten)]
    selection: Selection,
    /// Print the commands instead of running them; missing tools are still fetched
    #[arg(long)]
    plan: bool,
    /// Build twice, from two copies of the project and without the cache, and compare every byte
    #[arg(long, conflicts_with_all = ["plan", "prebuilt", "load", "prove"])]
    check_reproducible: bool,
    /// Build in a copy of the project, and write each build with its description to DIR, which must not exist. For
    /// read-only projects and for `layout`
    #[arg(long, value_name = "DIR", conflicts_with_all = ["plan", "prebuilt", "check_reproducible", "load", "prove"])]
    to: Option<PathBuf>,
    /// Then load each variant with Hugging Face's client under a matching PyTorch, and all variants together
    #[arg(long, conflicts_with = "plan")]
    load: bool,
    /// Check that the variants can be published: load them, require manylinux_2_28, and verify the CPU variants, each
    /// with its own PyTorch
    #[arg(long, conflicts_with = "plan")]
    prove: bool,
}

impl Args {
    /// What is asked of the variants beyond what can be read from them.
    fn depth(&self) -> Option<Depth> {
        let verified = self.prove.then_some(Depth::Verified);
        verified.or_else(|| self.load.then_some(Depth::Loaded))
    }
}

/// Runs the verb.
pub(crate) fn run(args: &Args, session: &Session) -> Result<(), Failure> {
    let project = project::load(&args.project.dir, session)?;
    if args.plan {
        let jobs = jobs(&project, &args.selection, session)?;
        let plans: Vec<&VariantPlan> = jobs.iter().map(|job| &job.plan).collect();
        session.report.result("build", &json!({ "plan": plans }), &plan_text(&plans));
        return Ok(());
    }
    if args.check_reproducible {
        return reproducible::check(&project, &args.selection, session);
    }
    if let Some(to) = &args.to {
        return elsewhere::build(&project, &args.selection, &env::absolute(to), session);
    }
    let started = Instant::now();
    let options = Options { require_portable: args.prove, ..Options::standard() };
    let (built, summary) = gated(&project, &args.selection, &options, session)?;
    let artifacts: Vec<Artifact> = built.iter().map(|built| built.artifact.clone()).collect();
    let depth = args.depth();
    let proof = depth.map(|depth| prove::prove(&project, &artifacts, depth, session)).transpose()?;
    let (proof, unproven) = proof.unzip();
    let data = json!({
        "artifacts": artifacts,
        "variants": rows(&built, proof.as_ref()),
        "together": proof.as_ref().map(|proof| &proof.together),
        "failed": summary.groups(),
        "seconds": started.elapsed().as_secs_f64(),
    });
    session.report.result("build", &data, &table(&built, proof.as_ref()));
    match (summary.verdict(), unproven.filter(|failure| failure.exit != exit::SUCCESS)) {
        (verdict, None) => verdict,
        (Ok(()), Some(failure)) => Err(failure),
        (Err(mut verdict), Some(failure)) => {
            verdict.join(failure);
            Err(verdict)
        }
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
        Summary::sort(&jobs, compile::build(&jobs, &project.dir, session, &selection.how.conduct()))?
    };
    let mut built = Vec::new();
    for artifact in artifacts {
        match gates::judge(project, &artifact, options, session) {
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

/// What a program is told of each variant.
pub(crate) fn rows(built: &[Built], proof: Option<&Proof>) -> Vec<Value> {
    let row = |(place, built): (usize, &Built)| {
        let mut row =
            json!({ "variant": built.artifact.variant, "size": built.size, "gates": built.gates.checks });
        if let Some(tried) = proof.and_then(|proof| proof.variants.get(place)) {
            row["loaded_with"] = json!(tried.loaded_with);
            row["not_loaded"] = json!(tried.not_loaded);
            row["load_failed"] = json!(tried.failed);
            row["verified"] = json!(tried.verified);
        }
        row
    };
    built.iter().enumerate().map(row).collect()
}

/// A line a variant: its size, what the gates say, which torch loaded it or why none did. Then what the client takes of
/// all of them.
pub(crate) fn table(built: &[Built], proof: Option<&Proof>) -> String {
    let mut text = String::new();
    let width = built.iter().map(|built| built.artifact.variant.len()).max().unwrap_or_default();
    for (place, Built { artifact, gates, size }) in built.iter().enumerate() {
        let size = size.map_or_else(|| "Python".to_owned(), |bytes| format!("{:.1} kB", bytes as f64 / 1e3));
        text += &format!("{:<width$}  {size:>10}  {}", artifact.variant, gates::line(gates));
        if let Some(tried) = proof.and_then(|proof| proof.variants.get(place)) {
            text += &format!("  {tried}");
        }
        text.push('\n');
    }
    for taken in proof.into_iter().flat_map(|proof| &proof.together) {
        let variant = taken.variant.as_deref().unwrap_or("none of them");
        text += &format!("under torch {} the client takes for {}: {variant}\n", taken.torch, taken.backend);
    }
    text
}

/// The selected variants among those that lie in the project.
fn prebuilt(project: &Project, selection: &Selection, session: &Session) -> Result<Vec<Artifact>, Failure> {
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
    sound.retain(|artifact| wanted.contains(&artifact.variant));
    let lacks = |variant: &&String| !sound.iter().any(|artifact| artifact.variant == **variant);
    let lacking: Vec<String> = wanted.iter().filter(lacks).cloned().collect();
    // Of those that are right for the project some may lie there; what was named must.
    if sound.is_empty() || (!selection.variants.is_empty() && !lacking.is_empty()) {
        return Err(SelectError::NotBuilt { wanted: lacking }.into());
    }
    Ok(sound)
}

/// The selected variants, each with its tools and its plan.
pub(crate) fn jobs(project: &Project, selection: &Selection, session: &Session) -> Result<Vec<Job>, Failure> {
    let Chosen { variants, elsewhere } = select(project, selection, session)?;
    if elsewhere > 0 {
        let are = if elsewhere == 1 { "variant is" } else { "variants are" };
        session.report.note(format!(
            "{elsewhere} more {are} right for this project and cannot be built here; `kernelwright variants` says why"
        ));
    }
    if variants.iter().filter_map(Variant::torch).any(|torch| torch.abi != Abi::Stable) {
        let full = full_abi::of(
            project,
            &project::matrix()?,
            &provision(selection.toolchain, toolchain::tools(session)),
        );
        full_abi::sentences(&full).iter().for_each(|sentence| session.report.note(sentence));
    }
    let users = name_users(project)?;
    let commit = project.provenance().described();
    let supply = Supply::of(&project.dir, selection.locked, session)?;
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
        kit.libraries = libraries::of(project, compiled.toolkit, &selection.libraries, &supply)?;
        let (extension, named) = extension_name(project, variant, &kit)?;
        let naming = Naming { extension: &extension, users: &users };
        let plan = backend::plan(&project.build, variant, &kit, &naming, project.python_files());
        jobs.push(Job { plan: plan.ok_or_else(unplanned)?, kit: Some(kit), commit: commit.clone(), named });
    }
    tell_routes(&jobs, session);
    supply.close()?;
    Ok(jobs)
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
pub(crate) fn want(variant: &Variant, compiled: &Compiled, provider: Provider) -> Want {
    let framework = match compiled.framework {
        Framework::Torch(torch) => Against::Torch(torch.version.to_string()),
        Framework::TvmFfi(version) => Against::TvmFfi(version.to_string()),
    };
    let cuda = variant.cuda().map(|version| version.to_string());
    let device = Some(compiled.toolkit)
        .filter(|toolkit| matches!(toolkit, Toolkit::Rocm(_) | Toolkit::Xpu(_) | Toolkit::Metal));
    // The headers of the full ABI for such a device are in no wheel of the index.
    let full = matches!(compiled.framework, Framework::Torch(Torch { abi, .. }) if abi != Abi::Stable);
    let provider = if device.is_some() && full { Provider::System } else { provider };
    Want { provider, framework, cuda, device }
}

/// The provision and the plan agree on what is compiled; a variant that only one of them knows cannot be built.
fn unplanned(variant: &Variant, variants: &[Variant]) -> Failure {
    let offered = variants.iter().filter(|other| *other != variant).map(ToString::to_string).collect();
    let missing = "this version compiles nothing like it".to_owned();
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

fn plan_text(plans: &[&VariantPlan]) -> String {
    let mut text = String::new();
    for plan in plans {
        text += &format!("# {}\n", plan.id);
        text += &plan.route.iter().map(|route| format!("# {route}\n")).collect::<String>();
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
pub(crate) fn summary(artifacts: &[Artifact], took: Duration) -> String {
    let names: Vec<&str> = artifacts.iter().map(|artifact| artifact.variant.as_str()).collect();
    format!("{} in {}", names.join(", "), duration(took))
}
