//! Measures verified artifacts against PyTorch: eager, its fused operator, torch.compile, and a copy as the ceiling.
//!
//! Owns: which cases are measured, what samples mean (paired ratios with intervals), what a measurement records.
//! Never: compiles, judges correctness beyond what was timed, writes files, changes clocks.
//!
//! The kernel and the baselines are in two processes, so that neither can touch the other, the reference, or the clock of
//! this program; one runs at a time. `rounds` asks for blocks of samples in a new random order each time, on contents that
//! are new in every block, until the ratios are known (`stats`) or the budget is spent. Each contender allocates what it
//! returns, as a caller of PyTorch would have it. What a process says of time is held against two other clocks (`clock`),
//! outputs of timed calls against the reference in float64, and what comes after the kernel against what came before it
//! (`state`): a kernel that is fast because it does not compute, or lies, is an error and not a record.

mod candidate;
pub(crate) mod ceilings;
mod clock;
mod contender;
pub mod cupti;
mod device;
pub mod dispatch;
pub(crate) mod drawn;
mod error;
pub(crate) mod impossible;
pub(crate) mod known;
pub(crate) mod machine;
pub(crate) mod ncu;
mod options;
mod outputs;
pub(crate) mod paired;
mod python;
mod record;
pub mod render;
pub mod report;
pub mod reproduce;
mod rounds;
mod run;
mod samples;
mod sass;
pub(crate) mod screen;
mod skip;
mod starts;
mod state;
pub(crate) mod stats;
pub mod trace;
mod traced;
mod unmeasured;

use std::collections::BTreeMap;
use std::path::Path;

use kernel_plan::spec::OpSpec;
use kernel_plan::spec::op::{Case, Device, Purpose};

pub use candidate::{Candidate, CandidateKind, Code, KernelFacts, Setting};
pub use drawn::Draw;
pub use error::BenchError;
pub use options::{
    ENOUGH_STARTS, KeepNothing, MeasurementStore, OPTIONAL_RIVALS, Options, Outcome, REGIMES, starts_on,
};
pub(crate) use record::multiplies;
pub use record::{
    Clocks, Contender, Cpu, Measurement, PROTOCOL, Ratio, Roofline, RunContext, SkippedContender,
};
pub use sass::Sass;
pub use skip::SkipReason;
pub use unmeasured::Unmeasured;

use crate::base::session::Session;
use crate::compile::artifact::Artifact;
use crate::compile::nvrtc::Compiler;
use crate::toolchain::PythonRuntime;
use crate::verify::device::DeviceCandidate;
use crate::verify::{ReferenceFile, Verified};

use run::Subject;
pub(crate) use run::on_device::MeasurementAhead;

/// Measures one verified artifact on every case that op.toml has for its device, once in each start of the processes. Each
/// case of a start is kept as soon as it is measured; those that `kept` knows are not measured again.
///
/// # Errors
/// When the kernel computes wrong numbers while it is timed, escapes its stream, lies about time, takes less time than
/// the machine allows, or raises; when a workload in
/// `options` does not exist; when the process dies. That the device is not here is [`Outcome::Skipped`].
pub fn measure(
    artifact: &Verified<Artifact>,
    op: &OpSpec,
    project: &Path,
    python: &PythonRuntime,
    options: &Options,
    kept: &mut dyn MeasurementStore,
    session: &Session,
) -> Result<Outcome, BenchError> {
    let artifact = artifact.inner();
    let Some(device) =
        [Device::Cpu, Device::Cuda].into_iter().find(|device| device.as_str() == artifact.backend)
    else {
        return Ok(Outcome::Skipped(SkipReason::Backend(artifact.backend.clone())));
    };
    let cases = select(op, device, options)?;
    if cases.is_empty() {
        return Ok(Outcome::Skipped(SkipReason::NoWorkload(device)));
    }
    let reference = ReferenceFile::read(op, project)?;
    run::of_package::run_package(
        &Subject { artifact, op, project, reference, device, cases, options },
        python,
        kept,
        session,
    )
}

/// What is measured of device code, and with what.
pub(crate) struct OfDevice<'a> {
    /// What its records name.
    pub(crate) artifact: &'a Artifact,
    /// The code, as it is tuned.
    pub(crate) candidate: &'a DeviceCandidate<'a>,
    pub(crate) python: &'a PythonRuntime,
    pub(crate) options: &'a Options,
}

impl<'a> OfDevice<'a> {
    fn subject(&self) -> Result<Subject<'a>, BenchError> {
        let cases = select(self.candidate.op, Device::Cuda, self.options)?;
        let (op, project) = (self.candidate.op, self.candidate.project);
        let (artifact, options) = (self.artifact, self.options);
        let reference = ReferenceFile::read(op, project)?;
        Ok(Subject { artifact, op, project, reference, device: Device::Cuda, cases, options })
    }

    /// Begins what takes long and is neither timed nor in the way of a judge: PyTorch's start, what is expected of the
    /// first case.
    ///
    /// # Errors
    /// A workload is unknown, or nothing can be written.
    pub(crate) fn begin<'scope>(
        &self,
        scope: &'scope std::thread::Scope<'scope, 'a>,
        session: &Session,
    ) -> Result<MeasurementAhead<'scope>, BenchError> {
        MeasurementAhead::begin(scope, &self.subject()?, self.python, session)
    }

    /// Measures device code that was judged.
    ///
    /// # Errors
    /// As [`measure`].
    pub(crate) fn measure(
        &self,
        compiler: &Compiler,
        begun: MeasurementAhead<'_>,
        kept: &mut dyn MeasurementStore,
        session: &Session,
    ) -> Result<Outcome, BenchError> {
        let subject = self.subject()?;
        if subject.cases.is_empty() {
            return Ok(Outcome::Skipped(SkipReason::NoWorkload(Device::Cuda)));
        }
        run::on_device::run_device(&subject, self.candidate, compiler, self.python, begun, kept, session)
    }
}

/// Seconds that the arithmetic of a case takes at the highest rate of matrix products that was measured on a device, in
/// 10^12 operations a second by dtype; `None` for what is no such product, or of a dtype that was not measured.
pub(crate) fn least_seconds(op: &OpSpec, case: &Case, peaks: &BTreeMap<String, f64>) -> Option<f64> {
    let operations = record::operations(op, case)?;
    let peak = peaks.get(&record::operands_of(case)?.to_string())?;
    Some(operations / (peak * 1e12))
}

/// Refuses a run in which samples were taken and no figure is a result; figures of `hot` are for information.
///
/// # Errors
/// Missing results of the first measurement.
pub fn refuse_unmeasured(measured: &[Measurement]) -> Result<(), BenchError> {
    let sampled = measured.iter().find(|one| one.contender(samples::KERNEL).is_some());
    match sampled {
        Some(first) if !measured.iter().any(|one| one.is_result() && one.has_results()) => {
            Err(BenchError::NotMeasured { missing: render::unmeasured(first).join("; ") })
        }
        _ => Ok(()),
    }
}

/// The cases to measure: drawn ones, those of the named workloads, or those of all workloads. A name may also be that of a
/// drawn case.
///
/// # Errors
/// A name is unknown, or no case can be drawn.
pub(crate) fn select(op: &OpSpec, device: Device, options: &Options) -> Result<Vec<Case>, BenchError> {
    if let Some(draw) = options.drawn {
        return drawn::cases(op, device, draw);
    }
    let names = &options.workloads;
    let mut cases = op.cases(Purpose::Bench, device);
    if names.is_empty() {
        return Ok(cases);
    }
    refuse_unknown(op, options)?;
    let mut drawn: Vec<Case> = Vec::new();
    for name in names.iter().filter(|name| cases.iter().all(|case| case.workload.as_str() != **name)) {
        if drawn.iter().all(|case| case.workload.as_str() != name) {
            drawn.extend(drawn::named(op, device, name));
        }
    }
    cases.retain(|case| names.iter().any(|name| case.workload.as_str() == name));
    cases.extend(drawn);
    Ok(cases)
}

/// Refuses options that select no case, before anything that takes long: a name that is not that of a case, and drawing
/// where op.toml allows no case on any device.
///
/// # Errors
/// The name, with those that there are; or why nothing is drawn.
pub fn refuse_unknown(op: &OpSpec, options: &Options) -> Result<(), BenchError> {
    if let Some(draw) = options.drawn {
        let draw = Draw { count: 1, ..draw };
        let mut ends = Device::ALL.iter().map(|device| drawn::cases(op, *device, draw));
        let is_drawn =
            |end: &Result<Vec<Case>, BenchError>| end.as_ref().is_ok_and(|cases| !cases.is_empty());
        if ends.clone().any(|end| is_drawn(&end)) {
            return Ok(());
        }
        return ends.find(Result::is_err).map_or(Ok(()), |end| end.map(drop));
    }
    // A name may belong to another device, and then an artifact has nothing to do; a name of no device is a mistake.
    let elsewhere: Vec<Case> =
        Device::ALL.iter().flat_map(|device| op.cases(Purpose::Bench, *device)).collect();
    for name in &options.workloads {
        let is_drawn = || Device::ALL.iter().any(|device| !drawn::named(op, *device, name).is_empty());
        if !elsewhere.iter().any(|case| case.workload.as_str() == name) && !is_drawn() {
            let mut known: Vec<&str> = elsewhere.iter().map(|case| case.workload.as_str()).collect();
            known.dedup();
            let known = known.join(", ");
            return Err(BenchError::UnknownWorkload { name: name.clone(), known });
        }
    }
    Ok(())
}
