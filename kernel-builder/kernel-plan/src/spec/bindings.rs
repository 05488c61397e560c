//! What the names of an expression stand for in one call.
//!
//! Owns: which of axes, scalars and tunables hides which. Never: evaluates.

use super::expr::{Bindings, TensorBinding, Value};
use super::op::Case;
use super::tune::Tuning;

impl Bindings {
    /// What one case and one choice of tunables say.
    pub fn new(case: &Case, tuning: &Tuning) -> Self {
        let axes = case
            .axes
            .iter()
            .map(|(name, length)| (name.clone(), Value::Integer(i64::try_from(*length).unwrap_or(i64::MAX))));
        let scalars = case.scalars.iter().filter_map(|scalar| {
            let value = scalar.value.as_expression_value()?;
            Some((scalar.name.clone(), value))
        });
        // An axis hides a scalar of its name.
        let names = scalars.chain(axes).chain(tuning.iter().map(|(name, value)| (name.clone(), *value)));
        let tensors = case.inputs.iter().chain(&case.outputs).map(|tensor| {
            let strides = case.memory_of(tensor).strides();
            (tensor.name.clone(), TensorBinding { given: !tensor.omitted, strides })
        });
        Self { names: names.collect(), dtypes: case.dtypes.clone(), tensors: tensors.collect() }
    }
}
