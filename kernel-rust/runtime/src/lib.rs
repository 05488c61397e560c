//! Loads and starts CUDA kernels that Kernelwright compiled into a Rust program.
//!
//! A program calls functions that `kernelwright-build` generated, one for each operation. They take a stream and memory of
//! [`cudarc`], as [`Tensor`] and [`TensorMut`], and enqueue the kernels of one call. docs/rust.md of the repository is the
//! guide.
//!
//! Owns: shapes, the choice of machine code for a GPU, loaded modules, starts of kernels. Never: compiles; loads the driver
//! before a program asks for a device; lets a generated function start a kernel whose arguments were not checked.

pub mod argument;
pub mod code;
mod device;
mod element;
mod error;
mod function;
pub mod memory;
pub mod number;
pub mod start;
mod tensor;

pub use cudarc;
pub use half;

pub use code::Aligned;
pub use device::Device;
pub use element::{Dtype, Element, F8E4M3, F8E5M2};
pub use error::{Error, Problem};
pub use tensor::{MAX_RANK, Shape, Tensor, TensorMut};

/// Includes the functions that `kernelwright-build` generated for this crate.
///
/// Each operation becomes a module of its name with the function in it, and the function is re-exported beside it.
#[macro_export]
macro_rules! include_kernels {
    () => {
        include!(concat!(env!("OUT_DIR"), "/kernelwright/kernels.rs"));
    };
}
