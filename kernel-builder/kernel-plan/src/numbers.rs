//! Elements of tensors by the dtypes that op.toml names.
//!
//! Owns: which format a dtype has. Never: computes; the crate tensor-numbers does, which is optimized in the dev profile.

use tensor_numbers::Format;
pub use tensor_numbers::{Limit, Nearness, doubles, nearness, root_mean_square, share};

use crate::units::Dtype;

/// Element `place` of little-endian data, as float64; integers of 64 bits lose what float64 cannot hold.
pub fn decode(dtype: Dtype, bytes: &[u8], place: usize) -> f64 {
    tensor_numbers::decode(format(dtype), bytes, place)
}

/// All elements of little-endian data, as [`decode`] has each, in place of what `values` held.
pub fn decode_all(dtype: Dtype, bytes: &[u8], values: &mut Vec<f64>) {
    tensor_numbers::decode_all(format(dtype), bytes, values);
}

fn format(dtype: Dtype) -> Format {
    match dtype {
        Dtype::Bf16 => Format::Bf16,
        Dtype::F16 => Format::F16,
        Dtype::F32 => Format::F32,
        Dtype::F64 => Format::F64,
        Dtype::F8e4m3 => Format::F8e4m3,
        Dtype::F8e5m2 => Format::F8e5m2,
        Dtype::I8 => Format::I8,
        Dtype::I16 => Format::I16,
        Dtype::I32 => Format::I32,
        Dtype::I64 => Format::I64,
        Dtype::Bool => Format::Bool,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_are_decoded_as_each_is() {
        let bytes: Vec<u8> = (0..=255u8).cycle().step_by(7).take(240).collect();
        let mut values = vec![1.0];
        for dtype in Dtype::ALL {
            decode_all(*dtype, &bytes, &mut values);
            assert_eq!(values.len(), bytes.len() / dtype.size_bytes(), "{dtype}");
            for (place, value) in values.iter().enumerate() {
                let alone = decode(*dtype, &bytes, place);
                assert_eq!(value.to_bits(), alone.to_bits(), "{dtype} {place}");
            }
        }
    }
}
