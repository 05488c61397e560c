//! The real agent programs, with a script in place of a model: no account, no GPU, and nothing beyond loopback.
//!
//! `cargo xtask test agents` installs them and names their folders.

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use super::agents::{lineage, sandbox, transcript};
use super::device_code::SOURCE;
use super::sandbox::{Ended, Sandbox, finish, tree};

/// Folders of agents' programs, `:` between them.
const AGENTS: &str = "KERNELWRIGHT_AGENTS";
/// A key that no server knows.
const KEY: &str = "sk-dummy-4f6b1c0d9e";

/// An agent: its name, the variables with its key and its address, and what the address has behind the port.
type Agent = (&'static str, &'static str, &'static str, &'static str);

const ALL: [Agent; 4] = [
    ("claude", "ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL", ""),
    ("codex", "OPENAI_API_KEY", "OPENAI_BASE_URL", "/v1"),
    ("gemini", "GEMINI_API_KEY", "GOOGLE_GEMINI_BASE_URL", ""),
    ("opencode", "OPENAI_API_KEY", "OPENAI_BASE_URL", "/v1"),
];

/// The agents that are installed, with the folders of their programs.
fn installed() -> Vec<(Agent, PathBuf)> {
    let Some(folders) = std::env::var_os(AGENTS) else {
        eprintln!("skipped: {AGENTS} names no folder with an agent; `cargo xtask test agents` does");
        return vec![];
    };
    let folders: Vec<PathBuf> = std::env::split_paths(&folders).collect();
    let of = |agent: &Agent| folders.iter().find(|folder| folder.join(agent.0).exists()).cloned();
    let found: Vec<_> = ALL.into_iter().filter_map(|agent| Some((agent, of(&agent)?))).collect();
    assert!(!found.is_empty(), "no agent in {folders:?}");
    found
}

/// The scripted model.
struct Model {
    server: Child,
    port: String,
}

impl Model {
    /// Starts it; with a status, it refuses everything.
    fn start(sandbox: &Sandbox, status: Option<&str>) -> Self {
        for number in 1..=2 {
            let changed = format!("i < count && {number}");
            sandbox.write(&format!("code-{number}.cu"), &SOURCE.replace("i < count", &changed));
        }
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/agents/model.py");
        let mut command = Command::new("python3");
        command.args(["-B", script, "scale.cu"]).arg(sandbox.path("log.jsonl")).arg(status.unwrap_or("200"));
        command.args([sandbox.path("code-1.cu"), sandbox.path("code-2.cu")]);
        let mut server = command.stdout(Stdio::piped()).spawn().expect("python3 is there");
        let mut port = String::new();
        let stdout = server.stdout.take().expect("a pipe");
        BufReader::new(stdout).read_line(&mut port).expect("a port");
        Self { server, port: port.trim().to_owned() }
    }
}

impl Drop for Model {
    fn drop(&mut self) {
        let _ended = self.server.kill();
        let _waited = self.server.wait();
    }
}

fn fill(sandbox: &Sandbox, (agent, folder): &(Agent, PathBuf), port: &str) -> Ended {
    let (name, key, address, suffix) = agent;
    let mut command = sandbox.command(&[
        "fill",
        "scale",
        "--compiler",
        "nvcc",
        "--agent",
        name,
        "--model",
        "scripted-1",
        "--agent-env",
        key,
        "--agent-env",
        address,
        "--unjudged",
        "--sessions",
        "1",
        "--budget",
        "60",
        "--message-format",
        "json",
    ]);
    let path = std::env::var("PATH").unwrap_or_default();
    command
        .env("PATH", format!("{}:{}:{path}", folder.display(), sandbox.path("bin").display()))
        .env("CUDA_HOME", sandbox.path("toolkit"))
        .env("CUDA_VISIBLE_DEVICES", "")
        .env(key, KEY)
        .env(address, format!("http://127.0.0.1:{port}{suffix}"));
    finish(&mut command)
}

#[test]
fn a_real_agent_calls_the_judge_and_its_kernel_is_kept() {
    for agent in installed() {
        let (name, sandbox) = (agent.0.0, sandbox(""));
        let model = Model::start(&sandbox, None);
        let ended = fill(&sandbox, &agent, &model.port);
        assert_eq!(ended.code, 0, "{name}: {}{}", ended.stdout, ended.stderr);
        let session = ended.event("result")["sessions"][0].clone();
        assert_eq!(
            (&session["candidates"], &session["ending"]),
            (&2.into(), &"returned 0".into()),
            "{name}: {session}"
        );
        assert!(session["tokens"].as_u64().is_some_and(|tokens| tokens >= 15), "{name}: {session}");
        let lineage = lineage(&sandbox);
        let last = lineage.last().expect("a candidate");
        let (standing, note) = (&last["standing"], &last["note"]);
        assert_eq!(
            (standing, note, &last["maker"]["agent"]),
            (&"compiled".into(), &"by a script".into(), &name.into())
        );
        // The model saw the verdict, and nothing of what is held out or of another place.
        let asked = sandbox.read("log.jsonl");
        assert!(asked.contains("bench::no_gpu") && asked.contains("TASK.md"), "{name}");
        for hidden in ["hush", "7717", "format = 1"] {
            assert!(!asked.contains(hidden), "{name}: {hidden}");
        }
        // No key is kept.
        let kept = sandbox.path("work/scale/.kernelwright");
        for file in tree(&kept) {
            let bytes = std::fs::read(kept.join(&file)).expect("a file");
            assert!(!bytes.windows(KEY.len()).any(|part| part == KEY.as_bytes()), "{name}: {file}");
        }
        assert!(!transcript(&sandbox).is_empty());
    }
}

#[test]
fn a_model_that_refuses_is_told_within_ten_seconds() {
    for agent in installed() {
        for (status, word) in [("401", "rejected the API key"), ("429", "overloaded"), ("529", "overloaded")]
        {
            let sandbox = sandbox("");
            let model = Model::start(&sandbox, Some(status));
            let began = Instant::now();
            let ended = fill(&sandbox, &agent, &model.port);
            assert_eq!(ended.code, 19, "{}: {}{}", agent.0.0, ended.stdout, ended.stderr);
            let error: Value = ended.event("error");
            assert_eq!(error["code"], "agent::unreachable", "{error}");
            assert!(error["message"].as_str().is_some_and(|text| text.contains(word)), "{error}");
            // Most of it is the agent's, to say its version.
            assert!(began.elapsed() < Duration::from_secs(30));
        }
    }
}
