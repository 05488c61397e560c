//! Why something is not measured here, though nothing is wrong with it.
//!
//! Owns: the reasons and their words. Never: decides.

use std::fmt;

use kernel_plan::spec::op::Device;

/// The reason for leaving out an artifact or a case.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SkipReason {
    /// No measurement is implemented for this backend.
    Backend(String),
    /// op.toml has no workload for the device.
    NoWorkload(Device),
    /// All contenders together need more memory than 90% of what is free.
    NoRoom {
        /// Bytes that they need.
        needs: u64,
        /// Bytes that are free.
        free: u64,
    },
    /// PyTorch cannot use the device; its own words.
    NoDevice(String),
}

impl fmt::Display for SkipReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Backend(backend) => write!(f, "this version does not measure backend `{backend}`"),
            Self::NoWorkload(device) => write!(f, "op.toml has no workload to measure on {device}"),
            Self::NoRoom { needs, free } => {
                let megabytes = |bytes: &u64| bytes / 1_000_000;
                write!(
                    f,
                    "it needs {} MB for all contenders, but only {} MB are free",
                    megabytes(needs),
                    megabytes(free)
                )
            }
            Self::NoDevice(reason) => f.write_str(reason),
        }
    }
}
