//! A compiler driver, and all that it starts, kept to the folders that it needs.
//!
//! Owns: the role of this program that confines itself and becomes the driver. Never: reads a source.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use kernel_plan::plan::CommandLine;

use crate::base::become_program::become_program;
use crate::base::{confine, disk, env};
use crate::exit;
use crate::toolchain::nvcc::NvccKit;
use crate::toolchain::prefix;

/// The role of the worker on the command line of this program.
pub const ROLE: &str = "confined";

/// Folders of shared libraries, as for every program.
const LIBRARIES: &str = "LD_LIBRARY_PATH";

/// Stands between the folders and the command.
const END: &str = "--";

/// System folders of compilers, headers and libraries. None of them holds users' files.
const SYSTEM: [&str; 15] = [
    "/bin",
    "/dev/null",
    "/dev/urandom",
    "/etc/alternatives",
    "/etc/ld.so.cache",
    "/etc/ld.so.conf",
    "/etc/ld.so.conf.d",
    "/lib",
    "/lib32",
    "/lib64",
    "/nix/store",
    "/opt",
    "/run/current-system",
    "/sbin",
    "/usr",
];

/// Paths that the driver may read: `own`, its scratch folder, the toolkit, the C++ compiler and the system folders.
pub(super) fn readable(kit: &NvccKit, own: Vec<PathBuf>, scratch: &Path) -> Vec<PathBuf> {
    let mut all = own;
    all.push(scratch.to_owned());
    all.extend(SYSTEM.map(PathBuf::from));
    // Compilers that an administrator installed may need libraries from here.
    let libraries = env::text(LIBRARIES).unwrap_or_default();
    all.extend(libraries.split(':').map(PathBuf::from).filter(|folder| folder.is_absolute()));
    // The C++ compiler may be a script, and nvcc has its settings beside itself.
    all.push(kit.cxx.clone());
    all.extend(disk::real(&kit.nvcc).parent().map(Path::to_owned));
    all.extend(prefix::folders_of(&kit.nvcc).into_iter().chain(prefix::folders_of(&kit.cxx)));
    all
}

/// The command that runs `line` confined.
pub(super) fn line(line: &CommandLine, readable: &[PathBuf]) -> CommandLine {
    let mut confined =
        CommandLine { program: env::own_program(), args: vec![], ..line.clone() }.args(["--worker", ROLE]);
    confined.args.extend(readable.iter().map(|path| path.display().to_string()));
    confined.args.push(END.to_owned());
    confined.args.push(line.program.display().to_string());
    confined.args.extend(line.args.iter().cloned());
    confined
}

/// Confines this process and becomes the program. Returns where that fails.
pub fn run() -> u8 {
    let words = env::worker_words();
    let Some(end) = words.iter().position(|word| word == END) else { return exit::USAGE };
    let (readable, command) = (&words[..end], &words[end + 1..]);
    let readable: Vec<PathBuf> = readable.iter().map(PathBuf::from).collect();
    let Some((program, arguments)) = command.split_first() else { return exit::USAGE };
    if confine::reading(&readable).is_err() {
        return exit::INTERNAL;
    }
    let arguments: Vec<OsString> = arguments.to_vec();
    // It returns only where there is no such program, which whoever waits sees by this code.
    let _cannot = become_program(Path::new(program), &arguments);
    exit::INTERNAL
}
