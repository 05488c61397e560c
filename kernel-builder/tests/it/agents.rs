//! Coding agents, played by shell scripts: what they are given, what they cannot reach, and what is left of them.

use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::device_code::{NVCC, SOURCE, project};
use super::sandbox::{Ended, Sandbox, finish};

/// A project with a compiler and an agent that is this script.
pub(crate) fn sandbox(script: &str) -> Sandbox {
    let sandbox = Sandbox::new();
    project(&sandbox);
    let op = sandbox.read("work/scale/op.toml");
    let secret = "[workload.hush-hush]\naxes = { rows = 7717 }\nheld-out = true\n";
    sandbox.write("work/scale/op.toml", &format!("{op}\n{secret}"));
    sandbox.script("toolkit/bin/nvcc", NVCC);
    sandbox.write("toolkit/include/cuda_runtime.h", "");
    sandbox.write("toolkit/lib64/libcudart.so.13", "");
    sandbox.fake("g++", "echo 'g++ (Fake) 1.0'");
    sandbox
        .fake("my-agent", &format!("case \"$1\" in --version) echo 'my-agent 1.2'; exit ;; esac\n{script}"));
    sandbox
}

fn fill(sandbox: &Sandbox, arguments: &[&str]) -> Ended {
    let words = ["fill", "scale", "--compiler", "nvcc", "--message-format", "json"];
    let words: Vec<&str> = words.into_iter().chain(arguments.iter().copied()).collect();
    let mut command = sandbox.command(&words);
    command.env("CUDA_HOME", sandbox.path("toolkit")).env("CUDA_VISIBLE_DEVICES", "");
    command.env("MY_KEY", "sk-hunter2hunter2").env("OTHER_KEY", "not for agents");
    finish(&mut command)
}

fn run(sandbox: &Sandbox) -> Ended {
    let agent =
        ["--agent-command", "my-agent '{prompt}'", "--unjudged", "--sessions", "1", "--agent-env", "MY_KEY"];
    fill(sandbox, &agent)
}

pub(crate) fn lineage(sandbox: &Sandbox) -> Vec<Value> {
    let text = sandbox.read("work/scale/.kernelwright/candidates/lineage.jsonl");
    text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

/// The transcript of the only session.
pub(crate) fn transcript(sandbox: &Sandbox) -> String {
    let sessions = sandbox.path("work/scale/.kernelwright/candidates/sessions");
    let session = std::fs::read_dir(sessions).expect("a folder").flatten().next().expect("a session");
    std::fs::read_to_string(session.path().join("transcript.jsonl")).expect("a transcript")
}

#[test]
fn an_agent_finds_its_task_and_what_it_leaves_is_a_candidate() {
    let script = "cat TASK.md op.toml; ls -A; env; sed -i 's/i < count/i < count \\&\\& true/' scale.cu; echo 'changed nothing' > notes.txt";
    let sandbox = sandbox(script);
    let before = sandbox.read("work/scale/scale.cu");
    let ended = run(&sandbox);
    assert_eq!(ended.code, 0, "{}{}", ended.stdout, ended.stderr);
    let sessions = ended.event("result")["sessions"].clone();
    assert_eq!(
        (&sessions[0]["candidates"], &sessions[0]["gained"]),
        (&1.into(), &false.into()),
        "{sessions}"
    );
    let lineage = lineage(&sandbox);
    let last = lineage.last().expect("a candidate");
    assert_eq!(
        (&last["standing"], &last["maker"]["agent"], &last["maker"]["version"]),
        (&"compiled".into(), &"my-agent".into(), &"my-agent 1.2".into())
    );
    let kept = format!(
        "work/scale/.kernelwright/candidates/{}/project/scale.cu",
        last["id"].as_str().expect("an id")
    );
    assert!(sandbox.read(&kept).contains("&& true"));
    assert_eq!(sandbox.read("work/scale/scale.cu"), before, "the project is left alone");
    let said = transcript(&sandbox);
    for words in [
        "# Make `scale` faster",
        "TASK.md",
        "op.toml",
        "reference.py",
        "scale.cuh",
        "KERNELWRIGHT_MCP=",
        "MY_KEY=***",
    ] {
        assert!(said.contains(words), "{words}: {said}");
    }
    for hidden in ["hush", "7717", "hunter2", "OTHER_KEY", "CUDA_VISIBLE_DEVICES", "KERNELWRIGHT_CACHE"] {
        assert!(!said.contains(hidden), "{hidden}: {said}");
    }
    let home = sandbox.path("home").display().to_string();
    assert!(!said.contains(&format!("HOME={home}\n")), "{said}");
}

#[test]
fn an_agent_reads_and_writes_its_own_folder_alone() {
    let sandbox = sandbox("");
    let (outside, secret) = (sandbox.path("work/scale/op.toml"), sandbox.path("home/.netrc"));
    sandbox.write("home/.netrc", "hunter3");
    let script = format!(
        "cat {0}; cat {1}; ls {2}; echo mine >> {0}; ln {1} scale.inc; ln -s {1} link; echo 'int x;' >> scale.cu; echo reached",
        outside.display(),
        secret.display(),
        sandbox.path("home").display()
    );
    sandbox.fake("my-agent", &format!("case \"$1\" in --version) exit ;; esac\n{script}"));
    let before = sandbox.read("work/scale/op.toml");
    let ended = run(&sandbox);
    if ended.stdout.contains("cannot confine") {
        eprintln!("skipped: this operating system cannot confine a process");
        return;
    }
    assert_eq!(ended.code, 0, "{}{}", ended.stdout, ended.stderr);
    let said = transcript(&sandbox);
    assert!(said.contains("reached") && !said.contains("hunter3") && !said.contains("format = 1"), "{said}");
    assert!(!said.contains(".gitconfig"), "{said}");
    assert_eq!(sandbox.read("work/scale/op.toml"), before);
}

#[test]
fn whatever_an_agent_started_is_gone_after_its_session() {
    let sandbox =
        sandbox("setsid sleep 86410 & setsid sh -c 'sleep 86411 & wait' & sleep 0.1; sleep 86412 & exit 7");
    let ended = run(&sandbox);
    assert_eq!(ended.code, 0, "{}{}", ended.stdout, ended.stderr);
    assert_eq!(ended.event("result")["sessions"][0]["candidates"], 0);
    // No other program sleeps so long.
    assert!(processes("sleep 8641").is_empty());
}

#[test]
fn what_an_agent_may_not_change_is_refused_with_its_key() {
    let sandbox =
        sandbox("sed -i 's/roundings = 1/roundings = 9/' op.toml; sed -i 's/i < count/i < 7/' scale.cu");
    let ended = run(&sandbox);
    assert_eq!(ended.event("result")["sessions"][0]["candidates"], 0, "{}", ended.stdout);
    let told = ended.events().iter().map(ToString::to_string).collect::<String>();
    assert!(told.contains("agent::frozen") && told.contains("tolerance.roundings"), "{told}");
}

#[test]
fn an_agent_that_does_not_end_is_ended() {
    let sandbox = sandbox("echo begun; setsid sleep 610 & sleep 611");
    let began = Instant::now();
    let agent = ["--agent-command", "my-agent", "--unjudged", "--budget", "2.5"];
    let ended = fill(&sandbox, &agent);
    assert_eq!(ended.code, 0, "{}{}", ended.stdout, ended.stderr);
    assert!(began.elapsed() < Duration::from_secs(60));
    let session = ended.event("result")["sessions"][0].clone();
    assert!(
        session["ending"].as_str().is_some_and(|ending| ending.starts_with("was stopped after")),
        "{session}"
    );
    assert!(processes("sleep 61").is_empty());
}

#[test]
fn nothing_is_left_of_a_search_that_is_killed_and_the_next_one_goes_on() {
    let sandbox = sandbox("echo begun; setsid sleep 630 & sleep 631");
    let words = [
        "fill",
        "scale",
        "--compiler",
        "nvcc",
        "--agent-command",
        "my-agent",
        "--unjudged",
        "--sessions",
        "1",
    ];
    let mut command = sandbox.command(&words);
    command.env("CUDA_HOME", sandbox.path("toolkit")).env("CUDA_VISIBLE_DEVICES", "");
    let mut search = command.spawn().expect("it starts");
    let until = Instant::now() + Duration::from_secs(60);
    while processes("sleep 63").len() < 2 {
        assert!(Instant::now() < until && search.try_wait().expect("a child").is_none());
        std::thread::yield_now();
    }
    // While it runs, another one is told so.
    let second = fill(&sandbox, &["--agent-command", "my-agent", "--unjudged"]);
    assert!(second.event("error").to_string().contains("agent::busy"), "{}", second.stdout);
    search.kill().expect("SIGKILL");
    search.wait().expect("it is gone");
    while !processes("sleep 63").is_empty() {
        assert!(Instant::now() < until, "{:?}", processes("sleep 63"));
        std::thread::yield_now();
    }
    sandbox.fake("my-agent", "case \"$1\" in --version) exit ;; esac\necho '// new' >> scale.cu");
    assert_eq!(run(&sandbox).event("result")["sessions"][0]["candidates"], 1);
}

/// Command lines of processes that begin like this.
fn processes(begin: &str) -> Vec<String> {
    let all = std::fs::read_dir("/proc").expect("processes").flatten();
    let lines = all.filter_map(|entry| std::fs::read_to_string(entry.path().join("cmdline")).ok());
    lines.map(|line| line.replace('\0', " ")).filter(|line| line.starts_with(begin)).collect()
}

#[test]
fn the_tools_are_reached_through_a_relay() {
    let program = env!("CARGO_BIN_EXE_kernelwright");
    let code = SOURCE.replace("i < count", "i < count && 1");
    let arguments = serde_json::json!({ "name": "try", "arguments": { "files": { "scale.cu": code } } });
    let call = serde_json::json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": arguments });
    let sandbox = sandbox(&format!("{program} mcp --to \"$KERNELWRIGHT_MCP\" < \"$(dirname \"$0\")/lines\""));
    // Beside the agent, where it may read.
    sandbox.write("bin/lines", &format!("{call}\n"));
    let ended = run(&sandbox);
    assert_eq!(ended.code, 0, "{}{}", ended.stdout, ended.stderr);
    let said = transcript(&sandbox);
    assert!(said.contains("\"verdict\":\"compiled\"") && said.contains("bench::no_gpu"), "{said}");
    assert_eq!(ended.event("result")["sessions"][0]["candidates"], 1, "{said}");
}

#[test]
fn an_agent_gets_no_folder_of_the_users_through_its_tools() {
    let program = env!("CARGO_BIN_EXE_kernelwright");
    let sandbox = sandbox(&format!("{program} mcp --to \"$KERNELWRIGHT_MCP\" < \"$(dirname \"$0\")/lines\""));
    sandbox.write("work/private/scale.cu", "// hunter4\n#include \"scale.cuh\"\n");
    let arguments =
        serde_json::json!({ "name": "try", "arguments": { "dir": sandbox.path("work/private") } });
    let call = serde_json::json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": arguments });
    sandbox.write("bin/lines", &format!("{call}\n"));
    assert_eq!(run(&sandbox).event("result")["sessions"][0]["candidates"], 0);
    let said = transcript(&sandbox);
    assert!(said.contains("agent::arguments") && said.contains("outside"), "{said}");
}

#[test]
fn kernels_of_the_suite_are_handed_in_as_an_agent_would() {
    let sandbox = sandbox("");
    let projects = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/cheats/projects/device-row-norm");
    for name in super::sandbox::tree(&projects) {
        let text = std::fs::read_to_string(projects.join(&name)).expect("a text");
        sandbox.write(&format!("work/scale/{name}"), &text);
    }
    let program = env!("CARGO_BIN_EXE_kernelwright");
    let agent =
        format!("{program} --worker hand-in {{socket}} device-hangs device-has-no-entry device-reverse-rows");
    let ended = fill(&sandbox, &["--agent-command", &agent, "--unjudged", "--sessions", "1"]);
    assert_eq!(ended.code, 0, "{}{}", ended.stdout, ended.stderr);
    let rows: Vec<Value> =
        transcript(&sandbox).lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let told: Vec<(&Value, bool)> =
        rows.iter().map(|row| (&row["fixture"], row["verdict"].is_string())).collect();
    assert_eq!(
        told,
        [
            (&"device-hangs".into(), true),
            (&"device-has-no-entry".into(), true),
            (&"device-reverse-rows".into(), true)
        ],
        "{rows:?}"
    );
    let notes: Vec<Value> = lineage(&sandbox).into_iter().map(|entry| entry["note"].clone()).collect();
    assert!(notes.contains(&"device-hangs".into()), "{notes:?}");
}

#[test]
fn what_keeps_an_agent_from_work_is_said_before_anything_is_spent() {
    let sandbox = sandbox("echo started > \"$HOME/started\"");
    let refused = |arguments: &[&str], code: i32, words: &[&str]| {
        let ended = fill(&sandbox, arguments);
        assert_eq!(ended.code, code, "{arguments:?}: {}{}", ended.stdout, ended.stderr);
        let error = ended.event("error").to_string();
        for word in words {
            assert!(error.contains(word), "{word}: {error}");
        }
    };
    refused(&["--agent-command", "my-agent"], 16, &["bench::no_gpu"]);
    refused(&["--agent", "nobody", "--unjudged"], 2, &["agent::unknown", "claude, codex, gemini, opencode"]);
    refused(&["--agent-command", "no-such-agent", "--unjudged"], 19, &["agent::not_found", "no-such-agent"]);
    refused(&["--agent-command", "'", "--unjudged"], 19, &["agent::description"]);
    for (program, key) in
        [("claude", "ANTHROPIC_API_KEY"), ("codex", "OPENAI_API_KEY"), ("gemini", "GEMINI_API_KEY")]
    {
        sandbox
            .fake(program, "case \"$1\" in --version) echo 1 ;; *) echo started > \"$HOME/started\" ;; esac");
        refused(&["--agent", program, "--unjudged"], 19, &["agent::unreachable", key]);
    }
    sandbox.fake("opencode", "exit 1");
    refused(&["--agent", "opencode", "--unjudged"], 19, &["agent::no_model"]);
    refused(&["--tries", "3"], 2, &["agent::option", "--tries", "coding agent"]);
    refused(&["--agent", "claude", "--fresh"], 2, &["agent::option", "--fresh", "tuner"]);
    assert!(!sandbox.path("home/started").exists());
}

#[test]
fn a_model_that_nobody_serves_is_told_within_ten_seconds() {
    let sandbox = sandbox("");
    sandbox.fake("claude", "sleep 620");
    let began = Instant::now();
    let mut command = sandbox.command(&[
        "fill",
        "scale",
        "--compiler",
        "nvcc",
        "--agent",
        "claude",
        "--unjudged",
        "--agent-env",
        "ANTHROPIC_API_KEY",
        "--agent-env",
        "ANTHROPIC_BASE_URL",
    ]);
    command.env("CUDA_HOME", sandbox.path("toolkit")).env("CUDA_VISIBLE_DEVICES", "");
    // A port of the host that nobody may listen at.
    command.env("ANTHROPIC_BASE_URL", "http://127.0.0.1:1").env("ANTHROPIC_API_KEY", "sk-hunter2hunter2");
    let ended = finish(&mut command);
    ended.refused(19, &["agent::unreachable"]);
    assert!(!ended.stderr.contains("hunter2"), "{}", ended.stderr);
    // The version was asked for, and took its ten seconds.
    assert!(began.elapsed() < Duration::from_secs(40));
}

#[test]
fn a_workspace_is_handed_out_once_and_taken_back_with_a_gpu() {
    let sandbox = sandbox("");
    let made = fill(&sandbox, &["--agent", "handoff"]);
    assert_eq!(made.code, 0, "{}", made.stderr);
    let folder = made.event("result")["workspace"].as_str().expect("a folder").to_owned();
    let task = std::fs::read_to_string(Path::new(&folder).join("TASK.md")).expect("a task");
    assert!(task.contains("kernelwright submit") && !task.contains("hush"), "{task}");
    std::fs::write(Path::new(&folder).join("scale.cu"), "mine").expect("a file");
    let again = fill(&sandbox, &["--agent", "handoff"]);
    assert_eq!(again.event("result")["was_there"], true);
    assert_eq!(std::fs::read_to_string(Path::new(&folder).join("scale.cu")).expect("a file"), "mine");
    let mut submit = sandbox.command(&["submit", "scale"]);
    finish(submit.env("CUDA_VISIBLE_DEVICES", "")).refused(16, &["bench::no_gpu"]);
    let mut submit = sandbox.command(&["submit", "scale", "--from", "nowhere"]);
    finish(submit.env("CUDA_VISIBLE_DEVICES", "")).refused(19, &["agent::no_workspace", "nowhere"]);
}
