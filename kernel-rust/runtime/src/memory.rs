//! The memory of one call: addresses of tensors, copies of misaligned ones, scratch memory.
//!
//! Owns: that device code gets addresses that are multiples of 16, and that streams wait for each other as cudarc has it.
//! Never: keeps memory after a call; it is freed in the order of the stream.

use std::sync::Arc;

use cudarc::driver::{CudaSlice, CudaStream, DevicePtrMut, SyncOnDrop, result, sys};

use crate::element::Element;
use crate::error::Problem;
use crate::tensor::{Layout, Tensor, TensorMut};

/// Device code reads and writes up to 16 bytes at a time.
const ALIGNMENT: u64 = 16;

/// A tensor that kernels of this call read.
#[derive(Debug)]
pub struct Input<'a> {
    address: sys::CUdeviceptr,
    _copy: Option<Scratch>,
    /// Notes the use of the tensor when it is dropped, after the kernels are enqueued.
    _guard: SyncOnDrop<'a>,
}

/// A tensor that kernels of this call write.
#[derive(Debug)]
pub struct Output<'a> {
    address: sys::CUdeviceptr,
    /// Where the copy goes back to, and its size in bytes.
    back: Option<(sys::CUdeviceptr, usize, Scratch)>,
    _guard: SyncOnDrop<'a>,
}

fn bytes<T: Element>(layout: &Layout) -> usize {
    // A shape that exists has elements that memory holds.
    layout.shape.elements().unsigned_abs() as usize * size_of::<T>()
}

fn is_aligned(address: sys::CUdeviceptr) -> bool {
    address.is_multiple_of(ALIGNMENT)
}

impl<'a> Input<'a> {
    /// The address of a tensor on a stream, or of a copy that is aligned.
    ///
    /// # Errors
    /// There is no memory for the copy.
    pub fn new<T: Element>(stream: &'a Arc<CudaStream>, tensor: &'a Tensor<'_, T>) -> Result<Self, Problem> {
        let (address, guard) = tensor.memory.device_ptr(stream);
        let size = bytes::<T>(&tensor.layout);
        if is_aligned(address) || size == 0 {
            return Ok(Self { address, _copy: None, _guard: guard });
        }
        let copy = Scratch::new(stream, size as i64)?;
        // SAFETY: the tensor has as many bytes, and the copy was made for them; both are used in the order of the stream.
        unsafe { result::memcpy_dtod_async(copy.address, address, size, stream.cu_stream()) }?;
        Ok(Self { address: copy.address, _copy: Some(copy), _guard: guard })
    }

    /// What kernels are given.
    #[must_use]
    pub fn address(&self) -> sys::CUdeviceptr {
        self.address
    }
}

impl<'a> Output<'a> {
    /// The address of a tensor on a stream, or of memory that is aligned and whose content is undefined.
    ///
    /// # Errors
    /// There is no memory for the copy.
    pub fn new<T: Element>(
        stream: &'a Arc<CudaStream>,
        tensor: &'a mut TensorMut<'_, T>,
    ) -> Result<Self, Problem> {
        let size = bytes::<T>(&tensor.layout);
        let (address, guard) = tensor.memory.device_ptr_mut(stream);
        if is_aligned(address) || size == 0 {
            return Ok(Self { address, back: None, _guard: guard });
        }
        let copy = Scratch::new(stream, size as i64)?;
        Ok(Self { address: copy.address, back: Some((address, size, copy)), _guard: guard })
    }

    /// The same for a tensor that kernels read and overwrite: a copy has its content.
    ///
    /// # Errors
    /// As [`Self::new`].
    pub fn both<T: Element>(
        stream: &'a Arc<CudaStream>,
        tensor: &'a mut TensorMut<'_, T>,
    ) -> Result<Self, Problem> {
        let output = Self::new(stream, tensor)?;
        if let Some((from, size, copy)) = &output.back {
            // SAFETY: as in `Input::new`.
            unsafe { result::memcpy_dtod_async(copy.address, *from, *size, stream.cu_stream()) }?;
        }
        Ok(output)
    }

    /// What kernels are given.
    #[must_use]
    pub fn address(&self) -> sys::CUdeviceptr {
        self.address
    }

    /// Copies back what was written, after the kernels in the order of the stream.
    ///
    /// # Errors
    /// The driver's.
    pub fn finish(&self, stream: &CudaStream) -> Result<(), Problem> {
        if let Some((to, size, copy)) = &self.back {
            // SAFETY: as in `Input::new`.
            unsafe { result::memcpy_dtod_async(*to, copy.address, *size, stream.cu_stream()) }?;
        }
        Ok(())
    }
}

/// Scratch memory of a call.
#[derive(Debug)]
pub struct Scratch {
    address: sys::CUdeviceptr,
    /// Freed in the order of its stream.
    _memory: CudaSlice<u8>,
}

impl Scratch {
    /// Memory of at least this many bytes, with undefined content.
    ///
    /// # Errors
    /// There is not as much, or the number is negative.
    pub fn new(stream: &Arc<CudaStream>, bytes: i64) -> Result<Self, Problem> {
        const MOST: i64 = 1 << 40;
        if !(0..=MOST).contains(&bytes) {
            return Err(Problem::Limit {
                what: "the number of bytes of scratch memory",
                asked: bytes,
                most: MOST,
            });
        }
        // The driver does not allocate nothing, and a kernel may be given the address of nothing.
        let len = (bytes.unsigned_abs() as usize).max(1);
        // SAFETY: bytes have no invalid content, and nothing reads them before a kernel or a copy writes them.
        let mut memory = unsafe { stream.alloc::<u8>(len) }?;
        // The memory is this call's own and used on its own stream, so there is nothing to wait for or to note.
        let address = memory.device_ptr_mut(stream).0;
        Ok(Self { address, _memory: memory })
    }

    /// The same, filled with zeros in the order of the stream.
    ///
    /// # Errors
    /// As [`Self::new`].
    pub fn zeros(stream: &Arc<CudaStream>, bytes: i64) -> Result<Self, Problem> {
        let scratch = Self::new(stream, bytes)?;
        // SAFETY: the memory has at least as many bytes.
        unsafe {
            result::memset_d8_async(scratch.address, 0, bytes.unsigned_abs() as usize, stream.cu_stream())
        }?;
        Ok(scratch)
    }

    /// What kernels are given.
    #[must_use]
    pub fn address(&self) -> sys::CUdeviceptr {
        self.address
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tensor::Shape;

    #[test]
    fn a_tensor_has_the_bytes_of_its_elements() {
        let layout = Layout::of_shape(Shape::new(&[3, 5]).unwrap());
        assert_eq!(
            (bytes::<half::bf16>(&layout), bytes::<f64>(&layout), bytes::<bool>(&layout)),
            (30, 120, 15)
        );
        assert!(is_aligned(4096) && is_aligned(0) && !is_aligned(4096 + 8));
    }
}
