//! RMSNorm, softmax and SwiGLU as operations of candle.
//!
//! Owns: which code each device gets. Never: allocates on a GPU (`gpu` does).

#[cfg(feature = "cuda")]
use candle_core::CudaStorage;
use candle_core::{CpuStorage, CustomOp1, CustomOp2, Layout, Result, Shape, Tensor};

use crate::cpu;
#[cfg(feature = "cuda")]
use crate::gpu;

/// The root-mean-square normalisation of the last axis, scaled by a weight.
///
/// `input` is `[..., hidden]` and `weight` `[hidden]`, both bf16, f16 or f32; the result has the shape of `input`.
///
/// # Errors
/// Other shapes or dtypes, or an error of the GPU.
pub fn rms_norm(input: &Tensor, weight: &Tensor, eps: f64) -> Result<Tensor> {
    input.contiguous()?.apply_op2_no_bwd(&weight.contiguous()?, &RmsNorm { eps })
}

/// The softmax of the last axis: `[..., hidden]` in bf16, f16 or f32.
///
/// # Errors
/// Another dtype, or an error of the GPU.
pub fn softmax(input: &Tensor) -> Result<Tensor> {
    input.contiguous()?.apply_op1_no_bwd(&Softmax)
}

/// `silu(gate) * up` of rows that have both: `[..., 2 * hidden]` in bf16, f16 or f32 gives `[..., hidden]`.
///
/// # Errors
/// A last axis of odd length, another dtype, or an error of the GPU.
pub fn swiglu(input: &Tensor) -> Result<Tensor> {
    input.contiguous()?.apply_op1_no_bwd(&Swiglu)
}

struct RmsNorm {
    eps: f64,
}

struct Softmax;

struct Swiglu;

impl CustomOp2 for RmsNorm {
    fn name(&self) -> &'static str {
        "rms_norm"
    }

    fn cpu_fwd(
        &self,
        input: &CpuStorage,
        layout: &Layout,
        weight: &CpuStorage,
        weight_layout: &Layout,
    ) -> Result<(CpuStorage, Shape)> {
        cpu::rms_norm((input, layout), (weight, weight_layout), self.eps)
    }

    #[cfg(feature = "cuda")]
    fn cuda_fwd(
        &self,
        input: &CudaStorage,
        layout: &Layout,
        weight: &CudaStorage,
        weight_layout: &Layout,
    ) -> Result<(CudaStorage, Shape)> {
        gpu::rms_norm((input, layout), (weight, weight_layout), self.eps)
    }
}

impl CustomOp1 for Softmax {
    fn name(&self) -> &'static str {
        "softmax"
    }

    fn cpu_fwd(&self, input: &CpuStorage, layout: &Layout) -> Result<(CpuStorage, Shape)> {
        cpu::softmax((input, layout))
    }

    #[cfg(feature = "cuda")]
    fn cuda_fwd(&self, input: &CudaStorage, layout: &Layout) -> Result<(CudaStorage, Shape)> {
        gpu::softmax((input, layout))
    }
}

impl CustomOp1 for Swiglu {
    fn name(&self) -> &'static str {
        "swiglu"
    }

    fn cpu_fwd(&self, input: &CpuStorage, layout: &Layout) -> Result<(CpuStorage, Shape)> {
        cpu::swiglu((input, layout))
    }

    #[cfg(feature = "cuda")]
    fn cuda_fwd(&self, input: &CudaStorage, layout: &Layout) -> Result<(CudaStorage, Shape)> {
        gpu::swiglu((input, layout))
    }
}
