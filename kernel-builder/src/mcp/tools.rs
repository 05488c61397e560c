//! The tools, with their arguments.
//!
//! Owns: names, descriptions, schemas, and reading arguments. Never: does what a tool says.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::Deserialize;
use serde_json::{Map, Value, json};

/// Names of the tools, in the order of the list.
pub(super) const NAMES: [&str; 5] = ["task", "try", "profile", "history", "submit"];

/// A call with its arguments.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Tool {
    /// What is to be done, with what.
    Task,
    /// Compile, compare and time a candidate.
    Try(Try),
    /// What a candidate uses and what limits it.
    Profile(Profile),
    /// What was tried.
    History(History),
    /// Hold a candidate against the best.
    Submit(Submit),
}

/// Arguments of `try`.
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Try {
    /// A folder laid out as the project is.
    pub(crate) dir: Option<PathBuf>,
    /// Texts by path; op.toml may be among them. The files of `from` that are not named stay.
    pub(crate) files: Option<BTreeMap<String, String>>,
    /// The candidate that `files` change; the best if `None`.
    pub(crate) from: Option<String>,
    /// Values of tunables; the others have their defaults.
    #[serde(default)]
    pub(crate) settings: Map<String, Value>,
    /// The workload; the first that is measured on cuda if `None`.
    pub(crate) workload: Option<String>,
    /// What was changed, in a line, for the history.
    pub(crate) note: Option<String>,
}

/// Arguments of `profile`.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Profile {
    /// The candidate.
    pub(crate) id: String,
    /// See [`Try`].
    #[serde(default)]
    pub(crate) settings: Map<String, Value>,
    /// See [`Try`].
    pub(crate) workload: Option<String>,
}

/// Arguments of `history`.
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct History {
    /// How many of the newest.
    pub(crate) last: Option<usize>,
    /// Two candidates to be compared line by line.
    pub(crate) diff: Option<[String; 2]>,
}

/// Arguments of `submit`.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Submit {
    /// The candidate.
    pub(crate) id: String,
    /// What it does better, in a line.
    pub(crate) note: Option<String>,
}

impl Tool {
    /// Reads the arguments of a tool.
    ///
    /// # Errors
    /// They are not the tool's, in a line that says what is wrong.
    pub(crate) fn read(name: &str, arguments: Map<String, Value>) -> Result<Self, String> {
        let value = Value::Object(arguments);
        let invalid = |error: serde_json::Error| format!("arguments of `{name}`: {error}");
        match name {
            "task" if value.as_object().is_some_and(Map::is_empty) => Ok(Self::Task),
            "task" => Err("`task` has no arguments".to_owned()),
            "try" => {
                let read: Try = serde_json::from_value(value).map_err(invalid)?;
                match (&read.dir, &read.files, &read.from) {
                    (Some(_), Some(_), _) => Err("`try` takes `dir` or `files`, not both".to_owned()),
                    (Some(_), None, Some(_)) => Err("`from` belongs to `files`".to_owned()),
                    (None, None, None) => Err("`try` needs `dir`, `files` or `from`".to_owned()),
                    _ => Ok(Self::Try(read)),
                }
            }
            "profile" => serde_json::from_value(value).map(Self::Profile).map_err(invalid),
            "history" => serde_json::from_value(value).map(Self::History).map_err(invalid),
            _ => serde_json::from_value(value).map(Self::Submit).map_err(invalid),
        }
    }
}

/// The tools as a client is told.
pub(super) fn list() -> Value {
    let text = |about: &str| json!({ "type": "string", "description": about });
    let settings = json!({
        "type": "object", "description": "values of [tune]; the others have their defaults",
        "additionalProperties": { "type": ["integer", "boolean"] },
    });
    let workload = text("name of a workload; default: the first that is measured on cuda");
    let id = text("id of a candidate, as `try` gave it, or `best` or `seed`");
    let of = |name: &str, about: &str, properties: Value, required: &[&str]| {
        json!({
            "name": name,
            "description": about,
            "inputSchema": {
                "type": "object", "properties": properties, "required": required, "additionalProperties": false,
            },
            "annotations": { "readOnlyHint": name != "try" && name != "submit", "destructiveHint": false, "openWorldHint": false },
        })
    };
    json!([
        of(
            NAMES[0],
            "The operation, its reference in PyTorch, op.toml with the visible workloads, the tolerance in words, the \
             GPU, the lowest possible time of each workload, and the files of the best kernel so far",
            json!({}),
            &[],
        ),
        of(
            NAMES[1],
            "Compile a candidate, compare its results with a float64 reference, and time it. Takes a folder laid out as \
             the project, or files. The same candidate with the same settings is answered from memory. While you write, the \
             values of [tune] are searched for kernels that passed; `history` has the fastest",
            json!({
                "dir": text("folder with op.toml and device code, laid out as the project"),
                "files": {
                    "type": "object", "additionalProperties": { "type": "string" },
                    "description": "texts by path, such as {\"norm.cuh\": \"...\", \"op.toml\": \"...\"}; files of `from` that are not named stay",
                },
                "from": text("id of the candidate that `files` change, or `best` or `seed`; default: best"),
                "settings": settings, "workload": workload,
                "note": text("what you changed and why, in a line"),
            }),
            &[],
        ),
        of(
            NAMES[2],
            "Registers, shared and local memory, and occupancy of each kernel of a candidate, what limits it, and hardware \
             counters if Nsight Compute can read them. The counters take seconds",
            json!({ "id": id, "settings": settings, "workload": workload }),
            &["id"],
        ),
        of(
            NAMES[3],
            "Candidates so far with their parents, verdicts and times; or the differences between two of them",
            json!({
                "last": { "type": "integer", "minimum": 1, "description": "only so many of the newest" },
                "diff": { "type": "array", "items": { "type": "string" }, "minItems": 2, "maxItems": 2, "description": "two ids" },
            }),
            &[],
        ),
        of(
            NAMES[4],
            "Verify a candidate in full, held-out workloads included, and time it in turn with the best. It becomes the \
             best only if it is faster beyond doubt",
            json!({ "id": id, "note": text("what it does better, in a line") }),
            &["id"],
        ),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(name: &str, arguments: Value) -> Result<Tool, String> {
        let Value::Object(arguments) = arguments else { panic!() };
        Tool::read(name, arguments)
    }

    #[test]
    fn arguments_are_those_of_the_schema() {
        for tool in list().as_array().unwrap() {
            let name = tool["name"].as_str().unwrap();
            let required = tool["inputSchema"]["required"].as_array().unwrap();
            for property in tool["inputSchema"]["properties"].as_object().unwrap().keys() {
                // Some value of the right type, beside what is required: no name is unknown.
                let value = match property.as_str() {
                    "files" | "settings" => json!({}),
                    "last" => json!(3),
                    "diff" => json!(["a", "b"]),
                    _ => json!("x"),
                };
                let mut arguments = json!({ property: value });
                for key in required {
                    arguments[key.as_str().unwrap()] = json!("x");
                }
                if name == "try" && !matches!(property.as_str(), "dir" | "files" | "from") {
                    arguments["dir"] = json!("x");
                }
                assert!(read(name, arguments.clone()).is_ok(), "{name} {arguments}");
            }
            assert!(read(name, json!({ "unknown": 1, "id": "x", "dir": "x" })).is_err(), "{name}");
        }
        assert_eq!(list().as_array().unwrap().len(), NAMES.len());
    }

    #[test]
    fn what_fits_no_tool_is_told() {
        for (name, arguments, word) in [
            ("task", json!({ "a": 1 }), "no arguments"),
            ("try", json!({}), "needs `dir`"),
            ("try", json!({ "dir": "a", "files": {} }), "not both"),
            ("try", json!({ "dir": "a", "from": "b" }), "`from`"),
            ("try", json!({ "files": { "a.cu": 3 } }), "string"),
            ("profile", json!({}), "id"),
            ("submit", json!({ "id": 3 }), "string"),
            ("history", json!({ "diff": ["a"] }), "diff"),
        ] {
            let said = read(name, arguments.clone()).unwrap_err();
            assert!(said.contains(word) || said.contains("length"), "{name} {arguments}: {said}");
        }
    }
}
