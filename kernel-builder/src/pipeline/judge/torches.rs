//! Which torch judges which build.
//!
//! Owns: the torch that a project is judged with, and others for builds that it is not for. Never: judges.

use std::collections::{BTreeMap, BTreeSet};

use kernel_plan::units::Version;
use kernel_plan::variant::Variant;
use miette::Diagnostic;
use thiserror::Error;

use crate::base::causes::chain;
use crate::base::interrupt;
use crate::base::session::Session;
use crate::compile::artifact::Artifact;
use crate::exit::{self, Failure, StageError};
use crate::pipeline::project::{self, Project};
use crate::toolchain::python::{self, Torch, TorchBuild};
use crate::toolchain::{Extras, PythonRuntime};
use crate::verify;

/// What may be done to have a torch for builds that the first one is not for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TorchAccess {
    /// It is fetched, unless a torch is installed, downloads are off, or the machine has an NVIDIA driver, where one is
    /// gigabytes.
    Fetched,
    /// It is used where it lies in the cache.
    Kept,
}

/// `--torch` loads none of the builds.
#[derive(Debug, Error, Diagnostic)]
#[error("torch {torch} cannot load any of the builds: {}", built.join(", "))]
#[diagnostic(
    code(plan::other_torch),
    help(
        "name the torch version of one of the builds (stable ABI: the same or a later one), for the same CUDA; `--all` builds for every torch"
    )
)]
struct OtherTorch {
    torch: String,
    built: Vec<String>,
}

impl StageError for OtherTorch {
    fn exit(&self) -> u8 {
        exit::PLAN
    }
}

/// Builds that one Python judges.
pub(crate) type Group = (PythonRuntime, Vec<Artifact>);

/// The Python that judges a project: with the torch that its builds for cpu are for, if it is for any of these builds at
/// all; else with one that is.
///
/// # Errors
/// It cannot be had; see [`python::runtime`].
pub(crate) fn first(
    project: &Project,
    artifacts: &[Artifact],
    extras: Extras,
    session: &Session,
) -> Result<PythonRuntime, Failure> {
    let line = project::torch_of(project)?;
    // A build that is for no torch in particular is judged with one that is in the cache.
    let is_free = |artifact: &Artifact| {
        artifact.variant.parse::<Variant>().is_ok_and(|variant| variant.torch().is_none())
    };
    let torch = if !artifacts.is_empty() && artifacts.iter().all(is_free) {
        Torch::Preferably(&line)
    } else {
        Torch::AtLeast(&line)
    };
    let builds = python::torches(session)?;
    // The installed torch judges builds that it is for, even if others of the project want a newer one.
    if let Some(installed) = builds.iter().find(|build| build.installed) {
        let text = installed.line.to_string();
        let exactly = Torch::Exactly(&text);
        let foreseen = python::foreseen(session, exactly)?;
        if !artifacts.is_empty()
            && artifacts.iter().all(|artifact| verify::suits(&artifact.variant, &foreseen))
        {
            return Ok(python::runtime(session, exactly, extras)?);
        }
    }
    let foreseen = python::foreseen(session, torch)?;
    let serves = artifacts.iter().any(|artifact| verify::suits(&artifact.variant, &foreseen));
    if !serves && builds.iter().all(|build| !build.installed) {
        let other = chosen(artifacts, &builds).into_iter().flatten().min();
        if let Some(other) = other.map(|line| line.to_string()) {
            return Ok(python::runtime(session, Torch::Exactly(&other), extras)?);
        }
    }
    Ok(python::runtime(session, torch, extras)?)
}

/// The builds by the Python that judges them: the first one, and for builds that its torch is not for, as few others as
/// serve. What nothing serves stays with the first, which says so.
///
/// # Errors
/// There is no Python.
pub(crate) fn groups(
    artifacts: Vec<Artifact>,
    first: &PythonRuntime,
    reach: TorchAccess,
    extras: Extras,
    session: &Session,
) -> Result<Vec<Group>, Failure> {
    let (mut own, others): (Vec<_>, Vec<_>) =
        artifacts.into_iter().partition(|artifact| verify::suits(&artifact.variant, &first.torch));
    let mut by_line: BTreeMap<Version, Vec<Artifact>> = BTreeMap::new();
    let may_fetch = reach == TorchAccess::Fetched
        && first.site.is_some()
        && !session.offline
        && !python::has_nvidia_driver();
    let builds = python::torches(session)?;
    let kept: Vec<TorchBuild> = builds.iter().copied().filter(|build| is_kept(build.line, session)).collect();
    let serves = |builds: &[TorchBuild]| chosen(&others, builds).iter().flatten().count();
    // Nothing is fetched for what the cache serves as well.
    let more = may_fetch && serves(&builds) > serves(&kept);
    let lines = chosen(&others, if more { &builds } else { &kept });
    for (artifact, line) in others.into_iter().zip(lines) {
        match line {
            Some(line) => by_line.entry(line).or_default().push(artifact),
            None => own.push(artifact),
        }
    }
    let mut groups = Vec::new();
    for (line, artifacts) in by_line {
        let text = line.to_string();
        let python = python::runtime(session, Torch::Exactly(&text), extras);
        interrupt::check()?;
        match python {
            Ok(python) => groups.push((python, artifacts)),
            Err(error) => {
                session.report.note(format!("torch {line} is not available here: {}", chain(&error)));
                own.extend(artifacts);
            }
        }
    }
    if !own.is_empty() {
        groups.insert(0, (first.clone(), own));
    }
    Ok(groups)
}

/// Those of the builds that a named torch is for, with it; the others are told.
///
/// # Errors
/// It is for none of them, which is seen before it is fetched; or it cannot be had.
pub(crate) fn with_torch(
    line: Version,
    artifacts: Vec<Artifact>,
    extras: Extras,
    session: &Session,
) -> Result<Group, Failure> {
    let text = line.to_string();
    let torch = Torch::Exactly(&text);
    let foreseen = python::foreseen(session, torch)?;
    let (own, others): (Vec<_>, Vec<_>) =
        artifacts.into_iter().partition(|artifact| verify::suits(&artifact.variant, &foreseen));
    let others: Vec<String> = others.into_iter().map(|artifact| artifact.variant).collect();
    if own.is_empty() {
        return Err(OtherTorch { torch: foreseen, built: others }.into());
    }
    if !others.is_empty() {
        session.report.note(format!("torch {foreseen} does not support {}; not judged", others.join(", ")));
    }
    Ok((python::runtime(session, torch, extras)?, own))
}

/// The commands that judge what the first torch is not for, each with what it needs: `kernelwright verify DIR` where that
/// fetches by itself, else one for each torch.
///
/// # Errors
/// There is no Python.
pub(crate) fn commands(
    dir: &str,
    left: &[Artifact],
    first: &PythonRuntime,
    session: &Session,
) -> Result<Vec<(String, String)>, Failure> {
    let lines = chosen(left, &python::torches(session)?);
    let lines: BTreeSet<Version> = lines.into_iter().flatten().collect();
    if lines.is_empty() {
        return Ok(Vec::new());
    }
    let needs = |line: &Version| {
        let fetched = python::megabytes(&line.to_string()).filter(|_| !is_kept(*line, session));
        let fetched =
            fetched.map_or_else(String::new, |megabytes| format!(", about {megabytes} MB to fetch"));
        format!("torch {line}{fetched}")
    };
    if first.site.is_some() && !python::has_nvidia_driver() {
        let needs: Vec<String> = lines.iter().map(needs).collect();
        return Ok(vec![(format!("kernelwright verify {dir}"), needs.join("; "))]);
    }
    Ok(lines.iter().map(|line| (format!("kernelwright verify --torch {line} {dir}"), needs(line))).collect())
}

fn is_kept(line: Version, session: &Session) -> bool {
    python::is_here(session, Torch::Exactly(&line.to_string())).unwrap_or_default()
}

/// A torch for each of the builds, of as few as serve them.
pub(crate) fn chosen(artifacts: &[Artifact], builds: &[TorchBuild]) -> Vec<Option<Version>> {
    let served: Vec<Vec<Version>> =
        artifacts.iter().map(|artifact| verify::serving(artifact, builds).unwrap_or_default()).collect();
    let installed = builds.iter().find(|build| build.installed).map(|build| build.line);
    verify::fewest(&served, installed)
}
