//! `cargo xtask kernel ...`: the program of this checkout.
//!
//! Owns: when a person is told that it is being compiled. Never: stands between the program and its terminal; this
//! process *becomes* cargo, which becomes `kernelwright`, so signals and exit codes need no forwarding.

use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::ExitCode;
use std::time::SystemTime;

use crate::repo;

/// What the program is made from; newer than the binary means that cargo is going to compile.
const INPUTS: &[&str] = &[
    "Cargo.toml",
    "Cargo.lock",
    "variants.toml",
    "kernel-builder",
    "templates",
    "tests/cheats",
    "rust-toolchain.toml",
];

/// Runs `kernelwright` with the same arguments; does not return when that works.
///
/// Uses the dev profile: it compiles in a third of the time of the release profile, and the tests have compiled it. Names
/// the binary and no package, because cargo would resolve other features for one package than for the workspace
/// (xtask/dev-dependencies). The slow parts are compilers and Python, which run in processes of their own.
pub(crate) fn kernel(arguments: &[&str]) -> ExitCode {
    let root = repo::root();
    let manifest = root.join("Cargo.toml");
    if stale(&root) {
        eprintln!("compiling kernelwright; with an empty target folder this takes one to three minutes ...");
        let built =
            repo::cargo().args(["build", "--bin", "kernelwright", "--manifest-path"]).arg(&manifest).status();
        match built {
            Ok(status) if status.success() => {}
            Ok(status) => {
                return ExitCode::from(status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(1));
            }
            Err(error) => return failed(&error),
        }
    }
    if arguments.first() == Some(&"serve") {
        // A program of its own, which `serve` looks for beside the other.
        let built = repo::cargo()
            .args(["build", "--quiet", "--bin", "kernelwright-hub", "--manifest-path"])
            .arg(&manifest)
            .status();
        match built {
            Ok(status) if status.success() => {}
            Ok(_) => return ExitCode::FAILURE,
            Err(error) => return failed(&error),
        }
    }
    let error = repo::cargo()
        .args(["run", "--quiet", "--bin", "kernelwright", "--manifest-path"])
        .arg(&manifest)
        .arg("--")
        .args(arguments)
        .exec();
    failed(&error)
}

fn failed(error: &std::io::Error) -> ExitCode {
    eprintln!("error: failed to run cargo: {error}");
    ExitCode::FAILURE
}

/// Whether cargo is going to compile, as far as times tell. A wrong guess costs silence or one line, nothing else:
/// cargo decides by itself.
fn stale(root: &Path) -> bool {
    let Some(built) = repo::beside_this_one("kernelwright").ok().and_then(|path| changed(&path)) else {
        return true;
    };
    INPUTS.iter().any(|input| newer(&root.join(input), built))
}

fn newer(path: &Path, than: SystemTime) -> bool {
    match std::fs::read_dir(path) {
        Ok(entries) => entries.flatten().any(|entry| newer(&entry.path(), than)),
        Err(_) => changed(path).is_some_and(|time| time > than),
    }
}

fn changed(path: &Path) -> Option<SystemTime> {
    std::fs::metadata(path).and_then(|meta| meta.modified()).ok()
}
