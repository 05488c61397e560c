//! Reads build.toml (what to build) and op.toml (what the operation means).
//!
//! Owns: both languages, a span on every value that a later rule may point at, and the rules across files.
//! Never: touches a file, and never stops at the first problem.

use std::ops::{Deref, Range};

use serde::{Serialize, Serializer};

mod across_op;
mod bindings;
pub mod build;
mod cases;
pub mod codes;
mod defined;
pub(crate) mod dialect;
mod edition;
mod evaluate_launch;
pub mod expr;
pub mod flashinfer;
pub mod full_abi;
mod headers;
pub(crate) mod hipcc;
pub mod launch;
pub(crate) mod nvcc;
pub mod op;
mod parse_build;
mod parse_gradient;
mod parse_launch;
mod parse_let;
mod parse_op;
mod parse_signature;
mod parse_tune;
mod parse_workload;
mod project;
mod python_names;
pub(crate) mod read;
pub mod rules;
pub mod scan;
pub mod schema;
mod tensor_dtype;
pub mod tune;
pub mod update;
pub(crate) mod values;
mod wording;

pub(crate) use across_op::SETTINGS;
pub use build::BuildSpec;
pub use edition::{Edition, edition};
pub use evaluate_launch::LaunchError;
pub use op::OpSpec;
pub use parse_build::parse_build;
pub use parse_op::parse_op;
pub use rules::{Project, check};
pub use scan::{Sources, Unread};
pub use update::update;

/// A value and the bytes of the file that it was read from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Spanned<T> {
    /// What was read.
    pub value: T,
    /// Byte range in the file.
    pub span: Range<usize>,
}

impl<T> Spanned<T> {
    /// Joins a value and its place.
    pub const fn new(value: T, span: Range<usize>) -> Self {
        Self { value, span }
    }
}

impl<T> Deref for Spanned<T> {
    type Target = T;
    fn deref(&self) -> &T {
        &self.value
    }
}

impl<T: Serialize> Serialize for Spanned<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.value.serialize(serializer)
    }
}
