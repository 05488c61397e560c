//! Coding agents as data: how one is started, what it is configured with, and what its lines say.
//!
//! Owns: the format of `resources/agents/*.toml`, the words that stand for values in it. Never: starts a program, reads the
//! environment or a file.

use std::collections::BTreeMap;

use include_dir::{Dir, include_dir};
use serde::Deserialize;
use serde_json::Value;

use crate::base::causes::TomlError;

/// Agents that this program knows: a file each.
static AGENTS: Dir<'_> = include_dir!("$CARGO_MANIFEST_DIR/resources/agents");
/// The version of the format.
const FORMAT: u32 = 1;
/// The longest text of an agent that is repeated.
const SHOWN: usize = 400;

/// An agent.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct Program {
    format: u32,
    /// The program, as it lies on `PATH`.
    pub(crate) program: String,
    /// The command that installs it.
    pub(crate) install: String,
    /// Variables with a key, of which one must be passed on.
    #[serde(default)]
    pub(crate) keys: Vec<String>,
    /// Further variables that are passed on if `--agent-env` names them.
    #[serde(default)]
    pub(crate) pass: Vec<String>,
    /// Its arguments.
    argv: Vec<String>,
    /// Its arguments where the operating system cannot confine it.
    #[serde(default)]
    unconfined_argv: Option<Vec<String>>,
    /// Further arguments, if a model is named.
    #[serde(default)]
    model_argv: Vec<String>,
    /// Whether a model must be named.
    #[serde(default)]
    pub(crate) needs_model: bool,
    /// Where its model is.
    #[serde(default)]
    pub(crate) address: Option<Address>,
    /// Its environment.
    #[serde(default)]
    env: BTreeMap<String, String>,
    /// Files of its configuration folder.
    #[serde(default)]
    files: BTreeMap<String, String>,
    /// Files of its home.
    #[serde(default)]
    home: BTreeMap<String, String>,
    /// What its lines of JSON say.
    #[serde(default)]
    event: Vec<Event>,
}

/// Where a model is.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Address {
    /// The variable that says so.
    pub(crate) variable: String,
    /// Where it is otherwise.
    pub(crate) default: String,
    /// What is asked for, to see whether it answers and takes the key.
    #[serde(default)]
    path: String,
    /// The header with the key; `authorization` with a bearer token if `None`.
    #[serde(default)]
    header: Option<String>,
}

/// A request that shows whether a model's server answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Probe {
    /// The address.
    pub(crate) url: String,
    /// See [`Address`].
    pub(crate) header: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct Event {
    /// Values that a line has at its top.
    when: BTreeMap<String, Value>,
    /// JSON pointers to counts of tokens.
    #[serde(default)]
    tokens: Vec<String>,
    /// JSON pointer to a cost in US dollars.
    #[serde(default)]
    usd: Option<String>,
    /// Whether counts are added to those before; else they replace them.
    #[serde(default)]
    adds: bool,
    /// JSON pointer to the name of the model.
    #[serde(default)]
    model: Option<String>,
    /// JSON pointer to the reason why the model does not answer.
    #[serde(default)]
    unreachable: Option<String>,
}

/// Values for the words of a file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Words {
    /// What it is asked to do.
    pub(crate) prompt: String,
    /// Its configuration folder and its home.
    pub(crate) config: String,
    /// See `config`.
    pub(crate) home: String,
    /// This program, and the socket of its tools.
    pub(crate) kernelwright: String,
    /// See `kernelwright`.
    pub(crate) socket: String,
    /// The model, the variable with the key, the address.
    pub(crate) model: Option<String>,
    /// See `model`.
    pub(crate) key: String,
    /// See `model`.
    pub(crate) address: String,
}

/// How an agent is started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Started {
    /// Arguments.
    pub(crate) argv: Vec<String>,
    /// Variables, beside those that are passed on.
    pub(crate) env: BTreeMap<String, String>,
    /// Texts by path in the configuration folder.
    pub(crate) config: BTreeMap<String, String>,
    /// Texts by path in the home.
    pub(crate) home: BTreeMap<String, String>,
}

/// What an agent's lines said so far.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct AgentReport {
    /// Tokens.
    pub(crate) tokens: Option<u64>,
    /// Cost in US dollars.
    pub(crate) usd: Option<f64>,
    /// The model.
    pub(crate) model: Option<String>,
    /// Why its model does not answer.
    pub(crate) unreachable: Option<String>,
}

/// The names of all agents.
pub(crate) fn names() -> Vec<String> {
    let stems = AGENTS.files().filter_map(|file| file.path().file_stem()?.to_str().map(str::to_owned));
    let mut names: Vec<String> = stems.collect();
    names.sort();
    names
}

/// What is wrong with the description of an agent.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DescriptionError {
    /// It is not TOML, or has other keys.
    #[error(transparent)]
    Toml(#[from] TomlError),
    /// It is of a later version.
    #[error("format {format} is not supported")]
    Format {
        /// Its `format`.
        format: u32,
    },
    /// A command that is no command line.
    #[error("it has no program, or a quote that is not closed")]
    Command,
}

/// The agent of a name.
pub(crate) fn named(name: &str) -> Option<Result<Program, DescriptionError>> {
    let file = AGENTS.get_file(format!("{name}.toml"))?;
    Some(Program::read(file.contents_utf8().unwrap_or_default()))
}

impl Program {
    /// Reads a file.
    ///
    /// # Errors
    /// It is not of this format.
    pub(crate) fn read(text: &str) -> Result<Self, DescriptionError> {
        let read: Self = toml::from_str(text).map_err(TomlError::from)?;
        if read.format == FORMAT { Ok(read) } else { Err(DescriptionError::Format { format: read.format }) }
    }

    /// An agent that is any command: it finds TASK.md in its folder, and the tools at `KERNELWRIGHT_MCP`.
    pub(crate) fn of_command(words: &[String]) -> Option<Self> {
        let (program, argv) = words.split_first()?;
        let env = BTreeMap::from([("KERNELWRIGHT_MCP".to_owned(), "{socket}".to_owned())]);
        Some(Self {
            format: FORMAT,
            program: program.clone(),
            install: format!("`{program}` is not on PATH; name a program that is"),
            keys: vec![],
            pass: vec![],
            argv: argv.to_vec(),
            unconfined_argv: None,
            model_argv: vec![],
            needs_model: false,
            address: None,
            env,
            files: BTreeMap::new(),
            home: BTreeMap::new(),
            event: vec![],
        })
    }

    /// What shows whether its model's server at `address` answers; nothing if it has none.
    pub(crate) fn probe(&self, address: &str) -> Option<Probe> {
        let Address { path, header, .. } = self.address.as_ref()?;
        Some(Probe { url: format!("{}{path}", address.trim_end_matches('/')), header: header.clone() })
    }

    /// How it is started, with or without the operating system's own confinement.
    pub(crate) fn started(&self, words: &Words, is_confined: bool) -> Started {
        let argv = match &self.unconfined_argv {
            Some(argv) if !is_confined => argv,
            _ => &self.argv,
        };
        let more = self.model_argv.iter().filter(|_| words.model.is_some());
        let filled = |texts: &BTreeMap<String, String>| {
            texts.iter().map(|(name, text)| (name.clone(), words.fill(text))).collect()
        };
        Started {
            argv: argv.iter().chain(more).map(|word| words.fill(word)).collect(),
            env: filled(&self.env),
            config: filled(&self.files),
            home: filled(&self.home),
        }
    }

    /// Takes what a line says; lines that are no JSON say nothing.
    pub(crate) fn hear(&self, line: &str, told: &mut AgentReport) {
        let Ok(value) = serde_json::from_str::<Value>(line) else { return };
        let is = |event: &&Event| event.when.iter().all(|(key, wanted)| value.get(key) == Some(wanted));
        for event in self.event.iter().filter(is) {
            let counts: Vec<u64> =
                event.tokens.iter().filter_map(|place| value.pointer(place)?.as_u64()).collect();
            if !counts.is_empty() {
                let before = told.tokens.filter(|_| event.adds).unwrap_or_default();
                told.tokens = Some(before + counts.iter().sum::<u64>());
            }
            if let Some(usd) = event.usd.as_ref().and_then(|place| value.pointer(place)?.as_f64()) {
                told.usd = Some(told.usd.filter(|_| event.adds).unwrap_or_default() + usd);
            }
            if let Some(model) = event.model.as_ref().and_then(|place| value.pointer(place)?.as_str()) {
                told.model = Some(model.to_owned());
            }
            if let Some(place) = &event.unreachable {
                let text = match value.pointer(place) {
                    Some(Value::String(text)) => text.clone(),
                    Some(Value::Null) | None => "no reason given".to_owned(),
                    Some(other) => other.to_string(),
                };
                told.unreachable = Some(text.chars().take(SHOWN).collect());
            }
        }
    }
}

impl Words {
    /// Puts values in the place of words such as `{prompt}`. A value that is put in is not read again.
    fn fill(&self, text: &str) -> String {
        let known: [(&str, &str); 8] = [
            ("{prompt}", &self.prompt),
            ("{config}", &self.config),
            ("{home}", &self.home),
            ("{kernelwright}", &self.kernelwright),
            ("{socket}", &self.socket),
            ("{model}", self.model.as_deref().unwrap_or_default()),
            ("{key}", &self.key),
            ("{address}", &self.address),
        ];
        let (mut filled, mut rest) = (String::with_capacity(text.len()), text);
        while let Some(at) = rest.find('{') {
            filled += &rest[..at];
            rest = &rest[at..];
            match known.iter().find(|(word, _)| rest.starts_with(word)) {
                Some((word, value)) => {
                    filled += value;
                    rest = &rest[word.len()..];
                }
                None => {
                    filled.push('{');
                    rest = &rest[1..];
                }
            }
        }
        filled + rest
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words() -> Words {
        Words {
            prompt: "write {config} a kernel".to_owned(),
            config: "/w/config".to_owned(),
            home: "/w/home".to_owned(),
            kernelwright: "/bin/kernelwright".to_owned(),
            socket: "/w/s".to_owned(),
            model: Some("m-1".to_owned()),
            key: "SOME_KEY".to_owned(),
            address: "http://127.0.0.1:9/v1".to_owned(),
        }
    }

    #[test]
    fn every_agent_reaches_the_tools_and_its_files_are_what_they_seem() {
        assert_eq!(names(), ["claude", "codex", "gemini", "opencode"]);
        for name in names() {
            let agent = named(&name).unwrap().unwrap();
            let probe = agent.probe("http://127.0.0.1:9/").unwrap();
            assert!(
                probe.url.starts_with("http://127.0.0.1:9/") && probe.url.ends_with("models"),
                "{name}: {probe:?}"
            );
            assert!(!agent.keys.is_empty() && agent.install.starts_with("npm install -g "), "{name}");
            let started = agent.started(&words(), true);
            assert!(
                started.argv.contains(&"write {config} a kernel".to_owned()),
                "{name}: a prompt is not read again"
            );
            let texts: Vec<(&String, &String)> = started.config.iter().chain(&started.home).collect();
            assert!(
                texts.iter().any(|(_, text)| text.contains("/w/s") && text.contains("/bin/kernelwright")),
                "{name}"
            );
            for (file, text) in texts {
                assert!(!text.contains("{socket}") && !text.contains("{address}"), "{name}: {text}");
                if file.ends_with(".json") {
                    assert!(serde_json::from_str::<Value>(text).is_ok(), "{name}: {text}");
                } else {
                    assert!(text.parse::<toml::Table>().is_ok(), "{name}: {text}");
                }
            }
            assert!(started.argv.iter().any(|word| word.contains("m-1")), "{name}: {:?}", started.argv);
        }
        assert!(named("nobody").is_none());
        let codex = named("codex").unwrap().unwrap();
        assert!(codex.started(&words(), false).argv.contains(&"workspace-write".to_owned()));
        let no_model = Words { model: None, ..words() };
        assert!(!codex.started(&no_model, true).argv.contains(&"--model".to_owned()));
    }

    #[test]
    fn lines_tell_tokens_costs_and_why_nothing_answers() {
        let told = |name: &str, lines: &[&str]| {
            let (agent, mut told) = (named(name).unwrap().unwrap(), AgentReport::default());
            lines.iter().for_each(|line| agent.hear(line, &mut told));
            told
        };
        let claude = told(
            "claude",
            &[
                r#"{"type":"system","subtype":"init","model":"m"}"#,
                "no JSON",
                r#"{"type":"result","is_error":false,"usage":{"input_tokens":10,"output_tokens":5},"total_cost_usd":0.25}"#,
            ],
        );
        assert_eq!(
            claude,
            AgentReport { tokens: Some(15), usd: Some(0.25), model: Some("m".to_owned()), unreachable: None }
        );
        let refused = r#"{"type":"result","subtype":"success","is_error":true,"result":"API Error: 529"}"#;
        assert_eq!(told("claude", &[refused]).unreachable.as_deref(), Some("API Error: 529"));
        let failed = r#"{"type":"turn.failed","error":{"message":"401 Unauthorized"}}"#;
        assert_eq!(told("codex", &[failed]).unreachable.as_deref(), Some("401 Unauthorized"));
        let step = r#"{"type":"step_finish","part":{"tokens":{"input":3,"output":4},"cost":0.5}}"#;
        let opencode = told("opencode", &[step, step]);
        assert_eq!((opencode.tokens, opencode.usd), (Some(14), Some(1.0)));
        let long = format!(r#"{{"type":"error","error":{{"data":{{"message":"{}"}}}}}}"#, "x".repeat(9000));
        assert_eq!(told("opencode", &[&long]).unreachable.map(|text| text.len()), Some(SHOWN));
    }

    #[test]
    fn any_command_is_an_agent_and_a_file_of_another_format_is_none() {
        let command = Program::of_command(&["my-agent".to_owned(), "--task={prompt}".to_owned()]).unwrap();
        let started = command.started(&words(), true);
        assert_eq!(started.argv, ["--task=write {config} a kernel"]);
        assert_eq!(started.env["KERNELWRIGHT_MCP"], "/w/s");
        assert_eq!(Program::of_command(&[]), None);
        let text = "format = 2\nprogram = \"x\"\ninstall = \"y\"\nargv = []\n";
        assert!(Program::read(text).unwrap_err().to_string().contains("format 2"));
        assert!(Program::read("format = 1\nprogram = 3\n").is_err());
    }
}
