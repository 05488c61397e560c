//! The skill for coding agents: where it is installed, and that its code blocks are what they seem.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use clap::CommandFactory;
use kernel_builder::cli::Cli;

use super::device_code::{CACHE, project, with_cache};
use super::sandbox::{Sandbox, tree};

const FILES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/resources/skill");

/// The code blocks of one kind in all files of the skill.
fn blocks(kind: &str) -> Vec<String> {
    let mut found = Vec::new();
    for name in tree(Path::new(FILES)) {
        let text = std::fs::read_to_string(Path::new(FILES).join(&name)).expect("a text");
        for part in text.split(&format!("```{kind}\n")).skip(1) {
            found.push(part.split("\n```").next().unwrap_or_default().to_owned() + "\n");
        }
    }
    assert!(!found.is_empty(), "{kind}");
    found
}

#[test]
fn it_lies_where_each_agent_looks_and_no_other_file_is_replaced() {
    let sandbox = Sandbox::new();
    let added = sandbox.run(&["skill", "add", "--claude", "--codex", "--gemini", "--opencode"]);
    assert_eq!(added.code, 0, "{}", added.stderr);
    for folder in [".claude", ".agents", ".gemini", ".opencode"] {
        let skill = sandbox.read(&format!("work/{folder}/skills/kernelwright/SKILL.md"));
        assert!(skill.starts_with("---\nname: kernelwright\n") && !skill.contains("{version}"), "{skill}");
        let references = sandbox.path(&format!("work/{folder}/skills/kernelwright/references"));
        assert_eq!(tree(&references).len(), tree(&Path::new(FILES).join("references")).len());
    }
    assert_eq!(sandbox.run(&["skill", "add", "--claude"]).code, 0, "the same version changes nothing");
    let own = "work/.claude/skills/kernelwright/SKILL.md";
    sandbox.write(own, "mine");
    sandbox
        .run(&["skill", "add", "--gemini", "--claude"])
        .refused(12, &["scaffold::skill_there", ".claude/skills"]);
    assert_eq!(sandbox.read(own), "mine");
    assert_eq!(sandbox.run(&["skill", "add", "--claude", "--force"]).code, 0);
    assert_ne!(sandbox.read(own), "mine");
    let global = sandbox.run(&["skill", "add", "--opencode", "--global", "--message-format", "json"]);
    let folder = sandbox.path("home/.config/opencode/skills/kernelwright");
    assert_eq!(global.event("result")["written"][0], folder.display().to_string());
    assert!(folder.join("references/verdicts.md").exists());
    assert_eq!(sandbox.run(&["skill", "add", "--dest", "here"]).code, 0);
    assert!(sandbox.path("work/here/kernelwright/SKILL.md").exists());
    sandbox.run(&["skill", "add"]).refused(12, &["scaffold::no_agent", "--claude"]);
    sandbox.run(&["skill", "add", "--claude", "--dest", "here"]).refused(2, &["--dest"]);
}

#[test]
fn its_commands_are_commands() {
    for line in blocks("sh").iter().flat_map(|block| block.lines()) {
        let words = shlex::split(line).expect("quotes are closed");
        assert_eq!(words.first().map(String::as_str), Some("kernelwright"), "{line}");
        if let Err(error) = Cli::command().try_get_matches_from(&words) {
            panic!("{line}: {error}");
        }
    }
}

#[test]
fn its_python_is_python() {
    for block in blocks("python") {
        let mut command = Command::new("python3");
        command
            .args(["-c", "import ast, sys; ast.parse(sys.stdin.read())"])
            .stdin(Stdio::piped())
            .stderr(Stdio::piped());
        let Ok(mut python) = command.spawn() else {
            eprintln!("skipped: python3 not found");
            return;
        };
        python.stdin.take().expect("a pipe").write_all(block.as_bytes()).expect("it reads");
        let done = python.wait_with_output().expect("it ends");
        assert!(done.status.success(), "{}\n{block}", String::from_utf8_lossy(&done.stderr));
    }
}

#[test]
fn its_device_code_compiles() {
    let Some(cache) = std::env::var_os(CACHE) else {
        eprintln!("skipped: {CACHE} names no cache with the wheels of CUDA");
        return;
    };
    let sandbox = with_cache(&cache);
    project(&sandbox);
    let op = sandbox.read("work/scale/op.toml");
    let (before, rest) = op.split_once("[launch.define]").expect("a section");
    let workloads = &rest[rest.find("[workload").expect("a section")..];
    for block in blocks("cuda") {
        let kernel =
            block.split("__global__ void ").nth(1).and_then(|rest| rest.split('(').next()).expect("a kernel");
        let launch = format!(
            "[[launch.kernel]]\nentry = \"{kernel}\"\ngrid = [1]\nblock = [256]\nargs = [\"out\", \"input\", {{ i32 = \"rows\" }}]\n\n"
        );
        sandbox.write("work/scale/op.toml", &format!("{before}{launch}{workloads}"));
        sandbox.write("work/scale/scale.cu", &block);
        let mut verify = sandbox.command(&["verify", "--device", "scale"]);
        let ended = super::sandbox::finish(verify.env("CUDA_VISIBLE_DEVICES", ""));
        if ended.code == 13 {
            eprintln!("skipped: the cache lacks a compiler: {}", ended.stderr);
            return;
        }
        assert_eq!(ended.code, 0, "{block}\n{}", ended.stderr);
    }
}
