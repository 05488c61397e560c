//! A transformer block of one head: attention and a gated perceptron, each after a norm and with a residual connection.
//!
//! Owns: the block, with a choice of its row operations. Never: loads weights; they are drawn.

use candle_core::{D, DType, Device, Result, Tensor};

use crate::ops;

/// Who computes RMSNorm, softmax and SwiGLU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rows {
    /// candle.
    Candle,
    /// The kernels of this crate.
    Kernels,
}

/// The weights of a block.
#[derive(Debug)]
pub struct Block {
    norms: [Tensor; 2],
    /// Query, key and value side by side.
    attention: Tensor,
    out: Tensor,
    /// Gate and up side by side.
    gate_up: Tensor,
    down: Tensor,
    eps: f64,
}

impl Block {
    /// A block of `hidden` channels with weights from candle's generator for the device.
    ///
    /// # Errors
    /// The device's.
    pub fn drawn(hidden: usize, dtype: DType, device: &Device) -> Result<Self> {
        let matrix = |columns: usize, rows: usize| {
            let deviation = 1.0 / (rows as f32).sqrt();
            Tensor::randn(0f32, deviation, (rows, columns), device)?.to_dtype(dtype)
        };
        let norm = || Tensor::randn(1f32, 0.1, hidden, device)?.to_dtype(dtype);
        Ok(Self {
            norms: [norm()?, norm()?],
            attention: matrix(3 * hidden, hidden)?,
            out: matrix(hidden, hidden)?,
            gate_up: matrix(8 * hidden, hidden)?,
            down: matrix(hidden, 4 * hidden)?,
            eps: 1e-6,
        })
    }

    /// The same weights in another dtype.
    ///
    /// # Errors
    /// The device's.
    pub fn to_dtype(&self, dtype: DType) -> Result<Self> {
        let [first, second] = &self.norms;
        Ok(Self {
            norms: [first.to_dtype(dtype)?, second.to_dtype(dtype)?],
            attention: self.attention.to_dtype(dtype)?,
            out: self.out.to_dtype(dtype)?,
            gate_up: self.gate_up.to_dtype(dtype)?,
            down: self.down.to_dtype(dtype)?,
            eps: self.eps,
        })
    }

    /// The block's result for `input`, `[tokens, hidden]`: a tensor of the same shape.
    ///
    /// # Errors
    /// Another shape, or an error of the device.
    pub fn forward(&self, input: &Tensor, rows: Rows) -> Result<Tensor> {
        let hidden = input.dim(D::Minus1)?;
        let mixed = self.norm(input, 0, rows)?.matmul(&self.attention)?;
        let part = |place: usize| mixed.narrow(1, place * hidden, hidden)?.contiguous();
        let scores = (part(0)?.matmul(&part(1)?.t()?)? / (hidden as f64).sqrt())?;
        let weights = match rows {
            Rows::Candle => softmax_of_candle(&scores)?,
            Rows::Kernels => ops::softmax(&scores)?,
        };
        let after = (input + weights.matmul(&part(2)?)?.matmul(&self.out)?)?;
        let both = self.norm(&after, 1, rows)?.matmul(&self.gate_up)?;
        let gated = match rows {
            Rows::Candle => swiglu_of_candle(&both)?,
            Rows::Kernels => ops::swiglu(&both)?,
        };
        &after + gated.matmul(&self.down)?
    }

    fn norm(&self, input: &Tensor, place: usize, rows: Rows) -> Result<Tensor> {
        match rows {
            Rows::Candle => rms_norm_of_candle(input, &self.norms[place], self.eps),
            Rows::Kernels => ops::rms_norm(input, &self.norms[place], self.eps),
        }
    }
}

/// candle's own RMSNorm; of f64, which it does not have, its definition.
///
/// # Errors
/// The device's.
pub fn rms_norm_of_candle(input: &Tensor, weight: &Tensor, eps: f64) -> Result<Tensor> {
    if input.dtype() == DType::F64 {
        let mean = input.sqr()?.mean_keepdim(D::Minus1)?;
        return input.broadcast_div(&(mean + eps)?.sqrt()?)?.broadcast_mul(weight);
    }
    candle_nn::ops::rms_norm(input, weight, eps as f32)
}

/// candle's own softmax of the last axis.
///
/// # Errors
/// The device's.
pub fn softmax_of_candle(input: &Tensor) -> Result<Tensor> {
    if input.dtype() == DType::F64 {
        return candle_nn::ops::softmax(input, D::Minus1);
    }
    candle_nn::ops::softmax_last_dim(input)
}

/// candle's own SwiGLU of gate and up side by side.
///
/// # Errors
/// The device's.
pub fn swiglu_of_candle(both: &Tensor) -> Result<Tensor> {
    candle_nn::ops::swiglu(both)
}
