//! The arguments of calls: how values are distributed, and what differs between two sets.
//!
//! Owns: what the harness is told of values. Pure. Never: orders calls.

use kernel_plan::spec::op::{Case, Scalar, ScalarValue};
use serde::Serialize;
use serde_json::{Map, Value};

/// The arguments of one call.
#[derive(Debug, Clone, Default, Serialize)]
pub(crate) struct InputSet {
    /// How the values are distributed; see the oracle.
    pub kind: &'static str,
    /// The set whose values this one repeats, but for one element, one scalar or one change.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub edit_of: Option<usize>,
    /// The input that holds the changed element.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub edit_input: Option<usize>,
    /// What is done to whole inputs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub change: Option<Change>,
    /// The scalar that has another value than in the set of the same inputs.
    #[serde(skip)]
    pub changed_scalar: Option<String>,
    pub scalars: Map<String, Value>,
    /// Whether PyTorch's own result in the real dtype is wanted for comparison.
    pub baseline: bool,
    /// Whether gradients at these values are wanted.
    pub gradient: bool,
    /// Whether the values are chosen to be hard, or the operation's terms cancel: then the size of terms is wanted for
    /// every row, since no row shows it.
    pub hard: bool,
}

/// What is done to inputs as a whole; inputs are named by their places.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "what", rename_all = "kebab-case")]
pub(crate) enum Change {
    /// All its values are drawn anew.
    Redraw { input: usize },
    /// Along one dimension its values change places, differently in every line of that dimension.
    Shuffle { input: usize, dimension: usize },
    /// The indices of these dimensions, given as input and dimension, run backwards.
    Reverse { places: Vec<(usize, usize)> },
    /// Its values are multiplied.
    Scale { input: usize, by: f64 },
    /// Something is added to its values.
    Shift { input: usize, by: f64 },
}

pub(crate) fn scalars_of(case: &Case) -> Map<String, Value> {
    case.scalars.iter().map(|scalar| (scalar.name.to_string(), value_of(&scalar.value))).collect()
}

fn value_of(value: &ScalarValue) -> Value {
    match value {
        ScalarValue::Float(value) => Value::from(*value),
        ScalarValue::Int(value) => Value::from(*value),
        ScalarValue::Bool(value) => Value::from(*value),
    }
}

/// A value that an operation must tell from `value`, and that it takes. Integers may be axes or counts, so they keep
/// theirs.
pub(crate) fn another(scalar: &Scalar, value: ScalarValue) -> Option<Value> {
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
                .map(Value::from)
        }
        ScalarValue::Bool(value) => Some(Value::from(!value)),
        ScalarValue::Int(_) => None,
    }
}
