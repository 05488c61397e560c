//! What each step took last time: memory, for admission; seconds, for the time that is left.
//!
//! Owns: `<cache>/state/compile/<project>.json`, at most [`KEPT`] steps, the longest unused forgotten first.
//! Never: fails a build; a file that cannot be read counts as none.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::kind::{Cost, Kind};
use super::label::Label;
use crate::base::files::{self, FileError};

/// Steps that are remembered of one project.
const KEPT: usize = 4096;

/// One step as it went last.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct StepHistory {
    variant: String,
    unit: String,
    step: String,
    seconds: f64,
    memory: u64,
}

impl StepHistory {
    fn is(&self, label: Label<'_>) -> bool {
        self.unit == label.unit && self.step == label.step && self.variant == label.variant
    }
}

/// What is remembered of a project's steps; the longest unused come first.
#[derive(Debug, Default)]
pub(super) struct History {
    place: Option<PathBuf>,
    steps: Vec<StepHistory>,
}

impl History {
    /// What was remembered at `place`.
    pub(super) fn load(place: &Path) -> Self {
        let read = || serde_json::from_slice(&files::read(place).ok()?).ok();
        Self { place: Some(place.to_owned()), steps: read().unwrap_or_default() }
    }

    /// What this step took last time, or the same step for another variant.
    pub(super) fn last_cost(&self, label: Label<'_>) -> Option<Cost> {
        let cost = |past: &StepHistory| Cost { seconds: past.seconds, memory: past.memory };
        let same = self.steps.iter().rfind(|past| past.is(label));
        let alike = |past: &&StepHistory| past.unit == label.unit && past.step == label.step;
        same.map(cost).or_else(|| {
            let others = self.steps.iter().filter(alike).map(cost);
            others.reduce(|one, two| Cost {
                seconds: one.seconds.max(two.seconds),
                memory: one.memory.max(two.memory),
            })
        })
    }

    /// What a process is expected to take.
    pub(super) fn expected(&self, label: Label<'_>, kind: Kind) -> Cost {
        match self.last_cost(label) {
            // A process may need somewhat more than last time.
            Some(seen) => Cost { memory: seen.memory + seen.memory / 8, ..seen },
            None => kind.usual(),
        }
    }

    /// Keeps what a step took.
    pub(super) fn learn(&mut self, label: Label<'_>, cost: Cost) {
        self.steps.retain(|past| !past.is(label));
        self.steps.push(StepHistory {
            variant: label.variant.to_owned(),
            unit: label.unit.to_owned(),
            step: label.step.to_owned(),
            seconds: (cost.seconds * 1e3).round() / 1e3,
            memory: cost.memory,
        });
        let surplus = self.steps.len().saturating_sub(KEPT);
        self.steps.drain(..surplus);
    }

    /// Writes all of it.
    pub(super) fn save(&self) -> Result<(), FileError> {
        let Some(place) = &self.place else { return Ok(()) };
        files::write(place, serde_json::to_vec(&self.steps).unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LABEL: Label<'_> = Label { variant: "v", unit: "a.cu", step: "compile" };

    #[test]
    fn the_last_time_counts_then_other_variants_then_the_kind() {
        let root = files::scratch().unwrap();
        let place = root.path().join("p.json");
        let mut history = History::load(&place);
        assert_eq!(history.expected(LABEL, Kind::Whole), Kind::Whole.usual());
        history.learn(Label { variant: "w", ..LABEL }, Cost { seconds: 9.0, memory: 1000 });
        assert_eq!(history.expected(LABEL, Kind::Whole), Cost { seconds: 9.0, memory: 1125 });
        history.learn(LABEL, Cost { seconds: 2.0, memory: 100 });
        history.save().unwrap();
        let again = History::load(&place);
        assert_eq!(again.expected(LABEL, Kind::Whole), Cost { seconds: 2.0, memory: 112 });
    }

    #[test]
    fn it_is_bounded_and_damage_counts_as_nothing() {
        let root = files::scratch().unwrap();
        let place = root.path().join("p.json");
        let mut history = History::load(&place);
        for number in 0..=KEPT {
            let unit = number.to_string();
            history.learn(Label { unit: &unit, ..LABEL }, Cost { seconds: 1.0, memory: 1 });
        }
        assert_eq!(history.steps.len(), KEPT);
        assert!(history.last_cost(Label { unit: "0", ..LABEL }).is_none(), "the oldest is forgotten");
        files::write(&place, "{ not json").unwrap();
        assert!(History::load(&place).steps.is_empty());
    }
}
