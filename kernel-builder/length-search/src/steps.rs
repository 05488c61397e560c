//! Programs as steps of which each is computed once.
//!
//! Owns: their order. Never: has another value than the programs.
//!
//! The names of `[let]` are expanded in expressions, so that a program of two thousand parts may have a hundred different ones.

use std::collections::{HashMap, HashSet};

use super::program::{Operation, Program, binary, ceil_div};

/// A step; operands are the places of earlier ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Step {
    Constant(i64),
    Slot(usize),
    Not(usize),
    Negate(usize),
    Binary(Operation, usize, usize),
    CeilDiv(usize, usize),
    Min(usize, usize),
    Max(usize, usize),
}

impl Step {
    fn operands(self) -> impl Iterator<Item = usize> {
        let (one, other) = match self {
            Self::Constant(_) | Self::Slot(_) => (None, None),
            Self::Not(operand) | Self::Negate(operand) => (Some(operand), None),
            Self::Binary(_, left, right)
            | Self::CeilDiv(left, right)
            | Self::Min(left, right)
            | Self::Max(left, right) => (Some(left), Some(right)),
        };
        one.into_iter().chain(other)
    }

    /// The step with its operands at other places.
    fn moved(self, to: &[usize]) -> Self {
        match self {
            Self::Constant(_) | Self::Slot(_) => self,
            Self::Not(operand) => Self::Not(to[operand]),
            Self::Negate(operand) => Self::Negate(to[operand]),
            Self::Binary(operation, left, right) => Self::Binary(operation, to[left], to[right]),
            Self::CeilDiv(left, right) => Self::CeilDiv(to[left], to[right]),
            Self::Min(left, right) => Self::Min(to[left], to[right]),
            Self::Max(left, right) => Self::Max(to[left], to[right]),
        }
    }
}

/// Some programs. What is computed first is what the values need, or what does not vary in a loop.
#[derive(Debug, Default)]
pub(super) struct Steps {
    steps: Vec<Step>,
    /// The results, by the places of their steps.
    values: Vec<usize>,
    conditions: Vec<usize>,
    /// Steps that are computed first.
    begin: usize,
    /// The result of each step; `None` after a division by zero, or if it does not fit into 64 bits.
    found: Vec<Option<i64>>,
}

impl Steps {
    pub(super) fn new(values: &[Program], conditions: &[Program]) -> Self {
        let mut known = HashMap::new();
        let mut made = Self::default();
        made.values = values.iter().map(|one| made.place(one, &mut known)).collect();
        made.begin = made.steps.len();
        made.conditions = conditions.iter().map(|one| made.place(one, &mut known)).collect();
        made.found = vec![None; made.steps.len()];
        made
    }

    /// Conditions alone, of which the steps that do not depend on these slots come first.
    pub(super) fn of_conditions(conditions: &[Program], slots: &[usize]) -> Self {
        let all = Self::new(&[], conditions);
        let mut varies: Vec<bool> = vec![];
        for step in &all.steps {
            let varying = match step {
                Step::Slot(slot) => slots.contains(slot),
                other => other.operands().any(|operand| varies[operand]),
            };
            varies.push(varying);
        }
        let (later, first): (Vec<usize>, Vec<usize>) = (0..all.steps.len()).partition(|place| varies[*place]);
        let mut moved = vec![0; all.steps.len()];
        for (to, from) in first.iter().chain(&later).enumerate() {
            moved[*from] = to;
        }
        Self {
            steps: first.iter().chain(&later).map(|from| all.steps[*from].moved(&moved)).collect(),
            values: vec![],
            conditions: all.conditions.iter().map(|place| moved[*place]).collect(),
            begin: first.len(),
            found: all.found,
        }
    }

    /// Computes the steps that come first; false if one of the conditions is among them and does not hold.
    pub(super) fn can_begin(&mut self, numbers: &[i64]) -> bool {
        self.run(0, self.begin, numbers);
        let known = self.conditions.iter().filter(|place| **place < self.begin);
        known.copied().all(|place| self.found[place].is_some_and(|truth| truth != 0))
    }

    fn place(&mut self, program: &Program, known: &mut HashMap<Step, usize>) -> usize {
        let step = match program {
            Program::Constant(number) => Step::Constant(*number),
            Program::Slot(place) => Step::Slot(*place),
            Program::Not(operand) => Step::Not(self.place(operand, known)),
            Program::Negate(operand) => Step::Negate(self.place(operand, known)),
            Program::Binary(operation, left, right) => {
                Step::Binary(*operation, self.place(left, known), self.place(right, known))
            }
            Program::CeilDiv(left, right) => Step::CeilDiv(self.place(left, known), self.place(right, known)),
            Program::Min(all) => return self.chain(all, Step::Min, known),
            Program::Max(all) => return self.chain(all, Step::Max, known),
        };
        self.add(step, known)
    }

    /// The least or the greatest of several.
    fn chain(
        &mut self,
        all: &[Program],
        step: fn(usize, usize) -> Step,
        known: &mut HashMap<Step, usize>,
    ) -> usize {
        let places: Vec<usize> = all.iter().map(|one| self.place(one, known)).collect();
        let joined = places.into_iter().reduce(|left, right| self.add(step(left, right), known));
        // No program is of none; one would have no value.
        joined.unwrap_or_else(|| self.add(Step::Slot(usize::MAX), known))
    }

    fn add(&mut self, step: Step, known: &mut HashMap<Step, usize>) -> usize {
        *known.entry(step).or_insert_with(|| {
            self.steps.push(step);
            self.steps.len() - 1
        })
    }

    /// Computes the values; false if one of them has none.
    pub(super) fn values(&mut self, numbers: &[i64], tuple: &mut Vec<i64>) -> bool {
        self.run(0, self.begin, numbers);
        tuple.clear();
        tuple.extend(self.values.iter().map_while(|place| self.found[*place]));
        tuple.len() == self.values.len()
    }

    /// Whether all conditions hold, after [`Steps::values`] or [`Steps::can_begin`] with the same numbers.
    pub(super) fn conditions_hold(&mut self, numbers: &[i64]) -> bool {
        self.run(self.begin, self.steps.len(), numbers);
        self.conditions.iter().all(|place| self.found[*place].is_some_and(|truth| truth != 0))
    }

    /// For some of the numbers of a slot, what is computed of the others: one number of each kind, in their order, at most one
    /// more than `most`. Numbers for which no condition can hold are left out.
    pub(super) fn kinds(&self, slot: usize, numbers: &[i64], most: usize) -> Vec<i64> {
        let mut rest = Self::default();
        let mut known = HashMap::new();
        let mut kinds: HashSet<Vec<usize>> = HashSet::new();
        let mut first = vec![];
        for number in numbers {
            let mut places: Vec<usize> = vec![];
            for step in &self.steps {
                let place = rest.add(rest.without(*step, slot, *number, &places), &mut known);
                places.push(place);
            }
            let of = |roots: &[usize]| -> Vec<usize> { roots.iter().map(|root| places[*root]).collect() };
            let conditions = of(&self.conditions);
            if conditions.iter().any(|place| rest.steps[*place] == Step::Constant(0)) {
                continue;
            }
            if kinds.insert([of(&self.values), conditions].concat()) {
                first.push(*number);
            }
            if first.len() > most {
                break;
            }
        }
        first
    }

    /// A step in which a slot has a number, with operands at these places here.
    fn without(&self, step: Step, slot: usize, number: i64, places: &[usize]) -> Step {
        let constant = |operand: usize| match self.steps[places[operand]] {
            Step::Constant(number) => Some(number),
            _ => None,
        };
        match step {
            Step::Slot(other) if other == slot => Step::Constant(number),
            Step::Constant(_) | Step::Slot(_) => step,
            Step::Not(operand) => match constant(operand) {
                Some(number) => Step::Constant(i64::from(number == 0)),
                None => Step::Not(places[operand]),
            },
            Step::Negate(operand) => match constant(operand).and_then(i64::checked_neg) {
                Some(number) => Step::Constant(number),
                None => Step::Negate(places[operand]),
            },
            Step::Binary(operation, left, right) => match (operation, constant(left)) {
                (Operation::And, Some(0)) => Step::Constant(0),
                (Operation::Or, Some(truth)) if truth != 0 => Step::Constant(1),
                (_, first) => {
                    match first.zip(constant(right)).and_then(|(one, other)| binary(operation, one, other)) {
                        Some(number) => Step::Constant(number),
                        None => Step::Binary(operation, places[left], places[right]),
                    }
                }
            },
            Step::CeilDiv(left, right) => {
                match constant(left).zip(constant(right)).and_then(|(one, other)| ceil_div(one, other)) {
                    Some(number) => Step::Constant(number),
                    None => Step::CeilDiv(places[left], places[right]),
                }
            }
            Step::Min(left, right) => match constant(left).zip(constant(right)) {
                Some((one, other)) => Step::Constant(one.min(other)),
                None => Step::Min(places[left], places[right]),
            },
            Step::Max(left, right) => match constant(left).zip(constant(right)) {
                Some((one, other)) => Step::Constant(one.max(other)),
                None => Step::Max(places[left], places[right]),
            },
        }
    }

    fn run(&mut self, from: usize, to: usize, numbers: &[i64]) {
        for place in from..to {
            let found = &self.found;
            self.found[place] = match self.steps[place] {
                Step::Constant(number) => Some(number),
                Step::Slot(slot) => numbers.get(slot).copied(),
                Step::Not(operand) => found[operand].map(|number| i64::from(number == 0)),
                Step::Negate(operand) => found[operand].and_then(i64::checked_neg),
                // The right side counts only if the left side does not decide.
                Step::Binary(Operation::And, left, _) if found[left] == Some(0) => Some(0),
                Step::Binary(Operation::Or, left, _) if found[left].is_some_and(|truth| truth != 0) => {
                    Some(1)
                }
                Step::Binary(operation, left, right) => {
                    found[left].zip(found[right]).and_then(|(left, right)| binary(operation, left, right))
                }
                Step::CeilDiv(left, right) => {
                    found[left].zip(found[right]).and_then(|(left, right)| ceil_div(left, right))
                }
                Step::Min(left, right) => found[left].zip(found[right]).map(|(left, right)| left.min(right)),
                Step::Max(left, right) => found[left].zip(found[right]).map(|(left, right)| left.max(right)),
            };
        }
    }
}
