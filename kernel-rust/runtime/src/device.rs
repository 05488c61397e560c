//! A GPU, opened without a panic where there is no driver.
//!
//! Owns: the question whether there is a driver. Never: chooses a GPU.

use std::sync::Arc;

use cudarc::driver::{CudaContext, CudaStream};

use crate::error::Error;

/// Files of the driver, as loaders know them.
const DRIVERS: &[&str] =
    if cfg!(windows) { &["nvcuda.dll"] } else { &["libcuda.so.1", "libcuda.so", "libcuda.dylib"] };

/// A GPU with its primary context, which libraries of CUDA share.
#[derive(Debug, Clone)]
pub struct Device {
    context: Arc<CudaContext>,
}

impl Device {
    /// Opens the GPU of this number, counted from 0 as `CUDA_VISIBLE_DEVICES` leaves them.
    ///
    /// # Errors
    /// [`Error::NoDriver`] if there is no driver, [`Error::Driver`] if there is no such GPU.
    pub fn new(number: usize) -> Result<Self, Error> {
        // SAFETY: initialising NVIDIA's driver has no precondition; cudarc loads the same library.
        let present = DRIVERS.iter().any(|name| unsafe { libloading::Library::new(*name) }.is_ok());
        if !present {
            return Err(Error::NoDriver { names: DRIVERS.join(", ") });
        }
        Ok(Self { context: CudaContext::new(number)? })
    }

    /// The context of cudarc.
    #[must_use]
    pub fn context(&self) -> &Arc<CudaContext> {
        &self.context
    }

    /// A new stream.
    ///
    /// # Errors
    /// The driver's.
    pub fn stream(&self) -> Result<Arc<CudaStream>, Error> {
        Ok(self.context.new_stream()?)
    }
}

impl From<Arc<CudaContext>> for Device {
    fn from(context: Arc<CudaContext>) -> Self {
        Self { context }
    }
}
