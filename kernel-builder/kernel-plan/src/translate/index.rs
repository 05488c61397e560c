//! Places in tensors as integer expressions over the axes of an iteration.
//!
//! Owns: their arithmetic, with the rules that remove divisions. Never: knows an operator.

use std::collections::BTreeMap;

use super::length::Length;

/// A sum of parts, each times a length, and a constant. No part has the factor 0.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Index {
    /// The parts.
    pub parts: BTreeMap<Part, Length>,
    /// The constant.
    pub constant: Length,
}

/// A part of an index.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Part {
    /// The place along an axis of the iteration.
    Axis(usize),
    /// An integer that the kernel computes: the number of its expression.
    Computed(usize),
    /// A quotient, rounded down.
    Quotient(Box<Index>, Length),
    /// A remainder.
    Remainder(Box<Index>, Length),
}

impl Index {
    /// The place along an axis.
    pub fn axis(axis: usize) -> Self {
        Self::part(Part::Axis(axis))
    }

    /// A part alone.
    pub fn part(part: Part) -> Self {
        Self { parts: BTreeMap::from([(part, Length::number(1))]), constant: Length::default() }
    }

    /// A length.
    pub fn length(constant: Length) -> Self {
        Self { parts: BTreeMap::new(), constant }
    }

    /// Whether it is zero.
    pub fn is_zero(&self) -> bool {
        self.parts.is_empty() && self.constant.is(0)
    }

    /// The sum.
    #[must_use]
    pub fn plus(&self, other: &Self) -> Self {
        let mut parts = self.parts.clone();
        for (part, factor) in &other.parts {
            let sum = parts.get(part).map_or_else(|| factor.clone(), |own| own + factor);
            parts.insert(part.clone(), sum);
        }
        parts.retain(|_, factor| !factor.is(0));
        Self { parts, constant: &self.constant + &other.constant }.joined()
    }

    /// The product with a length.
    #[must_use]
    pub fn times(&self, by: &Length) -> Self {
        let mut parts: BTreeMap<_, _> =
            self.parts.iter().map(|(part, factor)| (part.clone(), factor * by)).collect();
        parts.retain(|_, factor| !factor.is(0));
        Self { parts, constant: &self.constant * by }
    }

    /// `k * n * (e / n) + k * (e % n)` is `k * e`.
    fn joined(self) -> Self {
        let found = self.parts.iter().find_map(|(part, factor)| {
            let Part::Remainder(of, by) = part else { return None };
            let quotient = Part::Quotient(of.clone(), by.clone());
            (self.parts.get(&quotient)? == &(factor * by)).then(|| (part.clone(), quotient, factor.clone()))
        });
        let Some((remainder, quotient, factor)) = found else { return self };
        let Part::Remainder(of, _) = &remainder else { return self };
        let mut rest = self.clone();
        rest.parts.remove(&remainder);
        rest.parts.remove(&quotient);
        rest.plus(&of.times(&factor))
    }

    /// The largest value, if it is known; `lengths` are those of the axes.
    pub fn largest(&self, lengths: &[Length]) -> Option<Length> {
        let one = Length::number(1);
        let mut sum = self.constant.clone();
        for (part, factor) in &self.parts {
            let most = match part {
                Part::Axis(axis) => lengths.get(*axis)? - &one,
                Part::Computed(_) => return None,
                Part::Remainder(_, by) => by - &one,
                Part::Quotient(of, by) => &(&of.largest(lengths)? + &one).divided(by)? - &one,
            };
            if !factor.at_least(0) {
                return None;
            }
            sum = &sum + &(factor * &most);
        }
        Some(sum)
    }

    /// Whether it is certainly at least 0.
    fn is_natural(&self) -> bool {
        self.constant.at_least(0) && self.parts.values().all(|factor| factor.at_least(0))
    }

    /// Whether it is certainly below a length.
    pub fn is_below(&self, bound: &Length, lengths: &[Length]) -> bool {
        self.is_natural() && self.largest(lengths).is_some_and(|most| (bound - &most).at_least(1))
    }

    /// What is a multiple of a length, divided by it, and the rest.
    fn split(&self, by: &Length) -> (Self, Self) {
        let (mut multiple, mut rest) = (Self::default(), Self::default());
        for (part, factor) in &self.parts {
            match factor.divided(by) {
                Some(quotient) => multiple.parts.insert(part.clone(), quotient),
                None => rest.parts.insert(part.clone(), factor.clone()),
            };
        }
        match self.constant.divided(by) {
            Some(quotient) => multiple.constant = quotient,
            None => rest.constant = self.constant.clone(),
        }
        (multiple, rest)
    }

    /// Factors of `by` with which what is no multiple of them is below them: `(a, u, v)` for `a * u + v`.
    fn scaled(&self, by: &Length, lengths: &[Length]) -> Option<(Length, Self, Self)> {
        self.parts.values().find_map(|factor| {
            let fits = !factor.is(1) && by.divided(factor).is_some();
            let (multiple, rest) = fits.then(|| self.split(factor))?;
            rest.is_below(factor, lengths).then(|| (factor.clone(), multiple, rest))
        })
    }

    /// The quotient by a length, rounded down.
    #[must_use]
    pub fn quotient(&self, by: &Length, lengths: &[Length]) -> Self {
        if by.is(1) {
            return self.clone();
        }
        let (multiple, rest) = self.split(by);
        if rest.is_zero() || rest.is_below(by, lengths) {
            return multiple;
        }
        if let Some((factor, of, _)) = rest.scaled(by, lengths)
            && let Some(by) = by.divided(&factor)
        {
            return multiple.plus(&of.quotient(&by, lengths));
        }
        multiple.plus(&Self::part(Part::Quotient(Box::new(rest), by.clone())))
    }

    /// The remainder by a length.
    #[must_use]
    pub fn remainder(&self, by: &Length, lengths: &[Length]) -> Self {
        if by.is(1) {
            return Self::default();
        }
        let (_, rest) = self.split(by);
        if rest.is_zero() || rest.is_below(by, lengths) {
            return rest;
        }
        if let Some((factor, of, low)) = rest.scaled(by, lengths)
            && let Some(by) = by.divided(&factor)
        {
            return of.remainder(&by, lengths).times(&factor).plus(&low);
        }
        Self::part(Part::Remainder(Box::new(rest), by.clone()))
    }

    /// The same with an index in place of each axis; `lengths` are those of the new axes.
    #[must_use]
    pub fn replaced(&self, axes: &[Self], lengths: &[Length]) -> Self {
        let mut sum = Self::length(self.constant.clone());
        for (part, factor) in &self.parts {
            let new = match part {
                Part::Axis(axis) => axes[*axis].clone(),
                Part::Computed(_) => Self::part(part.clone()),
                Part::Quotient(of, by) => of.replaced(axes, lengths).quotient(by, lengths),
                Part::Remainder(of, by) => of.replaced(axes, lengths).remainder(by, lengths),
            };
            sum = sum.plus(&new.times(factor));
        }
        sum
    }

    /// Whether it depends on an axis.
    pub fn uses(&self, axis: usize) -> bool {
        self.parts.keys().any(|part| match part {
            Part::Axis(own) => *own == axis,
            Part::Computed(_) => false,
            Part::Quotient(of, _) | Part::Remainder(of, _) => of.uses(axis),
        })
    }

    /// Its factor of an axis, if it grows by that with every step; `None` if it does not grow evenly.
    pub fn step(&self, axis: usize) -> Option<Length> {
        let mut step = Length::default();
        for (part, factor) in &self.parts {
            match part {
                Part::Axis(own) if *own == axis => step = factor.clone(),
                Part::Axis(_) => {}
                Part::Computed(_) => return None,
                Part::Quotient(of, _) | Part::Remainder(of, _) if of.uses(axis) => return None,
                Part::Quotient(..) | Part::Remainder(..) => {}
            }
        }
        Some(step)
    }

    /// The expressions that the kernel computes for it.
    pub fn computed(&self) -> Vec<usize> {
        let mut found = Vec::new();
        for part in self.parts.keys() {
            match part {
                Part::Axis(_) => {}
                Part::Computed(number) => found.push(*number),
                Part::Quotient(of, _) | Part::Remainder(of, _) => found.extend(of.computed()),
            }
        }
        found
    }
}

/// The steps between neighbors along each axis of a dense tensor.
pub(super) fn strides(shape: &[Length]) -> Vec<Length> {
    let mut strides = vec![Length::number(1); shape.len()];
    for axis in (1..shape.len()).rev() {
        strides[axis - 1] = &strides[axis] * &shape[axis];
    }
    strides
}

/// The offset of a place in a dense tensor.
pub(super) fn offset(shape: &[Length], place: &[Index]) -> Index {
    let strides = strides(shape);
    place.iter().zip(&strides).fold(Index::default(), |sum, (one, stride)| sum.plus(&one.times(stride)))
}

/// The place of an offset in a dense tensor.
pub(super) fn place(offset: &Index, shape: &[Length], lengths: &[Length]) -> Vec<Index> {
    let strides = strides(shape);
    let axes = shape.iter().zip(&strides).enumerate();
    axes.map(|(axis, (length, stride))| {
        let quotient = offset.quotient(stride, lengths);
        if axis == 0 { quotient } else { quotient.remainder(length, lengths) }
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn symbols(names: &[&str]) -> Vec<Length> {
        names.iter().map(|name| Length::symbol(*name)).collect()
    }

    #[test]
    fn a_view_of_groups_has_no_divisions_over_its_own_axes() {
        // [n, g, c, s] seen as [n, g * c, s].
        let axes = symbols(&["n", "g", "c", "s"]);
        let whole = [axes[0].clone(), &axes[1] * &axes[2], axes[3].clone()];
        let own: Vec<Index> = (0..4).map(Index::axis).collect();
        let found = place(&offset(&axes, &own), &whole, &axes);
        assert_eq!(found[0], Index::axis(0));
        assert_eq!(found[1], Index::axis(1).times(&axes[2]).plus(&Index::axis(2)));
        assert_eq!(found[2], Index::axis(3));
    }

    #[test]
    fn a_view_and_the_way_back_are_nothing() {
        // [n, c, s] seen as [n, g, c / g, s] and back, over the axes of the first.
        let group = Length::symbol("p");
        let channels = &Length::symbol("g") * &group;
        let axes = [Length::symbol("n"), channels, Length::symbol("s")];
        let parts = [Length::symbol("n"), Length::symbol("g"), group.clone(), Length::symbol("s")];
        let own: Vec<Index> = (0..3).map(Index::axis).collect();
        let split = place(&offset(&axes, &own), &parts, &axes);
        assert_eq!(split[1], Index::part(Part::Quotient(Box::new(Index::axis(1)), group)));
        let back = place(&offset(&parts, &split), &axes, &axes);
        assert_eq!(back, own);
        assert_eq!(split[2].step(1), None);
        assert_eq!(back[1].step(1), Some(Length::number(1)));
    }
}
