//! The judge of a search: compiles side by side, and screens on the GPU.
//!
//! Owns: when the GPU gets ready. Never: chooses a candidate.

use std::sync::Arc;

use super::search::{Figures, Judge, Refusal, Verdict};
use crate::agent::Candidate;
use crate::bench::screen::Screen;
use crate::commands::screening::{self, Job, Line, Task};
use crate::compile::nvrtc::Source;
use crate::exit::Failure;

/// Texts on their way for each that is compiled at a time: the GPU shall not wait for the slowest of them.
const AHEAD: usize = 2;

/// Candidates of one workload on the GPU.
pub(super) struct OnGpu<'a> {
    task: &'a Task<'a>,
    line: &'a Line<'a>,
    source: Arc<Source>,
    /// What was taken in, by its number.
    taken: Vec<Candidate>,
    screen: Option<Screen>,
}

impl<'a> OnGpu<'a> {
    pub(super) fn new(task: &'a Task<'a>, line: &'a Line<'a>, source: Arc<Source>) -> Self {
        Self { task, line, source, taken: vec![], screen: None }
    }

    fn screen(&mut self) -> Result<&mut Screen, Failure> {
        match &mut self.screen {
            Some(screen) => Ok(screen),
            none => Ok(none.insert(Screen::new(self.task.lab()?))),
        }
    }
}

impl Judge for OnGpu<'_> {
    fn take(&mut self, candidates: Vec<Candidate>) {
        for candidate in candidates {
            let (place, tuning) = (self.taken.len(), candidate.tuning.clone());
            self.line.give(Job { place, tuning, source: self.source.clone() });
            self.taken.push(candidate);
        }
    }

    fn ready(&mut self) -> Result<(), Failure> {
        self.screen().map(drop)
    }

    fn verdict(&mut self) -> Result<Option<Verdict>, Failure> {
        let Some(compiled) = self.line.next()? else { return Ok(None) };
        let candidate = self.taken[compiled.place].clone();
        let screened = screening::judged(&compiled, self.screen()?, candidate.samples)?;
        let outcome = screened
            .map(|found| Figures { seconds: found.seconds, copy_fraction: found.copy_fraction })
            .map_err(|complaint| Refusal { code: complaint.code.to_owned(), text: complaint.text });
        Ok(Some(Verdict { candidate, outcome }))
    }

    fn clear(&mut self) -> Result<(), Failure> {
        self.line.clear()
    }

    fn window(&self) -> usize {
        AHEAD * self.task.jobs.max(1) + 2
    }
}
