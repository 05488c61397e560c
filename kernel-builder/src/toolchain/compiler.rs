//! The C++ compiler of the machine, and the small libraries that are made with it.
//!
//! Owns: finding the compiler; the empty libraries with the frameworks' names. Never: compiles a kernel.

use std::path::{Path, PathBuf};
use std::time::Duration;

use kernel_plan::kit::Compiler;
use kernel_plan::plan::CommandLine;
use serde::{Deserialize, Serialize};

use super::error::ToolchainError;
use super::state::{self, Stamp};
use crate::base::digest::{Digest, DigestBuilder};
use crate::base::process::{self, Limits};
use crate::base::session::Session;
use crate::base::{env, files};

/// Libraries of PyTorch and of tvm-ffi that an extension depends on.
const SONAMES: &[&str] = &[
    "libc10.so",
    "libtorch.so",
    "libtorch_cpu.so",
    "libtorch_cuda.so",
    "libc10_cuda.so",
    "libtorch_hip.so",
    "libc10_hip.so",
    "libtorch_xpu.so",
    "libc10_xpu.so",
    "libtvm_ffi.so",
];

/// Where the compiler is: CXX, else the first of the usual names. Starts nothing.
pub(super) fn find() -> Result<PathBuf, ToolchainError> {
    if let Some(asked) = env::text(env::CXX) {
        return process::find(&asked).ok_or_else(|| ToolchainError::NoCompiler {
            asked: format!("CXX is `{asked}`, which is not a program"),
        });
    }
    ["g++", "c++", "clang++"].into_iter().find_map(process::find).ok_or_else(|| ToolchainError::NoCompiler {
        asked: "none of `g++`, `c++` and `clang++` is on PATH".to_owned(),
    })
}

/// What a compiler turned out to be, and the stamps of the programs that say so.
#[derive(Serialize, Deserialize)]
struct Described {
    compiler: Compiler,
    stamps: Vec<Stamp>,
}

/// Programs that a driver starts, on which the result depends. Each may be updated on its own.
const PARTS: &[&str] = &["cc1plus", "as", "ld"];

/// What the compiler is. Its identity follows from the content of its programs: another machine with the same compiler,
/// or the same compiler in another place, has the same one. The stamps are of these programs.
pub(super) fn describe(session: &Session, program: &Path) -> Result<(Compiler, Vec<Stamp>), ToolchainError> {
    let place = Digest::blake3(program.as_os_str().as_encoded_bytes()).short(16);
    let file = session.cache.join("state").join(format!("compiler-{place}.json"));
    if let Some(known) = state::load::<Described>(&file)
        && !known.stamps.is_empty()
        && known.stamps.iter().all(|stamp| state::stamp_of(&stamp.0).as_ref() == Some(stamp))
    {
        return Ok((known.compiler, known.stamps));
    }
    let version = output_of(program, &["--version"])?.lines().next().unwrap_or_default().trim().to_owned();
    let mut programs = vec![program.to_owned()];
    for part in PARTS {
        // A compiler that is one program (clang) names what it does not have, or itself.
        let named = output_of(program, &[&format!("-print-prog-name={part}")]).unwrap_or_default();
        programs.extend(process::find(named.trim()));
    }
    // The driver's own name is the first word of GCC's version: `g++` and `c++` are the same program.
    let release = version.split_once(' ').map_or(version.as_str(), |(_, release)| release);
    let mut builder = DigestBuilder::new("cxx-2").field("version", release);
    for path in &programs {
        builder = builder.field("program", Digest::blake3(&files::read(path)?).to_string());
    }
    let compiler = Compiler { program: program.to_owned(), version, id: builder.finish().to_string() };
    let stamps: Vec<Stamp> = programs.iter().filter_map(|path| state::stamp_of(path)).collect();
    let described = Described { compiler, stamps };
    state::save(&file, &described)?;
    Ok((described.compiler, described.stamps))
}

fn output_of(program: &Path, args: &[&str]) -> Result<String, ToolchainError> {
    let line = CommandLine::new(program).args(args.iter().copied());
    let done = process::run(&line, Limits::wall(Duration::from_secs(30)))?;
    if done.ending.success() {
        return Ok(done.stdout_text());
    }
    Err(ToolchainError::BrokenCompiler { program: program.to_owned(), output: state::last_words(&done) })
}

/// The folder of empty libraries to link an extension with. An extension must name its framework's libraries as needed,
/// or it cannot be loaded; empty ones of the same name serve to link, and are made in a fraction of a second.
pub(super) fn stubs(session: &Session, compiler: &Compiler) -> Result<PathBuf, ToolchainError> {
    let id = SONAMES
        .iter()
        .fold(DigestBuilder::new("stubs").field("cxx", &compiler.id), |id, name| id.field("name", name));
    let folder = session.cache.join("stubs").join(id.finish().short(16));
    if files::is_dir(&folder) {
        return Ok(folder);
    }
    let staging = files::staging_beside(&folder)?;
    for name in SONAMES {
        library(&compiler.program, name, "", &staging.path().join(name))?;
    }
    files::replace_dir(staging, &folder)?;
    Ok(folder)
}

/// A shared library from C source; an empty one takes nothing from the C library either.
pub(super) fn library(program: &Path, soname: &str, source: &str, to: &Path) -> Result<(), ToolchainError> {
    let scratch = files::scratch()?;
    let file = scratch.path().join("library.c");
    files::write(&file, source)?;
    let mut line = CommandLine::new(program).args(["-shared", "-fPIC", "-O1", "-w"]);
    if source.is_empty() {
        line = line.arg("-nostdlib");
    }
    let line = line.arg(format!("-Wl,-soname,{soname}")).arg("-o").path(to).args(["-x", "c"]).path(&file);
    let done = process::run(&line, Limits::wall(Duration::from_secs(120)))?;
    if done.ending.success() {
        return Ok(());
    }
    Err(ToolchainError::BrokenCompiler { program: program.to_owned(), output: state::last_words(&done) })
}

/// The folder with our `registration.h`, named after its content.
pub(super) fn extension_include(session: &Session) -> Result<PathBuf, ToolchainError> {
    let text = include_str!("../../resources/registration.h");
    let folder = session.cache.join("include").join(Digest::blake3(text.as_bytes()).short(16));
    files::write_if_changed(&folder.join("registration.h"), text)?;
    Ok(folder)
}
