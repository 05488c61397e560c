//! All cases of device code: the lab of each, and the process of the baselines beside it.
//!
//! Owns: what is begun before it is needed: the process of the baselines and the first case's groundwork, while the code is
//! judged and nothing is timed. Never: lays groundwork while anything is timed or tuned. Calls of PyTorch are started by
//! the processor one by one, so a busy one makes rivals slower.

use std::thread::Scope;
use std::time::Duration;

use kernel_plan::spec::op::Case;

use super::in_starts::Processes;
use super::{CaseEnd, Subject};
use crate::base::background::{BackgroundTask, TaskResult};
use crate::base::process::ProcessError;
use crate::base::random;
use crate::base::session::Session;
use crate::base::{env, files};
use crate::bench::candidate::Candidate;
use crate::bench::contender::{Fault, Referee, Timer};
use crate::bench::cupti::Cupti;
use crate::bench::device::{DeviceRounds, NoFigures};
use crate::bench::error::BenchError;
use crate::bench::options::{MeasurementStore, Outcome};
use crate::bench::python::{self, Machine, PythonTimer};
use crate::bench::rounds::{Finding, Stop};
use crate::bench::samples::MeasuredCase;
use crate::bench::skip::SkipReason;
use crate::bench::stats::SplitMix;
use crate::compile::nvrtc::Compiler;
use crate::device::gpu::Gpu;
use crate::toolchain::PythonRuntime;
use crate::verify::device::{DeviceCandidate, arch_of};
use crate::verify::lab::{Groundwork, Lab, NoLab, ProcessorShare};
use crate::verify::{self, VerifyError};

/// Bytes of the calls of a device candidate in a graph: as many as the outputs of baselines have (harness/gpu.py).
const ROOM: u64 = 8 << 30;

/// Bytes of groundwork that are kept from one start for the next. Expected values are in float64 and lie on the disk.
const LAID: u64 = 2 << 30;

/// What came of a case: its numbers, or why there is no room for it, or why it has none.
type DeviceOutcome = Result<Result<(MeasuredCase, Candidate), SkipReason>, NoFigures>;

/// What every case needs.
struct Tools<'a> {
    candidate: &'a DeviceCandidate<'a>,
    compiler: &'a Compiler,
    /// A worker with a context and nothing in it, of the case before.
    checker: Option<Gpu>,
}

/// What is begun while the code is judged, before anything is timed. Dropped, all of it is ended.
pub(crate) struct MeasurementAhead<'scope> {
    baselines: BackgroundTask<'scope, Start>,
    first: Option<(Case, BackgroundTask<'scope, Result<Groundwork, VerifyError>>)>,
}

/// The process of the baselines, and what it said of itself.
type Start = (PythonTimer, Result<Machine, Fault>);

impl<'scope> MeasurementAhead<'scope> {
    pub(in crate::bench) fn begin<'env>(
        scope: &'scope Scope<'scope, 'env>,
        subject: &Subject<'env>,
        python: &'env PythonRuntime,
        session: &Session,
    ) -> Result<Self, BenchError> {
        // Where the folder cannot be made, torch falls back to its own.
        let _own = files::create_dirs(&session.cache);
        let line = python::command(python.command(), &session.cache, &env::temp_dir());
        let mut timer = PythonTimer::new(subject.timed(python, line, subject.baseline_job()))?;
        let baselines = BackgroundTask::begin(scope, move || {
            let machine = timer.machine();
            (timer, machine)
        });
        let (op, project) = (subject.op, subject.project);
        let first = subject.cases.first().filter(|_| verify::gpu_present()).map(|case| {
            let own = case.clone();
            let lay = move || Groundwork::lay(op, project, &own, python, ProcessorShare::Others);
            (case.clone(), BackgroundTask::begin(scope, lay))
        });
        Ok(Self { baselines, first })
    }
}

/// Measures device code on every case; the first refusal ends it when all were tried.
pub(in crate::bench) fn run_device(
    subject: &Subject<'_>,
    candidate: &DeviceCandidate<'_>,
    compiler: &Compiler,
    python: &PythonRuntime,
    begun: MeasurementAhead<'_>,
    kept: &mut dyn MeasurementStore,
    session: &Session,
) -> Result<Outcome, BenchError> {
    let mut tools = Tools { candidate, compiler, checker: None };
    let MeasurementAhead { baselines, first } = begun;
    let Some(TaskResult { result: (baselines, machine), .. }) = baselines.wait() else {
        return Err(ProcessError::Interrupted.into());
    };
    let machine = match machine {
        Ok(machine) => machine,
        Err(fault) => return Err(subject.error("its start", Stop::Fault { of: "baselines", fault })),
    };
    if let Some(reason) = machine.reason {
        return Ok(Outcome::Skipped(SkipReason::NoDevice(reason)));
    }
    let mut processes = OnDevice { subject, tools: &mut tools, baselines, python, first, laid: Vec::new() };
    subject.each_start(machine, &mut processes, kept, session)
}

/// The lab of a case, which runs the candidate in a new worker, and the process of the baselines.
struct OnDevice<'a, 'b, 'scope> {
    subject: &'a Subject<'b>,
    tools: &'a mut Tools<'b>,
    baselines: PythonTimer,
    python: &'a PythonRuntime,
    first: Option<(Case, BackgroundTask<'scope, Result<Groundwork, VerifyError>>)>,
    /// What earlier starts laid, by case; [`LAID`] bytes of it at most.
    laid: Vec<(String, Groundwork)>,
}

impl Processes for OnDevice<'_, '_, '_> {
    fn renew(&mut self) -> Result<(), BenchError> {
        Ok(self.baselines.renew()?)
    }

    fn case(&mut self, case: &Case, _: Option<&Cupti>) -> Result<CaseEnd, BenchError> {
        // Whatever was begun has ended before anything is timed.
        if let Some((of, ahead)) = self.first.take()
            && let Some(laid) = ahead.wait()
        {
            self.laid.push((of.id, laid.result?));
        }
        let known = self.laid.iter().position(|(of, _)| *of == case.id);
        let groundwork = match known {
            Some(at) => self.laid.swap_remove(at).1,
            None => self.subject.groundwork(case, self.python)?,
        };
        let outcome = self.subject.device_case(case, &groundwork, self.tools, &mut self.baselines)?;
        let held: u64 = self.laid.iter().map(|(_, laid)| laid.bytes()).sum();
        if self.subject.starts() > 1 && held + groundwork.bytes() <= LAID {
            self.laid.push((case.id.clone(), groundwork));
        }
        match outcome {
            Ok(Ok((found, made))) => Ok(CaseEnd::Measured(Box::new(found), Some(made))),
            Ok(Err(reason)) => Ok(CaseEnd::Skipped(reason)),
            Err(NoFigures::Refused(complaint)) => {
                let reason = format!("{} ({})", complaint.text, complaint.code);
                // Its numbers were not looked at.
                let compiles = !complaint.code.starts_with("compile::");
                let finding = if compiles { Finding::Wrong } else { Finding::Raised };
                Ok(CaseEnd::Refused(Stop::Refused(finding, reason)))
            }
            Err(NoFigures::Judge(error)) => Err(error.into()),
            Err(NoFigures::Baselines(fault)) => {
                Err(self.subject.error(&case.id, Stop::Fault { of: "baselines", fault }))
            }
        }
    }
}

impl Subject<'_> {
    fn groundwork(&self, case: &Case, python: &PythonRuntime) -> Result<Groundwork, VerifyError> {
        Groundwork::lay(self.op, self.project, case, python, ProcessorShare::Nobody)
    }

    fn device_case(
        &self,
        case: &Case,
        groundwork: &Groundwork,
        tools: &mut Tools<'_>,
        baselines: &mut dyn Referee,
    ) -> Result<DeviceOutcome, BenchError> {
        let patience = Duration::from_secs(20);
        let (candidate, compiler) = (tools.candidate, tools.compiler);
        let checker = tools.checker.take().unwrap_or_else(Gpu::new);
        let mut lab = match Lab::on(groundwork, checker, compiler, patience, ROOM) {
            Ok(lab) => lab,
            Err(NoLab::Device(missing)) => return Ok(Ok(Err(SkipReason::NoDevice(missing.to_string())))),
            Err(NoLab::Failed(error)) => return Err(error.into()),
        };
        let (launch, code) = match candidate.on(case, lab.about(), compiler) {
            Ok(both) => both,
            Err(complaint) => return Ok(Err(complaint.into())),
        };
        let mut rounds = DeviceRounds {
            lab: &mut lab,
            baselines,
            random: SplitMix(random::seed() ^ self.options.seed),
            budget: self.budget(),
            regimes: self.options.regimes(),
        };
        let measured = rounds.measure(case, &launch, &code);
        let arch = arch_of(lab.about());
        tools.checker = Some(lab.into_checker()?);
        Ok(measured.map(|measured| {
            measured.map(|found| {
                (found, Candidate::of_device(self.artifact.digest, &arch, compiler.tool(), &code.cubins))
            })
        }))
    }
}
