//! Filling a device project, and the settings that lie in one, as far as that needs no GPU.

use super::sandbox::{Ended, Sandbox, finish, tree};

const OP: &str = r#"format = 1
name = "scale"

[axes]
rows = { type = "var", min = 1 }

[dtypes]
T = ["f32"]

[inputs]
input = { shape = ["rows"], dtype = "T" }

[outputs]
out = { shape = ["rows"], dtype = "T" }

[reference]
file = "reference.py"
function = "scale"

[call]
function = "scale"

[tolerance]
accumulate = "f32"
length = 1
roundings = 1

[tune.block]
values = [64, 128, 256]
default = 128

[tune.stream]
values = [true, false]
default = true

[launch]
source = "scale.cu"

[[launch.kernel]]
entry = "scale"
template = ["T", "block", "stream"]
grid = ["ceil_div(rows, block)"]
block = ["block"]
args = ["out", "input", { i32 = "rows" }]

[workload.few]
axes = { rows = 700 }
devices = ["cuda"]

[workload.secret]
axes = { rows = 900 }
devices = ["cuda"]
held-out = true
"#;

/// A file of settings for some source.
const TUNED: &str = r#"kind = "settings"
format = 1
op = "scale"
device = "NVIDIA H200"
capability = "9.0"
multiprocessors = 132
source = "SOURCE"
op_toml = "0000000000000000000000000000000000000000000000000000000000000000"

[[setting]]
workload = "few"
date = "2026-11-22"
driver = "580.1"
compiler = "nvrtc 13.0"
protocol = 1
judged = 6
right = 6
seconds = 1e-5

[setting.dtypes]
T = "f32"

[setting.axes]
rows = 700

[setting.range]
rows = [350, 1400]

[setting.tuning]
block = 256
stream = false
"#;

const NOWHERE: &str = "1111111111111111111111111111111111111111111111111111111111111111";

fn project() -> Sandbox {
    let sandbox = Sandbox::new();
    sandbox.write("work/scale/op.toml", OP);
    sandbox.write("work/scale/scale.cu", "// nothing here is compiled\n");
    sandbox.write("work/scale/scale.cuh", "#define FACTOR 3\n");
    sandbox.write("work/scale/reference.py", "def scale(input):\n    return input * 3\n");
    sandbox
}

/// Runs a verb where no GPU is seen.
fn run(sandbox: &Sandbox, arguments: &[&str]) -> Ended {
    finish(sandbox.command(arguments).env("CUDA_VISIBLE_DEVICES", ""))
}

/// The digest of the project's source, as the warning about another one has it.
fn source(sandbox: &Sandbox) -> String {
    sandbox.write("work/scale/tuned/nvidia-h200.toml", &TUNED.replace("SOURCE", NOWHERE));
    let told = run(sandbox, &["screen", "scale"]).stderr;
    let here = told.split("here it is ").nth(1).and_then(|rest| rest.split(')').next());
    here.unwrap_or_else(|| panic!("no digest in {told}")).to_owned()
}

#[test]
fn without_a_gpu_nothing_is_filled_and_nothing_is_written() {
    let sandbox = project();
    let before = tree(&sandbox.work());
    run(&sandbox, &["fill", "scale"]).refused(16, &["bench::no_gpu", "there is no GPU to screen on"]);
    assert_eq!(tree(&sandbox.work()), before);
}

#[test]
fn what_cannot_be_filled_is_said_before_a_gpu_is_asked_for() {
    let sandbox = project();
    let refused = |arguments: &[&str], code, words: &[&str]| {
        let arguments: Vec<&str> = ["fill", "scale"].into_iter().chain(arguments.iter().copied()).collect();
        run(&sandbox, &arguments).refused(code, words);
    };
    refused(&["--workload", "many"], 16, &["bench::unknown_workload", "`many`", "few"]);
    refused(&["--workload", "secret"], 19, &["agent::held_out", "`secret`"]);
    let tune = OP.find("[tune.block]").expect("a section")..OP.find("[launch]").expect("a section");
    let op = format!("{}{}", &OP[..tune.start], &OP[tune.end..]);
    let op = op.replace("\"block\", \"stream\"", "128, true").replace("\"block\"", "128");
    sandbox.write("work/scale/op.toml", &op.replace("rows, block", "rows, 128"));
    refused(&[], 19, &["agent::no_tunables", "[tune.NAME]"]);
}

#[test]
fn bad_flags_are_usage_errors() {
    let sandbox = project();
    for (flags, word) in [
        (&["--agent", "nobody"][..], "tuner"),
        (&["--budget", "0"], "between 0.01"),
        (&["--budget", "soon"], "not a number"),
        (&["--budget", "inf"], "between 0.01"),
        (&["--candidates", "0"], "--candidates"),
        (&["--seed", "often"], "--seed"),
    ] {
        let arguments: Vec<&str> = ["fill", "scale"].into_iter().chain(flags.iter().copied()).collect();
        run(&sandbox, &arguments).refused(2, &[word]);
    }
    for verb in ["verify", "bench"] {
        run(&sandbox, &[verb, "scale", "--untuned"]).refused(2, &["--device"]);
    }
    for (flags, word) in [
        (
            &["--drawn", "7", "--workload", "few"][..],
            "'--drawn <SEED>' cannot be used with '--workload <NAME>'",
        ),
        (&["--drawn", "7", "--write-dispatch"], "cannot be used with"),
        (&["--drawn", "often"], "--drawn"),
        (&["--drawn", "7", "--count", "0"], "0 is not in 1..=1000"),
        (&["--count", "3"], "--drawn <SEED>"),
    ] {
        let arguments: Vec<&str> = ["bench", "scale"].into_iter().chain(flags.iter().copied()).collect();
        run(&sandbox, &arguments).refused(2, &[word]);
    }
    // Said before the code is compiled and judged, which takes long.
    let ended = run(&sandbox, &["bench", "scale", "--device", "--workload", "nothing"]);
    ended.refused(16, &["bench::unknown_workload", "`nothing`"]);
    assert!(!ended.stderr.contains("compile"), "{}", ended.stderr);
    let fixed = OP.replace("type = \"var\", min = 1", "type = \"const\", value = 700");
    let fixed =
        fixed.replace("axes = { rows = 700 }", "axes = {}").replace("axes = { rows = 900 }", "axes = {}");
    sandbox.write("work/scale/op.toml", &fixed);
    let ended = run(&sandbox, &["bench", "scale", "--device", "--drawn", "7"]);
    ended.refused(16, &["bench::nothing_drawn", "no axis has a length that varies", "leave out `--drawn`"]);
    assert!(!ended.stderr.contains("compile"), "{}", ended.stderr);
}

#[test]
fn settings_of_another_source_are_ignored_with_a_warning() {
    let sandbox = project();
    let first = source(&sandbox);
    let ended = run(&sandbox, &["screen", "scale"]);
    ended
        .refused(16, &["tuned/nvidia-h200.toml is ignored", NOWHERE, "`kernelwright fill`", "bench::no_gpu"]);
    // Without them nothing is said of them.
    assert!(!run(&sandbox, &["screen", "scale", "--untuned"]).stderr.contains("tuned/"));
    // A header that it includes is a part of the source, another one and the reference are not.
    sandbox.write("work/scale/reference.py", "def scale(input):\n    return 3 * input\n");
    sandbox.write("work/scale/scale.cuh", "#define FACTOR 4\n");
    assert_eq!(source(&sandbox), first);
    let text = sandbox.read("work/scale/scale.cu");
    sandbox.write("work/scale/scale.cu", &format!("#include \"scale.cuh\"\n{text}"));
    let with = source(&sandbox);
    sandbox.write("work/scale/scale.cuh", "#define FACTOR 5\n");
    assert!(with != first && source(&sandbox) != with);
}

#[test]
fn settings_of_this_source_are_read() {
    let sandbox = project();
    let here = TUNED.replace("SOURCE", &source(&sandbox));
    let with = |text: &str| {
        sandbox.write("work/scale/tuned/nvidia-h200.toml", text);
        run(&sandbox, &["screen", "scale"])
    };
    let ended = with(&here);
    ended.refused(16, &["no NVIDIA GPU here, so tuned/nvidia-h200.toml is not used", "bench::no_gpu"]);
    for (from, to, why) in [
        ("block = 256", "blocks = 256", "`blocks`, which is not a tunable of op.toml"),
        ("block = 256", "block = 100", "block = 100, which is not one of the values"),
        ("stream = false\n", "", "no value for `stream`"),
        ("[350, 1400]", "[350, 9000]", "ranges do not follow"),
        ("format = 1", "format = 9", "format 9"),
        ("seconds = 1e-5", "seconds = \"fast\"", "invalid type"),
    ] {
        with(&here.replacen(from, to, 1))
            .refused(19, &["agent::tuned", "tuned/nvidia-h200.toml", why, "--untuned"]);
        let verify = ["verify", "--device", "scale"];
        run(&sandbox, &verify).refused(19, &["agent::tuned", why]);
    }
    // A dispatch table is something else, and another operation's settings are not this project's.
    assert!(!with("format = 1\n").stderr.contains("agent::tuned"));
    let other = with(&here.replace("op = \"scale\"", "op = \"other\""));
    assert!(!other.stderr.contains("tuned/"), "{}", other.stderr);
}

#[test]
fn every_template_can_be_screened() {
    let sandbox = Sandbox::new();
    let mut sampled = 0;
    for (name, _) in sandbox.projects_of_every_template().iter().filter(|(_, backends)| *backends == "cuda") {
        // Settings are chosen before a GPU is looked for.
        let ended = run(&sandbox, &["screen", name, "--limit", "40"]);
        if !sandbox.read(&format!("work/{name}/op.toml")).contains("[launch") {
            ended.refused(10, &["spec::no_launch"]);
            continue;
        }
        ended.refused(16, &["bench::no_gpu"]);
        if ended.stderr.contains("note: screening 40 of ") {
            assert!(ended.stderr.contains(" settings of [tune], drawn with --seed 0"), "{}", ended.stderr);
            sampled += 1;
        }
    }
    assert!(sampled > 0, "no template has more than 40 settings");
    run(&sandbox, &["screen", "k-rms-norm-cuda", "--limit", "5", "--all"]).refused(2, &["--limit", "--all"]);
    let few = run(&sandbox, &["screen", "k-rms-norm-cuda", "--samples", "3"]);
    few.refused(2, &["3 is not in 6..=1000"]);
}
