//! The stage on which an artifact is tried: a scratch folder, the oracle beside the candidate, and who may go when.
//!
//! Owns: the order in which inputs, calls and expected values come into being. Never: compares values.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::thread::{self, Scope};
use std::time::{Duration, Instant};

use kernel_plan::numbers;
use kernel_plan::plan::CommandLine;
use kernel_plan::spec::OpSpec;
use kernel_plan::spec::op::{Case, Device};
use kernel_plan::units::Dtype;
use sha2::{Digest as _, Sha256};
use tempfile::TempDir;

use super::VerifyError;
use super::bound::Bound;
use super::channel::{self, RoleResult};
use super::evidence::Environment;
use super::reference::ReferenceFile;
use super::schedule::{Form, GradientSpec, ScheduledCase, TensorSpec};
use crate::base::background::{BackgroundTask, TaskResult};
use crate::base::digest::{Digest, hex};
use crate::base::interrupt::{self, StopFlag};
use crate::base::process::{Limits, ProcessError};
use crate::base::random;
use crate::base::report;
use crate::base::{env, files};
use crate::protocol::verify::{CandidateJob, Event, Job, OracleJob, Schedule};
use crate::toolchain::PythonRuntime;

/// How long the oracle may take beside the candidate.
const ORACLE: Duration = Duration::from_secs(1800);
/// Between two looks for the inputs.
const LOOK: Duration = Duration::from_millis(2);

/// A folder for one trial of an artifact, with the harness in it.
pub(crate) struct Stage<'a> {
    pub python: &'a PythonRuntime,
    pub op: &'a OpSpec,
    /// The file of the reference, as it was before any candidate ran.
    pub reference: ReferenceFile,
    pub device: Device,
    /// Threads for every computation on the host.
    pub threads: usize,
    /// The oracle's seed; never in a candidate's job.
    pub seed: u64,
    /// Whether somebody else's work comes before that of the oracle.
    behind: bool,
    harness: PathBuf,
    folder: TempDir,
}

/// What the oracle left.
pub(crate) struct Oracle {
    /// Digest of each set's input file, before any candidate could touch it.
    pub inputs: Vec<(String, Digest)>,
    /// Sets of cases that have a result of PyTorch in the real dtype.
    pub baselines: Vec<(usize, usize)>,
    /// Sets of cases whose results the reference leaves open, since what is not finite depends on the dtype.
    pub undefined: Vec<(usize, usize)>,
    /// Why the first case without one has none.
    pub no_baseline: Option<String>,
    /// SHA-256 of the files of expected values that it wrote, in hexadecimal.
    expected: BTreeSet<String>,
    pub environment: Environment,
}

/// An oracle at work. Dropped, it is ended.
pub(crate) struct OracleAhead<'scope> {
    work: BackgroundTask<'scope, Result<Oracle, VerifyError>>,
    /// The file that says whether there are inputs.
    gate: PathBuf,
    began: Instant,
}

impl OracleAhead<'_> {
    /// Waits for the inputs of all cases; whether there are any. Where there are none, [`Self::expected`] says why.
    ///
    /// # Errors
    /// ctrl-C.
    pub(crate) fn inputs(&self) -> Result<bool, VerifyError> {
        loop {
            interrupt::check().map_err(|_| ProcessError::Interrupted)?;
            // In this order: it writes the file before it ends.
            let ended = self.work.has_ended();
            if files::exists(&self.gate) {
                return Ok(files::read_text(&self.gate)? == GO);
            }
            if ended {
                return Ok(false);
            }
            thread::sleep(LOOK);
        }
    }

    /// When it was begun.
    pub(crate) fn began(&self) -> Instant {
        self.began
    }

    /// Waits for its end.
    ///
    /// # Errors
    /// The reference fails, or ctrl-C.
    pub(crate) fn expected(self) -> Result<Oracle, VerifyError> {
        match self.work.wait() {
            Some(TaskResult { result, .. }) => result,
            None => Err(ProcessError::Interrupted.into()),
        }
    }
}

/// The file at which a candidate waits before its package is imported.
const BEGIN: &str = "begin.gate";
/// What the files say at which processes wait.
const GO: &str = "go";
const STOP: &str = "stop";

impl<'a> Stage<'a> {
    pub(crate) fn new(
        python: &'a PythonRuntime,
        op: &'a OpSpec,
        reference: ReferenceFile,
        device: Device,
        threads: usize,
        seed: Option<u64>,
    ) -> Result<Self, VerifyError> {
        let folder = files::scratch()?;
        let harness = channel::unpack(&folder.path().join("harness"))?;
        for name in ["inputs", "expected", "dumps"] {
            files::create_dirs(&folder.path().join(name))?;
        }
        let seed = self::seed(seed);
        let behind = false;
        Ok(Self { python, op, reference, device, threads, seed, behind, harness, folder })
    }

    /// The same with an oracle that leaves the processors to others who want them.
    pub(crate) fn behind_others(self) -> Self {
        Self { behind: true, ..self }
    }

    /// The folder with all that was written; the stage is over.
    pub(crate) fn into_folder(self) -> TempDir {
        self.folder
    }

    /// A path of the stage.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Where the candidate's process leaves what a trial wrote.
    pub(crate) fn dump(&self, trial: usize) -> PathBuf {
        self.path(&format!("dumps/{trial}.bin"))
    }

    /// The digests of what trials left, by their numbers: what is changed later is not believed.
    pub(crate) fn sealed(&self, cases: &[ScheduledCase]) -> BTreeMap<usize, Digest> {
        let trials = cases.iter().flat_map(|case| &case.trials);
        let sealed = trials.filter_map(|trial| {
            let bytes = files::read(&self.dump(trial.id)).ok()?;
            Some((trial.id, Digest::blake3(&bytes)))
        });
        sealed.collect()
    }

    fn text(&self, name: &str) -> String {
        self.path(name).display().to_string()
    }

    /// Whether the reference and the harness are what they were before a candidate ran.
    pub(crate) fn is_untouched(&self) -> bool {
        self.reference.is_unchanged() && self.harness.parent().is_some_and(channel::is_whole)
    }

    /// The candidate's job: never the seed, never an expected value.
    pub(crate) fn candidate_job(
        &self,
        package: &Path,
        namespace: &str,
        cases: &[ScheduledCase],
    ) -> CandidateJob {
        CandidateJob {
            package: env::absolute(package).display().to_string(),
            namespace: namespace.to_owned(),
            function: Some(self.op.call.function.to_string()),
            device: self.device.as_str().to_owned(),
            threads: self.threads,
            home: None,
            schedule: Some(Schedule {
                out: self.op.call.out.iter().map(|name| name.to_string()).collect(),
                begin: self.text(BEGIN),
                gate: self.text("candidate.gate"),
                inputs_dir: self.text("inputs"),
                dumps_dir: self.text("dumps"),
                cases: cases.iter().map(ScheduledCase::for_candidate).collect(),
            }),
        }
    }

    /// Plays the role of a job on this stage.
    pub(crate) fn play(
        &self,
        job: Job,
        limits: Limits,
        on_event: &mut dyn FnMut(Event),
    ) -> Result<RoleResult, VerifyError> {
        self.play_in(job, limits, None, on_event)
    }

    /// The same in a process that `wrap` makes of the usual one.
    pub(crate) fn play_in(
        &self,
        job: Job,
        limits: Limits,
        wrap: Option<&dyn Fn(CommandLine) -> CommandLine>,
        on_event: &mut dyn FnMut(Event),
    ) -> Result<RoleResult, VerifyError> {
        channel::play_in(self.python, &self.harness, job, limits, wrap, on_event)
    }

    /// Runs `candidate` beside the oracle. Both processes start at once. The candidate imports its package when the oracle
    /// has loaded the reference, and makes its calls when the inputs are written. The oracle computes expected values after
    /// `candidate` has returned.
    pub(crate) fn beside_oracle<T>(
        &self,
        cases: &[ScheduledCase],
        candidate: impl FnOnce() -> Result<T, VerifyError>,
    ) -> Result<(T, Oracle), VerifyError> {
        self.check_space(cases)?;
        let stop = StopFlag::of_thread();
        thread::scope(|scope| {
            let oracle = scope.spawn(move || interrupt::within(stop, || self.oracle(cases)));
            let result = candidate();
            self.open_gate("oracle.gate", if result.is_ok() { GO } else { STOP })?;
            match oracle.join() {
                Ok(Ok(oracle)) => Ok((result?, oracle)),
                // The candidate may have failed only because the oracle did.
                Ok(Err(error)) => Err(error),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        })
    }

    /// Begins an oracle that waits for no candidate: for those that run nothing on the host, so that nothing of theirs could
    /// look for what is expected.
    ///
    /// # Errors
    /// There is no room for its files.
    pub(crate) fn begin_oracle<'scope>(
        &'scope self,
        scope: &'scope Scope<'scope, '_>,
        cases: &'scope [ScheduledCase],
    ) -> Result<OracleAhead<'scope>, VerifyError> {
        self.check_space(cases)?;
        self.open_gate("oracle.gate", GO)?;
        let work = BackgroundTask::begin(scope, || self.oracle(cases));
        Ok(OracleAhead { work, gate: self.path("candidate.gate"), began: Instant::now() })
    }

    fn open_gate(&self, gate: &str, answer: &str) -> Result<(), VerifyError> {
        let path = self.path(gate);
        if files::exists(&path) { Ok(()) } else { Ok(files::write(&path, answer)?) }
    }

    /// Plays the oracle to its end.
    fn oracle(&self, cases: &[ScheduledCase]) -> Result<Oracle, VerifyError> {
        let oracle = self.play_oracle(cases);
        // A candidate that still waits has nothing to wait for.
        for gate in [BEGIN, "candidate.gate"] {
            self.open_gate(gate, if oracle.is_ok() { GO } else { STOP })?;
        }
        oracle
    }

    fn oracle_job(&self, cases: &[ScheduledCase]) -> OracleJob {
        OracleJob {
            seed: self.seed,
            threads: self.threads,
            behind: self.behind,
            // Beside calls that are timed the GPU is theirs.
            on_gpu: self.device == Device::Cuda && !self.behind,
            reference: self.reference.source(),
            function: self.op.reference.function.to_string(),
            gradient: self
                .op
                .gradient
                .as_ref()
                .and_then(|gradient| Some(gradient.function.as_ref()?.to_string())),
            gate: self.text("oracle.gate"),
            inputs_dir: self.text("inputs"),
            expected_dir: self.text("expected"),
            cases: cases.iter().map(|case| case.for_oracle(self.explained(case))).collect(),
        }
    }

    fn play_oracle(&self, cases: &[ScheduledCase]) -> Result<Oracle, VerifyError> {
        let job = Job::Oracle(self.oracle_job(cases));
        let mut oracle = Oracle {
            inputs: vec![],
            baselines: vec![],
            undefined: vec![],
            no_baseline: None,
            expected: BTreeSet::new(),
            environment: Environment::default(),
        };
        let mut failed = None;
        let ended = self.play(job, Limits::wall(ORACLE), &mut |event| match event {
            Event::Started { torch, python } => {
                oracle.environment.torch = Some(torch);
                oracle.environment.python = Some(python);
                // It has loaded the harness and the reference, so nothing that a package writes reaches it.
                failed = self.open_gate(BEGIN, GO).err();
            }
            Event::InputsReady {} => match self.input_digests(cases) {
                Ok(inputs) => {
                    oracle.inputs = inputs;
                    failed = self.open_gate("candidate.gate", GO).err().or(failed.take());
                }
                Err(error) => failed = Some(error),
            },
            Event::NoReference { case, error } => {
                let case = case.and_then(|place| cases.get(place));
                let when = case.map_or_else(
                    || "when it is loaded".to_owned(),
                    |case| match case.drawn {
                        true => format!("on lengths drawn within op.toml's bounds, `{}`", case.id),
                        false => format!("on the workload `{}`", case.id),
                    },
                );
                failed.get_or_insert(VerifyError::Reference { when, exception: error });
            }
            Event::NoBaseline { reason } => {
                oracle.no_baseline.get_or_insert(reason);
            }
            Event::Expected { case, set, baseline, undefined, digests } => {
                oracle.baselines.extend(baseline.then_some((case, set)));
                oracle.undefined.extend(undefined.then_some((case, set)));
                oracle.expected.extend(digests);
            }
            _ => {}
        })?;
        match failed {
            Some(error) => Err(error),
            None if ended.complete() => Ok(oracle),
            None => Err(VerifyError::Harness {
                role: "oracle",
                ending: ended.process.ending.to_string(),
                output: ended.last_words(),
            }),
        }
    }

    fn input_digests(&self, cases: &[ScheduledCase]) -> Result<Vec<(String, Digest)>, VerifyError> {
        let names = cases.iter().flat_map(|case| {
            case.sets.iter().enumerate().flat_map(|(set, chosen)| {
                let weights = chosen.gradient.then(|| cotangents(case.place, set));
                std::iter::once(inputs(case.place, set)).chain(weights)
            })
        });
        names
            .map(|name| {
                let digest = Digest::blake3(&files::read(&self.path(&name))?);
                Ok((name, digest))
            })
            .collect()
    }

    /// The inputs of one set, and whether they are still what the oracle wrote; so must be what gradients are weighed
    /// with, where they are.
    pub(crate) fn inputs(
        &self,
        oracle: &Oracle,
        place: usize,
        set: usize,
        gradient: bool,
    ) -> Result<(Vec<u8>, bool), VerifyError> {
        let genuine = |name: &str, bytes: &[u8]| {
            let digest = Digest::blake3(bytes);
            oracle.inputs.iter().any(|(known, expected)| known == name && *expected == digest)
        };
        let name = inputs(place, set);
        let bytes = files::read(&self.path(&name))?;
        let mut untouched = genuine(&name, &bytes);
        if gradient {
            let name = cotangents(place, set);
            untouched &= genuine(&name, &files::read(&self.path(&name))?);
        }
        Ok((bytes, untouched))
    }

    /// The exact results of one set, or its exact gradients.
    pub(crate) fn expected(&self, place: usize, set: usize, gradient: bool) -> Result<Vec<f64>, VerifyError> {
        Ok(numbers::doubles(&self.expected_bytes(place, set, gradient)?))
    }

    /// As [`Self::expected`]; nothing where they are not what the oracle wrote.
    pub(crate) fn expected_by(
        &self,
        oracle: &Oracle,
        place: usize,
        set: usize,
        gradient: bool,
    ) -> Result<Option<Vec<f64>>, VerifyError> {
        let bytes = self.expected_bytes(place, set, gradient)?;
        let digest = hex(&Sha256::digest(&bytes));
        Ok(oracle.expected.contains(&digest).then(|| numbers::doubles(&bytes)))
    }

    fn expected_bytes(&self, place: usize, set: usize, gradient: bool) -> Result<Vec<u8>, VerifyError> {
        let kind = if gradient { ".gradient" } else { "" };
        Ok(files::read(&self.path(&format!("expected/{place}-{set}{kind}.bin")))?)
    }

    /// The bounds of a case's outputs.
    pub(crate) fn bounds(&self, case: &Case) -> Vec<Bound> {
        case.outputs.iter().map(|output| self.bound(output.dtype, case.accumulated)).collect()
    }

    fn bound(&self, output: Dtype, accumulated: u64) -> Bound {
        let tolerance = &self.op.tolerance;
        let (accumulate, roundings) = (tolerance.accumulate.value, tolerance.roundings.value);
        let bound = Bound::new(output, accumulate, roundings, accumulated);
        if tolerance.from_rounded { bound.with_rounded_terms() } else { bound }
    }

    /// What the bound explains for each unit of the size of terms, for the outputs of a package that calls PyTorch's operators.
    fn explained(&self, case: &ScheduledCase) -> Vec<f64> {
        if self.op.forward.is_none() {
            return Vec::new();
        }
        case.outputs.iter().map(|output| self.bound(output.dtype, case.accumulated).of_each_term()).collect()
    }

    /// The bounds of a case's gradients.
    pub(crate) fn gradient_bounds(&self, case: &Case, scheduled: &ScheduledCase) -> Vec<Bound> {
        let tolerance = &self.op.tolerance;
        let from_rounded = self.op.gradient.as_ref().is_some_and(|gradient| gradient.from_rounded);
        let elements = |tensor: &TensorSpec| tensor.elements() as u64;
        let largest = scheduled.outputs.iter().map(elements).max().unwrap_or(1);
        scheduled
            .gradients
            .iter()
            .map(|GradientSpec { tensor, .. }| {
                let broadcast = largest.div_ceil(elements(tensor).max(1));
                let terms = case.accumulated.saturating_add(broadcast);
                let (accumulate, roundings) = (tolerance.accumulate.value, tolerance.roundings.value);
                let bound = Bound::of_gradient(tensor.dtype, accumulate, roundings, terms);
                if from_rounded { bound.with_rounded_terms() } else { bound }
            })
            .collect()
    }

    /// Inputs, dumps and float64 results of a schedule must fit beside each other.
    fn check_space(&self, cases: &[ScheduledCase]) -> Result<(), VerifyError> {
        let bytes = |tensors: &[TensorSpec]| -> usize { tensors.iter().map(TensorSpec::bytes).sum() };
        let needed: usize = cases
            .iter()
            .map(|case| {
                // Inputs with strides are up to about three times as long; most trials have none.
                let strided = case.trials.iter().filter(|trial| !trial.strides.is_empty()).count();
                // Dumps of a package have the inputs only if an output overwrites one. Device code returns nothing.
                let overwrites = (0..case.inputs.len()).any(|place| case.overwrites(place));
                let dumps_inputs = overwrites || case.trials.iter().all(|trial| trial.form == Form::Out);
                let dump = if dumps_inputs { bytes(&case.inputs) } else { 0 } + bytes(&case.outputs);
                let guards: usize = case.trials.iter().map(|trial| 3 * trial.guard).sum();
                let guards = guards * (case.inputs.len() + case.outputs.len());
                let outputs: usize = case.outputs.iter().map(TensorSpec::elements).sum();
                let gradients: usize = case.gradients.iter().map(|one| one.tensor.elements()).sum();
                let set = bytes(&case.inputs) + bytes(&case.outputs) + 8 * (outputs + gradients);
                case.trials.len() * dump + 2 * strided * bytes(&case.inputs) + guards + case.sets.len() * set
            })
            .sum();
        match files::free_space(self.folder.path()) {
            Some(free) if free < needed as u64 => Err(VerifyError::Scratch {
                needed: report::bytes(needed as u64),
                folder: self.folder.path().display().to_string(),
                free: report::bytes(free),
            }),
            _ => Ok(()),
        }
    }
}

/// The seed of a run: `asked`, or a random one. Every JSON reader keeps its 53 bits.
pub(crate) fn seed(asked: Option<u64>) -> u64 {
    asked.unwrap_or_else(|| random::seed() >> 11)
}

/// The file of a set's inputs.
fn inputs(place: usize, set: usize) -> String {
    format!("inputs/{place}-{set}.bin")
}

/// The file of what a set's gradients are weighed with.
fn cotangents(place: usize, set: usize) -> String {
    format!("inputs/{place}-{set}.cotangents.bin")
}

#[cfg(test)]
#[path = "stage_tests.rs"]
mod tests;
