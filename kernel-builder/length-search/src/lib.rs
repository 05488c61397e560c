//! Tries lengths to find the values that expressions take.
//!
//! Owns: the search, over numbers alone. Never: knows what an axis, a kernel or an operation is; `kernel-plan` translates.

use std::collections::BTreeSet;

mod lengths;
mod program;

use lengths::Lengths;
pub use lengths::Tried;
pub use program::{Operation, Program};

/// Which tuples of `values` occur while all `conditions` hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Search {
    values: Vec<Program>,
    /// Conditions that nothing decides but what decides the values.
    near: Vec<Program>,
    /// The others.
    far: Vec<Program>,
    /// What each place is tried with.
    near_slots: Vec<(usize, Tried)>,
    far_slots: Vec<(usize, Tried)>,
    slots: usize,
}

impl Search {
    /// `tried` has an entry for each place that the programs ask for.
    #[must_use]
    pub fn new(values: Vec<Program>, conditions: Vec<Program>, tried: &[Tried]) -> Self {
        let mut near_places: Vec<usize> = values.iter().flat_map(Program::slots).collect();
        near_places.sort_unstable();
        near_places.dedup();
        let is_near = |condition: &Program| condition.slots().iter().all(|slot| near_places.contains(slot));
        let (near, far): (Vec<_>, Vec<_>) = conditions.into_iter().partition(is_near);
        let mut far_places: Vec<usize> = far.iter().flat_map(Program::slots).collect();
        far_places.sort_unstable();
        far_places.dedup();
        far_places.retain(|place| !near_places.contains(place));
        let with_tried = |places: Vec<usize>| places.into_iter().map(|place| (place, tried[place])).collect();
        Self {
            values,
            near,
            far,
            near_slots: with_tried(near_places),
            far_slots: with_tried(far_places),
            slots: tried.len(),
        }
    }

    /// Every tuple of values for which the conditions hold with some lengths; at most one more than `most`.
    #[must_use]
    pub fn values(&self, most: usize) -> BTreeSet<Vec<i64>> {
        let several = self.near_slots.len() > 1;
        let many = self.far_slots.len();
        let mut walk = Walk {
            search: self,
            near: self.near_slots.iter().map(|(place, tried)| (*place, tried.near(several))).collect(),
            far: self.far_slots.iter().map(|(place, tried)| (*place, tried.far(many))).collect(),
            numbers: vec![1i64; self.slots],
            found: BTreeSet::new(),
            values: vec![],
            most,
        };
        walk.near(0, false);
        walk.near(0, true);
        walk.found
    }
}

/// A search on its way.
struct Walk<'a> {
    search: &'a Search,
    near: Vec<(usize, Lengths)>,
    far: Vec<(usize, Vec<i64>)>,
    numbers: Vec<i64>,
    found: BTreeSet<Vec<i64>>,
    /// The tuple that is looked at, kept for its memory.
    values: Vec<i64>,
    most: usize,
}

impl Walk<'_> {
    fn near(&mut self, at: usize, all: bool) {
        if self.found.len() > self.most {
            return;
        }
        let Some((place, lengths)) = self.near.get(at) else { return self.visit() };
        let place = *place;
        let count = if all { lengths.all.len() } else { lengths.few.len() };
        for index in 0..count {
            let lengths = &self.near[at].1;
            self.numbers[place] = if all { lengths.all[index] } else { lengths.few[index] };
            self.near(at + 1, all);
        }
    }

    fn visit(&mut self) {
        self.values.clear();
        for program in &self.search.values {
            let Some(value) = program.run(&self.numbers) else { return };
            self.values.push(value);
        }
        if self.found.contains(&self.values) || !self.search.near.iter().all(|one| holds(one, &self.numbers))
        {
            return;
        }
        if can_hold(&self.search.far, &self.far, &mut self.numbers) {
            self.found.insert(self.values.clone());
        }
    }
}

fn holds(condition: &Program, numbers: &[i64]) -> bool {
    condition.run(numbers).is_some_and(|truth| truth != 0)
}

/// Whether the conditions hold for some numbers of what only they speak of.
fn can_hold(conditions: &[Program], slots: &[(usize, Vec<i64>)], numbers: &mut [i64]) -> bool {
    let Some(((place, lengths), rest)) = slots.split_first() else {
        return conditions.iter().all(|condition| holds(condition, numbers));
    };
    lengths.iter().any(|length| {
        numbers[*place] = *length;
        can_hold(conditions, rest, numbers)
    })
}
