//! The arguments of calls: how values are distributed, and what differs between two sets.
//!
//! Owns: what the harness is told of values. Pure. Never: orders calls.

use kernel_plan::spec::op::{Case, Scalar, ScalarValue};

use crate::protocol::Scalars;
use crate::protocol::verify::{Change, Distribution};

/// The arguments of one call.
#[derive(Debug, Clone, Default)]
pub(crate) struct InputSet {
    /// How the values are distributed.
    pub kind: Distribution,
    /// The set whose values this one repeats, but for one element, one scalar or one change.
    pub edit_of: Option<usize>,
    /// The input that holds the changed element.
    pub edit_input: Option<usize>,
    /// What is done to whole inputs.
    pub change: Option<Change>,
    /// The scalar that has another value than in the set of the same inputs.
    pub changed_scalar: Option<String>,
    pub scalars: Scalars,
    /// Whether PyTorch's own result in the real dtype is wanted for comparison.
    pub baseline: bool,
    /// Whether gradients at these values are wanted.
    pub gradient: bool,
    /// Whether the values are chosen to be hard, or the operation's terms cancel: then the size of terms is wanted for
    /// every row, since no row shows it.
    pub hard: bool,
}

pub(crate) fn scalars_of(case: &Case) -> Scalars {
    case.scalars.iter().map(|scalar| (scalar.name.to_string(), scalar.value)).collect()
}

/// A value that an operation must tell from `value`, and that it takes. Integers may be axes or counts, so they keep
/// theirs.
pub(crate) fn another(scalar: &Scalar, value: ScalarValue) -> Option<ScalarValue> {
    match value {
        ScalarValue::Float(value) => {
            let bound = |bound: Option<ScalarValue>| match bound {
                Some(ScalarValue::Float(bound)) => Some(bound),
                _ => None,
            };
            let (min, max) = (bound(scalar.min), bound(scalar.max));
            let takes =
                |other: &f64| min.is_none_or(|min| min <= *other) && max.is_none_or(|max| *other <= max);
            let middle = |end: Option<f64>| end.map(|end| f64::midpoint(value, end));
            [Some(value * 2.0 + 0.25), middle(max), middle(min)]
                .into_iter()
                .flatten()
                .find(|other| takes(other) && *other != value)
                .map(ScalarValue::Float)
        }
        ScalarValue::Bool(value) => Some(ScalarValue::Bool(!value)),
        ScalarValue::Int(_) => None,
    }
}
