//! The judge of a search: compiles side by side, and screens on the GPU.
//!
//! Owns: when the GPU gets ready, the machine code of what was compiled once, what time was waited for whom; the
//! groundwork of the next workload, of which there is never more than one beside what is on the device. Never: chooses a
//! candidate.
//!
//! Groundwork is begun when the workload before lies on the device and its files are gone. What is laid touches no GPU, and
//! has half of the processors at a low priority: candidates are timed meanwhile, by the clock of the GPU and in graphs that
//! wait in its queue, while compilers take all processors anyway. What it says of a failure is told when that workload's
//! turn comes.

use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;
use std::sync::Arc;
use std::thread::Scope;
use std::time::{Duration, Instant};

use kernel_plan::spec::op::Case;
use kernel_plan::spec::tune::Tuning;

use crate::agent::Candidate;
use crate::base::background::{BackgroundTask, TaskResult};
use crate::base::interrupt::Interrupted;
use crate::bench::screen::Screen;
use crate::compile::nvrtc::Source;
use crate::device::gpu::Gpu;
use crate::exit::Failure;
use crate::pipeline::measure::screening::{self, Coded, Compiled, Job, Line, Task};
use crate::verify::VerifyError;
use crate::verify::lab::{Groundwork, ProcessorShare};

use super::phases::Phases;
use super::search::{Figures, Judge, Refusal, Verdict};

/// Texts on their way for each that is compiled at a time: the GPU shall not wait for the slowest of them.
const AHEAD: usize = 2;

/// How groundwork is laid.
type LayGroundwork<'env, C, G> = &'env (dyn Fn(&C, ProcessorShare) -> G + Sync);

/// The groundwork of some cases, one after the other.
pub(crate) struct GroundworkQueue<'scope, 'env, C, G> {
    scope: &'scope Scope<'scope, 'env>,
    cases: &'env [C],
    lay: LayGroundwork<'env, C, G>,
    /// Of the case of this place.
    ahead: Option<(usize, BackgroundTask<'scope, G>)>,
}

impl<'scope, 'env, C: Sync, G: Send + 'scope> GroundworkQueue<'scope, 'env, C, G> {
    /// Begins with the first case.
    pub(crate) fn begin(
        scope: &'scope Scope<'scope, 'env>,
        cases: &'env [C],
        lay: LayGroundwork<'env, C, G>,
    ) -> Self {
        let mut next = Self { scope, cases, lay, ahead: None };
        next.lay(0, ProcessorShare::Nobody);
        next
    }

    fn lay(&mut self, place: usize, beside: ProcessorShare) {
        let (Some(case), lay) = (self.cases.get(place), self.lay) else { return };
        self.ahead = Some((place, BackgroundTask::begin(self.scope, move || lay(case, beside))));
    }

    /// That of a case, laid now where it is not on its way; nothing where there is no such case.
    pub(crate) fn take(&mut self, place: usize) -> Option<TaskResult<G>> {
        if self.ahead.as_ref().is_none_or(|(of, _)| *of != place) {
            // What an earlier case did not need is stopped first.
            self.ahead = None;
            self.lay(place, ProcessorShare::Nobody);
        }
        self.ahead.take()?.1.wait()
    }

    /// Goes on with the case after that of this place, which has what it needs.
    pub(crate) fn go_on(&mut self, place: usize) {
        self.lay(place + 1, ProcessorShare::Others);
    }
}

/// The groundwork of the workloads of a run.
pub(crate) type Grounds<'scope, 'env> = GroundworkQueue<'scope, 'env, Case, Result<Groundwork, VerifyError>>;

/// What is handed from one workload of a run to the next.
pub(crate) struct CarriedOver<'scope, 'env> {
    pub(crate) grounds: Grounds<'scope, 'env>,
    /// A worker with a context and nothing in it.
    pub(crate) checker: Option<Gpu>,
}

/// Candidates of one workload on the GPU.
pub(crate) struct GpuJudge<'a, 'scope, 'env> {
    task: &'a Task<'a>,
    line: &'a Line<'a>,
    source: Arc<Source>,
    /// The place of the workload among those of the run.
    place: usize,
    handed: &'a mut CarriedOver<'scope, 'env>,
    codes: Codes,
    screen: Option<Screen>,
    phases: Phases,
    /// What both workers were asked before the first candidate.
    before: (Duration, Duration),
}

/// What was taken in, and what is known of it: a setting that is judged again is not compiled again.
#[derive(Default)]
struct Codes {
    /// By its number.
    taken: Vec<Candidate>,
    known: BTreeMap<Tuning, Rc<Compiled>>,
    /// The numbers of those that wait for the GPU alone.
    ready: VecDeque<usize>,
}

impl Codes {
    /// Takes a candidate in; its number where it has to be compiled.
    fn take(&mut self, candidate: Candidate) -> Option<usize> {
        let place = self.taken.len();
        let is_known = self.known.contains_key(&candidate.tuning);
        self.taken.push(candidate);
        if is_known {
            self.ready.push_back(place);
        }
        (!is_known).then_some(place)
    }

    /// The next one that was compiled before.
    fn next(&mut self) -> Option<(Candidate, Rc<Compiled>)> {
        let candidate = self.taken[self.ready.pop_front()?].clone();
        let compiled = self.known.get(&candidate.tuning)?.clone();
        Some((candidate, compiled))
    }

    /// One that came back from the compilers.
    fn keep(&mut self, compiled: Compiled) -> (Candidate, Rc<Compiled>) {
        let candidate = self.taken[compiled.place].clone();
        let compiled = Rc::new(compiled);
        self.known.insert(candidate.tuning.clone(), compiled.clone());
        (candidate, compiled)
    }
}

impl<'a, 'scope, 'env> GpuJudge<'a, 'scope, 'env> {
    pub(crate) fn new(
        task: &'a Task<'a>,
        line: &'a Line<'a>,
        source: Arc<Source>,
        place: usize,
        handed: &'a mut CarriedOver<'scope, 'env>,
    ) -> Self {
        let (codes, phases, before) = (Codes::default(), Phases::default(), Default::default());
        Self { task, line, source, place, handed, codes, screen: None, phases, before }
    }

    fn screen(&mut self) -> Result<&mut Screen, Failure> {
        match &mut self.screen {
            Some(screen) => Ok(screen),
            none => {
                let since = Instant::now();
                let Some(laid) = self.handed.grounds.take(self.place) else {
                    return Err(Interrupted.into());
                };
                let checker = self.handed.checker.take().unwrap_or_else(Gpu::new);
                let lab = self.task.lab(laid.result?, checker)?;
                // The files of this one are gone now.
                self.handed.grounds.go_on(self.place);
                self.before = lab.request_time();
                self.phases.start = since.elapsed();
                self.phases.ahead = laid.took.saturating_sub(laid.waited);
                Ok(none.insert(Screen::new(lab, self.task.bounds.clone())))
            }
        }
    }

    /// The end of the workload: the worker that compared waits for the next one. Where its time went, but for the whole.
    pub(crate) fn finish(mut self) -> Result<Phases, Failure> {
        if let Some(screen) = self.screen.take() {
            let lab = screen.into_lab();
            let (measured, judged) = lab.request_time();
            self.phases.measure = measured.saturating_sub(self.before.0);
            self.phases.judge = judged.saturating_sub(self.before.1);
            self.handed.checker = Some(lab.into_checker()?);
        }
        Ok(self.phases)
    }
}

impl Judge for GpuJudge<'_, '_, '_> {
    fn take(&mut self, candidates: Vec<Candidate>) {
        for candidate in candidates {
            let tuning = candidate.tuning.clone();
            if let Some(place) = self.codes.take(candidate) {
                self.line.give(Job { place, tuning, code: Ok(Coded::new(&self.source)) });
            }
        }
    }

    fn ready(&mut self) -> Result<(), Failure> {
        self.screen().map(drop)
    }

    fn verdict(&mut self) -> Result<Option<Verdict>, Failure> {
        let next = match self.codes.next() {
            Some(known) => Some(known),
            None => {
                let since = Instant::now();
                let compiled = self.line.next()?;
                self.phases.compile += since.elapsed();
                compiled.map(|compiled| self.codes.keep(compiled))
            }
        };
        let Some((candidate, compiled)) = next else { return Ok(None) };
        let screened = screening::judged(&compiled, self.screen()?, candidate.samples, candidate.enough)?;
        let outcome = screened
            .map(|found| Figures { seconds: found.seconds, copy_fraction: found.copy_fraction })
            .map_err(|complaint| Refusal { code: complaint.code.to_owned(), text: complaint.text });
        Ok(Some(Verdict { candidate, outcome }))
    }

    fn clear(&mut self) -> Result<(), Failure> {
        self.codes.ready.clear();
        self.line.clear()
    }

    fn window(&self) -> usize {
        AHEAD * self.task.jobs.max(1) + 2
    }
}

#[cfg(test)]
mod tests {
    use kernel_plan::spec::expr::Value;

    use std::sync::Mutex;
    use std::sync::mpsc;

    use super::*;
    use crate::base::interrupt;
    use crate::verify::lab::CandidateRefusal;

    #[test]
    fn the_next_case_is_laid_while_this_one_is_at_work() {
        let (tell, told) = mpsc::channel();
        let tell = Mutex::new(tell);
        let lay = |case: &&str, beside| {
            tell.lock().unwrap().send((case.to_string(), beside)).unwrap();
            format!("of {case}")
        };
        let cases = ["a", "b", "c"];
        std::thread::scope(|scope| {
            let mut next = GroundworkQueue::begin(scope, &cases, &lay);
            assert_eq!(next.take(0).unwrap().result, "of a");
            assert_eq!(told.recv().unwrap(), ("a".to_owned(), ProcessorShare::Nobody));
            assert!(told.try_recv().is_err(), "two are never laid at a time");
            next.go_on(0);
            assert_eq!(
                told.recv().unwrap(),
                ("b".to_owned(), ProcessorShare::Others),
                "nobody waits for it yet"
            );
            assert_eq!(next.take(1).unwrap().result, "of b");
            // A case that needed nothing leaves the next one to be laid when it is wanted.
            assert_eq!(next.take(2).unwrap().result, "of c");
            assert_eq!(told.recv().unwrap(), ("c".to_owned(), ProcessorShare::Nobody));
            next.go_on(2);
            assert!(next.take(3).is_none());
        });
        assert!(told.try_recv().is_err());
    }

    #[test]
    fn a_failure_is_told_when_its_own_turn_comes() {
        let lay = |case: &u8, _| if *case == 1 { Err("no reference") } else { Ok(*case) };
        std::thread::scope(|scope| {
            let mut next = GroundworkQueue::begin(scope, &[0, 1, 2], &lay);
            assert_eq!(next.take(0).unwrap().result, Ok(0));
            next.go_on(0);
            // The first case goes on whatever became of the second.
            assert_eq!(next.take(1).unwrap().result, Err("no reference"));
            assert_eq!(next.take(2).unwrap().result, Ok(2));
        });
    }

    #[test]
    fn what_is_on_its_way_ends_with_whoever_wanted_it() {
        let stopped = Mutex::new(vec![]);
        let lay = |case: &u8, _| {
            while *case > 0 && !interrupt::requested() {
                std::thread::yield_now();
            }
            stopped.lock().unwrap().push(*case);
        };
        std::thread::scope(|scope| {
            let mut next = GroundworkQueue::begin(scope, &[0, 1], &lay);
            next.take(0);
            next.go_on(0);
            // The search of the first case fails here.
        });
        assert_eq!(*stopped.lock().unwrap(), [0, 1]);
    }

    #[test]
    fn a_setting_is_compiled_once_and_judged_as_often_as_it_is_taken_in() {
        let candidate = |block: i64, samples| {
            let tuning = [("block".parse().unwrap(), Value::Integer(block))].into();
            Candidate { tuning, samples, enough: None }
        };
        let compiled = |place| {
            let code =
                Err(CandidateRefusal { code: "compile::device_code", text: format!("number {place}") });
            Compiled { place, seconds: 1.0, code }
        };
        let mut codes = Codes::default();
        assert_eq!((codes.take(candidate(32, 3)), codes.take(candidate(64, 3))), (Some(0), Some(1)));
        assert!(codes.next().is_none());
        assert_eq!(codes.keep(compiled(1)).0, candidate(64, 3));
        assert_eq!(codes.take(candidate(64, 9)), None);
        assert_eq!(codes.take(candidate(32, 9)), Some(3), "it is still being compiled");
        let (again, code) = codes.next().unwrap();
        assert_eq!((again, code.place), (candidate(64, 9), 1));
        assert!(codes.next().is_none());
    }
}
