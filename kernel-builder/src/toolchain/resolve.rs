//! Puts together everything that compiling needs.
//!
//! Owns: what a toolchain consists of, and when an earlier answer still counts. Never: fetches by itself.

use std::path::Path;

use kernel_plan::kit::{DeviceKit, Toolchain};
use serde::{Deserialize, Serialize};

use super::error::ToolchainError;
use super::lock::Locked;
use super::state::{self, Stamp};
use super::taking::WheelCollector;
use super::want::{Provider, ToolchainRequest};
use super::{compiler, device, interpreter, parts, pins, portable, system, used, wheels};
use crate::base::causes::chain;
use crate::base::digest::DigestBuilder;
use crate::base::env;
use crate::base::interrupt;
use crate::base::process::ProcessError;

/// A toolchain that was found, and what says that it is still there.
#[derive(Serialize, Deserialize)]
struct Resolved {
    toolchain: Toolchain,
    stamps: Vec<Stamp>,
    /// What it was put together from.
    wheels: Vec<Locked>,
}

/// Finds or fetches everything that compiling needs, and says which wheels it consists of. When nothing changed since
/// last time it only looks at a dozen files: milliseconds, no Python, no network.
pub(super) fn resolve(
    session: &WheelCollector<'_>,
    want: &ToolchainRequest,
) -> Result<(Toolchain, Vec<Locked>), ToolchainError> {
    let Resolved { mut toolchain, wheels, .. } = find(session, want)?;
    tracing::info!(
        target: "toolchain",
        "from {}: {} ({}), framework {:.12}{}",
        match want.provider {
            Provider::Wheels => "wheels",
            Provider::System => "the system",
        },
        toolchain.cxx.program.display(),
        toolchain.cxx.version,
        toolchain.framework.id(),
        toolchain.cuda.as_ref().map_or_else(String::new, |cuda| format!(", CUDA in {}", cuda.root.display())),
    );
    let own_link = match toolchain.device {
        // Apple's linker takes none of it, and Intel's compiler adds libraries of its own.
        Some(DeviceKit::Metal(_) | DeviceKit::Xpu(_)) => true,
        Some(DeviceKit::Rocm(_)) | None => false,
    };
    if own_link || cfg!(target_os = "macos") {
        return Ok((toolchain, wheels));
    }
    match portable::provide(&session.cache, &toolchain.cxx) {
        Ok(kit) => toolchain.portable = Some(kit),
        Err(_) if interrupt::requested() => return Err(ProcessError::Interrupted.into()),
        Err(error) => session.report.warn(format!(
            "kernels built here will only load on systems as new as this one: {}; `verify` shows what they \
             require",
            chain(&error)
        )),
    }
    if let Some(cuda) = &toolchain.cuda {
        let front = cuda.front.iter().map(|front| &front.root);
        front.chain([&cuda.root]).for_each(|root| used::folder(session, root));
    }
    Ok((toolchain, wheels))
}

fn find(session: &WheelCollector<'_>, want: &ToolchainRequest) -> Result<Resolved, ToolchainError> {
    let program = compiler::find()?;
    let file = session.cache.join("state").join(format!("toolchain-{}.json", key(want, &program)?));
    if let Some(known) = state::load::<Resolved>(&file)
        && known.stamps.iter().all(|stamp| state::stamp_of(&stamp.0).as_ref() == Some(stamp))
        && session.lock().is_none_or(|lock| lock.agrees(&known.wheels))
    {
        tracing::debug!(target: "cache", "toolchain: hit, {}", file.display());
        return Ok(known);
    }
    tracing::debug!(target: "cache", "toolchain: miss, no answer or one of other files in {}", file.display());
    let (cxx, mut stamps) = compiler::describe(session, &program)?;
    let stubs = compiler::stubs(session, &cxx)?;
    let (cuda, framework) = match want.provider {
        Provider::Wheels => wheels::resolve(session, want, stubs)?,
        Provider::System => system::resolve(session, want, stubs)?,
    };
    let device =
        want.device.map(|toolkit| device::resolve(session, want, toolkit, &framework)).transpose()?;
    let extension_include = compiler::extension_include(session)?;
    let mut watched = wheels::key_files(cuda.as_ref(), &framework);
    watched.push(extension_include.join("registration.h"));
    watched.extend(device.iter().flat_map(device::key_files));
    stamps.extend(watched.iter().filter_map(|path| state::stamp_of(path)));
    let toolchain =
        Toolchain { cxx, cuda, device, framework, libraries: Vec::new(), extension_include, portable: None };
    let found = Resolved { toolchain, stamps, wheels: session.locked_wheels() };
    state::save(&file, &found)?;
    Ok(found)
}

/// Everything that decides which toolchain is found, beside the files it consists of.
fn key(want: &ToolchainRequest, compiler: &Path) -> Result<String, ToolchainError> {
    let mut builder = DigestBuilder::new("toolchain")
        .field("want", format!("{want:?}"))
        .field("pins", pins::TEXTS.concat())
        .field("parts", parts::TEXT)
        .field("registration", include_str!("../../resources/registration.h"))
        .field("compiler", compiler.as_os_str().as_encoded_bytes());
    if let Some(toolkit) = want.device {
        builder = builder.field("device", device::place(toolkit).as_os_str().as_encoded_bytes());
    }
    if let Some(loader) = env::text(env::LOADER) {
        builder = builder.field("loader", loader);
    }
    if want.provider == Provider::System {
        let nvcc = want.cuda.as_ref().and_then(|_| system::find_nvcc()).unwrap_or_default();
        builder = builder
            .field("python", interpreter::find()?.as_os_str().as_encoded_bytes())
            .field("nvcc", nvcc.as_os_str().as_encoded_bytes());
    } else {
        let installed = want.cuda.iter().flat_map(|version| system::nvcc_beside_wheels(version));
        builder = installed.fold(builder, |builder, nvcc| {
            builder.field("nvcc", format!("{nvcc:?} {:?}", state::stamp_of(&nvcc)))
        });
    }
    Ok(builder.finish().short(16))
}
