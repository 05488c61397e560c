//! All cases of device code: the lab of each, and the process of the baselines beside it.
//!
//! Owns: what is begun before it is needed: the process of the baselines and the first case's groundwork, while the code is
//! judged and nothing is timed. Never: lays groundwork while anything is timed or tuned. Calls of PyTorch are started by
//! the processor one by one, so a busy one makes rivals slower.

use std::thread::Scope;
use std::time::Duration;

use kernel_plan::spec::op::Case;

use super::{CaseEnd, Subject, secret};
use crate::base::ahead::{Ahead, Done};
use crate::base::process::ProcessError;
use crate::base::session::Session;
use crate::base::{env, files};
use crate::bench::candidate::Candidate;
use crate::bench::contender::{Fault, Referee};
use crate::bench::device::{DeviceRounds, NoFigures};
use crate::bench::python::{self, Machine, Part, PythonTimer};
use crate::bench::rounds::{Finding, MeasuredCase, Stop};
use crate::bench::stats::SplitMix;
use crate::bench::{BenchError, Keep, Outcome};
use crate::compile::nvrtc::Compiler;
use crate::device::gpu::Gpu;
use crate::toolchain::PythonRuntime;
use crate::verify::device::{DeviceCandidate, arch_of};
use crate::verify::lab::{Beside, Groundwork, Lab, NoLab};
use crate::verify::{self, VerifyError};

/// Bytes of the calls of a device candidate in a graph: as many as the outputs of baselines have (harness/gpu.py).
const ROOM: u64 = 8 << 30;

/// What came of a case: its numbers, or why there is no room for it, or why it has none.
type DeviceOutcome = Result<Result<(MeasuredCase, Candidate), String>, NoFigures>;

/// What every case needs.
struct Tools<'a> {
    candidate: &'a DeviceCandidate<'a>,
    compiler: &'a Compiler,
    /// A worker with a context and nothing in it, of the case before.
    checker: Option<Gpu>,
}

/// What is begun while the code is judged, before anything is timed. Dropped, all of it is ended.
pub(crate) struct Begun<'scope> {
    baselines: Ahead<'scope, Start>,
    first: Option<(Case, Ahead<'scope, Result<Groundwork, VerifyError>>)>,
}

/// The process of the baselines, and what it said of itself.
type Start = (PythonTimer, Result<Machine, Fault>);

impl<'scope> Begun<'scope> {
    pub(in crate::bench) fn begin<'env>(
        scope: &'scope Scope<'scope, 'env>,
        subject: &Subject<'env>,
        python: &'env PythonRuntime,
        session: &Session,
    ) -> Result<Self, BenchError> {
        // Where the folder cannot be made, torch falls back to its own.
        let _own = files::create_dirs(&session.cache);
        let line = python::command(python.command(), &session.cache, &env::temp_dir());
        let mut timer = PythonTimer::new(Part::of(python, "baseline", line, subject.baseline_job()))?;
        let baselines = Ahead::begin(scope, move || {
            let machine = timer.machine();
            (timer, machine)
        });
        let (op, project) = (subject.op, subject.project);
        let first = subject.cases.first().filter(|_| verify::gpu_present()).map(|case| {
            let own = case.clone();
            let lay = move || Groundwork::lay(op, project, &own, python, Beside::Others);
            (case.clone(), Ahead::begin(scope, lay))
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
    begun: Begun<'_>,
    kept: &mut dyn Keep,
    session: &Session,
) -> Result<Outcome, BenchError> {
    let mut tools = Tools { candidate, compiler, checker: None };
    let Begun { baselines, mut first } = begun;
    let Some(Done { result: (mut baselines, machine), .. }) = baselines.wait() else {
        return Err(ProcessError::Interrupted.into());
    };
    let machine = match machine {
        Ok(machine) => machine,
        Err(fault) => return Err(subject.error("its start", Stop::Fault { of: "baselines", fault })),
    };
    if let Some(reason) = machine.reason {
        return Ok(Outcome::Skipped(reason));
    }
    let mut one = |case: &Case, _: &Machine| {
        // Whatever was begun has ended before anything of this case is timed; that of a case which is known is dropped.
        let laid = first.take().filter(|(of, _)| of == case).and_then(|(_, ahead)| ahead.wait());
        let groundwork = match laid {
            Some(laid) => laid.result?,
            None => subject.groundwork(case, python)?,
        };
        match subject.device_case(case, groundwork, &mut tools, &mut baselines)? {
            Ok(Ok((found, made))) => Ok(CaseEnd::Measured(Box::new(found), Some(made))),
            Ok(Err(reason)) => Ok(CaseEnd::Skipped(reason)),
            Err(NoFigures::Refused(complaint)) => {
                let reason = format!("{} ({})", complaint.text, complaint.code);
                Ok(CaseEnd::Refused(Stop::Refused(Finding::Wrong, reason)))
            }
            Err(NoFigures::Judge(error)) => Err(error.into()),
            Err(NoFigures::Baselines(fault)) => {
                Err(subject.error(&case.id, Stop::Fault { of: "baselines", fault }))
            }
        }
    };
    subject.each_case(machine, kept, session, &mut one)
}

impl Subject<'_> {
    fn groundwork(&self, case: &Case, python: &PythonRuntime) -> Result<Groundwork, VerifyError> {
        Groundwork::lay(self.op, self.project, case, python, Beside::Nobody)
    }

    fn device_case(
        &self,
        case: &Case,
        groundwork: Groundwork,
        tools: &mut Tools<'_>,
        baselines: &mut dyn Referee,
    ) -> Result<DeviceOutcome, BenchError> {
        let patience = Duration::from_secs(20);
        let (candidate, compiler) = (tools.candidate, tools.compiler);
        let checker = tools.checker.take().unwrap_or_else(Gpu::new);
        let mut lab = match Lab::on(groundwork, checker, compiler, patience, ROOM) {
            Ok(lab) => lab,
            Err(NoLab::Device(reason)) => return Ok(Ok(Err(reason))),
            Err(NoLab::Failed(error)) => return Err(error.into()),
        };
        let (launch, code) = match candidate.on(case, lab.about(), compiler) {
            Ok(both) => both,
            Err(complaint) => return Ok(Err(complaint.into())),
        };
        let mut rounds = DeviceRounds {
            lab: &mut lab,
            baselines,
            random: SplitMix(secret() ^ self.options.seed),
            budget: Duration::try_from_secs_f64(self.options.budget).unwrap_or(Duration::MAX),
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
