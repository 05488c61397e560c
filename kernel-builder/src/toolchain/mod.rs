//! Compilers, CUDA, torch headers and the Python that judges: from wheels, from the system.
//!
//! Owns: finding, fetching and checking them. Never: compiles a kernel, changes a Python of the user's.

mod cache;
mod compiler;
mod device;
mod doctor;
mod error;
mod export;
mod fetch;
mod index;
mod interpreter;
pub mod libraries;
mod lock;
mod metal;
mod missing;
mod nar;
pub mod nvcc;
pub mod nvrtc;
mod parts;
mod pins;
pub mod portable;
pub(crate) mod prefix;
pub mod python;
mod rocm;
mod room;
mod stand_in;
mod state;
mod store;
mod supplied;
mod supply;
mod system;
mod unpack;
mod used;
mod wheels;
mod xpu;
mod zip;

use std::path::{Path, PathBuf};

use kernel_plan::kit::{DeviceKit, Toolchain};
use kernel_plan::plan::CommandLine;
use kernel_plan::variant::{self, Offer, Toolkit};
use serde::{Deserialize, Serialize};

pub use cache::{Damage, Item, Kind, idle, list, remove, total, verify};
pub use device::tools;
pub use doctor::{Finding, Health, examine, table};
pub use error::ToolchainError;
pub use export::{export, keys_of, lock_compiler, lock_variants, locked_variants, trees};
pub use lock::{LockedVariant, Variants};
pub use supply::Supply;
pub use zip::ZipError;

use self::lock::Locked;
use self::state::Stamp;
use self::supply::Taking;
use crate::base::digest::DigestBuilder;
use crate::base::env;
use crate::base::interrupt;
use crate::base::process::{ProcessError, Start};
use crate::base::session::Session;

/// The active Python, which need have no package: to parse Python with.
///
/// # Errors
/// There is none.
pub fn plain_python() -> Result<PathBuf, ToolchainError> {
    interpreter::find()
}

/// Where compilers and headers come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, clap::ValueEnum, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Provider {
    /// PyPI wheels, kept in the cache; the C++ compiler is the system's.
    #[default]
    Wheels,
    /// This machine: nvcc from CUDA_HOME or PATH, PyTorch of the active Python.
    System,
}

/// What a provider has in this version: the releases of `pins/`. `System` uses no others either: a build against an
/// installed torch or CUDA is made only where the same build is tested with wheels.
pub fn offer(provider: Provider) -> Offer {
    let pins = pins::load();
    let provider = match provider {
        Provider::Wheels => variant::Provider::Wheels,
        Provider::System => variant::Provider::System,
    };
    let tvm_ffi = parts::versions(parts::TVM_FFI).iter().filter_map(|version| version.parse().ok()).collect();
    Offer { provider, torch: pins.torch_versions(), tvm_ffi, cuda: pins.cuda_versions() }
}

/// What a build needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Want {
    /// Where from.
    pub provider: Provider,
    /// What the code plugs into.
    pub framework: Against,
    /// The CUDA version, `MAJOR.MINOR`, e.g. `13.0`; absent when no CUDA variant is built.
    pub cuda: Option<String>,
    /// The toolkit of a variant for rocm, xpu or metal, which is always an installed one.
    pub device: Option<Toolkit>,
}

/// What code plugs into, with its release line, `MAJOR.MINOR`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Against {
    /// PyTorch, e.g. `2.11`.
    Torch(String),
    /// Apache TVM's foreign function interface, e.g. `0.1`.
    TvmFfi(String),
}

/// What the Python runtime must import beside torch and numpy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Extras {
    /// The `kernels` client.
    pub client: bool,
    /// Apache TVM's foreign function interface.
    pub tvm_ffi: bool,
}

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
fn resolve(session: &Taking<'_>, want: &Want) -> Result<(Toolchain, Vec<Locked>), ToolchainError> {
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
            "what is built here will need a system as new as this one: {error}; verify says what it needs"
        )),
    }
    if let Some(cuda) = &toolchain.cuda {
        let front = cuda.front.iter().map(|front| &front.root);
        front.chain([&cuda.root]).for_each(|root| used::folder(session, root));
    }
    Ok((toolchain, wheels))
}

fn find(session: &Taking<'_>, want: &Want) -> Result<Resolved, ToolchainError> {
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
    let found = Resolved { toolchain, stamps, wheels: session.taken() };
    state::save(&file, &found)?;
    Ok(found)
}

/// Everything that decides which toolchain is found, beside the files it consists of.
fn key(want: &Want, compiler: &Path) -> Result<String, ToolchainError> {
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

/// Reads everything that the cache holds of wheels again and names what is no longer what was fetched, as
/// `(SHA-256 of the wheel, member)`.
pub fn audit(session: &Session) -> Result<Vec<(String, String)>, ToolchainError> {
    Ok(store::audit(session)?)
}

/// A Python interpreter with a torch that imports: the active one, or the managed one.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct PythonRuntime {
    /// The interpreter.
    pub program: PathBuf,
    /// The managed site-packages folder; absent when the interpreter's own packages are used.
    pub site: Option<PathBuf>,
    /// Managed folders with what is lacking beside torch: the `kernels` client, tvm_ffi.
    pub beside: Vec<PathBuf>,
    /// `torch.__version__`, e.g. `2.11.0+cu130`.
    pub torch: String,
}

impl PythonRuntime {
    /// A command line `python -I [-S]`, to which the caller adds a script and its arguments. With a managed site the
    /// script must call `site.addsitedir(os.environ["KERNELWRIGHT_SITE"])` before it imports torch; it must put the
    /// folders in `KERNELWRIGHT_BESIDE`, with `:` between them, in front of `sys.path`.
    pub fn command(&self) -> CommandLine {
        let line = CommandLine::new(&self.program).arg("-I");
        let beside: Vec<String> = self.beside.iter().map(|folder| folder.display().to_string()).collect();
        let line = if beside.is_empty() { line } else { line.env("KERNELWRIGHT_BESIDE", beside.join(":")) };
        match &self.site {
            Some(site) => line
                .arg("-S")
                .env("KERNELWRIGHT_SITE", site.display().to_string())
                // The compiler workers of torch.compile are Pythons of their own, which would not find the site.
                .env("TORCHINDUCTOR_COMPILE_THREADS", "1"),
            None => line,
        }
    }

    /// How a role of the harness comes into being: forked, where torch is known to be there to import.
    pub fn start(&self) -> Start {
        if self.torch.is_empty() { Start::Exec } else { Start::Fork }
    }
}
