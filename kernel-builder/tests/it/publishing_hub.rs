//! `publish` to a hub: what is sent, that it is sent once, and that nothing is lost when a line breaks.

use std::process::Command;

use serde_json::Value;
use sha2::{Digest as _, Sha256};

use super::fake_hub::{FakeHub, Fault, TOKEN};
use super::sandbox::{Ended, Sandbox, finish};

/// A project with a bundle in `build/`, as `package` leaves it; `_k.so` becomes a large file.
pub(crate) fn packaged() -> Sandbox {
    let sandbox = Sandbox::new();
    sandbox.project("fast-norm", "cpu");
    sandbox.write("work/fast-norm/build/CARD.md", "---\nlicense: apache-2.0\n---\n# fast-norm\n");
    sandbox.write("work/fast-norm/build/torch-cpu/metadata.json", "{}\n");
    sandbox.write("work/fast-norm/build/torch-cpu/__init__.py", "answer = 42\n");
    sandbox.write("work/fast-norm/benchmarks/benchmark.py", "# measures\n");
    sandbox.write("work/fast-norm/build/torch-cpu/_k.so", &"\0machine code".repeat(100));
    sandbox
}

/// The program, told which hub there is and who asks.
pub(crate) fn online(sandbox: &Sandbox, hub: &FakeHub, words: &[&str]) -> Command {
    let mut command = sandbox.command(words);
    command.env_remove("KERNELWRIGHT_OFFLINE").env("HF_ENDPOINT", hub.url()).env("HF_TOKEN", TOKEN);
    command
}

fn publish(sandbox: &Sandbox, hub: &FakeHub, more: &[&str]) -> Ended {
    let mut words = vec!["publish", "fast-norm", "--to", "hf:me/fast-norm", "--message-format", "json"];
    words.extend_from_slice(more);
    let ended = finish(&mut online(sandbox, hub, &words));
    for text in [&ended.stdout, &ended.stderr] {
        assert!(!text.contains(TOKEN), "the token is shown: {text}");
    }
    ended
}

/// As [`publish`], for a person.
fn fails(sandbox: &Sandbox, hub: &FakeHub, expected: &[&str]) {
    let ended = finish(&mut online(sandbox, hub, &["publish", "fast-norm", "--to", "hf:me/fast-norm"]));
    assert!(!ended.stderr.contains(TOKEN), "the token is shown: {}", ended.stderr);
    ended.refused(18, expected);
}

fn receipt(sandbox: &Sandbox, hub: &FakeHub, more: &[&str]) -> Value {
    let ended = publish(sandbox, hub, more);
    assert_eq!(ended.code, 0, "{}{}", ended.stdout, ended.stderr);
    ended.event("result")["receipt"].clone()
}

/// The changes among what was heard.
fn changes(hub: &FakeHub) -> Vec<String> {
    let heard = hub.heard();
    heard.iter().filter(|heard| heard.method != "GET").map(|heard| heard.what()).collect()
}

fn names(hub: &FakeHub, revision: &str) -> Vec<String> {
    hub.files("me/fast-norm", revision).into_keys().collect()
}

const BUILT: &[&str] = &[
    ".gitattributes",
    "benchmarks/benchmark.py",
    "build/torch-cpu/__init__.py",
    "build/torch-cpu/_k.so",
    "build/torch-cpu/metadata.json",
];

#[test]
fn all_goes_to_its_branch_once_and_a_second_run_asks_only() {
    let (sandbox, hub) = (packaged(), FakeHub::start());
    hub.state().keyed = true;
    let first = receipt(&sandbox, &hub, &["--private"]);
    assert_eq!(names(&hub, "v1"), BUILT);
    assert_eq!(names(&hub, "main"), [".gitattributes", "README.md"]);
    assert_eq!(
        hub.files("me/fast-norm", "v1")["build/torch-cpu/_k.so"],
        "\0machine code".repeat(100).as_bytes()
    );
    assert!(hub.state().repos["me/fast-norm"].private);
    let expected = hub.state().repos["me/fast-norm"].branches["v1"].clone();
    assert_eq!((&first["changed"], &first["revision"]), (&true.into(), &expected.into()));
    assert_eq!(
        (&first["uploaded"], &first["files"], &first["unchanged"]),
        (&1300.into(), &5.into(), &0.into())
    );
    assert_eq!(first["commits"].as_array().map(Vec::len), Some(2));
    // What the storage is told has its own key, and never the token.
    for heard in hub.heard() {
        assert_eq!(heard.headers.contains_key("authorization"), !heard.at_storage, "{}", heard.what());
    }
    // Its metadata is empty here, and that is said.
    let told = finish(&mut online(&sandbox, &hub, &["publish", "fast-norm", "--to", "hf:me/fast-norm"]));
    assert!(told.stderr.contains("so its API was not compared"), "{}", told.stderr);
    let second = receipt(&sandbox, &hub, &[]);
    assert_eq!(changes(&hub), Vec::<String>::new());
    assert_eq!((&second["changed"], &second["revision"]), (&false.into(), &first["revision"]));
    assert_eq!((&second["unchanged"], &second["digest"]), (&5.into(), &first["digest"]));
}

#[test]
fn only_what_differs_is_sent_and_what_is_stale_is_deleted_with_it() {
    let (sandbox, hub) = (packaged(), FakeHub::start());
    hub.repository(
        "me/fast-norm",
        &["main", "v1"],
        &[("build/torch-old/x.py", "old"), ("notes.txt", "mine")],
    );
    assert_eq!(receipt(&sandbox, &hub, &["--keep-stale"])["deleted"], serde_json::json!([]));
    sandbox.write("work/fast-norm/build/torch-cpu/__init__.py", "answer = 43\n");
    hub.heard();
    let sent = receipt(&sandbox, &hub, &[]);
    assert_eq!(sent["deleted"], serde_json::json!(["build/torch-old/x.py"]));
    assert_eq!((&sent["files"], &sent["uploaded"]), (&1.into(), &0.into()));
    let heard = hub.heard();
    let commits: Vec<_> = heard.iter().filter(|heard| heard.path.contains("/commit/")).collect();
    let keys: Vec<Value> = commits[0].lines().iter().map(|line| line["key"].clone()).collect();
    assert_eq!((commits.len(), keys), (1, vec!["header".into(), "file".into(), "deletedFile".into()]));
    assert!(
        names(&hub, "v1").contains(&"notes.txt".to_owned())
            && names(&hub, "main").contains(&"build/torch-old/x.py".to_owned())
    );
}

#[test]
fn a_dry_run_shows_the_plan_and_sends_nothing() {
    let (sandbox, hub) = (packaged(), FakeHub::start());
    hub.repository("me/fast-norm", &["main"], &[("build/torch-old/x.py", "old")]);
    let plan = publish(&sandbox, &hub, &["--dry-run"]).event("result")["plan"].clone();
    assert_eq!(changes(&hub), Vec::<String>::new());
    assert_eq!(plan["makes_repo"], false);
    let [builds, card] = plan["branches"].as_array().expect("branches").as_slice() else { panic!("{plan}") };
    assert_eq!(
        (&builds["branch"], &builds["makes_branch"], &builds["commits"]),
        (&"v1".into(), &true.into(), &1.into())
    );
    assert_eq!(builds["delete"], serde_json::json!(["build/torch-old/x.py"]));
    let row = builds["files"]
        .as_array()
        .and_then(|rows| rows.iter().find(|row| row["path"] == "build/torch-cpu/_k.so"));
    assert_eq!(
        row,
        Some(&serde_json::json!({ "path": "build/torch-cpu/_k.so", "size": 1300, "mode": "lfs" }))
    );
    assert_eq!((&card["branch"], &card["files"][0]["mode"]), (&"main".into(), &"regular".into()));
    // Without a network, too; and with the same words for a person.
    let words = ["publish", "fast-norm", "--to", "hf:me/fast-norm", "--dry-run"];
    let human = sandbox.run(&words);
    assert!(human.stdout.contains("branch v1, will be created: 4 to send"), "{}", human.stdout);
    assert!(human.stderr.contains("the hub was not contacted"), "{}", human.stderr);
    assert!(human.stderr.contains("the API was not compared"), "{}", human.stderr);
}

#[test]
fn a_line_that_breaks_costs_what_was_under_way_and_makes_no_commit_twice() {
    let (sandbox, hub) = (packaged(), FakeHub::start());
    hub.fail("PUT /store", &[Fault::CutWithin, Fault::Answer(503, "Retry-After: 0", "")]);
    hub.fail("POST /api/kernels/me/fast-norm/commit/v1", &[Fault::CutAfter]);
    hub.fail(
        "POST /api/kernels/me/fast-norm/commit/main",
        &[Fault::CutBefore, Fault::Answer(429, "Retry-After: 0", "")],
    );
    let sent = receipt(&sandbox, &hub, &[]);
    assert_eq!((&sent["changed"], &sent["uploaded"]), (&true.into(), &1300.into()));
    assert_eq!(names(&hub, "v1"), BUILT);
    assert_eq!(hub.state().repos["me/fast-norm"].summaries.len(), 2);
    assert_eq!(sent["commits"][0]["commit"], sent["revision"]);
}

#[test]
fn a_server_that_fails_after_it_committed_does_not_commit_twice() {
    let (sandbox, hub) = (packaged(), FakeHub::start());
    hub.fail("commit/v1", &[Fault::DoneBut(503)]);
    hub.fail("commit/main", &[Fault::DoneBut(500)]);
    let sent = receipt(&sandbox, &hub, &[]);
    assert_eq!(sent["revision"], hub.state().repos["me/fast-norm"].branches["v1"].as_str());
    assert_eq!(hub.state().repos["me/fast-norm"].summaries.len(), 2);
    assert_eq!(names(&hub, "v1"), BUILT);
}

#[test]
fn what_somebody_else_changes_meanwhile_is_not_lost() {
    let (sandbox, hub) = (packaged(), FakeHub::start());
    hub.repository("me/fast-norm", &["main", "v1"], &[]);
    hub.fail("commit/v1", &[Fault::Meanwhile]);
    fails(&sandbox, &hub, &["hub::moved", "`v1` of `me/fast-norm`", "run this again"]);
    assert_eq!(names(&hub, "v1"), ["theirs.txt"]);
    hub.heard();
    assert_eq!(receipt(&sandbox, &hub, &[])["uploaded"], 0);
    assert_eq!(names(&hub, "v1").len(), 5);
}

#[test]
fn a_branch_that_begins_elsewhere_than_was_planned_is_not_committed_to() {
    let (sandbox, hub) = (packaged(), FakeHub::start());
    // What is the same there already is not sent, so the branch has to begin with just that.
    hub.repository("me/fast-norm", &["main"], &[("build/torch-cpu/__init__.py", "answer = 42\n")]);
    hub.fail("POST /api/kernels/me/fast-norm/branch/v1", &[Fault::Meanwhile]);
    fails(&sandbox, &hub, &["hub::moved", "`v1` of `me/fast-norm`", "run this again"]);
    assert!(!changes(&hub).iter().any(|what| what.contains("/commit/")));
    assert_eq!(receipt(&sandbox, &hub, &[])["changed"], true);
    assert_eq!(names(&hub, "v1").len(), 5);
}

#[test]
fn a_list_of_files_that_goes_on_elsewhere_is_not_taken_for_the_whole() {
    let (sandbox, hub) = (packaged(), FakeHub::start());
    hub.repository(
        "me/fast-norm",
        &["main", "v1"],
        &[("build/torch-a/x.py", "a"), ("build/torch-b/x.py", "b")],
    );
    hub.state().page = 1;
    hub.state().pages_at = Some("http://127.0.0.1:9");
    fails(&sandbox, &hub, &["hub::malformed", "next page is on another server"]);
    assert_eq!(changes(&hub), Vec::<String>::new());
    // A hub behind another address names the one that it stands for, or none.
    for host in ["https://huggingface.co", ""] {
        hub.state().pages_at = Some(host);
        let plan = publish(&sandbox, &hub, &["--dry-run"]).event("result")["plan"].clone();
        let stale = ["build/torch-a/x.py", "build/torch-b/x.py"];
        assert_eq!(plan["branches"][0]["delete"], serde_json::json!(stale), "{host}");
    }
}

#[test]
fn paths_of_a_hub_lead_nowhere_when_its_kernel_is_compared() {
    let (sandbox, hub) = (packaged(), FakeHub::start());
    let metadata = "{\"name\": \"fast-norm\", \"version\": 1, \"backend\": {\"type\": \"cpu\"}}";
    sandbox.write("work/fast-norm/build/torch-cpu/metadata.json", metadata);
    let home = sandbox.path("home").display().to_string();
    let (root, up) =
        (format!("build/torch-cpu/{home}/a.py"), format!("build/torch-cpu/../../../../{home}/b.py"));
    let files = [
        ("build/torch-cpu/metadata.json", metadata),
        ("build/torch-cpu/__init__.py", "def gone(x):\n    return x\n"),
        (root.as_str(), "evil"),
        (up.as_str(), "evil"),
    ];
    hub.repository("me/fast-norm", &["main", "v1"], &files);
    fails(&sandbox, &hub, &["publish::api_break", "`gone` is gone"]);
    assert!(!sandbox.path("home/a.py").exists() && !sandbox.path("home/b.py").exists());
}

#[test]
fn an_address_with_a_password_is_refused_without_it() {
    let (sandbox, hub) = (packaged(), FakeHub::start());
    let mut command = online(&sandbox, &hub, &["publish", "fast-norm", "--to", "hf:me/fast-norm"]);
    let ended = finish(command.env("HF_ENDPOINT", "https://me:s3cret@hub.example.org/x"));
    ended.refused(18, &["hub::bad_endpoint", "hub.example.org"]);
    assert!(!ended.stderr.contains("s3cret"), "{}", ended.stderr);
}

#[test]
fn ctrl_c_ends_an_upload_and_the_next_run_goes_on() {
    let (sandbox, hub) = (packaged(), FakeHub::start());
    hub.fail("PUT /store", &[Fault::Silence]);
    let mut command = online(&sandbox, &hub, &["publish", "fast-norm", "--to", "hf:me/fast-norm"]);
    let child = command.stderr(std::process::Stdio::piped()).spawn().expect("the program starts");
    // A file that the storage does not answer for is under way once the storage has heard of it.
    while !hub.heard().iter().any(|heard| heard.at_storage) {
        std::thread::yield_now();
    }
    let told = Command::new("kill").args(["-INT", &child.id().to_string()]).status();
    assert!(told.is_ok_and(|status| status.success()));
    let ended = child.wait_with_output().expect("it ends");
    let said = String::from_utf8_lossy(&ended.stderr);
    assert_eq!(ended.status.code(), Some(130), "{said}");
    assert!(said.contains("run the same command to resume"), "{said}");
    assert_eq!(receipt(&sandbox, &hub, &[])["uploaded"], 1300);
}

#[test]
fn what_was_uploaded_before_a_failure_is_not_uploaded_again() {
    let (sandbox, hub) = (packaged(), FakeHub::start());
    hub.state().part = Some(500);
    sandbox.write("work/fast-norm/build/torch-cpu/_l.so", &"\0more".repeat(90));
    hub.fail("POST /lfs-complete", &[Fault::Answer(403, "", "expired")]);
    fails(&sandbox, &hub, &["hub::upload", "_k.so", "403 expired", "not sent again"]);
    let first = hub.heard();
    let parts: Vec<usize> = first
        .iter()
        .filter(|heard| heard.at_storage && heard.path.matches('/').count() == 3)
        .map(|heard| heard.body.len())
        .collect();
    assert_eq!(parts, [500, 500, 300]);
    assert!(
        !hub.state().repos["me/fast-norm"].branches.contains_key("v1")
            || names(&hub, "v1") == [".gitattributes"]
    );
    let sent = receipt(&sandbox, &hub, &[]);
    assert_eq!(names(&hub, "v1").len(), 6);
    // The small one may have been under way when the large one failed; it went once in all.
    let all: Vec<String> = first.iter().chain(&hub.heard()).map(|heard| heard.what()).collect();
    let small =
        all.iter().filter(|what| what.starts_with("PUT /store") && what.matches('/').count() == 2).count();
    assert_eq!(small, 1, "{all:?}");
    assert!(sent["uploaded"].as_u64().is_some_and(|bytes| bytes == 1300 || bytes == 1750), "{sent}");
}

#[test]
fn a_transfer_that_was_not_offered_is_told_and_nothing_is_sent() {
    let (sandbox, hub) = (packaged(), FakeHub::start());
    hub.state().transfer = Some("xet");
    fails(&sandbox, &hub, &["hub::transfer", "accepts large files only over `xet`", "hf upload"]);
    let heard = hub.heard();
    assert!(heard.iter().all(|heard| !heard.at_storage), "{heard:?}");
    assert_eq!(names(&hub, "v1"), [".gitattributes"]);
    // A hub that says nothing of the kind has chosen `basic`; one that has all files need not choose.
    hub.state().transfer = None;
    assert_eq!(receipt(&sandbox, &hub, &[])["uploaded"], 1300);
}

#[test]
fn a_proposal_leaves_the_branches_as_they_are_and_is_made_once() {
    let (sandbox, hub) = (packaged(), FakeHub::start());
    hub.repository("me/fast-norm", &["main", "v1"], &[("build/torch-old/x.py", "old")]);
    let sent = receipt(&sandbox, &hub, &["--create-pr"]);
    assert_eq!(sent["pull_requests"].as_array().map(Vec::len), Some(2));
    assert_eq!((&sent["revision"], &sent["changed"]), (&Value::Null, &true.into()));
    assert_eq!(names(&hub, "v1"), ["build/torch-old/x.py"]);
    assert_eq!(names(&hub, "refs/pr/1"), BUILT[1..]);
    hub.heard();
    let again = receipt(&sandbox, &hub, &["--create-pr"]);
    assert_eq!(changes(&hub), Vec::<String>::new());
    assert_eq!((&again["pull_requests"], &again["changed"]), (&sent["pull_requests"], &false.into()));
}

#[test]
fn a_thousand_files_are_one_commit_and_more_are_several() {
    let (sandbox, hub) = (packaged(), FakeHub::start());
    hub.state().page = 300;
    for at in 0..1100 {
        sandbox.write(&format!("work/fast-norm/build/torch-cpu/f{at}.py"), &format!("x = {at}\n"));
    }
    let sent = receipt(&sandbox, &hub, &[]);
    let sizes: Vec<u64> = sent["commits"]
        .as_array()
        .expect("commits")
        .iter()
        .filter_map(|one| one["operations"].as_u64())
        .collect();
    assert_eq!(sizes, [1000, 104, 1]);
    assert_eq!(names(&hub, "v1").len(), 1105);
    hub.heard();
    assert_eq!(receipt(&sandbox, &hub, &[])["changed"], false);
    // A proposal of as much goes on in the pull request that it opened.
    hub.repository("me/fast-norm", &["main", "v1"], &[]);
    let sent = receipt(&sandbox, &hub, &["--create-pr"]);
    assert_eq!(
        (sent["pull_requests"].as_array().map(Vec::len), &sent["commits"][1]["branch"]),
        (Some(2), &"refs/pr/1".into())
    );
    assert_eq!(names(&hub, "refs/pr/1").len(), 1104);
}

#[test]
fn a_hub_whose_repositories_begin_empty_gets_the_card_first() {
    let (sandbox, hub) = (packaged(), FakeHub::start());
    hub.state().bare = true;
    receipt(&sandbox, &hub, &[]);
    assert_eq!(names(&hub, "main"), ["README.md"]);
    assert_eq!(names(&hub, "v1").len(), 5);
}

#[test]
fn each_refusal_says_what_and_what_to_do() {
    let (sandbox, hub) = (packaged(), FakeHub::start());
    hub.repository("me/fast-norm", &["main", "v1"], &[]);
    let cases: &[(&str, Fault, &[&str])] = &[
        (
            "refs",
            Fault::Answer(401, "", r#"{"error":"Invalid hf_onlyforthetests"}"#),
            &["hub::unauthorized", "Invalid ***", "hf auth login"],
        ),
        (
            "preupload",
            Fault::Answer(403, "X-Error-Message: not yours", ""),
            &["hub::forbidden", "not yours", "write access"],
        ),
        ("preupload", Fault::Answer(403, "", "Private storage limit reached"), &["hub::full", "free space"]),
        (
            "commit/v1",
            Fault::Answer(404, "X-Error-Code: RevisionNotFound", ""),
            &["hub::not_found", "RevisionNotFound"],
        ),
        ("commit/v1", Fault::Answer(409, "", "being edited"), &["hub::conflict", "being edited"]),
        (
            "commit/v1",
            Fault::Answer(412, "", "A commit has happened since"),
            &["hub::moved", "`v1` of `me/fast-norm`"],
        ),
        ("preupload", Fault::Answer(413, "", "<html>nginx</html>"), &["hub::full", "status 413"]),
        ("preupload", Fault::Answer(429, "Retry-After: 900", ""), &["hub::busy", "retry after 900 s"]),
        ("preupload", Fault::Answer(422, "", "what is that?"), &["hub::refused", "422 (what is that?)"]),
        ("refs", Fault::Answer(200, "", "<html>a login page</html>"), &["hub::malformed", "HF_ENDPOINT"]),
    ];
    for (words, fault, expected) in cases {
        hub.fail(words, std::slice::from_ref(fault));
        fails(&sandbox, &hub, expected);
    }
    // The storage names the file that it does not take.
    let name: String =
        Sha256::digest("\0machine code".repeat(100)).iter().map(|byte| format!("{byte:02x}")).collect();
    let error =
        serde_json::json!({ "oid": name, "size": 1300, "error": { "code": 422, "message": "no such kind" } });
    let body = serde_json::json!({ "objects": [error] }).to_string();
    hub.fail("objects/batch", &[Fault::Answer(200, "", body.leak())]);
    fails(&sandbox, &hub, &["hub::upload", "_k.so", "no such kind"]);
    hub.state().read_only = true;
    fails(&sandbox, &hub, &["hub::forbidden", "publish kernels"]);
    let mut nobody = online(&sandbox, &hub, &["publish", "fast-norm", "--to", "hf:me/fast-norm"]);
    finish(nobody.env_remove("HF_TOKEN")).refused(18, &["hub::no_token", "HF_TOKEN"]);
    hub.repository("me/fast-norm", &["main", "v1"], &[(".gitignore", ".so")]);
    hub.state().read_only = false;
    fails(&sandbox, &hub, &["publish::ignored", "_k.so"]);
}

#[test]
fn the_token_is_looked_for_where_the_stock_client_keeps_it() {
    let (sandbox, hub) = (packaged(), FakeHub::start());
    let run = |edit: &dyn Fn(&mut Command)| {
        let mut command = online(&sandbox, &hub, &["publish", "fast-norm", "--to", "hf:me/fast-norm"]);
        edit(command.env_remove("HF_TOKEN"));
        hub.state().repos.clear();
        finish(&mut command)
    };
    sandbox.write("home/.cache/huggingface/token", &format!("{TOKEN}\n"));
    assert_eq!(run(&|_| ()).code, 0);
    sandbox.write("other/token", "hf_wrong");
    run(&|command| _ = command.env("HF_HOME", sandbox.path("other"))).refused(18, &["hub::unauthorized"]);
    assert_eq!(
        run(&|command| _ = command.env("HF_HOME", sandbox.path("other")).env("HF_TOKEN", TOKEN)).code,
        0
    );
    sandbox.write("third", TOKEN);
    assert_eq!(run(&|command| _ = command.env("HF_TOKEN_PATH", "~/../third")).code, 0);
    run(&|command| _ = command.env("HF_TOKEN", "two words")).refused(18, &["hub::bad_token", "HF_TOKEN"]);
}

#[test]
fn what_was_typed_wrong_is_said_before_anything_is_asked() {
    let (sandbox, hub) = (packaged(), FakeHub::start());
    let run =
        |words: &[&str]| finish(&mut online(&sandbox, &hub, &[&["publish", "fast-norm"], words].concat()));
    run(&["--to", "hf:fast-norm"]).refused(18, &["publish::bad_target", "OWNER/NAME"]);
    run(&["--to", "hf:a/b", "--repo", "c/d"]).refused(18, &["publish::bad_target", "c/d"]);
    run(&["--to", "hf:a/b", "--branch", "v 1"]).refused(18, &["publish::bad_target"]);
    run(&["--to", "dist", "--dry-run"]).refused(18, &["publish::bad_target", "`--to dist` is a folder"]);
    let text = sandbox.read("work/fast-norm/build.toml");
    let bare: String =
        text.lines().filter(|line| !line.contains("repo-id")).map(|line| format!("{line}\n")).collect();
    sandbox.write("work/fast-norm/build.toml", &bare);
    run(&["--to", "hf"]).refused(18, &["publish::no_repo", "hf:OWNER/fast-norm"]);
    sandbox
        .run(&["publish", "fast-norm", "--to", "hf:a/b"])
        .refused(18, &["hub::offline", "KERNELWRIGHT_OFFLINE"]);
    let mut stock = online(&sandbox, &hub, &["publish", "fast-norm", "--to", "hf:a/b"]);
    finish(stock.env("HF_HUB_OFFLINE", "1")).refused(18, &["hub::offline", "HF_HUB_OFFLINE"]);
    let mut odd = online(&sandbox, &hub, &["publish", "fast-norm", "--to", "hf:a/b"]);
    finish(odd.env("HF_ENDPOINT", "hub.example")).refused(18, &["hub::bad_endpoint", "hub.example"]);
    assert_eq!(hub.heard().len(), 0);
}
