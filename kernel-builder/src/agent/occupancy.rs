//! How many blocks of a kernel a multiprocessor holds, and what limits them.
//!
//! Owns: the limits of compute capabilities. Never: knows a launch or a device. Source: CUDA C++ Programming Guide,
//! "Technical Specifications per Compute Capability"; registers are given out as in its section on occupancy.

use serde::Serialize;

/// Threads of a warp.
pub(crate) const WARP: u32 = 32;
/// Bytes of shared memory that CUDA takes of each block, since 8.0.
const RESERVED: u32 = 1024;
/// Registers of a multiprocessor, since 8.0, and how many a warp is given at a time.
const REGISTERS: u32 = 64 << 10;
const REGISTER_UNIT: u32 = 256;

/// What limits the blocks of a multiprocessor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Limit {
    /// Its threads.
    Threads,
    /// Its registers.
    Registers,
    /// Its shared memory.
    SharedMemory,
    /// The number of blocks.
    Blocks,
}

/// How many blocks a multiprocessor holds at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Occupancy {
    /// Blocks.
    pub(crate) blocks: u32,
    /// Their warps, and the most that a multiprocessor holds.
    pub(crate) warps: u32,
    /// See `warps`.
    pub(crate) most_warps: u32,
    /// What there is no more of.
    pub(crate) limit: Limit,
}

/// The occupancy of blocks of so many threads, with so many bytes of shared memory for each block and registers for each
/// thread, zero where they are not known. `None` for compute capabilities that are not in the table.
pub(crate) fn estimate(
    threads: u32,
    shared: u32,
    registers: u32,
    capability: (u32, u32),
) -> Option<Occupancy> {
    let (most_threads, most_blocks, bytes) = match capability {
        (8, 0) => (2048, 32, 164 << 10),
        (8, 6) => (1536, 16, 100 << 10),
        (8, 7) => (1536, 16, 164 << 10),
        (8, 9) => (1536, 24, 100 << 10),
        (9 | 10, _) => (2048, 32, 228 << 10),
        (12, _) => (1536, 24, 100 << 10),
        _ => return None,
    };
    let warps = threads.div_ceil(WARP).max(1);
    let of_warp = (registers * WARP).next_multiple_of(REGISTER_UNIT);
    let by_registers = REGISTERS.checked_div(of_warp).map_or(u32::MAX, |found| found / warps);
    let limits = [
        (most_threads / (warps * WARP), Limit::Threads),
        (by_registers, Limit::Registers),
        (bytes / (shared + RESERVED), Limit::SharedMemory),
        (most_blocks, Limit::Blocks),
    ];
    let (blocks, limit) = limits.into_iter().min_by_key(|(blocks, _)| *blocks)?;
    Some(Occupancy { blocks, warps: blocks * warps, most_warps: most_threads / WARP, limit })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_scarcest_resource_limits() {
        let of = |threads, shared, registers, capability| {
            estimate(threads, shared, registers, capability)
                .map(|found| (found.blocks, found.warps, found.limit))
        };
        assert_eq!(of(256, 0, 32, (9, 0)), Some((8, 64, Limit::Threads)));
        assert_eq!(of(256, 0, 64, (9, 0)), Some((4, 32, Limit::Registers)));
        assert_eq!(of(256, 100 << 10, 32, (9, 0)), Some((2, 16, Limit::SharedMemory)));
        assert_eq!(of(32, 0, 16, (9, 0)), Some((32, 32, Limit::Blocks)));
        // 33 registers of 32 threads are five units of 256.
        assert_eq!(of(1024, 0, 33, (8, 0)), Some((1, 32, Limit::Registers)));
        assert_eq!(of(1024, 0, 255, (8, 0)), Some((0, 0, Limit::Registers)), "it cannot be started");
        assert_eq!(of(256, 0, 0, (8, 6)).map(|found| found.0), Some(6));
        assert_eq!(of(256, 0, 0, (7, 0)), None);
    }
}
