//! Pythons for tests of what runs beside an oracle: the one with torch, and scripts in place of one.
//!
//! Owns: finding and making them. Never: runs a role of the harness.

use std::path::Path;
use std::time::Duration;

use kernel_plan::plan::CommandLine;

use crate::base::process::{self, Limits};
use crate::base::{env, files};
use crate::toolchain::PythonRuntime;

/// An interpreter by its name or path, with the packages of the folder that `KERNELWRIGHT_SITE` names, if it does.
pub(super) fn python(program: &str) -> PythonRuntime {
    let site = env::text("KERNELWRIGHT_SITE").map(Into::into);
    PythonRuntime { program: program.into(), site, beside: vec![], torch: String::new() }
}

/// An interpreter that does what a script of the shell says.
pub(super) fn scripted(folder: &Path, script: &str) -> PythonRuntime {
    let path = folder.join("python");
    files::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
    let line = CommandLine::new("chmod").arg("+x").path(&path);
    assert!(process::run(&line, Limits::wall(Duration::from_secs(20))).unwrap().ending.success());
    python(&path.display().to_string())
}

/// A script that writes its number to a file, in one step, and then never ends.
pub(super) fn endless(began: &Path) -> String {
    let began = began.display();
    format!("echo $$ > '{began}.new'; mv '{began}.new' '{began}'; exec sleep 600")
}

/// Whether the process that wrote its number to a file is gone.
pub(super) fn is_gone(began: &Path) -> bool {
    let id = files::read_text(began).unwrap();
    !files::exists(Path::new(&format!("/proc/{}", id.trim())))
}

/// The Python with torch that tests are given, `KERNELWRIGHT_PYTHON`, else `python3`; nothing where it has none, with the
/// reason to print.
pub(super) fn with_torch() -> Result<PythonRuntime, String> {
    let program = env::text(env::PYTHON).unwrap_or_else(|| "python3".to_owned());
    let runtime = python(&program);
    let look = "import os, site; site.addsitedir(os.environ.get('KERNELWRIGHT_SITE', '')); import torch";
    let line = runtime.command().args(["-c", look]);
    let done = process::run(&line, Limits::wall(Duration::from_secs(100)));
    match done.is_ok_and(|done| done.ending.success()) {
        true => Ok(runtime),
        false => Err(format!("skipped: {program} has no torch")),
    }
}
