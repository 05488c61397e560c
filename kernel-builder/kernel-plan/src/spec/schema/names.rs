//! The texts of op.toml as schemas: names, dtypes, expressions, choices.
//!
//! Owns: which TOML types an expression may have.
//! Never: parses an expression; a text that is none passes here.

use schemars::{Schema, json_schema};

use crate::spec::launch::{Interleave, L2Promotion, OobFill, Swizzle};
use crate::spec::op::{Device, Purpose};
use crate::units::{Dtype, PythonName, WorkloadName};

use super::by_hand::schemas;
use super::values::text;

/// An expression that yields a number.
pub(super) struct Number;
/// An expression that yields true or false.
pub(super) struct Truth;
/// An expression that yields either.
pub(super) struct Either;
/// A dtype or a type variable.
pub(super) struct AnyDtype;
/// The dtype that sums are kept in.
pub(super) struct FloatDtype;
/// A number of any kind, or true or false: the value of a scalar.
pub(super) struct Scalar;
/// The choice for a tunable.
pub(super) struct Choice;
/// An integer, or true or false: one setting of a tunable.
pub(super) struct Setting;
/// The dtypes of a workload.
pub(super) struct Narrowed;
/// A C++ name.
pub(super) struct Entry;
/// What is passed to a kernel.
pub(super) struct Argument;
/// The lengths of a grid, a block, a cluster.
pub(super) struct Dimensions;

schemas! {
    PythonName => text(NAME, ["rows"]);
    WorkloadName => text("^[a-z0-9][-a-z0-9_.]*$", ["prefill"]);
    Dtype => names(Self::ALL.iter().map(|dtype| dtype.as_str()));
    FloatDtype => names(Dtype::ALL.iter().filter(|dtype| dtype.is_float()).map(|dtype| dtype.as_str()));
    Purpose => names(Self::ALL.iter().map(|purpose| purpose.as_str()));
    Device => names(Self::ALL.iter().map(|device| device.as_str()));
    Swizzle => names(Self::ALL.iter().map(|swizzle| swizzle.as_str()));
    Interleave => names(Self::ALL.iter().map(|interleave| interleave.as_str()));
    L2Promotion => names(Self::ALL.iter().map(|promotion| promotion.as_str()));
    OobFill => names(Self::ALL.iter().map(|fill| fill.as_str()));
    AnyDtype => any_dtype();
    Number => json_schema!({ "type": ["integer", "string"], "examples": [256, "ceil_div(rows, 4)"] });
    Truth => json_schema!({ "type": ["boolean", "string"], "examples": ["block <= hidden"] });
    Either => json_schema!({ "type": ["integer", "boolean", "string"], "examples": ["block", true] });
    Scalar => json_schema!({ "type": ["number", "boolean"] });
    Setting => json_schema!({ "type": ["integer", "boolean"] });
    Choice => choice();
    Narrowed => narrowed();
    Entry => text("^[A-Za-z_][A-Za-z0-9_]*(::[A-Za-z_][A-Za-z0-9_]*)*$", ["rms_norm_kernel", "norm::forward"]);
    Argument => argument();
    Dimensions => json_schema!({
        "type": "array", "items": { "type": ["integer", "string"] }, "minItems": 1, "maxItems": 3,
        "examples": [["ceil_div(rows, 4)"], [256]],
    });
}

/// A Python identifier. That keywords are none is left to the parser.
const NAME: &str = "^[A-Za-z_][A-Za-z0-9_]*$";

fn names(names: impl Iterator<Item = &'static str>) -> Schema {
    json_schema!({ "type": "string", "enum": names.collect::<Vec<_>>() })
}

/// The dtypes are offered by the editor; the name of a type variable passes too.
fn any_dtype() -> Schema {
    let dtypes: Vec<_> = Dtype::ALL.iter().map(|dtype| dtype.as_str()).collect();
    json_schema!({ "type": "string", "anyOf": [{ "enum": dtypes }, { "pattern": NAME }] })
}

fn choice() -> Schema {
    json_schema!({
        "type": "array", "minItems": 1, "uniqueItems": true,
        "anyOf": [{ "items": { "type": "integer" } }, { "items": { "type": "boolean" } }],
        "examples": [[128, 256, 512], [true, false]],
    })
}

fn narrowed() -> Schema {
    let dtypes: Vec<_> = Dtype::ALL.iter().map(|dtype| dtype.as_str()).collect();
    let list =
        json_schema!({ "type": "array", "items": { "type": "string", "enum": dtypes }, "minItems": 1 });
    json_schema!({
        "oneOf": [list, { "type": "object", "patternProperties": { NAME: list }, "additionalProperties": false }],
        "examples": [["bf16"], { "T": ["bf16"] }],
    })
}

fn argument() -> Schema {
    let typed = |types: &[&str], what: &str| json_schema!({ "type": types, "description": what });
    json_schema!({
        "oneOf": [
            { "type": "string", "pattern": NAME },
            {
                "type": "object",
                "properties": {
                    "i32": typed(&["integer", "string"], "An expression, passed as a 32-bit integer."),
                    "i64": typed(&["integer", "string"], "An expression, passed as a 64-bit integer."),
                    "bool": typed(&["boolean", "string"], "A condition, passed as one byte."),
                    "f32": typed(&["string"], "A scalar of type float, passed as `float`."),
                    "f64": typed(&["string"], "A scalar of type float, passed as `double`."),
                },
                "minProperties": 1, "maxProperties": 1, "additionalProperties": false,
            },
        ],
    })
}
