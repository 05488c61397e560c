//! A transformer block in candle, with its row operations by candle or by kernels that build.rs compiled.
//!
//! Owns: the block, the operations as candle's `CustomOp`s. Never: chooses a device.

pub mod block;
pub mod cpu;
#[cfg(feature = "cuda")]
mod gpu;
pub mod ops;

/// One function for each kernel of Cargo.toml.
pub mod kernels {
    kernelwright_runtime::include_kernels!();
}
