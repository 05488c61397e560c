//! The provider that needs nothing installed: CUDA and PyTorch's headers from wheels.
//!
//! Owns: which parts of which wheels make a toolkit, and the merged folder. Never: runs what it fetched.

use std::path::{Path, PathBuf};

use kernel_plan::kit::{CudaKit, FrontEnd, TorchKit};

use super::Want;
use super::error::ToolchainError;
use super::fetch::{self, Request};
use super::interpreter::{self, Question};
use super::pins::{self, CudaPins, FrontPins, TorchPins};
use super::store::Stored;
use super::system;
use crate::base::digest::DigestBuilder;
use crate::base::files::{self, FileError};
use crate::base::session::Session;

/// Fetches what is lacking; `stubs` is handed through into the kit.
pub(super) fn resolve(
    session: &Session,
    want: &Want,
    stubs: PathBuf,
) -> Result<(Option<CudaKit>, TorchKit), ToolchainError> {
    let pins = pins::load();
    let torch = pins.torch(&want.torch)?;
    let cuda = want.cuda.as_deref().map(|version| pins.cuda(version)).transpose()?;
    let python = interpreter::active(session, Question::Identity)?;
    let mut requests = vec![Request { part: torch.header_part(), why: "headers to compile against" }];
    // A toolkit whose wheels hold no compiler is used with an installed one of its own release, where there is one.
    if let Some(kit) = cuda.filter(|pins| pins.front.is_some()).and_then(|pins| system::beside_wheels(&pins.version)) {
        let mut stored = fetch::obtain(session, &python, &requests)?.into_iter();
        return Ok((Some(kit), headers(torch, stored.next(), stubs)));
    }
    let front = cuda.and_then(|cuda| cuda.front.as_ref());
    let lent = front.map(|front| pins.cuda(&front.version)).transpose()?;
    for part in cuda.iter().chain(&lent).flat_map(|cuda| &cuda.wheels) {
        let compiles = part.take.iter().any(|take| !take.ends_with("include/"));
        let why = if compiles { "parts of the CUDA compiler" } else { "CUDA headers" };
        requests.push(Request { part: part.clone(), why });
    }
    let mut stored = fetch::obtain(session, &python, &requests)?.into_iter();
    let torch = headers(torch, stored.next(), stubs);
    let Some(pins) = cuda else { return Ok((None, torch)) };
    let own: Vec<Stored> = stored.by_ref().take(pins.wheels.len()).collect();
    let lent = lent.map(|pins| toolkit(session, pins, &stored.collect::<Vec<_>>(), None)).transpose()?;
    let front = front.zip(lent.as_ref());
    Ok((Some(toolkit(session, pins, &own, front)?), torch))
}

fn headers(pins: &TorchPins, stored: Option<Stored>, stubs: PathBuf) -> TorchKit {
    let (files, id) = stored.map(|stored| (stored.files, stored.id)).unwrap_or_default();
    let root = files.join("torch/include");
    let include = vec![root.clone(), root.join("torch/csrc/api/include")];
    TorchKit { version: pins.version.clone(), include, stubs, id }
}

/// The files whose stamps say that a kit is still there.
pub(super) fn key_files(cuda: Option<&CudaKit>, torch: &TorchKit) -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> =
        torch.include.first().map(|include| include.join("torch/headeronly/version.h")).into_iter().collect();
    if let Some(cuda) = cuda {
        found.extend([cuda.nvcc.clone(), cuda.cudart.clone()]);
        found.extend(
            ["bin/ptxas", "bin/cudafe++", "bin/fatbinary", "nvvm/bin/cicc"].map(|name| cuda.root.join(name)),
        );
        let front = cuda.front.iter().flat_map(|front| {
            ["bin/cudafe++", "bin/fatbinary", "nvvm/bin/cicc"].map(|name| front.root.join(name))
        });
        found.extend(front);
    }
    found.retain(|path| files::exists(path));
    found.push(torch.stubs.clone());
    found
}

/// Merges the wheels into one folder: nvcc finds its parts relative to itself. `front` is the compiler of another
/// toolkit, for wheels that hold none.
fn toolkit(
    session: &Session,
    pins: &CudaPins,
    stored: &[Stored],
    front: Option<(&FrontPins, &CudaKit)>,
) -> Result<CudaKit, ToolchainError> {
    let id = DigestBuilder::new("cuda-kit").field("front", front.map_or("", |(_, kit)| kit.id.as_str()));
    let id = stored.iter().fold(id, |id, stored| id.field("part", &stored.id)).finish();
    let root = session.cache.join("cuda").join(format!("{}-{}", pins.version, id.short(16)));
    let cudart = root.join(&pins.cudart);
    let assembler = root.join("bin/ptxas");
    // Complete, since it appears in one step; made again when a part of it was removed.
    if !files::exists(&cudart) || !files::exists(&assembler) {
        let staging = files::staging_beside(&root)?;
        for stored in stored {
            let inside = |name: &String| {
                let rest = pins.roots.iter().find_map(|root| name.strip_prefix(root.as_str()))?;
                rest.strip_prefix('/').map(str::to_owned)
            };
            link_all(stored, staging.path(), inside)?;
        }
        if let Some((_, kit)) = front {
            // What the lent compiler generates calls the functions of its own version of this header.
            let place = staging.path().join(LAUNCHES);
            files::remove_file(&place)?;
            files::link_or_copy(&kit.root.join(LAUNCHES), &place)?;
        }
        files::replace_dir(staging, &root)?;
    }
    let include = ["include", "include/cccl"].map(|folder| root.join(folder));
    Ok(CudaKit {
        version: pins.version.clone(),
        nvcc: front.map_or(&root, |(_, kit)| &kit.root).join("bin/nvcc"),
        include: include.into_iter().filter(|folder| files::is_dir(folder)).collect(),
        cudart,
        front: front.map(|(pins, kit)| FrontEnd {
            version: pins.version.clone(),
            root: kit.root.clone(),
            ptx: pins.ptx.clone(),
            build: pins.build,
        }),
        installed: false,
        id: id.to_string(),
        root,
    })
}

/// The header with which compiled host code registers and launches kernels.
const LAUNCHES: &str = "include/crt/host_runtime.h";

/// Puts the members of a wheel below `folder`, under the names that `rename` gives; without copying where possible.
pub(super) fn link_all(
    stored: &Stored,
    folder: &Path,
    rename: impl Fn(&String) -> Option<String>,
) -> Result<(), FileError> {
    for name in &stored.names {
        if let Some(to) = rename(name) {
            files::link_or_copy(&stored.files.join(name), &folder.join(to))?;
        }
    }
    Ok(())
}
