//! Tries lengths to find the values that expressions take.
//!
//! Owns: the search, over numbers alone. Never: knows what an axis, a kernel or an operation is; `kernel-plan` translates.

use std::collections::BTreeSet;

mod lengths;
mod products;
mod program;
mod steps;

use lengths::Lengths;
pub use lengths::Tried;
pub use program::{Operation, Program};
use steps::Steps;

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
        if let Some(only) = self.only() {
            return [only].into();
        }
        let places = self.near_slots.len();
        let many = self.far_slots.len();
        let mut near: Vec<_> =
            self.near_slots.iter().map(|(place, tried)| (*place, tried.near(places))).collect();
        let mut far_slots: Vec<_> =
            self.far_slots.iter().map(|(place, tried)| (*place, tried.far(many))).collect();
        // Places of a group are all near or all far: they are in the same programs.
        for group in products::products(self.values.iter().chain(&self.near).chain(&self.far)) {
            merge(&mut near, &group, |lengths| &mut lengths.few);
            merge(&mut near, &group, |lengths| &mut lengths.all);
            merge(&mut far_slots, &group, |lengths| lengths);
        }
        let mut walk = Walk {
            far: Steps::of_conditions(
                &self.far,
                &far_slots.iter().map(|(place, _)| *place).collect::<Vec<_>>(),
            ),
            far_slots,
            numbers: vec![1i64; self.slots],
            found: BTreeSet::new(),
            tuple: vec![],
            most,
        };
        if let Some(regimes) = self.regimes() {
            for all in [false, true] {
                for regime in &regimes {
                    for (place, number) in &regime.fixed {
                        walk.numbers[*place] = *number;
                    }
                    walk.near(&regime.inner, all, &regime.values, &regime.near);
                }
            }
            return walk.found;
        }
        for all in [false, true] {
            walk.near(&near, all, &self.values, &self.near);
        }
        walk.found
    }

    /// The only tuple there can be, if nothing decides the values and whether the conditions ever hold is a question of many
    /// axes: too many to try enough lengths of each. Conditions that are false in any case are not asked there.
    fn only(&self) -> Option<Vec<i64>> {
        let axes = self.far_slots.iter().filter(|(_, tried)| matches!(tried, Tried::Axis { .. })).count();
        let is_false = |condition: &Program| matches!(condition, Program::Constant(0));
        if axes <= 2 || !self.near_slots.is_empty() || self.near.iter().chain(&self.far).any(is_false) {
            return None;
        }
        self.values.iter().map(|value| value.run(&[])).collect()
    }

    /// If one axis decides, or two of which one makes few differences, beside truths: the cases in which every length of an
    /// axis is tried.
    fn regimes(&self) -> Option<Vec<Regime>> {
        let is_axis = |(_, tried): &(usize, Tried)| matches!(tried, Tried::Axis { .. });
        let axes: Vec<_> = self.near_slots.iter().filter(|slot| is_axis(slot)).collect();
        let others = self.near_slots.iter().filter(|slot| !is_axis(slot));
        let mut regimes = vec![Regime::new(self)];
        for (place, tried) in others {
            let numbers = tried.some();
            regimes = regimes
                .iter()
                .flat_map(|regime| numbers.iter().map(|number| regime.with(*place, *number)))
                .collect();
            if regimes.len() > MOST_REGIMES {
                return None;
            }
        }
        match axes.as_slice() {
            [inner] => regimes.iter_mut().for_each(|regime| regime.inner = vec![(inner.0, inner.1.alone())]),
            [first, second] => {
                let split = |regime: &Regime| regime.split(first, second);
                regimes = regimes.iter().map(split).collect::<Option<Vec<_>>>()?.concat();
            }
            _ => return None,
        }
        Some(regimes)
    }
}

/// More regimes than these take too long, with every length of another place in each.
const MOST_REGIMES: usize = 48;

/// The programs with numbers in place of some slots.
#[derive(Clone)]
struct Regime {
    /// The places, each with one of its numbers.
    fixed: Vec<(usize, i64)>,
    /// The place that is left, with what it is tried with.
    inner: Vec<(usize, Lengths)>,
    values: Vec<Program>,
    near: Vec<Program>,
    far: Vec<Program>,
}

impl Regime {
    fn new(search: &Search) -> Self {
        let Search { values, near, far, .. } = search.clone();
        Self { fixed: vec![], inner: vec![], values, near, far }
    }

    fn with(&self, place: usize, number: i64) -> Self {
        let with = |all: &[Program]| all.iter().map(|program| program.with(place, number)).collect();
        let mut fixed = self.fixed.clone();
        fixed.push((place, number));
        Self {
            fixed,
            inner: vec![],
            values: with(&self.values),
            near: with(&self.near),
            far: with(&self.far),
        }
    }

    /// Cases for numbers of the one of two axes that makes fewer differences; `None` if both make many.
    fn split(&self, first: &(usize, Tried), second: &(usize, Tried)) -> Option<Vec<Self>> {
        let conditions: Vec<Program> = self.near.iter().chain(&self.far).cloned().collect();
        let steps = Steps::new(&self.values, &conditions);
        let constants: Vec<i64> =
            self.values.iter().chain(&conditions).flat_map(Program::constants).collect();
        let kinds = |(place, tried): &(usize, Tried)| {
            let numbers = steps.kinds(*place, &tried.around(&constants), MOST_REGIMES);
            (numbers.len() <= MOST_REGIMES).then_some(numbers)
        };
        let found =
            [(first, second), (second, first)].map(|(outer, inner)| Some((kinds(outer)?, outer, inner)));
        let (numbers, outer, inner) =
            found.into_iter().flatten().min_by_key(|(numbers, ..)| numbers.len())?;
        let case =
            |number: &i64| Self { inner: vec![(inner.0, inner.1.alone())], ..self.with(outer.0, *number) };
        Some(numbers.iter().map(case).collect())
    }
}

/// Gives the last place of a group the products of all their numbers, and 1 to the others.
fn merge<T>(slots: &mut [(usize, T)], group: &[usize], numbers: impl Fn(&mut T) -> &mut Vec<i64>) {
    let lists = slots.iter_mut().filter(|(place, _)| group.contains(place));
    let mut lists: Vec<&mut Vec<i64>> = lists.map(|(_, tried)| numbers(tried)).collect();
    let products = products::multiplied(lists.iter().map(|list| list.as_slice()));
    if let Some((last, others)) = lists.split_last_mut() {
        **last = products;
        others.iter_mut().for_each(|list| **list = vec![1]);
    }
}

/// A search on its way.
struct Walk {
    far: Steps,
    far_slots: Vec<(usize, Vec<i64>)>,
    numbers: Vec<i64>,
    found: BTreeSet<Vec<i64>>,
    /// The tuple that is looked at, kept for its memory.
    tuple: Vec<i64>,
    most: usize,
}

impl Walk {
    /// Tries the numbers of `slots`. The numbers of earlier places are constants in the programs.
    fn near(&mut self, slots: &[(usize, Lengths)], all: bool, values: &[Program], conditions: &[Program]) {
        let known = values.iter().all(|value| matches!(value, Program::Constant(_)));
        if self.found.len() > self.most
            || conditions.contains(&Program::Constant(0))
            || (known && self.read(values) && self.found.contains(&self.tuple))
        {
            return;
        }
        let Some(((place, lengths), rest)) = slots.split_first() else {
            return self.visit(&mut Steps::new(values, conditions));
        };
        let numbers = if all { &lengths.all } else { &lengths.few };
        if rest.is_empty() {
            let mut steps = Steps::new(values, conditions);
            for number in numbers {
                self.numbers[*place] = *number;
                self.visit(&mut steps);
            }
            return;
        }
        for number in numbers {
            self.numbers[*place] = *number;
            let with = |programs: &[Program]| -> Vec<_> {
                programs.iter().map(|program| program.with(*place, *number)).collect()
            };
            self.near(rest, all, &with(values), &with(conditions));
        }
    }

    /// Evaluates the tuple; false if one of its programs has no value.
    fn read(&mut self, values: &[Program]) -> bool {
        self.tuple.clear();
        self.tuple.extend(values.iter().map_while(|program| program.run(&self.numbers)));
        self.tuple.len() == values.len()
    }

    fn visit(&mut self, steps: &mut Steps) {
        if !steps.values(&self.numbers, &mut self.tuple)
            || self.found.contains(&self.tuple)
            || !steps.conditions_hold(&self.numbers)
        {
            return;
        }
        if self.far.can_begin(&self.numbers) && can_hold(&mut self.far, &self.far_slots, &mut self.numbers) {
            self.found.insert(self.tuple.clone());
        }
    }
}

/// Whether the conditions hold for some numbers of what only they speak of.
fn can_hold(conditions: &mut Steps, slots: &[(usize, Vec<i64>)], numbers: &mut [i64]) -> bool {
    let Some(((place, lengths), rest)) = slots.split_first() else {
        return conditions.conditions_hold(numbers);
    };
    lengths.iter().any(|length| {
        numbers[*place] = *length;
        can_hold(conditions, rest, numbers)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn binary(operation: Operation, left: Program, right: Program) -> Program {
        Program::Binary(operation, Box::new(left), Box::new(right))
    }

    fn holds(condition: &Program, numbers: &[i64]) -> bool {
        condition.run(numbers).is_some_and(|truth| truth != 0)
    }

    /// Every tuple, by looking at every number.
    fn by_hand(
        lengths: [std::ops::RangeInclusive<i64>; 2],
        values: &[Program],
        when: &Program,
    ) -> BTreeSet<Vec<i64>> {
        let [first, second] = lengths;
        let pairs = first.flat_map(|a| second.clone().map(move |b| [a, b]));
        let holding = pairs.filter(|numbers| holds(when, numbers));
        holding.filter_map(|numbers| values.iter().map(|value| value.run(&numbers)).collect()).collect()
    }

    #[test]
    fn values_that_nothing_decides_are_there_if_many_axes_may_ask_for_them() {
        use Operation::{And, Equal};
        let is = |slot, number| binary(Equal, Program::Slot(slot), Program::Constant(number));
        // No length that is tried is one of these.
        let rare = |slots: &[usize]| {
            slots.iter().map(|slot| is(*slot, 54_321)).reduce(|left, right| binary(And, left, right)).unwrap()
        };
        let axis = || Tried::Axis { least: 0, greatest: i64::MAX, step: 1 };
        let values = |condition: Program, seven: Program| {
            Search::new(vec![seven], condition.conditions(), &[axis(), axis(), axis()]).values(9)
        };
        assert_eq!(values(rare(&[0, 1, 2]), Program::Constant(7)), [vec![7]].into());
        assert_eq!(values(rare(&[0, 1]), Program::Constant(7)), BTreeSet::new());
        // It is asked for in no case, or in those with lengths that decide a value.
        let never = binary(And, rare(&[0, 1, 2]), Program::Constant(0));
        assert_eq!(values(never, Program::Constant(7)), BTreeSet::new());
        assert_eq!(values(rare(&[0, 1, 2]), Program::Slot(0)), BTreeSet::new());
    }

    #[test]
    fn lengths_that_are_only_multiplied_are_tried_as_their_product() {
        use Operation::{Less, Multiply, Remainder};
        let (slot, n) = (Program::Slot, Program::Constant);
        let times = |left, right| binary(Multiply, left, right);
        let all = || times(times(slot(0), slot(1)), times(n(2), slot(2)));
        let apart = [binary(Remainder, all(), n(7)), Program::Min(vec![all(), n(40)])];
        assert_eq!(products::products(apart.iter()), [[0, 1, 2]]);
        let pair = binary(Less, n(3), times(slot(2), slot(0)));
        assert_eq!(products::products(apart.iter().chain([&pair])), [[0, 2]]);
        for alone in [slot(2), times(slot(2), slot(2)), times(all(), slot(2)), binary(Less, slot(2), n(9))] {
            let found = products::products(apart.iter().chain([&alone]));
            assert_eq!(found, [[0, 1]], "{alone:?}");
        }
        let tried =
            [[0, 9], [2, 6], [1, 40]].map(|[least, greatest]| Tried::Axis { least, greatest, step: 1 });
        let found = Search::new(apart.to_vec(), pair.conditions(), &tried).values(10_000);
        let mut wanted = BTreeSet::new();
        for (a, b, c) in (0..=9).flat_map(|a| (2..=6).flat_map(move |b| (1..=40).map(move |c| (a, b, c)))) {
            if a * c > 3 {
                wanted.insert(vec![2 * a * b * c % 7, (2 * a * b * c).min(40)]);
            }
        }
        assert_eq!(found, wanted);
    }

    #[test]
    fn every_length_is_tried_where_another_one_decides_little() {
        use Operation::{And, Divide, LessEqual, Multiply, Subtract};
        let (rows, hidden, n) = (|| Program::Slot(0), || Program::Slot(1), Program::Constant);
        // Few rows have one access a thread, others two, and long ones as many as 64 threads need.
        let few = || Program::Min(vec![n(1), binary(Divide, n(100), Program::Max(vec![n(1), rows()]))]);
        let needed = Program::CeilDiv(Box::new(hidden()), Box::new(n(64)));
        let units = Program::Max(vec![binary(Subtract, n(2), few()), needed]);
        // The only length with this many is not a power of two, nor beside one.
        let values = [units, binary(Divide, hidden(), n(3001))];
        let when = binary(
            And,
            binary(LessEqual, hidden(), n(3005)),
            binary(LessEqual, binary(Multiply, few(), hidden()), n(2900)),
        );
        let tried = [300, 4000].map(|greatest| Tried::Axis { least: 1, greatest, step: 1 });
        let found = Search::new(values.to_vec(), when.clone().conditions(), &tried).values(10_000);
        assert_eq!(found, by_hand([1..=300, 1..=4000], &values, &when));
    }

    #[test]
    fn constants_on_the_way_change_nothing() {
        use Operation::{And, Divide, Equal, Less, Or, Remainder};
        let (a, b, n) = (|| Program::Slot(0), || Program::Slot(1), Program::Constant);
        let quotient = binary(Divide, a(), n(8));
        let values = [
            vec![quotient.clone(), binary(Remainder, b(), n(3))],
            vec![Program::Min(vec![quotient, b()]), n(7)],
            vec![binary(Divide, b(), binary(Remainder, a(), n(4)))],
        ];
        let conditions = [
            n(1),
            binary(Less, a(), b()),
            binary(And, binary(Less, n(5), a()), binary(Equal, binary(Remainder, b(), n(2)), n(0))),
            binary(Or, binary(Equal, a(), n(3)), binary(Less, binary(Divide, n(9), a()), b())),
        ];
        let tried = [0, 40].map(|least| Tried::Axis { least, greatest: 64, step: 1 });
        for values in &values {
            for condition in &conditions {
                let found =
                    Search::new(values.clone(), condition.clone().conditions(), &tried).values(10_000);
                assert_eq!(found, by_hand([0..=64, 40..=64], values, condition), "{values:?} {condition:?}");
            }
        }
    }
}
