//! How long each step may take: .ci/budget.toml, and the rule that CI fails at twice a budget.
//!
//! Owns: the rule and its message. Never: measures.

use std::path::Path;

use super::sections::{self, Sections};

/// The file, from the root.
pub(crate) const FILE: &str = ".ci/budget.toml";
/// A step fails when it takes more than this many times its budget.
const LIMIT: u32 = 2;

/// The budgets, in wall seconds.
pub(crate) struct Budgets(Sections);

impl Budgets {
    /// Reads the committed file.
    ///
    /// # Errors
    /// It cannot be read, or a value is not a number of seconds.
    pub(crate) fn read(root: &Path) -> Result<Self, String> {
        let sections = sections::read(&root.join(FILE))?;
        for (key, value) in sections.values().flatten() {
            value
                .parse::<u32>()
                .map_err(|_| format!("{FILE}: `{key}` is not a number of seconds: {value}"))?;
        }
        Ok(Self(sections))
    }

    /// The budget of a step.
    pub(crate) fn step(&self, name: &str) -> Option<u32> {
        self.0.get("step")?.get(name)?.parse().ok()
    }

    /// The budget of everything together, of `run` or of `full`.
    pub(crate) fn total(&self, kind: &str) -> Option<u32> {
        self.0.get("total")?.get(kind)?.parse().ok()
    }
}

/// The message for a step that took too long.
pub(crate) fn excess(name: &str, seconds: f64, budget: Option<u32>) -> Option<String> {
    let budget = budget?;
    (seconds > f64::from(LIMIT * budget))
        .then(|| format!("{name} took {seconds:.0} s, more than twice its budget of {budget} s ({FILE})"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ci::steps::STEPS;
    use crate::repo;

    #[test]
    fn a_step_fails_beyond_twice_its_budget_only() {
        assert_eq!(excess("fuzz", 25.0, Some(25)), None);
        assert_eq!(excess("fuzz", 50.0, Some(25)), None);
        let message = "fuzz took 51 s, more than twice its budget of 25 s (.ci/budget.toml)";
        assert_eq!(excess("fuzz", 50.6, Some(25)).as_deref(), Some(message));
        assert_eq!(excess("fuzz", 5000.0, None), None);
    }

    #[test]
    fn every_step_has_a_budget_and_every_budget_a_step() {
        let budgets = Budgets::read(&repo::root()).unwrap();
        let named: Vec<&str> = budgets.0["step"].keys().map(String::as_str).collect();
        let mut steps: Vec<&str> = STEPS.iter().map(|step| step.name).collect();
        steps.sort_unstable();
        assert_eq!(named, steps);
        assert!(budgets.total("run") <= budgets.total("full") && budgets.total("run").is_some());
    }
}
