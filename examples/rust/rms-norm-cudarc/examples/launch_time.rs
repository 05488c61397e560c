//! The time of a call on the host: by the generated function, and by cudarc's launch of the same machine code.

use std::error::Error;
use std::sync::Arc;
use std::time::Instant;

use cudarc::driver::{CudaFunction, CudaSlice, CudaStream, LaunchConfig, PushKernelArg};
use cudarc::nvrtc::Ptx;
use kernelwright_runtime::{Device, Tensor, TensorMut};
use rms_norm_cudarc::kernels;

/// The code that the generated function starts on a GPU of capability 9.0, and its only kernel.
const CODE: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/kernelwright/scale-0.sm_90a.cubin"));
const NAME: &str = "_ZN5scale3runEPfPKfxf";
const LENGTH: usize = 128;
/// Turns of each, and calls in a turn; the queue of the driver has room for these.
const TURNS: usize = 201;
const CALLS: usize = 200;

fn main() -> Result<(), Box<dyn Error>> {
    let device = Device::new(0)?;
    let stream = device.stream()?;
    let input = stream.clone_htod(&vec![2.0f32; LENGTH])?;
    let mut out = stream.alloc_zeros::<f32>(LENGTH)?;
    let function = device.context().load_module(Ptx::from_binary(CODE.to_vec()))?.load_function(NAME)?;
    let (mut generated, mut plain) = (vec![], vec![]);
    for place in 0..TURNS {
        // Neither is always first.
        for which in [place % 2, 1 - place % 2] {
            let start = Instant::now();
            for _ in 0..CALLS {
                if which == 0 {
                    by_function(&stream, &mut out, &input)?;
                } else {
                    by_cudarc(&stream, &function, &mut out, &input)?;
                }
            }
            let each = start.elapsed().as_secs_f64() * 1e6 / CALLS as f64;
            stream.synchronize()?;
            if which == 0 { generated.push(each) } else { plain.push(each) }
        }
    }
    let differences = generated.iter().zip(&plain).map(|(one, other)| one - other).collect::<Vec<_>>();
    let [generated, plain, difference] = [generated, plain, differences].map(median);
    println!(
        "us on the host, medians of {TURNS} turns of {CALLS} calls: function {generated:.3}, cudarc {plain:.3}, difference \
         {difference:.3}"
    );
    let result = stream.clone_dtoh(&out)?;
    if result.iter().all(|value| *value == 1.0) { Ok(()) } else { Err("the result is wrong".into()) }
}

fn by_function(
    stream: &Arc<CudaStream>,
    out: &mut CudaSlice<f32>,
    input: &CudaSlice<f32>,
) -> Result<(), Box<dyn Error>> {
    kernels::scale(stream, &mut TensorMut::new(out, &[LENGTH])?, &Tensor::new(input, &[LENGTH])?, 0.5)?;
    Ok(())
}

fn by_cudarc(
    stream: &Arc<CudaStream>,
    function: &CudaFunction,
    out: &mut CudaSlice<f32>,
    input: &CudaSlice<f32>,
) -> Result<(), Box<dyn Error>> {
    let (length, factor) = (LENGTH as i64, 0.5f32);
    let mut launch = stream.launch_builder(function);
    launch.arg(out).arg(input).arg(&length).arg(&factor);
    let shape = LaunchConfig { grid_dim: (1, 1, 1), block_dim: (128, 1, 1), shared_mem_bytes: 0 };
    // SAFETY: these are the arguments of the kernel, and both tensors have `length` elements.
    unsafe { launch.launch(shape) }?;
    Ok(())
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
