//! One run of a build script.
//!
//! Owns: the order of the steps, when code is left out, what cargo watches. Never: prints.

use std::path::{Path, PathBuf};

use crate::error::Error;
use crate::manifest::{self, Manifest, Settings};
use crate::outside::{self, Environment};
use crate::program::{self, Answer, Code};

/// Variables of which another value gives another result, or another place of the program or the compiler.
const WATCHED: [&str; 11] = [
    program::VARIABLE,
    "KERNELWRIGHT_STUBS",
    "DOCS_RS",
    "KERNELWRIGHT_CACHE",
    "KERNELWRIGHT_OFFLINE",
    "KERNELWRIGHT_PYTHON",
    "KERNELWRIGHT_NVCC",
    "CUDA_HOME",
    "HF_ENDPOINT",
    "CXX",
    "CARGO_NET_OFFLINE",
];
/// The lock file of published kernels, beside Cargo.toml.
pub const LOCK: &str = "rust-kernels.lock";
/// The file of generated functions, in the folder of results and in that of `stubs`.
const MODULE: &str = "kernels.rs";

/// What a build made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Built {
    /// The operations, each a function of this name.
    pub ops: Vec<String>,
    /// Bytes of machine code and PTX; 0 for stubs.
    pub bytes: u64,
    /// The folder with `kernels.rs`.
    pub folder: PathBuf,
}

/// Reads the settings, runs the program, and collects what cargo is told.
///
/// # Errors
/// See [`crate::try_compile`].
pub(crate) fn run(environment: &Environment, told: &mut Vec<String>) -> Result<Built, Error> {
    let folder = environment.folder("CARGO_MANIFEST_DIR")?;
    let out = environment.folder("OUT_DIR")?.join("kernelwright");
    told.extend(WATCHED.iter().map(|name| format!("cargo::rerun-if-env-changed={name}")));
    let settings = settings(&folder, told)?;
    for kernel in &settings.kernels {
        watch(told, &if kernel.is_file() { kernel.clone() } else { kernel.join("op.toml") });
    }
    let lock = folder.join(LOCK);
    if !settings.dependencies.is_empty() {
        watch(told, &lock);
    }
    let without = cfg!(feature = "stubs")
        || environment.says_yes("KERNELWRIGHT_STUBS")
        || environment.says_yes("DOCS_RS");
    let code = if without { Code::Stubs } else { Code::Compiled };
    let program = match program::find(environment) {
        Ok(program) => program,
        Err(_) if without => return kept(&settings, &out, told),
        Err(error) => return Err(error),
    };
    watch(told, &program);
    let answer = program::run(&program, &settings, (&out, &lock), code, environment)?;
    answer.reads.iter().for_each(|path| watch(told, path));
    told.extend(answer.warnings.iter().map(|text| format!("cargo::warning={}", text.replace('\n', " "))));
    if let (Some(stubs), Code::Compiled) = (&settings.stubs, code) {
        let fresh = out.join("stubs");
        program::run(&program, &settings, (&fresh, &lock), Code::Stubs, environment)?;
        watch(told, &stubs.join(MODULE));
        compare(stubs, &fresh, &settings, told);
    }
    let Answer { ops, bytes, .. } = answer;
    Ok(Built { ops, bytes, folder: out })
}

fn watch(told: &mut Vec<String>, path: &Path) {
    told.push(format!("cargo::rerun-if-changed={}", path.display()));
}

/// The settings of the package in a folder.
pub(crate) fn settings(folder: &Path, told: &mut Vec<String>) -> Result<Settings, Error> {
    let path = folder.join("Cargo.toml");
    watch(told, &path);
    let package = Manifest::parse(path.clone(), outside::read(&path)?)?;
    let mut root = None;
    let found = manifest::settings(&package, || {
        let workspace = workspace(&package)?;
        root = workspace.as_ref().map(|workspace| workspace.folder().join("Cargo.toml"));
        Ok(workspace)
    })?;
    if let Some(root) = root {
        watch(told, &root);
    }
    match found {
        Some(settings) => Ok(settings),
        // A kernel project that is a crate itself.
        None if folder.join("op.toml").is_file() => {
            Ok(Settings { kernels: vec![folder.to_owned()], ..Settings::default() })
        }
        None => Err(Error::NoSettings { path }),
    }
}

/// The manifest of the workspace of a package: the one that it names, its own, or the nearest above.
fn workspace(package: &Manifest) -> Result<Option<Manifest>, Error> {
    let parse = |path: &Path| Manifest::parse(path.to_owned(), outside::read(path)?);
    if let Some(named) = package.named_workspace() {
        return parse(&named).map(Some);
    }
    for folder in package.folder().ancestors() {
        let path: PathBuf = folder.join("Cargo.toml");
        if path.is_file() {
            let manifest = parse(&path)?;
            if manifest.is_workspace() {
                return Ok(Some(manifest));
            }
        }
    }
    Ok(None)
}

/// A build without kernels where the program is missing: the functions in the package.
fn kept(settings: &Settings, out: &Path, told: &mut Vec<String>) -> Result<Built, Error> {
    let stubs = settings.stubs.as_ref().map(|folder| folder.join(MODULE)).filter(|path| path.is_file());
    let Some(stubs) = stubs else {
        return Err(Error::NoStubs { kernels: words(settings) });
    };
    watch(told, &stubs);
    outside::copy_into(&stubs, out)?;
    Ok(Built { ops: vec![], bytes: 0, folder: out.to_owned() })
}

/// Warns of functions in the package that are not those of its kernels.
fn compare(stubs: &Path, fresh: &Path, settings: &Settings, told: &mut Vec<String>) {
    let there = outside::read(&stubs.join(MODULE)).ok();
    if there.is_some() && there == outside::read(&fresh.join(MODULE)).ok() {
        return;
    }
    told.push(format!(
        "cargo::warning={} is out of date; run `kernelwright embed --stubs --out-dir {} {}`",
        stubs.join(MODULE).display(),
        stubs.display(),
        words(settings)
    ));
}

/// The arguments of `embed` for the kernels of a crate.
fn words(settings: &Settings) -> String {
    let kernels = settings.kernels.iter().map(|path| path.display().to_string());
    let dependencies = settings.dependencies.iter().map(|text| format!("--dependency {text}"));
    let lock = (!settings.dependencies.is_empty()).then(|| format!("--lock {LOCK}"));
    kernels.chain(dependencies).chain(lock).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests;
