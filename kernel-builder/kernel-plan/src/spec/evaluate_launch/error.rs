//! Why a launch has no numbers.
//!
//! Owns: this error. Never: knows a limit.

use std::ops::Range;

use crate::spec::expr::ExprError;

/// A launch that has no numbers, or numbers that CUDA does not take.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LaunchError {
    /// An expression without a value.
    #[error(transparent)]
    Expression(#[from] ExprError),
    /// A number beyond a limit.
    #[error("{message}")]
    Limit {
        /// Lower-case fragment, no full stop.
        message: String,
        /// What to do about it.
        help: String,
        /// The place in the file.
        span: Range<usize>,
    },
}

impl LaunchError {
    /// The place in op.toml.
    pub fn span(&self) -> Range<usize> {
        match self {
            Self::Expression(error) => error.span.clone(),
            Self::Limit { span, .. } => span.clone(),
        }
    }

    pub(super) fn limit(message: String, help: impl Into<String>, span: &Range<usize>) -> Self {
        Self::Limit { message, help: help.into(), span: span.clone() }
    }
}
