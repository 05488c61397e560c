//! The files of this machine that portable linking starts from, as its compiler names them.
//!
//! Owns: which files those are. Never: reads them.

use std::path::{Path, PathBuf};
use std::time::Duration;

use kernel_plan::kit::Compiler;
use kernel_plan::plan::CommandLine;

use super::error::PortableError;
use crate::base::files;
use crate::base::process::{self, Limits};

/// Libraries that get a stand-in. The loader is one more.
pub(super) const CUT: &[&str] = &["libstdc++.so.6", "libm.so.6", "libgcc_s.so.1", "libc.so.6"];

/// Libraries with a static one behind them in the link, which has what is retired in the shared one: `__cpu_model`, for
/// one, must be the static libgcc's own, which knows newer processors. In glibc a retired name has no other place.
pub(super) const HALF_STATIC: &[&str] = &["libstdc++.so.6", "libgcc_s.so.1"];

/// Libraries that get an empty stand-in where this machine has none: libmvec came with glibc 2.22 (2.38 on Arm), and
/// the others became part of libc.so.6 in glibc 2.34.
pub(super) const CUT_IF_THERE: &[&str] = &["libmvec.so.1", "libpthread.so.0", "libdl.so.2", "librt.so.1"];

/// Files that are linked as they are.
pub(super) const WHOLE: &[&str] =
    &["crti.o", "crtn.o", "crtbeginS.o", "crtendS.o", "libstdc++.a", "libgcc.a", "libc_nonshared.a"];

/// Where the compiler finds a library or start file; absent where it has none.
pub(super) fn find(cxx: &Compiler, name: &str) -> Result<Option<PathBuf>, PortableError> {
    let line = CommandLine::new(&cxx.program).arg(format!("-print-file-name={name}"));
    let done = process::run(&line, Limits::wall(Duration::from_secs(30)))?;
    let text = done.stdout_text();
    let path = Path::new(text.trim());
    // A name that it does not know is printed back as it is.
    Ok((path.is_absolute() && files::exists(path)).then(|| path.to_owned()))
}

/// As [`find`], for what must be there.
pub(super) fn must_find(cxx: &Compiler, name: &'static str) -> Result<PathBuf, PortableError> {
    find(cxx, name)?.ok_or_else(|| PortableError::Missing { name, compiler: cxx.program.clone() })
}

/// The archiver that belongs to the compiler.
pub(super) fn archiver(cxx: &Compiler) -> Result<PathBuf, PortableError> {
    let line = CommandLine::new(&cxx.program).arg("-print-prog-name=ar");
    let done = process::run(&line, Limits::wall(Duration::from_secs(30)))?;
    let text = done.stdout_text();
    Ok(PathBuf::from(if text.trim().is_empty() { "ar" } else { text.trim() }))
}
