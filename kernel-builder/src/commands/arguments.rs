//! Groups of options that several verbs share.
//!
//! Owns: their names and help, and the values of `pipeline` and of the stages that they stand for. Never: acts on one.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use clap::builder::PossibleValuesParser;
use kernel_plan::spec::build::Dependency;
use kernel_plan::units::UnitError;

use crate::base::env;
use crate::bench;
use crate::compile::{BuildPolicy, OnFailure};
use crate::hub::facts;
use crate::pipeline::judge;
use crate::pipeline::project::selection;
use crate::toolchain::Provider;
use crate::toolchain::libraries::Folders;

/// The folder argument of a verb that works on a project.
#[derive(Debug, Clone, Args)]
pub(crate) struct ProjectDir {
    /// Kernel project: a folder with a build.toml, or the build.toml itself
    #[arg(value_name = "DIR", default_value = ".")]
    pub(crate) dir: PathBuf,
}

/// The argument of a verb that works on an operation alone.
#[derive(Debug, Clone, Args)]
pub(crate) struct TaskDir {
    /// Folder with an op.toml, or another file of that format, such as backward.toml
    #[arg(id = "task", value_name = "DIR", default_value = ".")]
    pub(crate) dir: PathBuf,
}

/// Which variants and with which tools; shared by every verb that builds.
#[derive(Debug, Clone, Args)]
pub(crate) struct Selection {
    /// Every variant that the sources support, for each PyTorch and both ABIs, even if another build covers it
    #[arg(long)]
    pub(crate) all: bool,
    /// Only this variant, out of those of `--all`; `kernelwright variants` lists them; can be repeated
    #[arg(long = "variant", value_name = "ID")]
    pub(crate) variants: Vec<String>,
    /// Only variants for this backend
    #[arg(long, value_name = "NAME", value_parser = PossibleValuesParser::new(facts::BACKENDS.iter().copied()))]
    pub(crate) backend: Option<String>,
    /// Only variants that match an expression, such as `cuda:13.* and not abi:full`
    #[arg(long, value_name = "EXPRESSION")]
    pub(crate) selector: Option<String>,
    /// Where compilers and headers come from
    #[arg(long, value_enum, default_value_t = Provider::Wheels)]
    pub(crate) toolchain: Provider,
    /// What happens when a variant fails.
    #[command(flatten)]
    pub(crate) failing: FailureOptions,
    /// Use only wheels in kernelwright.lock, and fail if one is missing there; without it, new ones are added
    #[arg(long)]
    pub(crate) locked: bool,
    /// Where header libraries are.
    #[command(flatten)]
    pub(crate) libraries: LibraryDirs,
    /// Build nothing; use the builds in .kernelwright/artifacts, from earlier or from another machine
    #[arg(long)]
    pub(crate) prebuilt: bool,
}

impl Selection {
    /// As the build stage takes it.
    pub(crate) fn selection(&self) -> selection::Selection {
        selection::Selection {
            all: self.all,
            variants: self.variants.clone(),
            backend: self.backend.clone(),
            selector: self.selector.clone(),
            toolchain: self.toolchain,
            conduct: self.failing.conduct(),
            locked: self.locked,
            libraries: self.libraries.folders(),
            prebuilt: self.prebuilt,
        }
    }
}

/// Behaviour when a variant fails.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct FailureOptions {
    /// Continue with the other variants if one fails (the default)
    #[arg(long, overrides_with = "fail_fast")]
    keep_going: bool,
    /// Start nothing new after a variant fails
    #[arg(long)]
    fail_fast: bool,
    /// Also write the HTML report of the build to this file; it is always in .kernelwright/report.html
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
}

impl FailureOptions {
    /// As the compile stage takes it.
    fn conduct(&self) -> BuildPolicy {
        let on_failure = if self.fail_fast { OnFailure::Stop } else { OnFailure::Continue };
        BuildPolicy { on_failure, report: self.report.as_deref().map(env::absolute) }
    }
}

/// Where header libraries are, in place of the wheels that hold them.
#[derive(Debug, Clone, Args)]
pub(crate) struct LibraryDirs {
    /// Folder with a CUTLASS repository; can be repeated, once for each release
    #[arg(long, value_name = "DIR")]
    pub(crate) cutlass_dir: Vec<PathBuf>,
    /// Folder for an entry of `depends`, such as `sycl_tla=/opt/sycl-tla`
    #[arg(long, value_name = "NAME=DIR", value_parser = named)]
    pub(crate) dependency_dir: Vec<(Dependency, PathBuf)>,
}

impl LibraryDirs {
    /// As the toolchain takes them.
    fn folders(&self) -> Folders {
        Folders { cutlass: self.cutlass_dir.clone(), named: self.dependency_dir.clone() }
    }
}

fn named(text: &str) -> Result<(Dependency, PathBuf), String> {
    let (name, folder) =
        text.split_once('=').ok_or("write it as NAME=DIR, such as sycl_tla=/opt/sycl-tla")?;
    Ok((name.parse().map_err(|error: UnitError| error.to_string())?, env::absolute(folder.as_ref())))
}

/// How the judge works.
#[derive(Debug, Clone, Args)]
#[group(id = "judging")]
pub(crate) struct Judging {
    /// Verify again, even if this build or this device code was verified before
    #[arg(long)]
    pub(crate) fresh: bool,
    /// Repeat an earlier run with its seed, and verify again; default: a new secret seed
    #[arg(long, value_name = "N")]
    pub(crate) seed: Option<u64>,
    /// Time limit in seconds for all calls of a kernel together
    #[arg(long, value_name = "SECONDS", default_value_t = 180, value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) deadline: u64,
    /// Fail if a build needs a newer system than manylinux_2_28
    #[arg(long)]
    pub(crate) require_portable: bool,
    /// Refuse device code that reads a clock, instead of warning; `fill` and `screen` always refuse it
    #[arg(long)]
    pub(crate) strict: bool,
    /// Number of processors that a kernel and the reference may use during verification; default: all
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) threads: Option<u16>,
}

impl Judging {
    /// As the judge takes it. compute-sanitizer is left out: it takes minutes, so `verify` alone has an option for it.
    pub(crate) fn judging(&self) -> judge::Judging {
        judge::Judging {
            fresh: self.fresh,
            seed: self.seed,
            deadline: Duration::from_secs(self.deadline),
            require_portable: self.require_portable,
            strict: self.strict,
            sanitize: false,
            threads: self.threads.map(usize::from),
        }
    }
}

/// How long is measured, and against what.
#[derive(Debug, Clone, Args)]
#[group(id = "measuring")]
pub(crate) struct Measuring {
    /// Time limit in seconds for each workload and dtype, over all starts; sampling stops earlier once the interval
    /// is narrow
    #[arg(long, value_name = "SECONDS", default_value_t = 2.0)]
    pub(crate) budget: f64,
    /// Number of times to start all timed processes, each time with the cases in a new order. The intervals then
    /// cover the differences between starts. Default: 3 on a GPU, 1 on a CPU
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u8).range(1..=20))]
    pub(crate) starts: Option<u8>,
    /// Measure only this workload of op.toml; can be repeated
    #[arg(long = "workload", value_name = "NAME")]
    pub(crate) workloads: Vec<String>,
    /// Leave out a rival that takes long to compile or to search; can be repeated
    #[arg(long, value_name = "RIVAL", value_parser = bench::OPTIONAL_RIVALS)]
    pub(crate) without: Vec<String>,
    /// On a GPU, measure only this regime: `graph` (calls in a CUDA graph), `cold` (single calls after the L2 cache
    /// was flushed) or `hot` (calls on data in the cache); can be repeated. Default: all
    #[arg(long = "regime", value_name = "REGIME", value_parser = bench::REGIMES)]
    pub(crate) regimes: Vec<String>,
}

impl Measuring {
    /// As the bench stage takes it.
    pub(crate) fn options(&self) -> bench::Options {
        bench::Options {
            budget: self.budget,
            starts: self.starts.map(usize::from),
            workloads: self.workloads.clone(),
            without: self.without.clone(),
            regimes: self.regimes.clone(),
            ..bench::Options::default()
        }
    }
}
