//! An agent proposes settings of a device project, the judge says what they are worth, the best ones are kept.
//!
//! Owns: the loop over workloads, and the file that results. Never: searches, judges or times; `agent` and `bench::screen`
//! do.

mod compare;
pub(crate) mod confirm;
pub(crate) mod filled;
mod on_gpu;
pub(crate) mod phases;
mod search;
mod shares;
pub(crate) mod spread;
#[cfg(test)]
mod tests;

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use kernel_plan::spec::op::Case;
use kernel_plan::spec::tune::Tuning;
use miette::Diagnostic;
use thiserror::Error;

use crate::agent::tuned::{self as table, TunedTable};
use crate::agent::tuner::Tuner;
use crate::agent::tuner::prune::{self, Device};
use crate::agent::tuner::space::Space;
use crate::agent::{Agent as _, Budget};
use crate::archive::Earlier;
use crate::base::background::BackgroundTask;
use crate::base::digest::{Digest, DigestBuilder};
use crate::base::interrupt::{self, StopFlag};
use crate::base::random::SplitMix;
use crate::base::report::ProgressKind;
use crate::base::session::Session;
use crate::base::{date, files};
use crate::bench::impossible::Rates;
use crate::bench::{self, paired};
use crate::compile::nvrtc::{Compiler, Source, Tool};
use crate::device::gpu::Gpu;
use crate::device::wire::DeviceProperties;
use crate::exit::{self, Failure, StageError};
use crate::pipeline::create::published::PendingSearch;
use crate::pipeline::create::{generate, published};
use crate::pipeline::judge::device;
use crate::pipeline::measure::screening::{self, ScreeningError, Task};
use crate::pipeline::measure::{ceilings, turn};
use crate::pipeline::project;
use crate::pipeline::project::device::{self as device_project, DeviceProject};
use crate::pipeline::project::tuned;
use crate::toolchain::python::Torch;
use crate::toolchain::{Extras, PythonRuntime, python};
use crate::verify::lab::{Groundwork, ProcessorShare};
use crate::verify::{VerifyError, device as judge, gpu_present};

use confirm::Confirmation;
use filled::WorkloadResult;
use on_gpu::{CarriedOver, GpuJudge, GroundworkQueue};
use phases::Phases;
use search::{Log, SearchProgress};

/// The best settings of a search that run against the defaults.
const FEW: usize = 4;
/// Settings of other workloads that are tried first.
const TAUGHT: usize = 12;
/// Seconds that the rounds of a gain may take.
const ROUNDS: f64 = 10.0;
/// Settings of other workloads that are compiled for the next one while this one is searched.
const COMPILED: usize = 3;
/// Candidates that a second of search is taken to have room for, when a strategy is chosen.
const A_SECOND: f64 = 20.0;

/// Why there is nothing to search, or nothing to search with.
#[derive(Debug, Error, Diagnostic)]
enum FillError {
    #[error("`{}` has nothing to search: no [tune] in op.toml", dir.display())]
    #[diagnostic(
        code(agent::no_tunables),
        help(
            "declare in `[tune.NAME]` what may vary without changing the result; docs/reference/op-toml.md has the keys"
        )
    )]
    NoTunables { dir: PathBuf },
    #[error("op.toml holds out {what}, and agents do not see held-out workloads")]
    #[diagnostic(
        code(agent::held_out),
        help(
            "search other workloads: held-out lengths use the settings that were found for the nearest ones"
        )
    )]
    HeldOut { what: String },
    #[error("no setting is right for {}", names.join(", "))]
    #[diagnostic(
        code(agent::nothing_right),
        help("`kernelwright verify --device` says what is wrong; the lines above count the reasons")
    )]
    NothingRight { names: Vec<String> },
    #[error("no setting was measured precisely enough for {}", names.join(", "))]
    #[diagnostic(
        code(agent::not_measured),
        help("nothing was written; rerun `kernelwright fill` on an idle machine, or with a larger --budget")
    )]
    NotMeasured { names: Vec<String> },
}

impl StageError for FillError {
    fn exit(&self) -> u8 {
        exit::AGENT
    }
}

/// A search.
#[derive(Debug)]
pub(crate) struct Request {
    /// The folder or the op file.
    pub(crate) dir: PathBuf,
    /// These workloads; all that are not held out if empty.
    pub(crate) workloads: Vec<String>,
    /// The limits of a workload.
    pub(crate) budget: Budget,
    /// The seed of the search.
    pub(crate) seed: u64,
    /// Whether results of earlier searches are used.
    pub(crate) earlier: Earlier,
    /// How long the kernels of a candidate may take at a time.
    pub(crate) patience: Duration,
    /// The compiler of device code.
    pub(crate) compiler: Tool,
}

/// The results of all workloads.
pub(crate) struct Search {
    /// Each workload, in the order of op.toml.
    pub(crate) filled: Vec<WorkloadResult>,
    /// The file of settings, in the project.
    pub(crate) name: String,
    /// Its new content.
    pub(crate) table: TunedTable,
    /// The time for all workloads.
    pub(crate) took: Duration,
}

impl Search {
    /// Fails if a workload has no setting that is right, or none was measured.
    ///
    /// # Errors
    /// It names the workloads.
    pub(crate) fn verdict(&self) -> Result<(), Failure> {
        let names = |of: &dyn Fn(&&WorkloadResult) -> bool| -> Vec<String> {
            self.filled.iter().filter(of).map(|one| one.case.id.clone()).collect()
        };
        let nothing = names(&|one| one.confirmed.is_none());
        if !nothing.is_empty() {
            return Err(FillError::NothingRight { names: nothing }.into());
        }
        let unmeasured = names(&|one| one.result().is_none());
        if unmeasured.len() == self.filled.len() {
            return Err(FillError::NotMeasured { names: unmeasured }.into());
        }
        Ok(())
    }
}

/// The state that all workloads of a run share.
struct Run<'a> {
    args: &'a Request,
    project: &'a DeviceProject,
    about: &'a DeviceProperties,
    /// Rates that no candidate can pass.
    rates: Rates,
    driver: String,
    compiler: &'a Compiler,
    python: &'a PythonRuntime,
    source: Arc<Source>,
    /// Settings of other workloads that are tried first.
    taught: Mutex<Vec<Tuning>>,
    session: &'a Session,
}

/// The table at the start of a run.
struct Opened {
    /// The file of settings, in the project.
    name: String,
    /// Its content.
    table: TunedTable,
    /// A worker with a context and nothing in it.
    checker: Gpu,
    /// Whether the hub has a kernel for the operation.
    asked: PendingSearch,
}

/// The project, which has something to search.
fn project(args: &Request, session: &Session) -> Result<DeviceProject, Failure> {
    let project = device_project::read(&args.dir, session)?;
    if project.op.tune.tunables.is_empty() {
        return Err(FillError::NoTunables { dir: project.dir }.into());
    }
    Ok(project)
}

/// Does `work` with the GPU in turn with other runs.
fn opened<T>(
    args: &Request,
    project: &DeviceProject,
    session: &Session,
    work: impl FnOnce(&Run<'_>, Opened) -> Result<T, Failure>,
) -> Result<T, Failure> {
    let asked = published::ask(published::of_op(project.op.name.value.as_str()), session);
    let mut checker = Gpu::new();
    let find = || python::runtime(session, Torch::Preferably(project::TORCH), Extras::default());
    let (about, python) = std::thread::scope(|scope| {
        // Which Python has torch is found out by importing it; without a GPU nobody needs to know.
        let ahead = gpu_present().then(|| BackgroundTask::begin(scope, find));
        let about = judge::device(&mut checker)?.map_err(ScreeningError::no_gpu)?;
        let found = ahead.and_then(BackgroundTask::wait).map(|done| done.result);
        Ok::<_, Failure>((about, found.unwrap_or_else(find)?))
    })?;
    let _turn = turn::on(&about, session)?;
    let (name, table) = tuned::of_device(project, &about, session)?;
    let compiler = device::compiler(args.compiler, session)?;
    let told = ceilings::reading(&about).and_then(|now| now.driver);
    let run = Run {
        args,
        project,
        about: &about,
        rates: ceilings::rates(&about, session),
        driver: told.unwrap_or_else(|| about.driver.to_string()),
        compiler: &compiler,
        python: &python,
        source: Arc::new(project.source.clone()),
        taught: Mutex::new(earlier(project, &table)),
        session,
    };
    work(&run, Opened { name, table, checker, asked })
}

/// Searches the settings of a project, and writes those that win into its file of settings.
///
/// # Errors
/// There is nothing to search, no GPU, or the judge itself fails.
pub(crate) fn fill(args: &Request, session: &Session) -> Result<Search, Failure> {
    let started = Instant::now();
    let project = project(args, session)?;
    let cases = cases(&project, &args.workloads)?;
    opened(args, &project, session, |run, opened| {
        let Opened { name, mut table, checker, asked } = opened;
        let lay = |case: &Case, beside| run.groundwork(case, beside);
        let mut filled = Vec::new();
        std::thread::scope(|scope| {
            // The reference is at work while the rest of what is needed is looked for.
            let grounds = GroundworkQueue::begin(scope, &cases, &lay);
            asked.tell(session);
            let peaks = match bench::multiplies(&project.op) {
                true => ceilings::matrix_peaks(run.about, session),
                false => Default::default(),
            };
            let mut handed = CarriedOver { grounds, checker: Some(checker) };
            for (place, case) in cases.iter().enumerate() {
                let least = bench::least_seconds(&project.op, case, &peaks);
                let one = run.fill_workload(case, place, &mut handed, least)?;
                if let Some(confirmed) = one.result() {
                    // As soon as it is known, so that whatever ends the next search leaves it.
                    table.put(run.setting(&one, confirmed));
                    tuned::write(&project, &name, &table)?;
                }
                filled::done(&one, session);
                run.learn(&one.teaches);
                filled.push(one);
            }
            Ok::<(), Failure>(())
        })?;
        if filled.iter().any(|one| one.result().is_some()) {
            generate::after_fill(&project.dir, session)?;
        }
        if filled.len() > 1 {
            let phases = Phases::sum(filled.iter().map(|one| one.phases));
            session.report.note(format!("all workloads: {}", phases.words()));
        }
        Ok(Search { filled, name, table, took: started.elapsed() })
    })
}

/// The cases to search for: those of the named workloads, or all, without those that are held out.
fn cases(project: &DeviceProject, names: &[String]) -> Result<Vec<Case>, Failure> {
    let mut found: Vec<Case> = Vec::new();
    if names.is_empty() {
        found = screening::cases(&project.op, None)?;
        found.retain(|case| !case.held_out);
        if found.is_empty() {
            return Err(FillError::HeldOut { what: "every workload".to_owned() }.into());
        }
    }
    for name in names {
        let of_name = screening::cases(&project.op, Some(name))?;
        if of_name.iter().any(|case| case.held_out) {
            return Err(FillError::HeldOut { what: format!("the workload `{name}`") }.into());
        }
        for case in of_name {
            if !found.iter().any(|known| known.id == case.id) {
                found.push(case);
            }
        }
    }
    Ok(found)
}

/// The results of an earlier run on this device.
fn earlier(project: &DeviceProject, table: &TunedTable) -> Vec<Tuning> {
    let settings = table.settings.iter();
    let mut found: Vec<Tuning> =
        settings.filter_map(|setting| table::tuning_of(&project.op, &setting.tuning)).collect();
    found.dedup();
    found.truncate(TAUGHT);
    found
}

impl Run<'_> {
    fn taught(&self) -> Vec<Tuning> {
        self.taught.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Takes the best settings of a workload first from now on.
    fn learn(&self, teaches: &[Tuning]) {
        let mut taught = self.taught.lock().unwrap_or_else(PoisonError::into_inner);
        for tuning in teaches.iter().rev() {
            taught.retain(|known| known != tuning);
            taught.insert(0, tuning.clone());
        }
        taught.truncate(TAUGHT);
    }

    fn task<'a>(&'a self, case: &'a Case, arch: &'a str) -> Task<'a> {
        Task {
            op: &self.project.op,
            project: &self.project.dir,
            case,
            bounds: self.rates.bounds(&self.project.op, case),
            arch,
            compiler: self.compiler,
            python: self.python,
            patience: self.args.patience,
            jobs: self.session.jobs,
        }
    }

    /// What a workload needs before the GPU has anything to do with it. Beside another one, the settings that are certain
    /// to be tried are compiled, too: the cache has them when they are asked for.
    fn groundwork(&self, case: &Case, beside: ProcessorShare) -> Result<Groundwork, VerifyError> {
        let arch = judge::arch_of(self.about);
        let task = self.task(case, &arch);
        if beside == ProcessorShare::Nobody {
            return task.groundwork(beside);
        }
        let default = self.project.op.tune.default_tuning();
        let first = std::iter::once(default).chain(self.taught().into_iter().take(COMPILED));
        let stop = StopFlag::of_thread();
        std::thread::scope(|scope| {
            let ahead =
                || first.take_while(|_| !interrupt::requested()).for_each(|it| task.warm(it, &self.source));
            scope.spawn(move || interrupt::within(stop, ahead));
            task.groundwork(beside)
        })
    }

    /// A search of one case, which begins with the defaults and what won before.
    fn tuner<'a>(&'a self, case: &'a Case, budget: &Budget) -> Tuner<'a> {
        let op = &self.project.op;
        let device = Device {
            capability: self.about.capability,
            multiprocessors: self.about.multiprocessors,
            threads: self.about.threads,
            shared: self.about.shared,
        };
        let admit = Box::new(move |tuning: &Tuning| prune::admit(op, case, &device, tuning));
        let (major, minor) = self.about.capability;
        let of_gpu = op.tune.default_tuning_for(major * 10 + minor);
        let default = op.tune.default_tuning();
        let of_gpu = (of_gpu != default).then_some(of_gpu);
        let first: Vec<Tuning> = std::iter::once(default).chain(of_gpu).chain(self.taught()).collect();
        let room = budget.candidates.unwrap_or((A_SECOND * budget.seconds) as usize);
        Tuner::new(Space::new(&op.tune.tunables, admit), &first, room, self.args.seed)
    }

    /// Searches for one workload, and confirms what is found.
    fn fill_workload(
        &self,
        case: &Case,
        place: usize,
        handed: &mut CarriedOver<'_, '_>,
        least: Option<f64>,
    ) -> Result<WorkloadResult, Failure> {
        let (op, begun) = (&self.project.op, Instant::now());
        let default = op.tune.default_tuning();
        let candidates = self.args.budget.candidates;
        let mut tuner = self.tuner(case, &self.args.budget);
        filled::begins(case, &tuner, self.session);
        let mut log = Log::open(&self.project.dir, &self.key(case)?, self.args.earlier)?;
        let arch = judge::arch_of(self.about);
        let task = self.task(case, &arch);
        let since = Instant::now();
        let clock = || since.elapsed().as_secs_f64();
        let what = format!("searching {}", case.id);
        let progress =
            self.session.report.progress(&what, ProgressKind::Count, candidates.map(|it| it as u64));
        let (standing, confirmed, phases) = task.run(|line| {
            let mut judge = GpuJudge::new(&task, line, self.source.clone(), place, handed);
            let mut best = None;
            let mut told = |standing: &SearchProgress, _: &search::Verdict| {
                progress.add(1);
                filled::better(standing, &mut best, case, least, &progress, self.session);
            };
            let standing =
                search::search(&mut tuner, &mut judge, &mut log, &self.args.budget, &clock, &mut told)?;
            progress.doing(&format!("confirming {}", case.id));
            let mut random = SplitMix(self.args.seed ^ 0x636f_6e66);
            let best = tuner.best(FEW);
            // If the search found nothing correct, only the defaults are left: they were tried first.
            let confirmed = match best.is_empty() {
                true => None,
                false => confirm::confirm(best, &default, &mut judge, ROUNDS, &clock, &mut random)?,
            };
            Ok((standing, confirmed, judge.finish()?))
        })?;
        let phases = Phases { all: begun.elapsed(), ..phases };
        let of_peak = confirmed
            .as_ref()
            .filter(|confirmed| confirmed.unknown.is_none())
            .and_then(|confirmed| Some(least? / confirmed.seconds));
        let teaches = match &confirmed {
            Some(confirmed) => {
                let others = tuner.best(2).into_iter().filter(|tuning| *tuning != confirmed.tuning);
                std::iter::once(confirmed.tuning.clone()).chain(others).collect()
            }
            None => vec![],
        };
        let strategy = tuner.strategy();
        Ok(WorkloadResult { case: case.clone(), standing, strategy, confirmed, teaches, of_peak, phases })
    }

    /// The digest of all that verdicts on a workload depend on.
    fn key(&self, case: &Case) -> Result<Digest, Failure> {
        let op = &self.project.op;
        let reference = files::read(&self.project.dir.join(op.reference.file.value.as_str()))?;
        Ok(DigestBuilder::new("fill")
            .field("protocol", paired::PROTOCOL.to_string())
            .field("source", tuned::source_digest(self.project)?.to_string())
            .field("op.toml", &op.file.text)
            .field("reference", reference)
            .field("case", &case.id)
            .field("device", &self.about.uuid)
            .field("driver", &self.driver)
            .field("compiler", self.compiler.id())
            .finish())
    }

    /// The entry of a workload in the table.
    fn setting(&self, filled: &WorkloadResult, confirmed: &Confirmation) -> table::Setting {
        let case = &filled.case;
        table::Setting {
            workload: case.workload.to_string(),
            date: date::today(),
            driver: self.driver.clone(),
            compiler: self.compiler.id(),
            protocol: paired::PROTOCOL,
            judged: (filled.standing.judged + filled.standing.recalled) as u64,
            right: filled.standing.right as u64,
            seconds: confirmed.seconds,
            default_seconds: confirmed.default_seconds,
            copy_fraction: confirmed.copy_fraction,
            gain: confirmed.gain,
            dtypes: table::dtypes_of(case),
            axes: table::axes_of(&self.project.op, case),
            range: Default::default(),
            tuning: table::written(&confirmed.tuning),
        }
    }
}
