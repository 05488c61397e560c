//! The operations on a GPU: memory of candle passed to the functions that build.rs generated.
//!
//! Owns: the results' memory. Never: copies an operand; waits for the GPU.

use candle_core::backend::BackendStorage;
use candle_core::cuda_backend::CudaDType;
use candle_core::{CudaDevice, CudaStorage, DType, Error, Layout, Result, Shape, bail};
use half::{bf16, f16};
use kernelwright_runtime::cudarc::driver::{CudaSlice, CudaView, DeviceRepr};
use kernelwright_runtime::{Tensor, TensorMut};

use crate::cpu::halved;
use crate::kernels;

type Operand<'a> = (&'a CudaStorage, &'a Layout);

/// Calls a function with the type of a storage's elements.
macro_rules! of_dtype {
    ($storage:expr, $function:ident($($argument:expr),*)) => {
        match $storage.dtype() {
            DType::BF16 => $function::<bf16>($($argument),*),
            DType::F16 => $function::<f16>($($argument),*),
            DType::F32 => $function::<f32>($($argument),*),
            other => bail!("the kernels are for bf16, f16 and f32, not {other:?}"),
        }
    };
}

pub(crate) fn rms_norm(input: Operand<'_>, weight: Operand<'_>, eps: f64) -> Result<(CudaStorage, Shape)> {
    fn enqueued<T: CudaDType + DeviceRepr + kernels::rms_norm::DtypeT>(
        input: Operand<'_>,
        weight: Operand<'_>,
        eps: f64,
    ) -> Result<(CudaStorage, Shape)> {
        let shape = input.1.shape().clone();
        let (device, mut out) = result::<T>(input, shape.elem_count())?;
        let (memory, weights) = (view::<T>(input)?, view::<T>(weight)?);
        kernels::rms_norm(
            &device.cuda_stream(),
            &mut TensorMut::new(&mut out, shape.dims()).map_err(Error::wrap)?,
            &Tensor::new(&memory, shape.dims()).map_err(Error::wrap)?,
            &Tensor::new(&weights, weight.1.dims()).map_err(Error::wrap)?,
            eps,
        )
        .map_err(Error::wrap)?;
        Ok((CudaStorage::wrap_cuda_slice(out, device), shape))
    }
    of_dtype!(input.0, enqueued(input, weight, eps))
}

pub(crate) fn softmax(input: Operand<'_>) -> Result<(CudaStorage, Shape)> {
    fn enqueued<T: CudaDType + DeviceRepr + kernels::softmax::DtypeT>(
        input: Operand<'_>,
    ) -> Result<(CudaStorage, Shape)> {
        let shape = input.1.shape().clone();
        let (device, mut out) = result::<T>(input, shape.elem_count())?;
        let memory = view::<T>(input)?;
        kernels::softmax(
            &device.cuda_stream(),
            &mut TensorMut::new(&mut out, shape.dims()).map_err(Error::wrap)?,
            &Tensor::new(&memory, shape.dims()).map_err(Error::wrap)?,
        )
        .map_err(Error::wrap)?;
        Ok((CudaStorage::wrap_cuda_slice(out, device), shape))
    }
    of_dtype!(input.0, enqueued(input))
}

pub(crate) fn swiglu(input: Operand<'_>) -> Result<(CudaStorage, Shape)> {
    fn enqueued<T: CudaDType + DeviceRepr + kernels::swiglu::DtypeT>(
        input: Operand<'_>,
    ) -> Result<(CudaStorage, Shape)> {
        let (shape, hidden) = halved(input.1)?;
        let (device, mut out) = result::<T>(input, shape.elem_count())?;
        let memory = view::<T>(input)?;
        let rows = shape.elem_count() / hidden.max(1);
        kernels::swiglu(
            &device.cuda_stream(),
            &mut TensorMut::new(&mut out, &[rows, hidden]).map_err(Error::wrap)?,
            &Tensor::new(&memory, &[rows, 2, hidden]).map_err(Error::wrap)?,
        )
        .map_err(Error::wrap)?;
        Ok((CudaStorage::wrap_cuda_slice(out, device), shape))
    }
    of_dtype!(input.0, enqueued(input))
}

/// Memory for a result, on the device of an operand.
fn result<T: CudaDType + DeviceRepr>(
    operand: Operand<'_>,
    elements: usize,
) -> Result<(CudaDevice, CudaSlice<T>)> {
    let device = operand.0.device().clone();
    // SAFETY: the kernels write every element of a result before anything on the stream reads it.
    let memory = unsafe { device.alloc::<T>(elements)? };
    Ok((device, memory))
}

fn view<'a, T: CudaDType>((storage, layout): Operand<'a>) -> Result<CudaView<'a, T>> {
    match layout.contiguous_offsets() {
        Some((start, end)) => Ok(storage.as_cuda_slice::<T>()?.slice(start..end)),
        None => bail!("the tensor is not contiguous"),
    }
}
