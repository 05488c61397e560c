//! build.toml and op.toml as JSON Schemas, for editors that complete, explain and check TOML.
//!
//! Owns: the shape of both files as an editor sees it, with a description of every key. Draft 7, which taplo reads.
//! Never: judges a file; the parsers do, and the tests hold the schemas against them.

use schemars::Schema;
use schemars::generate::SchemaSettings;
use schemars::transform::{Transform, transform_subschemas};
use serde_json::Value;

mod build;
mod by_hand;
mod flashinfer;
mod names;
mod op;
mod values;

/// The schema of build.toml, edition 5, as indented JSON. A file of edition 4, which is read as well, fits too.
pub fn build() -> String {
    print::<build::Build>()
}

/// The schema of op.toml, format 1, as indented JSON.
pub fn op() -> String {
    print::<op::Op>()
}

fn print<T: schemars::JsonSchema>() -> String {
    let settings = SchemaSettings::draft07().with(|settings| {
        settings.inline_subschemas = true;
        settings.transforms.push(Box::new(AsToml));
    });
    let schema = settings.into_generator().into_root_schema_for::<T>();
    // Keys are strings and there are no numbers that JSON lacks, so this cannot fail.
    let mut text = serde_json::to_string_pretty(&schema).unwrap_or_default();
    text.push('\n');
    text
}

/// Takes out what TOML does not have: null, and the widths of integers.
#[derive(Debug, Clone)]
struct AsToml;

impl Transform for AsToml {
    fn transform(&mut self, schema: &mut Schema) {
        schema.remove("format");
        if let Some(Value::Array(types)) = schema.get_mut("type") {
            types.retain(|name| name != "null");
            if let [only] = types.as_slice() {
                let only = only.clone();
                schema.insert("type".to_owned(), only);
            }
        }
        if let Some(Value::Array(values)) = schema.get_mut("enum") {
            values.retain(|value| !value.is_null());
        }
        if let Some(Value::Array(choices)) = schema.get_mut("anyOf") {
            choices.retain(|choice| choice.get("type").is_none_or(|name| name != "null"));
            if let [Value::Object(only)] = choices.as_slice() {
                let only = only.clone();
                schema.remove("anyOf");
                for (key, value) in only {
                    schema.ensure_object().entry(key).or_insert(value);
                }
            }
        }
        transform_subschemas(self, schema);
    }
}
