//! `hub`, and what `new` asks before it writes: answers of a hub are read, ranked, told; nothing else depends on them.

use serde_json::{Value, json};

use super::fake_hub::{Blob, FakeHub, Fault};
use super::publishing_hub::online;
use super::sandbox::{Ended, Sandbox, finish, tree};

const CARD: &str = "---\nlicense: mit\n---\n# Rms norm\n\nRoot mean squares, \u{1b}[31mfast.\n";
const METADATA: &str = r#"{"name":"fast-rms","license":"MIT","source":"https://github.com/a/fast-rms","provenance":{"kernel":{"commit":"0123abcd","dirty":false}}}"#;

/// A hub with three kernels: one by its name, one by its function, one of the same family.
fn stocked() -> FakeHub {
    let hub = FakeHub::start();
    let compiled: &[(&str, &str)] = &[
        ("README.md", CARD),
        (
            "build/torch-stable-abi210-cpu-x86_64-linux/__init__.py",
            "from ._ops import ops\n__all__ = [\"rms_norm\"]\n",
        ),
        ("build/torch-stable-abi210-cpu-x86_64-linux/_k.abi3.so", "\u{7f}ELF"),
        ("build/torch-stable-abi210-cpu-x86_64-linux/metadata.json", METADATA),
    ];
    hub.repository("a/fast-rms-norm", &["main", "v1", "v2"], compiled);
    let triton: &[(&str, &str)] = &[
        ("README.md", "# Layers\n"),
        ("build/torch-cuda/__init__.py", "from .norms import rms_norm, layer_norm\n"),
        ("build/torch-cuda/norms.py", "def rms_norm(x): ...\ndef layer_norm(x): ...\n"),
        ("build/torch-cuda/table.json", "{}"),
        ("build/torch-cuda/_ops.py", "ops = None\n"),
        ("build/torch-cuda/metadata.json", r#"{"license":"Apache-2.0"}"#),
        ("build/torch-cpu/__init__.py", "from .norms import rms_norm, layer_norm\n"),
        ("build/torch-cpu/norms.py", "def rms_norm(x): ...\ndef layer_norm(x): ...\n"),
    ];
    hub.repository("b/norms", &["main", "v1"], triton);
    hub.repository("c/group-norm", &["main"], &[("README.md", "# Groups\n")]);
    hub.state().listed = vec![
        json!({ "id": "c/group-norm", "likes": 2 }),
        json!({ "id": "b/norms", "downloads": 10 }),
        json!({ "id": "a/fast-rms-norm", "downloads": 1000, "likes": 5, "lastModified": "2026-10-01" }),
        json!({ "id": "not a repository/at all", "tags": ["rms-norm"] }),
    ];
    hub
}

fn ask(sandbox: &Sandbox, hub: &FakeHub, words: &[&str]) -> Ended {
    finish(online(sandbox, hub, words).args(["--message-format", "json"]))
}

fn ids(result: &Value) -> Vec<&str> {
    result["kernels"].as_array().expect("kernels").iter().filter_map(|one| one["id"].as_str()).collect()
}

#[test]
fn a_search_ranks_by_what_speaks_for_a_kernel_and_says_it() {
    let (sandbox, hub) = (Sandbox::new(), stocked());
    let words = ["hub", "search", "rms_norm", "--backend", "cpu"];
    let result = ask(&sandbox, &hub, &words).event("result");
    // What cannot be a kernel's name is not shown.
    assert_eq!(ids(&result), ["a/fast-rms-norm", "b/norms", "c/group-norm"]);
    let [first, second, third] = result["kernels"].as_array().expect("kernels").as_slice() else {
        panic!("{result}")
    };
    assert_eq!(
        (&first["named"], &second["named"], &third["named"]),
        (&true.into(), &true.into(), &false.into())
    );
    assert_eq!((&first["license"], &first["versions"]), (&"mit".into(), &json!([2, 1])));
    assert_eq!((&second["license"], &second["backends"]), (&Value::Null, &json!(["cpu", "cuda"])));
    let why = first["why"].as_array().expect("reasons");
    assert!(
        why.contains(&"its package has `rms_norm`".into()) && why.contains(&"1000 downloads a month".into()),
        "{first}"
    );
    assert_eq!(
        ids(&ask(&sandbox, &hub, &[&words[..], &["--limit", "1"]].concat()).event("result")),
        ["a/fast-rms-norm"]
    );
    // For a person, and without anything that steers a terminal.
    let human = finish(&mut online(&sandbox, &hub, &words));
    assert!(human.stdout.contains("kernelwright hub show a/fast-rms-norm"), "{}", human.stdout);
    assert!(!human.stdout.contains('\u{1b}'), "{}", human.stdout);
    finish(&mut online(&sandbox, &hub, &["hub", "search", "fft", "--backend", "cud"]))
        .refused(2, &["possible values: cuda"]);
    let nothing = finish(&mut online(&sandbox, &hub, &["hub", "search", "fft"]));
    assert!(nothing.stdout.contains("no kernel found at "), "{}", nothing.stdout);
}

#[test]
fn an_op_toml_is_looked_for_by_its_operation_and_family() {
    let (sandbox, hub) = (Sandbox::new(), stocked());
    sandbox.project("my-norm", "cpu");
    for place in ["my-norm/op.toml", "my-norm"] {
        let result = ask(&sandbox, &hub, &["hub", "search", place]).event("result");
        assert_eq!(ids(&result)[..2], ["a/fast-rms-norm", "b/norms"], "{result}");
        assert!(result["asked"].as_array().is_some_and(|asked| asked.contains(&"norm".into())), "{result}");
    }
    // Lists that say no more than names are enough, and a page that is gone costs its facts alone.
    hub.state().listed = vec![json!({ "id": "a/fast-rms-norm" }), json!({ "id": "gone/rms-norm" })];
    let result = ask(&sandbox, &hub, &["hub", "search", "rms_norm"]).event("result");
    assert_eq!(ids(&result).len(), 2, "{result}");
}

#[test]
fn a_kernel_is_shown_with_what_its_files_say() {
    let (sandbox, hub) = (Sandbox::new(), stocked());
    let result = ask(&sandbox, &hub, &["hub", "show", "a/fast-rms-norm"]).event("result");
    let kernel = &result["kernel"];
    assert_eq!((&kernel["revision"], &kernel["ops"]), (&"v2".into(), &json!(["rms_norm"])));
    assert_eq!(
        (&kernel["source"], &kernel["source_commit"]),
        (&"https://github.com/a/fast-rms".into(), &"0123abcd".into())
    );
    assert_eq!((&kernel["downloads"], &result["card"]), (&1000.into(), &CARD.into()));
    let human = finish(&mut online(&sandbox, &hub, &["hub", "show", "a/fast-rms-norm@v1"])).stdout;
    assert!(
        human.contains("get_kernel('a/fast-rms-norm', version=1)") && !human.contains('\u{1b}'),
        "{human}"
    );
    let run = |words: &[&str]| finish(&mut online(&sandbox, &hub, words));
    run(&["hub", "show", "a/fast-rms-norm@v3"])
        .refused(22, &["hub::not_found", "no branch `v3`; it has main, v1, v2"]);
    run(&["hub", "show", "a/nothing"]).refused(22, &["hub::not_found", "a/nothing"]);
    run(&["hub", "show", "nothing"]).refused(2, &["OWNER/NAME"]);
    sandbox.run(&["hub", "show", "a/fast-rms-norm"]).refused(22, &["hub::offline", "KERNELWRIGHT_OFFLINE"]);
}

#[test]
fn a_kernel_in_python_becomes_a_project_that_check_takes() {
    let (sandbox, hub) = (Sandbox::new(), stocked());
    let result = ask(&sandbox, &hub, &["hub", "pull", "b/norms"]).event("result");
    assert_eq!(result["from"], "package");
    let expected = ["build.toml", "torch-ext/norms/__init__.py", "torch-ext/norms/norms.py"];
    let mut files = tree(&sandbox.path("work/norms"));
    files.retain(|path| !path.ends_with("table.json"));
    assert_eq!(files, expected);
    let checked = sandbox.run(&["check", "norms"]);
    assert_eq!(checked.code, 0, "{}{}", checked.stdout, checked.stderr);
    // A second time would overwrite.
    let again = finish(&mut online(&sandbox, &hub, &["hub", "pull", "b/norms"]));
    again.refused(12, &["build.toml"]);
}

#[test]
fn a_project_on_the_hub_is_taken_without_its_builds() {
    let (sandbox, hub) = (Sandbox::new(), stocked());
    let files = &[
        ("build.toml", "[general]\nname = \"own\"\n"),
        ("torch-ext/own/__init__.py", ""),
        (".gitattributes", ""),
        ("build/torch-cpu/x.so", ""),
    ];
    hub.repository("a/own", &["main", "v1"], files);
    let result = ask(&sandbox, &hub, &["hub", "pull", "a/own", "here"]).event("result");
    assert_eq!((&result["from"], &result["dir"]), (&"project".into(), &"here".into()));
    assert_eq!(tree(&sandbox.path("work/here")), ["build.toml", "torch-ext/own/__init__.py"]);
    // Names that lead out of the folder are refused, and nothing is written.
    hub.repository("a/sly", &["main"], &[("build.toml", ""), ("../home/.bashrc", "evil")]);
    let sly = finish(&mut online(&sandbox, &hub, &["hub", "pull", "a/sly"]));
    assert_ne!(sly.code, 0, "{}", sly.stdout);
    assert!(!sandbox.path("work/sly").exists() && !sandbox.path("home/.bashrc").exists());
}

#[test]
fn content_that_is_not_what_its_digest_says_becomes_no_project() {
    let (sandbox, hub) = (Sandbox::new(), stocked());
    hub.repository("a/own", &["main"], &[("build.toml", "[general]\n"), ("kernel.cu", "")]);
    let digest = "0".repeat(64);
    {
        let mut state = hub.state();
        state.objects.insert(digest.clone(), b"evil".to_vec());
        let trees = state.repos.get_mut("a/own").expect("it is there").commits.values_mut();
        for tree in trees {
            tree.insert("kernel.cu".to_owned(), Blob::Large { sha256: digest.clone(), size: 4 });
        }
    }
    finish(&mut online(&sandbox, &hub, &["hub", "pull", "a/own"]))
        .refused(22, &["hub::malformed", "`kernel.cu` of `a/own`", "digest"]);
    assert!(!sandbox.path("work/own").exists());
}

#[test]
fn what_a_hub_calls_a_commit_stays_in_its_line_of_build_toml() {
    let (sandbox, hub) = (Sandbox::new(), stocked());
    let repo = hub.state().repos.remove("b/norms").expect("it is there");
    let odd = "c0ffee\n[general.cuda]\u{1b}[31m";
    let mut repo = repo;
    let tree = repo.commits[&repo.branches["v1"]].clone();
    repo.branches.insert("v1".to_owned(), odd.to_owned());
    repo.commits.insert("c0ffee [general.cuda] [31m".to_owned(), tree);
    hub.state().repos.insert("b/norms".to_owned(), repo);
    let pulled = finish(&mut online(&sandbox, &hub, &["hub", "pull", "b/norms@v1"]));
    assert_eq!(pulled.code, 0, "{}", pulled.stderr);
    let text = sandbox.read("work/norms/build.toml");
    assert!(
        !text.contains('\u{1b}') && !text.lines().any(|line| line.starts_with("[general.cuda]")),
        "{text}"
    );
}

#[test]
fn of_binaries_alone_it_is_said_where_the_sources_are() {
    let (sandbox, hub) = (Sandbox::new(), stocked());
    let pulled = finish(&mut online(&sandbox, &hub, &["hub", "pull", "a/fast-rms-norm"]));
    let said = [
        "hub::no_sources",
        "1 compiled variants (cpu)",
        "git clone https://github.com/a/fast-rms",
        "git checkout 0123abcd",
    ];
    pulled.refused(22, &said);
    finish(&mut online(&sandbox, &hub, &["hub", "pull", "c/group-norm"]))
        .refused(22, &["hub::no_sources", "no builds either"]);
    assert!(tree(&sandbox.work()).is_empty());
}

#[test]
fn new_says_what_there_is_and_writes_its_project_in_any_case() {
    let (sandbox, hub) = (Sandbox::new(), stocked());
    let new = |name: &str| {
        online(&sandbox, &hub, &["new", name, "--template", "rms-norm", "--backends", "cpu", "--no-git"])
    };
    let told = |mut command: std::process::Command| {
        let ended = finish(&mut command);
        assert_eq!(ended.code, 0, "{}", ended.stderr);
        ended.stderr
    };
    let text = told(new("me/one"));
    assert!(text.contains("a/fast-rms-norm (cpu; mit): its name has `rms_norm`"), "{text}");
    assert!(text.contains("b/norms") && !text.contains("c/group-norm"), "{text}");
    hub.fail("GET /api/kernels", &[Fault::Answer(500, "", "")]);
    assert!(told(new("me/two")).contains("failed to check for similar kernels: failed to search"));
    hub.fail("GET /api/kernels", &[Fault::Silence]);
    assert!(told(new("me/three")).contains("did not answer within 3 s"));
    hub.state().listed.clear();
    assert!(told(new("me/four")).contains("has no kernel of this name or function"));
    hub.heard();
    for (name, variable) in [("five", "KERNELWRIGHT_OFFLINE"), ("six", "HF_HUB_OFFLINE"), ("seven", "CI")] {
        let mut command = new(&format!("me/{name}"));
        command.env(variable, "1");
        let text = told(command);
        assert!(text.contains("did not check the hub") && text.contains(variable), "{text}");
    }
    assert_eq!(hub.heard().len(), 0);
    assert!(sandbox.path("work/three/build.toml").exists() && sandbox.path("work/seven/build.toml").exists());
}
