//! All cases of a package: the process of the kernel, that of the baselines, and one for the tracer.
//!
//! Owns: these processes, and the rounds of each case. Never: orders blocks, makes a measurement.

use std::path::Path;

use kernel_plan::spec::op::{Case, Device};

use super::in_starts::Processes;
use super::{CaseEnd, Subject};
use crate::base::random;
use crate::base::session::Session;
use crate::base::{env, files, memory};
use crate::bench::contender::{CallTracer, Fault, Referee, Timer};
use crate::bench::cupti::Cupti;
use crate::bench::error::BenchError;
use crate::bench::options::{MeasurementStore, Outcome};
use crate::bench::python::{self, Machine, Part, PythonTimer};
use crate::bench::rounds::{self, Finding, Rounds, Stop};
use crate::bench::skip::SkipReason;
use crate::bench::stats::SplitMix;
use crate::toolchain::PythonRuntime;

/// Measures every case; the first refusal ends it when all were tried.
pub(in crate::bench) fn run_package(
    subject: &Subject<'_>,
    python: &PythonRuntime,
    kept: &mut dyn MeasurementStore,
    session: &Session,
) -> Result<Outcome, BenchError> {
    // Where the folder cannot be made, torch falls back to its own.
    let _own = files::create_dirs(&session.cache);
    let folder = memory::scratch(subject.outputs_bytes())?;
    let line = || python::command(python.command(), &session.cache, &env::temp_dir());
    let mut baselines = PythonTimer::new(subject.timed(python, line(), subject.baseline_job()))?;
    let mut kernel = PythonTimer::new(subject.timed(python, line(), subject.candidate_job(folder.path())))?;
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
        return Ok(Outcome::Skipped(SkipReason::NoDevice(reason)));
    }
    let mut tracer = PythonTimer::new(Part::in_python(python, line(), subject.candidate_job(folder.path())))?;
    let tracer: Option<&mut dyn CallTracer> =
        if subject.device == Device::Cuda { Some(&mut tracer) } else { None };
    let timers = Timers { kernel: &mut kernel, baselines: &mut baselines, tracer };
    subject.measure(timers, machine, folder.path(), kept, session)
}

/// The processes that measure a package, or what stands for them in a test.
pub(super) struct Timers<'a> {
    pub(super) kernel: &'a mut dyn Timer,
    pub(super) baselines: &'a mut dyn Referee,
    pub(super) tracer: Option<&'a mut dyn CallTracer>,
}

impl Subject<'_> {
    /// Measures every case; outputs of calls are files of `folder`.
    pub(super) fn measure<'a>(
        &'a self,
        timers: Timers<'a>,
        machine: Machine,
        folder: &'a Path,
        kept: &mut dyn MeasurementStore,
        session: &Session,
    ) -> Result<Outcome, BenchError> {
        let mut processes = Packaged { subject: self, timers, folder, threads: machine.threads };
        self.each_start(machine, &mut processes, kept, session)
    }
}

/// The processes that measure a package, with all that a case needs.
struct Packaged<'a, 'b> {
    subject: &'a Subject<'b>,
    timers: Timers<'a>,
    folder: &'a Path,
    threads: u64,
}

impl Processes for Packaged<'_, '_> {
    fn renew(&mut self) -> Result<(), BenchError> {
        self.timers.kernel.renew()?;
        Ok(self.timers.baselines.renew()?)
    }

    fn case(&mut self, case: &Case, traced: Option<&Cupti>) -> Result<CaseEnd, BenchError> {
        let subject = self.subject;
        let mut rounds = Rounds {
            kernel: &mut *self.timers.kernel,
            baselines: &mut *self.timers.baselines,
            tracer: self.timers.tracer.as_mut().map(|tracer| &mut **tracer as &mut dyn CallTracer),
            traced: traced.cloned(),
            random: SplitMix(random::seed() ^ subject.options.seed),
            folder: self.folder,
            budget: subject.budget(),
            regimes: subject.options.regimes(),
            threads: self.threads,
            idle: rounds::IDLE,
        };
        match rounds.measure(case) {
            Ok(rounds::Outcome::Measured(found)) => Ok(CaseEnd::Measured(Box::new(found), None)),
            Ok(rounds::Outcome::Skipped(reason)) => Ok(CaseEnd::Skipped(reason)),
            Err(stop @ Stop::Refused(..)) => Ok(CaseEnd::Refused(stop)),
            Err(stop) => Err(subject.error(&case.id, stop)),
        }
    }
}
