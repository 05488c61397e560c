//! All cases of one artifact in several starts: two processes, one after the other asked, and what they say as measurements.
//!
//! Owns: what is told while it runs, what each process is given, the order of starts and cases, how samples become a
//! [`Measurement`].
//! Never: orders blocks, compares values.

use std::path::Path;
use std::time::Instant;

use kernel_plan::plan::CommandLine;
use kernel_plan::spec::OpSpec;
use kernel_plan::spec::op::{Case, Device};

use crate::base::report::{Event, Progress};
use crate::base::session::Session;
use crate::base::{date, env};
use crate::compile::artifact::Artifact;
use crate::protocol::bench::{BaselineJob, Job, KernelJob, Reference, Tolerance};
use crate::toolchain::PythonRuntime;
use crate::verify::ReferenceFile;

use super::candidate::Candidate;
use super::contender::Fault;
use super::error::BenchError;
use super::impossible::{self, Rates};
use super::options::Options;
use super::python::{Machine, Part};
use super::record::{self, Contender, Measurement, PROTOCOL};
use super::rounds::{Finding, Stop};
use super::samples::{self, MeasuredCase, Samples};
use super::skip::SkipReason;
use super::{drawn, machine, render, stats};

mod in_starts;
pub(super) mod of_package;
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
    /// The file of the reference as it was before any process of the candidate started.
    pub(super) reference: ReferenceFile,
    pub(super) device: Device,
    pub(super) cases: Vec<Case>,
    pub(super) options: &'a Options,
}

impl Subject<'_> {
    fn threads(&self) -> usize {
        self.options.threads.unwrap_or_else(env::processors)
    }

    /// The job of the process of the baselines.
    fn baseline_job(&self) -> Job {
        let (reference, tolerance) = (&self.op.reference, &self.op.tolerance);
        Job::Baseline(BaselineJob {
            device: self.device.as_str().to_owned(),
            threads: self.threads(),
            reference: Reference {
                source: self.reference.source(),
                function: reference.function.value.to_string(),
                fused: reference.fused.as_ref().map(|fused| fused.value.to_string()),
            },
            without: self.options.without.clone(),
            tolerance: Tolerance {
                accumulate: tolerance.accumulate.value,
                roundings: tolerance.roundings.value.into(),
                own_errors: self.op.forward.is_some(),
            },
        })
    }

    /// The job of the candidate's process, which leaves outputs in a folder.
    fn candidate_job(&self, outputs: &Path) -> Job {
        Job::Candidate(KernelJob {
            device: self.device.as_str().to_owned(),
            threads: self.threads(),
            package: env::absolute(&self.artifact.dir).display().to_string(),
            id: self.artifact.id.clone(),
            call: self.op.call.function.value.to_string(),
            outputs_dir: outputs.display().to_string(),
            home: None,
        })
    }
}

/// How a case ended that did not end everything.
enum CaseEnd {
    /// With numbers; of device code, with what was measured.
    Measured(Box<MeasuredCase>, Option<Candidate>),
    /// There is no room for it; the reason.
    Skipped(SkipReason),
    /// The kernel is refused.
    Refused(Stop),
}

impl Subject<'_> {
    /// A process that is timed. Forked processes have the addresses of the one that they are forked from, so of several
    /// starts each is a program of its own.
    fn timed(&self, python: &PythonRuntime, line: CommandLine, job: Job) -> Part {
        if self.starts() > 1 { Part::new(line, job) } else { Part::in_python(python, line, job) }
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
            Stop::Refused(Finding::Wrong, problem) => BenchError::WrongWhileTimed { variant, case, problem },
            Stop::Refused(Finding::Escape, problem) => BenchError::StreamEscape { variant, case, problem },
            Stop::Refused(Finding::Clock, problem) => BenchError::Clock { variant, case, problem },
            Stop::Refused(Finding::Impossible, problem) => BenchError::Impossible { variant, case, problem },
            Stop::Refused(Finding::State, problem) => BenchError::State { variant, case, problem },
            Stop::Refused(Finding::Raised, exception) => BenchError::Raised { variant, case, exception },
            Stop::Fault { fault: Fault::Process(error), .. } => error.into(),
            Stop::Fault { fault: Fault::Raised(exception), .. } => {
                BenchError::Raised { variant, case, exception }
            }
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
    /// The number of this start, from one, and how many there are.
    start: (usize, usize),
}

impl Run<'_> {
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
            date: date::today(),
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
            sampled_seconds: Some(regime.spent.as_secs_f64()),
            unmeasured: Vec::new(),
            starts: vec![regime.samples.get(samples::KERNEL).map_or(0, Vec::len) as u64],
            drawn: drawn::seed(case),
        }
    }

    fn tell(&self, measurement: &Measurement, since: Instant) {
        let measurement = &measurement.clone().settled();
        let ratios: Vec<String> =
            measurement.ratios.iter().map(|ratio| format!("{:.2}x {}", ratio.ratio, ratio.versus)).collect();
        self.session.report.emit(&Event::Done {
            action: "measured",
            subject: &format!("{} {} {}", measurement.workload, measurement.dtype, measurement.regime),
            detail: &match measurement.contender("kernel") {
                Some(_) => {
                    let time = measurement.time().map(render::time);
                    let figures = time.into_iter().chain(ratios).chain(render::unmeasured(measurement));
                    format!("{}{}", self.at(), figures.collect::<Vec<_>>().join(", "))
                }
                None => {
                    let reason = measurement.skipped.iter().find(|skipped| skipped.name == samples::KERNEL);
                    let reason = reason.map_or_else(String::new, |skipped| format!(": {}", skipped.reason));
                    format!("{}the kernel could not be timed in this regime{reason}", self.at())
                }
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
