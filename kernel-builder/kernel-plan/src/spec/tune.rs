//! `[tune]` of op.toml: what may be varied without changing what is computed.
//!
//! Owns: the tunables, the constraints between them, how many settings there are.
//! Never: measures or chooses one.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use crate::units::{Dtype, PythonName};

use super::Spanned;
use super::expr::{Bindings, BoolExpr, ExprError, Value};

/// A value for each tunable.
pub type Tuning = BTreeMap<PythonName, Value>;

/// `[tune]`.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Tune {
    /// `[tune.NAME]`, in file order.
    pub tunables: Vec<Tunable>,
    /// What must hold between tunables, axes and integer scalars.
    pub constraints: Vec<BoolExpr>,
    /// What `when` of the tunables says, then `constraints`.
    #[serde(skip)]
    conditions: Vec<BoolExpr>,
}

/// One `[tune.NAME]`.
#[derive(Debug, Clone, Serialize)]
pub struct Tunable {
    /// Its name in expressions.
    pub name: Spanned<PythonName>,
    /// The choice, in file order: all numbers, or all truths; without duplicates.
    pub values: Vec<Value>,
    /// What is used before anything has been tuned; one of the values.
    pub default: Spanned<Value>,
    /// The default on GPUs of these compute capabilities, each times ten: 90.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub default_for: BTreeMap<u32, Value>,
    /// Where it matters at all; elsewhere it has its default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub when: Option<BoolExpr>,
}

/// How many settings satisfy the constraints.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Count {
    /// This many.
    Exactly(u64),
    /// More than this many, or too many to count.
    MoreThan(u64),
}

impl Tune {
    /// The section with these tunables and constraints.
    pub(crate) fn new(tunables: Vec<Tunable>, constraints: Vec<BoolExpr>) -> Self {
        let bound = tunables.iter().filter_map(|tunable| {
            let when = tunable.when.as_ref()?;
            Some(when.or_equals(&tunable.name.value, tunable.default.value))
        });
        let conditions = bound.chain(constraints.iter().cloned()).collect();
        Self { tunables, constraints, conditions }
    }

    /// Every condition of a setting: a tunable with `when` has its default where that does not hold, and `constraints`
    /// hold.
    pub fn conditions(&self) -> &[BoolExpr] {
        &self.conditions
    }

    /// The default of every tunable.
    pub fn default_tuning(&self) -> Tuning {
        let defaults = self.tunables.iter();
        defaults.map(|tunable| (tunable.name.value.clone(), tunable.default.value)).collect()
    }

    /// The default of every tunable on GPUs of a compute capability, times ten: 90.
    pub fn default_tuning_for(&self, capability: u32) -> Tuning {
        let defaults = self.tunables.iter();
        let value = |tunable: &Tunable| {
            tunable.default_for.get(&capability).copied().unwrap_or(tunable.default.value)
        };
        defaults.map(|tunable| (tunable.name.value.clone(), value(tunable))).collect()
    }

    /// The compute capabilities, times ten, whose GPUs have other defaults.
    pub fn capabilities(&self) -> BTreeSet<u32> {
        self.tunables.iter().flat_map(|tunable| tunable.default_for.keys().copied()).collect()
    }

    /// The defaults, then those of every capability that has others.
    pub fn all_defaults(&self) -> Vec<Tuning> {
        let others = self.capabilities().into_iter().map(|capability| self.default_tuning_for(capability));
        std::iter::once(self.default_tuning()).chain(others).collect()
    }

    /// Whether every condition holds; `bindings` are those of a case with the tuning in question.
    ///
    /// # Errors
    /// The first condition that has no value.
    pub fn admits(&self, bindings: &Bindings) -> Result<bool, ExprError> {
        for condition in &self.conditions {
            if !condition.evaluate(bindings)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Whether the constraints hold: the setting can run. Unlike [`Self::admits`], a tunable may have any value where it does
    /// not matter.
    ///
    /// # Errors
    /// The first constraint that has no value.
    pub fn allows(&self, bindings: &Bindings) -> Result<bool, ExprError> {
        for constraint in &self.constraints {
            if !constraint.evaluate(bindings)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// The constraints that a call decides: those that name something beside tunables.
    pub fn of_calls(&self) -> impl Iterator<Item = &BoolExpr> {
        let is_tunable = |name: &PythonName| self.tunables.iter().any(|tunable| tunable.name.value == *name);
        let names_others =
            move |constraint: &&BoolExpr| constraint.tree().names().iter().any(|(name, _)| !is_tunable(name));
        self.constraints.iter().filter(names_others)
    }

    /// How many settings satisfy the conditions that `known` decides: that name nothing but tunables and what `known`
    /// has. A condition without a value is not satisfied.
    ///
    /// Counting visits at most `visits` partial settings of the tunables that constraints tie together, and gives up
    /// beyond `limit` settings.
    pub fn count(&self, known: &Bindings, mut visits: u64, limit: u64) -> Count {
        let decided: Vec<&BoolExpr> =
            self.conditions.iter().filter(|constraint| self.is_decided(constraint, known)).collect();
        let mut free: Vec<&Tunable> = self.tunables.iter().collect();
        let mut total = 1u64;
        while !free.is_empty() {
            let group = connected(&mut free, &decided);
            let constraints: Vec<_> = decided
                .iter()
                .copied()
                .filter(|constraint| group.iter().any(|tunable| uses(constraint, tunable)))
                .collect();
            let settings = if constraints.is_empty() {
                group
                    .iter()
                    .try_fold(1u64, |product, tunable| product.checked_mul(tunable.values.len() as u64))
            } else {
                settings(&group, &constraints, &mut known.clone(), &mut visits)
            };
            match settings.and_then(|settings| total.checked_mul(settings)).filter(|total| *total <= limit) {
                Some(product) => total = product,
                None => return Count::MoreThan(limit),
            }
        }
        // What names no tunable holds for all settings or for none.
        let is_constant =
            |constraint: &BoolExpr| !self.tunables.iter().any(|tunable| uses(constraint, tunable));
        let mut constant = decided.iter().filter(|constraint| is_constant(constraint));
        let holds = constant.all(|constraint| constraint.evaluate(known) == Ok(true));
        Count::Exactly(if holds { total } else { 0 })
    }

    /// Whether a constraint names nothing but tunables and what is known.
    pub(crate) fn is_decided(&self, constraint: &BoolExpr, known: &Bindings) -> bool {
        let is_known = |name: &PythonName| {
            self.tunables.iter().any(|tunable| tunable.name.value == *name)
                || known.names.contains_key(name)
                || known.dtypes.contains_key(name)
                || name.as_str().parse::<Dtype>().is_ok()
        };
        let tree = constraint.tree();
        !tree.asks_for_tensors() && tree.names().iter().all(|(name, _)| is_known(name))
    }
}

fn uses(constraint: &BoolExpr, tunable: &Tunable) -> bool {
    constraint.tree().names().iter().any(|(name, _)| **name == tunable.name.value)
}

/// Takes the first tunable, and all that constraints tie to it.
fn connected<'t>(free: &mut Vec<&'t Tunable>, constraints: &[&BoolExpr]) -> Vec<&'t Tunable> {
    let mut group: Vec<&Tunable> = free.drain(..free.len().min(1)).collect();
    let mut next = 0;
    while let Some(tunable) = group.get(next).copied() {
        let ties: Vec<_> = constraints.iter().filter(|constraint| uses(constraint, tunable)).collect();
        let (tied, rest): (Vec<_>, Vec<_>) =
            free.iter().partition(|other| ties.iter().any(|constraint| uses(constraint, other)));
        group.extend(tied);
        *free = rest;
        next += 1;
    }
    group
}

/// Counts depth first; a constraint is asked as soon as its last tunable has a value. `None` where the visits end.
fn settings(
    group: &[&Tunable],
    constraints: &[&BoolExpr],
    bindings: &mut Bindings,
    visits: &mut u64,
) -> Option<u64> {
    let Some((first, rest)) = group.split_first() else { return Some(1) };
    let (ready, later): (Vec<&BoolExpr>, Vec<&BoolExpr>) =
        constraints.iter().partition(|constraint| !rest.iter().any(|tunable| uses(constraint, tunable)));
    let mut total = 0u64;
    for value in &first.values {
        *visits = visits.checked_sub(1)?;
        bindings.names.insert(first.name.value.clone(), *value);
        if ready.iter().all(|constraint| constraint.evaluate(bindings) == Ok(true)) {
            total = total.checked_add(settings(rest, &later, bindings, visits)?)?;
        }
    }
    Some(total)
}
