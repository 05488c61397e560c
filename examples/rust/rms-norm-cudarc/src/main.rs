//! Normalises rows on the first GPU and compares them with the reference.

use std::error::Error;

use kernelwright_runtime::{Device, Tensor, TensorMut};
use rms_norm_cudarc::{kernels, reference};

fn main() -> Result<(), Box<dyn Error>> {
    let (rows, hidden, eps) = (128, 4096, 1e-6);
    let input: Vec<f32> =
        (0..rows * hidden).map(|place| ((place * 7919) % 2003) as f32 / 1001.0 - 1.0).collect();
    let weight: Vec<f32> = (0..hidden).map(|place| 0.5 + place as f32 / hidden as f32).collect();

    let stream = Device::new(0)?.stream()?;
    let on_gpu = (stream.clone_htod(&input)?, stream.clone_htod(&weight)?);
    let mut out = stream.alloc_zeros::<f32>(rows * hidden)?;
    kernels::rms_norm(
        &stream,
        &mut TensorMut::new(&mut out, &[rows, hidden])?,
        &Tensor::new(&on_gpu.0, &[rows, hidden])?,
        &Tensor::new(&on_gpu.1, &[hidden])?,
        eps,
    )?;
    let out = stream.clone_dtoh(&out)?;

    let expected = reference(&input, &weight, eps);
    let errors = out.iter().zip(&expected).map(|(value, exact)| (f64::from(*value) - exact).abs());
    let largest = errors.fold(0.0, f64::max);
    println!("{rows} x {hidden}: the largest error against float64 is {largest:.2e}");
    // Terms are summed in float32: a few of its roundings of values below 4.
    if largest < 1e-5 { Ok(()) } else { Err("the result is wrong".into()) }
}
