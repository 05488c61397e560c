//! The search of `[tune]` for kernels that `try` found right, a setting at a time, while nobody asks anything.
//!
//! Owns: which kernels are searched, and how far. Never: decides what replaces the best: `submit` searches again and
//! measures anew.

use std::collections::VecDeque;

use kernel_plan::spec::op::Case;
use kernel_plan::spec::tune::Tuning;

use crate::agent::kernel::ProposedKernel;
use crate::agent::lineage::Figure;
use crate::agent::tuner::Tuner;
use crate::agent::tuner::prune::{self, Device};
use crate::agent::tuner::space::Space;
use crate::agent::{Agent as _, Candidate, Feedback};
use crate::bench::known;
use crate::exit::Failure;

use super::desk::{Desk, SettingsSearch, settings_of};
use super::judge::Verdict;

/// Settings of one kernel that are tried on one case.
const SETTINGS: usize = 48;
/// Settings that are drawn at a time: a space is gone through for each drawing.
const DRAWN: usize = 8;
/// Settings of the largest space that is searched beside an agent: going through a larger one takes too long.
const LARGEST: usize = 10_000;
/// Kernels that are searched; of more, the latest.
const KERNELS: usize = 8;
/// Samples that a setting is known by.
const SAMPLES: usize = 1;

impl Desk<'_> {
    /// Searches the settings of a kernel from now on, if it has some; says whether it does. It was right with `tuning`.
    pub(super) fn search_later(
        &mut self,
        proposed: &ProposedKernel,
        case: &Case,
        tuning: &Tuning,
        seconds: f64,
    ) -> bool {
        let tunables = &proposed.op.tune.tunables;
        let all = tunables.iter().try_fold(1usize, |all, one| all.checked_mul(one.values.len()));
        if !all.is_some_and(|all| (2..=LARGEST).contains(&all)) {
            return false;
        }
        let known = vec![Feedback { tuning: tuning.clone(), samples: SAMPLES, cost: Some(seconds) }];
        let id = proposed.kernel.id();
        let is_same = |one: &SettingsSearch| one.proposed.kernel.id() == id && one.case.id == case.id;
        if !self.searches.iter().any(is_same) {
            // The agent works on the latest.
            self.searches.push_front(SettingsSearch {
                proposed: proposed.clone(),
                case: case.clone(),
                known,
                waiting: VecDeque::new(),
            });
            self.searches.truncate(KERNELS);
        }
        true
    }

    /// Tries one more setting, if there is one; says whether there may be more. A search that fails is given up: `submit`
    /// makes it again and tells why.
    pub(crate) fn work(&mut self) -> bool {
        let Some(mut search) = self.searches.pop_front() else { return false };
        if self.try_setting(&mut search).is_ok_and(|goes_on| goes_on) {
            self.searches.push_front(search);
        }
        !self.searches.is_empty()
    }

    fn try_setting(&mut self, search: &mut SettingsSearch) -> Result<bool, Failure> {
        let SettingsSearch { proposed, case, known, waiting } = search;
        if known.len() >= SETTINGS {
            return Ok(false);
        }
        let Ok(about) = self.judge.device()? else { return Ok(false) };
        let device = Device {
            capability: about.capability,
            multiprocessors: about.multiprocessors,
            threads: about.threads,
            shared: about.shared,
        };
        let op = &proposed.op;
        if waiting.is_empty() {
            let admit = Box::new(|tuning: &Tuning| prune::admit(op, case, &device, tuning));
            let default = [op.tune.default_tuning()];
            let mut tuner = Tuner::new(Space::new(&op.tune.tunables, admit), &default, SETTINGS, 0);
            known.iter().for_each(|feedback| tuner.hear(feedback));
            // A tuner proposes good settings again, with more samples; here all have as many.
            let is_new = |one: &Candidate| !known.iter().any(|feedback| feedback.tuning == one.tuning);
            waiting.extend(tuner.propose(SETTINGS).into_iter().filter(is_new).take(DRAWN));
        }
        let Some(next) = waiting.pop_front() else { return Ok(false) };
        let verdict = self.judge.attempt(proposed, &next.tuning, case)?;
        let measured = match &verdict {
            Verdict::Right(screened) => {
                known::of_samples(&screened.samples).ok().map(|()| (screened.seconds, screened.copy_fraction))
            }
            Verdict::Refused(_) | Verdict::Compiled { .. } => None,
        };
        let cost = measured.map(|(seconds, _)| seconds);
        if let Some((seconds, copy_fraction)) = measured {
            let settings = settings_of(&next.tuning);
            self.note_figure(&proposed.kernel.id(), case, Figure { seconds, copy_fraction, settings })?;
        }
        known.push(Feedback { tuning: next.tuning, samples: next.samples, cost });
        Ok(true)
    }

    /// Keeps a time that is the best of a candidate on a case.
    fn note_figure(&mut self, id: &str, case: &Case, figure: Figure) -> Result<(), Failure> {
        let known = self.store.lineage().entries().iter().find(|entry| entry.id == id);
        let Some(mut entry) = known.cloned() else { return Ok(()) };
        if entry.figures.get(&case.id).is_none_or(|known| figure.seconds < known.seconds) {
            entry.figures.insert(case.id.clone(), figure);
            self.store.note(entry)?;
        }
        Ok(())
    }
}
