//! The judge of this machine: a lab that stays ready between two questions, or a compiler alone where there is no GPU.
//!
//! Owns: what is kept between questions. Never: decides what an answer means.

use std::path::Path;
use std::time::Duration;

use kernel_plan::spec::launch::ConcreteLaunch;
use kernel_plan::spec::op::Case;
use kernel_plan::spec::tune::Tuning;
use tempfile::TempDir;

use crate::agent::Budget;
use crate::agent::kernel::ProposedKernel;
use crate::agent::tuned::Settings;
use crate::archive::Earlier;
use crate::base::causes::chain;
use crate::base::files;
use crate::base::report::Report;
use crate::base::session::Session;
use crate::bench::ncu::{self, Counters, NoCounters};
use crate::bench::paired;
use crate::bench::screen::Screen;
use crate::compile::nvrtc::{Code, Compiler, Tool};
use crate::device::gpu::{Gpu, NoDevice};
use crate::device::wire::DeviceProperties;
use crate::exit::Failure;
use crate::pipeline::judge::device;
use crate::pipeline::measure::screening::{self, Detail, Task};
use crate::pipeline::measure::{ceilings, turn};
use crate::pipeline::project;
use crate::pipeline::project::device::{self as device_project, DeviceProject};
use crate::pipeline::project::kernel;
use crate::pipeline::project::tuned::{self, Choice};
use crate::pipeline::tune;
use crate::toolchain::python::{self, Torch};
use crate::toolchain::{Extras, PythonRuntime};
use crate::verify::CheckResult;
use crate::verify::checks::resources::{self, Usage};
use crate::verify::device::{self as judge, DeviceCandidate};
use crate::verify::lab::{Attempt, CandidateRefusal, ProcessorShare};
use crate::verify::machine_code;
use crate::verify::{Options, gpu_present};

use super::judge::{Contender, Effort, Judge, Rounds, Verdict};

/// Samples of an attempt.
const SAMPLES: usize = 7;
/// How long a call under a profiler may take, which repeats it for each group of counters.
const PROFILE: Duration = Duration::from_secs(60);
/// Seconds that the search of `[tune]` may take for each case.
const TUNING: f64 = 5.0;

/// See the head of this file.
pub(crate) struct MachineJudge<'a> {
    project: &'a DeviceProject,
    session: &'a Session,
    tool: Tool,
    patience: Duration,
    compiler: Option<Compiler>,
    python: Option<PythonRuntime>,
    about: Option<Result<DeviceProperties, NoDevice>>,
    /// A worker of the GPU without a lab.
    checker: Option<Gpu>,
    /// The lab of a case, by its id.
    lab: Option<(String, Screen)>,
    /// Holds the candidate that is compiled, always in the same place: a compiler's process is kept to the folders that it
    /// was started with.
    folder: TempDir,
}

impl<'a> MachineJudge<'a> {
    /// A judge that has done nothing yet.
    ///
    /// # Errors
    /// There is no room for temporary files.
    pub(crate) fn new(
        project: &'a DeviceProject,
        tool: Tool,
        patience: Duration,
        session: &'a Session,
    ) -> Result<Self, Failure> {
        let folder = files::scratch()?;
        let (compiler, python, about, checker, lab) = (None, None, None, None, None);
        Ok(Self { project, session, tool, patience, compiler, python, about, checker, lab, folder })
    }

    fn ready_compiler(&mut self) -> Result<(), Failure> {
        if self.compiler.is_none() {
            self.compiler = Some(device::compiler(self.tool, self.session)?);
        }
        Ok(())
    }

    fn ready_python(&mut self) -> Result<(), Failure> {
        if self.python.is_none() {
            let torch = Torch::Preferably(project::TORCH);
            self.python = Some(python::runtime(self.session, torch, Extras::default())?);
        }
        Ok(())
    }

    /// The machine code of a candidate for one case on the GPU that is here.
    fn compile(
        &mut self,
        proposed: &ProposedKernel,
        tuning: &Tuning,
        case: &Case,
        about: &DeviceProperties,
    ) -> Result<Attempt<(ConcreteLaunch, Code)>, Failure> {
        self.ready_compiler()?;
        let source = kernel::lay_out(proposed, self.folder.path())?;
        let Some(compiler) = &self.compiler else { return Err(not_ready()) };
        let (launch, arch) = (proposed.op.launch.as_ref(), judge::arch_of(about));
        Ok(screening::compile(&source, launch, case, tuning, (&arch, compiler), Detail::Log)?)
    }

    /// What a candidate would use on each architecture that the project is for.
    fn everywhere(
        &mut self,
        proposed: &ProposedKernel,
        tuning: &Tuning,
        case: &Case,
        missing: NoDevice,
    ) -> Result<Verdict, Failure> {
        self.ready_compiler()?;
        let source = kernel::lay_out(proposed, self.folder.path())?;
        let Some(compiler) = &self.compiler else { return Err(not_ready()) };
        let (launch, archs) = (proposed.op.launch.as_ref(), &self.project.archs);
        let compiled = on_each(archs, |arch| {
            screening::compile(&source, launch, case, tuning, (arch, compiler), Detail::Log)
        });
        let mut used: Vec<(String, Usage)> = Vec::new();
        for (arch, compiled) in archs.iter().zip(compiled) {
            match compiled? {
                Ok((_, code)) => match resources::of_code(&code) {
                    Ok(usages) => used.extend(usages.into_iter().map(|usage| (format!("sm_{arch}"), usage))),
                    Err(error) => {
                        let text = chain(&error);
                        return Ok(Verdict::Refused(CandidateRefusal { code: "compile::device_code", text }));
                    }
                },
                Err(complaint) => return Ok(Verdict::Refused(complaint)),
            }
        }
        Ok(Verdict::Compiled { used, missing })
    }

    /// The lab of a case.
    fn lab(&mut self, case: &Case) -> Result<&mut Screen, Failure> {
        self.ready_compiler()?;
        self.ready_python()?;
        let earlier = self.lab.take();
        let screen = match earlier {
            Some((id, screen)) if id == case.id => screen,
            earlier => {
                let checker = match earlier {
                    Some((_, screen)) => screen.into_lab().into_checker()?,
                    None => self.checker.take().unwrap_or_else(Gpu::new),
                };
                self.new_lab(case, checker)?
            }
        };
        Ok(&mut self.lab.insert((case.id.clone(), screen)).1)
    }

    fn new_lab(&self, case: &Case, mut checker: Gpu) -> Result<Screen, Failure> {
        let about = judge::device(&mut checker)?.map_err(screening::ScreeningError::no_gpu)?;
        let (Some(compiler), Some(python)) = (&self.compiler, &self.python) else {
            return Err(not_ready());
        };
        let task = Task {
            op: &self.project.op,
            project: &self.project.dir,
            case,
            bounds: ceilings::rates(&about, self.session).bounds(&self.project.op, case),
            arch: &judge::arch_of(&about),
            compiler,
            python,
            patience: self.patience,
            jobs: 1,
        };
        let lab = task.lab(task.groundwork(ProcessorShare::Nobody)?, checker)?;
        Ok(Screen::new(lab, task.bounds.clone()))
    }
}

fn not_ready() -> Failure {
    screening::ScreeningError::NotReady.into()
}

/// Does something for each architecture at the same time.
fn on_each<T: Send>(archs: &[String], work: impl Fn(&str) -> T + Sync) -> Vec<T> {
    std::thread::scope(|scope| {
        let work = &work;
        let threads: Vec<_> = archs.iter().map(|arch| scope.spawn(move || work(arch))).collect();
        let joined = threads.into_iter().map(|thread| thread.join());
        joined.map(|done| done.unwrap_or_else(|panic| std::panic::resume_unwind(panic))).collect()
    })
}

impl Judge for MachineJudge<'_> {
    fn device(&mut self) -> Result<Result<DeviceProperties, NoDevice>, Failure> {
        if let Some(known) = &self.about {
            return Ok(known.clone());
        }
        let found = if gpu_present() {
            let mut gpu = self.checker.take().unwrap_or_else(Gpu::new);
            let found = judge::device(&mut gpu)?;
            self.checker = found.is_ok().then_some(gpu);
            found
        } else {
            Err(NoDevice::Absent)
        };
        self.about = Some(found.clone());
        Ok(found)
    }

    fn attempt(
        &mut self,
        proposed: &ProposedKernel,
        tuning: &Tuning,
        case: &Case,
    ) -> Result<Verdict, Failure> {
        let about = match self.device()? {
            Ok(about) => about,
            Err(missing) => return self.everywhere(proposed, tuning, case, missing),
        };
        let (launch, code) = match self.compile(proposed, tuning, case, &about)? {
            Ok(made) => made,
            Err(complaint) => return Ok(Verdict::Refused(complaint)),
        };
        let _turn = turn::on(&about, self.session)?;
        Ok(match self.lab(case)?.candidate(&launch, &code, SAMPLES, None)? {
            Ok(screened) => Verdict::Right(screened),
            Err(complaint) => Verdict::Refused(complaint),
        })
    }

    fn rounds(
        &mut self,
        best: &Contender,
        candidate: &Contender,
        case: &Case,
        Effort { starts, rounds, samples }: Effort,
    ) -> Result<Attempt<Vec<Rounds>>, Failure> {
        let about = self.device()?.map_err(screening::ScreeningError::no_gpu)?;
        let mut sides = Vec::new();
        for Contender { proposed, settings } in [best, candidate] {
            let tuning = settings.choose(&proposed.op, case).tuning;
            match self.compile(proposed, &tuning, case, &about)? {
                Ok(side) => sides.push(side),
                Err(complaint) => return Ok(Err(complaint)),
            }
        }
        let _turn = turn::on(&about, self.session)?;
        let screen = self.lab(case)?;
        let mut found = Vec::new();
        for start in 0..starts {
            if start > 0 {
                screen.start_anew();
            }
            let mut times = Rounds::default();
            for round in 0..rounds {
                // Whoever is second finds the device as the first left it, so they take turns.
                let order = if round % 2 == 0 { [0, 1] } else { [1, 0] };
                for side in order {
                    let (launch, code) = &sides[side];
                    let screened = match screen.candidate(launch, code, samples, None)? {
                        Ok(screened) => screened,
                        Err(complaint) => return Ok(Err(complaint)),
                    };
                    let seconds = paired::middle(&screened.samples).unwrap_or(screened.seconds);
                    if side == 0 { times.best.push(seconds) } else { times.candidate.push(seconds) }
                }
            }
            found.push(times);
        }
        Ok(Ok(found))
    }

    fn tune(&mut self, proposed: &ProposedKernel, kept: &Path) -> Result<Settings, Failure> {
        if proposed.op.tune.tunables.is_empty() {
            return Ok(Settings::defaults(&proposed.op));
        }
        self.rest();
        self.ready_compiler()?;
        self.ready_python()?;
        // With both at hand nothing is fetched, and no hub is asked for kernels like this one.
        let report = Report::new(self.session.report.format(), true);
        let offline =
            Session { report, cache: self.session.cache.clone(), offline: true, jobs: self.session.jobs };
        let request = tune::Request {
            dir: kept.join(&self.project.op_name),
            workloads: vec![],
            budget: Budget { seconds: TUNING, candidates: None },
            seed: 0,
            earlier: Earlier::Resume,
            patience: self.patience,
            compiler: self.tool,
        };
        // What is not found or not measured keeps the defaults.
        let _search = tune::fill(&request, &offline)?;
        let project = device_project::read_code(&request.dir, self.session)?;
        tuned::settings(&project, Choice::Tuned, self.session)
    }

    fn verify(&mut self, contender: &Contender) -> Result<Result<(), CheckResult>, Failure> {
        self.rest();
        self.ready_compiler()?;
        self.ready_python()?;
        let candidate = DeviceCandidate {
            op: &contender.proposed.op,
            project: &self.project.dir,
            source: kernel::lay_out(&contender.proposed, self.folder.path())?,
            settings: contender.settings.clone(),
            archs: self.project.archs.clone(),
        };
        let _turn = match self.device()? {
            Ok(about) => Some(turn::on(&about, self.session)?),
            Err(_) => None,
        };
        let (Some(compiler), Some(python)) = (&self.compiler, &self.python) else {
            return Err(not_ready());
        };
        let evidence = judge::judge(&candidate, compiler, Some(python), &Options::standard(), self.session)?;
        let unmade = evidence.skipped().find(|check| check.name == "results");
        Ok(match evidence.refusal().or(unmade) {
            Some(check) => Err(check.clone()),
            None => Ok(()),
        })
    }

    fn same_code(
        &mut self,
        one: &ProposedKernel,
        other: &ProposedKernel,
        tuning: &Tuning,
        case: &Case,
    ) -> Result<bool, Failure> {
        let about = self.device()?.map_err(screening::ScreeningError::no_gpu)?;
        let mut made = Vec::new();
        for proposed in [one, other] {
            let Ok((launch, code)) = self.compile(proposed, tuning, case, &about)? else { return Ok(false) };
            let mut texts = Vec::new();
            for cubin in &code.cubins {
                texts.push((cubin.names.clone(), machine_code::essence(&files::read(&cubin.path)?)));
            }
            made.push((launch, texts));
        }
        let is_known = made.iter().flat_map(|(_, texts)| texts).all(|(_, essence)| essence.is_some());
        Ok(is_known && made[0] == made[1])
    }

    fn counters(
        &mut self,
        proposed: &ProposedKernel,
        tuning: &Tuning,
        case: &Case,
    ) -> Result<Result<Vec<Counters>, NoCounters>, Failure> {
        let Some(program) = ncu::find() else {
            return Ok(Err(NoCounters::NotInstalled));
        };
        let about = self.device()?.map_err(screening::ScreeningError::no_gpu)?;
        let (launch, code) = match self.compile(proposed, tuning, case, &about)? {
            Ok(made) => made,
            Err(refusal) => return Ok(Err(NoCounters::Candidate(refusal))),
        };
        let _turn = turn::on(&about, self.session)?;
        let folder = files::scratch()?;
        let log = folder.path().join("ncu.csv");
        let mut gpu = Gpu::within(|line| ncu::wrapped(line, &program, &log), PROFILE);
        let called = self.lab(case)?.call_in(&mut gpu, &launch, &code, PROFILE)?;
        gpu.end();
        Ok(match called {
            Ok(()) => ncu::parse(&files::read_text(&log).unwrap_or_default()),
            Err(refusal) => Err(NoCounters::Candidate(refusal)),
        })
    }

    fn rest(&mut self) {
        self.lab = None;
        self.checker = None;
    }
}
