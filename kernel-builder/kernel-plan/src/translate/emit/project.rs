//! What all files of a project share: its names, and lengths over the axes of the operation.
//!
//! Owns: their spelling. Never: a file.

use super::super::length::Length;
use super::super::program::Program;

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
}

/// A length over the axes of the operation, as an expression.
pub(super) fn over_axes(program: &Program, length: &Length) -> String {
    let symbols = &program.symbols;
    let text = |name: &str| {
        let symbol = symbols.iter().find(|symbol| symbol.name == name)?;
        Some(Length::symbol(symbol.over_axes()))
    };
    length.replaced(&text).to_string()
}
