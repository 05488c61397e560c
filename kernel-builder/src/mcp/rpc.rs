//! Lines of JSON-RPC 2.0.
//!
//! Owns: which lines are requests, what is answered at once, the errors for lines that are none. Never: fails: every line
//! has an answer or needs none.

use serde_json::{Map, Value, json};

use super::tools;

/// Bytes of the longest line that is read: more than twice what a candidate may have, however it is escaped.
pub(crate) const LONGEST: usize = 4 << 20;
/// Revisions of the protocol that this server speaks, the newest last.
const REVISIONS: [&str; 4] = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"];
/// Error codes of JSON-RPC 2.0, section 5.1.
const PARSE: i32 = -32700;
const INVALID: i32 = -32600;
const NO_METHOD: i32 = -32601;
const PARAMS: i32 = -32602;

/// For the model that reads the list of tools.
const INSTRUCTIONS: &str = "Write a faster GPU kernel. Call `task` first: it has the operation, the reference, the \
    workloads, the limits and the best kernel so far. Change device code and the [let], [tune] and [launch] sections of op.toml \
    only. Call `try` after every change; it compiles, compares all results with a float64 reference, and times. A time \
    counts only if the verdict is `passed`. Call `submit` with the id of a candidate that is faster than the best.";

/// What a line asks for.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Message {
    /// A tool is called.
    Call(Box<Call>),
    /// This line is the answer.
    Answer(String),
    /// A notification, an answer or an empty line.
    Nothing,
}

/// The call of a tool.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Call {
    /// To be repeated in the answer.
    pub(crate) id: Value,
    /// The tool's name.
    pub(crate) tool: String,
    /// Its arguments.
    pub(crate) arguments: Map<String, Value>,
    /// Where the client wants to hear of progress.
    pub(crate) progress: Option<Value>,
}

/// What came of a tool.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Outcome {
    /// For programs and models alike.
    pub(crate) data: Value,
    /// Whether the call failed: the tool did nothing. A candidate that is wrong is no failed call.
    pub(crate) failed: bool,
}

impl Outcome {
    /// A call that did what it should.
    pub(crate) fn done(data: Value) -> Self {
        Self { data, failed: false }
    }

    /// A call that could not be made, with the reason.
    pub(crate) fn failed(code: &str, text: &str) -> Self {
        Self { data: json!({ "code": code, "text": text }), failed: true }
    }
}

/// Reads a line.
pub(crate) fn read(line: &str) -> Message {
    if line.trim().is_empty() {
        return Message::Nothing;
    }
    let value: Value = match serde_json::from_str(line) {
        Ok(value) => value,
        Err(why) => return error(&Value::Null, PARSE, &format!("the line is not JSON: {why}")),
    };
    let Value::Object(message) = value else {
        return error(&Value::Null, INVALID, "a line is one JSON object; batches are not supported");
    };
    let id = message.get("id").cloned();
    let valid = matches!(id, None | Some(Value::String(_) | Value::Number(_)));
    let shown = if valid { id.clone().unwrap_or_default() } else { Value::Null };
    if message.get("jsonrpc").and_then(Value::as_str) != Some("2.0") {
        return error(&shown, INVALID, "`jsonrpc` is not \"2.0\"");
    }
    if !valid {
        return error(&Value::Null, INVALID, "`id` is neither a string nor a number");
    }
    let Some(method) = message.get("method") else {
        // An answer to a question that this server never asks.
        let is_answer = message.contains_key("result") || message.contains_key("error");
        return if is_answer { Message::Nothing } else { error(&shown, INVALID, "there is no `method`") };
    };
    let Some(method) = method.as_str() else {
        return error(&shown, INVALID, "`method` is not a string");
    };
    let Some(id) = id else { return Message::Nothing };
    let params = match message.get("params") {
        None => Map::new(),
        Some(Value::Object(params)) => params.clone(),
        Some(_) => return error(&id, PARAMS, "`params` is not an object"),
    };
    request(id, method, &params)
}

fn request(id: Value, method: &str, params: &Map<String, Value>) -> Message {
    match method {
        "initialize" => {
            let wanted = params.get("protocolVersion").and_then(Value::as_str);
            let newest = REVISIONS[REVISIONS.len() - 1];
            let revision = wanted.filter(|wanted| REVISIONS.contains(wanted)).unwrap_or(newest);
            result(
                &id,
                &json!({
                    "protocolVersion": revision,
                    "capabilities": { "tools": {} },
                    "serverInfo": { "name": "kernelwright", "version": env!("CARGO_PKG_VERSION") },
                    "instructions": INSTRUCTIONS,
                }),
            )
        }
        "ping" => result(&id, &json!({})),
        "tools/list" => result(&id, &json!({ "tools": tools::list() })),
        "tools/call" => {
            let Some(tool) = params.get("name").and_then(Value::as_str) else {
                return error(&id, PARAMS, "`name` of the tool is missing");
            };
            if !tools::NAMES.contains(&tool) {
                let text = format!("there is no tool `{tool}`; the tools are {}", tools::NAMES.join(", "));
                return error(&id, PARAMS, &text);
            }
            let arguments = match params.get("arguments") {
                None | Some(Value::Null) => Map::new(),
                Some(Value::Object(arguments)) => arguments.clone(),
                Some(_) => return error(&id, PARAMS, "`arguments` is not an object"),
            };
            let progress = params.get("_meta").and_then(|meta| meta.get("progressToken")).cloned();
            Message::Call(Box::new(Call { id, tool: tool.to_owned(), arguments, progress }))
        }
        other => error(&id, NO_METHOD, &format!("there is no method `{other}`")),
    }
}

/// The answer to a call.
pub(crate) fn answer(id: &Value, outcome: &Outcome) -> String {
    // As text, too: older clients show nothing else to the model.
    let text = outcome.data.to_string();
    let content = json!([{ "type": "text", "text": text }]);
    line(&json!({
        "jsonrpc": "2.0", "id": id,
        "result": { "content": content, "structuredContent": outcome.data, "isError": outcome.failed },
    }))
}

/// That something takes long, for a client that asked to be told.
pub(crate) fn progress(token: &Value, step: u32, text: &str) -> String {
    let params = json!({ "progressToken": token, "progress": step, "message": text });
    line(&json!({ "jsonrpc": "2.0", "method": "notifications/progress", "params": params }))
}

/// The answer to a line that is longer than [`LONGEST`].
pub(crate) fn too_long() -> String {
    let text = format!("the line is longer than {LONGEST} bytes");
    line(&failure(&Value::Null, INVALID, &text))
}

fn result(id: &Value, result: &Value) -> Message {
    Message::Answer(line(&json!({ "jsonrpc": "2.0", "id": id, "result": result })))
}

fn error(id: &Value, code: i32, text: &str) -> Message {
    Message::Answer(line(&failure(id, code, text)))
}

fn failure(id: &Value, code: i32, text: &str) -> Value {
    json!({ "jsonrpc": "2.0", "id": id, "error": { "code": code, "message": text } })
}

fn line(value: &Value) -> String {
    value.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answered(line: &str) -> Value {
        match read(line) {
            Message::Answer(line) => {
                assert!(!line.contains('\n'));
                serde_json::from_str(&line).unwrap()
            }
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_client_is_answered_in_a_revision_that_both_speak() {
        let revision = |wanted: &str| {
            let line = format!(
                r#"{{"jsonrpc":"2.0","id":1,"method":"initialize","params":{{"protocolVersion":"{wanted}"}}}}"#
            );
            answered(&line)["result"]["protocolVersion"].as_str().unwrap().to_owned()
        };
        assert_eq!(
            (revision("2025-03-26").as_str(), revision("2099-01-01").as_str()),
            ("2025-03-26", "2025-11-25")
        );
        let listed = answered(r#"{"jsonrpc":"2.0","id":"a","method":"tools/list"}"#);
        assert_eq!((&listed["id"], listed["result"]["tools"].as_array().unwrap().len()), (&json!("a"), 5));
        assert_eq!(answered(r#"{"jsonrpc":"2.0","id":0,"method":"ping"}"#)["result"], json!({}));
    }

    #[test]
    fn a_call_is_read_and_answered_with_its_id() {
        let line = r#"{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"try","arguments":{"dir":"a"},"_meta":{"progressToken":"p"}}}"#;
        let Message::Call(call) = read(line) else { panic!() };
        let Call { id, tool, arguments, progress: token } = *call;
        assert_eq!(
            (&id, tool.as_str(), &arguments["dir"], token),
            (&json!(7), "try", &json!("a"), Some(json!("p")))
        );
        let answer: Value =
            serde_json::from_str(&answer(&id, &Outcome::failed("agent::link", "a\nb"))).unwrap();
        assert_eq!((&answer["id"], &answer["result"]["isError"]), (&json!(7), &json!(true)));
        let text: Value =
            serde_json::from_str(answer["result"]["content"][0]["text"].as_str().unwrap()).unwrap();
        assert_eq!((&text, &text["text"]), (&answer["result"]["structuredContent"], &json!("a\nb")));
    }

    #[test]
    fn every_line_that_is_no_request_has_its_answer() {
        for (line, code, id) in [
            ("{", PARSE, json!(null)),
            ("[]", INVALID, json!(null)),
            ("3", INVALID, json!(null)),
            (r#"{"id":1,"method":"ping"}"#, INVALID, json!(1)),
            (r#"{"jsonrpc":"2.0","id":{},"method":"ping"}"#, INVALID, json!(null)),
            (r#"{"jsonrpc":"2.0","id":null,"method":"ping"}"#, INVALID, json!(null)),
            (r#"{"jsonrpc":"2.0","id":1}"#, INVALID, json!(1)),
            (r#"{"jsonrpc":"2.0","id":1,"method":2}"#, INVALID, json!(1)),
            (r#"{"jsonrpc":"2.0","id":1,"method":"resources/list"}"#, NO_METHOD, json!(1)),
            (r#"{"jsonrpc":"2.0","id":1,"method":"ping","params":[]}"#, PARAMS, json!(1)),
            (r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{}}"#, PARAMS, json!(1)),
            (r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"rm"}}"#, PARAMS, json!(1)),
            (
                r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"try","arguments":3}}"#,
                PARAMS,
                json!(1),
            ),
        ] {
            let answer = answered(line);
            assert_eq!((&answer["error"]["code"], &answer["id"]), (&json!(code), &id), "{line}");
        }
        for line in [
            "",
            "  \r",
            r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#,
            r#"{"jsonrpc":"2.0","method":"nothing/known","params":3}"#,
            r#"{"jsonrpc":"2.0","id":1,"result":{}}"#,
        ] {
            assert_eq!(read(line), Message::Nothing, "{line}");
        }
        let long: Value = serde_json::from_str(&too_long()).unwrap();
        assert_eq!(long["error"]["code"], json!(INVALID));
    }
}
