//! What `build` does when something fails or it is killed itself, what it tells meanwhile, and the report that it leaves.

use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::process::Stdio;

use rustix::fs::{CWD, Mode, mkfifoat};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use super::build_fakes::{COMPLAINS, GOOD, LIBRARY, VARIANT, build, compiled, compiler, fakes, objects};
use super::sandbox::Sandbox;

const JSON: &[&str] = &["--message-format", "json"];
const STATE: &str = "work/fast-norm/.kernelwright";

/// The project gets one more backend, for which it ships Python alone.
fn with_python_for_cuda(sandbox: &Sandbox) {
    let text = sandbox.read("work/fast-norm/build.toml");
    assert!(text.contains("backends = [\"cpu\"]"), "{text}");
    sandbox.write("work/fast-norm/build.toml", &text.replace("[\"cpu\"]", "[\"cpu\", \"cuda\"]"));
}

fn report(sandbox: &Sandbox) -> Value {
    serde_json::from_str(&sandbox.read(&format!("{STATE}/report.json"))).expect("JSON")
}

#[test]
fn one_variant_fails_and_the_other_is_built_and_listed() {
    let sandbox = fakes(COMPLAINS);
    with_python_for_cuda(&sandbox);
    let built = build(&sandbox, JSON);
    assert_eq!(built.code, 14, "{}\n{}", built.stdout, built.stderr);
    let result = built.event("result");
    assert_eq!(result["artifacts"][0]["variant"], "torch-cuda", "{result}");
    assert_eq!(result["artifacts"].as_array().map(Vec::len), Some(1));
    let failed = &result["failed"];
    assert_eq!(failed.as_array().map(Vec::len), Some(1), "{failed}");
    assert_eq!(failed[0]["variants"], serde_json::json!([VARIANT]));
    assert_eq!(failed[0]["unit"], "fast_norm_cpu/rms_norm.cpp");
    assert_eq!(failed[0]["code"], "compile::unit");
    assert!(sandbox.path(&format!("{STATE}/artifacts/torch-cuda/_ops.py")).exists());
    // People read the reason, and last what is missing.
    let said = build(&sandbox, &[]);
    said.refused(14, &["'warp' was not declared", "1 of 2 variants were built; failed: torch-stable"]);
    assert!(said.stdout.contains("torch-cuda"), "{}", said.stdout);
    assert_eq!(report(&sandbox)["end"], "failed");
    compiler(&sandbox, GOOD, LIBRARY);
    let whole = build(&sandbox, JSON);
    assert_eq!(whole.code, 0, "{}", whole.stderr);
    assert_eq!(whole.event("result")["artifacts"].as_array().map(Vec::len), Some(2));
    assert_eq!(whole.event("result")["failed"], serde_json::json!([]));
}

#[test]
fn fail_fast_begins_nothing_more() {
    let sources = |fail_fast: &[&str]| {
        let sandbox = fakes(COMPLAINS);
        let text = sandbox.read("work/fast-norm/build.toml");
        let first = "\"fast_norm_cpu/rms_norm.cpp\"";
        assert!(text.contains(first), "{text}");
        let more = format!("{first}, \"fast_norm_cpu/second.cpp\"");
        sandbox.write("work/fast-norm/build.toml", &text.replace(first, &more));
        sandbox.write("work/fast-norm/fast_norm_cpu/second.cpp", "int second() { return 2; }\n");
        build(&sandbox, &[&["--jobs", "1"], fail_fast].concat()).refused(14, &["compile::unit"]);
        compiled(&sandbox).len()
    };
    // Which source is first is nobody's promise: the binding compiles, the other two do not.
    let begun = sources(&["--fail-fast"]);
    assert!(begun < 3, "{begun}");
    assert_eq!(sources(&[]), 3);
    assert_eq!(sources(&["--fail-fast", "--keep-going"]), 3, "the last one counts");
}

#[test]
fn killed_itself_it_leaves_no_compiler_and_nothing_half_written_and_goes_on_later() {
    let sandbox = fakes("");
    let pipe = sandbox.path("pipe");
    mkfifoat(CWD, &pipe, Mode::RUSR | Mode::WUSR).expect("a named pipe");
    // A driver that waits for the child which does the work, as g++ for cc1plus; both hold the pipe open.
    // It is one compiler all along: another would have to compile everything again.
    let driver = "if [ -e GOOD ]; then make_object \"$@\"; exit 0; fi
      exec 3> PIPE; echo half > \"$out\"; (echo started >&3; exec sleep 600) & wait; exit 1";
    let place = |path: &std::path::Path| format!("'{}'", path.display());
    let driver = driver.replace("PIPE", &place(&pipe)).replace("GOOD", &place(&sandbox.path("good")));
    compiler(&sandbox, &driver, LIBRARY);
    let mut child = sandbox
        .command(&["build", "fast-norm", "--toolchain", "system", "--jobs", "2", "--message-format", "json"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program starts");
    let mut lines = BufReader::new(File::open(&pipe).expect("the pipe"));
    let mut line = String::new();
    lines.read_line(&mut line).expect("a line");
    assert_eq!(line, "started\n");
    // The other unit is done as soon as the program says so.
    let said = BufReader::new(child.stdout.take().expect("a pipe")).lines();
    let done = |line: &String| line.contains("\"event\":\"done\"") && line.contains("torch_binding.cpp");
    assert!(said.map_while(Result::ok).any(|line| done(&line)));
    kill_process(Pid::from_child(&child), Signal::KILL).expect("the program is there");
    child.wait().expect("it ends");
    // Reading to the end waits until nobody holds the pipe: the driver and its child are gone.
    lines.read_to_string(&mut line).expect("the end of the pipe");
    assert!(!sandbox.path(&format!("{STATE}/artifacts")).exists());
    sandbox.write("good", "");
    sandbox.write("compiled.log", "");
    let again = build(&sandbox, JSON);
    assert_eq!(again.code, 0, "{}", again.stderr);
    assert_eq!(compiled(&sandbox), ["fast_norm_cpu/rms_norm.cpp"], "the binding was done");
    let object = objects(&sandbox).into_iter().find(|file| file.contains("rms_norm.cpp")).expect("an object");
    assert!(sandbox.read(&format!("{STATE}/{object}")).starts_with("object: "));
}

#[test]
fn another_build_of_the_same_project_waits_and_compiles_nothing_again() {
    let sandbox = fakes("");
    let [started, go] = ["started", "go"].map(|name| sandbox.path(name));
    for pipe in [&started, &go] {
        mkfifoat(CWD, pipe, Mode::RUSR | Mode::WUSR).expect("a named pipe");
    }
    let waits = format!(
        "echo half > \"$out\"; echo started > '{}'; read line < '{}'; make_object \"$@\"",
        started.display(),
        go.display()
    );
    compiler(&sandbox, &waits, LIBRARY);
    let start = |log: &str| {
        let mut command = sandbox.command(&["build", "fast-norm", "--toolchain", "system"]);
        command.env("KERNELWRIGHT_LOG", log);
        command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("the program starts")
    };
    let first = start("error");
    // Opened as soon as the compiler opens it.
    File::open(&started).expect("the pipe").read_to_string(&mut String::new()).expect("its end");
    let mut second = start("lock=info");
    let mut said = BufReader::new(second.stderr.take().expect("a pipe")).lines().map_while(Result::ok);
    assert!(
        said.any(
            |line| line.contains(" INFO lock: waiting for ") && line.contains("build.lock, which another")
        )
    );
    assert!(said.any(|line| line.contains("waiting for another build of this project")));
    File::create(&go).and_then(|mut pipe| pipe.write_all(b"go\n")).expect("the pipe");
    let ended = first.wait_with_output().expect("it ends");
    assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stderr));
    let rest: Vec<String> = said.collect();
    assert!(second.wait().expect("it ends").success(), "{rest:?}");
    assert!(rest.iter().any(|line| line.contains(" INFO lock: got ") && line.ends_with(" s")), "{rest:?}");
    assert_eq!(compiled(&sandbox), ["fast_norm_cpu/rms_norm.cpp", "torch-ext/torch_binding.cpp"]);
}

#[test]
fn programs_are_told_of_every_process_and_of_the_progress() {
    let sandbox = fakes(GOOD);
    let events = build(&sandbox, JSON).events();
    let of = |events: &[Value], unit: &str, state: &str| -> Vec<Value> {
        let is = |line: &&Value| line["event"] == "unit" && line["unit"] == unit && line["state"] == state;
        events.iter().filter(is).cloned().collect()
    };
    let source = "fast_norm_cpu/rms_norm.cpp";
    let started = of(&events, source, "started");
    let finished = of(&events, source, "finished");
    assert_eq!(started.len(), finished.len(), "{events:?}");
    let compile = finished.iter().find(|line| line["step"] == "compile").expect("a compile");
    assert_eq!(compile["variants"], serde_json::json!([VARIANT]));
    assert_eq!((&compile["ended"], &compile["cached"]), (&Value::from("well"), &Value::from(false)));
    assert!(compile["seconds"].is_f64() && compile["peak_memory"].is_u64(), "{compile}");
    let progress = events.iter().rfind(|line| line["event"] == "progress").expect("progress");
    assert_eq!((&progress["done"], &progress["total"]), (&Value::from(2), &Value::from(2)), "{progress}");
    assert_eq!(progress["variants_done"], 1);
    let again = build(&sandbox, JSON).events();
    let cached = of(&again, source, "finished");
    assert_eq!(cached.len(), 1, "{again:?}");
    assert!(cached[0]["cached"] == true && cached[0]["step"].is_null(), "{cached:?}");
}

#[test]
fn the_report_is_about_the_last_build_that_did_something() {
    let sandbox = fakes(GOOD);
    assert_eq!(build(&sandbox, &[]).code, 0);
    let first = report(&sandbox);
    assert_eq!((&first["end"], &first["format"]), (&Value::from("complete"), &Value::from(1)));
    let units: Vec<&str> =
        first["steps"].as_array().expect("steps").iter().filter_map(|step| step["unit"].as_str()).collect();
    assert!(units.contains(&"link") && units.contains(&"torch-ext/torch_binding.cpp"), "{units:?}");
    let page = sandbox.read(&format!("{STATE}/report.html"));
    assert!(page.starts_with("<!doctype html>") && page.ends_with("</html>\n"), "{page}");
    // Nothing is done the second time, and the page stays; asked for it, it is written.
    assert_eq!(build(&sandbox, &[]).code, 0);
    assert_eq!(report(&sandbox), first);
    assert_eq!(build(&sandbox, &["--report", "here.html"]).code, 0);
    assert!(sandbox.read("work/here.html").contains("from earlier runs"));
    assert_eq!(report(&sandbox)["steps"], serde_json::json!([]));
}
