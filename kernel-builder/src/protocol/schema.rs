//! Schemas of two types of kernel-plan, which has no schema of its own for them.
//!
//! Owns: their names and values. Never: part of the program.

use std::borrow::Cow;

use kernel_plan::units::Dtype;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};

/// [`Dtype`].
pub(crate) struct DtypeName;

impl JsonSchema for DtypeName {
    fn schema_name() -> Cow<'static, str> {
        "Dtype".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let names: Vec<&str> = Dtype::ALL.iter().map(|dtype| dtype.as_str()).collect();
        json_schema!({ "description": "The element type of a tensor.", "type": "string", "enum": names })
    }
}

/// [`kernel_plan::spec::op::ScalarValue`].
pub(crate) struct Scalar;

impl JsonSchema for Scalar {
    fn schema_name() -> Cow<'static, str> {
        "Scalar".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "description": "A scalar argument.", "type": ["boolean", "integer", "number"] })
    }
}
