//! Tensors of one type variable with different element types. This does not compile; CI checks that.

use std::error::Error;

use kernelwright_runtime::half;
use kernelwright_runtime::{Device, Tensor, TensorMut};
use rms_norm_cudarc::kernels;

fn main() -> Result<(), Box<dyn Error>> {
    let stream = Device::new(0)?.stream()?;
    let input = stream.alloc_zeros::<f32>(8)?;
    let weight = stream.alloc_zeros::<half::bf16>(8)?;
    let mut out = stream.alloc_zeros::<f32>(8)?;
    let out = &mut TensorMut::new(&mut out, &[1, 8])?;
    kernels::rms_norm(&stream, out, &Tensor::new(&input, &[1, 8])?, &Tensor::new(&weight, &[8])?, 1e-6)?;
    Ok(())
}
