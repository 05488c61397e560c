//! Judges artifacts: the binary, its import, and every number that it computes.
//!
//! Owns: the checks, the bound, the evidence, the harness. Never: compiles, measures, or believes what a candidate says.
//!
//! A check is one file in `checks/` and one line in `CHECKS`.

use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use kernel_plan::spec::OpSpec;

use crate::base::digest::{Digest, DigestBuilder};
use crate::base::nvml::Driver;
use crate::base::report::Event;
use crate::base::session::Session;
use crate::base::{env, files};
use crate::compile::artifact::Artifact;
use crate::toolchain::PythonRuntime;

mod abi;
mod bound;
mod channel;
pub(crate) mod checks;
mod clashes;
mod compare;
mod cubin;
pub(crate) mod device;
mod dump;
mod elf;
mod error;
mod evidence;
mod fatbin;
mod findings;
mod gate;
mod jobs;
pub(crate) mod lab;
pub mod lint;
mod listed;
pub(crate) mod machine_code;
mod python_abi;
#[cfg(test)]
mod python_for_tests;
mod registration;
pub mod sanitize;
mod schedule;
mod stage;
pub(crate) mod state;
mod torch_abi;
mod torches;
mod undefined;
mod watched;

pub use abi::{Declared, Examined, clashes_among, examine, is_library};
pub(crate) use abi::{constants, tvm_ffi_functions};
pub use error::VerifyError;
pub use evidence::{CheckResult, Environment, Evidence, Outcome, PROTOCOL, Verdict, Verified, recall};
pub use gate::{Gated, gate};
pub(crate) use registration::lost as lost_operators;
pub use torches::{OTHER_TORCH, fewest, serving, suits};

/// The code of checks that were skipped because there is no GPU.
pub const NO_GPU: &str = "verify::no_gpu";

/// The code of checks that were skipped because there is no Python with torch.
pub const NO_PYTHON: &str = "verify::no_python";

/// The code of checks that were skipped because the package was not loaded.
pub const NOT_LOADED: &str = "verify::not_loaded";

/// How to judge.
#[derive(Debug, Clone, Copy)]
pub struct Options {
    /// The seed of the inputs, to repeat a judgement; secret and new when absent.
    pub seed: Option<u64>,
    /// Wall-clock time for all calls of the candidate together.
    pub deadline: Duration,
    /// Resident bytes that the candidate's process may use.
    pub memory: u64,
    /// Threads for every computation on the host.
    pub threads: usize,
    /// Refuse a library that does not load on manylinux_2_28 hosts, in place of warning.
    pub require_portable: bool,
    /// Call a CUDA kernel under compute-sanitizer, too.
    pub sanitize: bool,
    /// Refuse device code that reads a clock, in place of warning.
    pub strict: bool,
}

impl Options {
    /// A new seed, three minutes, 16 GiB, every processor, portability as a warning.
    pub fn standard() -> Self {
        Self {
            seed: None,
            deadline: Duration::from_secs(180),
            memory: 16 << 30,
            threads: env::processors(),
            require_portable: false,
            sanitize: false,
            strict: false,
        }
    }
}

/// What the checks work on, and what earlier checks found out.
struct Subject<'a> {
    artifact: &'a Artifact,
    op: Option<&'a OpSpec>,
    project: &'a Path,
    python: Option<&'a PythonRuntime>,
    options: &'a Options,
    session: &'a Session,
    environment: Environment,
    /// Set by the check `load`.
    loaded: Option<Loaded>,
}

/// What the package said of itself when it was imported.
struct Loaded {
    cuda_available: bool,
    has_function: bool,
}

/// One check; it may report several results.
struct Check {
    name: &'static str,
    run: fn(&mut Subject<'_>) -> Result<Vec<CheckResult>, VerifyError>,
    by: By,
}

/// How a check comes to know.
#[derive(Clone, Copy, PartialEq, Eq)]
enum By {
    /// It reads the artifact's files: milliseconds.
    Reading,
    /// It runs the artifact's code in a process of its own.
    Running,
}

/// Every check, in the order in which they are made: cheap ones first.
const CHECKS: &[Check] = &[
    Check { name: "archs", run: checks::archs::check, by: By::Reading },
    Check { name: "resources", run: checks::resources::check, by: By::Reading },
    Check { name: "state", run: checks::state::check, by: By::Reading },
    Check { name: "portability", run: checks::portability::check, by: By::Reading },
    Check { name: "symbols", run: checks::symbols::check, by: By::Reading },
    Check { name: "load", run: checks::load::check, by: By::Running },
    Check { name: "lint", run: checks::lint::check, by: By::Running },
    Check { name: "results", run: checks::results::check, by: By::Running },
    Check { name: "sanitizer", run: checks::sanitizer::check, by: By::Running },
];

/// Judges one artifact. Without `op`, results cannot be checked; without `python`, nothing is run; both are said in the
/// evidence.
///
/// # Errors
/// When the judgement could not be made at all. A kernel that is wrong is no error but [`Verdict::Refused`].
pub fn judge(
    artifact: Artifact,
    op: Option<&OpSpec>,
    project: &Path,
    python: Option<&PythonRuntime>,
    options: &Options,
    session: &Session,
) -> Result<Verdict, VerifyError> {
    let mut subject = Subject {
        artifact: &artifact,
        op,
        project,
        python,
        options,
        session,
        environment: Environment { cpu: cpu_model(), ..Environment::default() },
        loaded: None,
    };
    let mut results = Vec::new();
    for check in CHECKS {
        let started = std::time::Instant::now();
        let found = (check.run)(&mut subject)?;
        let seconds = started.elapsed().as_secs_f64();
        tell(session, check.name, &found, seconds);
        results.extend(found);
    }
    let mut environment = subject.environment;
    if artifact.backend == "cuda" {
        environment.driver = nvidia_driver();
    }
    let evidence = Evidence {
        artifact: artifact.digest,
        op: op.map(|op| op_digest(op, project)).transpose()?,
        protocol: PROTOCOL,
        checks: results,
        environment,
        when: SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs()),
    };
    Ok(Verdict::of(artifact, evidence))
}

/// The digest of what an operation means: op.toml and the file of its reference.
///
/// # Errors
/// When the reference cannot be read.
pub fn op_digest(op: &OpSpec, project: &Path) -> Result<Digest, VerifyError> {
    let reference = files::read(&project.join(op.reference.file.as_str()))?;
    Ok(DigestBuilder::new("operation").field("op.toml", &op.file.text).field("reference", reference).finish())
}

fn tell(session: &Session, check: &str, found: &[CheckResult], seconds: f64) {
    for result in found {
        match result.outcome {
            Outcome::Warned => session.report.warn(format!("{}: {}", result.name, result.summary)),
            Outcome::Skipped => session.report.note(format!("{}: {}", result.name, result.summary)),
            Outcome::Passed | Outcome::Refused => {}
        }
    }
    let passed = found.iter().filter(|result| result.outcome == Outcome::Passed).count();
    if passed > 0 && passed == found.len() {
        let detail = found.first().map_or("", |result| result.summary.as_str());
        session.report.emit(&Event::Done {
            action: "checked",
            subject: check,
            detail,
            seconds,
            cached: false,
        });
    }
}

/// The processor's name, as the kernel has it.
fn cpu_model() -> Option<String> {
    let text = files::read_text(Path::new("/proc/cpuinfo")).ok()?;
    let line = text.lines().find(|line| line.starts_with("model name"))?;
    Some(line.split_once(':')?.1.trim().to_owned())
}

/// The version of NVIDIA's driver; `None` without one.
fn nvidia_driver() -> Option<String> {
    if gpu_present() { Driver::open()?.version() } else { None }
}

/// Whether the driver of an NVIDIA GPU is loaded; cheap, so that nothing is run to find out.
pub(crate) fn gpu_present() -> bool {
    ["/dev/nvidiactl", "/dev/dxg"].iter().any(|device| files::exists(Path::new(device)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_check_is_listed() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/verify/checks");
        let mut listed: Vec<_> = CHECKS.iter().map(|check| format!("{}.rs", check.name)).collect();
        listed.push("mod.rs".to_owned());
        listed.sort();
        let found = files::walk(&folder, |_| true).unwrap();
        let found: Vec<_> = found.iter().map(|path| path.display().to_string()).collect();
        assert_eq!(listed, found);
    }
}
