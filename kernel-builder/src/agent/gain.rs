//! How much faster something is.
//!
//! Owns: a ratio with its interval. Never: measures.

use serde::{Deserialize, Serialize};

/// A ratio with its 95% interval.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Gain {
    /// The median of paired ratios.
    pub ratio: f64,
    /// The lower end.
    pub low: f64,
    /// The upper end.
    pub high: f64,
}
