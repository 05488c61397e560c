//! Intel's C++ compiler, as it is installed, with what of oneAPI lies beside it.
//!
//! Owns: finding and checking them. Never: fetches oneAPI; the wheels on the index have its libraries and no compiler.

use std::path::{Path, PathBuf};

use kernel_plan::kit::XpuKit;

use super::error::ToolchainError;
use super::found::{DeviceCompiler, output_of, version_in};
use super::state;
use crate::base::digest::DigestBuilder;
use crate::base::process;
use crate::base::session::Session;
use crate::base::{env, files};

const NAME: &str = "oneAPI";

/// Where oneAPI's installer puts it.
const DEFAULT_ROOT: &str = "/opt/intel/oneapi";

/// Where icpx is, and the folder above its `bin`: ONEAPI_ROOT, else PATH, else where the installer puts it.
pub(super) fn place() -> Option<(PathBuf, PathBuf)> {
    let inside = |root: &Path| {
        let compiler = root.join("compiler/latest");
        Some((compiler.join("bin/icpx"), compiler)).filter(|(icpx, _)| files::exists(icpx))
    };
    let on_path = || {
        let icpx = process::find("icpx")?;
        let root = icpx.parent().and_then(Path::parent)?.to_owned();
        Some((icpx, root))
    };
    env::text(env::ONEAPI_ROOT)
        .and_then(|root| inside(Path::new(&root)))
        .or_else(on_path)
        .or_else(|| inside(Path::new(DEFAULT_ROOT)))
}

/// icpx with its version.
pub(super) fn find(session: &Session) -> Result<DeviceCompiler, ToolchainError> {
    let (program, root) = place().ok_or_else(|| ToolchainError::NoDevice {
        problem: format!("icpx not found in ONEAPI_ROOT, PATH or {DEFAULT_ROOT}"),
        help: "install Intel's oneAPI DPC++/C++ compiler, or set ONEAPI_ROOT to oneAPI's folder",
    })?;
    let text = output_of(session, NAME, &program, &["--version"])?;
    let version = version_in(&text).ok_or_else(|| {
        let problem = "failed to read its version".to_owned();
        ToolchainError::BrokenDevice { name: NAME, program: program.clone(), problem }
    })?;
    Ok(DeviceCompiler { program, root, version })
}

/// The whole toolkit.
pub(super) fn kit(found: DeviceCompiler) -> Result<XpuKit, ToolchainError> {
    let DeviceCompiler { program: icpx, root, version } = found;
    let home = env::text(env::ONEAPI_ROOT).unwrap_or_else(|| DEFAULT_ROOT.to_owned());
    let onednn = Path::new(&home).join("dnnl/latest");
    let library = onednn.join("lib/libdnnl.so");
    let complete = files::exists(&library) && files::exists(&onednn.join("include/dnnl.hpp"));
    let include = complete.then(|| onednn.join("include")).into_iter().collect();
    let onednn = complete.then_some(library);
    let ahead_of_time = process::find("ocloc");
    let mut id = DigestBuilder::new("xpu-kit")
        .field("version", version.to_string())
        .field("icpx", format!("{:?}", state::stamp_of(&icpx)));
    for part in [&ahead_of_time, &onednn].into_iter().flatten() {
        id = id.field("part", format!("{:?}", state::stamp_of(part)));
    }
    Ok(XpuKit {
        version: version.to_string(),
        icpx,
        root,
        include,
        onednn,
        ahead_of_time: ahead_of_time.is_some(),
        id: id.finish().to_string(),
    })
}
