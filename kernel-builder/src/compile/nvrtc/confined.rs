//! A compiler driver, and all that it starts, kept to the folders and the memory that it needs.
//!
//! Owns: the role of this program that confines itself and becomes the driver. Never: reads a source.

use std::path::{Path, PathBuf};

use kernel_plan::plan::CommandLine;
use serde::{Deserialize, Serialize};

use crate::base::become_program::become_program;
use crate::base::causes::chain;
use crate::base::channel::Answers;
use crate::base::process::{Ending, Finished};
use crate::base::{confine, disk, env};
use crate::exit;
use crate::toolchain::nvcc::NvccKit;
use crate::toolchain::prefix;

use super::unit::MEMORY;

/// The role of the worker on the command line of this program.
pub const ROLE: &str = "confined";

/// Folders of shared libraries, as for every program.
const LIBRARIES: &str = "LD_LIBRARY_PATH";

/// Stands between the folders and the command.
const END: &str = "--";

/// System folders of compilers, headers and libraries. None of them holds users' files. `/opt` is not among them, since
/// applications keep settings with passwords there; a toolkit in it is found by its compiler.
const SYSTEM: [&str; 14] = [
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

/// The command that runs `line` with a limit on its memory, and kept to `readable` unless that is empty.
pub(super) fn line(line: &CommandLine, readable: &[PathBuf]) -> CommandLine {
    let mut confined =
        CommandLine { program: env::own_program(), args: vec![], ..line.clone() }.args(["--worker", ROLE]);
    confined.args.extend(readable.iter().map(|path| path.display().to_string()));
    confined.args.push(END.to_owned());
    confined.args.push(line.program.display().to_string());
    confined.args.extend(line.args.iter().cloned());
    confined
}

/// The exit code if the driver could not be started. The reason is then on standard output.
const NOT_STARTED: i32 = 120;

/// The reason why the driver could not be started.
#[derive(Debug, Serialize, Deserialize)]
struct NotStarted {
    not_started: String,
}

/// The reason why a driver could not be started, by what the process left; `None` if it was started.
pub(super) fn not_started(done: &Finished) -> Option<String> {
    if done.ending != Ending::Exit(NOT_STARTED) {
        return None;
    }
    serde_json::from_str(done.stdout_text().trim()).ok().map(|NotStarted { not_started }| not_started)
}

/// Confines this process and becomes the program. Returns if that fails.
pub fn run() -> u8 {
    let words = env::worker_words();
    let Some(end) = words.iter().position(|word| word == END) else { return exit::USAGE };
    let (readable, command) = (&words[..end], &words[end + 1..]);
    let readable: Vec<PathBuf> = readable.iter().map(PathBuf::from).collect();
    let Some((program, arguments)) = command.split_first() else { return exit::USAGE };
    let confined = if readable.is_empty() { Ok(()) } else { confine::reading(&readable) };
    let not_started = match confined.and_then(|()| confine::memory(MEMORY)) {
        Ok(()) => become_program(Path::new(program), arguments).to_string(),
        Err(error) => format!("failed to confine it: {}", chain(&error)),
    };
    Answers::take_over().say(&NotStarted { not_started });
    NOT_STARTED as u8
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn toolkits_in_opt_are_readable_and_other_files_there_are_not() {
        let (nvcc, cxx) = ("/opt/cuda/bin/nvcc", "/opt/rh/gcc-12/usr/bin/g++");
        let kit = NvccKit { nvcc: nvcc.into(), cxx: cxx.into(), include: vec![], id: String::new() };
        let all = readable(&kit, vec![], Path::new("/tmp/x"));
        let may_read = |path: &str| all.iter().any(|folder| Path::new(path).starts_with(folder));
        for path in [
            nvcc,
            cxx,
            "/opt/cuda/bin/nvcc.profile",
            "/opt/cuda/nvvm/bin/cicc",
            "/opt/cuda/targets/x86_64-linux/include/cuda.h",
            "/opt/rh/gcc-12/usr/libexec/gcc/x86_64-redhat-linux/12/cc1plus",
            "/opt/rh/gcc-12/usr/lib/gcc/x86_64-redhat-linux/12/include/stddef.h",
        ] {
            assert!(may_read(path), "{path}");
        }
        for path in ["/opt/app/.env", "/opt/rh/.env", "/opt/cuda/.env", "/home/me/.netrc", "/etc/passwd"] {
            assert!(!may_read(path), "{path}");
        }
    }

    #[test]
    fn only_this_programs_own_message_says_that_the_driver_was_not_started() {
        let done = |code, stdout: &str| Finished {
            ending: Ending::Exit(code),
            stdout: stdout.into(),
            stderr: vec![],
            wall: std::time::Duration::ZERO,
            peak_resident: 0,
        };
        let message = "{\"not_started\":\"No such file\"}\n";
        assert_eq!(not_started(&done(NOT_STARTED, message)).as_deref(), Some("No such file"));
        assert_eq!(not_started(&done(1, message)), None);
        assert_eq!(not_started(&done(NOT_STARTED, "error: x\n")), None);
    }
}
