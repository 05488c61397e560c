//! What all files of a project share: its names.
//!
//! Owns: them. Never: a file.

/// Whose project it is, and what is known of its reference.
#[derive(Debug, Clone)]
pub struct Project {
    /// The Python module: `fast_norm`.
    pub module: String,
    /// The operation, which is the package's function too.
    pub op: String,
    /// The person's file.
    pub file: String,
    /// The reference: a function of `reference.py`.
    pub reference: String,
    /// Whether it is an operation or its gradient.
    pub part: Part,
}

/// What a description is of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Part {
    /// An operation without a gradient.
    Alone,
    /// An operation with the gradient of another description.
    Differentiable {
        /// The inputs that have a gradient.
        inputs: Vec<String>,
        /// Inputs whose gradient is that of another one.
        same: Vec<(String, String)>,
    },
    /// The gradient of an operation.
    Gradient,
}
