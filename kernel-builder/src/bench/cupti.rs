//! What NVIDIA's tracer saw of calls.
//!
//! Owns: what is kept of it in records. Never: asks for it, or judges it.

use serde::{Deserialize, Serialize};

/// Everything that a GPU did for some calls.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Cupti {
    /// How many calls there were.
    pub calls: u64,
    /// Seconds in which the device did something for the process, on whichever stream.
    pub busy: f64,
    /// On how many streams.
    pub streams: u64,
    /// By name.
    pub kernels: Vec<Launched>,
    /// Why nothing was seen.
    pub reason: Option<String>,
}

/// What one kernel, copy or fill took of all calls together.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Launched {
    /// As the driver names it.
    pub name: String,
    /// How often.
    pub launches: u64,
    /// All of them together.
    pub seconds: f64,
}
