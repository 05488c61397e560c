//! The schedule as each role of the harness is told it.
//!
//! Owns: what a role does not learn: the candidate neither kinds of values nor purposes, the oracle no trials. Pure.
//! Never: decides what is called.

use super::schedule::{InputSet, ScheduledCase, Trial};
use crate::protocol::verify;

impl ScheduledCase {
    /// For those who compute the reference; `explained` has for each output the error for each unit of its terms, or nothing.
    pub(crate) fn for_oracle(&self, explained: Vec<f64>) -> verify::OracleCase {
        verify::OracleCase {
            id: self.id.clone(),
            place: self.place,
            inputs: self.inputs.clone(),
            outputs: self.outputs.clone(),
            gradients: self.gradients.clone(),
            explained,
            sets: self.sets.iter().map(InputSet::message).collect(),
        }
    }

    /// For the candidate's process.
    pub(crate) fn for_candidate(&self) -> verify::CandidateCase {
        let scalars = self.sets.iter().map(|set| set.scalars.clone());
        verify::CandidateCase {
            place: self.place,
            inputs: self.inputs.clone(),
            outputs: self.outputs.clone(),
            gradients: self.gradients.clone(),
            sets: scalars.map(|scalars| verify::CandidateSet { scalars }).collect(),
            trials: self.trials.iter().map(Trial::message).collect(),
        }
    }
}

impl InputSet {
    fn message(&self) -> verify::InputSet {
        verify::InputSet {
            kind: self.kind,
            edit_of: self.edit_of,
            edit_input: self.edit_input,
            change: self.change.clone(),
            scalars: self.scalars.clone(),
            baseline: self.baseline,
            gradient: self.gradient,
            hard: self.hard,
        }
    }
}

impl Trial {
    fn message(&self) -> verify::Trial {
        verify::Trial {
            id: self.id,
            set: self.set,
            form: self.form,
            poison: self.poison,
            arena: self.arena.to_owned(),
            guard: self.guard,
            shift: self.shift,
            strides: self.strides.iter().map(|(place, of)| (place.to_string(), of.clone())).collect(),
            calls: self.calls,
            manner: self.manner,
            input: self.input,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::schedule::tests::{OP, scheduled_op};

    #[test]
    fn the_candidate_learns_neither_kinds_nor_purposes_nor_names() {
        let case = scheduled_op(OP).swap_remove(0);
        let told = serde_json::to_value(case.for_candidate()).unwrap();
        let keys = |value: &serde_json::Value| -> Vec<String> {
            value.as_object().unwrap().keys().cloned().collect()
        };
        assert_eq!(keys(&told), ["place", "inputs", "outputs", "gradients", "sets", "trials"]);
        assert!(told["sets"].as_array().unwrap().iter().all(|set| keys(set) == ["scalars"]));
        assert_eq!(told["trials"].as_array().unwrap().len(), case.trials.len());
        assert!(told["trials"][0].get("purpose").is_none());
    }
}
