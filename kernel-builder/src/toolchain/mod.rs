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
mod found;
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
mod request;
mod resolve;
mod rocm;
mod room;
mod stand_in;
mod state;
mod store;
mod supplied;
mod supply;
mod system;
mod taking;
mod unpack;
mod used;
mod want;
mod wheels;
mod xpu;
mod zip;

use std::path::PathBuf;

use kernel_plan::plan::CommandLine;
use kernel_plan::variant::{self, Offer};

pub use cache::{Damage, Item, Kind, idle, list, remove, total, verify};
pub use device::tools;
pub use doctor::{Finding, Health, examine, table};
pub use error::ToolchainError;
pub use export::{export, keys_of, lock_compiler, lock_variants, locked_variants, trees};
pub use lock::{LockedVariant, Variants};
pub use supply::Supply;
pub use want::{Extras, FrameworkRelease, Provider, ToolchainRequest};
pub use zip::ZipError;

use crate::base::process::Start;
use crate::base::session::Session;

/// The active Python, which need have no package: to parse Python with.
///
/// # Errors
/// There is none.
pub fn plain_python() -> Result<PathBuf, ToolchainError> {
    interpreter::find()
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
