//! The steps that a person puts in memory between kernels, or keeps out of it.
//!
//! Owns: which values the names refer to. Never: plans.

use std::collections::BTreeSet;

use super::program::{Kind, Program, ValueId};

/// Names of values from the person's function, as in plan.md. If several values share a name, the last one is split off.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Choices {
    /// Values to write to memory before they are used; a kernel ends at each of them.
    pub split: Vec<String>,
    /// Values to compute where they are used.
    pub fuse: Vec<String>,
}

impl Choices {
    /// Whether nothing is chosen.
    pub fn is_empty(&self) -> bool {
        self.split.is_empty() && self.fuse.is_empty()
    }

    /// The names that none of the programs has.
    pub fn unknown<'c>(&'c self, programs: &[&Program]) -> Vec<&'c str> {
        let known = |name: &&str| programs.iter().any(|program| named(program, name).is_some());
        let names = self.split.iter().chain(&self.fuse).map(String::as_str);
        names.filter(|name| !known(name)).collect()
    }

    /// The values to split off, in the order of the program.
    pub(super) fn split(&self, program: &Program) -> BTreeSet<ValueId> {
        self.split.iter().filter_map(|name| named(program, name)).collect()
    }

    /// The values to fuse: all that have the name, since some may be views of others.
    pub(super) fn fused(&self, program: &Program) -> BTreeSet<ValueId> {
        let values = program.values.iter().enumerate();
        values.filter(|(_, value)| self.fuse.contains(&value.name)).map(|(place, _)| place).collect()
    }
}

/// The names that can be chosen, in the order in which the function computes them.
pub fn choosable(program: &Program) -> Vec<&str> {
    let mut names: Vec<&str> = Vec::new();
    for (place, value) in program.values.iter().enumerate() {
        let name = value.name.as_str();
        if is_computed(program, place) && !names.contains(&name) {
            names.push(name);
        }
    }
    names
}

fn named(program: &Program, name: &str) -> Option<ValueId> {
    (0..program.values.len()).rev().find(|at| program.values[*at].name == name && is_computed(program, *at))
}

/// Whether a value is an intermediate one: not a tensor of the call, a number or a result.
fn is_computed(program: &Program, value: ValueId) -> bool {
    let is_result = program.outputs.iter().any(|(_, of)| *of == value);
    let kind = &program.values[value].kind;
    !is_result && !matches!(kind, Kind::Input(_) | Kind::Number(_) | Kind::Quantity(_) | Kind::Place(_))
}
