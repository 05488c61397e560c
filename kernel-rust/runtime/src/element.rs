//! Types of the elements of tensors.
//!
//! Owns: which Rust type a dtype of op.toml is. Never: computes with 8-bit floating-point numbers; they are bytes here.

/// The type of an element, as op.toml names it.
///
/// The numbers are part of the keys by which generated code finds an instance of a kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Dtype {
    /// `half::bf16`.
    Bf16 = 0,
    /// `half::f16`.
    F16 = 1,
    /// `f32`.
    F32 = 2,
    /// `f64`.
    F64 = 3,
    /// [`F8E4M3`].
    F8e4m3 = 4,
    /// [`F8E5M2`].
    F8e5m2 = 5,
    /// `i8`.
    I8 = 6,
    /// `i16`.
    I16 = 7,
    /// `i32`.
    I32 = 8,
    /// `i64`.
    I64 = 9,
    /// `bool`.
    Bool = 10,
}

impl Dtype {
    /// Bytes of one element.
    #[must_use]
    pub const fn size(self) -> i64 {
        match self {
            Self::F8e4m3 | Self::F8e5m2 | Self::I8 | Self::Bool => 1,
            Self::Bf16 | Self::F16 | Self::I16 => 2,
            Self::F32 | Self::I32 => 4,
            Self::F64 | Self::I64 => 8,
        }
    }
}

mod sealed {
    pub trait Sealed {}
}

/// A Rust type with the layout of a dtype. No other crate implements it, because kernels rely on the layout.
pub trait Element: sealed::Sealed + Copy + 'static {
    /// The dtype.
    const DTYPE: Dtype;
}

/// An 8-bit floating-point number with 4 bits of exponent (OCP 8-bit floating point specification, E4M3), as its bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(transparent)]
pub struct F8E4M3(pub u8);

/// An 8-bit floating-point number with 5 bits of exponent (OCP 8-bit floating point specification, E5M2), as its bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(transparent)]
pub struct F8E5M2(pub u8);

// SAFETY: both are one byte without padding, and hold no pointer.
unsafe impl cudarc::driver::DeviceRepr for F8E4M3 {}
// SAFETY: as above.
unsafe impl cudarc::driver::DeviceRepr for F8E5M2 {}
// SAFETY: all bits zero are the number zero.
unsafe impl cudarc::driver::ValidAsZeroBits for F8E4M3 {}
// SAFETY: as above.
unsafe impl cudarc::driver::ValidAsZeroBits for F8E5M2 {}

macro_rules! elements {
    ($($kind:ty => $dtype:ident),* $(,)?) => {
        $(
            impl sealed::Sealed for $kind {}
            impl Element for $kind {
                const DTYPE: Dtype = Dtype::$dtype;
            }
        )*
        #[cfg(test)]
        const SIZES: &[(Dtype, usize)] = &[$((Dtype::$dtype, size_of::<$kind>())),*];
    };
}

elements! {
    half::bf16 => Bf16,
    half::f16 => F16,
    f32 => F32,
    f64 => F64,
    F8E4M3 => F8e4m3,
    F8E5M2 => F8e5m2,
    i8 => I8,
    i16 => I16,
    i32 => I32,
    i64 => I64,
    bool => Bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_have_the_size_of_their_dtype() {
        for (place, (dtype, size)) in SIZES.iter().enumerate() {
            assert_eq!((dtype.size(), *dtype as usize), (*size as i64, place), "{dtype:?}");
        }
    }
}
