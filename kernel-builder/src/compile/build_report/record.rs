//! All that the report of a build says.
//!
//! Owns: the format of `report.json`. Never: decides what ran; `timeline` says it.

use serde::Serialize;

use super::super::timeline::{Sample, Step, Timeline, UnitEnd, UnitOutcome};

/// How a build ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(in crate::compile) enum End {
    /// Every variant is there.
    Complete,
    /// Some are not.
    Failed,
    /// The user stopped it.
    Interrupted,
}

/// One variant and whether it is there.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(in crate::compile) struct VariantEnd {
    /// Its name.
    pub(in crate::compile) variant: String,
    /// Whether it was built.
    pub(in crate::compile) built: bool,
}

/// All that the report says; this is `report.json`.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(in crate::compile) struct Record {
    pub(super) format: u32,
    /// The project's name.
    pub(super) project: String,
    /// The version of this program.
    pub(super) program: &'static str,
    /// How it ended.
    pub(super) end: End,
    /// How many processes might run at a time.
    pub(super) jobs: usize,
    /// Wall-clock time of the whole.
    pub(super) seconds: f64,
    pub(in crate::compile) variants: Vec<VariantEnd>,
    pub(super) units: Vec<UnitEnd>,
    pub(super) steps: Vec<Step>,
    pub(super) memory: Vec<Sample>,
}

impl Record {
    /// What a timeline says of a build that is over.
    pub(in crate::compile) fn new(
        project: &str,
        end: End,
        jobs: usize,
        variants: Vec<VariantEnd>,
        timeline: &Timeline,
    ) -> Self {
        Self {
            format: 1,
            project: project.to_owned(),
            program: env!("CARGO_PKG_VERSION"),
            end,
            jobs,
            seconds: timeline.now(),
            variants,
            units: timeline.units(),
            steps: timeline.steps(),
            memory: timeline.samples(),
        }
    }

    /// Whether a process ran: a build that only found everything in place leaves the report of the one before.
    pub(in crate::compile) fn is_news(&self) -> bool {
        !self.steps.is_empty() || self.end != End::Complete
    }

    pub(super) fn count(&self, fate: UnitOutcome) -> usize {
        self.units.iter().filter(|unit| unit.fate == fate).count()
    }
}
