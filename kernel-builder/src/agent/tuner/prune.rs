//! Settings that need not be compiled: they break a constraint, have no launch, or do not fit the device.
//!
//! Owns: what is known of a setting from `[launch]` and the device alone. Never: leaves out what only might be slow.
//!
//! Registers are known after compiling; occupancy is estimated from threads and shared memory, so it is an upper bound.
//! What is left out for it could not be started (a cooperative grid that is not resident at once), or keeps a scheduler of
//! every multiprocessor idle though there are blocks enough.

use kernel_plan::spec::OpSpec;
use kernel_plan::spec::expr::Bindings;
use kernel_plan::spec::launch::KernelLaunch;
use kernel_plan::spec::op::Case;
use kernel_plan::spec::tune::Tuning;

use crate::agent::occupancy::{self, Occupancy, WARP};

/// Schedulers of a multiprocessor, since 7.0 (CUDA C++ Programming Guide, "Compute Capabilities").
const SCHEDULERS: u32 = 4;

/// What of a device bounds a launch.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Device {
    /// Compute capability.
    pub capability: (u32, u32),
    /// Multiprocessors.
    pub multiprocessors: u32,
    /// Threads that a block can have.
    pub threads: u32,
    /// Bytes of shared memory that a block can have.
    pub shared: u32,
}

/// Why a setting is left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Reason {
    /// A constraint of `[tune]` does not hold.
    Constraint,
    /// `[launch]` has no numbers for it, or numbers that CUDA does not take.
    Launch,
    /// More threads than a block can have.
    Threads,
    /// More shared memory than a block can have.
    Shared,
    /// All blocks must run at once and cannot.
    Cooperative,
    /// Schedulers stay idle.
    Occupancy,
}

impl Reason {
    /// In words, after a count.
    pub(crate) fn words(self) -> &'static str {
        match self {
            Self::Constraint => "break a constraint of [tune]",
            Self::Launch => "have no launch",
            Self::Threads => "have too many threads",
            Self::Shared => "need more shared memory than a block can have",
            Self::Cooperative => "cannot run all blocks at once",
            Self::Occupancy => "leave schedulers idle",
        }
    }
}

/// Why a setting is left out, with what exactly is wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PruneReason {
    /// The kind.
    pub reason: Reason,
    /// The numbers.
    pub text: String,
}

/// Whether a setting can run a case on a device, as far as that is known without its machine code.
pub(crate) fn admit(op: &OpSpec, case: &Case, device: &Device, tuning: &Tuning) -> Result<(), PruneReason> {
    let pruned = |reason, text: String| Err(PruneReason { reason, text });
    match op.tune.admits(&Bindings::new(case, tuning)) {
        Ok(true) => {}
        Ok(false) => return pruned(Reason::Constraint, "a constraint does not hold".to_owned()),
        Err(error) => return pruned(Reason::Constraint, error.to_string()),
    }
    let Some(launch) = &op.launch else { return Ok(()) };
    match launch.evaluate(case, tuning) {
        Ok(launch) => launch.kernels.iter().try_for_each(|kernel| fits(kernel, device)),
        Err(error) => pruned(Reason::Launch, error.to_string()),
    }
}

/// Whether one kernel can be started on a device.
fn fits(kernel: &KernelLaunch, device: &Device) -> Result<(), PruneReason> {
    let pruned =
        |reason, text: String| Err(PruneReason { reason, text: format!("`{}`: {text}", kernel.entry) });
    let threads: u32 = kernel.block.iter().product();
    let blocks: u64 = kernel.grid.iter().map(|length| u64::from(*length)).product();
    if threads > device.threads {
        return pruned(Reason::Threads, format!("{threads} threads of at most {}", device.threads));
    }
    if kernel.shared > device.shared {
        return pruned(Reason::Shared, format!("{} bytes of at most {}", kernel.shared, device.shared));
    }
    let Some(Occupancy { blocks: resident, .. }) =
        occupancy::estimate(threads, kernel.shared, 0, device.capability)
    else {
        return Ok(());
    };
    let at_once = u64::from(resident) * u64::from(device.multiprocessors);
    if kernel.cooperative && blocks > at_once {
        return pruned(Reason::Cooperative, format!("{blocks} blocks, but at most {at_once} run at once"));
    }
    let warps = resident * threads.div_ceil(WARP);
    if warps < SCHEDULERS && blocks >= u64::from((resident + 1) * device.multiprocessors) {
        let text = format!("{warps} warps on a multiprocessor with {SCHEDULERS} schedulers");
        return pruned(Reason::Occupancy, text);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use kernel_plan::diagnostic::SourceFile;
    use kernel_plan::spec::expr::Value;
    use kernel_plan::spec::op::{Device as Kind, Purpose};

    use kernel_plan::spec::tune::Count;

    use super::super::space::Space;
    use super::*;

    const H200: Device = Device { capability: (9, 0), multiprocessors: 132, threads: 1024, shared: 232_448 };

    fn matmul() -> (OpSpec, Case) {
        let text = include_str!("../../../../examples/matmul-device/op.toml");
        let (op, problems) = kernel_plan::spec::parse_op(SourceFile::new("op.toml", text));
        assert!(problems.is_empty(), "{problems:?}");
        let op = op.unwrap();
        let case = op.cases(Purpose::Bench, Kind::Cuda).remove(0);
        (op, case)
    }

    fn tuning(op: &OpSpec, changes: &[(&str, i64)]) -> Tuning {
        let mut tuning = op.tune.default_tuning();
        for (name, value) in changes {
            tuning.insert(name.parse().unwrap(), Value::Integer(*value));
        }
        tuning
    }

    #[test]
    fn settings_are_left_out_for_what_they_are() {
        let (op, case) = matmul();
        let found = |changes: &[(&str, i64)], device: &Device| {
            admit(&op, &case, device, &tuning(&op, changes)).map_err(|pruned| pruned.reason)
        };
        assert_eq!(found(&[], &H200), Ok(()));
        assert_eq!(found(&[("tile_m", 256), ("tile_n", 256)], &H200), Err(Reason::Constraint));
        // 4 * 256 * 32 * 2 = 65536 bytes: for a device that has half as much.
        let small = Device { shared: 48 << 10, ..H200 };
        assert_eq!(found(&[], &small), Err(Reason::Shared));
        assert_eq!(found(&[], &Device { threads: 64, ..H200 }), Err(Reason::Threads));
    }

    #[test]
    fn a_launch_without_numbers_is_a_reason() {
        let (mut op, case) = matmul();
        let text = op
            .file
            .text
            .replace("block = [\"warps_m * warps_n * 32\"]", "block = [\"warps_m / (warps_n - 2)\"]");
        op = kernel_plan::spec::parse_op(SourceFile::new("op.toml", text)).0.unwrap();
        let pruned = admit(&op, &case, &H200, &tuning(&op, &[])).unwrap_err();
        assert_eq!(pruned.reason, Reason::Launch);
        assert!(pruned.text.contains("zero"), "{pruned:?}");
    }

    #[test]
    fn constraints_leave_out_what_they_count() {
        let (op, case) = matmul();
        let admit = Box::new(|tuning: &Tuning| admit(&op, &case, &H200, tuning));
        let space = Space::new(&op.tune.tunables, admit);
        let by = |reason| space.pruned().get(&reason).map_or(0, |(count, _)| *count);
        let raw = space.raw().unwrap();
        let counted = op.tune.count(&Bindings::new(&case, &Tuning::new()), 1 << 20, 1 << 20);
        assert_eq!(counted, Count::Exactly((raw - by(Reason::Constraint)) as u64));
        // Of what the constraints let pass, an H200 has room for all; two warps in nearly all shared memory are too few.
        let pruned: Vec<Reason> = space.pruned().keys().copied().collect();
        assert_eq!(pruned, [Reason::Constraint, Reason::Occupancy]);
        assert_eq!(space.count(), Some(raw - by(Reason::Constraint) - by(Reason::Occupancy)));
        assert!(by(Reason::Occupancy) * 20 < space.count().unwrap());
        let half = Device { shared: 99 << 10, capability: (8, 6), ..H200 };
        let fewer = Space::new(&op.tune.tunables, Box::new(|tuning| super::admit(&op, &case, &half, tuning)));
        assert!(fewer.pruned()[&Reason::Shared].0 > 0 && fewer.count() < space.count());
    }

    fn kernel(grid: u32, block: u32, shared: u32, cooperative: bool) -> KernelLaunch {
        KernelLaunch {
            place: 0,
            entry: "k".to_owned(),
            template: vec![],
            grid: [grid, 1, 1],
            block: [block, 1, 1],
            cluster: None,
            shared,
            carveout: None,
            cooperative,
            arguments: vec![],
        }
    }

    #[test]
    fn occupancy_is_an_upper_bound() {
        let resident = |threads, shared, capability| {
            occupancy::estimate(threads, shared, 0, capability).map(|found| found.blocks)
        };
        assert_eq!(resident(256, 0, (9, 0)), Some(8));
        assert_eq!(resident(33, 0, (9, 0)), Some(32));
        assert_eq!(resident(32, 100 << 10, (9, 0)), Some(2));
        assert_eq!(resident(1024, 0, (8, 6)), Some(1));
        assert_eq!(resident(32, 0, (5, 0)), None);
        let reason = |kernel: KernelLaunch| fits(&kernel, &H200).err().map(|pruned| pruned.reason);
        assert_eq!(reason(kernel(132 * 8, 256, 0, true)), None);
        assert_eq!(reason(kernel(132 * 8 + 1, 256, 0, true)), Some(Reason::Cooperative));
        assert_eq!(reason(kernel(132 * 8 + 1, 256, 0, false)), None);
        // One warp with nearly all shared memory, in more blocks than fit: three schedulers of four have nothing to do.
        assert_eq!(reason(kernel(1000, 32, 200 << 10, false)), Some(Reason::Occupancy));
        assert_eq!(reason(kernel(100, 32, 200 << 10, false)), None, "there are no more blocks");
        assert_eq!(reason(kernel(1000, 128, 200 << 10, false)), None);
    }
}
