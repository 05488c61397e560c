//! The judge of a search: compiles side by side, and screens on the GPU.
//!
//! Owns: when the GPU gets ready, the machine code of what was compiled once, what time was waited for whom. Never:
//! chooses a candidate.

use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use kernel_plan::spec::op::Case;
use kernel_plan::spec::tune::Tuning;

use super::next::Next;
use super::phases::Phases;
use super::search::{Figures, Judge, Refusal, Verdict};
use crate::agent::Candidate;
use crate::base::interrupt::Interrupted;
use crate::bench::screen::Screen;
use crate::compile::nvrtc::Source;
use crate::device::gpu::Gpu;
use crate::exit::Failure;
use crate::pipeline::measure::screening::{self, Compiled, Job, Line, Task};
use crate::verify::VerifyError;
use crate::verify::lab::Groundwork;

/// Texts on their way for each that is compiled at a time: the GPU shall not wait for the slowest of them.
const AHEAD: usize = 2;

/// The groundwork of the workloads of a run.
pub(crate) type Grounds<'scope, 'env> = Next<'scope, 'env, Case, Result<Groundwork, VerifyError>>;

/// What is handed from one workload of a run to the next.
pub(crate) struct Handed<'scope, 'env> {
    pub(crate) grounds: Grounds<'scope, 'env>,
    /// A worker with a context and nothing in it.
    pub(crate) checker: Option<Gpu>,
}

/// Candidates of one workload on the GPU.
pub(crate) struct OnGpu<'a, 'scope, 'env> {
    task: &'a Task<'a>,
    line: &'a Line<'a>,
    source: Arc<Source>,
    /// The place of the workload among those of the run.
    place: usize,
    handed: &'a mut Handed<'scope, 'env>,
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

impl<'a, 'scope, 'env> OnGpu<'a, 'scope, 'env> {
    pub(crate) fn new(
        task: &'a Task<'a>,
        line: &'a Line<'a>,
        source: Arc<Source>,
        place: usize,
        handed: &'a mut Handed<'scope, 'env>,
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
                self.before = lab.asked();
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
            let (measured, judged) = lab.asked();
            self.phases.measure = measured.saturating_sub(self.before.0);
            self.phases.judge = judged.saturating_sub(self.before.1);
            self.handed.checker = Some(lab.into_checker()?);
        }
        Ok(self.phases)
    }
}

impl Judge for OnGpu<'_, '_, '_> {
    fn take(&mut self, candidates: Vec<Candidate>) {
        for candidate in candidates {
            let tuning = candidate.tuning.clone();
            if let Some(place) = self.codes.take(candidate) {
                self.line.give(Job { place, tuning, source: self.source.clone() });
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

    use super::*;
    use crate::verify::lab::Complaint;

    #[test]
    fn a_setting_is_compiled_once_and_judged_as_often_as_it_is_taken_in() {
        let candidate = |block: i64, samples| {
            let tuning = [("block".parse().unwrap(), Value::Integer(block))].into();
            Candidate { tuning, samples, enough: None }
        };
        let compiled = |place| {
            let code = Err(Complaint { code: "compile::device_code", text: format!("number {place}") });
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
