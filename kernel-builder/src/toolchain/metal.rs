//! Apple's Metal compiler, as Xcode has it.
//!
//! Owns: finding and checking it; the sources that put shaders into an extension. Never: runs where there is no macOS.

use std::path::PathBuf;

use kernel_plan::kit::MetalKit;

use super::error::ToolchainError;
use super::found::{DeviceCompiler, output_of, version_in};
use super::state;
use crate::base::digest::DigestBuilder;
use crate::base::files;
use crate::base::process;
use crate::base::session::Session;

const NAME: &str = "Xcode";

/// What gives a kernel its shaders, and what puts them into an object.
const SOURCES: [(&str, &str); 2] = [
    ("kernelwright_metallib.h", include_str!("../../resources/kernelwright_metallib.h")),
    ("kernelwright_metallib.S", include_str!("../../resources/kernelwright_metallib.S")),
];

/// Where Apple's finder of tools is.
pub(super) fn place() -> Option<PathBuf> {
    process::find("xcrun")
}

/// The finder with the version of the SDK.
pub(super) fn find(session: &Session) -> Result<DeviceCompiler, ToolchainError> {
    let program = place().ok_or_else(|| ToolchainError::NoDevice {
        problem: "xcrun not found on PATH: Metal kernels need Xcode on macOS".to_owned(),
        help: "install Xcode 26 and its component: `xcodebuild -downloadComponent MetalToolchain`",
    })?;
    let ask = |what: &str| output_of(session, NAME, &program, &["--sdk", "macosx", what]);
    let version = version_in(&ask("--show-sdk-version")?).ok_or_else(|| {
        let problem = "failed to read the version of its SDK".to_owned();
        ToolchainError::BrokenDevice { name: NAME, program: program.clone(), problem }
    })?;
    let root = PathBuf::from(ask("--show-sdk-path")?.trim());
    Ok(DeviceCompiler { program, root, version })
}

/// The whole toolkit.
pub(super) fn kit(session: &Session, found: DeviceCompiler) -> Result<MetalKit, ToolchainError> {
    let DeviceCompiler { program: xcrun, root, version } = found;
    // The Metal compiler is a component of its own, which Xcode may lack.
    let metal = output_of(session, NAME, &xcrun, &["--sdk", "macosx", "--find", "metal"])?;
    let mut content = DigestBuilder::new("metallib");
    for (name, text) in SOURCES {
        content = content.field(name, text);
    }
    let content = content.finish();
    let folder = session.cache.join("include").join(content.short(16));
    for (name, text) in SOURCES {
        files::write_if_changed(&folder.join(name), text)?;
    }
    let id = DigestBuilder::new("metal-kit")
        .field("version", version.to_string())
        .field("sdk", root.as_os_str().as_encoded_bytes())
        .field("metal", format!("{:?}", state::stamp_of(&PathBuf::from(metal.trim()))))
        .field("sources", content.to_string())
        .finish()
        .to_string();
    let embedder = folder.join("kernelwright_metallib.S");
    Ok(MetalKit { version: version.to_string(), xcrun, include: vec![folder], embedder, id })
}
