//! The starts of a run: each has new processes and measures every case once.
//!
//! Owns: the order of starts and cases, what each start is given of the time, what is not measured again.
//! Never: starts a process, makes a measurement.

use std::time::{Duration, Instant};

use kernel_plan::spec::op::Case;

use super::{CaseEnd, Run, Subject, dtype_of};
use crate::base::random;
use crate::base::report::ProgressKind;
use crate::base::session::Session;
use crate::bench::cupti::Cupti;
use crate::bench::error::BenchError;
use crate::bench::options::{MeasurementStore, Outcome, starts_on};
use crate::bench::python::Machine;
use crate::bench::record::{self, Measurement, PROTOCOL};
use crate::bench::rounds::{Finding, Stop};
use crate::bench::stats::SplitMix;
use crate::bench::{machine, starts};

/// The processes of a start.
pub(super) trait Processes {
    /// Ends all that are timed; the next case has new ones.
    fn renew(&mut self) -> Result<(), BenchError>;
    /// Measures a case. `traced` is what CUPTI saw of it in an earlier start.
    fn case(&mut self, case: &Case, traced: Option<&Cupti>) -> Result<CaseEnd, BenchError>;
}

/// The measurements of a case so far, those of each start one after the other.
#[derive(Default)]
struct Parts {
    parts: Vec<Measurement>,
    /// Those of the start that has just ended.
    made: Option<Vec<Measurement>>,
    /// There was no room for it in one of the starts.
    skipped: bool,
}

impl Subject<'_> {
    /// How many starts there are.
    pub(super) fn starts(&self) -> usize {
        self.options.starts.unwrap_or_else(|| starts_on(self.device)).max(1)
    }

    /// Time for samples of each regime in one start.
    pub(super) fn budget(&self) -> Duration {
        let seconds = self.options.budget / self.starts() as f64;
        Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX)
    }

    /// Every case in every start, each kept as soon as it is measured; those that are kept already are not measured again.
    /// The first refusal ends it when all cases of its start were tried. Each start has new processes and, of several, a new
    /// order of cases.
    pub(super) fn each_start(
        &self,
        machine: Machine,
        processes: &mut dyn Processes,
        kept: &mut dyn MeasurementStore,
        session: &Session,
    ) -> Result<Outcome, BenchError> {
        let starts = self.starts();
        let steps = (self.cases.len() * starts) as u64;
        let progress = session.report.progress("measuring", ProgressKind::Count, Some(steps));
        let mut watch = machine::GpuMonitor::start();
        let mut run = Run { subject: self, session, progress, machine, start: (1, starts) };
        let mut random = SplitMix(random::seed() ^ self.options.seed);
        let mut found: Vec<Parts> =
            self.cases.iter().map(|case| run.parts_measured(case, kept.earlier_measurements())).collect();
        let mut begun = false;
        for start in 0..starts {
            run.start = (start + 1, starts);
            let mut order: Vec<usize> = (0..found.len()).filter(|at| !found[*at].skipped).collect();
            if starts > 1 {
                run.progress.doing(&format!("measuring, start {} of {starts}", start + 1));
                (1..order.len()).rev().for_each(|at| order.swap(at, random.below(at + 1)));
            }
            let (known, left): (Vec<usize>, Vec<usize>) =
                order.into_iter().partition(|at| starts::count(&found[*at].parts) > start);
            for at in known {
                run.note(&format!("{} was measured by a run that was interrupted", self.cases[at].id));
                run.progress.add(1);
            }
            if begun && !left.is_empty() {
                processes.renew()?;
            }
            begun |= !left.is_empty();
            let mut refusal = None;
            for at in left {
                let case = &self.cases[at];
                match run.case(case, &mut found[at], processes, &mut watch) {
                    Ok(Some(stop)) => {
                        refusal.get_or_insert(self.error(&case.id, stop));
                    }
                    Ok(None) => {}
                    Err(error) => return Err(refusal.unwrap_or(error)),
                }
                if let Some(made) = found[at].made.take() {
                    kept.keep(&made)?;
                    found[at].parts.extend(made);
                }
                run.progress.add(1);
            }
            if let Some(refusal) = refusal {
                return Err(refusal);
            }
        }
        let whole = found.iter().filter(|one| !one.skipped);
        Ok(Outcome::Measured(whole.flat_map(|one| starts::merged(&one.parts, starts)).collect()))
    }
}

impl Run<'_> {
    /// One case in one start; why the kernel is refused, if it is.
    fn case(
        &self,
        case: &Case,
        found: &mut Parts,
        processes: &mut dyn Processes,
        watch: &mut machine::GpuMonitor,
    ) -> Result<Option<Stop>, BenchError> {
        let since = Instant::now();
        let traced = found.parts.iter().find_map(|part| part.cupti.as_ref());
        let end = processes.case(case, traced);
        // What was read of the GPU is of this case alone, however it ended.
        let gpu = self.machine.device.as_ref().and_then(|device| watch.take(device));
        match end? {
            CaseEnd::Measured(measured, candidate) => {
                if let Some(reason) = self.impossible(case, &measured, gpu.as_ref()) {
                    return Ok(Some(Stop::Refused(Finding::Impossible, reason)));
                }
                found.made =
                    Some(self.measurements(case, &measured, candidate.as_ref(), gpu.as_ref(), since));
                Ok(None)
            }
            CaseEnd::Skipped(reason) => {
                self.note(&format!("{} was not measured: {reason}", case.id));
                found.skipped = true;
                Ok(None)
            }
            CaseEnd::Refused(stop) => Ok(Some(stop)),
        }
    }

    /// Tells a sentence, with the start where there are several.
    fn note(&self, text: &str) {
        self.session.report.note(format!("{}{text}", self.at()));
    }

    /// `start 2 of 3: `, or nothing where there is one.
    pub(super) fn at(&self) -> String {
        let (start, starts) = self.start;
        if starts > 1 { format!("start {start} of {starts}: ") } else { String::new() }
    }

    /// What is known of a case from a run like this one.
    fn parts_measured(&self, case: &Case, earlier: &[Measurement]) -> Parts {
        let Machine { torch, python, .. } = &self.machine;
        let (dtype, device) = (dtype_of(case), self.device());
        let axes = record::axes(self.subject.op, case);
        let same = |one: &&Measurement| {
            one.workload == case.workload.as_str()
                && (&one.dtype, &one.axes, &one.device) == (&dtype, &axes, &device)
                && (&one.torch, &one.python, one.protocol) == (torch, python, PROTOCOL)
        };
        Parts { parts: earlier.iter().filter(same).cloned().collect(), ..Parts::default() }
    }
}
