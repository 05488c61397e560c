//! `report` and `reproduce` from outside: what is read, what is written, and what is refused before anything is built.

use super::old_records::old_record;
use super::sandbox::Sandbox;

/// Records of protocol 1, as an H200 gave them.
fn kept() -> &'static str {
    old_record("2026-11-21-h200-rms-norm.jsonl")
}

#[test]
fn a_report_is_one_page_of_any_records() {
    let sandbox = Sandbox::new();
    sandbox.write("work/records.jsonl", kept());
    let made = sandbox.run(&["report", "records.jsonl", "-o", "out/page.html"]);
    assert_eq!((made.code, made.stdout.as_str()), (0, "out/page.html  28 records\n"), "{}", made.stderr);
    let page = sandbox.read("work/out/page.html");
    assert!(page.starts_with("<!doctype html>") && page.contains("<h1>rms_norm on NVIDIA H200</h1>"));
    assert!(!page.contains("<script") && !page.contains("http"), "it needs nothing else");
    let made = sandbox.run(&["report", "records.jsonl", "-o", "again.html", "--message-format", "json"]);
    assert_eq!(made.event("result")["records"], 28);
    assert_eq!(sandbox.read("work/again.html"), page, "the same records, the same page");
    sandbox.run(&["report", "-o", "x.html"]).refused(2, &["<RECORD>"]);
}

#[test]
fn records_of_models_and_of_kernels_have_pages_of_their_own() {
    let sandbox = Sandbox::new();
    sandbox.write("work/records.jsonl", kept());
    sandbox.write("work/e2e.jsonl", include_str!("../../../bench/results/2026-11-28-h200-e2e-third.jsonl"));
    let both = ["report", "records.jsonl", "e2e.jsonl", "-o", "page.html"];
    sandbox
        .run(&both)
        .refused(20, &["archive::two_kinds", "`e2e.jsonl` has records of models", "records.jsonl"]);
    sandbox
        .run(&["report", "e2e.jsonl", "none.jsonl", "-o", "x.html"])
        .refused(20, &["archive::no_record", "none"]);
    assert_eq!(sandbox.run(&["report", "e2e.jsonl", "-o", "page.html"]).code, 0);
    assert!(sandbox.read("work/page.html").contains("qwen3-8b"));
}

#[test]
fn what_is_no_record_is_told_by_line() {
    let sandbox = Sandbox::new();
    let first = kept().lines().next().expect("a line");
    sandbox.write("work/bad.jsonl", &format!("{first}\n{{\"protocol\": 1}}\n"));
    sandbox.write("work/empty.jsonl", "\n");
    for verb in [["report", "-o", "x.html"].as_slice(), &["reproduce"]] {
        let run = |name: &str| sandbox.run(&[verb, &[name]].concat());
        run("bad.jsonl").refused(20, &["archive::bad_record", "line 2 of `bad.jsonl`", "missing field"]);
        run("empty.jsonl").refused(20, &["archive::empty", "empty.jsonl"]);
        run("0123456789ab").refused(20, &["archive::no_record", "0123456789ab"]);
    }
}

#[test]
fn a_record_is_reproduced_in_its_own_project() {
    let sandbox = Sandbox::new();
    sandbox.project("fast-norm", "cpu");
    let first = kept().lines().next().expect("a line");
    sandbox.write("work/one.jsonl", first);
    sandbox.write("work/other.jsonl", &first.replace("\"op\":\"rms_norm\"", "\"op\":\"softmax\""));
    sandbox.run(&["reproduce", "one.jsonl"]).refused(10, &["spec::no_project"]);
    sandbox
        .run(&["reproduce", "other.jsonl", "fast-norm"])
        .refused(16, &["bench::other_operation", "`softmax`", "`rms_norm`"]);
    // The record is of a variant for CUDA, and nothing was built for it.
    let found = sandbox.run(&["reproduce", "one.jsonl", "fast-norm", "--prebuilt"]);
    found.refused(11, &["torch-stable-abi211-cu130-x86_64-linux"]);
}
