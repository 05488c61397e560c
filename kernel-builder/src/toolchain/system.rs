//! The provider that uses what is installed: nvcc of CUDA_HOME or PATH, torch of the active Python.
//!
//! Owns: finding and checking them. Never: fetches.

use std::path::{Path, PathBuf};
use std::time::Duration;

use kernel_plan::kit::{CudaKit, FrameworkKit, TorchKit, TvmFfiKit};
use kernel_plan::plan::CommandLine;

use super::error::ToolchainError;
use super::interpreter::{self, Question};
use super::taking::WheelCollector;
use super::{FrameworkRelease, ToolchainRequest, parts};
use crate::base::digest::{Digest, DigestBuilder};
use crate::base::process::{self, Limits};
use crate::base::session::Session;
use crate::base::{env, files};

/// Finds what is wanted; `stubs` is handed through into the kit.
pub(super) fn resolve(
    session: &WheelCollector<'_>,
    want: &ToolchainRequest,
    stubs: PathBuf,
) -> Result<(Option<CudaKit>, FrameworkKit), ToolchainError> {
    let cuda = want.cuda.as_deref().map(toolkit).transpose()?;
    let framework = match &want.framework {
        FrameworkRelease::Torch(line) => FrameworkKit::Torch(headers(session, line, stubs)?),
        // Headers alone, which no system installs: they come from the wheel here too.
        FrameworkRelease::TvmFfi(line) => {
            let headers = parts::obtain(session, parts::TVM_FFI, line)?;
            let parts::Headers { version, include, id } = headers;
            FrameworkKit::TvmFfi(TvmFfiKit { version, include, stubs, id })
        }
    };
    Ok((cuda, framework))
}

/// Where nvcc is: CUDA_HOME, else PATH, else the folder that NVIDIA's installer uses.
pub(super) fn find_nvcc() -> Option<PathBuf> {
    let inside = |home: PathBuf| Some(home.join("bin/nvcc")).filter(|nvcc| files::exists(nvcc));
    env::text(env::CUDA_HOME)
        .map(PathBuf::from)
        .and_then(inside)
        .or_else(|| process::find("nvcc"))
        .or_else(|| inside(PathBuf::from("/usr/local/cuda")))
}

/// `13.0` from `Cuda compilation tools, release 13.0, V13.0.88`.
pub(super) fn nvcc_version(said: &str) -> Option<String> {
    let release = said.split("release ").nth(1)?;
    Some(release.split([',', ' ', '\n']).next()?.to_owned())
}

/// Where an nvcc may be that a build for `version` uses beside wheels: as [`find_nvcc`], then the folder of just that
/// version.
pub(super) fn nvcc_beside_wheels(version: &str) -> Vec<PathBuf> {
    let versioned = PathBuf::from(format!("/usr/local/cuda-{version}/bin/nvcc"));
    find_nvcc().into_iter().chain([versioned].into_iter().filter(|nvcc| files::exists(nvcc))).collect()
}

/// The installed toolkit of exactly this version; nothing where there is none or it is incomplete.
pub(super) fn beside_wheels(version: &str) -> Option<CudaKit> {
    nvcc_beside_wheels(version).into_iter().find_map(|nvcc| toolkit_of(nvcc, version).ok())
}

/// The installed toolkit of whichever version; nothing where there is none or it is incomplete.
pub(super) fn installed() -> Option<CudaKit> {
    let nvcc = find_nvcc()?;
    let version = nvcc_version(&said_by(&nvcc).ok()?)?;
    toolkit_of(nvcc, &version).ok()
}

fn said_by(nvcc: &Path) -> Result<String, ToolchainError> {
    let line = CommandLine::new(nvcc).arg("--version");
    Ok(process::run(&line, Limits::wall(Duration::from_secs(30)))?.stdout_text())
}

fn toolkit(wanted: &str) -> Result<CudaKit, ToolchainError> {
    toolkit_of(find_nvcc().ok_or(ToolchainError::NoSystemCuda)?, wanted)
}

fn toolkit_of(nvcc: PathBuf, wanted: &str) -> Result<CudaKit, ToolchainError> {
    let said = said_by(&nvcc)?;
    let found = nvcc_version(&said).unwrap_or_else(|| "unknown".to_owned());
    if found != wanted {
        return Err(ToolchainError::WrongSystemCuda { nvcc, found, wanted: wanted.to_owned() });
    }
    // /usr/local/cuda/bin/nvcc may be a link to elsewhere; headers and libraries lie beside the real one.
    let root = real(&nvcc).parent().and_then(Path::parent).map_or_else(|| PathBuf::from("/"), Path::to_owned);
    let lacking = |lacks: String| ToolchainError::IncompleteCuda { root: root.clone(), lacks };
    let major = wanted.split('.').next().unwrap_or(wanted);
    let first = |places: &[&str], name: &str| {
        places.iter().map(|place| root.join(place).join(name)).find(|path| files::exists(path))
    };
    let library = format!("libcudart.so.{major}");
    let cudart = first(&["lib64", "lib", "targets/x86_64-linux/lib", "lib/x86_64-linux-gnu"], &library)
        .ok_or_else(|| lacking(library.clone()))?;
    let header = first(&["include", "targets/x86_64-linux/include"], "cuda_runtime.h")
        .ok_or_else(|| lacking("cuda_runtime.h".to_owned()))?;
    let include = header.parent().map(Path::to_owned).unwrap_or_default();
    let cccl = include.join("cccl");
    let include = [include, cccl].into_iter().filter(|folder| files::is_dir(folder)).collect();
    // By content: the same toolkit in another place, or on another machine, is the same.
    let parts = ["bin/ptxas", "bin/cudafe++", "bin/fatbinary", "nvvm/bin/cicc"].map(|part| root.join(part));
    let mut id = DigestBuilder::new("system-cuda-2").field("version", &said);
    for path in [&nvcc, &cudart].into_iter().chain(parts.iter().filter(|part| files::exists(part))) {
        id = id.field("part", content(path));
    }
    let id = id.finish().to_string();
    Ok(CudaKit { version: found, nvcc, include, cudart, front: None, installed: true, id, root })
}

/// A digest of a file; one that cannot be read is like no other, and found out when it is used.
fn content(path: &Path) -> String {
    files::read(path).map_or_else(|_| path.display().to_string(), |bytes| Digest::blake3(&bytes).to_string())
}

pub(super) fn real(path: &Path) -> PathBuf {
    path.canonicalize().unwrap_or_else(|_| path.to_owned())
}

fn headers(session: &Session, wanted: &str, stubs: PathBuf) -> Result<TorchKit, ToolchainError> {
    let python = interpreter::active(session, Question::Packages)?;
    let lacking = |found: String| ToolchainError::NoSystemTorch {
        python: python.program.clone(),
        wanted: wanted.to_owned(),
        found,
    };
    let (Some(full), Some(folder)) = (&python.torch, &python.torch_dir) else {
        return Err(lacking(python.why.clone()));
    };
    let version = full.split('+').next().unwrap_or(full).to_owned();
    if !version.starts_with(&format!("{wanted}.")) {
        return Err(lacking(format!("it has {full}")));
    }
    let root = folder.join("include");
    let marker = root.join("torch/headeronly/version.h");
    if !files::exists(&marker) {
        return Err(lacking(format!("its torch {full} has no headers")));
    }
    let id = DigestBuilder::new("system-torch-2")
        .field("version", full)
        .field("headers", content(&marker))
        .finish()
        .to_string();
    Ok(TorchKit { version, include: vec![root.clone(), root.join("torch/csrc/api/include")], stubs, id })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_the_version_of_nvcc() {
        let said = "nvcc: NVIDIA (R) Cuda compiler driver\nCuda compilation tools, release 13.0, V13.0.88\n";
        assert_eq!(nvcc_version(said).as_deref(), Some("13.0"));
        assert_eq!(nvcc_version("something else"), None);
    }
}
