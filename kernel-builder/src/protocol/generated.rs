//! The dataclasses of `harness/protocol*.py`, written from the schemas of the types in this folder.
//!
//! Owns: how a schema is written in Python. Never: part of the program. `cargo xtask codegen` runs
//! the test below with [`WRITE`] set, which writes the files.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use kernel_plan::units::Dtype;
use schemars::JsonSchema;
use schemars::SchemaGenerator;
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value};

use super::{SourceText, TensorSpec, VERSION, bench, schema, trace, verify};
use crate::base::{env, files};

/// The environment variable that lets the test write the files.
const WRITE: &str = "KERNELWRIGHT_WRITE_PROTOCOL";
/// Columns of a line of Python.
const WIDTH: usize = 120;
/// The same with the end of the line.
const LINE: usize = WIDTH + 1;

/// A module of the harness.
struct Module {
    name: &'static str,
    about: &'static str,
    /// Adds its types to a generator.
    types: fn(&mut SchemaGenerator),
}

const MODULES: &[Module] = &[
    Module {
        name: "protocol",
        about: "Types that several dialogues with the judge share, and the version of all.",
        types: |generator| {
            add::<SourceText>(generator);
            add::<TensorSpec>(generator);
            add::<schema::Scalar>(generator);
        },
    },
    Module {
        name: "protocol_verify",
        about: "The dialogue of a judgement: the jobs of the oracle, the candidate and the linter, and their events.",
        types: |generator| {
            add::<verify::Job>(generator);
            add::<verify::Event>(generator);
        },
    },
    Module {
        name: "protocol_bench",
        about: "The dialogue of a measurement: the jobs of both processes, requests and answers.",
        types: |generator| {
            add::<bench::Job>(generator);
            add::<bench::Request>(generator);
            add::<bench::Answer>(generator);
        },
    },
    Module {
        name: "protocol_trace",
        about: "The job of `trace.py`: a person's file, and the operations of the templates that it is compared with.",
        types: |generator| add::<trace::TraceJob>(generator),
    },
];

fn add<T: JsonSchema>(generator: &mut SchemaGenerator) {
    generator.subschema_for::<T>();
}

/// Every module's file name and text.
fn modules() -> Vec<(String, String)> {
    let shared = definitions(&MODULES[0]);
    let files = MODULES.iter().enumerate().map(|(place, module)| {
        let all = definitions(module);
        let is_shared = |name: &String| place > 0 && shared.iter().any(|(known, _)| known == name);
        let own: Vec<_> = all.into_iter().filter(|(name, _)| !is_shared(name)).collect();
        (format!("{}.py", module.name), text(module, &own, place == 0))
    });
    files.collect()
}

/// The names and schemas of a module's types, and of all that they name.
fn definitions(module: &Module) -> Vec<(String, Value)> {
    let mut generator = SchemaGenerator::new(SchemaSettings::draft2020_12());
    (module.types)(&mut generator);
    generator.definitions().iter().map(|(name, schema)| (name.clone(), schema.clone())).collect()
}

/// The text of a module; the first one has what the others import.
fn text(module: &Module, own: &[(String, Value)], is_first: bool) -> String {
    let mut written = Written::default();
    let tags = tags(own);
    for (name, schema) in own {
        written.definition(name, schema, &tags);
    }
    let is_own = |used: &&String| own.iter().any(|(name, _)| name == *used);
    let shared: Vec<&str> = written.used.iter().filter(|used| !is_own(used)).map(String::as_str).collect();
    let mut text = format!(
        "\"\"\"{}\n\nWritten by `cargo xtask codegen` from kernel-builder/src/protocol; do not edit.\n\"\"\"\n\n\
         from __future__ import annotations\n\n",
        module.about
    );
    text.push_str("from dataclasses import dataclass\nfrom typing import ");
    let classes = written.classes.concat();
    let words = [("ClassVar", classes.as_str()), ("Literal", ""), ("TypeAlias", "")];
    let aliases = format!("{}{}", written.names.concat(), written.unions.concat());
    let needed = words.iter().filter(|(word, _)| classes.contains(word) || aliases.contains(word));
    text.push_str(&needed.map(|(word, _)| *word).collect::<Vec<_>>().join(", "));
    text.push('\n');
    if !shared.is_empty() {
        text.push_str(&format!("\nfrom protocol import {}\n", shared.join(", ")));
    }
    if is_first {
        text.push_str(&format!("\nVERSION = {VERSION}\n"));
    }
    text.push_str(&written.names.concat());
    if is_first {
        text.push_str("\n# The attribute of `torch` for each dtype.\nTORCH_NAMES: dict[Dtype, str] = {\n");
        for dtype in Dtype::ALL {
            text.push_str(&format!("    \"{dtype}\": \"{}\",\n", dtype.torch_name()));
        }
        text.push_str("}\n");
    }
    text.push_str(&classes);
    if !written.unions.is_empty() {
        text.push_str(&format!("\n\n{}", written.unions.join("")));
    }
    text
}

/// The tag of each type that is a variant of an enum.
fn tags(own: &[(String, Value)]) -> Vec<(String, String, String)> {
    let variants = own.iter().filter_map(|(_, schema)| schema["oneOf"].as_array()).flatten();
    variants
        .filter_map(|variant| {
            let (key, tag) = tag_of(variant)?;
            Some((reference(variant)?, key, tag))
        })
        .collect()
}

/// The tag of a variant: the property with one constant value.
fn tag_of(variant: &Value) -> Option<(String, String)> {
    let (name, value) =
        variant["properties"].as_object()?.iter().find(|(_, one)| one["const"].is_string())?;
    Some((name.clone(), value["const"].as_str()?.to_owned()))
}

/// The definition that a schema names.
fn reference(schema: &Value) -> Option<String> {
    schema["$ref"].as_str()?.strip_prefix("#/$defs/").map(str::to_owned)
}

/// What is written of a module so far.
#[derive(Default)]
struct Written {
    /// Aliases of literals and scalars.
    names: Vec<String>,
    classes: Vec<String>,
    /// Aliases of several classes.
    unions: Vec<String>,
    /// Definitions that annotations name.
    used: BTreeSet<String>,
}

impl Written {
    fn definition(&mut self, name: &str, schema: &Value, tags: &[(String, String, String)]) {
        if let Some(words) = constants(schema) {
            let words = words.iter().map(|word| format!("\"{word}\"")).collect::<Vec<_>>();
            let one_line = format!("{name}: TypeAlias = Literal[{}]\n", words.join(", "));
            let text = match one_line.len() {
                ..=LINE => one_line,
                _ => format!("{name}: TypeAlias = Literal[\n    {},\n]\n", words.join(",\n    ")),
            };
            return self.names.push(format!("\n{}{text}", comment(schema, "")));
        }
        if let Some(variants) = schema["oneOf"].as_array() {
            let names: Vec<String> = variants.iter().map(|variant| self.variant(variant)).collect();
            let one_line = format!("{name}: TypeAlias = {}\n", names.join(" | "));
            let in_brackets = format!("    {}\n", names.join(" | "));
            let text = match (one_line.len(), in_brackets.len()) {
                (..=LINE, _) => one_line,
                (_, ..=LINE) => format!("{name}: TypeAlias = (\n{in_brackets})\n"),
                _ => format!("{name}: TypeAlias = (\n    {}\n)\n", names.join("\n    | ")),
            };
            return self.unions.push(format!("{}{text}", comment(schema, "")));
        }
        if let Some(properties) = schema["properties"].as_object() {
            let tag = tags.iter().find(|(of, ..)| of == name);
            let tag = tag.map(|(_, key, tag)| (key.clone(), tag.clone()));
            return self.class(name, schema, properties, tag);
        }
        let kind = self.annotation(schema);
        self.names.push(format!("\n{}{name}: TypeAlias = {kind}\n", comment(schema, "")));
    }

    /// The class of a variant, written here unless it is a type of its own.
    fn variant(&mut self, variant: &Value) -> String {
        if let Some(name) = reference(variant) {
            return name;
        }
        let tag = tag_of(variant).unwrap_or_else(|| panic!("a variant without a tag: {variant}"));
        let name = pascal(&tag.1);
        let properties = variant["properties"].as_object().cloned().unwrap_or_default();
        self.class(&name, variant, &properties, Some(tag));
        name
    }

    fn class(
        &mut self,
        name: &str,
        schema: &Value,
        properties: &Map<String, Value>,
        tag: Option<(String, String)>,
    ) {
        let head = format!("class {name}:\n");
        let known = self.classes.iter().any(|class| class.contains(&head));
        assert!(!known, "two types are named {name}: give one of them another name");
        let mut text = format!("\n\n@dataclass(frozen=True)\n{head}");
        let about = schema["description"].as_str().map(first_paragraph);
        let about = about.unwrap_or_else(|| panic!("{name} has no doc comment"));
        text.push_str(&docstring(&about));
        let key = tag.as_ref().map(|(key, _)| key.clone());
        let mut fields = String::new();
        if let Some((key, tag)) = tag {
            fields.push_str(&format!("    TAG: ClassVar[tuple[str, str]] = (\"{key}\", \"{tag}\")\n"));
        }
        for (field, schema) in properties.iter().filter(|(field, _)| Some(*field) != key.as_ref()) {
            fields.push_str(&comment(schema, "    "));
            fields.push_str(&format!("    {field}: {}\n", self.annotation(schema)));
        }
        text.push_str(&if fields.is_empty() { fields } else { format!("\n{fields}") });
        self.classes.push(text);
    }

    /// A type as an annotation writes it.
    fn annotation(&mut self, schema: &Value) -> String {
        if let Some(name) = reference(schema) {
            self.used.insert(name.clone());
            return name;
        }
        if let Some(choices) = schema["anyOf"].as_array() {
            return choices.iter().map(|one| self.annotation(one)).collect::<Vec<_>>().join(" | ");
        }
        if let Some(kinds) = schema["type"].as_array() {
            let with = |kind: &Value| {
                let mut one = schema.clone();
                one["type"] = kind.clone();
                one
            };
            return kinds.iter().map(|kind| self.annotation(&with(kind))).collect::<Vec<_>>().join(" | ");
        }
        match schema["type"].as_str() {
            Some("string") => "str".to_owned(),
            Some("integer") => "int".to_owned(),
            Some("number") => "float".to_owned(),
            Some("boolean") => "bool".to_owned(),
            Some("null") => "None".to_owned(),
            Some("array") => match schema["prefixItems"].as_array() {
                Some(items) => {
                    let items: Vec<_> = items.iter().map(|one| self.annotation(one)).collect();
                    format!("tuple[{}]", items.join(", "))
                }
                None => format!("list[{}]", self.annotation(&schema["items"])),
            },
            Some("object") => format!("dict[str, {}]", self.annotation(&schema["additionalProperties"])),
            _ => panic!("no Python type is known for {schema}"),
        }
    }
}

/// The values of an enum without fields.
fn constants(schema: &Value) -> Option<Vec<String>> {
    let words = |one: &Value| -> Option<Vec<String>> {
        if one["type"] != "string" {
            return None;
        }
        let listed = one["enum"].as_array().cloned().or_else(|| Some(vec![one["const"].clone()]))?;
        listed.iter().map(|word| word.as_str().map(str::to_owned)).collect()
    };
    match schema["oneOf"].as_array() {
        Some(all) => Some(all.iter().map(words).collect::<Option<Vec<_>>>()?.concat()),
        None => words(schema),
    }
}

/// `InputsReady` for `inputs-ready`.
fn pascal(tag: &str) -> String {
    let capital = |word: &str| word[..1].to_uppercase() + &word[1..];
    tag.split('-').map(capital).collect()
}

fn first_paragraph(text: &str) -> String {
    let lines = text.lines().take_while(|line| !line.trim().is_empty());
    // Links of rustdoc.
    lines.collect::<Vec<_>>().join(" ").replace("[`", "`").replace("`]", "`")
}

fn docstring(text: &str) -> String {
    let one_line = format!("    \"\"\"{text}\"\"\"\n");
    match one_line.len() {
        ..=LINE => one_line,
        _ => format!("    \"\"\"{}\n    \"\"\"\n", wrapped(text, WIDTH - 7).join("\n    ")),
    }
}

/// A schema's description as a comment.
fn comment(schema: &Value, indent: &str) -> String {
    let Some(about) = schema["description"].as_str().map(first_paragraph) else { return String::new() };
    let lines = wrapped(&about, WIDTH - indent.len() - 2);
    lines.iter().map(|line| format!("{indent}# {line}\n")).collect()
}

fn wrapped(text: &str, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split(' ') {
        match lines.last_mut() {
            Some(line) if line.len() + 1 + word.len() <= width => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

fn harness() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("harness")
}

#[test]
fn the_python_side_is_generated() {
    let write = env::text(WRITE).is_some();
    for (name, text) in modules() {
        let path = harness().join(&name);
        if write {
            files::write_if_changed(&path, &text).unwrap();
        }
        let there = files::read_text(&path).unwrap_or_default();
        assert!(
            there == text,
            "{name} is not what the types of kernel-builder/src/protocol say; run `cargo xtask codegen` and commit it"
        );
    }
}
