//! The provider that needs nothing installed: CUDA and the framework's headers from wheels.
//!
//! Owns: which parts of which wheels make a toolkit, and the merged folder. Never: runs what it fetched.

use std::path::{Path, PathBuf};
use std::time::Duration;

use kernel_plan::kit::{CudaKit, FrameworkKit, FrontEnd, TorchKit, TvmFfiKit};
use kernel_plan::plan::CommandLine;

use super::error::ToolchainError;
use super::fetch::{self, Request};
use super::index::Target;
use super::interpreter::{self, Question};
use super::pins::{self, CudaPins, FrontPins};
use super::store::Stored;
use super::system;
use super::taking::WheelCollector;
use super::{FrameworkRelease, ToolchainRequest, parts, state};
use crate::base::causes::Cause;
use crate::base::digest::{Digest, DigestBuilder};
use crate::base::disk;
use crate::base::env;
use crate::base::files::{self, FileError};
use crate::base::process::{self, Limits};
use crate::base::session::Session;

/// Fetches what is lacking; `stubs` is handed through into the kit.
pub(super) fn resolve(
    session: &WheelCollector<'_>,
    want: &ToolchainRequest,
    stubs: PathBuf,
) -> Result<(Option<CudaKit>, FrameworkKit), ToolchainError> {
    let pins = pins::load();
    let headers = match &want.framework {
        FrameworkRelease::Torch(line) => pins.headers(pins.torch(line)?),
        FrameworkRelease::TvmFfi(version) => parts::pinned(parts::TVM_FFI, version)?.wheel,
    };
    let cuda = want.cuda.as_deref().map(|version| pins.cuda(version)).transpose()?;
    // A toolkit whose wheels hold no compiler is used with an installed one of its own release, where there is one.
    let bare = cuda.filter(|cuda| cuda.front.is_some());
    let installed = bare.and_then(|cuda| system::beside_wheels(&cuda.version));
    let cuda = cuda.filter(|_| installed.is_none());
    let front = cuda.and_then(|cuda| cuda.front.as_ref());
    let lent = front.map(|front| pins.cuda(&front.version)).transpose()?;
    let python = interpreter::active(session, Question::Identity)?;
    let version = headers.version.clone();
    let mut requests = vec![Request { part: headers, why: "headers to compile against" }];
    for part in cuda.iter().chain(&lent).flat_map(|cuda| &cuda.wheels) {
        let compiles = part.take.iter().any(|take| !take.ends_with("include/"));
        let why = if compiles { "parts of the CUDA compiler" } else { "CUDA headers" };
        requests.push(Request { part: part.clone(), why });
    }
    let mut stored = fetch::obtain(session, &python, Target::Machine, &requests)?.into_iter();
    let (files, id) = stored.next().map(|stored| (stored.files, stored.id)).unwrap_or_default();
    let framework = match &want.framework {
        FrameworkRelease::Torch(_) => {
            let root = files.join("torch/include");
            let include = vec![root.clone(), root.join("torch/csrc/api/include")];
            FrameworkKit::Torch(TorchKit { version, include, stubs, id })
        }
        FrameworkRelease::TvmFfi(_) => {
            let include = vec![files.join("tvm_ffi/include")];
            FrameworkKit::TvmFfi(TvmFfiKit { version, include, stubs, id })
        }
    };
    let Some(cuda) = cuda else { return Ok((installed, framework)) };
    let own: Vec<Stored> = stored.by_ref().take(cuda.wheels.len()).collect();
    let lent = lent.map(|lent| toolkit(session, lent, &stored.collect::<Vec<_>>(), None)).transpose()?;
    Ok((Some(toolkit(session, cuda, &own, front.zip(lent.as_ref()))?), framework))
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
        let front = cuda.front.iter().flat_map(|front| {
            ["bin/cudafe++", "bin/fatbinary", "nvvm/bin/cicc"].map(|name| front.root.join(name))
        });
        found.extend(front);
    }
    found.retain(|path| files::exists(path));
    found.push(framework.stubs().to_owned());
    found
}

/// Merges the wheels into one folder: nvcc finds its parts relative to itself. `front` is the compiler of another
/// toolkit, for wheels that hold none.
pub(super) fn toolkit(
    session: &Session,
    pins: &CudaPins,
    stored: &[Stored],
    front: Option<(&FrontPins, &CudaKit)>,
) -> Result<CudaKit, ToolchainError> {
    let id = DigestBuilder::new("cuda-kit").field("front", front.map_or("", |(_, kit)| kit.id.as_str()));
    let id = stored.iter().fold(id, |id, stored| id.field("part", &stored.id)).finish();
    let loader = env::text(env::LOADER);
    // What the programs are is the same, wherever their loader lies.
    let place = loader
        .iter()
        .fold(String::new(), |_, loader| format!("-{}", Digest::blake3(loader.as_bytes()).short(8)));
    let root =
        disk::real(&session.cache.join("cuda")).join(format!("{}-{}{place}", pins.version, id.short(16)));
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
        if let Some(loader) = &loader {
            reload(staging.path(), loader)?;
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

/// Gives every program of a toolkit another dynamic loader: wheels name the one of common distributions, which others,
/// and the sandbox of a build, do not have.
fn reload(root: &Path, loader: &str) -> Result<(), ToolchainError> {
    for folder in ["bin", "nvvm/bin"].map(|folder| root.join(folder)) {
        if !files::is_dir(&folder) {
            continue;
        }
        for program in files::walk(&folder, |_| true)?.iter().map(|name| folder.join(name)) {
            let bytes = files::read(&program)?;
            if !bytes.starts_with(b"\x7fELF") {
                continue;
            }
            // It is linked to the wheel's own file, which stays as it was fetched.
            files::remove_file(&program)?;
            files::write(&program, bytes)?;
            files::make_executable(&program)?;
            let line = CommandLine::new("patchelf").args(["--set-interpreter", loader]).path(&program);
            let failed = |cause: Cause| ToolchainError::Loader { program: program.clone(), cause };
            let done = process::run(&line, Limits::wall(Duration::from_secs(60)));
            let done = done.map_err(|error| failed(error.into()))?;
            if !done.ending.success() {
                return Err(failed(state::last_words(&done).into()));
            }
        }
    }
    Ok(())
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
