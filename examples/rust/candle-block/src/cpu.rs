//! The operations on the processor, where candle has no GPU.
//!
//! Owns: the arithmetic, in float32, rounded once. Never: is fast.

use candle_core::{CpuStorage, Layout, Result, Shape, WithDType, bail};

type Operand<'a> = (&'a CpuStorage, &'a Layout);

/// Calls `$body` with the elements of a storage as `$elements`, and keeps the result in a storage of the same dtype.
macro_rules! of_dtype {
    ($storage:expr, |$elements:ident| $body:expr) => {
        match $storage {
            CpuStorage::BF16($elements) => CpuStorage::BF16($body),
            CpuStorage::F16($elements) => CpuStorage::F16($body),
            CpuStorage::F32($elements) => CpuStorage::F32($body),
            _ => bail!("the kernels are for bf16, f16 and f32"),
        }
    };
}

/// See [`crate::ops::rms_norm`].
///
/// # Errors
/// Another dtype, or a weight of another length or dtype.
pub fn rms_norm((input, layout): Operand<'_>, weight: Operand<'_>, eps: f64) -> Result<(CpuStorage, Shape)> {
    let hidden = last(layout)?;
    if weight.1.dims() != [hidden] {
        bail!("`weight` is {:?}, and rows have {hidden} elements", weight.1.dims());
    }
    let storage = of_dtype!(input, |elements| {
        let scales = like(elements, weight.0)?;
        let weight: Vec<f64> = floats(dense(scales, weight.1)?);
        rows(dense(elements, layout)?, hidden, |row| {
            let mean = row.iter().map(|value| value * value).sum::<f64>() / hidden as f64;
            let scale = 1.0 / (mean + eps).sqrt();
            row.iter().zip(&weight).map(|(value, weight)| value * scale * weight).collect()
        })
    });
    Ok((storage, layout.shape().clone()))
}

/// See [`crate::ops::softmax`].
///
/// # Errors
/// Another dtype.
pub fn softmax((input, layout): Operand<'_>) -> Result<(CpuStorage, Shape)> {
    let hidden = last(layout)?;
    let storage = of_dtype!(input, |elements| {
        rows(dense(elements, layout)?, hidden, |row| {
            let largest = row.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            let powers: Vec<f64> = row.iter().map(|value| (value - largest).exp()).collect();
            let sum: f64 = powers.iter().sum();
            powers.into_iter().map(|power| power / sum).collect()
        })
    });
    Ok((storage, layout.shape().clone()))
}

/// See [`crate::ops::swiglu`].
///
/// # Errors
/// Another dtype, or a last axis of odd length.
pub fn swiglu((input, layout): Operand<'_>) -> Result<(CpuStorage, Shape)> {
    let (shape, hidden) = halved(layout)?;
    let storage = of_dtype!(input, |elements| {
        rows(dense(elements, layout)?, 2 * hidden, |row| {
            let (gate, up) = row.split_at(hidden);
            gate.iter().zip(up).map(|(gate, up)| gate / (1.0 + (-gate).exp()) * up).collect()
        })
    });
    Ok((storage, shape))
}

/// The length of the last axis.
///
/// # Errors
/// A tensor without axes.
pub fn last(layout: &Layout) -> Result<usize> {
    match layout.dims().last() {
        Some(length) => Ok(*length),
        None => bail!("a number has no rows"),
    }
}

/// The shape with half of the last axis, and that half.
///
/// # Errors
/// A last axis of odd length.
pub fn halved(layout: &Layout) -> Result<(Shape, usize)> {
    let both = last(layout)?;
    if both % 2 != 0 {
        bail!("the last axis has {both} elements, which are no pairs of gate and up");
    }
    let mut dims = layout.dims().to_vec();
    dims.pop();
    dims.push(both / 2);
    Ok((dims.into(), both / 2))
}

fn dense<'a, T>(elements: &'a [T], layout: &Layout) -> Result<&'a [T]> {
    match layout.contiguous_offsets() {
        Some((start, end)) => Ok(&elements[start..end]),
        None => bail!("the tensor is not contiguous"),
    }
}

/// The elements of a storage, which must have the dtype of others.
fn like<'a, T: WithDType>(_: &[T], storage: &'a CpuStorage) -> Result<&'a [T]> {
    storage.as_slice()
}

fn floats<T: WithDType>(elements: &[T]) -> Vec<f64> {
    elements.iter().map(|value| value.to_f64()).collect()
}

fn rows<T: WithDType>(elements: &[T], length: usize, of_row: impl Fn(&[f64]) -> Vec<f64>) -> Vec<T> {
    elements.chunks(length.max(1)).flat_map(|row| of_row(&floats(row))).map(T::from_f64).collect()
}
