//! What can go wrong with a toolchain, and what to do about it.
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

/// Why there is no toolchain, or no Python.
#[derive(Debug, Error, Diagnostic)]
pub enum ToolchainError {
    /// No interpreter.
    #[error("there is no Python: neither `python3` nor `python` is on PATH")]
    #[diagnostic(
        code(toolchain::python_missing),
        help("install it (`apt install python3 python3-pip`), or name one in KERNELWRIGHT_PYTHON")
    )]
    NoPython,
    /// KERNELWRIGHT_PYTHON names nothing.
    #[error("KERNELWRIGHT_PYTHON names `{asked}`, which is not a program")]
    #[diagnostic(
        code(toolchain::python_missing),
        help("unset it, or name an interpreter such as `/usr/bin/python3`")
    )]
    NoSuchPython {
        /// What it says.
        asked: String,
    },
    /// The interpreter does not run.
    #[error("`{}` cannot be used", program.display())]
    #[diagnostic(
        code(toolchain::python_broken),
        help("repair it, or name another one in KERNELWRIGHT_PYTHON")
    )]
    BrokenPython {
        /// The interpreter.
        program: PathBuf,
        /// What it printed, or why its answer cannot be read.
        #[source]
        cause: Cause,
    },
    /// Nobody can ask the package index.
    #[error("`{}` has no pip, and there is no uv on PATH", python.display())]
    #[diagnostic(code(toolchain::pip_missing), help("install one of them: `apt install python3-pip`"))]
    NoPip {
        /// The interpreter.
        python: PathBuf,
    },
    /// No C++ compiler.
    #[error("there is no C++ compiler: {asked}")]
    #[diagnostic(
        code(toolchain::compiler_missing),
        help("install one (`apt install g++`), or name one in the environment variable CXX")
    )]
    NoCompiler {
        /// Where it was looked for.
        asked: String,
    },
    /// The compiler does not work.
    #[error("`{}` cannot be used as a C++ compiler: {output}", program.display())]
    #[diagnostic(
        code(toolchain::compiler_broken),
        help("reinstall it (`apt install g++`), or name another one in CXX")
    )]
    BrokenCompiler {
        /// The compiler.
        program: PathBuf,
        /// What it printed.
        output: String,
    },
    /// A CUDA version without pins.
    #[error("no wheels are known for CUDA {version}; known: {known}")]
    #[diagnostic(
        code(toolchain::unknown_cuda),
        help("build for one of the known versions, or use an installed toolkit: `--toolchain system`")
    )]
    UnknownCuda {
        /// What was asked.
        version: String,
        /// What there is.
        known: String,
    },
    /// A PyTorch release without pins.
    #[error("no wheels are known for PyTorch {version}; known: {known}")]
    #[diagnostic(
        code(toolchain::unknown_torch),
        help(
            "name one of the known releases; a torch that the active Python has is used as it is: `build --toolchain system` compiles with it, and `verify` without `--torch` judges with it"
        )
    )]
    UnknownTorch {
        /// What was asked.
        version: String,
        /// What there is.
        known: String,
    },
    /// A header library without pins.
    #[error("no wheel is known that holds {name} {version}; known: {known}")]
    #[diagnostic(
        code(toolchain::unknown_part),
        help("ask for one of the known versions, or name a folder that has this one: `--cutlass-dir DIR`")
    )]
    UnknownPart {
        /// Which library.
        name: String,
        /// What was asked.
        version: String,
        /// What there is.
        known: String,
    },
    /// A folder was named for a library, and it does not hold what is wanted.
    #[error("`{}` is not {wanted}: {problem}", folder.display())]
    #[diagnostic(
        code(toolchain::wrong_library),
        help("name the folder above `include`, of the release that `depends` asks for")
    )]
    WrongLibrary {
        /// The folder.
        folder: PathBuf,
        /// What it should be.
        wanted: String,
        /// What it is instead.
        problem: String,
    },
    /// A library that no wheel holds.
    #[error("no wheel holds {name}, on which a kernel depends")]
    #[diagnostic(
        code(toolchain::library_missing),
        help("get it from {from} and name its folder: `--dependency-dir {name}=DIR`")
    )]
    NoLibrary {
        /// As build.toml writes it.
        name: String,
        /// Where it is published.
        from: String,
    },
    /// A Python that PyTorch has no wheels for.
    #[error(
        "PyTorch {torch} has no wheels for Python {version} (`{}`); it has them for {oldest} to {newest}",
        python.display()
    )]
    #[diagnostic(
        code(toolchain::python_unserved),
        help("name another Python in KERNELWRIGHT_PYTHON, e.g. `KERNELWRIGHT_PYTHON=python{newest}`")
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
    #[error("pip cannot find {wanted}")]
    #[diagnostic(
        code(toolchain::index),
        help(
            "check the network and pip's settings (`pip config list`); PyTorch has no wheels for Pythons that are very old or very new: name another one in KERNELWRIGHT_PYTHON"
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
    #[error("pip cannot install {wanted}: {output}")]
    #[diagnostic(
        code(toolchain::install),
        help("check the network, the free space of the cache and `pip config list`")
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
    #[error("cannot fetch {wheel}")]
    #[diagnostic(
        code(toolchain::download),
        help("check the network and run the same command again: it continues where it stopped")
    )]
    Download {
        /// The wheel.
        wheel: String,
        /// Why.
        #[source]
        cause: HttpError,
    },
    /// What came is not what the index or the wheel promised.
    #[error("{wheel} is damaged: {problem}")]
    #[diagnostic(
        code(toolchain::damaged),
        help(
            "run the same command again; when it happens twice, a mirror or proxy between here and the index serves wrong bytes"
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
    /// The wheel is no zip file that we understand.
    #[error("{wheel} cannot be read")]
    #[diagnostic(
        code(toolchain::damaged),
        help("run the same command again; else report it with the name of the wheel")
    )]
    NotAZip {
        /// The wheel.
        wheel: String,
        /// Why.
        #[source]
        cause: ZipError,
    },
    /// Downloads are refused.
    #[error("this has to be fetched, but downloads are off: {}", missing::listed(missing))]
    #[diagnostic(
        code(toolchain::offline),
        help(
            "fetch it while there is a network: `kernelwright toolchain fetch` in the project, without `--offline` and with KERNELWRIGHT_OFFLINE unset"
        )
    )]
    Offline {
        /// All of it.
        missing: Vec<Missing>,
    },
    /// The index, or the cache, has something else than the lock.
    #[error("`{}` is about another {wheel}: locked is {locked}; {came}", path.display())]
    #[diagnostic(
        code(toolchain::locked),
        help(
            "where the change is meant, remove that entry from the file and run again; else the index serves other bytes than when it was locked, and should be asked why"
        )
    )]
    Locked {
        /// The lock.
        path: PathBuf,
        /// Name and version.
        wheel: String,
        /// What the lock says.
        locked: String,
        /// What there is.
        came: String,
    },
    /// `--locked`, and the lock lacks something.
    #[error("`{}` does not have {missing}, and `--locked` adds nothing", path.display())]
    #[diagnostic(
        code(toolchain::not_locked),
        help(
            "run `kernelwright toolchain fetch` without `--locked` in the project, and keep the file with its sources"
        )
    )]
    NotLocked {
        /// The lock.
        path: PathBuf,
        /// Names and versions.
        missing: String,
    },
    /// `--locked`, and the C++ compiler is another one.
    #[error("`{}` has the C++ compiler {locked}, and `{}` is {here}", path.display(), program.display())]
    #[diagnostic(
        code(toolchain::other_compiler),
        help(
            "build where that compiler is, or name it by CXX; where the change is meant, run `kernelwright lock --compiler`; without `--locked` any compiler will do"
        )
    )]
    OtherCompiler {
        /// The lock.
        path: PathBuf,
        /// The compiler that was found.
        program: PathBuf,
        /// What the lock says.
        locked: String,
        /// What it is.
        here: String,
    },
    /// A folder of KERNELWRIGHT_WHEELS holds something else than its name says.
    #[error("`{}` is not what is taken of {wheel}: {problem}", folder.display())]
    #[diagnostic(
        code(toolchain::supplied),
        help(
            "make it again with `kernelwright toolchain export`, by the version of this program that wrote kernelwright.lock, or leave it out of KERNELWRIGHT_WHEELS"
        )
    )]
    Supplied {
        /// The folder.
        folder: PathBuf,
        /// Name and version.
        wheel: String,
        /// What is wrong with it.
        problem: String,
    },
    /// The lock has no such wheel, or this version takes something else of it.
    #[error("`{}` has no `{key}` that this version of kernelwright knows", path.display())]
    #[diagnostic(
        code(toolchain::not_in_lock),
        help(
            "`kernelwright lock` writes the variants of the project and their wheels; what another version locked is locked again by it"
        )
    )]
    NotInLock {
        /// The lock.
        path: PathBuf,
        /// The wheel and the choice.
        key: String,
    },
    /// A program of a wheel could not be given another loader.
    #[error("`{}` cannot be given the loader that KERNELWRIGHT_LOADER names", program.display())]
    #[diagnostic(
        code(toolchain::loader),
        help("install `patchelf`, or unset KERNELWRIGHT_LOADER where /lib64/ld-linux-x86-64.so.2 is there")
    )]
    Loader {
        /// The program.
        program: PathBuf,
        /// What patchelf printed, or why it was not started.
        #[source]
        cause: Cause,
    },
    /// The lock is none.
    #[error("cannot read `{}`", path.display())]
    #[diagnostic(
        code(toolchain::bad_lock),
        help("bring it back from version control, or remove it: it is written again")
    )]
    BadLock {
        /// The lock.
        path: PathBuf,
        /// What is wrong with it.
        #[source]
        cause: Cause,
    },
    /// Nothing is removed from a cache in use.
    #[error("another run of kernelwright is using the cache `{}`", cache.display())]
    #[diagnostic(code(toolchain::in_use), help("nothing was removed; try again when that run is over"))]
    InUse {
        /// The cache.
        cache: PathBuf,
    },
    /// No installed CUDA.
    #[error("there is no installed CUDA toolkit: neither CUDA_HOME nor PATH has `nvcc`")]
    #[diagnostic(
        code(toolchain::system_cuda_missing),
        help("set CUDA_HOME (often /usr/local/cuda), or leave out `--toolchain system`: it is fetched then")
    )]
    NoSystemCuda,
    /// Another CUDA is installed.
    #[error("the installed CUDA toolkit is version {found}, but {wanted} is wanted (`{}`)", nvcc.display())]
    #[diagnostic(
        code(toolchain::system_cuda_version),
        help("set CUDA_HOME to CUDA {wanted}, or leave out `--toolchain system`: it is fetched then")
    )]
    WrongSystemCuda {
        /// The compiler that was found.
        nvcc: PathBuf,
        /// Its version.
        found: String,
        /// What was asked.
        wanted: String,
    },
    /// The toolkit lacks a file.
    #[error("the CUDA toolkit `{}` has no {lacks}", root.display())]
    #[diagnostic(
        code(toolchain::system_cuda_incomplete),
        help("install the whole toolkit, or leave out `--toolchain system`")
    )]
    IncompleteCuda {
        /// The folder.
        root: PathBuf,
        /// What is not there.
        lacks: String,
    },
    /// No compiler for a device, or one of another version.
    #[error("{problem}")]
    #[diagnostic(code(toolchain::device_missing), help("{help}"))]
    NoDevice {
        /// What was looked for, and where.
        problem: String,
        /// What to do.
        help: &'static str,
    },
    /// The device's toolkit does not work, or lacks a file.
    #[error("`{}` cannot be used: {problem}", program.display())]
    #[diagnostic(code(toolchain::device_broken), help("install the whole of {name} again"))]
    BrokenDevice {
        /// What people call it.
        name: &'static str,
        /// The compiler or folder.
        program: PathBuf,
        /// What it printed, or what it lacks.
        problem: String,
    },
    /// No torch in the active Python.
    #[error("`{}` has no torch {wanted}: {found}", python.display())]
    #[diagnostic(
        code(toolchain::system_torch),
        help(
            "install it there (`pip install torch=={wanted}.*`), name another Python in KERNELWRIGHT_PYTHON, or leave out `--toolchain system`"
        )
    )]
    NoSystemTorch {
        /// The interpreter.
        python: PathBuf,
        /// The release line.
        wanted: String,
        /// What is there instead.
        found: String,
    },
    /// The environment that was made does not work.
    #[error("the managed Python packages do not work")]
    #[diagnostic(
        code(toolchain::runtime_broken),
        help(
            "remove the folder `python` of the cache and try again; else name a Python with torch in KERNELWRIGHT_PYTHON"
        )
    )]
    BrokenRuntime {
        /// What the trial import printed, or why a library cannot be read.
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
    /// The same, saying what was to be stored where there is no room for it.
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

/// Ctrl-C while waiting for a lock is no trouble with a file.
pub(super) fn interrupted_or(error: FileError) -> ToolchainError {
    if interrupt::requested() { ProcessError::Interrupted.into() } else { error.into() }
}
