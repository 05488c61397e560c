//! `cargo xtask crosscheck`: device code as this program compiles it for CUDA 12, beside what NVIDIA's own compiler of
//! that release makes of it (docs/decisions/0010).
//!
//! Owns: what is built and fetched for it, and where. Never: compares; tests/crosscheck/compare.py does.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use crate::{copy, repo};

/// Releases that wheels build for with the compiler of CUDA 13.
pub(crate) const RELEASES: &[&str] = &["12.6", "12.8"];
/// NVIDIA's readers of machine code; they read that of older releases too.
const TOOLS: &[(&str, &str)] = &[("nvidia-cuda-cuobjdump", "13.5.37"), ("nvidia-cuda-nvdisasm", "13.5.37")];
/// Where the versions of wheels are; NVRTC has that of the release's compiler.
const PINS: &str = "kernel-builder/src/toolchain/pins/cuda.toml";

/// The task, for `wanted` releases or for all.
pub(crate) fn run(wanted: &[&str]) -> ExitCode {
    match check(if wanted.is_empty() { RELEASES } else { wanted }) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(message) => {
            eprintln!("error: {message}");
            ExitCode::FAILURE
        }
    }
}

/// Compares device code of some releases; whether all of it is as expected.
///
/// # Errors
/// Something cannot be fetched or built.
pub(crate) fn check(releases: &[&str]) -> Result<bool, String> {
    let root = repo::root();
    let program = repo::program(&root)?;
    let work = root.join("target/crosscheck");
    let pins = fs::read_to_string(root.join(PINS)).map_err(|error| format!("{PINS}: {error}"))?;
    let versions = releases.iter().map(|release| version(&pins, release)).collect::<Result<Vec<_>, _>>()?;
    let project = project(&root, &work)?;
    build(&program, &project, releases)?;
    let tools = installed(&work, "tools", TOOLS)?;
    let mut right = true;
    for (release, version) in releases.iter().zip(versions) {
        let nvrtc = installed(&work, &format!("nvrtc-{version}"), &[("nvidia-cuda-nvrtc-cu12", &version)])?;
        let plan = plan(&program, &project, release, &work)?;
        let made = work.join("made").join(release);
        fresh(&made)?;
        let paths = [
            ("--nvrtc", nvrtc.as_path()),
            ("--tools", &tools),
            ("--library", &library(&project, release)?),
            ("--project", &project),
            ("--plan", &plan),
            ("--work", &made),
        ];
        let mut command = python();
        command.arg("-B").arg(root.join("tests/crosscheck/compare.py")).args(["--release", release]);
        command.args(paths.iter().flat_map(|(flag, path)| [flag.as_ref(), path.as_os_str()]));
        right &= finish(&mut command)?;
    }
    Ok(right)
}

/// A copy of the project, with the kernels of the example.
fn project(root: &Path, work: &Path) -> Result<PathBuf, String> {
    let folder = work.join("project");
    fresh(&folder)?;
    copy::sources(&root.join("tests/crosscheck"), &folder)
        .and_then(|()| {
            copy::sources(
                &root.join("examples/rms-norm-strided/rms_norm_strided_cuda"),
                &folder.join("rms_norm_cuda"),
            )
        })
        .map_err(|error| format!("{}: {error}", folder.display()))?;
    Ok(folder)
}

fn build(program: &Path, project: &Path, releases: &[&str]) -> Result<(), String> {
    let mut command = Command::new(program);
    command.arg("build").args(releases.iter().flat_map(|release| ["--variant".to_owned(), variant(release)]));
    if finish(command.arg(project))? { Ok(()) } else { Err("failed to build the project".to_owned()) }
}

/// The command lines of a variant, in a file.
fn plan(program: &Path, project: &Path, release: &str, work: &Path) -> Result<PathBuf, String> {
    let printed = Command::new(program)
        .args(["build", "--plan", "--variant", &variant(release)])
        .arg(project)
        .stderr(Stdio::null())
        .output()
        .map_err(|error| format!("{}: {error}", program.display()))?;
    if !printed.status.success() {
        return Err(format!("the plan for CUDA {release} fails: {}", printed.status));
    }
    let file = work.join(format!("plan-{release}.txt"));
    fs::write(&file, printed.stdout).map_err(|error| format!("{}: {error}", file.display()))?;
    Ok(file)
}

fn variant(release: &str) -> String {
    format!("torch-stable-abi210-cu{}-x86_64-linux", release.replace('.', ""))
}

/// The library of a release's artifact.
fn library(project: &Path, release: &str) -> Result<PathBuf, String> {
    let folder = project.join(".kernelwright/artifacts").join(variant(release));
    let entries = fs::read_dir(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let mut paths = entries.flatten().map(|entry| entry.path());
    paths
        .find(|path| path.extension().is_some_and(|ending| ending == "so"))
        .ok_or_else(|| format!("{}: no library", folder.display()))
}

/// The version of the compiler's wheel of a release.
fn version(pins: &str, release: &str) -> Result<String, String> {
    let of_release =
        pins.split("[[cuda]]").find(|part| part.contains(&format!("\nversion = \"{release}\"\n")));
    of_release
        .and_then(|part| part.split_once(r#"name = "nvidia-cuda-nvcc-cu12", version = ""#))
        .and_then(|(_, rest)| rest.split_once('"'))
        .map(|(version, _)| version.to_owned())
        .ok_or_else(|| {
            format!("{PINS} has no wheel of a CUDA {release} compiler; there are {}", RELEASES.join(", "))
        })
}

/// A folder with packages, installed unless it is there.
fn installed(work: &Path, name: &str, packages: &[(&str, &str)]) -> Result<PathBuf, String> {
    let folder = work.join(name);
    if folder.is_dir() {
        return Ok(folder);
    }
    let part = work.join(format!("{name}.part"));
    fresh(&part)?;
    let mut command = python();
    command.args([
        "-m",
        "pip",
        "install",
        "--quiet",
        "--disable-pip-version-check",
        "--no-deps",
        "--no-compile",
    ]);
    command.arg("--target").arg(&part).env("PIP_ROOT_USER_ACTION", "ignore");
    command.args(packages.iter().map(|(package, version)| format!("{package}=={version}")));
    if !finish(&mut command)? {
        return Err(format!("pip failed to install {}; see its output above", packages[0].0));
    }
    fs::rename(&part, &folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    Ok(folder)
}

fn fresh(folder: &Path) -> Result<(), String> {
    if folder.exists() {
        fs::remove_dir_all(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    }
    fs::create_dir_all(folder).map_err(|error| format!("{}: {error}", folder.display()))
}

fn python() -> Command {
    Command::new(std::env::var_os("KERNELWRIGHT_PYTHON").unwrap_or_else(|| "python3".into()))
}

/// Runs a command to its end; whether it succeeded.
fn finish(command: &mut Command) -> Result<bool, String> {
    let status = command.stdin(Stdio::null()).status();
    status.map(|status| status.success()).map_err(|error| format!("{command:?}: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_release_has_a_compiler_of_its_own_in_the_pins() {
        let pins = fs::read_to_string(repo::root().join(PINS)).unwrap();
        for release in RELEASES {
            let version = version(&pins, release).unwrap();
            assert!(version.starts_with(&format!("{release}.")), "{version}");
        }
        assert!(version(&pins, "13.0").is_err());
    }
}
