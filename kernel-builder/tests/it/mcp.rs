//! The judge as tools for an agent, as far as that needs no GPU: the real server, driven by the lines of a session.

use std::io::Write;
use std::os::unix::fs::symlink;
use std::process::Stdio;

use serde_json::{Value, json};

use super::device_code::{CACHE, NVCC, SOURCE, project, with_cache};
use super::sandbox::{Sandbox, tree};

/// A project with a compiler.
fn sandbox() -> Sandbox {
    let sandbox = Sandbox::new();
    project(&sandbox);
    sandbox.script("toolkit/bin/nvcc", NVCC);
    sandbox.write("toolkit/include/cuda_runtime.h", "");
    sandbox.write("toolkit/lib64/libcudart.so.13", "");
    sandbox.fake("g++", "echo 'g++ (Fake) 1.0'");
    sandbox
}

/// What the server answers to these lines, by id.
fn session(sandbox: &Sandbox, lines: &[String]) -> Vec<Value> {
    session_with(sandbox, "nvcc", lines)
}

fn session_with(sandbox: &Sandbox, compiler: &str, lines: &[String]) -> Vec<Value> {
    let mut command = sandbox.command(&["mcp", "scale", "--compiler", compiler, "--message-format", "json"]);
    command.env("CUDA_HOME", sandbox.path("toolkit")).env("CUDA_VISIBLE_DEVICES", "");
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut server = command.spawn().expect("the program starts");
    let mut stdin = server.stdin.take().expect("a pipe");
    let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
    let feeder = std::thread::spawn(move || stdin.write_all(text.as_bytes()));
    let output = server.wait_with_output().expect("it ends");
    feeder.join().expect("no panic").expect("the server reads everything");
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{stderr}");
    let stdout = String::from_utf8(output.stdout).expect("UTF-8");
    let parse = |line: &str| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
    stdout.lines().map(parse).collect()
}

fn request(id: u32, method: &str, params: Value) -> String {
    json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }).to_string()
}

fn call(id: u32, tool: &str, arguments: Value) -> String {
    request(id, "tools/call", json!({ "name": tool, "arguments": arguments }))
}

/// What a tool gave.
#[track_caller]
fn result(answers: &[Value], id: u32) -> Value {
    let answer = answers.iter().find(|answer| answer["id"] == id);
    let answer = answer.unwrap_or_else(|| panic!("no answer to {id} in {answers:?}"));
    answer["result"]["structuredContent"].clone()
}

#[test]
fn a_session_is_answered_line_by_line_and_leaves_the_project_alone() {
    let sandbox = sandbox();
    let before = tree(&sandbox.work());
    let op = sandbox.read("work/scale/op.toml");
    let faster = SOURCE.replace("i < count", "i < count && true");
    let answers = session(
        &sandbox,
        &[
            request(1, "initialize", json!({ "protocolVersion": "2025-06-18", "capabilities": {} })),
            json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }).to_string(),
            request(2, "tools/list", json!({})),
            "this is no JSON".to_owned(),
            "[]".to_owned(),
            format!(
                "{{\"jsonrpc\": \"2.0\", \"id\": 3, \"method\": \"ping\", \"params\": {{\"x\": \"{}\"}}}}",
                "y".repeat(5 << 20)
            ),
            request(4, "nothing/known", json!({})),
            call(5, "task", json!({})),
            call(6, "try", json!({ "files": { "scale.cu": faster }, "note": "a test" })),
            call(7, "try", json!({ "files": { "scale.cu": SOURCE.replace("count_up", "BROKEN") } })),
            call(8, "try", json!({ "files": { "op.toml": op.replace("roundings = 1", "roundings = 2") } })),
            call(9, "submit", json!({ "id": "best" })),
            call(10, "history", json!({})),
            call(11, "rm", json!({})),
            request(12, "ping", json!({})),
        ],
    );
    assert_eq!(answers[0]["result"]["protocolVersion"], "2025-06-18");
    assert_eq!(answers[0]["result"]["serverInfo"]["name"], "kernelwright");
    let names: Vec<&Value> =
        answers[1]["result"]["tools"].as_array().expect("a list").iter().map(|tool| &tool["name"]).collect();
    assert_eq!(names, ["task", "try", "profile", "history", "submit"]);
    let codes: Vec<i64> = answers.iter().filter_map(|answer| answer["error"]["code"].as_i64()).collect();
    assert_eq!(codes, [-32700, -32600, -32600, -32601, -32602]);
    let task = result(&answers, 5);
    assert_eq!((&task["operation"], &task["device"]["code"]), (&json!("scale"), &json!("bench::no_gpu")));
    assert_eq!(task["best"]["files"]["scale.cuh"], "#define FACTOR 3\n");
    let tried = result(&answers, 6);
    assert_eq!(
        (&tried["verdict"], &tried["judged"], &tried["code"]),
        (&json!("compiled"), &json!(false), &json!("bench::no_gpu")),
        "{tried}"
    );
    assert!(!answers.iter().any(|answer| answer.to_string().contains("\"verified\"")), "{answers:?}");
    let broken = result(&answers, 7);
    assert_eq!(broken["code"], "compile::device_code", "{broken}");
    assert_eq!(broken["place"], json!({ "file": "scale.cu", "line": 3 }), "{broken}");
    let frozen = result(&answers, 8);
    assert!(
        frozen["code"] == "agent::frozen"
            && frozen["text"].as_str().is_some_and(|text| text.contains("`tolerance.roundings`")),
        "{frozen}"
    );
    let seed = task["best"]["id"].clone();
    assert_eq!(result(&answers, 9)["code"], "bench::no_gpu");
    let history = result(&answers, 10);
    let standings: Vec<&Value> =
        history["candidates"].as_array().expect("a list").iter().map(|entry| &entry["standing"]).collect();
    assert_eq!(
        (standings, &history["best"]),
        (vec![&json!("seed"), &json!("compiled"), &json!("refused")], &seed)
    );
    assert_eq!(history["refusals"], json!({ "agent::frozen": 1, "compile::device_code": 1 }));
    assert_eq!(answers.last().map(|answer| &answer["id"]), Some(&json!(12)));
    // No file of the project was touched, and none of the machine is named.
    let after = tree(&sandbox.work());
    let own: Vec<&String> = after.iter().filter(|path| !path.contains(".kernelwright/candidates/")).collect();
    assert_eq!(own, before.iter().collect::<Vec<_>>());
    let root = sandbox.path("").display().to_string();
    for answer in &answers {
        assert!(!answer.to_string().contains(root.trim_end_matches('/')), "{answer}");
    }
}

#[test]
fn a_folder_is_tried_and_no_link_in_it_is_followed() {
    let sandbox = sandbox();
    sandbox.write("secret", "hunter2");
    let secret = sandbox.path("secret").display().to_string();
    for name in ["good", "linked", "absolute", "climbing"] {
        sandbox.write(&format!("work/{name}/scale.cu"), &SOURCE.replace("i < count", "i < count && true"));
        sandbox.write(&format!("work/{name}/scale.cuh"), "#define FACTOR 3\n");
    }
    std::fs::remove_file(sandbox.path("work/linked/scale.cuh")).expect("a file");
    symlink(&secret, sandbox.path("work/linked/scale.cuh")).expect("a link");
    sandbox.write("work/absolute/scale.cuh", &format!("#include \"{secret}\"\n#define FACTOR 3\n"));
    // The project beside it is no part of a candidate either.
    sandbox.write("work/climbing/scale.cuh", "#include \"../scale/op.toml\"\n#define FACTOR 3\n");
    let folder = |name: &str| sandbox.path(&format!("work/{name}")).display().to_string();
    let answers = session(
        &sandbox,
        &[
            call(1, "try", json!({ "dir": folder("good") })),
            call(2, "try", json!({ "dir": folder("linked") })),
            call(3, "try", json!({ "dir": folder("absolute") })),
            call(4, "try", json!({ "dir": folder("climbing") })),
        ],
    );
    assert_eq!(result(&answers, 1)["verdict"], "compiled", "{answers:?}");
    assert_eq!(result(&answers, 2)["code"], "agent::link");
    for id in [3, 4] {
        let refused = result(&answers, id);
        assert_eq!(refused["code"], "compile::device_code", "{refused}");
        assert!(
            refused["text"].as_str().is_some_and(|text| text.contains("outside of the candidate's folder")),
            "{refused}"
        );
        assert_eq!(refused["place"], json!({ "file": "scale.cuh", "line": 1 }));
    }
    let all = answers.iter().map(ToString::to_string).collect::<String>();
    assert!(!all.contains("hunter2") && !all.contains("format = 1"), "{all}");
}

#[test]
fn candidates_are_shown_written_into_the_project_and_taken_back() {
    let sandbox = sandbox();
    let none = sandbox.run(&["candidates", "scale"]);
    assert!(none.code == 0 && none.stdout.contains("no candidates"), "{none:?}");
    sandbox.run(&["candidates", "scale", "best"]).refused(19, &["agent::unknown_candidate", "`best`"]);
    let op = sandbox.read("work/scale/op.toml");
    let changed = op.replace("STEP = 3", "STEP = 4");
    let code = SOURCE.replace("scale.cuh", "wide.cuh");
    let files = json!({ "scale.cu": code, "wide.cuh": "#define FACTOR 3\n", "op.toml": changed });
    let broken = SOURCE.replace("count_up", "BROKEN");
    let answers = session(
        &sandbox,
        &[
            call(1, "try", json!({ "files": files, "note": "wider" })),
            call(2, "try", json!({ "files": { "scale.cu": broken } })),
        ],
    );
    let id = result(&answers, 1)["id"].as_str().expect("an id").to_owned();
    let table = sandbox.run(&["candidates", "scale"]);
    assert_eq!(table.code, 0, "{}", table.stderr);
    assert!(
        table.stdout.starts_with("* ")
            && table.stdout.contains(&format!("    {id}  compiled, not judged  wider")),
        "{}",
        table.stdout
    );
    let shown = sandbox.run(&["candidates", "scale", &id[..6]]);
    for line in
        ["-#include \"scale.cuh\"", "+#include \"wide.cuh\"", "-STEP = 3", "+STEP = 4", "+++ b/wide.cuh"]
    {
        assert!(shown.stdout.contains(line), "{line}: {}", shown.stdout);
    }
    let data = sandbox.run(&["candidates", "scale", "--message-format", "json"]).event("result");
    assert_eq!(data["candidates"].as_array().map(Vec::len), Some(3), "{data}");
    let refused = result(&answers, 2)["id"].as_str().expect("an id").to_owned();
    sandbox
        .run(&["fill", "scale", "--apply", &refused])
        .refused(19, &["agent::not_right", "compile::device_code"]);
    let applied = sandbox.run(&["fill", "scale", "--apply", &id, "--message-format", "json"]);
    assert_eq!(
        applied.event("result")["written"],
        json!(["scale.cu", "wide.cuh", "op.toml"]),
        "{}",
        applied.stderr
    );
    assert_eq!((sandbox.read("work/scale/scale.cu"), sandbox.read("work/scale/op.toml")), (code, changed));
    let again = sandbox.run(&["fill", "scale", "--apply", &id]);
    assert!(again.stdout.contains("already has this candidate"), "{}", again.stdout);
    let back = sandbox.run(&["fill", "scale", "--apply", "seed"]);
    assert_eq!(back.code, 0, "{}", back.stderr);
    assert_eq!(
        (sandbox.read("work/scale/scale.cu").as_str(), sandbox.read("work/scale/op.toml")),
        (SOURCE, op)
    );
}

#[test]
fn a_kernel_that_a_person_changed_is_kept_before_it_is_replaced() {
    let sandbox = sandbox();
    let answers = session(
        &sandbox,
        &[call(
            1,
            "try",
            json!({ "files": { "scale.cu": SOURCE.replace("i < count", "i < count && true") } }),
        )],
    );
    let id = result(&answers, 1)["id"].as_str().expect("an id").to_owned();
    let mine = SOURCE.replace("i < count", "i <= count - 1");
    sandbox.write("work/scale/scale.cu", &mine);
    assert_eq!(sandbox.run(&["fill", "scale", "--apply", &id]).code, 0);
    assert_ne!(sandbox.read("work/scale/scale.cu"), mine);
    assert_eq!(sandbox.run(&["fill", "scale", "--apply", "seed"]).code, 0);
    assert_eq!(sandbox.read("work/scale/scale.cu"), mine);
    // What is frozen changed meanwhile: the candidate is still made of code that fits, and judged by the new op.toml.
    let op = sandbox.read("work/scale/op.toml");
    sandbox.write("work/scale/op.toml", &op.replace("roundings = 1", "roundings = 2"));
    assert_eq!(sandbox.run(&["fill", "scale", "--apply", &id]).code, 0);
    assert!(sandbox.read("work/scale/op.toml").contains("roundings = 2"));
}

#[test]
fn one_compiler_takes_text_after_text_with_the_same_options() {
    let Some(cache) = std::env::var_os(CACHE) else {
        eprintln!("skipped: {CACHE} names no cache with the wheels of CUDA");
        return;
    };
    let sandbox = with_cache(&cache);
    project(&sandbox);
    let text = |number: u32| SOURCE.replace("i < count", &format!("i < count && {number}"));
    // From the second one on its headers are precompiled.
    let lines: Vec<String> =
        (1..=4).map(|number| call(number, "try", json!({ "files": { "scale.cu": text(number) } }))).collect();
    let answers = session_with(&sandbox, "nvrtc", &lines);
    if result(&answers, 1)["code"].as_str().is_some_and(|code| code.starts_with("toolchain::")) {
        eprintln!("skipped: the cache lacks NVRTC");
        return;
    }
    for number in 1..=4 {
        assert_eq!(result(&answers, number)["verdict"], "compiled", "{answers:?}");
    }
}

#[test]
fn a_compiler_has_four_gibibytes() {
    let sandbox = sandbox();
    let script = "case \"$1\" in --version) echo 'Cuda compilation tools, release 13.0, V13.0.88'; exit 0 ;; esac\n\
                  echo \"scale.cu(3): error: limited to $(ulimit -v) KiB\" >&2; exit 2";
    sandbox.script("toolkit/bin/nvcc", script);
    let answers = session(
        &sandbox,
        &[call(1, "try", json!({ "files": { "scale.cu": SOURCE.replace("i < count", "i < count && 1") } }))],
    );
    let refused = result(&answers, 1);
    assert_eq!(refused["code"], "compile::device_code", "{refused}");
    assert!(
        refused["text"].as_str().is_some_and(|text| text.contains("limited to 4194304 KiB")),
        "{refused}"
    );
}

#[test]
fn what_cannot_be_served_is_said_at_once() {
    let sandbox = sandbox();
    sandbox.run(&["mcp", "nowhere"]).refused(10, &["spec::no_project"]);
    sandbox.run(&["mcp", "scale", "--tries", "0"]).refused(2, &["--tries"]);
    sandbox.write("work/scale/scale.cu", "");
    sandbox.run(&["mcp", "scale"]).refused(19, &["agent::no_seed", "agent::empty"]);
    sandbox.run(&["fill", "scale", "--apply", "best", "--budget", "3"]).refused(2, &["--apply", "--budget"]);
}
