//! Judges device code that has no host code at all: compiles it, starts it as op.toml's `[launch]` says, and compares
//! everything it leaves behind with the oracle.
//!
//! Owns: the checks of a device candidate and their order. Never: runs a line of the candidate's on the host; there is
//! none.
//!
//! The worker that runs the kernels holds inputs and outputs, and nothing else of the judge. Another process computes the
//! expected values, on the same GPU if a case is large, and keeps them in files.

use std::time::{Instant, SystemTime, UNIX_EPOCH};

use kernel_plan::spec::OpSpec;
use kernel_plan::spec::launch::ConcreteLaunch;
use kernel_plan::spec::op::{Case, Device, Purpose};
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::checks::{self, resources, results, sanitizer};
use super::code_error::CodeError;
use super::evidence::{CheckResult, Environment, Evidence, Outcome, PROTOCOL};
use super::reference::ReferenceFile;
use super::schedule::{self, ScheduledCase};
use super::stage::{self, OracleAhead, Stage};
use super::state::{self, State};
use super::{NO_GPU, NO_PYTHON, Options, VerifyError, cubin, listed, nvidia_driver, op_digest, tell};
use crate::agent::tuned::Settings;
use crate::base::causes::chain;
use crate::base::digest::{Digest, DigestBuilder};
use crate::base::files::{self, FileError};
use crate::base::process::ProcessError;
use crate::base::report::ProgressKind;
use crate::base::session::Session;
use crate::compile::nvrtc::{Code, Compiler, NvrtcError, Source};
use crate::device::gpu::{Gpu, NoDevice};
use crate::device::wire::{Answer, DeviceProperties, Op};
use crate::toolchain::PythonRuntime;

mod arena;
pub(super) mod failure;
mod recall;
mod sanitized;
pub(super) mod trials;

pub(crate) use recall::recall;
use trials::{Lane, LaunchFailure};

/// How long the first answer of a worker may take.
const START: std::time::Duration = std::time::Duration::from_secs(60);

/// What is judged.
pub(crate) struct DeviceCandidate<'a> {
    /// What it must compute, with `[launch]`.
    pub op: &'a OpSpec,
    /// The project's folder.
    pub project: &'a std::path::Path,
    /// The device code.
    pub source: Source,
    /// The tunables of every call.
    pub settings: Settings,
    /// The architectures that it is declared for, e.g. `90a`.
    pub archs: Vec<String>,
}

impl DeviceCandidate<'_> {
    /// The digest of the code with the headers that it uses, of how it is started, and of how it is tuned.
    ///
    /// # Errors
    /// A header cannot be read.
    pub(crate) fn digest(&self) -> Result<Digest, FileError> {
        let digest = DigestBuilder::new("device-candidate");
        let mut digest = digest.field("source", &self.source.text).field("op.toml", &self.op.file.text);
        for (name, value) in self.settings.default_tuning() {
            digest = digest.field("tunable", format!("{name}={value}"));
        }
        // Nothing where all calls have the defaults, so that such a candidate is named as before there were others.
        for setting in self.settings.words() {
            digest = digest.field("setting", setting);
        }
        for (name, text) in self.source.headers()? {
            digest = digest.field("header", name).field("text", text);
        }
        Ok(digest.finish())
    }
}

impl DeviceCandidate<'_> {
    /// The launch of a case and its machine code for a device.
    pub(crate) fn on(
        &self,
        case: &Case,
        about: &DeviceProperties,
        compiler: &Compiler,
    ) -> Result<(ConcreteLaunch, Code), super::lab::CandidateRefusal> {
        let refused = |code, text| super::lab::CandidateRefusal { code, text };
        let Some(launch) = &self.op.launch else {
            return Err(refused("verify::launch", "op.toml has no [launch]".to_owned()));
        };
        let launch = launch.evaluate(case, &self.settings.choose(self.op, case).tuning);
        let launch = launch.map_err(|error| refused("verify::launch", error.to_string()))?;
        let code = Code::compile(&self.source, [&launch], &arch_of(about), compiler);
        Ok((launch, code.map_err(|error| refused("compile::device_code", chain(&error)))?))
    }
}

/// How device code was compiled, as evidence keeps it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct CompilationEvidence {
    /// Which compiler, and which one of them.
    compiler: String,
    /// What the candidate is declared for; the GPU's own is always among what is tried.
    archs: Vec<String>,
}

impl CompilationEvidence {
    /// How a compiler makes a candidate.
    fn by(candidate: &DeviceCandidate<'_>, compiler: &Compiler) -> Self {
        Self { compiler: compiler.id(), archs: candidate.archs.clone() }
    }

    /// As the facts of the check `compile` have it.
    fn from_facts(facts: &serde_json::Value) -> Option<Self> {
        serde_json::from_value(facts.get("made")?.clone()).ok()
    }
}

/// The architecture whose machine code a device runs best: with the features of it alone, where it has any.
pub(crate) fn arch_of(about: &DeviceProperties) -> String {
    let (major, minor) = about.capability;
    format!("{major}{minor}{}", if major >= 9 { "a" } else { "" })
}

/// What the device is; nothing where there is none, with the reason.
pub(crate) fn device(gpu: &mut Gpu) -> Result<Result<DeviceProperties, NoDevice>, VerifyError> {
    Ok(match gpu.ask(&[Op::About], START)? {
        Ok(answers) => match answers.into_iter().next() {
            Some(Answer::About(about)) => Ok(about),
            _ => Err(NoDevice::Undescribed),
        },
        Err(failure) => Err(failure.into()),
    })
}

/// Judges a device candidate. Without a GPU it is compiled, and what it would use of one is told.
///
/// # Errors
/// When the judgement could not be made at all; see [`super::judge`].
pub(crate) fn judge(
    candidate: &DeviceCandidate<'_>,
    compiler: &Compiler,
    python: Option<&PythonRuntime>,
    options: &Options,
    session: &Session,
) -> Result<Evidence, VerifyError> {
    let mut environment = Environment { cpu: super::cpu_model(), ..Environment::default() };
    let mut checks = Vec::new();
    let mut note = |name: &str, found: Vec<CheckResult>, since: Instant| {
        tell(session, name, &found, since.elapsed().as_secs_f64());
        let refused = found.iter().any(|check| check.outcome == Outcome::Refused);
        checks.extend(found);
        refused
    };
    let artifact = candidate.digest()?;
    let mut verified = cases(candidate, Purpose::Verify);
    let stage = match python {
        Some(python) if super::gpu_present() && !verified.is_empty() => {
            let seed = stage::seed(options.seed);
            verified.extend(schedule::drawn(candidate.op, Device::Cuda, &verified, seed));
            let reference = ReferenceFile::read(candidate.op, candidate.project)?;
            Some(Stage::new(python, candidate.op, reference, Device::Cuda, options.threads, Some(seed))?)
        }
        _ => None,
    };
    let schedule = trials::adapted(schedule::schedule(candidate.op, &verified));
    std::thread::scope(|scope| {
        // The reference is at work while the code is compiled and called.
        let oracle = stage.as_ref().map(|stage| stage.begin_oracle(scope, &schedule)).transpose()?;
        let started = Instant::now();
        let mut gpu = Gpu::new();
        let about = if super::gpu_present() { device(&mut gpu)? } else { Err(NoDevice::Absent) };
        let own = about.as_ref().ok().map(arch_of);
        let mut archs = candidate.archs.clone();
        archs.extend(own.clone().filter(|own| !candidate.archs.contains(own)));
        let compiled = compiled(candidate, &verified, &schedule, &archs, compiler)?;
        let done = match compiled {
            Err(refusal) => {
                note("compile", vec![refusal], started);
                None
            }
            Ok((codes, check)) => {
                note("compile", vec![check], started);
                note("resources", vec![used(&codes)?], Instant::now());
                let refused = note("state", check_state(&codes, options.strict), Instant::now());
                let codes = if refused { Codes::new() } else { codes };
                let at = own.and_then(|own| archs.iter().position(|arch| *arch == own));
                at.and_then(|at| codes.into_iter().nth(at)).map(|(_, code)| code)
            }
        };
        let started = Instant::now();
        let skipped = |code: &str, text: String| {
            let mut found =
                vec![CheckResult::new("results", code, Outcome::Skipped, text.clone(), json!({}))];
            if options.sanitize {
                found.extend(sanitizer::skipped(code, &text));
            }
            found
        };
        let found = match (done, about, python) {
            // Refused: what nobody waits for any more is ended.
            (None, Ok(_), _) => vec![],
            (_, Err(missing), _) => skipped(NO_GPU, format!("{missing}: the kernels were not started")),
            (Some(_), Ok(_), None) => {
                let text = "no Python with torch here: there is nothing to compare results with".to_owned();
                skipped(NO_PYTHON, text)
            }
            (Some(code), Ok(about), Some(python)) => {
                environment.device = Some(about.name);
                environment.driver = nvidia_driver();
                environment.torch = Some(python.torch.clone());
                match (&stage, oracle) {
                    (Some(stage), Some(oracle)) => {
                        let lane = Lane::new(gpu, &code, candidate.op, &candidate.settings, stage);
                        tried(lane, oracle, &schedule, &verified, options, session)?
                    }
                    _ => skipped(
                        "verify::no_workload",
                        "op.toml has no workload to verify on this device".to_owned(),
                    ),
                }
            }
        };
        if !found.is_empty() {
            note("results", found, started);
        }
        let headers = candidate.source.headers()?.into_iter();
        let mut texts = vec![(candidate.source.name.clone(), candidate.source.text.clone())];
        texts.extend(headers.map(|(name, text)| (name, String::from_utf8_lossy(&text).into_owned())));
        if let Some(warning) = listed::of_texts(candidate.op, &texts) {
            note("listed lengths", vec![warning], Instant::now());
        }
        Ok::<(), VerifyError>(())
    })?;
    Ok(Evidence {
        artifact,
        op: Some(op_digest(candidate.op, candidate.project)?),
        protocol: PROTOCOL,
        checks,
        environment,
        when: SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs()),
    })
}

/// The calls on a GPU that op.toml has for a purpose.
fn cases(candidate: &DeviceCandidate<'_>, purpose: Purpose) -> Vec<Case> {
    candidate.op.cases(purpose, Device::Cuda)
}

/// Machine code by architecture.
type Codes = Vec<(String, Code)>;

/// The machine code for every architecture, or why there is none.
fn compiled(
    candidate: &DeviceCandidate<'_>,
    verified: &[Case],
    schedule: &[ScheduledCase],
    archs: &[String],
    compiler: &Compiler,
) -> Result<Result<(Codes, CheckResult), CheckResult>, VerifyError> {
    let launches = match launches(candidate, verified, schedule) {
        Ok(launches) => launches,
        Err(error) => return Ok(Err(refusal("verify::launch", chain(&error), ""))),
    };
    let mut codes = Codes::new();
    for arch in archs {
        match Code::compile(&candidate.source, &launches, arch, compiler) {
            Ok(code) => codes.push((arch.clone(), code)),
            Err(NvrtcError::File(error)) => return Err(error.into()),
            Err(NvrtcError::Process(error)) => return Err(error.into()),
            Err(error) if error.is_of_machine() => return Err(VerifyError::Compiler(error)),
            Err(error) => {
                let log =
                    if let NvrtcError::Rejected { log, .. } = &error { log.clone() } else { String::new() };
                let text = format!("sm_{arch}: {}", chain(&error));
                return Ok(Err(refusal("compile::device_code", text, &log)));
            }
        }
    }
    let kernels: usize =
        codes.first().map_or(0, |(_, code)| code.cubins.iter().map(|cubin| cubin.names.len()).sum());
    let text = format!(
        "{kernels} kernels for {}",
        archs.iter().map(|arch| format!("sm_{arch}")).collect::<Vec<_>>().join(", ")
    );
    let logs: Vec<&str> =
        codes.iter().flat_map(|(_, code)| &code.cubins).map(|cubin| cubin.log.as_str()).collect();
    let warnings = logs.iter().any(|log| log.contains("warning"));
    let outcome = if warnings { Outcome::Warned } else { Outcome::Passed };
    let text = if warnings { format!("{text}; the compiler warns") } else { text };
    let facts = json!({
        "compiler": compiler.tool().name(),
        "made": CompilationEvidence::by(candidate, compiler),
        "log": logs.join("\n").trim(),
        "tuning": trials::words_of(candidate.settings.default_tuning()),
        "settings": settings(candidate),
    });
    Ok(Ok((codes, CheckResult::new("compile", "compile::device_code", outcome, text, facts))))
}

/// The calls whose tunables are not the defaults, with where those come from.
fn settings(candidate: &DeviceCandidate<'_>) -> serde_json::Value {
    let defaults = candidate.settings.default_tuning();
    let mut found: Vec<serde_json::Value> = Vec::new();
    for case in cases(candidate, Purpose::Verify).iter().chain(&cases(candidate, Purpose::Bench)) {
        let chosen = candidate.settings.choose(candidate.op, case);
        let one = json!({ "case": case.id, "tuning": trials::words_of(&chosen.tuning), "from": chosen.from });
        if chosen.tuning != *defaults && !found.contains(&one) {
            found.push(one);
        }
    }
    found.into()
}

fn refusal(code: &str, text: String, log: &str) -> CheckResult {
    CheckResult::new("compile", code, Outcome::Refused, text, json!({ "log": log }))
}

/// A workload that `[launch]` does not start.
#[derive(Debug, thiserror::Error)]
#[error("workload `{case}`")]
struct UnstartedCase {
    case: String,
    #[source]
    cause: LaunchFailure,
}

/// The launch of every trial and of every workload that is measured.
fn launches(
    candidate: &DeviceCandidate<'_>,
    verified: &[Case],
    schedule: &[ScheduledCase],
) -> Result<Vec<ConcreteLaunch>, UnstartedCase> {
    let mut found: Vec<ConcreteLaunch> = Vec::new();
    let mut add = |case: &Case, launch: Result<ConcreteLaunch, LaunchFailure>| {
        let launch = launch.map_err(|cause| UnstartedCase { case: case.id.clone(), cause })?;
        if !found.contains(&launch) {
            found.push(launch);
        }
        Ok::<(), UnstartedCase>(())
    };
    for (scheduled, case) in schedule.iter().zip(verified) {
        for trial in &scheduled.trials {
            add(case, trials::launch_of(candidate.op, case, scheduled, trial, &candidate.settings))?;
        }
    }
    if let Some(launch) = &candidate.op.launch {
        for case in cases(candidate, Purpose::Bench) {
            let tuning = candidate.settings.choose(candidate.op, &case).tuning;
            add(&case, launch.evaluate(&case, &tuning).map_err(LaunchFailure::from))?;
        }
    }
    Ok(found)
}

/// Registers, shared and local memory of all kernels.
fn used(codes: &Codes) -> Result<CheckResult, VerifyError> {
    let mut usages = Vec::new();
    for (arch, code) in codes {
        for cubin in &code.cubins {
            let bytes = files::read(&cubin.path)?;
            let found = cubin::usages(&bytes).unwrap_or_default();
            usages.extend(found.into_iter().map(|usage| (format!("sm_{arch}"), usage)));
        }
    }
    Ok(resources::report(&usages))
}

/// The state that the code keeps, and the clocks that it reads.
fn check_state(codes: &Codes, strict: bool) -> Vec<CheckResult> {
    let all = codes
        .iter()
        .try_fold(State::default(), |all, (_, code)| Ok::<_, CodeError>(all.with(state::examine(code)?)));
    match all {
        Ok(state) => checks::state::of_device(&state, strict),
        Err(error) => {
            vec![CheckResult::new("state", "verify::state", Outcome::Refused, chain(&error), json!({}))]
        }
    }
}

/// Every call of the schedule, made while the oracle computes what is expected of it, then compared.
fn tried(
    mut lane: Lane<'_>,
    oracle: OracleAhead<'_>,
    schedule: &[ScheduledCase],
    cases: &[Case],
    options: &Options,
    session: &Session,
) -> Result<Vec<CheckResult>, VerifyError> {
    let trials = schedule.iter().map(|case| case.trials.len() as u64).sum();
    let progress = session.report.progress("calling the kernels", ProgressKind::Count, Some(trials));
    let (stage, since) = (lane.stage, oracle.began());
    if !oracle.inputs()? {
        // It ended too early, and says why.
        oracle.expected()?;
        return Err(ProcessError::Interrupted.into());
    }
    let inputs = since.elapsed();
    let run = lane.run(schedule, cases, options.deadline, &|| progress.add(1))?;
    let called = since.elapsed();
    let oracle = oracle.expected()?;
    let expected = since.elapsed();
    let mut again = |alone: &[ScheduledCase]| {
        lane.gpu.end();
        lane.run(alone, cases, options.deadline, &|| {})
    };
    let mut found = results::judged(stage, &oracle, schedule, cases, &run, &mut again)?;
    if let Some(calls) = found.iter_mut().find(|check| check.name == "calls") {
        calls.facts["seconds"] = json!({
            "inputs": inputs.as_secs_f64(),
            "calls": (called - inputs).as_secs_f64(),
            "expected": (expected - called).as_secs_f64(),
            "comparison": (since.elapsed() - expected).as_secs_f64(),
        });
    }
    if options.sanitize {
        lane.gpu.end();
        found.extend(sanitized::check(&lane, schedule, cases)?);
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use kernel_plan::diagnostic::SourceFile;

    use super::*;

    #[test]
    fn a_candidate_is_named_after_the_headers_that_it_uses_too() {
        let text = include_str!("../../../../examples/rms-norm-device/op.toml");
        let op = kernel_plan::spec::parse_op(SourceFile::new("op.toml", text)).0.unwrap();
        let folder = files::scratch().unwrap();
        let digest = |text: &str| {
            let include = vec![folder.path().to_owned()];
            let source = Source { text: text.to_owned(), name: "k.cu".to_owned(), include, root: None };
            let (project, settings) = (folder.path(), Settings::defaults(&op));
            DeviceCandidate { op: &op, project, source, settings, archs: vec![] }.digest().unwrap()
        };
        let (alone, with) = (digest("alone"), digest("#include \"row.cuh\""));
        files::write(&folder.path().join("row.cuh"), "one").unwrap();
        let one = digest("#include \"row.cuh\"");
        files::write(&folder.path().join("row.cuh"), "other").unwrap();
        let other = digest("#include \"row.cuh\"");
        assert!(with != one && one != other);
        assert_eq!(alone, digest("alone"), "a header of somebody else's is none of its own");
    }
}
