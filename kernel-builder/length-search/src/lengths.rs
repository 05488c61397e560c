//! The numbers that are tried.
//!
//! Owns: which lengths of an axis. Never: evaluates anything.

use std::collections::BTreeSet;

/// Lengths to try: a few first, so that what is common is known soon, then all.
#[derive(Clone)]
pub(super) struct Lengths {
    pub(super) few: Vec<i64>,
    pub(super) all: Vec<i64>,
}

/// What a place stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tried {
    /// A length from `least` to `greatest` that is a multiple of `step`.
    Axis {
        /// The least length.
        least: i64,
        /// The greatest length.
        greatest: i64,
        /// What divides it.
        step: i64,
    },
    /// False or true; whether an optional input is there.
    Truth,
    /// A whole number that the caller passes.
    Number(i64),
}

impl Tried {
    /// The numbers that decide template arguments, if so many places do: every choice of them is tried.
    pub(super) fn near(&self, places: usize) -> Lengths {
        match places {
            0 | 1 => {}
            2 => return Lengths { few: self.corners(), all: self.some() },
            3 => return Lengths { few: self.powers(), all: self.fewer() },
            _ => return Lengths { few: self.powers(), all: self.powers() },
        }
        match self {
            Self::Axis { least, greatest, step } => {
                let dense = (1..=65_536).chain((65_536..=262_144).step_by(8));
                let all =
                    dense.map(|number| number * step).filter(|number| (*least..=*greatest).contains(number));
                Lengths { few: self.some(), all: all.collect() }
            }
            _ => Lengths { few: self.some(), all: self.some() },
        }
    }

    /// The numbers of the only place that decides template arguments, and of one of two such places if the other one decides
    /// little.
    pub(super) fn alone(&self) -> Lengths {
        self.near(1)
    }

    /// Numbers at which expressions change, if they compare with these numbers or divide by them: the numbers, their
    /// neighbors, and those of `some`.
    pub(super) fn around(&self, constants: &[i64]) -> Vec<i64> {
        let beside = constants.iter().flat_map(|number| [-1, 0, 1].map(|by| number.saturating_add(by)));
        let mut all = self.some();
        all.extend(self.fit(beside, 0));
        all.sort_unstable();
        all.dedup();
        all
    }

    /// The numbers that only conditions speak of.
    pub(super) fn far(&self, many: usize) -> Vec<i64> {
        match many {
            0 | 1 => self.some(),
            2 => self.corners(),
            // Conditions on several lengths are about their product.
            _ => self.fit([0, 1, 2, 8, 64, 1 << 10, 1 << 16, 1 << 24, 1 << 31].into_iter(), 16),
        }
    }

    /// Small numbers, multiples, and powers of two with neighbors that fewer powers divide.
    pub(super) fn some(&self) -> Vec<i64> {
        let small = (0..=128).chain((136..=1_024).step_by(8)).chain((1_088..=16_384).step_by(64));
        let powers =
            (11..=31).flat_map(|power| [-8, -4, -2, -1, 0, 1, 2, 4, 8].map(|by| (1i64 << power) + by));
        self.fit(small.chain(powers), 128)
    }

    /// Eighty: the smallest, powers of two, those of usual lengths with their neighbors, and a few others.
    fn fewer(&self) -> Vec<i64> {
        let small = (0..=16).chain([24, 40, 48, 56, 96, 100, 112, 192, 196, 224, 384, 768, 1_536]);
        let usual = (5..=12).flat_map(|power| [-1, 0, 1].map(|by| (1i64 << power) + by));
        self.fit(small.chain(usual).chain((13..=31).map(|power| 1i64 << power)), 16)
    }

    /// Forty: powers of two, and the smallest.
    fn powers(&self) -> Vec<i64> {
        self.fit([0, 3, 5, 7, 9].into_iter().chain((0..=31).map(|power| 1i64 << power)), 4)
    }

    /// Fewer of them.
    fn corners(&self) -> Vec<i64> {
        let powers = (2..=31).flat_map(|power| [-1, 0, 1].map(|by| (1i64 << power) + by));
        self.fit([0, 1, 2].into_iter().chain(powers), 16)
    }

    /// Those that it may be, and `edge` at each end of a range, so that it has every remainder of a division, however narrow
    /// it is.
    fn fit(&self, numbers: impl Iterator<Item = i64>, edge: i64) -> Vec<i64> {
        match self {
            Self::Truth => vec![0, 1],
            Self::Number(number) => vec![*number],
            Self::Axis { least, greatest, step } => {
                let ends = [least / step * step]
                    .into_iter()
                    .chain((*greatest < i64::MAX).then(|| greatest / step * step));
                let edges = ends.flat_map(|end| (-edge..=edge).map(move |by| end.saturating_add(by * step)));
                let multiples = numbers.flat_map(|number| [number * step, number / step * step]).chain(edges);
                let inside = multiples.filter(|number| (*least..=*greatest).contains(number));
                inside.collect::<BTreeSet<_>>().into_iter().collect()
            }
        }
    }
}
