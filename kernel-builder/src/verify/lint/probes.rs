//! Wrong answers, held against the bound that kernels are judged by.
//!
//! Owns: the answers that are tried (zeros, a constant, old results, copies, one line repeated), and how near each comes.
//! Never: says what that means.

use half::{bf16, f16};
use kernel_plan::numbers::decode;
use kernel_plan::units::Dtype;

use super::super::bound::{Bound, Row};
use super::super::compare;
use super::super::schedule::TensorSpec;

/// About how many elements of an output are looked at, at one set of inputs.
const LOOKED_AT: usize = 8192;

/// Float64 values of a file.
#[derive(Clone, Copy)]
pub(super) struct Values<'a>(pub &'a [u8]);

impl Values<'_> {
    pub(super) fn at(self, place: usize) -> f64 {
        decode(Dtype::F64, self.0, place)
    }

    pub(super) fn count(self) -> usize {
        self.0.len() / 8
    }
}

/// One element of an output that is looked at.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sample {
    pub place: usize,
    pub exact: f64,
    row: Row,
}

/// The elements of one output that are looked at: some of every row, or of evenly spaced ones. `values` are those of all
/// outputs with the sizes of their terms behind them; this output begins at `first`, and all have `elements`.
pub(super) fn samples(tensor: &TensorSpec, values: Values<'_>, first: usize, elements: usize) -> Vec<Sample> {
    let length = compare::row_length(tensor);
    let rows = tensor.elements() / length;
    // About as many rows as columns, unless there are fewer. Odd steps do not stay on the same lanes of a vector.
    let wanted_rows = rows.min((LOOKED_AT / length.min(128)).max(1));
    let (row_step, column_step) = (odd(rows / wanted_rows.max(1)), odd(length * wanted_rows / LOOKED_AT));
    let has_terms = values.count() >= 2 * elements;
    let mut samples = Vec::new();
    for number in (0..rows).step_by(row_step) {
        let start = number * length;
        let exact: Vec<f64> = (0..length).map(|column| values.at(first + start + column)).collect();
        let terms: Vec<f64> = match has_terms {
            true => (0..length).map(|column| values.at(elements + first + start + column)).collect(),
            false => vec![],
        };
        let row = compare::row_of(&exact, &terms, 0);
        let columns = (number % column_step..length).step_by(column_step);
        samples.extend(columns.map(|column| Sample { place: start + column, exact: exact[column], row }));
    }
    samples
}

fn odd(step: usize) -> usize {
    step.max(1) | 1
}

/// The share of elements at which `answer` would be admitted; it is rounded to `dtype` first.
pub(super) fn share(samples: &[Sample], bound: &Bound, dtype: Dtype, answer: impl Fn(&Sample) -> f64) -> f64 {
    let rounding = Rounding::to(dtype);
    let admitted = samples
        .iter()
        .filter(|sample| bound.admits(rounding.round(answer(sample)), sample.exact, sample.row))
        .count();
    admitted as f64 / samples.len().max(1) as f64
}

/// A constant that is admitted at every element of every set, where there is one; else the middle of all values.
pub(super) fn best_constant(sets: &[Vec<Sample>], bound: &Bound) -> f64 {
    let (mut low, mut high) = (f64::NEG_INFINITY, f64::INFINITY);
    let (mut least, mut most) = (f64::INFINITY, f64::NEG_INFINITY);
    for sample in sets.iter().flatten().filter(|sample| sample.exact.is_finite()) {
        let allowed = bound.at(sample.exact, sample.row);
        (low, high) = (low.max(sample.exact - allowed), high.min(sample.exact + allowed));
        (least, most) = (least.min(sample.exact), most.max(sample.exact));
    }
    if low <= high { f64::midpoint(low, high) } else { f64::midpoint(least, most) }
}

/// The value that most elements have, of those of the first set.
pub(super) fn commonest(sets: &[Vec<Sample>]) -> Option<f64> {
    let mut values: Vec<f64> = sets.first()?.iter().map(|sample| sample.exact).collect();
    values.sort_by(f64::total_cmp);
    let runs = values.chunk_by(|a, b| a == b);
    runs.max_by_key(|run| run.len()).and_then(|run| run.first().copied())
}

/// How the finite values of an output spread over all sets: their deviation, the largest size, and how many values the
/// bound could tell apart between the least and the greatest.
pub(super) fn spread(sets: &[Vec<Sample>], bound: &Bound) -> Option<Spread> {
    let finite: Vec<&Sample> = sets.iter().flatten().filter(|sample| sample.exact.is_finite()).collect();
    let count = finite.len() as f64;
    let mean = finite.iter().map(|sample| sample.exact).sum::<f64>() / count;
    let variance = finite.iter().map(|sample| (sample.exact - mean).powi(2)).sum::<f64>() / count;
    let allowed = finite.iter().map(|sample| bound.at(sample.exact, sample.row)).sum::<f64>() / count;
    let (least, most) = finite.iter().fold((f64::INFINITY, f64::NEG_INFINITY), |(least, most), sample| {
        (least.min(sample.exact), most.max(sample.exact))
    });
    let levels = (most - least) / (2.0 * allowed);
    (!finite.is_empty()).then_some(Spread { deviation: variance.sqrt(), levels })
}

/// How far values of an output lie apart.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Spread {
    /// Their standard deviation.
    pub deviation: f64,
    /// How many bounds lie between the least and the greatest; infinite where the bound is zero.
    pub levels: f64,
}

/// The place of the element that has index 0 in one dimension and else the same as `place`.
pub(super) fn first_along(shape: &[u64], dimension: usize, place: usize) -> usize {
    let step: usize = shape[dimension + 1..].iter().product::<u64>() as usize;
    let index = place / step % shape[dimension] as usize;
    place - index * step
}

/// The place of the element whose index in these dimensions is counted from the end.
pub(super) fn reversed_along(shape: &[u64], dimensions: &[usize], place: usize) -> usize {
    dimensions.iter().fold(place, |place, dimension| {
        let step: usize = shape[dimension + 1..].iter().product::<u64>() as usize;
        let length = shape[*dimension] as usize;
        let index = place / step % length;
        place - index * step + (length - 1 - index) * step
    })
}

/// Rounds values as a tensor of one dtype holds them.
pub(super) struct Rounding {
    dtype: Dtype,
    /// The finite values of an 8-bit format, in order.
    held: Vec<f64>,
}

impl Rounding {
    pub(super) fn to(dtype: Dtype) -> Self {
        let mut held = Vec::new();
        if matches!(dtype, Dtype::F8e4m3 | Dtype::F8e5m2) {
            held.extend(
                (0..=u8::MAX).map(|byte| decode(dtype, &[byte], 0)).filter(|value| value.is_finite()),
            );
            held.sort_by(f64::total_cmp);
        }
        Self { dtype, held }
    }

    pub(super) fn round(&self, value: f64) -> f64 {
        match self.dtype {
            Dtype::Bf16 => bf16::from_f64(value).to_f64(),
            Dtype::F16 => f16::from_f64(value).to_f64(),
            Dtype::F32 => f64::from(value as f32),
            Dtype::F64 => value,
            Dtype::F8e4m3 | Dtype::F8e5m2 => {
                let above = self.held.partition_point(|held| *held < value).min(self.held.len() - 1);
                let (low, high) = (self.held[above.saturating_sub(1)], self.held[above]);
                if value - low < high - value { low } else { high }
            }
            Dtype::I8 | Dtype::I16 | Dtype::I32 | Dtype::I64 | Dtype::Bool => value.round(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tensor(shape: &[u64]) -> TensorSpec {
        TensorSpec {
            name: "y".to_owned(),
            shape: shape.to_vec(),
            dtype: Dtype::F32,
            omitted: false,
            inplace: None,
            computed: None,
            seed: false,
            non_negative: false,
        }
    }

    fn bytes(values: &[f64]) -> Vec<u8> {
        values.iter().flat_map(|value| value.to_le_bytes()).collect()
    }

    fn sampled(shape: &[u64], values: &[f64]) -> Vec<Sample> {
        samples(&tensor(shape), Values(&bytes(values)), 0, values.len())
    }

    const BOUND: fn() -> Bound = || Bound::new(Dtype::F32, Dtype::F32, 1, 16);

    #[test]
    fn small_outputs_are_looked_at_whole_and_large_ones_in_part() {
        let places = |shape: &[u64]| -> Vec<usize> {
            let count = shape.iter().product::<u64>() as usize;
            sampled(shape, &vec![1.0; count]).iter().map(|sample| sample.place).collect()
        };
        assert_eq!(places(&[3, 4]), (0..12).collect::<Vec<_>>());
        assert_eq!(places(&[]), [0]);
        for shape in [[1, 100_000], [100_000, 1], [300, 1000]] {
            let found = places(&shape);
            assert!((1000..40_000).contains(&found.len()), "{shape:?}: {}", found.len());
            assert!(found.windows(2).all(|pair| pair[0] < pair[1]), "{shape:?}");
        }
    }

    #[test]
    fn zeros_pass_only_where_the_bound_admits_them() {
        let values = [0.0, 1.0, 0.0, 2.0];
        assert_eq!(share(&sampled(&[2, 2], &values), &BOUND(), Dtype::F32, |_| 0.0), 0.5);
        // Far below what is lost beside the terms of the row.
        let terms = [[1e-9, 1.0].as_slice(), &[1.0, 1.0]].concat();
        let row = samples(&tensor(&[1, 2]), Values(&bytes(&terms)), 0, 2);
        assert_eq!(share(&row, &BOUND(), Dtype::F32, |_| 0.0), 0.5);
    }

    #[test]
    fn a_constant_is_found_where_one_passes() {
        let bound = Bound::new(Dtype::Bf16, Dtype::F32, 1, 16);
        let near = [sampled(&[1, 2], &[1.0, 1.0001]), sampled(&[1, 2], &[0.9999, 1.0])];
        let constant = best_constant(&near, &bound);
        assert!(near.iter().all(|set| share(set, &bound, Dtype::Bf16, |_| constant) == 1.0), "{constant}");
        let far = [sampled(&[1, 2], &[1.0, 2.0])];
        let constant = best_constant(&far, &bound);
        assert!(share(&far[0], &bound, Dtype::Bf16, |_| constant) < 1.0);
        assert_eq!(commonest(&[sampled(&[1, 3], &[5.0, 7.0, 5.0])]), Some(5.0));
    }

    #[test]
    fn few_levels_are_counted_against_the_bound() {
        let bound = Bound::new(Dtype::Bf16, Dtype::F32, 1, 1);
        let few = spread(&[sampled(&[1, 2], &[1.0, 1.02])], &bound).unwrap();
        assert!((1.0..6.0).contains(&few.levels), "{few:?}");
        let many = spread(&[sampled(&[1, 2], &[-3.0, 3.0])], &bound).unwrap();
        assert!(many.levels > 100.0 && (many.deviation - 3.0).abs() < 1e-12, "{many:?}");
    }

    #[test]
    fn places_move_along_one_dimension() {
        let shape = [2, 3, 4];
        assert_eq!(first_along(&shape, 1, 23), 15);
        assert_eq!(first_along(&shape, 0, 23), 11);
        assert_eq!(reversed_along(&shape, &[0], 0), 12);
        assert_eq!(reversed_along(&shape, &[0, 2], 1), 14);
    }

    #[test]
    fn values_are_rounded_as_a_tensor_would() {
        let nearest = |dtype, value| Rounding::to(dtype).round(value);
        assert_eq!(nearest(Dtype::Bf16, 1.001), 1.0);
        assert_eq!((nearest(Dtype::F8e4m3, 1.07), nearest(Dtype::F8e4m3, 1.05)), (1.125, 1.0));
        assert_eq!((nearest(Dtype::F8e4m3, 1e9), nearest(Dtype::F8e4m3, -1e9)), (448.0, -448.0));
        assert_eq!(nearest(Dtype::I32, 2.6), 3.0);
    }
}
