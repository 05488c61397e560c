//! Makes numbers of grids, blocks, clusters and shared memory.
//!
//! Owns: the limits that hold on every GPU, or on the largest: CUDA C++ programming guide, technical specifications per
//! compute capability.
//! Never: knows a case; the values of names are given.

use std::ops::Range;

use crate::spec::expr::{Bindings, IntExpr};
use crate::spec::launch::Kernel;

use super::error::LaunchError;

/// Blocks in x, y, z.
const GRID: [i64; 3] = [0x7fff_ffff, 65_535, 65_535];
/// Threads in x, y, z.
const BLOCK: [i64; 3] = [1024, 1024, 64];
/// Threads of a block.
const THREADS: i64 = 1024;
/// Blocks of a cluster: 8 on every GPU that has clusters, 16 on some when a kernel asks for it.
const CLUSTER: i64 = 16;
/// Bytes of shared memory that a block can have at most, on capabilities 9.0 and 10.0: 227 KiB.
const SHARED: i64 = 227 << 10;

/// The number, which must lie between the bounds; `what` names it, with its article.
pub(super) fn number(
    expr: &IntExpr,
    bindings: &Bindings,
    least: i64,
    most: i64,
    what: &str,
) -> Result<i64, LaunchError> {
    let number = expr.evaluate(bindings)?;
    if (least..=most).contains(&number) {
        return Ok(number);
    }
    let message = format!("{what} cannot be {number}");
    let help = if most == i64::MAX {
        format!("it must be at least {least}")
    } else {
        format!("it must be between {least} and {most}")
    };
    Err(LaunchError::limit(message, help, &expr.tree().span))
}

/// Blocks; a length of zero means that there is nothing to start.
pub(super) fn grid(kernel: &Kernel, bindings: &Bindings) -> Result<[u32; 3], LaunchError> {
    lengths(&kernel.grid, bindings, 0, GRID, "grid")
}

/// Threads of a block.
pub(super) fn block(kernel: &Kernel, bindings: &Bindings) -> Result<[u32; 3], LaunchError> {
    let block = lengths(&kernel.block, bindings, 1, BLOCK, "block")?;
    product(&block, THREADS, "threads per block", &kernel.block.span)?;
    Ok(block)
}

/// Blocks of a cluster, into which the grid must divide.
pub(super) fn cluster(
    kernel: &Kernel,
    grid: &[u32; 3],
    bindings: &Bindings,
) -> Result<Option<[u32; 3]>, LaunchError> {
    let Some(cluster) = &kernel.cluster else { return Ok(None) };
    let lengths = lengths(cluster, bindings, 1, [CLUSTER; 3], "cluster")?;
    product(&lengths, CLUSTER, "blocks per cluster", &cluster.span)?;
    if grid.iter().zip(&lengths).any(|(blocks, length)| !blocks.is_multiple_of(*length)) {
        let message =
            format!("a grid of {} does not divide into clusters of {}", times(grid), times(&lengths));
        let help = "the grid must be a multiple of the cluster in x, y and z, as in ceil_div(rows, 2) * 2";
        return Err(LaunchError::limit(message, help, &kernel.grid.span));
    }
    Ok(Some(lengths))
}

/// Bytes of dynamic shared memory.
pub(super) fn shared(kernel: &Kernel, bindings: &Bindings) -> Result<u32, LaunchError> {
    match &kernel.shared {
        Some(shared) => Ok(number(shared, bindings, 0, SHARED, "dynamic shared memory")? as u32),
        None => Ok(0),
    }
}

/// Percent of a multiprocessor's memory that are to be shared memory.
pub(super) fn carveout(kernel: &Kernel, bindings: &Bindings) -> Result<Option<i32>, LaunchError> {
    let percent = |expr| Ok(number(expr, bindings, -1, 100, "the carveout of shared memory")? as i32);
    kernel.carveout.as_ref().map(percent).transpose()
}

/// What is beyond a limit though it depends on no name.
pub(super) fn constant_errors(kernel: &Kernel) -> Vec<LaunchError> {
    let nothing = Bindings::default();
    let is_constant = |exprs: &[IntExpr]| exprs.iter().all(|expr| expr.tree().names().is_empty());
    let mut errors = Vec::new();
    if is_constant(&kernel.grid) {
        errors.extend(grid(kernel, &nothing).err());
    }
    if is_constant(&kernel.block) {
        errors.extend(block(kernel, &nothing).err());
    }
    if kernel.cluster.as_ref().is_some_and(|lengths| is_constant(lengths)) {
        // No blocks divide into any cluster.
        errors.extend(cluster(kernel, &[0; 3], &nothing).err());
    }
    if kernel.shared.as_ref().is_some_and(|bytes| bytes.tree().names().is_empty()) {
        errors.extend(shared(kernel, &nothing).err());
    }
    if kernel.carveout.as_ref().is_some_and(|percent| percent.tree().names().is_empty()) {
        errors.extend(carveout(kernel, &nothing).err());
    }
    errors
}

fn lengths(
    exprs: &[IntExpr],
    bindings: &Bindings,
    least: i64,
    most: [i64; 3],
    what: &str,
) -> Result<[u32; 3], LaunchError> {
    let mut lengths = [1; 3];
    for (((length, expr), most), axis) in lengths.iter_mut().zip(exprs).zip(most).zip(["x", "y", "z"]) {
        *length = number(expr, bindings, least, most, &format!("the {what} in {axis}"))? as u32;
    }
    Ok(lengths)
}

/// Holds the product against its limit.
fn product(lengths: &[u32; 3], most: i64, what: &str, span: &Range<usize>) -> Result<(), LaunchError> {
    let product: i64 = lengths.iter().map(|length| i64::from(*length)).product();
    if product <= most {
        return Ok(());
    }
    let message = format!("{} are {product} {what}", times(lengths));
    Err(LaunchError::limit(message, format!("at most {most} are allowed"), span))
}

fn times(lengths: &[u32; 3]) -> String {
    format!("{} x {} x {}", lengths[0], lengths[1], lengths[2])
}
