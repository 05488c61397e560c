//! `make`: the whole line on one project: check, build, verify, bench, package, publish, load.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use clap::Args as ClapArgs;
use serde_json::json;

use crate::archive;
use crate::base::report::{Event, duration};
use crate::base::session::Session;
use crate::bench::{self, Measurement};
use crate::commands::publish::OnHub;
use crate::compile::artifact::Artifact;
use crate::exit::Failure;
use crate::package::{Judged, PackageError, Status, of_the_project_alone};
use crate::pipeline::build;
use crate::pipeline::judge as verify;
use crate::pipeline::judge::torches::{self as judges, Reach};
use crate::pipeline::measure as bench_verb;
use crate::pipeline::project::selection::Selection;
use crate::pipeline::project::{self, Project, ProjectDir};
use crate::pipeline::ship::destination::{Destination, Reached, Sent};
use crate::pipeline::ship::load;
use crate::pipeline::ship::package;
use crate::toolchain::{Extras, PythonRuntime};
use crate::verify::{NOT_LOADED, OTHER_TORCH, Verified};

/// Run every stage, from check to load
///
/// The stages are check, build, verify, bench, package, publish (to DIR/dist) and load. Stages whose inputs did not
/// change are not repeated, so an interrupted run continues where it stopped. At the end, Hugging Face's client loads
/// the result, and the project's example runs. On the way to a hub, loading comes first: a kernel that does not load
/// is not published.
#[derive(Debug, ClapArgs)]
#[command(after_help = "Examples:
  kernelwright make examples/rms-norm
  kernelwright make my-norm --backend cpu --no-bench
  kernelwright make my-norm --to hf:me/fast-norm")]
pub(crate) struct Args {
    #[command(flatten)]
    project: ProjectDir,
    #[command(flatten)]
    selection: Selection,
    #[command(flatten)]
    judge: verify::How,
    #[command(flatten)]
    bench: bench_verb::How,
    /// Skip the measurements
    #[arg(long)]
    no_bench: bool,
    /// Where to publish, as for `publish --to`; default: `dist` in the project
    #[arg(long, value_name = "DIR|hf[:OWNER/NAME]")]
    to: Option<PathBuf>,
}

/// What came out of each stage.
#[derive(Debug)]
struct Made {
    verified: Vec<Verified<Artifact>>,
    built_in: Duration,
    measured: Vec<Measurement>,
    sent: Sent,
    loaded: Vec<load::Loaded>,
    example: Option<String>,
    /// The builds that no torch here is for.
    left: Vec<Artifact>,
    /// Commands that load them, each with what it needs.
    rest: Vec<(String, String)>,
}

/// Runs the verb.
pub(crate) fn run(args: &Args, session: &Session) -> Result<(), Failure> {
    let started = Instant::now();
    let stage = |name: &str, subject: &str| session.report.emit(&Event::Stage { name, subject });
    stage("check", &args.project.dir.display().to_string());
    let project = project::load(&args.project.dir, session)?;
    let to = args.to.clone().unwrap_or_else(|| project.dir.join("dist"));
    // A repository that nobody named, a token that is not there or a hub that is not is told before the work, not after it.
    let destination = Destination::of(&to, &OnHub::default(), &project.build)?.reach(session)?;
    destination.greet()?;
    stage("build", project.build.general.name.as_str());
    let build_started = Instant::now();
    let artifacts = build::build(&project, &args.selection, session)?;
    let built_in = build_started.elapsed();
    // Before minutes of judging, and not after.
    of_the_project_alone(&artifacts).map_err(PackageError::into_failure)?;
    stage("verify", "against the reference in float64");
    let extras = Extras { client: true, ..verify::extras(&project) };
    let python = judges::first(&project, &artifacts, extras, session)?;
    let groups = judges::groups(artifacts, &python, Reach::Kept, extras, session)?;
    let verdicts = verify::all(&project, groups, &args.judge, session)?;
    let verified = verify::accept(verdicts, &project)?;
    let measured = if args.no_bench || project.op.is_none() {
        Vec::new()
    } else {
        stage("bench", "against PyTorch");
        measure(args, &project, &verified, &python, session)?
    };
    stage("package", "build/");
    let bundle = package::package(&project, &verified, session)?;
    let publish = || {
        stage("publish", &destination.shown());
        destination.send(&bundle, session)
    };
    let (sent, (loaded, example)) = match &destination {
        Reached::Folder(dir) => (publish()?, try_out(&project, dir, &python, session)?),
        Reached::Hub(_) => {
            let tried = try_out(&project, &project.dir, &python, session)?;
            (publish()?, tried)
        }
    };
    let other_torch =
        |verified: &&Verified<Artifact>| verified.evidence().skipped().any(|check| check.code == OTHER_TORCH);
    let left: Vec<Artifact> =
        verified.iter().filter(other_torch).map(|verified| verified.inner().clone()).collect();
    let rest = judges::commands(&args.project.dir.display().to_string(), &left, &python, session)?;
    let made = Made { verified, built_in, measured, sent, loaded, example, left, rest };
    tell(&made, &project, started.elapsed(), session);
    Ok(())
}

/// Loads what a folder's `build` has, and runs the project's example with it.
fn try_out(
    project: &Project,
    dir: &Path,
    python: &PythonRuntime,
    session: &Session,
) -> Result<(Vec<load::Loaded>, Option<String>), Failure> {
    session.report.emit(&Event::Stage { name: "load", subject: "with the stock client" });
    let loaded = load::load(dir, python, session)?;
    if !project.files.iter().any(|path| path.as_str() == "example.py") {
        session
            .report
            .note("the project has no example.py, so nothing was computed with the published kernel");
        return Ok((loaded, None));
    }
    let example = load::run_example(&project.dir.join("example.py"), dir, python, session)?;
    Ok((loaded, Some(example)))
}

/// Measures what was not measured before; the archive knows the rest.
fn measure(
    args: &Args,
    project: &Project,
    verified: &[Verified<Artifact>],
    python: &PythonRuntime,
    session: &Session,
) -> Result<Vec<Measurement>, Failure> {
    let (mut known, mut fresh) = (Vec::new(), Vec::new());
    for artifact in verified {
        let earlier = archive::latest(&project.dir, &artifact.inner().digest);
        let again = args.judge.fresh || !args.bench.workloads.is_empty() || earlier.is_empty();
        if again {
            fresh.push(artifact.clone());
        } else {
            session.report.emit(&Event::Done {
                action: "measured",
                subject: &artifact.inner().variant,
                detail: &format!("on {}; measure again with --fresh", earlier[0].date),
                seconds: 0.0,
                cached: true,
            });
            known.extend(earlier);
        }
    }
    known.extend(
        bench_verb::measure(project, &fresh, &args.bench, args.judge.earlier(), python, session)?.measured,
    );
    Ok(known)
}

fn tell(made: &Made, project: &Project, took: Duration, session: &Session) {
    let evidence: Vec<_> = made.verified.iter().map(Verified::evidence).collect();
    let skipped = skipped(&made.verified);
    let data = json!({
        "seconds": took.as_secs_f64(), "evidence": evidence, "measurements": made.measured,
        "receipt": made.sent.data(), "loaded": made.loaded, "example": made.example, "skipped": skipped,
        "left": made.left.iter().map(|artifact| &artifact.variant).collect::<Vec<_>>(),
        "commands": made.rest.iter().map(|(command, _)| command).collect::<Vec<_>>(),
    });
    let mut human = String::from("\n");
    if !made.measured.is_empty() {
        human += &format!("{}\n", bench::render::table(&made.measured));
    }
    let artifacts: Vec<Artifact> = made.verified.iter().map(|verified| verified.inner().clone()).collect();
    human += &format!("built      {}\n", build::summary(&artifacts, made.built_in));
    for (verified, evidence) in made.verified.iter().zip(&evidence) {
        let Artifact { variant, backend, .. } = verified.inner();
        let status = Status::new(variant, backend, Judged::of(evidence));
        human += &format!("{:<9}  {variant}  {}{}\n", status.action(), verify::line(evidence), status.note());
    }
    human += &format!("published  {}", made.sent.lines());
    for loaded in made.loaded.iter().filter_map(|loaded| loaded.variant.as_ref()) {
        human += &format!("loaded     {loaded} with kernels.get_local_kernel\n");
    }
    if let Some(line) = made.example.as_ref().and_then(|text| text.lines().next()) {
        human += &format!("example    {line}\n");
    }
    for line in &skipped {
        human += &format!("skipped    {line}\n");
    }
    let module = project.build.general.name.module();
    human += &format!(
        "took       {}\n\nnext:\n  {}  # the package {module}\n",
        duration(took),
        made.sent.command(),
    );
    for (command, needs) in &made.rest {
        let other = match made.left.len() {
            1 => "other variant".to_owned(),
            count => format!("{count} other variants"),
        };
        human += &format!("  {command}  # loads the {other}, with {needs}\n");
    }
    session.report.result("make", &data, &human);
}

/// What was not checked, each reason once with the variants that it holds for. That what was not loaded was not called
/// either goes without saying.
fn skipped(verified: &[Verified<Artifact>]) -> Vec<String> {
    let mut reasons: Vec<(String, Vec<&str>)> = Vec::new();
    for verified in verified {
        let variant = verified.inner().variant.as_str();
        for check in verified.evidence().skipped().filter(|check| check.code != NOT_LOADED) {
            let reason = format!("{} ({})", check.name, check.summary);
            match reasons.iter_mut().find(|(known, _)| *known == reason) {
                Some((_, variants)) => variants.push(variant),
                None => reasons.push((reason, vec![variant])),
            }
        }
    }
    reasons.into_iter().map(|(reason, variants)| format!("{}: {reason}", variants.join(", "))).collect()
}
