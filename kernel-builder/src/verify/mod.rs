//! Judges artifacts: the binary, its import, and every number that it computes.
//!
//! Owns: the checks, the bound, the evidence, the harness. Never: compiles, measures, or believes what a candidate says.
//!
//! A check is one file in `checks/` and one line in `CHECKS`.

use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use kernel_plan::spec::OpSpec;

use crate::base::session::Session;
use crate::compile::artifact::Artifact;
use crate::toolchain::PythonRuntime;

mod abi;
mod abi_names;
mod bound;
mod channel;
pub(crate) mod checks;
mod clashes;
mod code_error;
mod compare;
mod cubin;
pub(crate) mod device;
mod dump;
mod elf;
mod error;
mod evidence;
pub(crate) mod fatbin;
mod fault;
mod findings;
mod gate;
mod jobs;
pub(crate) mod lab;
pub mod lint;
mod listed;
mod machine;
pub(crate) mod machine_code;
mod python_abi;
#[cfg(test)]
mod python_for_tests;
mod reference;
mod registration;
mod report;
mod run;
pub mod sanitize;
mod schedule;
mod skipped;
mod stage;
pub(crate) mod state;
mod subject;
mod torch_abi;
mod torches;
mod undefined;
mod watched;

pub use abi::{Declared, Examined, clashes_among, examine, is_library};
pub(crate) use abi::{constants, tvm_ffi_functions};
pub use error::VerifyError;
pub use evidence::{
    CheckResult, Environment, Evidence, Outcome, PROTOCOL, Verdict, Verified, op_digest, recall,
};
pub use gate::{Gated, gate};
pub(crate) use machine::gpu_present;
use machine::{cpu_model, nvidia_driver};
pub(crate) use reference::ReferenceFile;
pub(crate) use registration::lost as lost_operators;
use report::tell;
pub(crate) use schedule::is_callable;
pub use skipped::{NO_GPU, NO_PYTHON, NOT_LOADED};
pub use subject::Options;
use subject::{ImportReport, Subject};
pub use torches::{NoTorch, OTHER_TORCH, fewest, serving, suits};

/// One check; it may report several results.
struct Check {
    name: &'static str,
    run: fn(&mut Subject<'_>) -> Result<Vec<CheckResult>, VerifyError>,
    by: CheckMethod,
}

/// How a check comes to know.
#[derive(Clone, Copy, PartialEq, Eq)]
enum CheckMethod {
    /// It reads the artifact's files: milliseconds.
    Reading,
    /// It runs the artifact's code in a process of its own.
    Running,
}

/// Every check, in the order in which they are made: cheap ones first.
const CHECKS: &[Check] = &[
    Check { name: "archs", run: checks::archs::check, by: CheckMethod::Reading },
    Check { name: "resources", run: checks::resources::check, by: CheckMethod::Reading },
    Check { name: "state", run: checks::state::check, by: CheckMethod::Reading },
    Check { name: "portability", run: checks::portability::check, by: CheckMethod::Reading },
    Check { name: "symbols", run: checks::symbols::check, by: CheckMethod::Reading },
    Check { name: "load", run: checks::load::check, by: CheckMethod::Running },
    Check { name: "lint", run: checks::lint::check, by: CheckMethod::Running },
    Check { name: "results", run: checks::results::check, by: CheckMethod::Running },
    Check { name: "sanitizer", run: checks::sanitizer::check, by: CheckMethod::Running },
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
    let reference = op.map(|op| ReferenceFile::read(op, project)).transpose()?;
    let mut subject = Subject {
        artifact: &artifact,
        op,
        project,
        reference: reference.as_ref(),
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
    if let Some(changed) = reference.as_ref().and_then(findings::changed_reference) {
        results.push(changed);
    }
    if artifact.backend == "cuda" {
        environment.driver = nvidia_driver();
    }
    let evidence = Evidence {
        artifact: artifact.digest,
        op: op.zip(reference).map(|(op, reference)| reference.op_digest(op)),
        protocol: PROTOCOL,
        checks: results,
        environment,
        when: SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs()),
    };
    Ok(Verdict::new(artifact, evidence))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::files;

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
