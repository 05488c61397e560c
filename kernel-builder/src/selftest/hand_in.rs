//! An agent that hands in kernels of the suite, one after the other, as a coding agent would: through the tools of `mcp`.
//!
//! Owns: what it hands in, and a line for each kernel on its standard output. Never: judges; looks at a verdict but to see
//! whether there is something to submit.

use std::path::Path;
use std::time::{Duration, Instant};

use kernel_plan::plan::CommandLine;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::fixture::{self, Fixture};
use crate::base::channel::Answers;
use crate::base::env;
use crate::base::process::{Dialogue, DialogueEvent, ProcessError};
use crate::exit;

/// The role of the worker on the command line of this program.
pub(crate) const ROLE: &str = "hand-in";
/// How long the answer of a tool may take: a full verification, with the start of its processes.
const ANSWER: Duration = Duration::from_secs(900);

/// What came of a kernel.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub(super) struct HandInResult {
    /// The fixture.
    pub(super) fixture: String,
    /// The last verdict of the tools, or nothing where they gave none.
    pub(super) verdict: Option<String>,
    /// The code that comes with it.
    pub(super) code: Option<String>,
    /// What is said of it.
    pub(super) text: Option<String>,
    /// Seconds of all calls for this kernel.
    pub(super) seconds: f64,
}

/// The role: the words are the socket of the tools, and the names of fixtures.
pub(crate) fn run() -> u8 {
    let words = env::worker_words();
    let Some((socket, names)) = words.split_first() else { return exit::USAGE };
    let Ok(all) = fixture::all() else { return exit::INTERNAL };
    let wanted = all.iter().filter(|one| names.iter().any(|name| *name == *one.name.as_str()));
    let wanted: Vec<&Fixture> = wanted.collect();
    let mut answers = Answers::take_over();
    let done = Tools::at(Path::new(socket)).and_then(|mut tools| {
        let mut tried = Vec::new();
        for one in &wanted {
            tried.push(tools.attempt(one)?);
        }
        for (one, (handed_in, id)) in wanted.iter().zip(tried) {
            // Nothing is to be gained by an honest kernel: whether it is right is known.
            let handed_in = match id.filter(|_| !one.passes) {
                Some(id) => tools.submit(handed_in, &id)?,
                None => handed_in,
            };
            answers.say(&handed_in);
        }
        Ok(())
    });
    if done.is_ok() { 0 } else { exit::INTERNAL }
}

/// The tools, through a relay.
struct Tools {
    relay: Dialogue,
    asked: u32,
}

impl Tools {
    fn at(socket: &Path) -> Result<Self, ProcessError> {
        let line = CommandLine::new(env::own_program()).args(["mcp", "--to"]).path(socket);
        Ok(Self { relay: Dialogue::start(&line)?, asked: 0 })
    }

    /// What a tool gave; null where it gave nothing.
    fn call(&mut self, tool: &str, arguments: Value) -> Result<Value, ProcessError> {
        self.asked += 1;
        let params = json!({ "name": tool, "arguments": arguments });
        let request = json!({ "jsonrpc": "2.0", "id": self.asked, "method": "tools/call", "params": params });
        self.relay.say(&request.to_string());
        loop {
            let DialogueEvent::Line(line) = self.relay.hear(ANSWER)? else { return Ok(Value::Null) };
            let answer: Value = serde_json::from_str(&line).unwrap_or_default();
            if answer["id"] == self.asked {
                return Ok(answer["result"]["structuredContent"].clone());
            }
        }
    }

    /// Hands a fixture in; gives its id if it may be submitted.
    fn attempt(&mut self, fixture: &Fixture) -> Result<(HandInResult, Option<String>), ProcessError> {
        let began = Instant::now();
        let empty = HandInResult { fixture: fixture.name.clone(), ..HandInResult::default() };
        let Some(files) = changes(fixture) else { return Ok((empty, None)) };
        let arguments = json!({ "files": files, "from": "seed", "note": fixture.name });
        let answer = self.call("try", arguments)?;
        let handed_in = empty.with(&answer, began.elapsed());
        let id = answer["id"].as_str().filter(|_| answer["verdict"] == "passed").map(str::to_owned);
        Ok((handed_in, id))
    }

    fn submit(&mut self, handed_in: HandInResult, id: &str) -> Result<HandInResult, ProcessError> {
        let began = Instant::now();
        let answer = self.call("submit", json!({ "id": id }))?;
        Ok(handed_in.with(&answer, began.elapsed()))
    }
}

impl HandInResult {
    fn with(self, answer: &Value, took: Duration) -> Self {
        let text = |key: &str| answer[key].as_str().map(str::to_owned);
        Self {
            verdict: text("verdict"),
            code: text("code"),
            text: text("text"),
            seconds: self.seconds + took.as_secs_f64(),
            ..self
        }
    }
}

/// The files that a fixture changes and an agent can hand in: device code and op.toml.
fn changes(fixture: &Fixture) -> Option<Map<String, Value>> {
    let (files, base) = (fixture.files().ok()?, fixture.base_files().ok()?);
    let named = files.iter().filter_map(|(path, bytes)| {
        let name = path.to_str().filter(|name| base.get(name) != Some(bytes))?;
        let may = name == "op.toml" || !name.ends_with(".toml");
        may.then(|| (name.to_owned(), json!(String::from_utf8_lossy(bytes))))
    });
    Some(named.collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::selftest;

    #[test]
    fn what_an_agent_could_write_is_handed_in() {
        let files = |name: &str| {
            let found = selftest::select(&[name.to_owned()]).unwrap();
            let changes = changes(found.iter().find(|one| one.name == name).unwrap()).unwrap();
            changes.keys().cloned().collect::<Vec<_>>()
        };
        assert_eq!(files("device-hangs"), ["device_row_norm/row_norm.cu"]);
        // build.toml is the project's.
        assert_eq!(files("device-forgets-a-block"), ["device_row_norm/row_norm.cu", "op.toml"]);
        assert!(files("device-row-norm").is_empty());
    }
}
