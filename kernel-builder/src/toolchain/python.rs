//! The Python that judges: the active one where it imports torch, else a managed folder of packages.
//!
//! Owns: the choice, and making the managed folder `python/<interpreter>-<digest>/` of the cache.
//! Never: installs into a Python of the user's.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use kernel_plan::units::Version;
use serde::{Deserialize, Serialize};

use super::error::{ToolchainError, interrupted_or};
use super::fetch::{self, Request};
use super::index::Target;
use super::interpreter::{self, Interpreter, Question};
use super::missing::Missing;
use super::pins::{self, Pins, TorchPins};
use super::store::Stored;
use super::supply::in_use;
use super::taking::WheelCollector;
use super::{Extras, PythonRuntime, index, stand_in, state, used, wheels};
use crate::base::digest::DigestBuilder;
use crate::base::files;
use crate::base::process::{self, Limits};
use crate::base::report::{Event, ProgressKind};
use crate::base::session::Session;

/// The oldest client whose rules our packages follow.
const CLIENT: (u32, u32) = (0, 17);
/// The tvm_ffi that our variants are for; the client takes no other.
const TVM_FFI: (u32, u32) = (0, 1);
/// Written into the managed folder last.
const MARKER: &str = "kernelwright.json";

/// The content of the marker.
#[derive(Serialize, Deserialize)]
struct SiteMarker {
    torch: String,
}

/// Which torch a Python must import.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Torch<'a> {
    /// This release line (`2.11`) or a later one.
    AtLeast(&'a str),
    /// A release of this line.
    Exactly(&'a str),
    /// This release line, unless another one that this program knows is installed or was fetched before: for work that
    /// needs a torch, and no release in particular.
    Preferably(&'a str),
}

/// The oldest release line that references run with.
const OLDEST: &str = "2.10";

impl Torch<'_> {
    fn line(&self) -> &str {
        let (Self::AtLeast(line) | Self::Exactly(line) | Self::Preferably(line)) = self;
        line
    }

    fn takes(&self, version: &str) -> bool {
        match self {
            Self::AtLeast(line) => release(version) >= release(line),
            Self::Exactly(line) => release(version) == release(line),
            Self::Preferably(_) => release(version) >= release(OLDEST),
        }
    }
}

/// A torch that the active Python imports, or that a managed one can be made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TorchBuild {
    /// The release line, e.g. `2.11`.
    pub line: Version,
    /// The CUDA that it is built for; absent where there is none.
    pub cuda: Option<Version>,
    /// Whether the active Python imports it.
    pub installed: bool,
}

/// Every torch that can be had here, oldest first: the installed one, and for other release lines those of the package
/// index that have wheels for the active Python.
///
/// # Errors
/// There is no Python.
pub fn torches(session: &Session) -> Result<Vec<TorchBuild>, ToolchainError> {
    let python = interpreter::active(session, Question::Packages)?;
    let pins = pins::load();
    let fits = pins.torch.iter().filter(|torch| served(&python, torch).is_ok());
    let mut builds: Vec<TorchBuild> = fits
        .filter_map(pins::TorchPins::build)
        .map(|(line, cuda)| TorchBuild { line, cuda: Some(cuda), installed: false })
        .collect();
    let version = python.torch.as_deref().filter(|_| python.numpy);
    if let Some((version, line)) = version.and_then(|version| Some((version, line_of(version)?))) {
        builds.retain(|build| build.line != line);
        builds.push(TorchBuild { line, cuda: cuda_of(version), installed: true });
    }
    builds.sort_by_key(|build| build.line);
    Ok(builds)
}

/// `torch.__version__` of what [`runtime`] would give, before anything is fetched.
///
/// # Errors
/// No Python, or no such torch for it.
pub fn foreseen(session: &Session, torch: Torch<'_>) -> Result<String, ToolchainError> {
    let python = interpreter::active(session, Question::Packages)?;
    if let (None, Some(version)) = (lacking(&python, torch), &python.torch) {
        return Ok(version.clone());
    }
    let pins = pins::load();
    let torch = chosen(session, &pins, &python, torch)?;
    let build = torch.build().map(|(_, cuda)| format!("+cu{}{}", cuda.major, cuda.minor));
    Ok(torch.version.clone() + &build.unwrap_or_default())
}

/// Whether [`runtime`] has this torch without fetching it.
///
/// # Errors
/// No Python, or no such torch for it.
pub fn is_here(session: &Session, torch: Torch<'_>) -> Result<bool, ToolchainError> {
    let python = interpreter::active(session, Question::Packages)?;
    if lacking(&python, torch).is_none() {
        return Ok(true);
    }
    let pins = pins::load();
    let torch = chosen(session, &pins, &python, torch)?;
    Ok(is_made(session, &python, &pins, torch))
}

/// About how many megabytes a managed Python with this release line is to fetch.
pub fn megabytes(line: &str) -> Option<u32> {
    let pins = pins::load();
    let torch = pins.torch(line).ok()?;
    Some(pins.megabytes(torch, has_nvidia_driver()))
}

/// A Python that imports `torch`, numpy, and what `extras` asks for: the active one where it does, else a managed
/// folder of packages for it.
///
/// # Errors
/// No Python, no pip, no network, no such torch for this Python, or a package that does not install; see
/// [`ToolchainError`].
pub fn runtime(session: &Session, torch: Torch<'_>, extras: Extras) -> Result<PythonRuntime, ToolchainError> {
    let python = interpreter::active(session, Question::Packages)?;
    let mut runtime = with_torch(session, &python, torch)?;
    let tools = pins::load();
    // A managed torch comes with the client.
    let client = python.client.as_deref().and_then(release);
    if extras.client && runtime.site.is_none() && client.is_none_or(|client| client < CLIENT) {
        runtime.beside.push(beside(session, &python, "client", &tools.client, 25)?);
    }
    let installed = python.tvm_ffi.as_deref().filter(|_| runtime.site.is_none());
    if extras.tvm_ffi && installed.and_then(release) != Some(TVM_FFI) {
        runtime.beside.push(beside(session, &python, "tvm-ffi", &tools.tvm_ffi, 4)?);
    }
    Ok(runtime)
}

/// The active Python where its torch serves, else a managed torch. Torch is what is large: small packages are never a
/// reason to fetch another one.
fn with_torch(
    session: &Session,
    python: &Interpreter,
    torch: Torch<'_>,
) -> Result<PythonRuntime, ToolchainError> {
    let made =
        |site, torch| PythonRuntime { program: python.program.clone(), site, beside: Vec::new(), torch };
    let lacks = lacking(python, torch);
    if let (None, Some(version)) = (&lacks, &python.torch) {
        tracing::info!(target: "toolchain", "torch {version} of the active Python, {}", python.program.display());
        return Ok(made(None, version.clone()));
    }
    let pins = pins::load();
    let torch = chosen(session, &pins, python, torch)?;
    let folder = folder(session, python, &pins, torch);
    tracing::info!(
        target: "toolchain",
        "torch {} of the cache, {}, because {} cannot be used: {}",
        torch.version,
        folder.display(),
        python.program.display(),
        lacks.as_deref().unwrap_or("it has none"),
    );
    in_use(session);
    used::folder(session, &folder);
    if let Some(known) = state::load::<SiteMarker>(&folder.join(MARKER)) {
        return Ok(made(Some(folder), known.torch));
    }
    if session.offline {
        let what = format!("torch {} for Python {}", torch.version, python.version);
        let megabytes = pins.megabytes(torch, has_nvidia_driver());
        return Err(ToolchainError::Offline { missing: vec![Missing::new(what, megabytes)] });
    }
    let _lock = files::lock(&folder.with_extension("lock"), || {
        session.report.note("waiting for another process that is installing the managed Python packages");
    })
    .map_err(interrupted_or)?;
    if state::load::<SiteMarker>(&folder.join(MARKER)).is_none() {
        session.report.note(format!(
            "`{}` cannot be used ({}), so packages are fetched into the cache; that Python is not changed",
            python.program.display(),
            lacks.unwrap_or_default(),
        ));
        let megabytes = pins.megabytes(torch, has_nvidia_driver());
        make(session, python, &pins, torch, &folder)
            .map_err(|error| error.storing(&format!("torch {}", torch.version), megabytes))?;
    }
    let known: Option<SiteMarker> = state::load(&folder.join(MARKER));
    let torch = known.map(|known| known.torch).unwrap_or_default();
    Ok(made(Some(folder), torch))
}

/// The release of the package index that a managed Python is made of: of the line that was named; where a later one does
/// as well, of the first that has wheels for this Python. Where any release does, the newest that was fetched before.
fn chosen<'a>(
    session: &Session,
    pins: &'a Pins,
    python: &Interpreter,
    torch: Torch<'_>,
) -> Result<&'a TorchPins, ToolchainError> {
    let named = pins.torch(torch.line())?;
    if matches!(torch, Torch::Preferably(_)) {
        let made = |pins_of: &&TorchPins| is_made(session, python, pins, pins_of);
        let others = pins.torch.iter().rev().filter(|other| torch.takes(&other.line));
        if let Some(made) = std::iter::once(named).chain(others).find(made) {
            return Ok(made);
        }
    }
    let Err(error) = served(python, named) else { return Ok(named) };
    let later = |other: &&TorchPins| torch.takes(&other.line) && served(python, other).is_ok();
    pins.torch.iter().find(later).ok_or(error)
}

/// PyTorch's wheels are for some Pythons: better said here than by pip, which finds nothing.
fn served(python: &Interpreter, torch: &TorchPins) -> Result<(), ToolchainError> {
    let (oldest, newest) = &torch.python;
    let version = release(&python.version);
    if version >= release(oldest) && version <= release(newest) {
        return Ok(());
    }
    Err(ToolchainError::NoTorchForPython {
        torch: torch.version.clone(),
        python: python.program.clone(),
        version: python.version.clone(),
        oldest: oldest.clone(),
        newest: newest.clone(),
    })
}

/// A managed folder with a small package and what it imports.
fn beside(
    session: &Session,
    python: &Interpreter,
    name: &str,
    requirements: &[String],
    megabytes: u32,
) -> Result<PathBuf, ToolchainError> {
    let id = DigestBuilder::new("managed-beside")
        .field("tag", &python.tag)
        .field("requirements", requirements.join(" "))
        .finish();
    let folder = session.cache.join("python").join(format!("{}-{name}-{}", python.tag, id.short(12)));
    let marker = folder.join(MARKER);
    in_use(session);
    used::folder(session, &folder);
    if files::exists(&marker) {
        return Ok(folder);
    }
    if session.offline {
        let missing = vec![Missing::new(requirements.join(" "), megabytes)];
        return Err(ToolchainError::Offline { missing });
    }
    let _lock = files::lock(&folder.with_extension("lock"), || {
        session
            .report
            .note(format!("waiting for another process that is fetching {}", requirements.join(", ")));
    })
    .map_err(interrupted_or)?;
    if !files::exists(&marker) {
        let staging = files::staging_beside(&folder)?;
        let why = format!(
            "{}, missing in the active Python; that Python is not changed, {megabytes} MB",
            requirements.join(", ")
        );
        packages(session, python, requirements, &why, staging.path())
            .map_err(|error| error.storing(&requirements.join(", "), megabytes))?;
        state::save(&staging.path().join(MARKER), &SiteMarker { torch: String::new() })?;
        files::replace_dir(staging, &folder)?;
    }
    Ok(folder)
}

/// Why the active Python does not do; nothing when it does.
fn lacking(python: &Interpreter, wanted: Torch<'_>) -> Option<String> {
    let Some(torch) = &python.torch else { return Some(python.why.clone()) };
    if !wanted.takes(torch) {
        return Some(match wanted {
            Torch::AtLeast(line) => format!("it has torch {torch}, but {line} or later is required"),
            Torch::Exactly(line) => format!("it has torch {torch}, but {line} is required"),
            Torch::Preferably(_) => format!("it has torch {torch}, but {OLDEST} or later is required"),
        });
    }
    if !python.numpy {
        return Some("it has torch, but no numpy".to_owned());
    }
    None
}

/// Major and minor version of a release such as `2.11.0+cu130`.
fn release(text: &str) -> Option<(u32, u32)> {
    let mut numbers = text.split(['.', '+']).map(str::parse);
    Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
}

/// The release line of a `torch.__version__`.
pub fn line_of(version: &str) -> Option<Version> {
    release(version).map(|(major, minor)| Version::new(major, minor))
}

/// The CUDA that a `torch.__version__` names: 13.0 of `2.11.0+cu130`.
pub fn cuda_of(version: &str) -> Option<Version> {
    let digits = version.split_once("+cu")?.1;
    let (major, minor) = digits.split_at_checked(digits.len().checked_sub(1)?)?;
    format!("{major}.{minor}").parse().ok()
}

/// Whether the driver of an NVIDIA GPU is loaded (or reachable, under WSL): then a managed torch is the whole one.
pub fn has_nvidia_driver() -> bool {
    ["/proc/driver/nvidia/version", "/dev/nvidiactl", "/usr/lib/wsl/lib/libcuda.so.1"]
        .iter()
        .any(|path| files::exists(Path::new(path)))
}

fn folder(session: &Session, python: &Interpreter, pins: &Pins, torch: &TorchPins) -> PathBuf {
    let id = DigestBuilder::new("managed-python")
        .field("interpreter", python.program.as_os_str().as_encoded_bytes())
        .field("tag", &python.tag)
        .field("pins", format!("{torch:?} {:?}", pins.common))
        .field("stand-ins", stand_in::VERSION)
        .field("driver", if has_nvidia_driver() { "yes" } else { "no" })
        .finish();
    session.cache.join("python").join(format!("{}-torch{}-{}", python.tag, torch.version, id.short(12)))
}

/// Whether the managed Python of a release is in the cache.
fn is_made(session: &Session, python: &Interpreter, pins: &Pins, torch: &TorchPins) -> bool {
    files::exists(&folder(session, python, pins, torch).join(MARKER))
}

fn make(
    session: &Session,
    python: &Interpreter,
    pins: &Pins,
    torch: &TorchPins,
    folder: &Path,
) -> Result<(), ToolchainError> {
    let staging = files::staging_beside(folder)?;
    if has_nvidia_driver() {
        complete(session, python, pins, torch, staging.path())?;
    } else {
        reduced(session, python, pins, torch, staging.path())?;
    }
    let torch = try_out(python, staging.path())?;
    state::save(&staging.path().join(MARKER), &SiteMarker { torch })?;
    Ok(files::replace_dir(staging, folder)?)
}

/// With a GPU: everything, by pip.
fn complete(
    session: &Session,
    python: &Interpreter,
    pins: &Pins,
    torch: &TorchPins,
    site: &Path,
) -> Result<(), ToolchainError> {
    let why = format!(
        "torch {} with its CUDA libraries, to run kernels on the GPU, about {} MB",
        torch.version, torch.megabytes.complete
    );
    let mut requirements = vec![format!("torch=={}", torch.version)];
    requirements.extend(pins.common.beside.iter().cloned());
    packages(session, python, &requirements, &why, site)
}

/// Without a GPU: a part of torch, and stand-ins for what only a GPU would use.
fn reduced(
    session: &Session,
    python: &Interpreter,
    pins: &Pins,
    torch: &TorchPins,
    site: &Path,
) -> Result<(), ToolchainError> {
    let why = "to compute reference results on the CPU, without GPU libraries";
    let headers = [Request { part: pins.headers(torch), why: "headers to compile against" }];
    let code = [
        Request { part: pins.runtime(torch), why },
        Request { part: torch.cudart.clone(), why: "the CUDA runtime, which torch loads even without a GPU" },
    ];
    let small = "dependencies of torch, numpy, and the client that loads kernels, 50 MB";
    // Two downloads at a time: two programs ask the index, independently of each other.
    let stored: Vec<Stored> = std::thread::scope(|scope| {
        let installing = scope.spawn(|| packages(session, python, &pins.common.packages, small, site));
        let taking = WheelCollector::unlocked(session);
        let headers = fetch::obtain(&taking, python, Target::Machine, &headers);
        let code = headers.and_then(|mut stored| {
            stored.extend(fetch::obtain(&taking, python, Target::Interpreter, &code)?);
            Ok(stored)
        });
        let installed = installing.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        installed.and(code)
    })?;
    let mut real = Vec::new();
    for stored in &stored {
        wheels::link_all(stored, site, |name| Some(name.clone()))?;
        let libraries = stored.names.iter().filter(|name| name.contains(".so") && !name.contains("/bin/"));
        real.extend(libraries.map(|name| site.join(name)));
    }
    for name in &torch.blank {
        files::write(&site.join(name), "")?;
    }
    stand_in::build(&site.join("torch/lib"), &real, &site.join("torch/include"))
}

fn packages(
    session: &Session,
    python: &Interpreter,
    requirements: &[String],
    why: &str,
    site: &Path,
) -> Result<(), ToolchainError> {
    let started = Instant::now();
    let bar =
        session.report.progress(&format!("installing Python packages: {why}"), ProgressKind::Count, None);
    index::install(session, python, requirements, site)?;
    drop(bar);
    session.report.emit(&Event::Done {
        action: "fetched",
        subject: "Python packages",
        detail: why,
        seconds: started.elapsed().as_secs_f64(),
        cached: false,
    });
    Ok(())
}

/// The program of the first use, which leaves compiled Python files in the folder.
const FIRST_USE: &str = include_str!("../../harness/first_use.py");

/// Imports everything once, which also shows whether the stand-ins suffice; gives torch's version.
fn try_out(python: &Interpreter, site: &Path) -> Result<String, ToolchainError> {
    let runtime = PythonRuntime {
        program: python.program.clone(),
        site: Some(site.to_owned()),
        beside: Vec::new(),
        torch: String::new(),
    };
    let line = runtime.command().args(["-c", FIRST_USE]);
    let done = process::run(&line, Limits::wall(Duration::from_secs(300)))?;
    match (done.ending.success(), done.stdout_text().lines().last()) {
        (true, Some(version)) => Ok(version.to_owned()),
        _ => Err(ToolchainError::BrokenRuntime { cause: state::last_words(&done).into() }),
    }
}

#[cfg(test)]
#[path = "python_tests.rs"]
mod tests;
