//! Errors of toolchains, each with the next step.
//!
//! Owns: the messages and the exit code of this stage. Never: decides.

use std::path::PathBuf;

use miette::Diagnostic;
use thiserror::Error;

use super::missing::{self, Missing};
use super::zip::ZipError;
use crate::base::causes::Cause;
use crate::base::files::FileError;
use crate::base::http::HttpError;
use crate::base::interrupt;
use crate::base::process::ProcessError;
use crate::exit::{self, StageError};

/// A toolchain or a Python that cannot be used.
#[derive(Debug, Error, Diagnostic)]
pub enum ToolchainError {
    /// No interpreter.
    #[error("Python not found: neither `python3` nor `python` is on PATH")]
    #[diagnostic(
        code(toolchain::python_missing),
        help("install it (`apt install python3 python3-pip`), or set KERNELWRIGHT_PYTHON to an interpreter")
    )]
    NoPython,
    /// KERNELWRIGHT_PYTHON is not a program.
    #[error("KERNELWRIGHT_PYTHON is `{asked}`, which is not a program")]
    #[diagnostic(
        code(toolchain::python_missing),
        help("unset it, or set it to an interpreter such as `/usr/bin/python3`")
    )]
    NoSuchPython {
        /// The value of the variable.
        asked: String,
    },
    /// The interpreter does not run.
    #[error("`{}` is not a working Python", program.display())]
    #[diagnostic(
        code(toolchain::python_broken),
        help("repair it, or set KERNELWRIGHT_PYTHON to another interpreter")
    )]
    BrokenPython {
        /// The interpreter.
        program: PathBuf,
        /// Its output, or the error of reading it.
        #[source]
        cause: Cause,
    },
    /// Neither pip nor uv is installed.
    #[error("`{}` has no pip, and uv is not on PATH", python.display())]
    #[diagnostic(code(toolchain::pip_missing), help("install one of them: `apt install python3-pip`"))]
    NoPip {
        /// The interpreter.
        python: PathBuf,
    },
    /// No C++ compiler.
    #[error("C++ compiler not found: {asked}")]
    #[diagnostic(
        code(toolchain::compiler_missing),
        help("install one (`apt install g++`), or set the environment variable CXX to one")
    )]
    NoCompiler {
        /// Where Kernelwright looked for it.
        asked: String,
    },
    /// The compiler does not work.
    #[error("`{}` is not a working C++ compiler: {output}", program.display())]
    #[diagnostic(
        code(toolchain::compiler_broken),
        help("reinstall it (`apt install g++`), or set CXX to another one")
    )]
    BrokenCompiler {
        /// The compiler.
        program: PathBuf,
        /// Its output.
        output: String,
    },
    /// A CUDA version without pins.
    #[error("no wheels are known for CUDA {version}; known: {known}")]
    #[diagnostic(
        code(toolchain::unknown_cuda),
        help("build for one of the known versions, or use an installed toolkit: `--toolchain system`")
    )]
    UnknownCuda {
        /// The release that was asked for.
        version: String,
        /// The known releases.
        known: String,
    },
    /// A PyTorch release without pins.
    #[error("no wheels are known for PyTorch {version}; known: {known}")]
    #[diagnostic(
        code(toolchain::unknown_torch),
        help(
            "use one of the known releases, or the torch of the active Python: `build --toolchain system` \
             compiles with it, and `verify` without `--torch` verifies with it"
        )
    )]
    UnknownTorch {
        /// The release that was asked for.
        version: String,
        /// The known releases.
        known: String,
    },
    /// A header library without pins.
    #[error("no wheel is known for {name} {version}; known: {known}")]
    #[diagnostic(
        code(toolchain::unknown_part),
        help("use one of the known versions, or a folder with this one: `--cutlass-dir DIR`")
    )]
    UnknownPart {
        /// Which library.
        name: String,
        /// The release that was asked for.
        version: String,
        /// The known releases.
        known: String,
    },
    /// The folder of a library has another library or release.
    #[error("`{}` is not {wanted}: {problem}", folder.display())]
    #[diagnostic(
        code(toolchain::wrong_library),
        help("use the folder that contains `include`, of the release that `depends` lists")
    )]
    WrongLibrary {
        /// The folder.
        folder: PathBuf,
        /// The library and the release that it should be.
        wanted: String,
        /// The difference.
        problem: String,
    },
    /// A library that is in no wheel.
    #[error("no wheel contains {name}, a dependency of a kernel")]
    #[diagnostic(
        code(toolchain::library_missing),
        help("get it from {from} and pass its folder: `--dependency-dir {name}=DIR`")
    )]
    NoLibrary {
        /// As build.toml writes it.
        name: String,
        /// The place where it is published.
        from: String,
    },
    /// A Python that PyTorch has no wheels for.
    #[error(
        "PyTorch {torch} has no wheels for Python {version} (`{}`); supported: {oldest} to {newest}",
        python.display()
    )]
    #[diagnostic(
        code(toolchain::python_unserved),
        help("set KERNELWRIGHT_PYTHON to another Python, e.g. `KERNELWRIGHT_PYTHON=python{newest}`")
    )]
    NoTorchForPython {
        /// The release.
        torch: String,
        /// The interpreter.
        python: PathBuf,
        /// Its version.
        version: String,
        /// The oldest that is served.
        oldest: String,
        /// The newest that is served.
        newest: String,
    },
    /// The index did not answer, or has no such release.
    #[error("pip failed to find {wanted}")]
    #[diagnostic(
        code(toolchain::index),
        help(
            "check the network and pip's settings (`pip config list`); PyTorch has no wheels for very old or \
             very new Python versions: set KERNELWRIGHT_PYTHON to another Python"
        )
    )]
    Index {
        /// Names and versions.
        wanted: String,
        /// The end of pip's output, or why its report cannot be used.
        #[source]
        cause: Cause,
    },
    /// Pip could not install.
    #[error("pip failed to install {wanted}: {output}")]
    #[diagnostic(
        code(toolchain::install),
        help("check the network, the free space of the cache and pip's settings (`pip config list`)")
    )]
    Install {
        /// Requirements.
        wanted: String,
        /// The end of pip's output.
        output: String,
    },
    /// The disk is full, or may not be written to.
    #[error("failed to store {wanted}{}", missing::to_fetch(*needs))]
    #[diagnostic(code(toolchain::no_room), help("{}", cause.advice()))]
    NoRoom {
        /// The wheel or the packages.
        wanted: String,
        /// About how many megabytes there are to fetch.
        needs: Option<u32>,
        /// The file that failed.
        #[source]
        cause: FileError,
    },
    /// The download failed.
    #[error("failed to fetch {wheel}")]
    #[diagnostic(
        code(toolchain::download),
        help("check the network, then run the same command again to resume the download")
    )]
    Download {
        /// The wheel.
        wheel: String,
        /// Why.
        #[source]
        cause: HttpError,
    },
    /// A wheel or a file of it does not match its digest.
    #[error("{wheel} is damaged: {problem}")]
    #[diagnostic(
        code(toolchain::damaged),
        help(
            "run the same command again; if it fails again, a mirror or proxy in front of the package index \
             serves damaged files"
        )
    )]
    Damaged {
        /// The wheel.
        wheel: String,
        /// Which member, and how.
        problem: String,
        /// Why a member cannot be unpacked.
        #[source]
        cause: Option<std::io::Error>,
    },
    /// The wheel is not a valid zip file.
    #[error("failed to read {wheel}")]
    #[diagnostic(
        code(toolchain::damaged),
        help("run the same command again; if it fails again, report the name of the wheel")
    )]
    NotAZip {
        /// The wheel.
        wheel: String,
        /// Why.
        #[source]
        cause: ZipError,
    },
    /// Downloads are disabled.
    #[error("downloads are disabled, but these are not in the cache: {}", missing::listed(missing))]
    #[diagnostic(
        code(toolchain::offline),
        help(
            "with a network, run `kernelwright toolchain fetch` in the project, without `--offline` and with \
             KERNELWRIGHT_OFFLINE unset"
        )
    )]
    Offline {
        /// All of it.
        missing: Vec<Missing>,
    },
    /// The index or the cache has another wheel than the lock file.
    #[error("hash mismatch for {wheel}: `{}` expects {locked}, but {came}", path.display())]
    #[diagnostic(
        code(toolchain::locked),
        help(
            "if the change is intended, remove that entry from the file and run again; otherwise find out \
             why the package index serves another file than when it was locked"
        )
    )]
    Locked {
        /// The lock.
        path: PathBuf,
        /// Name and version.
        wheel: String,
        /// The digest in the lock file.
        locked: String,
        /// The digest of the download.
        came: String,
    },
    /// `--locked`, and an entry is missing in the lock file.
    #[error(
        "lock file `{}` is out of date: {missing} is missing (`--locked` prevents updating it)",
        path.display()
    )]
    #[diagnostic(
        code(toolchain::not_locked),
        help("run `kernelwright toolchain fetch` without `--locked` in the project, and commit the file")
    )]
    NotLocked {
        /// The lock.
        path: PathBuf,
        /// Names and versions.
        missing: String,
    },
    /// `--locked`, and the C++ compiler is not the locked one.
    #[error(
        "lock file `{}` requires the C++ compiler {locked}, but `{}` is {here}",
        path.display(),
        program.display()
    )]
    #[diagnostic(
        code(toolchain::other_compiler),
        help(
            "set CXX to that compiler, or build on a machine that has it; if the change is intended, run \
             `kernelwright lock --compiler`; without `--locked`, any compiler is accepted"
        )
    )]
    OtherCompiler {
        /// The lock.
        path: PathBuf,
        /// The compiler that was found.
        program: PathBuf,
        /// The version in the lock file.
        locked: String,
        /// The version on this machine.
        here: String,
    },
    /// A folder of KERNELWRIGHT_WHEELS does not match the lock file.
    #[error("`{}` does not match {wheel} in the lock file: {problem}", folder.display())]
    #[diagnostic(
        code(toolchain::supplied),
        help(
            "create it again with `kernelwright toolchain export`, using the version of kernelwright that \
             wrote kernelwright.lock, or remove it from KERNELWRIGHT_WHEELS"
        )
    )]
    Supplied {
        /// The folder.
        folder: PathBuf,
        /// Name and version.
        wheel: String,
        /// The reason.
        problem: String,
    },
    /// The lock file has no such wheel, or this version uses other files of it.
    #[error("lock file `{}` has no `{key}` that this version of kernelwright supports", path.display())]
    #[diagnostic(
        code(toolchain::not_in_lock),
        help(
            "run `kernelwright lock`: it writes the variants of the project and their wheels, and replaces \
             entries of other versions"
        )
    )]
    NotInLock {
        /// The lock.
        path: PathBuf,
        /// The wheel and the choice.
        key: String,
    },
    /// Changing the loader of a program of a wheel failed.
    #[error("failed to set the loader of `{}` to that of KERNELWRIGHT_LOADER", program.display())]
    #[diagnostic(
        code(toolchain::loader),
        help("install `patchelf`, or unset KERNELWRIGHT_LOADER if /lib64/ld-linux-x86-64.so.2 exists")
    )]
    Loader {
        /// The program.
        program: PathBuf,
        /// The output of patchelf, or why it failed to start.
        #[source]
        cause: Cause,
    },
    /// The lock file cannot be parsed.
    #[error("failed to read the lock file `{}`", path.display())]
    #[diagnostic(
        code(toolchain::bad_lock),
        help("restore it from version control, or delete it to have it written again")
    )]
    BadLock {
        /// The lock.
        path: PathBuf,
        /// The reason.
        #[source]
        cause: Cause,
    },
    /// Nothing is removed from a cache in use.
    #[error("the cache `{}` is in use by another process of kernelwright", cache.display())]
    #[diagnostic(
        code(toolchain::in_use),
        help("nothing was removed; try again after that process has ended")
    )]
    InUse {
        /// The cache.
        cache: PathBuf,
    },
    /// No installed CUDA.
    #[error("CUDA toolkit not found: `nvcc` is neither in CUDA_HOME nor on PATH")]
    #[diagnostic(
        code(toolchain::system_cuda_missing),
        help("set CUDA_HOME (often /usr/local/cuda), or omit `--toolchain system` to fetch a toolkit")
    )]
    NoSystemCuda,
    /// Another CUDA is installed.
    #[error("the installed CUDA toolkit is version {found}, but {wanted} is required (`{}`)", nvcc.display())]
    #[diagnostic(
        code(toolchain::system_cuda_version),
        help("set CUDA_HOME to CUDA {wanted}, or omit `--toolchain system` to fetch it")
    )]
    WrongSystemCuda {
        /// The compiler that was found.
        nvcc: PathBuf,
        /// Its version.
        found: String,
        /// The release that was asked for.
        wanted: String,
    },
    /// A file of the toolkit is missing.
    #[error("the CUDA toolkit `{}` is incomplete: {lacks} is missing", root.display())]
    #[diagnostic(
        code(toolchain::system_cuda_incomplete),
        help("install the complete toolkit, or omit `--toolchain system` to fetch one")
    )]
    IncompleteCuda {
        /// The folder.
        root: PathBuf,
        /// The missing file.
        lacks: String,
    },
    /// No compiler for a device, or one of another version.
    #[error("{problem}")]
    #[diagnostic(code(toolchain::device_missing), help("{help}"))]
    NoDevice {
        /// What is missing, and where Kernelwright looked.
        problem: String,
        /// The next step.
        help: &'static str,
    },
    /// The device's toolkit does not work, or a file of it is missing.
    #[error("`{}` cannot be used: {problem}", program.display())]
    #[diagnostic(code(toolchain::device_broken), help("reinstall {name} with all its components"))]
    BrokenDevice {
        /// Its usual name.
        name: &'static str,
        /// The compiler or folder.
        program: PathBuf,
        /// Its output, or the missing file.
        problem: String,
    },
    /// No torch in the active Python.
    #[error("`{}` has no torch {wanted}: {found}", python.display())]
    #[diagnostic(
        code(toolchain::system_torch),
        help(
            "install it there (`pip install torch=={wanted}.*`), set KERNELWRIGHT_PYTHON to another Python, \
             or omit `--toolchain system`"
        )
    )]
    NoSystemTorch {
        /// The interpreter.
        python: PathBuf,
        /// The release line.
        wanted: String,
        /// What the interpreter has instead.
        found: String,
    },
    /// The managed environment does not work.
    #[error("the managed Python packages do not work")]
    #[diagnostic(
        code(toolchain::runtime_broken),
        help(
            "delete the folder `python` of the cache and try again, or set KERNELWRIGHT_PYTHON to a Python \
             with torch"
        )
    )]
    BrokenRuntime {
        /// The output of the trial import, or why a library cannot be read.
        #[source]
        cause: Cause,
    },
    /// A file of the cache.
    #[error(transparent)]
    #[diagnostic(transparent)]
    File(#[from] FileError),
    /// A program that could not be started, or ctrl-C.
    #[error(transparent)]
    #[diagnostic(transparent)]
    Process(#[from] ProcessError),
}

impl ToolchainError {
    /// The same error, with the name and size of what did not fit on the disk.
    pub(super) fn storing(self, wanted: &str, megabytes: u32) -> Self {
        match self {
            Self::File(cause) if cause.is_about_room_or_rights() => {
                Self::NoRoom { wanted: wanted.to_owned(), needs: Some(megabytes), cause }
            }
            Self::NoRoom { cause, .. } => {
                Self::NoRoom { wanted: wanted.to_owned(), needs: Some(megabytes), cause }
            }
            other => other,
        }
    }

    /// A download that failed, or ctrl-C during it.
    pub(super) fn download(wheel: &str, cause: HttpError) -> Self {
        match cause {
            HttpError::Interrupted => ProcessError::Interrupted.into(),
            HttpError::File(error) => error.into(),
            cause => Self::Download { wheel: wheel.to_owned(), cause },
        }
    }
}

impl StageError for ToolchainError {
    fn exit(&self) -> u8 {
        match self {
            Self::Process(error) if matches!(error, ProcessError::Interrupted) => error.exit(),
            _ => exit::TOOLCHAIN,
        }
    }
}

/// Ctrl-C while waiting for a lock is an interruption, not an error of a file.
pub(super) fn interrupted_or(error: FileError) -> ToolchainError {
    if interrupt::requested() { ProcessError::Interrupted.into() } else { error.into() }
}
