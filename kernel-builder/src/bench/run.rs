//! All cases of one artifact: two processes, one after the other asked, and what they say as measurements.
//!
//! Owns: what is told while it runs, what each process is given, how samples become a [`Measurement`].
//! Never: orders blocks, compares values.

use std::collections::BTreeMap;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::path::Path;
use std::time::{Duration, Instant};

use kernel_plan::spec::OpSpec;
use kernel_plan::spec::op::{Case, Device};
use kernel_plan::units::Dtype;
use serde_json::{Value, json};

use crate::base::report::{Event, Progress, ProgressKind};
use crate::base::session::Session;
use crate::base::{env, files, memory};
use crate::compile::artifact::Artifact;
use crate::toolchain::PythonRuntime;

use super::candidate::Candidate;
use super::contender::{Fault, Referee, Timer, Traced};
use super::impossible::{self, Rates};
use super::python::{self, Machine, Part, PythonTimer};
use super::record::{self, Contender, Measurement, PROTOCOL};
use super::rounds::{self, Finding, MeasuredCase, Rounds, Samples, Stop};
use super::stats::SplitMix;
use super::{BenchError, Keep, Options, Outcome, machine, render, stats};

pub(super) mod on_device;

/// The order in which contenders are recorded.
const ORDER: [&str; 10] = [
    "kernel",
    "eager",
    "fused",
    "compile",
    "compile-max",
    "cublaslt",
    "cublaslt-tuned",
    "cublaslt-turned",
    "copy",
    "peak",
];

/// What is measured, and where it comes from.
pub(super) struct Subject<'a> {
    pub(super) artifact: &'a Artifact,
    pub(super) op: &'a OpSpec,
    pub(super) project: &'a Path,
    pub(super) device: Device,
    pub(super) cases: Vec<Case>,
    pub(super) options: &'a Options,
}

/// A word that nobody can guess; the standard library draws the keys of its hash maps from the operating system.
pub(super) fn nonce() -> String {
    format!("{:016x}{:016x}", secret(), secret())
}

fn secret() -> u64 {
    RandomState::new().build_hasher().finish()
}

impl Subject<'_> {
    /// What both processes are told.
    fn job(&self) -> Value {
        let dtypes: BTreeMap<_, _> =
            Dtype::ALL.iter().map(|dtype| (dtype.as_str(), dtype.torch_name())).collect();
        json!({
            "device": self.device,
            "threads": self.options.threads.unwrap_or_else(env::processors),
            "dtypes": dtypes,
        })
    }

    /// What only the process of the baselines is told.
    fn baseline_job(&self) -> Value {
        let mut job = self.job();
        let reference = &self.op.reference;
        job["reference"] = json!({
            "file": env::absolute(&self.project.join(reference.file.value.as_str())).display().to_string(),
            "function": reference.function.value.to_string(),
            "fused": reference.fused.as_ref().map(|fused| fused.value.to_string()),
        });
        let tolerance = &self.op.tolerance;
        job["without"] = json!(self.options.without);
        job["tolerance"] = json!({
            "accumulate": tolerance.accumulate.value,
            "roundings": tolerance.roundings.value,
        });
        job
    }

    /// What only the candidate's process is told.
    fn candidate_job(&self) -> Value {
        let mut job = self.job();
        job["package"] = json!(env::absolute(&self.artifact.dir).display().to_string());
        job["id"] = json!(self.artifact.id);
        job["call"] = json!(self.op.call.function.value.to_string());
        job
    }
}

/// Measures every case; the first refusal ends it when all were tried.
pub(super) fn run(
    subject: &Subject<'_>,
    python: &PythonRuntime,
    kept: &mut dyn Keep,
    session: &Session,
) -> Result<Outcome, BenchError> {
    // Where the folder cannot be made, torch falls back to its own.
    let _own = files::create_dirs(&session.cache);
    let line = || python::command(python.command(), &session.cache, &env::temp_dir());
    let mut baselines = PythonTimer::new(Part::of(python, "baseline", line(), subject.baseline_job()))?;
    let mut kernel = PythonTimer::new(Part::of(python, "candidate", line(), subject.candidate_job()))?;
    let machine = match baselines.machine() {
        Ok(machine) => machine,
        Err(fault) => {
            let stop = match fault {
                Fault::Raised(reason) => Stop::Refused(Finding::Raised, reason),
                fault => Stop::Fault { of: "baselines", fault },
            };
            return Err(subject.error("its start", stop));
        }
    };
    if let Some(reason) = machine.reason {
        return Ok(Outcome::Skipped(reason));
    }
    let mut tracer = PythonTimer::new(Part::of(python, "candidate", line(), subject.candidate_job()))?;
    let tracer: Option<&mut dyn Traced> =
        if subject.device == Device::Cuda { Some(&mut tracer) } else { None };
    subject.measure(&mut kernel, &mut baselines, tracer, machine, kept, session)
}

/// How a case ended that did not end everything.
enum CaseEnd {
    /// With numbers; of device code, with what was measured.
    Measured(Box<MeasuredCase>, Option<Candidate>),
    /// There is no room for it; the reason.
    Skipped(String),
    /// The kernel is refused.
    Refused(Stop),
}

impl Subject<'_> {
    fn measure(
        &self,
        kernel: &mut dyn Timer,
        baselines: &mut dyn Referee,
        mut tracer: Option<&mut dyn Traced>,
        machine: Machine,
        kept: &mut dyn Keep,
        session: &Session,
    ) -> Result<Outcome, BenchError> {
        let folder = memory::scratch(self.outputs_bytes())?;
        let mut one = |case: &Case, machine: &Machine| {
            let mut rounds = Rounds {
                kernel: &mut *kernel,
                baselines: &mut *baselines,
                tracer: tracer.as_mut().map(|tracer| &mut **tracer as &mut dyn Traced),
                random: SplitMix(secret() ^ self.options.seed),
                folder: folder.path(),
                budget: Duration::try_from_secs_f64(self.options.budget).unwrap_or(Duration::MAX),
                threads: machine.threads,
                idle: rounds::IDLE,
            };
            match rounds.measure(case) {
                Ok(rounds::Outcome::Measured(found)) => Ok(CaseEnd::Measured(Box::new(found), None)),
                Ok(rounds::Outcome::Skipped(reason)) => Ok(CaseEnd::Skipped(reason)),
                Err(stop @ Stop::Refused(..)) => Ok(CaseEnd::Refused(stop)),
                Err(stop) => Err(self.error(&case.id, stop)),
            }
        };
        self.each_case(machine, kept, session, &mut one)
    }

    /// Every case in turn, each kept as soon as it is measured; those that are kept already are not measured again. The
    /// first refusal ends it when all were tried.
    fn each_case(
        &self,
        machine: Machine,
        kept: &mut dyn Keep,
        session: &Session,
        one: &mut dyn FnMut(&Case, &Machine) -> Result<CaseEnd, BenchError>,
    ) -> Result<Outcome, BenchError> {
        let progress =
            session.report.progress("measuring", ProgressKind::Count, Some(self.cases.len() as u64));
        let mut watch = machine::Watch::start();
        let run = Run { subject: self, session, progress, machine };
        let (mut measured, mut refusal) = (Vec::new(), None);
        for case in &self.cases {
            let since = Instant::now();
            let known = run.known(case, kept.known());
            if !known.is_empty() {
                session.report.note(format!("{} was measured by a run that was interrupted", case.id));
                measured.extend(known);
                run.progress.add(1);
                continue;
            }
            let end = one(case, &run.machine);
            // What was read of the GPU is of this case alone, however it ended.
            let gpu = run.machine.device.as_ref().and_then(|device| watch.take(device));
            match end {
                Ok(CaseEnd::Measured(found, candidate)) => {
                    if let Some(reason) = run.impossible(case, &found, gpu.as_ref()) {
                        let stop = Stop::Refused(Finding::Impossible, reason);
                        refusal.get_or_insert(self.error(&case.id, stop));
                        run.progress.add(1);
                        continue;
                    }
                    let made = run.measurements(case, &found, candidate.as_ref(), gpu.as_ref(), since);
                    kept.keep(&made)?;
                    measured.extend(made);
                }
                Ok(CaseEnd::Skipped(reason)) => {
                    session.report.note(format!("{} was not measured: {reason}", case.id));
                }
                Ok(CaseEnd::Refused(stop)) => {
                    refusal.get_or_insert(self.error(&case.id, stop));
                }
                Err(error) => return Err(refusal.unwrap_or(error)),
            }
            run.progress.add(1);
        }
        refusal.map_or(Ok(Outcome::Measured(measured)), Err)
    }

    /// Inputs and outputs of the two calls that are compared at a time, for the largest case.
    fn outputs_bytes(&self) -> u64 {
        let bytes = |case: &Case| -> u64 {
            let tensors = case.inputs.iter().chain(&case.outputs);
            tensors
                .map(|tensor| {
                    tensor.shape.iter().product::<u64>().saturating_mul(tensor.dtype.size_bytes() as u64)
                })
                .sum()
        };
        2 * self.cases.iter().map(bytes).max().unwrap_or(0)
    }

    fn error(&self, case: &str, stop: Stop) -> BenchError {
        let (variant, case) = (self.artifact.variant.clone(), case.to_owned());
        match stop {
            Stop::Refused(Finding::Wrong, reason) => BenchError::WrongWhileTimed { variant, case, reason },
            Stop::Refused(Finding::Escape, reason) => BenchError::StreamEscape { variant, case, reason },
            Stop::Refused(Finding::Clock, reason) => BenchError::Clock { variant, case, reason },
            Stop::Refused(Finding::Impossible, reason) => BenchError::Impossible { variant, case, reason },
            Stop::Refused(Finding::State, reason) => BenchError::State { variant, case, reason },
            Stop::Refused(Finding::Raised, reason) => BenchError::Raised { variant, case, reason },
            Stop::Fault { fault: Fault::Process(error), .. } => error.into(),
            Stop::Fault { fault: Fault::Raised(reason), .. } => BenchError::Raised { variant, case, reason },
            Stop::Fault { of, fault: Fault::Gone { ending, output } } => {
                BenchError::Process { of, variant, case, ending, output }
            }
        }
    }
}

/// What measurements share.
struct Run<'a> {
    subject: &'a Subject<'a>,
    session: &'a Session,
    progress: Progress,
    machine: Machine,
}

impl Run<'_> {
    /// What is known of a case from a run like this one.
    fn known(&self, case: &Case, earlier: &[Measurement]) -> Vec<Measurement> {
        let Machine { torch, python, .. } = &self.machine;
        let (dtype, device) = (dtype_of(case), self.device());
        let axes = record::axes(self.subject.op, case);
        let same = |one: &&Measurement| {
            one.workload == case.workload.as_str()
                && (&one.dtype, &one.axes, &one.device) == (&dtype, &axes, &device)
                && (&one.torch, &one.python, one.protocol) == (torch, python, PROTOCOL)
        };
        earlier.iter().filter(same).cloned().collect()
    }

    /// What is measured on, as records call it.
    fn device(&self) -> String {
        let gpu = self.machine.device.clone().filter(|_| self.subject.device != Device::Cpu);
        gpu.unwrap_or_else(|| machine::cpu(self.machine.threads, None).model)
    }

    /// Why a figure of a case is beyond the machine, if one is.
    fn impossible(&self, case: &Case, found: &MeasuredCase, gpu: Option<&machine::Gpu>) -> Option<String> {
        let subject = self.subject;
        let rates = Rates {
            memory: gpu.and_then(|gpu| gpu.memory_bandwidth),
            l2: self.machine.l2,
            matrix: subject.options.about.matrix_limit.clone(),
            headroom: gpu.and_then(|gpu| gpu.clocks.headroom()),
        };
        impossible::measured(&found.regimes, found.sets, &rates.bounds(subject.op, case))
    }

    fn measurements(
        &self,
        case: &Case,
        measured: &MeasuredCase,
        candidate: Option<&Candidate>,
        gpu: Option<&machine::Gpu>,
        since: Instant,
    ) -> Vec<Measurement> {
        let of = |regime| {
            let mut one = self.measurement(case, measured, regime, gpu);
            one.candidate = candidate.cloned().or(one.candidate);
            one
        };
        let made: Vec<Measurement> = measured.regimes.iter().map(of).collect();
        for measurement in &made {
            self.tell(measurement, since);
        }
        made
    }

    fn measurement(
        &self,
        case: &Case,
        measured: &MeasuredCase,
        regime: &Samples,
        gpu: Option<&machine::Gpu>,
    ) -> Measurement {
        let (subject, machine) = (self.subject, &self.machine);
        let contenders: Vec<Contender> = ORDER
            .iter()
            .filter_map(|name| {
                let samples = regime.samples.get(*name)?.clone();
                Some(Contender {
                    name: (*name).to_owned(),
                    median_seconds: stats::median(&samples)?,
                    calls: regime.calls.get(*name).copied().unwrap_or(1),
                    samples,
                })
            })
            .collect();
        let cpu = machine::cpu(machine.threads, regime.crowded);
        let on_host = subject.device == Device::Cpu;
        let gpu = gpu.filter(|_| !on_host);
        let about = &subject.options.about;
        let peak = record::operands_of(case).and_then(|dtype| about.matrix_peak.get(dtype.as_str()).copied());
        let roofline =
            record::roofline(&contenders, measured.bytes, record::operations(subject.op, case), peak);
        let capability = gpu.and_then(|gpu| gpu.capability);
        Measurement {
            protocol: PROTOCOL,
            artifact: subject.artifact.digest,
            variant: subject.artifact.variant.clone(),
            op: subject.op.name.value.to_string(),
            workload: case.workload.to_string(),
            weight: case.weight,
            held_out: case.held_out,
            dtype: dtype_of(case),
            regime: regime.regime.as_str().to_owned(),
            device: self.device(),
            date: machine::today(),
            ratios: record::ratios(&contenders),
            copy_fraction: record::copy_fraction(&contenders),
            bytes: measured.bytes,
            // A case whose timed outputs are wrong is refused.
            checked: true,
            // The evidence knows; who brings both together says so.
            contenders,
            skipped: regime.skipped.clone(),
            notes: about.notes.iter().chain(&measured.notes).cloned().collect(),
            driver: gpu.and_then(|gpu| gpu.driver.clone()),
            throttled: gpu.is_some_and(|gpu| machine::throttled(&gpu.clocks)),
            clocks: gpu.map(|gpu| gpu.clocks.clone()),
            cpu,
            torch: machine.torch.clone(),
            python: machine.python.clone(),
            commit: subject.options.commit.clone(),
            axes: record::axes(subject.op, case),
            candidate: about.candidate.as_ref().map(|candidate| candidate.on(capability)),
            roofline,
            lint: about.lint.clone(),
            cupti: measured.cupti.clone(),
            budget: Some(subject.options.budget),
        }
    }

    fn tell(&self, measurement: &Measurement, since: Instant) {
        let ratios: Vec<String> =
            measurement.ratios.iter().map(|ratio| format!("{:.2}x {}", ratio.ratio, ratio.versus)).collect();
        self.session.report.emit(&Event::Done {
            action: "measured",
            subject: &format!("{} {} {}", measurement.workload, measurement.dtype, measurement.regime),
            detail: &match measurement.contender("kernel") {
                Some(kernel) => format!("{}, {}", render::time(kernel.median_seconds), ratios.join(", ")),
                None => "the kernel could not be timed in this regime".to_owned(),
            },
            seconds: since.elapsed().as_secs_f64(),
            cached: false,
        });
    }
}

/// The dtype that names a case: that of its type variable, all of them where there are several, else the output's.
fn dtype_of(case: &Case) -> String {
    let chosen: Vec<_> = case.dtypes.iter().collect();
    match chosen.as_slice() {
        [] => case.outputs.first().map_or_else(String::new, |output| output.dtype.to_string()),
        [(_, dtype)] => dtype.to_string(),
        several => several
            .iter()
            .map(|(variable, dtype)| format!("{variable}={dtype}"))
            .collect::<Vec<_>>()
            .join(","),
    }
}

#[cfg(test)]
#[path = "run_tests.rs"]
mod tests;
