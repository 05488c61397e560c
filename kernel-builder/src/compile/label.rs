//! For whom a command runs.
//!
//! Owns: this type. Never: runs a command.

/// For whom a command runs.
#[derive(Debug, Clone, Copy)]
pub struct Label<'a> {
    /// The variant.
    pub variant: &'a str,
    /// The source, or `link`.
    pub unit: &'a str,
    /// The part of the work, e.g. `compile`, `cicc sm_90a`.
    pub step: &'a str,
}
