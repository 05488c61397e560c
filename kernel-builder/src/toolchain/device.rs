//! The compilers of rocm, xpu and metal: no wheel has them, so they are always those that are installed.
//!
//! Owns: which one a variant needs, the answer of what is here for all variants. Never: fetches a compiler.

use std::path::PathBuf;

use kernel_plan::kit::{DeviceKit, FrameworkKit};
use kernel_plan::units::{BackendId, Version};
use kernel_plan::variant::{Tool, Toolkit};

use super::error::ToolchainError;
use super::found::DeviceCompiler;
use super::interpreter::{self, Question};
use super::taking::WheelCollector;
use super::want::ToolchainRequest;
use super::{metal, rocm, xpu};
use crate::base::causes::chain;
use crate::base::files;
use crate::base::session::Session;

/// A header of torch that is generated when it is built for the backend, and is in no other wheel.
const MARKERS: &[(BackendId, &str)] = &[
    (BackendId::Rocm, "c10/hip/impl/hip_cmake_macros.h"),
    (BackendId::Xpu, "c10/xpu/impl/xpu_cmake_macros.h"),
    // Every torch for macOS has what Metal needs.
    (BackendId::Metal, "torch/headeronly/version.h"),
];

/// The tools of a variant's toolkit.
pub(super) fn resolve(
    session: &WheelCollector<'_>,
    want: &ToolchainRequest,
    toolkit: Toolkit,
    framework: &FrameworkKit,
) -> Result<DeviceKit, ToolchainError> {
    let found = find(session, toolkit.id())?;
    let wanted = toolkit.version();
    if let Some(wanted) = wanted.filter(|wanted| *wanted != found.version) {
        let place = found.program.display();
        let problem = format!("version {wanted} is required, but `{place}` is version {}", found.version);
        return Err(ToolchainError::NoDevice { problem, help: help(toolkit.id()) });
    }
    match toolkit {
        Toolkit::Xpu(_) => xpu::kit(found).map(DeviceKit::Xpu),
        Toolkit::Metal => metal::kit(session, found).map(DeviceKit::Metal),
        _ => rocm::kit(session, want, found, framework).map(DeviceKit::Rocm),
    }
}

/// What is installed for each of the backends.
pub fn tools(session: &Session) -> Vec<Tool> {
    let tool = |(backend, marker): &(BackendId, &str)| {
        let found = find(session, *backend);
        let place = match &found {
            Ok(found) => format!("{}; {}", found.program.display(), help(*backend)),
            Err(_) => String::new(),
        };
        // Nobody asks what torch there is where no compiler is.
        let torch = found.as_ref().map_or_else(|_| Err(String::new()), |_| torch_of(session, marker));
        let found = found.map(|found| found.version).map_err(|error| chain(&error));
        Tool { backend: *backend, found, place, torch }
    };
    MARKERS.iter().map(tool).collect()
}

/// Where the compiler is, without starting it; empty where there is none.
pub(super) fn place(toolkit: Toolkit) -> PathBuf {
    match toolkit {
        Toolkit::Rocm(_) => rocm::place().map(|(program, _)| program),
        Toolkit::Xpu(_) => xpu::place().map(|(program, _)| program),
        _ => metal::place(),
    }
    .unwrap_or_default()
}

/// The files whose stamps say that a kit is still there.
pub(super) fn key_files(kit: &DeviceKit) -> Vec<PathBuf> {
    match kit {
        DeviceKit::Rocm(kit) => {
            let mut files = vec![kit.hipcc.clone(), kit.hipify.script.clone(), kit.hipify.package.clone()];
            files.extend(kit.builtins.clone());
            files
        }
        DeviceKit::Xpu(kit) => std::iter::once(kit.icpx.clone()).chain(kit.onednn.clone()).collect(),
        DeviceKit::Metal(kit) => vec![kit.xcrun.clone(), kit.embedder.clone()],
    }
}

fn find(session: &Session, backend: BackendId) -> Result<DeviceCompiler, ToolchainError> {
    match backend {
        BackendId::Xpu => xpu::find(session),
        BackendId::Metal => metal::find(session),
        _ => rocm::find(session),
    }
}

/// How a person names another one.
pub(super) const fn help(backend: BackendId) -> &'static str {
    match backend {
        BackendId::Xpu => "set ONEAPI_ROOT to use another installation",
        BackendId::Metal => "run `xcode-select -s` to use another Xcode",
        _ => "set ROCM_PATH to use another installation",
    }
}

/// The torch of the active Python, when it was built for the backend of `marker`. It is looked at and not imported.
fn torch_of(session: &Session, marker: &str) -> Result<Version, String> {
    let python = interpreter::active(session, Question::Identity).map_err(|error| chain(&error))?;
    let folder = python.has_torch().ok_or_else(|| "it has no torch".to_owned())?;
    let said = files::read_text(&folder.join("version.py")).unwrap_or_default();
    let full = said
        .lines()
        .find_map(|line| line.strip_prefix("__version__")?.split(['\'', '"']).nth(1))
        .ok_or_else(|| "it has a torch of unknown version".to_owned())?;
    if !files::exists(&folder.join("include").join(marker)) {
        return Err(format!("it has {full}, without them"));
    }
    let line: Vec<&str> = full.split('.').take(2).collect();
    line.join(".").parse().map_err(|_| format!("it has {full}"))
}
