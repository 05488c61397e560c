//! The names that sections of op.toml define, for the sections after them.
//!
//! Owns: what expressions of a section may name. Never: reads a section.

use std::sync::Arc;

use super::expr::{Definition, Kind, Scope, ScopeTensor, Type};
use super::op::{Axis, Input, Output, Scalar, ScalarValue, TypeVariable};
use super::read::Table;
use super::tune::Tunable;

/// What later sections may refer to. Names count as defined even where their definition has a problem, so that
/// one mistake is reported once.
pub(crate) struct Defined<'a> {
    pub(crate) axes: &'a [Axis],
    pub(crate) axis_names: Vec<String>,
    pub(crate) dtypes: &'a [TypeVariable],
    pub(crate) dtype_names: Vec<String>,
    pub(crate) inputs: &'a [Input],
    pub(crate) input_names: Vec<String>,
    pub(crate) outputs: &'a [Output],
    pub(crate) output_names: Vec<String>,
    pub(crate) scalars: &'a [Scalar],
    pub(crate) scalar_names: Vec<String>,
    pub(crate) tunables: &'a [Tunable],
    pub(crate) tunable_names: Vec<String>,
    pub(crate) let_names: Vec<String>,
    /// The names of `[let]`, in the sections that may use them.
    pub(crate) definitions: Option<&'a [Arc<Definition>]>,
}

impl Defined<'_> {
    /// Axes and type variables, for what must not depend on anything else.
    pub(crate) fn axes_scope(&self) -> Scope {
        let axes = self.axis_names.iter().map(|name| (name.clone(), Kind::Value(Type::Integer)));
        Scope {
            only_axes: true,
            names: axes.collect(),
            dtypes: self.dtype_names.clone(),
            tensors: Vec::new(),
            definitions: Vec::new(),
            barred: self.let_names.clone(),
        }
    }

    /// What constraints and `[launch]` may name besides.
    pub(crate) fn scope(&self) -> Scope {
        let mut scope = Scope { only_axes: false, ..self.axes_scope() };
        let tunables = self.tunable_names.iter().map(|name| {
            let read = self.tunables.iter().find(|tunable| tunable.name.as_str() == name);
            (name.clone(), read.map_or(Kind::Broken, |tunable| Kind::Value(tunable.kind())))
        });
        scope.names.extend(tunables);
        let scalars = self.scalar_names.iter().map(|name| {
            let read = self.scalars.iter().find(|scalar| scalar.name.as_str() == name);
            let kind = match read.map(|scalar| scalar.default.value) {
                Some(ScalarValue::Int(_)) => Kind::Value(Type::Integer),
                Some(ScalarValue::Bool(_)) => Kind::Value(Type::Boolean),
                Some(ScalarValue::Float(_)) => Kind::Float,
                None => Kind::Broken,
            };
            (name.clone(), kind)
        });
        scope.names.extend(scalars);
        let inputs = self.input_names.iter().map(|name| {
            let read = self.inputs.iter().find(|input| input.tensor.name.as_str() == name);
            let rank = read.map(|input| input.tensor.shape.len());
            // Where its definition has a problem, nothing is said about what asks for it.
            ScopeTensor { name: name.clone(), rank, optional: read.is_none_or(|input| input.optional) }
        });
        let outputs = self.output_names.iter().map(|name| {
            let read = self.outputs.iter().find(|output| output.tensor.name.as_str() == name);
            let rank = read.map(|output| output.tensor.shape.len());
            ScopeTensor { name: name.clone(), rank, optional: false }
        });
        scope.tensors.extend(inputs.chain(outputs));
        if let Some(definitions) = self.definitions {
            let found = |name: String| {
                let mut read = definitions.iter();
                let read = read.find(|definition| definition.name.as_str() == name).cloned();
                (name, read)
            };
            scope.definitions = std::mem::take(&mut scope.barred).into_iter().map(found).collect();
        }
        scope
    }
}

/// The names of a section's entries.
pub(crate) fn names(table: Option<&Table<'_>>) -> Vec<String> {
    table.map(|table| table.entries().into_iter().map(|(name, _)| name.value).collect()).unwrap_or_default()
}
