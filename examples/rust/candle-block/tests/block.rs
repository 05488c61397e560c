//! The operations and the block against float64, on the processor and on a GPU where there is one.

use candle_block::block::{Block, Rows, rms_norm_of_candle, softmax_of_candle, swiglu_of_candle};
use candle_block::ops;
use candle_core::{DType, Device, Result, Tensor};

/// The processor, and a GPU if candle was compiled for one and there is one.
fn devices() -> Vec<Device> {
    let mut found = vec![Device::Cpu];
    match Device::new_cuda(0) {
        Ok(device) => found.push(device),
        Err(error) => println!("no GPU is used: {error}"),
    }
    found
}

/// The largest difference from float64, relative to the largest value.
fn error(result: &Tensor, exact: &Tensor) -> Result<f64> {
    let flat = |tensor: &Tensor| {
        tensor.to_dtype(DType::F64)?.to_device(&Device::Cpu)?.flatten_all()?.to_vec1::<f64>()
    };
    let (result, exact) = (flat(result)?, flat(exact)?);
    assert_eq!(result.len(), exact.len());
    let differences = result.iter().zip(&exact).map(|(one, other)| (one - other).abs());
    let largest = exact.iter().fold(0f64, |most, value| most.max(value.abs()));
    // A NaN is larger than every limit.
    Ok(differences.fold(0f64, |most, value| if value > most || value.is_nan() { value } else { most })
        / largest)
}

/// One rounding of the largest value, and some more for sums in float32.
fn limit(dtype: DType) -> f64 {
    match dtype {
        DType::BF16 => 2f64.powi(-8),
        DType::F16 => 2f64.powi(-11),
        _ => 1e-5,
    }
}

#[test]
fn operations_are_near_float64_in_every_dtype() -> Result<()> {
    for device in devices() {
        for dtype in [DType::BF16, DType::F16, DType::F32] {
            for (rows, hidden) in [(1, 1), (3, 5), (17, 64), (5, 4097), (6, 1024)] {
                let input = Tensor::randn(0f32, 1.0, (rows, hidden), &device)?.to_dtype(dtype)?;
                let weight = Tensor::randn(1f32, 0.1, hidden, &device)?.to_dtype(dtype)?;
                let exact = |tensor: &Tensor| tensor.to_device(&Device::Cpu)?.to_dtype(DType::F64);
                let norm = ops::rms_norm(&input, &weight, 1e-6)?;
                let expected = rms_norm_of_candle(&exact(&input)?, &exact(&weight)?, 1e-6)?;
                let found = [
                    ("rms_norm", error(&norm, &expected)?),
                    ("softmax", error(&ops::softmax(&input)?, &softmax_of_candle(&exact(&input)?)?)?),
                ];
                for (op, found) in found {
                    assert!(
                        found <= limit(dtype),
                        "{op} of {rows} x {hidden} {dtype:?} on {device:?}: {found}"
                    );
                }
                let both = Tensor::randn(0f32, 1.0, (rows, 2 * hidden), &device)?.to_dtype(dtype)?;
                let found = error(&ops::swiglu(&both)?, &swiglu_of_candle(&exact(&both)?)?)?;
                assert!(
                    found <= limit(dtype),
                    "swiglu of {rows} x {hidden} {dtype:?} on {device:?}: {found}"
                );
            }
        }
    }
    Ok(())
}

#[test]
fn a_block_computes_the_same_with_either() -> Result<()> {
    for device in devices() {
        let block = Block::drawn(64, DType::F32, &device)?;
        let input = Tensor::randn(0f32, 1.0, (24, 64), &device)?;
        let exact = block.to_dtype(DType::F64)?.forward(&input.to_dtype(DType::F64)?, Rows::Candle)?;
        for rows in [Rows::Candle, Rows::Kernels] {
            let found = error(&block.forward(&input, rows)?, &exact)?;
            assert!(found <= 1e-5, "{rows:?} on {device:?}: {found}");
        }
    }
    Ok(())
}

#[test]
fn operands_that_do_not_fit_are_refused() -> Result<()> {
    for device in devices() {
        let input = Tensor::zeros((4, 8), DType::F32, &device)?;
        let short = Tensor::zeros(7, DType::F32, &device)?;
        let told = |result: Result<Tensor>| result.unwrap_err().to_string();
        let error = told(ops::rms_norm(&input, &short, 1e-6));
        assert!(error.contains("weight"), "{error}");
        let error = told(ops::swiglu(&Tensor::zeros((4, 7), DType::F32, &device)?));
        assert!(error.contains("no pairs of gate and up"), "{error}");
        let error = told(ops::softmax(&Tensor::zeros((4, 8), DType::F64, &device)?));
        assert!(error.contains("bf16, f16 and f32"), "{error}");
    }
    Ok(())
}
