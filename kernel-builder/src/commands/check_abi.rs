//! `check-abi`: the gates on any library, ours or not. The file is read, never loaded.

use std::path::{Path, PathBuf};

use clap::Args as ClapArgs;
use kernel_plan::units::{Capability, Version};
use kernel_plan::variant::Variant;
use miette::Diagnostic;
use serde_json::json;
use thiserror::Error;

use crate::base::files;
use crate::base::session::Session;
use crate::exit::{self, Failure, StageError};
use crate::verify::{self, CheckResult, Declared, Examined, Outcome};

/// Check that compiled kernel libraries load on other machines
///
/// The checks are: symbol versions against manylinux_2_28, needed libraries, search paths, the stable ABIs of Python
/// and PyTorch, CPU and GPU architectures, visible and missing symbols, and conflicts between several files in one
/// process. A library is read and never loaded. It may be stripped, and any tool may have built it.
///
/// The expected values come from metadata.json beside the library and from the name of its folder, as in a published
/// kernel, or from the options. A name that ends in `.abi3.so` promises Python 3.9 and later.
#[derive(Debug, ClapArgs)]
#[command(after_help = "Examples:
  kernelwright check-abi dist
  kernelwright check-abi _norm.abi3.so --torch-stable-abi 2.10 --arch 8.0,9.0a")]
pub struct Args {
    /// Libraries; a folder stands for every library in it
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
    /// Variant that the libraries claim to be, named as the folders of a published kernel
    #[arg(long, value_name = "ID")]
    variant: Option<Variant>,
    /// GPU capabilities that the libraries claim, separated by commas
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    arch: Vec<Capability>,
    /// Oldest PyTorch release whose stable ABI the libraries claim to support
    #[arg(long, value_name = "MAJOR.MINOR")]
    torch_stable_abi: Option<Version>,
    /// Report libraries that need a newer system than manylinux_2_28, but do not fail
    #[arg(long)]
    allow_newer: bool,
}

/// Why a file is not what it should be.
#[derive(Debug, Error)]
#[error("{what}: {summary}")]
struct Refused {
    what: String,
    code: String,
    summary: String,
}

impl Diagnostic for Refused {
    fn code<'a>(&'a self) -> Option<Box<dyn std::fmt::Display + 'a>> {
        Some(Box::new(&self.code))
    }

    fn help<'a>(&'a self) -> Option<Box<dyn std::fmt::Display + 'a>> {
        Some(Box::new(format!("run `kernelwright explain {}` to see what this check requires", self.code)))
    }
}

/// Nothing to judge.
#[derive(Debug, Error, Diagnostic)]
#[error("no library found in `{}`", dir.display())]
#[diagnostic(code(verify::no_library), help("pass a shared library (.so), or a folder that contains one"))]
struct NoLibrary {
    dir: PathBuf,
}

impl StageError for NoLibrary {
    fn exit(&self) -> u8 {
        exit::VERIFY
    }
}

/// Runs the verb.
pub fn run(args: &Args, session: &Session) -> Result<(), Failure> {
    let mut libraries: Vec<PathBuf> = Vec::new();
    for file in &args.files {
        if files::is_dir(file) {
            libraries.extend(within(file)?);
        } else {
            libraries.push(file.clone());
        }
    }
    let mut examined = Vec::new();
    for file in &libraries {
        examined.push(verify::examine(file, args.declared(file), !args.allow_newer)?);
    }
    let named: Vec<_> = libraries.iter().map(|file| (file.clone(), file.clone())).collect();
    let together = verify::clashes_among(&named)?;
    let reports = refusals(&examined, together.as_ref());
    let data = json!({ "ok": reports.is_empty(), "files": examined, "together": together });
    session.report.result("check-abi", &data, &table(&examined, together.as_ref()));
    if reports.is_empty() { Ok(()) } else { Err(Failure { exit: exit::VERIFY, reports }) }
}

impl Args {
    /// What is declared of a file: the options come before what lies beside it.
    fn declared(&self, file: &Path) -> Declared {
        let beside = Declared::beside(file);
        let archs: Vec<String> = self.arch.iter().map(ToString::to_string).collect();
        Declared {
            variant: self.variant.map(|variant| variant.to_string()).or(beside.variant),
            id: beside.id,
            archs: if archs.is_empty() { beside.archs } else { Some(archs) },
            torch_stable_abi: self.torch_stable_abi.map(|version| version.to_string()),
        }
    }
}

/// The libraries below a folder, by their content.
fn within(dir: &Path) -> Result<Vec<PathBuf>, Failure> {
    let mut found = Vec::new();
    for name in files::walk(dir, |folder| !folder.ends_with(".git"))? {
        let path = dir.join(name);
        if verify::is_library(&path)? {
            found.push(path);
        }
    }
    if found.is_empty() { Err(NoLibrary { dir: dir.to_owned() }.into()) } else { Ok(found) }
}

fn refusals(examined: &[Examined], together: Option<&CheckResult>) -> Vec<miette::Report> {
    let refused = |what: String, check: &CheckResult| {
        let (code, summary) = (check.code.clone(), check.summary.clone());
        miette::Report::new(Refused { what, code, summary })
    };
    let single = examined.iter().flat_map(|one| {
        let what = one.file.display().to_string();
        one.refusals().map(move |check| refused(what.clone(), check))
    });
    let all = together.filter(|check| check.outcome == Outcome::Refused);
    single.chain(all.map(|check| refused("loaded together".to_owned(), check))).collect()
}

/// A line a gate, below each file.
fn table(examined: &[Examined], together: Option<&CheckResult>) -> String {
    let line = |check: &CheckResult| {
        let word = match check.outcome {
            Outcome::Passed => "passed",
            Outcome::Refused => "REFUSED",
            Outcome::Skipped => "skipped",
            Outcome::Warned => "warned",
        };
        format!("  {word:<8} {:<14} {}\n", check.name, check.summary)
    };
    let mut text = String::new();
    for one in examined {
        text += &format!("{}\n", one.file.display());
        text.extend(one.checks.iter().map(line));
    }
    if let Some(check) = together {
        text += &format!("loaded together\n{}", line(check));
    }
    text
}
