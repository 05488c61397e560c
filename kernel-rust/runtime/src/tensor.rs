//! Memory of cudarc with a shape.
//!
//! Owns: shapes, strides, and that the memory is long enough for them. Never: allocates or copies.

use std::fmt;

use cudarc::driver::{DevicePtr, DevicePtrMut};

use crate::element::Element;
use crate::error::Error;

/// The most dimensions of a tensor.
pub const MAX_RANK: usize = 8;

/// Lengths of dimensions, outermost first.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Shape {
    rank: usize,
    lengths: [i64; MAX_RANK],
}

impl Shape {
    /// The shape with these lengths.
    ///
    /// # Errors
    /// More than [`MAX_RANK`] dimensions, or more elements than 63 bits count.
    pub fn new(lengths: &[usize]) -> Result<Self, Error> {
        if lengths.len() > MAX_RANK {
            return Err(Error::Rank { rank: lengths.len(), most: MAX_RANK });
        }
        let mut shape = Self { rank: lengths.len(), lengths: [0; MAX_RANK] };
        let mut elements = 1i64;
        for (into, length) in shape.lengths.iter_mut().zip(lengths) {
            *into = i64::try_from(*length).map_err(|_| Error::Huge)?;
            // A length of zero does not excuse the others: they are multiplied one by one by whoever walks the tensor.
            elements = elements.checked_mul((*into).max(1)).ok_or(Error::Huge)?;
        }
        Ok(shape)
    }

    /// The lengths.
    #[must_use]
    pub fn lengths(&self) -> &[i64] {
        &self.lengths[..self.rank]
    }

    /// The number of elements.
    #[must_use]
    pub fn elements(&self) -> i64 {
        self.lengths().iter().product()
    }

    /// Elements between neighbors of a dense row-major tensor, outermost dimension first.
    fn row_major(&self) -> [i64; MAX_RANK] {
        let mut strides = [0; MAX_RANK];
        let mut step = 1;
        for at in (0..self.rank).rev() {
            strides[at] = step;
            step *= self.lengths[at].max(1);
        }
        strides
    }
}

/// `[4096, 1024]`.
impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.lengths(), f)
    }
}

impl fmt::Debug for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Shape and strides.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Layout {
    pub(crate) shape: Shape,
    /// Elements between neighbors, outermost dimension first.
    strides: [i64; MAX_RANK],
}

impl Layout {
    fn dense(shape: Shape, len: usize) -> Result<Self, Error> {
        Self { shape, strides: shape.row_major() }.within(len)
    }

    /// The dense layout of a shape.
    #[cfg(test)]
    pub(crate) fn of_shape(shape: Shape) -> Self {
        Self { shape, strides: shape.row_major() }
    }

    fn strided(shape: Shape, strides: &[usize], len: usize) -> Result<Self, Error> {
        if strides.len() != shape.rank {
            return Err(Error::Strides { shape: shape.to_string(), strides: strides.len() });
        }
        let mut layout = Self { shape, strides: [0; MAX_RANK] };
        for (into, stride) in layout.strides.iter_mut().zip(strides) {
            *into = i64::try_from(*stride).map_err(|_| Error::Huge)?;
        }
        layout.within(len)
    }

    /// The layout, if memory of `len` elements is long enough for it.
    fn within(self, len: usize) -> Result<Self, Error> {
        let needed = if self.shape.elements() == 0 {
            0
        } else {
            let lengths = self.shape.lengths().iter().zip(&self.strides);
            let mut steps = lengths.map(|(length, stride)| (length - 1).checked_mul(*stride));
            let last = steps.try_fold(0i64, |sum, step| sum.checked_add(step?));
            last.and_then(|last| last.checked_add(1)).ok_or(Error::Huge)?
        };
        let is_enough = i64::try_from(len).is_ok_and(|len| needed <= len);
        if is_enough { Ok(self) } else { Err(Error::Short { shape: self.shape.to_string(), needed, len }) }
    }

    /// Whether the elements lie side by side in row-major order.
    pub(crate) fn is_contiguous(&self) -> bool {
        let expected = self.shape.row_major();
        let dimensions = self.shape.lengths().iter().zip(self.strides.iter().zip(&expected));
        self.shape.elements() == 0
            || dimensions.into_iter().all(|(length, (stride, dense))| *length == 1 || stride == dense)
    }
}

/// A tensor that a kernel reads: memory of cudarc (`CudaSlice`, `CudaView`), with a shape.
#[derive(Clone, Copy)]
pub struct Tensor<'a, T> {
    pub(crate) memory: &'a dyn DevicePtr<T>,
    pub(crate) layout: Layout,
}

impl<'a, T: Element> Tensor<'a, T> {
    /// A dense row-major tensor at the beginning of `memory`. `shape` has elements per dimension, outermost first.
    ///
    /// # Errors
    /// The memory is shorter than the shape.
    pub fn new(memory: &'a impl DevicePtr<T>, shape: &[usize]) -> Result<Self, Error> {
        let layout = Layout::dense(Shape::new(shape)?, memory.len())?;
        Ok(Self { memory, layout })
    }

    /// A tensor with strides in elements, outermost dimension first.
    ///
    /// # Errors
    /// The memory is shorter than shape and strides need, or there are not as many strides as dimensions.
    pub fn with_strides(
        memory: &'a impl DevicePtr<T>,
        shape: &[usize],
        strides: &[usize],
    ) -> Result<Self, Error> {
        let layout = Layout::strided(Shape::new(shape)?, strides, memory.len())?;
        Ok(Self { memory, layout })
    }

    /// Its shape.
    #[must_use]
    pub fn shape(&self) -> Shape {
        self.layout.shape
    }

    /// Whether its elements lie side by side in row-major order.
    #[must_use]
    pub fn is_contiguous(&self) -> bool {
        self.layout.is_contiguous()
    }
}

/// A tensor that a kernel writes: memory of cudarc (`CudaSlice`, `CudaViewMut`), with a shape.
pub struct TensorMut<'a, T> {
    pub(crate) memory: &'a mut dyn DevicePtrMut<T>,
    pub(crate) layout: Layout,
}

impl<'a, T: Element> TensorMut<'a, T> {
    /// A dense row-major tensor at the beginning of `memory`. `shape` has elements per dimension, outermost first.
    ///
    /// # Errors
    /// The memory is shorter than the shape.
    pub fn new(memory: &'a mut impl DevicePtrMut<T>, shape: &[usize]) -> Result<Self, Error> {
        let layout = Layout::dense(Shape::new(shape)?, memory.len())?;
        Ok(Self { memory, layout })
    }

    /// Its shape.
    #[must_use]
    pub fn shape(&self) -> Shape {
        self.layout.shape
    }
}

impl<T> fmt::Debug for Tensor<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tensor").field("layout", &self.layout).finish_non_exhaustive()
    }
}

impl<T> fmt::Debug for TensorMut<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TensorMut").field("layout", &self.layout).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shape(lengths: &[usize]) -> Shape {
        Shape::new(lengths).unwrap()
    }

    #[test]
    fn memory_is_as_long_as_its_last_element_needs() {
        assert!(Layout::dense(shape(&[3, 4]), 12).is_ok());
        let error = Layout::dense(shape(&[3, 4]), 11).unwrap_err().to_string();
        assert_eq!(error, "a tensor of shape [3, 4] needs 12 elements, but its memory has 11");
        // Two rows of four that are eight apart end at 12.
        assert!(Layout::strided(shape(&[2, 4]), &[8, 1], 12).is_ok());
        assert!(Layout::strided(shape(&[2, 4]), &[8, 1], 11).is_err());
        assert!(Layout::dense(shape(&[0, 4]), 0).is_ok());
        assert!(Layout::dense(shape(&[]), 0).is_err(), "a tensor without dimensions has one element");
    }

    #[test]
    fn dense_rows_are_contiguous_whatever_the_stride_of_a_single_one() {
        let of = |lengths: &[usize], strides: &[usize]| {
            Layout::strided(shape(lengths), strides, 1 << 20).unwrap().is_contiguous()
        };
        assert!(of(&[3, 4], &[4, 1]) && of(&[1, 4], &[77, 1]) && of(&[0, 4], &[9, 9]));
        assert!(!of(&[3, 4], &[8, 1]) && !of(&[3, 4], &[1, 3]));
    }

    #[test]
    fn lengths_that_no_memory_has_are_refused() {
        assert!(matches!(Shape::new(&[usize::MAX]), Err(Error::Huge)));
        assert!(matches!(Shape::new(&[1 << 40, 1 << 40, 0]), Err(Error::Huge)));
        assert!(matches!(Shape::new(&[1; 9]), Err(Error::Rank { rank: 9, .. })));
        assert!(matches!(Layout::strided(shape(&[2]), &[], 2), Err(Error::Strides { strides: 0, .. })));
        assert!(Layout::strided(shape(&[3]), &[usize::MAX / 2], 2).is_err());
    }
}
