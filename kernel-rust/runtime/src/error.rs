//! Why a call was not enqueued.
//!
//! Owns: the words. Never: decides.

use cudarc::driver::DriverError;
use thiserror::Error;

use crate::number::Overflow;

/// A tensor that cannot be described, or a call that was not enqueued.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum Error {
    /// Too many dimensions.
    #[error("a tensor has at most {most} dimensions, not {rank}")]
    Rank {
        /// Dimensions of the tensor.
        rank: usize,
        /// The most that there may be.
        most: usize,
    },
    /// More elements than 63 bits count.
    #[error("a shape has more elements than memory can hold")]
    Huge,
    /// Not one stride for each dimension.
    #[error("a tensor of shape {shape} needs one stride for each dimension, not {strides}")]
    Strides {
        /// The shape.
        shape: String,
        /// The number of strides.
        strides: usize,
    },
    /// Memory that is shorter than the shape.
    #[error("a tensor of shape {shape} needs {needed} elements, but its memory has {len}")]
    Short {
        /// The shape.
        shape: String,
        /// Elements up to the last one.
        needed: i64,
        /// Elements of the memory.
        len: usize,
    },
    /// An argument that the operation does not take.
    #[error("{op}: {argument} {problem}")]
    Argument {
        /// The operation.
        op: &'static str,
        /// The tensor or scalar.
        argument: &'static str,
        /// What is wrong, and what the operation takes.
        problem: String,
    },
    /// A condition of op.toml on all calls.
    #[error("{op}: `{condition}` of op.toml does not hold for {lengths}")]
    Constraint {
        /// The operation.
        op: &'static str,
        /// The condition.
        condition: &'static str,
        /// The lengths of the call.
        lengths: String,
    },
    /// The program was built without machine code.
    #[error(
        "{op}: this program was built without kernels (KERNELWRIGHT_STUBS or DOCS_RS was set); build it again without that \
         variable"
    )]
    Stub {
        /// The operation.
        op: &'static str,
    },
    /// No machine code for this GPU.
    #[error(
        "{op}: no code for compute capability {capability}: this program has code for {present}; add {capability} to `archs` in \
         [package.metadata.kernelwright] of Cargo.toml"
    )]
    NoCode {
        /// The operation.
        op: &'static str,
        /// Of the GPU: `12.0`.
        capability: String,
        /// What the program has: `8.0, 9.0a, 9.0+PTX`.
        present: String,
    },
    /// The driver does not take the machine code.
    #[error("{op}: failed to load the code for {target}: {}{}", driver_text(*cause), advice(*cause, *driver))]
    Load {
        /// The operation.
        op: &'static str,
        /// The machine code: `9.0a`.
        target: String,
        /// The newest CUDA that the driver knows, as the driver says it: 12090.
        driver: i32,
        /// The driver's error.
        cause: DriverError,
    },
    /// A kernel or a step around it.
    #[error("{op}: {step} could not be started: {problem}{}", of_lengths(lengths))]
    Start {
        /// The operation.
        op: &'static str,
        /// The kernel, or the step.
        step: &'static str,
        /// The cause.
        problem: Problem,
        /// The lengths of the call.
        lengths: String,
    },
    /// No driver on this machine.
    #[error(
        "no CUDA driver was found ({names}); install the driver of the NVIDIA GPU, or check `nvidia-smi`"
    )]
    NoDriver {
        /// The files that were looked for.
        names: String,
    },
    /// The driver, outside of a call.
    #[error("the CUDA driver failed: {}", driver_text(*.0))]
    Driver(DriverError),
}

impl From<DriverError> for Error {
    fn from(error: DriverError) -> Self {
        Self::Driver(error)
    }
}

/// Why a kernel could not be started.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum Problem {
    /// An expression of `[launch]` without a value.
    #[error("an expression of [launch] in op.toml overflows or divides by zero")]
    Overflow,
    /// A quantity beyond a limit.
    #[error("{what} is {asked}, and the limit is {most}")]
    Limit {
        /// The quantity.
        what: &'static str,
        /// What the call needs.
        asked: i64,
        /// What is possible.
        most: i64,
    },
    /// No instance was compiled for the template arguments of this call.
    #[error(
        "no instance was compiled for its template arguments {key:?}; report the lengths to the kernel's author"
    )]
    NoInstance {
        /// The dtypes and template arguments.
        key: Vec<i64>,
    },
    /// The driver.
    #[error("{}", driver_text(*.0))]
    Driver(DriverError),
}

impl From<DriverError> for Problem {
    fn from(error: DriverError) -> Self {
        Self::Driver(error)
    }
}

impl From<Overflow> for Problem {
    fn from(_: Overflow) -> Self {
        Self::Overflow
    }
}

/// The driver's name of an error: `CUDA_ERROR_INVALID_VALUE`. Its sentence would need a loaded driver.
fn driver_text(error: DriverError) -> String {
    format!("{:?}", error.0)
}

/// What to do about machine code that an old driver does not take.
fn advice(error: DriverError, driver: i32) -> String {
    use cudarc::driver::sys::CUresult;
    let known = format!("{}.{}", driver / 1000, driver % 1000 / 10);
    match error.0 {
        CUresult::CUDA_ERROR_UNSUPPORTED_PTX_VERSION
        | CUresult::CUDA_ERROR_INVALID_IMAGE
        | CUresult::CUDA_ERROR_NO_BINARY_FOR_GPU => format!(
            "; the driver knows CUDA up to {known}: update it, or compile with the compiler of an older CUDA"
        ),
        _ => String::new(),
    }
}

fn of_lengths(lengths: &str) -> String {
    if lengths.is_empty() { String::new() } else { format!(" ({lengths})") }
}
