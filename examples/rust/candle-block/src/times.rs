//! The measurement: turns of both, by the GPU's clock.
//!
//! Owns: the order of the turns, the numbers that are printed. Never: judges them.

use std::error::Error;

use candle_block::block::{Block, Rows, rms_norm_of_candle, softmax_of_candle, swiglu_of_candle};
use candle_block::ops;
use candle_core::{D, DType, Device, Result, Tensor};
use kernelwright_runtime::cudarc::driver::sys::CUevent_flags;

const ROWS: usize = 4096;
const HIDDEN: usize = 4096;
/// Turns of each, and calls in a turn.
const TURNS: usize = 25;
const CALLS: usize = 20;
/// Rows that are compared with float64.
const COMPARED: usize = 256;

/// Runs everything and prints a line for each operation.
///
/// # Errors
/// There is no GPU, or a result is wrong.
pub fn run() -> std::result::Result<(), Box<dyn Error>> {
    let device = Device::new_cuda(0)?;
    let drawn = |columns: usize| Tensor::randn(0f32, 1.0, (ROWS, columns), &device)?.to_dtype(DType::BF16);
    let (input, both) = (drawn(HIDDEN)?, drawn(2 * HIDDEN)?);
    let weight = Tensor::randn(1f32, 0.1, HIDDEN, &device)?.to_dtype(DType::BF16)?;
    let exact = |tensor: &Tensor| tensor.to_device(&Device::Cpu)?.to_dtype(DType::F64);
    let rows = |tensor: &Tensor| tensor.narrow(0, 0, COMPARED.min(tensor.dim(0)?));
    println!("{ROWS} x {HIDDEN} bf16; medians of {TURNS} turns of {CALLS} calls, in us");
    line(
        "rms_norm",
        &device,
        &|| rms_norm_of_candle(&input, &weight, 1e-6),
        &|| ops::rms_norm(&input, &weight, 1e-6),
        &rms_norm_of_candle(&exact(&rows(&input)?)?, &exact(&weight)?, 1e-6)?,
    )?;
    line(
        "softmax",
        &device,
        &|| softmax_of_candle(&input),
        &|| ops::softmax(&input),
        &softmax_of_candle(&exact(&rows(&input)?)?)?,
    )?;
    line(
        "swiglu",
        &device,
        &|| swiglu_of_candle(&both),
        &|| ops::swiglu(&both),
        &swiglu_of_candle(&exact(&rows(&both)?)?)?,
    )?;
    // candle's best case: gate and up are tensors of their own.
    let (gate, up) =
        (both.narrow(1, 0, HIDDEN)?.contiguous()?, both.narrow(1, HIDDEN, HIDDEN)?.contiguous()?);
    line(
        "swiglu, gate and up apart for candle",
        &device,
        &|| gate.silu()? * &up,
        &|| ops::swiglu(&both),
        &swiglu_of_candle(&exact(&rows(&both)?)?)?,
    )?;
    let block = Block::drawn(1024, DType::BF16, &device)?;
    let input = Tensor::randn(0f32, 1.0, (2048, 1024), &device)?.to_dtype(DType::BF16)?;
    let expected = block.to_dtype(DType::F64)?.forward(&input.to_dtype(DType::F64)?, Rows::Candle)?;
    line(
        "block of 2048 x 1024",
        &device,
        &|| block.forward(&input, Rows::Candle),
        &|| block.forward(&input, Rows::Kernels),
        &exact(&rows(&expected)?)?,
    )
}

/// One operation: both results against float64, then both times.
fn line(
    name: &str,
    device: &Device,
    candle: &dyn Fn() -> Result<Tensor>,
    kernels: &dyn Fn() -> Result<Tensor>,
    exact: &Tensor,
) -> std::result::Result<(), Box<dyn Error>> {
    let errors = [error(&candle()?, exact)?, error(&kernels()?, exact)?];
    for _ in 0..3 {
        turn(device, candle)?;
        turn(device, kernels)?;
    }
    let (mut of_candle, mut of_kernels, mut ratios) = (vec![], vec![], vec![]);
    for place in 0..TURNS {
        // Neither is always first.
        let (one, other) = if place % 2 == 0 {
            let one = turn(device, candle)?;
            (one, turn(device, kernels)?)
        } else {
            let other = turn(device, kernels)?;
            (turn(device, candle)?, other)
        };
        of_candle.push(one);
        of_kernels.push(other);
        ratios.push(one / other);
    }
    let ratio = median(&mut ratios);
    println!(
        "{name}: candle {:.1}, kernels {:.1}, ratio {ratio:.2} ({:.2} to {:.2}); largest error against float64, relative to \
         the largest value: candle {:.1e}, kernels {:.1e}",
        median(&mut of_candle),
        median(&mut of_kernels),
        ratios[0],
        ratios[TURNS - 1],
        errors[0],
        errors[1],
    );
    // One rounding of bf16 is 2^-9 of a value; a block has several.
    if errors[1] <= 2f64.powi(-6) { Ok(()) } else { Err(format!("{name}: the result is wrong").into()) }
}

/// Microseconds of a call, by events of the GPU around some of them.
fn turn(device: &Device, call: &dyn Fn() -> Result<Tensor>) -> std::result::Result<f64, Box<dyn Error>> {
    let stream = device.as_cuda_device()?.cuda_stream();
    let start = stream.record_event(Some(CUevent_flags::CU_EVENT_DEFAULT))?;
    for _ in 0..CALLS {
        call()?;
    }
    let end = stream.record_event(Some(CUevent_flags::CU_EVENT_DEFAULT))?;
    Ok(f64::from(start.elapsed_ms(&end)?) * 1e3 / CALLS as f64)
}

/// The largest difference of the first rows from `exact`, relative to its largest value.
fn error(result: &Tensor, exact: &Tensor) -> Result<f64> {
    let result = result.narrow(0, 0, exact.dim(0)?)?.to_device(&Device::Cpu)?.to_dtype(DType::F64)?;
    let largest = |tensor: &Tensor| tensor.abs()?.flatten_all()?.max(D::Minus1)?.to_scalar::<f64>();
    Ok(largest(&(result - exact)?)? / largest(exact)?)
}

/// The median, of values that are sorted then.
fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
