//! A kernel that is loaded.
//!
//! Owns: what was allowed for it: shared memory beyond the default, the carveout, large clusters. Never: starts it.

use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};

use cudarc::driver::DriverError;
use cudarc::driver::sys::{self, CUfunction_attribute};

use crate::error::Problem;

/// A function that is loaded, with what was allowed for it.
#[derive(Debug)]
pub(crate) struct Function {
    handle: NonNull<sys::CUfunc_st>,
    /// Bytes of static shared memory.
    own_shared: i32,
    /// The most bytes of dynamic shared memory that it may be started with now.
    allowed: AtomicI32,
    /// The carveout that was set last; beyond -1 before any was.
    carveout: AtomicI32,
    large_clusters: AtomicBool,
}

// SAFETY: the driver's functions on functions may be called from any thread whose context is the function's.
unsafe impl Send for Function {}
// SAFETY: as above.
unsafe impl Sync for Function {}

impl Function {
    pub(crate) fn new(handle: sys::CUfunction) -> Result<Self, DriverError> {
        let found = NonNull::new(handle).ok_or(DriverError(sys::CUresult::CUDA_ERROR_INVALID_HANDLE))?;
        let number = |attribute| {
            let mut value = 0;
            // SAFETY: the function is loaded, and one number is written.
            unsafe { sys::cuFuncGetAttribute(&raw mut value, attribute, handle) }.result()?;
            Ok::<i32, DriverError>(value)
        };
        Ok(Self {
            handle: found,
            own_shared: number(CUfunction_attribute::CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES)?,
            allowed: number(CUfunction_attribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES)?.into(),
            carveout: AtomicI32::new(i32::MIN),
            large_clusters: AtomicBool::new(false),
        })
    }

    /// What the driver starts.
    pub(crate) fn handle(&self) -> sys::CUfunction {
        self.handle.as_ptr()
    }

    fn set(&self, attribute: CUfunction_attribute, value: i32) -> Result<(), DriverError> {
        // SAFETY: the function is loaded.
        unsafe { sys::cuFuncSetAttribute(self.handle.as_ptr(), attribute, value) }.result()
    }

    /// Allows as much dynamic shared memory as a block can have, where it needs more than it is allowed. Always that much,
    /// so that threads that start at the same time do not lower each other's limit.
    pub(crate) fn allow(&self, bytes: i64, most: i32) -> Result<(), Problem> {
        if bytes <= i64::from(self.allowed.load(Ordering::Relaxed)) {
            return Ok(());
        }
        let most = most - self.own_shared;
        within("the dynamic shared memory of a block in bytes", bytes, i64::from(most))?;
        self.set(CUfunction_attribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, most)?;
        self.allowed.store(most, Ordering::Relaxed);
        Ok(())
    }

    pub(crate) fn prefer(&self, percent: i64) -> Result<(), Problem> {
        let percent = i32::try_from(percent).ok().filter(|percent| (-1..=100).contains(percent)).ok_or(
            Problem::Limit { what: "the carveout of shared memory in percent", asked: percent, most: 100 },
        )?;
        if self.carveout.load(Ordering::Relaxed) != percent {
            self.set(CUfunction_attribute::CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT, percent)?;
            self.carveout.store(percent, Ordering::Relaxed);
        }
        Ok(())
    }

    pub(crate) fn allow_large_clusters(&self) -> Result<(), DriverError> {
        if !self.large_clusters.load(Ordering::Relaxed) {
            self.set(CUfunction_attribute::CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED, 1)?;
            self.large_clusters.store(true, Ordering::Relaxed);
        }
        Ok(())
    }
}

/// The quantity, if it is within its limit.
pub(crate) fn within(what: &'static str, asked: i64, most: i64) -> Result<u32, Problem> {
    let fits = (0..=most).contains(&asked).then(|| u32::try_from(asked).ok()).flatten();
    fits.ok_or(Problem::Limit { what, asked, most })
}
