//! What can be wrong with the dump of one trial.
//!
//! Owns: these kinds, and what is known of each. Never: compares; `compare` does.

/// What is wrong with the dump of one trial.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Fault {
    /// The dump is not as long as it must be.
    Truncated { length: usize, expected: usize },
    /// A byte outside of a tensor was written.
    Guard { tensor: String, bytes_away: usize, after: bool },
    /// A byte between the elements of a tensor that is not dense was written, so far from its start.
    Gap { tensor: String, byte: usize },
    /// An input is not as it was.
    InputChanged { tensor: String, element: Element, was: f64 },
    /// An element still holds the poison, or, in an input that must be overwritten, what was there before.
    Unwritten { tensor: String, element: Element, count: usize },
    /// An element is further from the exact value than rounding explains.
    Wrong { tensor: String, element: Element, exact: f64, allowed: f64, count: usize, elements: usize },
}

/// One element of a tensor.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Element {
    /// Index per dimension.
    pub index: Vec<u64>,
    /// Its value.
    pub value: f64,
}
