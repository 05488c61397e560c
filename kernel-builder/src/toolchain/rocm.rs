//! AMD's compiler, as it is installed, and PyTorch's translator from CUDA to HIP.
//!
//! Owns: finding and checking them. Never: fetches ROCm.

use std::path::{Path, PathBuf};

use kernel_plan::kit::{FrameworkKit, HipifyKit, RocmKit};

use super::error::ToolchainError;
use super::fetch::{self, Request};
use super::found::{DeviceCompiler, output_of, version_in};
use super::index::Target;
use super::interpreter::{self, Question};
use super::taking::WheelCollector;
use super::{FrameworkRelease, Provider, ToolchainRequest, pins, state};
use crate::base::digest::{Digest, DigestBuilder};
use crate::base::process;
use crate::base::session::Session;
use crate::base::{env, files};

const NAME: &str = "ROCm";

/// The script that has CUDA sources translated.
const SCRIPT: &str = include_str!("../../harness/hipify.py");

/// Where hipcc is, and the folder that ROCm lies in: ROCM_PATH, HIP_PATH, `/opt/rocm`, else PATH.
pub(super) fn place() -> Option<(PathBuf, PathBuf)> {
    let homes = env::ROCM_HOMES.iter().filter_map(|name| env::text(name)).map(PathBuf::from);
    let inside =
        |root: PathBuf| Some((root.join("bin/hipcc"), root)).filter(|(hipcc, _)| files::exists(hipcc));
    homes.chain([PathBuf::from("/opt/rocm")]).find_map(inside).or_else(|| {
        let hipcc = process::find("hipcc")?;
        // A link on PATH may lead into ROCm's own folder.
        let real = hipcc.canonicalize().unwrap_or_else(|_| hipcc.clone());
        let root = real.parent().and_then(Path::parent)?.to_owned();
        Some((hipcc, root))
    })
}

/// hipcc with the version of its ROCm.
pub(super) fn find(session: &Session) -> Result<DeviceCompiler, ToolchainError> {
    let (program, root) = place().ok_or_else(|| ToolchainError::NoDevice {
        problem: "hipcc not found in ROCM_PATH, HIP_PATH, /opt/rocm or PATH".to_owned(),
        help: "install ROCm, or set ROCM_PATH to its folder",
    })?;
    let written = files::read_text(&root.join(".info/version")).ok();
    let version = match written.as_deref().and_then(version_in) {
        Some(version) => version,
        // HIP has the version of the ROCm that it came with.
        None => version_in(&output_of(session, NAME, &program, &["--version"])?).ok_or_else(|| {
            let problem = "failed to read its version".to_owned();
            ToolchainError::BrokenDevice { name: NAME, program: program.clone(), problem }
        })?,
    };
    Ok(DeviceCompiler { program, root, version })
}

/// The whole toolkit.
pub(super) fn kit(
    session: &WheelCollector<'_>,
    want: &ToolchainRequest,
    found: DeviceCompiler,
    framework: &FrameworkKit,
) -> Result<RocmKit, ToolchainError> {
    let DeviceCompiler { program: hipcc, root, version } = found;
    let header = root.join("include/hip/hip_runtime.h");
    if !files::exists(&header) {
        let problem = "include/hip/hip_runtime.h is missing".to_owned();
        return Err(ToolchainError::BrokenDevice { name: NAME, program: root, problem });
    }
    // The compilers search /usr/include by themselves; named, it would come before the C++ library's own headers.
    let include = [root.join("include")].into_iter().filter(|folder| folder != Path::new("/usr/include"));
    let asked = ["--print-libgcc-file-name", "--rtlib=compiler-rt"];
    let builtins = output_of(session, NAME, &hipcc, &asked).ok().map(|said| PathBuf::from(said.trim()));
    let builtins = builtins.filter(|library| library.is_absolute() && files::exists(library));
    let hipify = hipify(session, want, framework)?;
    // hipcc is a driver: what it says names the compiler behind it, and that comes with its library.
    let compiler = output_of(session, NAME, &hipcc, &["--version"])?;
    let id = DigestBuilder::new("rocm-kit")
        .field("compiler", compiler)
        .field("builtins", format!("{:?}", builtins.as_deref().map(state::stamp_of)))
        .field("version", version.to_string())
        .field("hipcc", format!("{:?}", state::stamp_of(&hipcc)))
        .field("header", format!("{:?}", state::stamp_of(&header)))
        .field("hipify", &hipify.torch)
        .field("script", SCRIPT)
        .finish()
        .to_string();
    let (version, include) = (version.to_string(), include.collect());
    Ok(RocmKit { version, hipcc, root, include, builtins, hipify, id })
}

/// The translator of the torch that is built for; for code that plugs into something else, the newest one.
fn hipify(
    session: &WheelCollector<'_>,
    want: &ToolchainRequest,
    framework: &FrameworkKit,
) -> Result<HipifyKit, ToolchainError> {
    let script =
        session.cache.join("include").join(Digest::blake3(SCRIPT.as_bytes()).short(16)).join("hipify.py");
    files::write_if_changed(&script, SCRIPT)?;
    if want.provider == Provider::System
        && let FrameworkKit::Torch(torch) = framework
    {
        let python = interpreter::active(session, Question::Packages)?;
        let package = python.torch_dir.unwrap_or_default().join("utils/hipify");
        if files::is_dir(&package) {
            return Ok(HipifyKit { torch: torch.version.clone(), python: python.program, script, package });
        }
    }
    let line = match &want.framework {
        FrameworkRelease::Torch(line) => Some(line.as_str()),
        FrameworkRelease::TvmFfi(_) => None,
    };
    let python = interpreter::active(session, Question::Identity)?;
    let part = pins::load().hipify(line)?;
    let torch = part.version.clone();
    let request = Request { part, why: "the translator from CUDA to HIP" };
    let stored = fetch::obtain(session, &python, Target::Machine, &[request])?.into_iter().next();
    let package = stored.map(|stored| stored.files.join(pins::HIPIFY)).unwrap_or_default();
    Ok(HipifyKit { torch, python: python.program, script, package })
}
