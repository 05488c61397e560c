//! Arithmetic over all elements of tensors.
//!
//! Owns: the formats of elements, and whether elements lie as near to each other as they must. Never: knows a tensor's shape,
//! or what may stand for a value that is no number.
//!
//! A crate of its own because gigabytes go through it: it is optimized in the dev profile, too.

use half::{bf16, f16};

/// The format of an element; little-endian, as all of them are here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// 16 bits with the exponent of `F32`.
    Bf16,
    /// IEEE half precision.
    F16,
    /// IEEE single precision.
    F32,
    /// IEEE double precision.
    F64,
    /// `E4M3` of the OCP 8-bit floating point specification, 2023.
    F8e4m3,
    /// `E5M2` of the OCP 8-bit floating point specification, 2023.
    F8e5m2,
    /// 8-bit signed integer.
    I8,
    /// 16-bit signed integer.
    I16,
    /// 32-bit signed integer.
    I32,
    /// 64-bit signed integer.
    I64,
    /// One byte, false or true.
    Bool,
}

impl Format {
    /// Bytes of one element.
    pub const fn size_bytes(self) -> usize {
        match self {
            Self::F8e4m3 | Self::F8e5m2 | Self::I8 | Self::Bool => 1,
            Self::Bf16 | Self::F16 | Self::I16 => 2,
            Self::F32 | Self::I32 => 4,
            Self::F64 | Self::I64 => 8,
        }
    }
}

/// Element `place` of little-endian data, as float64; integers of 64 bits lose what float64 cannot hold.
pub fn decode(format: Format, bytes: &[u8], place: usize) -> f64 {
    let size = format.size_bytes();
    let mut found = 0.0;
    decode_each(format, &bytes[place * size..][..size], |value| found = value);
    found
}

/// All elements of little-endian data, as [`decode`] has each, in place of what `values` held.
pub fn decode_all(format: Format, bytes: &[u8], values: &mut Vec<f64>) {
    values.clear();
    values.reserve(bytes.len() / format.size_bytes());
    decode_each(format, bytes, |value| values.push(value));
}

/// Float64 values of a file.
pub fn doubles(bytes: &[u8]) -> Vec<f64> {
    let mut values = Vec::new();
    decode_all(Format::F64, bytes, &mut values);
    values
}

fn decode_each(format: Format, bytes: &[u8], take: impl FnMut(f64)) {
    fn each_element<const N: usize>(bytes: &[u8], number: impl Fn([u8; N]) -> f64, take: impl FnMut(f64)) {
        bytes.as_chunks().0.iter().map(|element| number(*element)).for_each(take);
    }
    match format {
        Format::Bf16 => each_element(bytes, |it| bf16::from_le_bytes(it).to_f64(), take),
        Format::F16 => each_element(bytes, |it| f16::from_le_bytes(it).to_f64(), take),
        Format::F32 => each_element(bytes, |it| f64::from(f32::from_le_bytes(it)), take),
        Format::F64 => each_element(bytes, f64::from_le_bytes, take),
        Format::F8e4m3 => each_element(bytes, |[byte]| e4m3(byte), take),
        // The upper half of an f16.
        Format::F8e5m2 => each_element(bytes, |[byte]| f16::from_le_bytes([0, byte]).to_f64(), take),
        Format::I8 => each_element(bytes, |it| f64::from(i8::from_le_bytes(it)), take),
        Format::I16 => each_element(bytes, |it| f64::from(i16::from_le_bytes(it)), take),
        Format::I32 => each_element(bytes, |it| f64::from(i32::from_le_bytes(it)), take),
        Format::I64 => each_element(bytes, |it| i64::from_le_bytes(it) as f64, take),
        Format::Bool => each_element(bytes, |[byte]| f64::from(byte), take),
    }
}

/// One number of the format `E4M3` (OCP 8-bit floating point specification, 2023): bias 7, no infinities, and the two
/// patterns of all ones are not numbers.
fn e4m3(byte: u8) -> f64 {
    let (exponent, mantissa) = (i32::from(byte >> 3 & 0xf), f64::from(byte & 7));
    let size = match (exponent, byte & 7) {
        (15, 7) => f64::NAN,
        (0, _) => mantissa * 2f64.powi(-9),
        _ => (1.0 + mantissa / 8.0) * 2f64.powi(exponent - 7),
    };
    if byte < 0x80 { size } else { -size }
}

/// Of the values that are finite: what is not would hide the size of the others, or explain any error.
pub fn root_mean_square(values: &[f64]) -> f64 {
    let (mut count, mut sum) = (0usize, 0.0);
    for value in values.iter().filter(|value| value.is_finite()) {
        count += 1;
        sum += value * value;
    }
    (sum / count.max(1) as f64).sqrt()
}

/// The largest error that is explained at an exact value of some row.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Limit {
    /// The share of its size that roundings explain.
    pub rounding: f64,
    /// What roundings count against at least.
    pub rounded: f64,
    /// The share of its terms that accumulation explains.
    pub accumulation: f64,
    /// The size of the terms, where that of the value is smaller.
    pub terms: f64,
}

impl Limit {
    /// The largest absolute error that is explained at an exact value.
    pub fn at(&self, exact: f64) -> f64 {
        let size = exact.abs();
        self.rounding * size.max(self.rounded) + self.accumulation * size.max(self.terms)
    }
}

/// How near some values are to the exact ones.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Nearness {
    /// The largest error as a share of the limit.
    pub of_limit: f64,
    /// The largest error as a share of the exact value's size, or of the row's where that is larger.
    pub relative: f64,
}

impl Nearness {
    /// Takes one more value in, which is within the limit.
    pub fn take(&mut self, error: f64, allowed: f64, scale: f64) {
        self.of_limit = self.of_limit.max(share(error, allowed));
        if scale > 0.0 {
            self.relative = self.relative.max(error / scale);
        }
    }

    /// The larger of both.
    pub fn with(self, other: Self) -> Self {
        Self { of_limit: self.of_limit.max(other.of_limit), relative: self.relative.max(other.relative) }
    }
}

/// How near the values of a row of this size are to the exact ones; nothing where one is beyond the limit, or one of either
/// is not finite.
pub fn nearness(computed: &[f64], exact: &[f64], limit: &Limit, size: f64) -> Option<Nearness> {
    let mut found = Nearness::default();
    for (computed, exact) in computed.iter().zip(exact) {
        let (error, allowed) = ((computed - exact).abs(), limit.at(*exact));
        if !(error.is_finite() && error <= allowed) {
            return None;
        }
        found.take(error, allowed, exact.abs().max(size));
    }
    Some(found)
}

/// An error as a share of what is allowed, which may be zero where the error is.
pub fn share(error: f64, allowed: f64) -> f64 {
    if error == 0.0 { 0.0 } else { error / allowed }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn eight_bits_as_the_specification_lists_them() {
        let table = [
            (Format::F8e4m3, 0x00, 0.0),
            (Format::F8e4m3, 0x01, 2f64.powi(-9)),
            (Format::F8e4m3, 0x07, 0.875 * 2f64.powi(-6)),
            (Format::F8e4m3, 0x08, 2f64.powi(-6)),
            (Format::F8e4m3, 0x38, 1.0),
            (Format::F8e4m3, 0x5a, 20.0),
            (Format::F8e4m3, 0x7e, 448.0),
            (Format::F8e4m3, 0xfe, -448.0),
            (Format::F8e5m2, 0x01, 2f64.powi(-16)),
            (Format::F8e5m2, 0x04, 2f64.powi(-14)),
            (Format::F8e5m2, 0x5a, 192.0),
            (Format::F8e5m2, 0x7b, 57344.0),
            (Format::F8e5m2, 0xfc, f64::NEG_INFINITY),
        ];
        for (format, byte, value) in table {
            assert_eq!(decode(format, &[byte], 0), value, "{format:?} {byte:#x}");
        }
        for (format, byte) in [(Format::F8e4m3, 0x7f), (Format::F8e4m3, 0xff), (Format::F8e5m2, 0xff)] {
            assert!(decode(format, &[byte], 0).is_nan(), "{format:?} {byte:#x}");
        }
    }

    #[test]
    fn elements_lie_one_after_the_other() {
        let bytes = [1f32, -2.5].map(f32::to_le_bytes).concat();
        assert_eq!(decode(Format::F32, &bytes, 1), -2.5);
        assert_eq!(doubles(&[0.5f64, 8.0].map(f64::to_le_bytes).concat()), [0.5, 8.0]);
    }

    #[test]
    fn what_is_beyond_the_limit_or_no_number_is_not_near() {
        let limit = Limit { rounding: 0.25, rounded: 1.0, accumulation: 0.5, terms: 2.0 };
        // 0.25 * 4 + 0.5 * 4 at 4; 0.25 * 1 + 0.5 * 2 at 0.
        assert_eq!((limit.at(-4.0), limit.at(0.0)), (3.0, 1.25));
        let near = |computed: &[f64], exact: &[f64]| nearness(computed, exact, &limit, 8.0);
        assert_eq!(near(&[1.0, -2.5], &[4.0, -2.5]), Some(Nearness { of_limit: 1.0, relative: 3.0 / 8.0 }));
        assert_eq!(near(&[0.0], &[0.0]), Some(Nearness::default()));
        assert_eq!(near(&[], &[]), Some(Nearness::default()));
        for (computed, exact) in [
            (1.3, 0.0),
            (f64::NAN, 0.0),
            (0.0, f64::NAN),
            (f64::NAN, f64::NAN),
            (f64::INFINITY, f64::INFINITY),
            (f64::INFINITY, 1.0),
        ] {
            assert_eq!(near(&[0.0, computed], &[0.0, exact]), None, "{computed} for {exact}");
        }
        // A limit that is no number allows nothing.
        let open = Limit { terms: f64::NAN, accumulation: f64::NAN, ..limit };
        assert_eq!(nearness(&[1.0], &[1.5], &open, 1.0), None);
    }

    #[test]
    fn the_size_of_a_row_is_that_of_its_finite_values() {
        assert_eq!(root_mean_square(&[3.0, f64::NAN, -3.0, f64::INFINITY]), 3.0);
        assert_eq!(root_mean_square(&[]), 0.0);
    }
}
