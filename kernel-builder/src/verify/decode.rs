//! Elements of tensors as float64.
//!
//! Owns: the formats of elements. Never: knows a tensor's shape.

use half::{bf16, f16};
use kernel_plan::units::Dtype;

/// Element `place` of little-endian data, as float64; integers of 64 bits lose what float64 cannot hold.
pub(crate) fn decode(dtype: Dtype, bytes: &[u8], place: usize) -> f64 {
    fn at<const N: usize>(bytes: &[u8], place: usize) -> [u8; N] {
        let mut element = [0; N];
        element.copy_from_slice(&bytes[place * N..][..N]);
        element
    }
    match dtype {
        Dtype::Bf16 => bf16::from_le_bytes(at(bytes, place)).to_f64(),
        Dtype::F16 => f16::from_le_bytes(at(bytes, place)).to_f64(),
        Dtype::F32 => f64::from(f32::from_le_bytes(at(bytes, place))),
        Dtype::F64 => f64::from_le_bytes(at(bytes, place)),
        Dtype::F8e4m3 => e4m3(bytes[place]),
        // The upper half of an f16.
        Dtype::F8e5m2 => f16::from_le_bytes([0, bytes[place]]).to_f64(),
        Dtype::I8 => f64::from(i8::from_le_bytes(at(bytes, place))),
        Dtype::I16 => f64::from(i16::from_le_bytes(at(bytes, place))),
        Dtype::I32 => f64::from(i32::from_le_bytes(at(bytes, place))),
        Dtype::I64 => i64::from_le_bytes(at(bytes, place)) as f64,
        Dtype::Bool => f64::from(u8::from_le_bytes(at(bytes, place))),
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

/// Float64 values of a file.
pub(crate) fn doubles(bytes: &[u8]) -> Vec<f64> {
    bytes.as_chunks().0.iter().map(|element| f64::from_le_bytes(*element)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn eight_bits_as_the_specification_lists_them() {
        let table = [
            (Dtype::F8e4m3, 0x00, 0.0),
            (Dtype::F8e4m3, 0x01, 2f64.powi(-9)),
            (Dtype::F8e4m3, 0x07, 0.875 * 2f64.powi(-6)),
            (Dtype::F8e4m3, 0x08, 2f64.powi(-6)),
            (Dtype::F8e4m3, 0x38, 1.0),
            (Dtype::F8e4m3, 0x5a, 20.0),
            (Dtype::F8e4m3, 0x7e, 448.0),
            (Dtype::F8e4m3, 0xfe, -448.0),
            (Dtype::F8e5m2, 0x01, 2f64.powi(-16)),
            (Dtype::F8e5m2, 0x04, 2f64.powi(-14)),
            (Dtype::F8e5m2, 0x5a, 192.0),
            (Dtype::F8e5m2, 0x7b, 57344.0),
            (Dtype::F8e5m2, 0xfc, f64::NEG_INFINITY),
        ];
        for (dtype, byte, value) in table {
            assert_eq!(decode(dtype, &[byte], 0), value, "{dtype} {byte:#x}");
        }
        for (dtype, byte) in [(Dtype::F8e4m3, 0x7f), (Dtype::F8e4m3, 0xff), (Dtype::F8e5m2, 0xff)] {
            assert!(decode(dtype, &[byte], 0).is_nan(), "{dtype} {byte:#x}");
        }
    }

    #[test]
    fn elements_lie_one_after_the_other() {
        let bytes = [1f32, -2.5].map(f32::to_le_bytes).concat();
        assert_eq!(decode(Dtype::F32, &bytes, 1), -2.5);
        assert_eq!(doubles(&[0.5f64, 8.0].map(f64::to_le_bytes).concat()), [0.5, 8.0]);
    }
}
