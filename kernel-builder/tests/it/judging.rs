//! `build --load` with a client that is a shell script: what it takes is compared with what it should; and which torch
//! judges, where none is fetched.

use super::build_fakes::{GOOD, LIBRARY, VARIANT, build, compiler, fakes};
use super::sandbox::{Ended, Sandbox};

/// The full ABI of the same torch, which the client takes after the stable one.
const FULL: &str = "torch210-cxx11-cpu-x86_64-linux";

/// What the fake client answers about `$folder`, a line a backend.
const FIRST: &str = "answer $(ls \"$folder/build\" | head -n 1)";
const LAST: &str = "answer $(ls \"$folder/build\" | tail -n 1)";
const RAISES: &str = "case $(ls \"$folder/build\") in \
    torch2*) echo '{\"backend\": \"cpu\", \"variant\": null, \"reason\": \"ImportError: no symbol warp\"}' ;; \
    *) answer $(ls \"$folder/build\" | head -n 1) ;; esac";
const SKIPS: &str =
    "echo '{\"backend\": \"cpu\", \"variant\": null, \"reason\": \"takes none\", \"skipped\": true}'";
const SILENT: &str = "echo hello";
const CRASHES: &str = "answer $(ls \"$folder/build\" | head -n 1); kill -SEGV $$";

/// A cpu project, and a Python with this torch (`null`: without) that answers for the client of version 0.17.2.
fn project(torch: &str, client: &str) -> Sandbox {
    let sandbox = fakes(GOOD);
    python(&sandbox, torch, client);
    sandbox
}

fn python(sandbox: &Sandbox, torch: &str, client: &str) {
    let about = format!(
        r#"{{"program": "{}", "version": "3.11.7", "tag": "cp311-x86_64", "headers": "", "sites": ["{}"],
        "torch": {torch}, "torch_dir": "{}", "numpy": true, "client": "0.17.2", "why": "torch is not installed there"}}"#,
        sandbox.path("bin/python3").display(),
        // The answer of a Python is remembered as long as its folders do not change.
        sandbox.path(&format!("site-{}", torch.trim_matches('"'))).display(),
        sandbox.path("torch").display()
    );
    let script = format!(
        "answer() {{ echo \"{{\\\"backend\\\": \\\"cpu\\\", \\\"variant\\\": \\\"$1\\\", \\\"names\\\": [\\\"norm\\\"]}}\"; }}\n\
         for folder; do :; done\n\
         case \"$*\" in *get_local_kernel*) {client} ;; *) echo '{}' ;; esac",
        about.replace('\n', " ")
    );
    sandbox.fake("python3", &script);
}

/// Two variants, both for torch 2.10.
fn load(sandbox: &Sandbox, more: &[&str]) -> Ended {
    build(sandbox, &[&["--variant", VARIANT, "--variant", FULL, "--load"], more].concat())
}

#[test]
fn every_variant_is_loaded_and_the_best_is_taken_of_all() {
    let sandbox = project("\"2.10.0\"", FIRST);
    let loaded = load(&sandbox, &["--message-format", "json"]);
    assert_eq!(loaded.code, 0, "{}", loaded.stderr);
    let result = loaded.event("result");
    for (place, variant) in [VARIANT, FULL].into_iter().enumerate() {
        let row = &result["variants"][place];
        assert_eq!((row["variant"].as_str(), row["loaded_with"].as_str()), (Some(variant), Some("2.10.0")));
    }
    assert_eq!(result["together"][0]["variant"], VARIANT, "{result}");
    let told = load(&sandbox, &[]).stdout;
    assert!(told.contains("gates: 7 passed  loaded with torch 2.10.0\n"), "{told}");
    assert!(told.contains(&format!("under torch 2.10.0 the client takes for cpu: {VARIANT}\n")), "{told}");
}

#[test]
fn a_client_that_takes_another_variant_fails_the_build() {
    let sandbox = project("\"2.10.0\"", LAST);
    let words = ["load::preference", &format!("takes `{FULL}` for cpu, not `{VARIANT}`"), "--client"];
    load(&sandbox, &[]).refused(21, &words);
}

#[test]
fn what_the_client_does_not_load_is_said_of_that_variant() {
    let sandbox = project("\"2.10.0\"", RAISES);
    let loaded = load(&sandbox, &["--message-format", "json"]);
    assert_eq!(loaded.code, 21, "{}", loaded.stderr);
    let rows = loaded.event("result")["variants"].clone();
    assert_eq!(rows[0]["loaded_with"], "2.10.0", "{rows}");
    let failed = rows[1]["load_failed"].as_str().unwrap_or_default();
    assert!(failed.contains(FULL) && failed.contains("no symbol warp"), "{rows}");
    let told = load(&sandbox, &[]);
    told.refused(21, &["load::client", "no symbol warp"]);
    assert!(told.stdout.contains("FAILS to load: "), "{}", told.stdout);
}

#[test]
fn what_the_torch_at_hand_does_not_take_is_no_failure_unless_it_should() {
    // Alone, each is skipped; of both together the client should have taken one.
    load(&project("\"2.10.0\"", SKIPS), &[]).refused(21, &["load::preference", "takes nothing for cpu"]);
}

#[test]
fn a_client_that_says_nothing_or_crashes_is_not_believed() {
    load(&project("\"2.10.0\"", SILENT), &[]).refused(21, &["load::client", "did not report it"]);
    load(&project("\"2.10.0\"", CRASHES), &[]).refused(21, &["load::client", "SIGSEGV"]);
}

#[test]
fn a_named_torch_is_the_only_one_and_is_not_fetched_offline() {
    let sandbox = project("\"2.10.0\"", FIRST);
    assert_eq!(build(&sandbox, &["--variant", VARIANT, "--variant", FULL]).code, 0);
    let verify = |more: &[&str]| sandbox.run(&[&["verify", "fast-norm", "--prebuilt"], more].concat());
    verify(&["--torch", "2.14"]).refused(13, &["toolchain::offline", "torch 2.14"]);
    // Seen before anything is fetched.
    let full = ["--variant", FULL, "--torch", "2.14"];
    verify(&full).refused(11, &["plan::other_torch", "2.14", FULL, "stable ABI"]);
    verify(&["--torch", "2.9"]).refused(13, &["toolchain::unknown_torch", "2.9", "2.10"]);
    verify(&["--torch", "new"]).refused(2, &["--torch"]);
    sandbox.write("work/dist/build/torch-cpu/metadata.json", "{}\n");
    sandbox.run(&["load", "dist", "--torch", "2.14"]).refused(13, &["toolchain::offline", "torch 2.14"]);
}

#[test]
fn an_installed_torch_judges_and_no_other_is_fetched_beside_it() {
    let sandbox = project("\"2.10.0\"", FIRST);
    assert_eq!(build(&sandbox, &["--variant", VARIANT, "--variant", FULL]).code, 0);
    python(&sandbox, "\"2.11.0\"", FIRST);
    let full = ["verify", "fast-norm", "--prebuilt", "--variant", FULL];
    let judged = sandbox.run(&full);
    assert_eq!(judged.code, 0, "{}", judged.stderr);
    for words in [
        "6 checks passed, 3 skipped",
        "does not support torch 2.11.0",
        "`kernelwright verify --torch 2.10` judges it",
    ] {
        assert!(judged.stdout.contains(words), "`{words}` is not in:\n{}", judged.stdout);
    }
    // Without any torch the one that the build is for is wanted, and nothing else.
    python(&sandbox, "null", FIRST);
    let wanted = sandbox.run(&full);
    wanted.refused(13, &["toolchain::offline", "torch 2.10.0 for Python 3.11.7"]);
    assert!(!wanted.stderr.contains("2.15"), "{}", wanted.stderr);
}

#[test]
fn nothing_is_loaded_of_what_a_gate_refuses() {
    let sandbox = project("\"2.10.0\"", FIRST);
    compiler(&sandbox, GOOD, "make_library '.globl helper; helper: ret' ''");
    load(&sandbox, &[]).refused(15, &["verify::symbols", "exports `helper`"]);
    compiler(&sandbox, GOOD, LIBRARY);
}

#[test]
fn a_build_is_verified_if_it_was_called_and_the_package_says_where() {
    let sandbox = project("\"2.10.0\"", FIRST);
    assert_eq!(build(&sandbox, &["--variant", FULL]).code, 0);
    // This torch does not load the build, so nothing calls it.
    python(&sandbox, "\"2.11.0\"", FIRST);
    let run = |words: &[&str]| {
        let ended = sandbox.run(&[words, &["--message-format", "json"]].concat());
        assert_eq!(ended.code, 0, "{}{}", ended.stdout, ended.stderr);
        ended
    };
    let verify = ["verify", "fast-norm", "--prebuilt", "--variant", FULL];
    let judged = run(&verify);
    assert_eq!(judged.event("result")["variants"][0]["results"], "not checked");
    let done = judged.events().into_iter().rfind(|event| event["event"] == "done").expect("a step");
    assert_eq!(done["action"], "checked", "{done}");
    let words = sandbox.run(&verify).stdout;
    assert!(words.contains("6 checks passed, 3 skipped; results not checked\n"), "{words}");
    let package = ["package", "fast-norm", "--prebuilt", "--variant", FULL];
    assert_eq!(run(&package).event("result")["bundle"]["status"][0]["judged"], serde_json::Value::Null);
    let card = "work/fast-norm/build/CARD.md";
    assert!(
        sandbox.read(card).contains(&format!("- `{FULL}`: results not checked\n")),
        "{}",
        sandbox.read(card)
    );
    // The verdict of another machine, which called it.
    let verdict = format!("work/fast-norm/.kernelwright/verdicts/{FULL}.json");
    let mut evidence: serde_json::Value = serde_json::from_str(&sandbox.read(&verdict)).expect("JSON");
    let calls =
        r#"{"name": "calls", "code": "verify::hang", "outcome": "passed", "summary": "", "facts": {}}"#;
    evidence["checks"].as_array_mut().expect("checks").push(serde_json::from_str(calls).expect("JSON"));
    evidence["environment"]["device"] = "NVIDIA H200".into();
    evidence["environment"]["torch"] = "2.11.0".into();
    evidence["environment"]["driver"] = "580.1".into();
    evidence["when"] = 951_782_400.into();
    sandbox.write(&verdict, &evidence.to_string());
    assert_eq!(run(&verify).event("result")["variants"][0]["results"], "checked");
    let status = run(&package).event("result")["bundle"]["status"].clone();
    assert_eq!(status[0]["judged"]["device"], "NVIDIA H200", "{status}");
    let line = format!("- `{FULL}`: results checked on NVIDIA H200 (driver 580.1, PyTorch 2.11.0, protocol ");
    assert!(sandbox.read(card).contains(&line), "{}", sandbox.read(card));
    let published = sandbox.run(&["publish", "fast-norm", "--to", "dist"]).stdout;
    assert!(published.contains(&format!("  {FULL}: results checked on NVIDIA H200 (")), "{published}");
    assert_eq!(run(&["publish", "fast-norm", "--to", "other"]).event("result")["status"], status);
}
