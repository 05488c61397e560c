//! RMSNorm on a GPU, and in float64 on the processor.
//!
//! Owns: the kernels that build.rs compiled, and a reference for them. Never: chooses a GPU.

/// One function for each kernel of Cargo.toml.
pub mod kernels {
    kernelwright_runtime::include_kernels!();
}

/// The root-mean-square normalisation of every row of `hidden` elements, scaled by `weight`, in float64.
pub fn reference(input: &[f32], weight: &[f32], eps: f64) -> Vec<f64> {
    let rows = input.chunks(weight.len());
    rows.flat_map(|row| {
        let sum: f64 = row.iter().map(|value| f64::from(*value).powi(2)).sum();
        let scale = 1.0 / (sum / row.len() as f64 + eps).sqrt();
        row.iter().zip(weight).map(move |(value, weight)| f64::from(*value) * scale * f64::from(*weight))
    })
    .collect()
}
