//! Starts of kernels.
//!
//! Owns: the limits of a start, launch attributes. Never: computes a geometry, waits.

use std::ffi::c_void;

use cudarc::driver::{CudaStream, sys};

use crate::code::{FunctionError, Kernels, Loaded};
use crate::error::{Error, Problem};
use crate::function::within;

/// Blocks of a cluster that every GPU with clusters has; more must be allowed for a function.
const PORTABLE_CLUSTER: i64 = 8;

/// How a kernel is started; every list is x, y, z.
#[derive(Debug, Clone, Copy)]
pub struct Geometry {
    /// Blocks; nothing is started if one of them is zero.
    pub grid: [i64; 3],
    /// Threads of a block.
    pub block: [i64; 3],
    /// Blocks of a cluster.
    pub cluster: Option<[i64; 3]>,
    /// Bytes of dynamic shared memory.
    pub shared: i64,
    /// Percent of a multiprocessor's memory that are to be shared memory; -1: the driver chooses.
    pub carveout: Option<i64>,
    /// Whether all blocks run at once.
    pub cooperative: bool,
}

/// One start in generated code: which kernel, and of which instance.
#[derive(Debug, Clone, Copy)]
pub struct Kernel<'a> {
    /// Its name in messages.
    pub entry: &'static str,
    /// The place of the set of macros.
    pub space: usize,
    /// Its place among the kernels of op.toml.
    pub place: usize,
    /// Dtypes, then template arguments.
    pub key: &'a [i64],
}

/// Blocks and threads as the driver takes them; `None` for a grid without blocks.
type Checked = Option<([u32; 3], [u32; 3], Option<[u32; 3]>, u32)>;

impl Geometry {
    /// The numbers, within the limits that every GPU has (CUDA C++ programming guide, technical specifications).
    fn checked(&self) -> Result<Checked, Problem> {
        let threads =
            self.block.iter().try_fold(1i64, |all, length| all.checked_mul(*length)).unwrap_or(i64::MAX);
        let grid = [
            within("the number of blocks in x", self.grid[0], i64::from(i32::MAX))?,
            within("the number of blocks in y", self.grid[1], 0xffff)?,
            within("the number of blocks in z", self.grid[2], 0xffff)?,
        ];
        if grid.contains(&0) {
            return Ok(None);
        }
        let block = [
            within("the number of threads in x", self.block[0], 1024)?,
            within("the number of threads in y", self.block[1], 1024)?,
            within("the number of threads in z", self.block[2], 64)?,
        ];
        within("the number of threads in a block", threads, 1024)?;
        let cluster = match self.cluster {
            None => None,
            Some([x, y, z]) => {
                let what = "the number of blocks in a cluster";
                let blocks = [x, y, z].iter().try_fold(1i64, |all, length| all.checked_mul(*length));
                within(what, blocks.unwrap_or(i64::MAX), 16)?;
                Some([within(what, x, 16)?, within(what, y, 16)?, within(what, z, 16)?])
            }
        };
        let shared =
            within("the dynamic shared memory of a block in bytes", self.shared, i64::from(i32::MAX))?;
        Ok(Some((grid, block, cluster, shared)))
    }
}

/// A 32-bit argument of a kernel.
///
/// # Errors
/// The value has no room in 32 bits.
pub fn narrow(argument: &'static str, value: i64) -> Result<i32, Problem> {
    i32::try_from(value).map_err(|_| Problem::Limit {
        what: argument,
        asked: value,
        most: i64::from(i32::MAX),
    })
}

/// Enqueues one kernel.
///
/// # Safety
/// `arguments` are the addresses of values that the function takes, in order, and the memory behind the pointers among them
/// is what the kernel expects of this call until the stream has passed it.
///
/// # Errors
/// A limit, a missing instance, or the driver.
pub unsafe fn kernel(
    kernels: &Kernels,
    loaded: &'static Loaded,
    stream: &CudaStream,
    kernel: Kernel<'_>,
    geometry: Geometry,
    arguments: &mut [*mut c_void],
) -> Result<(), StartError> {
    let Some((grid, block, cluster, shared)) = geometry.checked()? else { return Ok(()) };
    let function = kernels.function(loaded, kernel.space, kernel.place, kernel.key)?;
    function.allow(i64::from(shared), loaded.shared())?;
    if let Some(percent) = geometry.carveout {
        function.prefer(percent)?;
    }
    // SAFETY: the driver's structure holds numbers alone, for which zeros are values.
    let mut attributes: [sys::CUlaunchAttribute; 2] = unsafe { std::mem::zeroed() };
    let mut count = 0;
    if let Some([x, y, z]) = cluster {
        if i64::from(x) * i64::from(y) * i64::from(z) > PORTABLE_CLUSTER {
            function.allow_large_clusters()?;
        }
        attributes[count].id = sys::CUlaunchAttributeID::CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION;
        attributes[count].value.clusterDim.x = x;
        attributes[count].value.clusterDim.y = y;
        attributes[count].value.clusterDim.z = z;
        count += 1;
    }
    if geometry.cooperative {
        attributes[count].id = sys::CUlaunchAttributeID::CU_LAUNCH_ATTRIBUTE_COOPERATIVE;
        attributes[count].value.cooperative = 1;
        count += 1;
    }
    let config = sys::CUlaunchConfig {
        gridDimX: grid[0],
        gridDimY: grid[1],
        gridDimZ: grid[2],
        blockDimX: block[0],
        blockDimY: block[1],
        blockDimZ: block[2],
        sharedMemBytes: shared,
        hStream: stream.cu_stream(),
        attrs: attributes.as_mut_ptr(),
        numAttrs: count as u32,
    };
    // SAFETY: the function is loaded, the attributes outlive the call, and the caller answers for the arguments.
    let started = unsafe {
        sys::cuLaunchKernelEx(
            &raw const config,
            function.handle(),
            arguments.as_mut_ptr(),
            std::ptr::null_mut(),
        )
    };
    Ok(started.result()?)
}

/// Why a step of a call failed: code that is not loaded, or a problem of the step.
#[derive(Debug)]
pub enum StartError {
    /// The code is not loaded.
    Load(Error),
    /// The step.
    Problem(Problem),
}

impl<E: Into<Problem>> From<E> for StartError {
    fn from(problem: E) -> Self {
        Self::Problem(problem.into())
    }
}

impl From<FunctionError> for StartError {
    fn from(error: FunctionError) -> Self {
        match error {
            FunctionError::Load(error) => Self::Load(error),
            FunctionError::Problem(problem) => Self::Problem(problem),
        }
    }
}

impl Kernels {
    /// The error of a call whose step failed, with the lengths of the call: `rows = 3, hidden = 4096`.
    #[must_use]
    pub fn failed(&self, error: StartError, step: &'static str, lengths: String) -> Error {
        match error {
            StartError::Load(error) => error,
            StartError::Problem(problem) => Error::Start { op: self.op(), step, problem, lengths },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FINE: Geometry = Geometry {
        grid: [7, 1, 1],
        block: [256, 1, 1],
        cluster: None,
        shared: 0,
        carveout: None,
        cooperative: false,
    };

    #[track_caller]
    fn limit(geometry: Geometry, message: &str) {
        assert_eq!(geometry.checked().unwrap_err().to_string(), message);
    }

    #[test]
    fn a_geometry_is_within_the_limits_of_every_gpu() {
        assert_eq!(FINE.checked().unwrap(), Some(([7, 1, 1], [256, 1, 1], None, 0)));
        assert_eq!(Geometry { grid: [7, 0, 1], ..FINE }.checked().unwrap(), None);
        limit(
            Geometry { grid: [1, 65536, 1], ..FINE },
            "the number of blocks in y is 65536, and the limit is 65535",
        );
        limit(
            Geometry { grid: [-1, 1, 1], ..FINE },
            "the number of blocks in x is -1, and the limit is 2147483647",
        );
        limit(
            Geometry { block: [64, 32, 1], ..FINE },
            "the number of threads in a block is 2048, and the limit is 1024",
        );
        limit(
            Geometry { cluster: Some([8, 4, 1]), ..FINE },
            "the number of blocks in a cluster is 32, and the limit is 16",
        );
        limit(
            Geometry { shared: 1 << 31, ..FINE },
            "the dynamic shared memory of a block in bytes is 2147483648, and the limit is 2147483647",
        );
    }

    #[test]
    fn a_narrow_argument_says_its_name() {
        assert_eq!(narrow("`rows`", 7).unwrap(), 7);
        let message = narrow("`rows`, which the kernel takes as 32 bits,", 1 << 31).unwrap_err().to_string();
        assert_eq!(
            message,
            "`rows`, which the kernel takes as 32 bits, is 2147483648, and the limit is 2147483647"
        );
    }
}
