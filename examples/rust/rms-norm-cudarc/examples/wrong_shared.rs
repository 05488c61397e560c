//! An output that is also an input. This does not compile; CI checks that.

use std::error::Error;

use kernelwright_runtime::{Device, Tensor, TensorMut};
use rms_norm_cudarc::kernels;

fn main() -> Result<(), Box<dyn Error>> {
    let stream = Device::new(0)?.stream()?;
    let weight = stream.alloc_zeros::<f32>(8)?;
    let mut out = stream.alloc_zeros::<f32>(8)?;
    let input = Tensor::new(&out, &[1, 8])?;
    kernels::rms_norm(
        &stream,
        &mut TensorMut::new(&mut out, &[1, 8])?,
        &input,
        &Tensor::new(&weight, &[8])?,
        1e-6,
    )?;
    Ok(())
}
