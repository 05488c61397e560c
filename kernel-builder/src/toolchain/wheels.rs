//! The provider that needs nothing installed: CUDA and the framework's headers from wheels.
//!
//! Owns: which parts of which wheels make a toolkit, and the merged folder. Never: runs what it fetched.

use std::path::{Path, PathBuf};

use kernel_plan::kit::{CudaKit, FrameworkKit, TorchKit, TvmFfiKit};

use super::error::ToolchainError;
use super::fetch::{self, Request};
use super::index::Target;
use super::interpreter::{self, Question};
use super::pins::{self, CudaPins};
use super::store::Stored;
use super::{Against, Want, parts};
use crate::base::digest::DigestBuilder;
use crate::base::files::{self, FileError};
use crate::base::session::Session;

/// Fetches what is lacking; `stubs` is handed through into the kit.
pub(super) fn resolve(
    session: &Session,
    want: &Want,
    stubs: PathBuf,
) -> Result<(Option<CudaKit>, FrameworkKit), ToolchainError> {
    let pins = pins::load();
    let headers = match &want.framework {
        Against::Torch(line) => pins.headers(pins.torch(line)?),
        Against::TvmFfi(version) => parts::pinned(parts::TVM_FFI, version)?.wheel,
    };
    let cuda = want.cuda.as_deref().map(|version| pins.cuda(version)).transpose()?;
    let python = interpreter::active(session, Question::Identity)?;
    let version = headers.version.clone();
    let mut requests = vec![Request { part: headers, why: "headers to compile against" }];
    for part in cuda.iter().flat_map(|cuda| &cuda.wheels) {
        let compiles = part.take.iter().any(|take| !take.ends_with("include/"));
        let why = if compiles { "parts of the CUDA compiler" } else { "CUDA headers" };
        requests.push(Request { part: part.clone(), why });
    }
    let mut stored = fetch::obtain(session, &python, Target::Machine, &requests)?.into_iter();
    let (files, id) = stored.next().map(|stored| (stored.files, stored.id)).unwrap_or_default();
    let framework = match &want.framework {
        Against::Torch(_) => {
            let root = files.join("torch/include");
            let include = vec![root.clone(), root.join("torch/csrc/api/include")];
            FrameworkKit::Torch(TorchKit { version, include, stubs, id })
        }
        Against::TvmFfi(_) => {
            let include = vec![files.join("tvm_ffi/include")];
            FrameworkKit::TvmFfi(TvmFfiKit { version, include, stubs, id })
        }
    };
    let cuda = cuda.map(|pins| toolkit(session, pins, &stored.collect::<Vec<_>>())).transpose()?;
    Ok((cuda, framework))
}

/// The files whose stamps say that a kit is still there.
pub(super) fn key_files(cuda: Option<&CudaKit>, framework: &FrameworkKit) -> Vec<PathBuf> {
    let markers = ["torch/headeronly/version.h", "tvm/ffi/c_api.h"];
    let mut found: Vec<PathBuf> =
        framework.include().iter().flat_map(|folder| markers.map(|marker| folder.join(marker))).collect();
    if let Some(cuda) = cuda {
        found.extend([cuda.nvcc.clone(), cuda.cudart.clone()]);
        found.extend(
            ["bin/ptxas", "bin/cudafe++", "bin/fatbinary", "nvvm/bin/cicc"].map(|name| cuda.root.join(name)),
        );
    }
    found.retain(|path| files::exists(path));
    found.push(framework.stubs().to_owned());
    found
}

/// Merges the wheels into one folder: nvcc finds its parts relative to itself.
fn toolkit(session: &Session, pins: &CudaPins, stored: &[Stored]) -> Result<CudaKit, ToolchainError> {
    let id = stored
        .iter()
        .fold(DigestBuilder::new("cuda-kit"), |id, stored| id.field("part", &stored.id))
        .finish();
    let root = session.cache.join("cuda").join(format!("{}-{}", pins.version, id.short(16)));
    let cudart = root.join(&pins.cudart);
    // Complete, since it appears in one step; made again when a part of it was removed.
    if !files::exists(&cudart) || !files::exists(&root.join("bin/nvcc")) {
        let staging = files::staging_beside(&root)?;
        for stored in stored {
            let inside = |name: &String| name.strip_prefix(&pins.root)?.strip_prefix('/').map(str::to_owned);
            link_all(stored, staging.path(), inside)?;
        }
        files::replace_dir(staging, &root)?;
    }
    Ok(CudaKit {
        version: pins.version.clone(),
        nvcc: root.join("bin/nvcc"),
        include: vec![root.join("include"), root.join("include/cccl")],
        cudart,
        id: id.to_string(),
        root,
    })
}

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
