//! Tries out what was built: every variant in a process of its own with a torch that it is for, then all in one folder.
//!
//! Owns: which torch a variant is tried with; that the client takes what the preference predicts.
//! Never: publishes anything; what was tried lies in a temporary folder.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::Path;
use std::sync::Mutex;
use std::time::Instant;

use kernel_plan::units::Version;
use kernel_plan::variant::preference::{self, Environment};
use kernel_plan::variant::{Toolkit, Variant};
use serde::Serialize;
use thiserror::Error;

use crate::base::causes::chain;
use crate::base::report::Event;
use crate::base::session::Session;
use crate::base::{files, interrupt};
use crate::compile::artifact::Artifact;
use crate::exit::{self, Failure};
use crate::package::{self, Additions, PackageError, Provenance};
use crate::pipeline::judge::{self, Judging, torches};
use crate::pipeline::project::{Project, variants};
use crate::toolchain::python::{self, Torch};
use crate::toolchain::{self, Extras, PythonRuntime, ToolchainError};
use crate::verify::{self, NoTorch};

use super::load::{self, LoadError, LoadReport};

/// How many processes import torch at once, at most: each takes half a gigabyte.
const AT_ONCE: usize = 4;

/// What is asked of every variant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ProofDepth {
    /// The stock client loads it.
    Loaded,
    /// It is loaded, and those for cpu are verified.
    Verified,
}

/// What came of trying a folder of variants.
#[derive(Debug, Default, Serialize)]
pub(crate) struct Proof {
    /// Every variant, in the order in which they were built.
    pub(crate) variants: Vec<LoadTrial>,
    /// What the client took of all of them, by torch and backend.
    pub(crate) together: Vec<ClientChoice>,
}

/// What came of trying one variant.
#[derive(Debug, Default, Serialize)]
pub(crate) struct LoadTrial {
    /// The variant.
    pub(crate) variant: String,
    /// `torch.__version__` of the process that loaded it.
    pub(crate) loaded_with: Option<String>,
    /// Why it was not loaded here, which is no failure.
    pub(crate) not_loaded: Option<String>,
    /// What the client said in place of loading it.
    pub(crate) failed: Option<String>,
    /// How many checks ended how, where it was verified.
    pub(crate) verified: Option<String>,
}

impl fmt::Display for LoadTrial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.loaded_with, &self.not_loaded, &self.failed) {
            (Some(torch), ..) => write!(f, "loaded with torch {torch}")?,
            (None, Some(reason), _) => write!(f, "not loaded here: {reason}")?,
            (None, None, reason) => write!(f, "FAILS to load: {}", reason.as_deref().unwrap_or("as told"))?,
        }
        self.verified.iter().try_for_each(|verified| write!(f, "  verified: {verified}"))
    }
}

/// What the client took.
#[derive(Debug, Serialize)]
pub(crate) struct ClientChoice {
    /// `torch.__version__`.
    pub(crate) torch: String,
    /// The backend that was asked for.
    pub(crate) backend: String,
    /// The variant; absent where none fits.
    pub(crate) variant: Option<String>,
}

/// Tries every variant.
///
/// The failure beside the proof has every variant that fits a torch here and is not loaded by it, is not taken where it
/// should be, or is refused by the judge; without any, its exit code is that of success.
///
/// # Errors
/// Nothing could be tried: a file could not be written, or the judge itself failed.
pub(crate) fn prove(
    project: &Project,
    artifacts: &[Artifact],
    depth: ProofDepth,
    session: &Session,
) -> Result<(Proof, Failure), Failure> {
    let folder = files::scratch()?;
    let trial = Trial { project, artifacts, provenance: project.provenance(), folder: folder.path() };
    let plans = plans(artifacts, session)?;
    let pythons = pythons(project, &plans, session)?;
    let mut proof = Proof::default();
    let mut failure = Failure::already_reported(exit::SUCCESS);
    for (artifact, result) in artifacts.iter().zip(alone(&trial, &plans, &pythons, session)?) {
        let mut tried = LoadTrial { variant: artifact.variant.clone(), ..LoadTrial::default() };
        match result {
            Ok(torch) => tried.loaded_with = Some(torch),
            Err(NotLoaded::Elsewhere(reason)) => tried.not_loaded = Some(reason),
            Err(NotLoaded::Failed(failed)) => {
                tried.failed = failed.reports.first().map(|report| chain(&**report));
                failure.join(failed);
            }
        }
        proof.variants.push(tried);
    }
    for python in pythons.values().flatten() {
        match together(&trial, python) {
            Ok(taken) => proof.together.extend(taken),
            Err(failed) => failure.join(failed),
        }
    }
    if depth == ProofDepth::Verified {
        for ((artifact, tried), plan) in artifacts.iter().zip(&mut proof.variants).zip(&plans) {
            let python = plan.as_ref().ok().and_then(|line| pythons.get(line)?.as_ref().ok());
            let Some(python) = python.filter(|_| tried.loaded_with.is_some() && artifact.backend == "cpu")
            else {
                continue;
            };
            let judged =
                judge::verify(project, vec![artifact.clone()], &Judging::for_publication(), python, session)?;
            tried.verified = judged.first().map(|judged| judge::line(judged.verdict.evidence()));
            if let Err(refused) = judge::accept(judged, project) {
                failure.join(refused);
            }
        }
    }
    Ok((proof, failure))
}

/// What is tried, and where.
struct Trial<'a> {
    project: &'a Project,
    artifacts: &'a [Artifact],
    provenance: Provenance,
    folder: &'a Path,
}

/// A torch for each artifact, of as few as serve all; or why none does.
fn plans(artifacts: &[Artifact], session: &Session) -> Result<Vec<Result<Version, NoTorch>>, Failure> {
    let builds = python::torches(session)?;
    let chosen = torches::chosen(artifacts, &builds);
    let plan = |(artifact, line): (&Artifact, Option<Version>)| {
        line.ok_or_else(|| verify::serving(artifact, &builds).err().unwrap_or(NoTorch::Release))
    };
    Ok(artifacts.iter().zip(chosen).map(plan).collect())
}

/// A release of torch that this machine cannot get.
#[derive(Debug, Error)]
#[error("torch {line} is not available here")]
struct Unavailable {
    line: Version,
    #[source]
    cause: ToolchainError,
}

/// The Pythons that the plans ask for, or why one cannot be had.
type Pythons = BTreeMap<Version, Result<PythonRuntime, Unavailable>>;

fn pythons(
    project: &Project,
    plans: &[Result<Version, NoTorch>],
    session: &Session,
) -> Result<Pythons, Failure> {
    let mut pythons = Pythons::new();
    let extras = Extras { client: true, ..judge::extras(project) };
    for line in plans.iter().flatten() {
        if pythons.contains_key(line) {
            continue;
        }
        let text = line.to_string();
        let python = python::runtime(session, Torch::Exactly(&text), extras);
        interrupt::check()?;
        pythons.insert(*line, python.map_err(|cause| Unavailable { line: *line, cause }));
    }
    Ok(pythons)
}

/// Why a variant was not loaded.
enum NotLoaded {
    /// It is for what is not here.
    Elsewhere(String),
    /// It should have been.
    Failed(Failure),
}

/// Loads every variant from a folder where it is alone; a clean process each, some at once.
fn alone(
    trial: &Trial<'_>,
    plans: &[Result<Version, NoTorch>],
    pythons: &Pythons,
    session: &Session,
) -> Result<Vec<Result<String, NotLoaded>>, Failure> {
    let Trial { artifacts, folder, .. } = trial;
    for artifact in *artifacts {
        lay_out(trial, artifact, &folder.join("alone").join(&artifact.variant))?;
    }
    let load_alone = |place: usize| -> Result<String, NotLoaded> {
        let line = plans[place].as_ref().map_err(|missing| NotLoaded::Elsewhere(missing.to_string()))?;
        let python = pythons[line].as_ref().map_err(|error| NotLoaded::Elsewhere(chain(error)))?;
        let artifact = &artifacts[place];
        let dir = folder.join("alone").join(&artifact.variant);
        let loaded = load::ask(&dir, python).map_err(NotLoaded::Failed)?;
        let loaded = loaded.into_iter().find(|loaded| loaded.backend == artifact.backend);
        outcome(artifact, loaded, &dir, python)
    };
    let next = Mutex::new(0..artifacts.len());
    let results = Mutex::new(BTreeMap::new());
    std::thread::scope(|scope| {
        for _ in 0..session.jobs.clamp(1, AT_ONCE).min(artifacts.len()) {
            scope.spawn(|| {
                while let Some(place) = next.lock().ok().and_then(|mut next| next.next()) {
                    let started = Instant::now();
                    let result = load_alone(place);
                    if let Ok(torch) = &result {
                        session.report.emit(&Event::Done {
                            action: "loaded",
                            subject: &artifacts[place].variant,
                            detail: &format!("with torch {torch}"),
                            seconds: started.elapsed().as_secs_f64(),
                            cached: false,
                        });
                    }
                    if let Ok(mut results) = results.lock() {
                        results.insert(place, result);
                    }
                }
            });
        }
    });
    interrupt::check()?;
    Ok(results.into_inner().unwrap_or_default().into_values().collect())
}

/// What the client did with the only variant of a folder.
fn outcome(
    artifact: &Artifact,
    loaded: Option<LoadReport>,
    dir: &Path,
    python: &PythonRuntime,
) -> Result<String, NotLoaded> {
    let (variant, backend) = (artifact.variant.as_str(), artifact.backend.as_str());
    let Some(loaded) = loaded else {
        let reason = "the client did not report it".to_owned();
        return Err(match backend {
            "cpu" | "cuda" => {
                let problem = format!("{variant}: {reason}");
                let (dir, backend) = (dir.to_owned(), backend.to_owned());
                NotLoaded::Failed(LoadError::Client { dir, backend, problem }.into())
            }
            _ => NotLoaded::Elsewhere(reason),
        });
    };
    let stands_in = lacks_stand_in(&loaded, python);
    let reason = match (loaded.variant, loaded.reason) {
        (Some(taken), _) if taken == variant => return Ok(python.torch.clone()),
        (_, reason) => reason.unwrap_or_else(|| "the client loaded another variant".to_owned()),
    };
    if loaded.skipped || stands_in {
        return Err(NotLoaded::Elsewhere(reason));
    }
    let error = LoadError::Client {
        dir: dir.to_owned(),
        backend: loaded.backend,
        problem: format!("{variant}: {reason}"),
    };
    Err(NotLoaded::Failed(error.into()))
}

/// Loads from a folder with all variants: the client must take the one that is predicted.
fn together(trial: &Trial<'_>, python: &PythonRuntime) -> Result<Vec<ClientChoice>, Failure> {
    let Trial { project, artifacts, folder, .. } = trial;
    let dir = folder.join("together");
    if !files::is_dir(&dir) {
        artifacts.iter().try_for_each(|artifact| lay_out(trial, artifact, &dir))?;
    }
    let offered: Vec<Variant> =
        artifacts.iter().filter_map(|artifact| artifact.variant.parse().ok()).collect();
    let own = environment(&python.torch, project.build.tvm_ffi().is_some());
    let said = load::ask(&dir, python)?;
    let spoken: BTreeSet<&str> = said.iter().map(|loaded| loaded.backend.as_str()).collect();
    let offers = |backend: &&str| artifacts.iter().any(|artifact| artifact.backend == *backend);
    let silent = ["cpu", own.toolkit.id().as_str()].into_iter().filter(offers);
    let silent: Vec<LoadReport> =
        silent.filter(|backend| !spoken.contains(backend)).map(LoadReport::silent).collect();
    let mut all: Vec<ClientChoice> = Vec::new();
    for loaded in said.into_iter().chain(silent) {
        let toolkit = if loaded.backend == "cpu" { Toolkit::Cpu } else { own.toolkit };
        let fits = toolkit.id().as_str() == loaded.backend;
        let ranking = preference::rank(&offered, &Environment { toolkit, ..own });
        let predicted = ranking.accepted.first().filter(|_| fits).map(ToString::to_string);
        if loaded.variant != predicted && !lacks_stand_in(&loaded, python) {
            let (torch, backend) = (python.torch.clone(), loaded.backend);
            let output = loaded.reason.unwrap_or_default();
            return Err(
                LoadError::Preference { torch, backend, taken: loaded.variant, predicted, output }.into()
            );
        }
        all.push(ClientChoice {
            torch: python.torch.clone(),
            backend: loaded.backend,
            variant: loaded.variant,
        });
    }
    Ok(all)
}

/// Whether a name is missing because a managed torch has stand-ins for its GPU libraries, with the names of the stable
/// interface only.
fn lacks_stand_in(loaded: &LoadReport, python: &PythonRuntime) -> bool {
    let undefined = loaded.reason.as_ref().is_some_and(|reason| reason.contains("undefined symbol"));
    python.site.is_some() && loaded.backend == "cuda" && undefined
}

/// What the client sees in a Python of this machine, whose torch is `torch.__version__`.
fn environment(torch: &str, tvm_ffi: bool) -> Environment {
    let provision = variants::provision(toolchain::Provider::Wheels, Vec::new());
    Environment {
        torch: python::line_of(torch),
        tvm_ffi: tvm_ffi.then_some(Version::new(0, 1)),
        toolkit: python::cuda_of(torch).map_or(Toolkit::Cpu, Toolkit::Cuda),
        cpu: provision.cpu,
        os: provision.os,
        macos: None,
        free_threaded: false,
    }
}

/// Puts a variant below `dir` as a publication has it.
fn lay_out(trial: &Trial<'_>, artifact: &Artifact, dir: &Path) -> Result<(), Failure> {
    let origin = (&trial.project.build, &trial.provenance);
    let folder = dir.join("build").join(&artifact.variant);
    package::variant(origin, artifact, &Additions::default(), None, &folder)
        .map_err(PackageError::into_failure)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_environment_follows_from_the_version_of_torch() {
        let of = |text: &str| {
            let environment = environment(text, false);
            (environment.torch.map(|torch| torch.to_string()), environment.toolkit)
        };
        assert_eq!(of("2.15.0+cu132"), (Some("2.15".to_owned()), Toolkit::Cuda(Version::new(13, 2))));
        assert_eq!(of("2.10.1+cpu"), (Some("2.10".to_owned()), Toolkit::Cpu));
        assert_eq!(of("2.10.1").1, Toolkit::Cpu);
    }
}
