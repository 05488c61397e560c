//! Judges device code, and keeps the evidence in the project.
//!
//! Owns: what a device candidate is judged with. Never: judges; `verify::device` does.

use std::path::Path;
use std::time::Instant;

use crate::base::causes::chain;
use crate::base::files;
use crate::base::report::Event;
use crate::base::session::Session;
use crate::compile::nvrtc::{Compiler, Kit, NvrtcError, Tool};
use crate::exit::{self, Failure, StageError};
use crate::package::{Judgement, Status};
use crate::pipeline::build::Refusal;
use crate::pipeline::project::TORCH;
use crate::pipeline::project::device::DeviceProject;
use crate::pipeline::project::tuned::{self, Choice};
use crate::toolchain::python::{self, Torch};
use crate::toolchain::{Extras, PythonRuntime, nvcc, nvrtc};
use crate::verify::device::{self, DeviceCandidate};
use crate::verify::{Evidence, Options, Outcome};

use super::{Judging, evidence_path, line};

impl StageError for NvrtcError {
    fn exit(&self) -> u8 {
        match self {
            Self::File(error) => error.exit(),
            Self::Process(error) => error.exit(),
            error if error.is_of_machine() => exit::TOOLCHAIN,
            _ => exit::COMPILE,
        }
    }
}

/// The Python whose torch runs the reference; nothing where there is none, which is said.
pub(crate) fn oracle(session: &Session) -> Option<PythonRuntime> {
    match python::runtime(session, Torch::Preferably(TORCH), Extras::default()) {
        Ok(python) => Some(python),
        Err(error) => {
            let error = chain(&error);
            session.report.warn(format!("no Python with torch found, so results are not compared: {error}"));
            None
        }
    }
}

/// The compiler of device code.
pub(crate) fn compiler(tool: Tool, session: &Session) -> Result<Compiler, Failure> {
    let kit = match tool {
        Tool::Nvrtc => Kit::Nvrtc(nvrtc::obtain(session)?),
        Tool::Nvcc => Kit::Nvcc(nvcc::obtain(session)?),
    };
    Ok(Compiler::new(kit, &session.cache)?)
}

/// What the judge sees of it.
pub(crate) fn candidate(project: &DeviceProject) -> DeviceCandidate<'_> {
    DeviceCandidate {
        op: &project.op,
        project: &project.dir,
        source: project.source.clone(),
        settings: project.settings.clone(),
        archs: project.archs.clone(),
    }
}

/// Judges the device code of a folder with the settings of its calls; the evidence is kept in the project.
pub(crate) fn verify(
    dir: &Path,
    how: &Judging,
    tool: Tool,
    choice: Choice,
    session: &Session,
) -> Result<(DeviceProject, Evidence), Failure> {
    let project = tuned::read_project(dir, choice, session)?;
    let compiler = compiler(tool, session)?;
    let evidence = judged(&project, how, &compiler, oracle(session).as_ref(), session)?;
    Ok((project, evidence))
}

pub(crate) fn judged(
    project: &DeviceProject,
    how: &Judging,
    compiler: &Compiler,
    python: Option<&PythonRuntime>,
    session: &Session,
) -> Result<Evidence, Failure> {
    let started = Instant::now();
    let candidate = candidate(project);
    let title = project.title();
    let path = evidence_path(&project.dir, &title);
    let earlier = match how.judges_again() {
        true => None,
        false => device::recall(&candidate, compiler, python.is_some(), &path)?,
    };
    let cached = earlier.is_some();
    let evidence = match earlier {
        Some(evidence) => evidence,
        None => {
            let options = Options { require_portable: false, ..how.options() };
            let evidence = device::judge(&candidate, compiler, python, &options, session)?;
            files::write(&path, serde_json::to_string_pretty(&evidence).unwrap_or_default())?;
            evidence
        }
    };
    let status = Status::new(&title, "cuda", Judgement::from_evidence(&evidence));
    session.report.emit(&Event::Done {
        action: if evidence.refusal().is_none() { status.action() } else { "refused" },
        subject: &title,
        detail: &format!("{}{}", line(&evidence), status.note()),
        seconds: started.elapsed().as_secs_f64(),
        cached,
    });
    Ok(evidence)
}

/// The failure that a refusal is, if there is one.
pub(crate) fn accept(project: &DeviceProject, evidence: &Evidence) -> Result<(), Failure> {
    let refused = evidence.checks.iter().filter(|check| check.outcome == Outcome::Refused);
    let log = evidence_path(&project.dir, &project.title());
    let reports: Vec<miette::Report> =
        refused.map(|check| Refusal::new(&project.title(), check, &log).into()).collect();
    if reports.is_empty() { Ok(()) } else { Err(Failure { exit: exit::VERIFY, reports }) }
}
