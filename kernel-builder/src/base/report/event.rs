//! Events of a run.
//!
//! Owns: what a program reads of an event. Never: prints.

use std::time::Duration;

use serde::Serialize;

use super::quantity::duration;

/// Something that happened, told while the program runs.
#[derive(Debug, Clone, Serialize)]
#[serde(tag = "event", rename_all = "kebab-case")]
pub enum Event<'a> {
    /// A stage of the line begins.
    Stage {
        /// `build`, `verify`, ...
        name: &'a str,
        /// What it works on.
        subject: &'a str,
    },
    /// A step of a stage is done.
    Done {
        /// What was done, as a past participle: `compiled`, `fetched`, `linked`, `verified`.
        action: &'a str,
        /// To what.
        subject: &'a str,
        /// Details for a person; may be empty.
        detail: &'a str,
        /// Seconds it took.
        seconds: f64,
        /// Whether an earlier result was used instead.
        cached: bool,
    },
    /// A process of a build begins or ends, or a unit needs none. For programs; a person sees the bar.
    Unit {
        /// `started` or `finished`.
        state: &'a str,
        /// The variant that it runs for.
        variants: &'a [&'a str],
        /// The source, or `link`.
        unit: &'a str,
        /// The part of the work; nothing for a unit that needs no process.
        #[serde(skip_serializing_if = "Option::is_none")]
        step: Option<&'a str>,
        /// `compile`, `device`, `link`, ...
        #[serde(skip_serializing_if = "Option::is_none")]
        kind: Option<&'a str>,
        /// Seconds it took.
        #[serde(skip_serializing_if = "Option::is_none")]
        seconds: Option<f64>,
        /// Whether an earlier result, or another variant's, was used instead.
        #[serde(skip_serializing_if = "Option::is_none")]
        cached: Option<bool>,
        /// Bytes that it held at its peak, with all that it started.
        #[serde(skip_serializing_if = "Option::is_none")]
        peak_memory: Option<u64>,
        /// `well`, `failed`, `starved`, `interrupted`.
        #[serde(skip_serializing_if = "Option::is_none")]
        ended: Option<&'a str>,
    },
    /// How far a build is.
    Progress(&'a BuildProgress),
    /// Something that a person should know; the run goes on.
    Note {
        /// A sentence.
        text: &'a str,
    },
    /// Something that a person should act on; the run goes on.
    Warning {
        /// A sentence.
        text: &'a str,
    },
}

/// How far a build is.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct BuildProgress {
    /// Units that are done, whatever came of them; a source counts for each variant.
    pub done: usize,
    /// All units.
    pub total: usize,
    /// Those that an earlier run had made.
    pub cached: usize,
    /// Those that another variant of this run had made.
    pub shared: usize,
    /// Those that failed.
    pub failed: usize,
    /// Variants that are linked.
    pub variants_done: usize,
    /// All variants.
    pub variants: usize,
    /// What runs: the unit and its step.
    pub running: Vec<String>,
    /// Seconds since the build began.
    pub seconds: f64,
    /// Seconds that are left, where they can be guessed.
    pub left: Option<f64>,
}

impl std::fmt::Display for BuildProgress {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let counted = [(self.cached, "cached"), (self.shared, "shared"), (self.failed, "failed")];
        for (count, what) in counted.into_iter().filter(|(count, _)| *count > 0) {
            write!(out, "{count} {what}, ")?;
        }
        write!(out, "{}/{} variants", self.variants_done, self.variants)?;
        if let Some(left) = self.left {
            write!(out, ", about {} left", duration(Duration::from_secs_f64(left.round())))?;
        }
        if let [first, more @ ..] = self.running.as_slice() {
            write!(out, "  {first}")?;
            if !more.is_empty() {
                write!(out, " +{}", more.len())?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_standing_says_what_matters() {
        let mut standing = BuildProgress { done: 3, total: 9, variants: 4, ..BuildProgress::default() };
        assert_eq!(standing.to_string(), "0/4 variants");
        standing.cached = 2;
        standing.left = Some(65.2);
        standing.running = vec!["a.cu (cicc sm_90a)".to_owned(), "b.cu".to_owned()];
        assert_eq!(
            standing.to_string(),
            "2 cached, 0/4 variants, about 1 min 05 s left  a.cu (cicc sm_90a) +1"
        );
    }
}
