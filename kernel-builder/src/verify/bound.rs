//! How far a result may lie from the exact one.
//!
//! Owns: the error bound and the constants behind it. Never: looks at a tensor.
//!
//! For an output `y` (exact, from float64) whose row has the root mean square `s`, accumulated over `n` terms in a
//! format with unit roundoff `u_a` and rounded `r` times to a format with unit roundoff `u_o`:
//!
//! ```text
//! |computed - y|  <=  r * u_o * max(|y|, smallest normal)  +  (L * sqrt(n) + C) * u_a * max(|y|, s)
//! ```
//!
//! - `r * u_o`: rounding to nearest, Higham, Accuracy and Stability of Numerical Algorithms (2nd ed., 2002),
//!   theorem 2.2. Below the smallest normal number the spacing, and so the error, is constant.
//! - `L * sqrt(n) * u_a`: rounding errors of a sum behave like independent random variables of mean zero, so they grow
//!   with the square root of the length, not with the length: Higham and Mary, A New Approach to Probabilistic Rounding
//!   Error Analysis (SIAM J. Sci. Comput. 41, 2019), theorem 2.4, where `L` sets the probability of a false alarm,
//!   2 exp(-L^2 / 2) for each element. `L = 8`: 2e-14. The worst case `n * u_a` would let an accumulation in float16
//!   pass as one in float32 from about 8192 terms on.
//! - `C * u_a`: the elementwise operations around the sum (a division, a root, an exponential, two products).
//! - `s`: where terms cancel, the error is that of the terms, not of the small result; a row's root mean square is that
//!   size for inner products of data of mean zero. A row of fewer than 32 elements may be small by chance; there `s` is
//!   what the oracle found the reference to lose in float32 at values near by, in units of float32's roundoff, or how much
//!   its exact result changes there for each unit of distance, if one of those is larger. The latter counts what another
//!   order of the same arithmetic loses: it computes the exact result of inputs that are some roundoffs away. In these
//!   short rows random roundings of all arithmetic count as well: the float32 of values near by may round alike for all.
//!
//! The inputs of the checks are random, so that the independence that the square root stands on holds.
//!
//! A gradient is explained with three changes. It is made of values of the forward pass that were rounded themselves, and
//! its terms cancel after that, so one more rounding counts, and all of them against `max(|y|, s)`. It is summed over what
//! the input was broadcast to as well, so those terms are added to `n`. And where its terms cancel, as those of a
//! normalisation do, no row shows their size, however long; in the second part of the formula, `s` is found as in short
//! rows. A gradient that is computed from a rounded result (`gradient.from-rounded`) has that `s` in the first part too:
//! the terms themselves were rounded.
//!
//! What lies beyond the finite range of an 8-bit format is the largest value or not a number in `f8e4m3`, which has no
//! infinity, and the largest value or an infinity in `f8e5m2`: conversions in CUDA saturate, those in PyTorch do not.

use kernel_plan::numbers::Limit;
use kernel_plan::units::Dtype;

/// `L` of the module's formula.
const CONFIDENCE: f64 = 8.0;
/// `C` of the module's formula.
const ELEMENTWISE: f64 = 8.0;

/// The largest explained error of one case and output.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Bound {
    output: Dtype,
    rounding: f64,
    accumulation: f64,
    /// Whether roundings count against the row's size, too.
    of_row: bool,
    /// Whether roundings count against the size of the terms, too.
    of_terms: bool,
}

/// How large the values around an element are.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Row {
    /// Root mean square of the exact values.
    pub size: f64,
    /// Size of the terms that they are made of.
    pub terms: f64,
}

impl From<f64> for Row {
    fn from(size: f64) -> Self {
        Self { size, terms: size }
    }
}

impl Row {
    /// Without what is not finite, which would explain any error.
    pub(crate) fn finite(self) -> Self {
        let finite = |size: f64| if size.is_finite() { size } else { 0.0 };
        Self { size: finite(self.size), terms: finite(self.terms) }
    }
}

impl Bound {
    /// The bound for an output of dtype `output`, rounded `roundings` times to it, and accumulated over `terms` terms
    /// in `accumulate`.
    pub(crate) fn new(output: Dtype, accumulate: Dtype, roundings: u32, terms: u64) -> Self {
        let accumulation = (CONFIDENCE * (terms as f64).sqrt() + ELEMENTWISE) * unit_roundoff(accumulate);
        Self {
            output,
            rounding: f64::from(roundings) * unit_roundoff(output),
            accumulation,
            of_row: false,
            of_terms: false,
        }
    }

    /// The bound for a gradient, of the dtype of its input; `terms` counts those of the forward pass and those that the
    /// input is broadcast to.
    pub(crate) fn of_gradient(input: Dtype, accumulate: Dtype, roundings: u32, terms: u64) -> Self {
        Self { of_row: true, ..Self::new(input, accumulate, roundings.saturating_add(1), terms) }
    }

    /// The same for a gradient that is computed from a rounded result.
    pub(crate) fn with_rounded_terms(self) -> Self {
        Self { of_terms: true, ..self }
    }

    /// The same for a program that has the formula: what it multiplies and compares with.
    pub(crate) fn numbers(&self) -> Numbers {
        Numbers {
            rounding: self.rounding,
            accumulation: self.accumulation,
            unit: unit_roundoff(self.output),
            smallest: smallest_normal(self.output),
            largest: largest(self.output),
            overflow: eight_bit_limit(self.output).unwrap_or(0.0),
            has_infinity: self.output == Dtype::F8e5m2,
        }
    }

    /// The error that is explained for each unit of the size of the terms.
    pub(crate) fn of_each_term(&self) -> f64 {
        self.accumulation + if self.of_terms { self.rounding } else { 0.0 }
    }

    /// The dtype of what is judged.
    pub(crate) fn output(&self) -> Dtype {
        self.output
    }

    /// The largest absolute error that is explained at an exact value in a row.
    pub(crate) fn at(&self, exact: f64, row: impl Into<Row>) -> f64 {
        self.in_row(row.into()).at(exact)
    }

    /// The bound for all elements of a row.
    pub(crate) fn in_row(&self, row: Row) -> Limit {
        let row = row.finite();
        let smallest = smallest_normal(self.output);
        let of_row = if self.of_row { row.size } else { 0.0 };
        let of_terms = if self.of_terms { row.terms } else { 0.0 };
        let rounded = smallest.max(of_row).max(of_terms);
        Limit { rounding: self.rounding, rounded, accumulation: self.accumulation, terms: row.terms }
    }

    /// Whether an honest result may be too large for its 8 bits; `None` where the output has more, or `exact` is NaN.
    fn is_beyond_eight_bits(&self, exact: f64, row: Row) -> Option<bool> {
        let threshold = eight_bit_limit(self.output)?;
        let size = exact.abs();
        if size.is_infinite() {
            return Some(true);
        }
        let earlier = (self.rounding - unit_roundoff(self.output)).max(0.0) * size;
        let before_rounding = size + earlier + self.accumulation * size.max(row.terms);
        (!exact.is_nan()).then_some(before_rounding >= threshold)
    }

    /// Whether `computed` may stand for `exact`. NaN stands for NaN alone; an infinity stands for itself, and for values
    /// that the format cannot hold. For those the 8-bit formats have two conventions, and both are admitted: PyTorch's
    /// conversion gives an infinity, or NaN where the format has none; CUDA's gives the largest finite value.
    pub(crate) fn admits(&self, computed: f64, exact: f64, row: impl Into<Row>) -> bool {
        let row = row.into().finite();
        if let Some(beyond) = self.is_beyond_eight_bits(exact, row) {
            let overflowed = match self.output {
                Dtype::F8e4m3 => computed.is_nan(),
                _ => computed.is_infinite() && computed.is_sign_positive() == exact.is_sign_positive(),
            };
            let saturated = computed == largest(self.output).copysign(exact);
            if overflowed || (saturated && beyond) {
                return beyond;
            }
        }
        if exact.is_nan() || computed.is_nan() {
            return exact.is_nan() && computed.is_nan();
        }
        if exact.is_infinite() {
            return computed == exact;
        }
        let allowed = self.at(exact, row);
        if computed.is_infinite() {
            return computed.is_sign_positive() == exact.is_sign_positive()
                && exact.abs() + allowed >= largest(self.output);
        }
        (computed - exact).abs() <= allowed
    }
}

/// The numbers of a bound that is no gradient's.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Numbers {
    /// Roundings to the output's dtype, in its unit roundoff.
    pub rounding: f64,
    /// The share of a row's terms that accumulation explains.
    pub accumulation: f64,
    /// Unit roundoff of the output.
    pub unit: f64,
    /// Its smallest normal number.
    pub smallest: f64,
    /// Its largest finite number.
    pub largest: f64,
    /// Where numbers begin to round beyond an 8-bit format; 0 for others.
    pub overflow: f64,
    /// Whether the 8-bit format has an infinity.
    pub has_infinity: bool,
}

/// Half a spacing above the largest value of an 8-bit format, where numbers begin to round beyond it.
fn eight_bit_limit(dtype: Dtype) -> Option<f64> {
    match dtype {
        Dtype::F8e4m3 => Some(448.0 + 16.0),
        Dtype::F8e5m2 => Some(57344.0 + 4096.0),
        _ => None,
    }
}

/// Half the distance from 1 to the next number: the relative error of one rounding to nearest. Zero for integers.
pub(crate) fn unit_roundoff(dtype: Dtype) -> f64 {
    match dtype {
        Dtype::Bf16 => 2f64.powi(-7 - 1),
        Dtype::F16 => 2f64.powi(-10 - 1),
        Dtype::F32 => 2f64.powi(-23 - 1),
        Dtype::F64 => 2f64.powi(-52 - 1),
        Dtype::F8e4m3 => 2f64.powi(-3 - 1),
        Dtype::F8e5m2 => 2f64.powi(-2 - 1),
        Dtype::I8 | Dtype::I16 | Dtype::I32 | Dtype::I64 | Dtype::Bool => 0.0,
    }
}

fn smallest_normal(dtype: Dtype) -> f64 {
    match dtype {
        Dtype::F16 => 2f64.powi(-14),
        Dtype::Bf16 | Dtype::F32 => 2f64.powi(-126),
        Dtype::F64 => f64::MIN_POSITIVE,
        Dtype::F8e4m3 => 2f64.powi(-6),
        Dtype::F8e5m2 => 2f64.powi(-14),
        Dtype::I8 | Dtype::I16 | Dtype::I32 | Dtype::I64 | Dtype::Bool => 0.0,
    }
}

/// The largest finite value.
fn largest(dtype: Dtype) -> f64 {
    match dtype {
        Dtype::F16 => 65504.0,
        Dtype::Bf16 => (2.0 - 2f64.powi(-7)) * 2f64.powi(127),
        Dtype::F32 => f64::from(f32::MAX),
        Dtype::F64 => f64::MAX,
        Dtype::F8e4m3 => 448.0,
        Dtype::F8e5m2 => 57344.0,
        Dtype::I8 | Dtype::I16 | Dtype::I32 | Dtype::I64 | Dtype::Bool => f64::INFINITY,
    }
}

#[cfg(test)]
mod tests {
    use half::{bf16, f16};

    use super::*;
    use crate::base::digest::Digest;

    /// `count` values that are about normal, the same on every machine.
    fn normal(count: usize) -> Vec<f32> {
        let mut bytes = Digest::blake3(b"seed").to_string();
        let mut values = Vec::with_capacity(count);
        while values.len() < count {
            bytes = Digest::blake3(bytes.as_bytes()).to_string();
            let sum: i32 = bytes.bytes().map(|digit| i32::from(digit % 16)).sum();
            values.push((f64::from(sum) / 64.0 - 5.5) as f32);
        }
        values
    }

    fn mean_square(values: &[f32]) -> f64 {
        values.iter().map(|value| f64::from(*value) * f64::from(*value)).sum::<f64>() / values.len() as f64
    }

    /// The first element of the row after normalisation, with the sum kept by `add`.
    fn normalised(values: &[f32], add: impl Fn(f32, f32) -> f32) -> (f32, f64) {
        let sum = values.iter().fold(0f32, |sum, value| add(sum, value * value));
        let root = (sum / values.len() as f32).sqrt();
        (values[0] / root, f64::from(values[0]) / mean_square(values).sqrt())
    }

    #[test]
    fn honest_float32_sums_pass_at_every_length() {
        for length in [1, 127, 4096, 131_072] {
            let values = normal(length);
            let (computed, exact) = normalised(&values, |sum, term| sum + term);
            for (output, rounded) in [
                (Dtype::F32, f64::from(computed)),
                (Dtype::F16, f16::from_f32(computed).to_f64()),
                (Dtype::Bf16, bf16::from_f32(computed).to_f64()),
            ] {
                let bound = Bound::new(output, Dtype::F32, 1, length as u64);
                assert!(bound.admits(rounded, exact, 0.0), "{output} {length}: {rounded} for {exact}");
            }
        }
    }

    /// Inner products of `length` random terms, as a matrix product has them; the share of refused elements.
    fn refused_products(length: usize, add: impl Fn(f32, f32) -> f32) -> f64 {
        let count = 64;
        let values = normal(length * count + length);
        let weights = &values[length * count..];
        let rows: Vec<_> = values[..length * count].chunks(length).collect();
        let exact: Vec<f64> = rows
            .iter()
            .map(|row| row.iter().zip(weights).map(|(x, w)| f64::from(*x) * f64::from(*w)).sum())
            .collect();
        let size = (exact.iter().map(|y| y * y).sum::<f64>() / count as f64).sqrt();
        let bound = Bound::new(Dtype::F16, Dtype::F32, 1, length as u64);
        let refused = rows.iter().zip(&exact).filter(|(row, y)| {
            let sum = row.iter().zip(weights).fold(0f32, |sum, (x, w)| add(sum, x * w));
            !bound.admits(f16::from_f32(sum).to_f64(), **y, size)
        });
        refused.count() as f64 / count as f64
    }

    #[test]
    fn float16_sums_fail_where_float32_is_asked_for() {
        for length in [128, 1024, 8192] {
            assert_eq!(refused_products(length, |sum, term| sum + term), 0.0, "{length}");
            let half = |sum: f32, term: f32| f16::from_f32(sum + term).to_f32();
            assert!(refused_products(length, half) > 0.2, "{length}");
        }
    }

    #[test]
    fn cutting_off_in_place_of_rounding_fails() {
        let bound = Bound::new(Dtype::Bf16, Dtype::F32, 1, 1);
        let exact = 1.0 + 1.9 * unit_roundoff(Dtype::Bf16);
        assert!(!bound.admits(1.0, exact, 1.0));
        assert!(bound.admits(bf16::from_f64(exact).to_f64(), exact, 1.0));
    }

    #[test]
    fn infinities_and_nans_must_be_expected() {
        let bound = Bound::new(Dtype::F16, Dtype::F32, 1, 16);
        assert!(bound.admits(f64::NAN, f64::NAN, 1.0));
        assert!(!bound.admits(f64::NAN, 1.0, 1.0));
        assert!(!bound.admits(1.0, f64::NAN, 1.0));
        assert!(!bound.admits(f64::INFINITY, 1.0, 1.0));
        assert!(bound.admits(f64::INFINITY, 70_000.0, 1.0));
        assert!(!bound.admits(f64::NEG_INFINITY, 70_000.0, 1.0));
        assert!(!bound.admits(1.0, f64::INFINITY, f64::INFINITY));
    }

    #[test]
    fn the_smallest_numbers_may_be_off_by_half_a_spacing() {
        let bound = Bound::new(Dtype::F16, Dtype::F32, 1, 1);
        assert!(bound.admits(0.0, 2f64.powi(-26), 0.0));
        assert!(!bound.admits(0.0, 2f64.powi(-23), 0.0));
    }

    #[test]
    fn eight_bits_round_coarsely_and_overflow_either_way() {
        let bound = Bound::new(Dtype::F8e4m3, Dtype::F32, 1, 1);
        // Between 1.0 and 1.125, the next number.
        assert!(bound.admits(1.0, 1.06, 0.0) && bound.admits(1.125, 1.07, 0.0));
        assert!(!bound.admits(1.0, 1.124, 0.0));
        assert!(bound.admits(448.0, 1e6, 0.0) && bound.admits(f64::NAN, -1e6, 0.0));
        assert!(bound.admits(f64::NAN, f64::INFINITY, f64::INFINITY));
        assert!(bound.admits(448.0, 440.0, 0.0) && !bound.admits(f64::NAN, 440.0, 0.0));
        assert!(bound.admits(448.0, 463.0, 0.0) && bound.admits(f64::NAN, 465.0, 0.0));
        assert!(!bound.admits(-448.0, 1e6, 0.0) && !bound.admits(f64::NAN, 1.0, 1.0));
        assert!(!bound.admits(448.0, f64::NAN, 0.0));
        let bound = Bound::new(Dtype::F8e5m2, Dtype::F32, 1, 1);
        assert!(bound.admits(1.0, 1.12, 0.0) && !bound.admits(1.0, 1.24, 0.0));
        assert!(bound.admits(f64::INFINITY, 1e6, 0.0) && bound.admits(57344.0, 1e6, 0.0));
        assert!(bound.admits(f64::INFINITY, 7e4, 0.0) && !bound.admits(f64::INFINITY, 6e4, 0.0));
        assert!(!bound.admits(f64::NEG_INFINITY, 1e6, 0.0));
        assert!(!bound.admits(f64::NAN, 1e6, 0.0) && !bound.admits(57344.0, 1.0, 0.0));
    }

    #[test]
    fn a_gradient_that_cancels_is_off_by_the_size_of_its_row() {
        let (forward, gradient) =
            (Bound::new(Dtype::Bf16, Dtype::F32, 1, 64), Bound::of_gradient(Dtype::Bf16, Dtype::F32, 1, 64));
        assert!(!forward.admits(0.003, 0.0, 1.0));
        assert!(gradient.admits(0.003, 0.0, 1.0) && !gradient.admits(0.02, 0.0, 1.0));
        let cancelled = |terms| gradient.admits(4e-6, 3e-6, Row { size: 3e-6, terms });
        assert!(cancelled(1.0) && !cancelled(3e-6));
    }

    #[test]
    fn a_gradient_of_a_rounded_result_is_off_by_roundings_of_its_terms() {
        let gradient = Bound::of_gradient(Dtype::F16, Dtype::F32, 1, 4);
        let row = Row { size: 3e-3, terms: 3.0 };
        assert!(!gradient.admits(3.2e-3, 3.1e-3, row));
        assert!(gradient.with_rounded_terms().admits(3.2e-3, 3.1e-3, row));
        assert!(!gradient.with_rounded_terms().admits(3.1e-3 + 3.0 * 2.0_f64.powi(-9), 3.1e-3, row));
    }

    #[test]
    fn integers_must_be_exact() {
        let bound = Bound::new(Dtype::I64, Dtype::I64, 1, 1024);
        assert!(bound.admits(7.0, 7.0, 3.0));
        assert!(!bound.admits(8.0, 7.0, 3.0));
    }
}
