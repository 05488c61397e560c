//! Fetches ahead what builds need, so that they work without a network. Each function gives what is here now.

use std::path::Path;

use kernel_plan::units::Version;

use crate::base::session::Session;
use crate::exit::Failure;
use crate::pipeline::build;
use crate::pipeline::project;
use crate::pipeline::project::selection::Selection;
use crate::toolchain::python::{self, Torch};
use crate::toolchain::{self, Extras, FrameworkRelease, Provider, Supply, ToolchainRequest};

/// What becomes of the Pythons that judge and load.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Pythons {
    /// They are fetched, too.
    Fetched,
    /// They are left out.
    LeftOut,
}

/// Everything that a project is built, judged and loaded with.
pub(crate) fn for_project(
    dir: &Path,
    selection: &Selection,
    pythons: Pythons,
    session: &Session,
) -> Result<Vec<String>, Failure> {
    let project = project::load(dir, session)?;
    let jobs = build::jobs(&project, selection, session)?;
    let mut fetched: Vec<String> = jobs.into_iter().map(|job| job.plan.id.to_string()).collect();
    if pythons == Pythons::Fetched {
        let extras = Extras { client: true, tvm_ffi: project.build.tvm_ffi().is_some() };
        let line = project::torch_of(&project)?;
        fetched.push(python_with(Torch::AtLeast(&line), extras, session)?);
    }
    Ok(fetched)
}

/// What builds for these releases need.
pub(crate) fn releases(
    torch: &[Version],
    cuda: &[Version],
    pythons: Pythons,
    session: &Session,
) -> Result<Vec<String>, Failure> {
    let mut headers = torch.to_vec();
    if headers.is_empty() {
        // A toolchain has headers; the newest are what most builds want.
        headers.extend(toolchain::offer(Provider::Wheels).torch.into_iter().max());
    }
    let supply = Supply::without_project(session);
    let mut fetched = kits(&headers, cuda, &supply)?;
    fetched.extend(pythons_with(torch, pythons, session)?);
    Ok(fetched)
}

/// Everything that this version knows.
pub(crate) fn everything(pythons: Pythons, session: &Session) -> Result<Vec<String>, Failure> {
    let known = toolchain::offer(Provider::Wheels);
    let supply = Supply::without_project(session);
    let mut fetched = kits(&known.torch, &known.cuda, &supply)?;
    fetched.extend(supply.header_libraries()?);
    fetched.extend(pythons_with(&known.torch, pythons, session)?);
    Ok(fetched)
}

/// The compilers and headers of each pair of releases.
fn kits(torch: &[Version], cuda: &[Version], supply: &Supply<'_>) -> Result<Vec<String>, Failure> {
    let kits = std::iter::once(None).chain(cuda.iter().map(|version| Some(version.to_string())));
    let want = |(torch, cuda): (&Version, Option<String>)| ToolchainRequest {
        provider: Provider::Wheels,
        framework: FrameworkRelease::Torch(torch.to_string()),
        cuda,
        device: None,
    };
    let wants: Vec<ToolchainRequest> =
        torch.iter().flat_map(|torch| kits.clone().map(move |cuda| (torch, cuda))).map(want).collect();
    supply.prepare(&wants)?;
    let mut fetched: Vec<String> =
        torch.iter().map(|version| format!("headers of torch {version}")).collect();
    fetched.extend(cuda.iter().map(|version| format!("CUDA {version}")));
    Ok(fetched)
}

/// A Python with each release.
fn pythons_with(torch: &[Version], pythons: Pythons, session: &Session) -> Result<Vec<String>, Failure> {
    let mut fetched = Vec::new();
    for version in torch.iter().filter(|_| pythons == Pythons::Fetched) {
        let line = version.to_string();
        let extras = Extras { client: true, tvm_ffi: false };
        fetched.push(python_with(Torch::Exactly(&line), extras, session)?);
    }
    Ok(fetched)
}

fn python_with(torch: Torch<'_>, extras: Extras, session: &Session) -> Result<String, Failure> {
    let python = python::runtime(session, torch, extras)?;
    Ok(format!("Python with torch {}", python.torch))
}
