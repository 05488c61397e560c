//! The whole line on one project: check, build, verify, bench, package, publish, load.
//!
//! Owns: the order, and what is not repeated. Never: does the work of a stage.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::archive;
use crate::base::report::Event;
use crate::base::session::Session;
use crate::bench::{self, Measurement};
use crate::compile::artifact::Artifact;
use crate::exit::Failure;
use crate::package::{PackageError, of_the_project_alone};
use crate::pipeline::judge::{self, Judging, torches};
use crate::pipeline::project::selection::Selection;
use crate::pipeline::project::{self, Project};
use crate::pipeline::ship::destination::{Destination, HubOptions, OpenDestination, PublicationResult};
use crate::pipeline::ship::load::{self, LoadReport};
use crate::pipeline::ship::package::package;
use crate::pipeline::{build, measure};
use crate::toolchain::{Extras, PythonRuntime};
use crate::verify::{OTHER_TORCH, Verified};

/// What is made, and how.
#[derive(Debug)]
pub(crate) struct Request {
    /// The project.
    pub(crate) dir: PathBuf,
    /// Where to publish; `dist` in the project if `None`.
    pub(crate) to: Option<PathBuf>,
    /// Which variants.
    pub(crate) selection: Selection,
    /// How they are judged.
    pub(crate) judging: Judging,
    /// How they are measured.
    pub(crate) options: bench::Options,
    /// Whether they are measured at all.
    pub(crate) measures: bool,
}

/// What came out of each stage.
#[derive(Debug)]
pub(crate) struct MakeResult {
    /// The project.
    pub(crate) project: Project,
    /// The builds that the judge accepts.
    pub(crate) verified: Vec<Verified<Artifact>>,
    /// How long building took.
    pub(crate) built_in: Duration,
    /// Their times, of this run and of earlier ones.
    pub(crate) measured: Vec<Measurement>,
    /// What was published.
    pub(crate) sent: PublicationResult,
    /// What the client loaded.
    pub(crate) loaded: Vec<LoadReport>,
    /// What the example printed, where there is one.
    pub(crate) example: Option<String>,
    /// The builds that no torch here is for.
    pub(crate) left: Vec<Artifact>,
    /// Commands that load them, each with what it needs.
    pub(crate) rest: Vec<(String, String)>,
}

/// Takes a project through every stage.
///
/// # Errors
/// Those of the first stage that fails.
pub(crate) fn make(args: &Request, session: &Session) -> Result<MakeResult, Failure> {
    let stage = |name: &str, subject: &str| session.report.emit(&Event::Stage { name, subject });

    stage("check", &args.dir.display().to_string());
    let project = project::load(&args.dir, session)?;
    let to = args.to.clone().unwrap_or_else(|| project.dir.join("dist"));
    // A repository that nobody named, a token that is not there or a hub that is not is told before the work, not after it.
    let destination = Destination::parse(&to, &HubOptions::default(), &project.build)?.reach(session)?;
    destination.greet()?;

    stage("build", project.build.general.name.as_str());
    let started = Instant::now();
    let artifacts = build::build(&project, &args.selection, session)?;
    let built_in = started.elapsed();
    // Before minutes of judging, and not after.
    of_the_project_alone(&artifacts).map_err(PackageError::into_failure)?;

    stage("verify", "against the reference in float64");
    let extras = Extras { client: true, ..judge::extras(&project) };
    let (verified, python) = judge::accepted(&project, artifacts, extras, &args.judging, session)?;

    let mut measured = Vec::new();
    if args.measures && project.op.is_some() {
        stage("bench", "against PyTorch");
        measured = measure_new(args, &project, &verified, &python, session)?;
    }

    stage("package", "build/");
    let bundle = package(&project, &verified, session)?;

    let publish = || {
        stage("publish", &destination.shown());
        destination.send(&bundle, session)
    };
    let (sent, (loaded, example)) = match &destination {
        OpenDestination::Folder(dir) => (publish()?, try_out(&project, dir, &python, session)?),
        // A kernel that does not load is not sent to a hub.
        OpenDestination::Hub(_) => {
            let tried = try_out(&project, &project.dir, &python, session)?;
            (publish()?, tried)
        }
    };

    let other_torch =
        |verified: &&Verified<Artifact>| verified.evidence().skipped().any(|check| check.code == OTHER_TORCH);
    let left: Vec<Artifact> =
        verified.iter().filter(other_torch).map(|verified| verified.inner().clone()).collect();
    let rest = torches::commands(&args.dir.display().to_string(), &left, &python, session)?;
    Ok(MakeResult { project, verified, built_in, measured, sent, loaded, example, left, rest })
}

/// Loads what a folder's `build` has, and runs the project's example with it.
fn try_out(
    project: &Project,
    dir: &Path,
    python: &PythonRuntime,
    session: &Session,
) -> Result<(Vec<LoadReport>, Option<String>), Failure> {
    session.report.emit(&Event::Stage { name: "load", subject: "with the stock client" });
    let loaded = load::load(dir, python, session)?;
    if !project.files.iter().any(|path| path.as_str() == "example.py") {
        session
            .report
            .note("the project has no example.py, so the published kernel was loaded but not called");
        return Ok((loaded, None));
    }
    let example = load::run_example(&project.dir.join("example.py"), dir, python, session)?;
    Ok((loaded, Some(example)))
}

/// Measures what was not measured before; the archive knows the rest.
fn measure_new(
    args: &Request,
    project: &Project,
    verified: &[Verified<Artifact>],
    python: &PythonRuntime,
    session: &Session,
) -> Result<Vec<Measurement>, Failure> {
    let (mut known, mut fresh) = (Vec::new(), Vec::new());
    for artifact in verified {
        let earlier = archive::latest(&project.dir, &artifact.inner().digest);
        let again = args.judging.fresh || !args.options.workloads.is_empty() || earlier.is_empty();
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
        measure::measure(project, &fresh, &args.options, args.judging.earlier(), python, session)?.measured,
    );
    Ok(known)
}
