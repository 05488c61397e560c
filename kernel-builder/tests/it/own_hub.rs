//! `publish` to the hub of this repository, `kernelwright-hub`: what users of an earlier publication count on.
//!
//! Owns: starting the hub beside the program that is tested. Never: replaces the tests with failures (`publishing_hub`).

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use super::packaged::{INIT, NORMS, SCHEMA, VARIANT, bundle, packaged};
use super::sandbox::{Ended, Sandbox, finish};

/// A hub that runs; it ends with the value.
pub(crate) struct OwnHub {
    child: Child,
    folder: tempfile::TempDir,
    url: String,
    token: String,
}

impl OwnHub {
    /// Cargo builds it for the tests of the whole workspace; those of this crate alone may lack it, and skip.
    pub(crate) fn start() -> Option<Self> {
        let program = Path::new(env!("CARGO_BIN_EXE_kernelwright")).with_file_name("kernelwright-hub");
        if !program.is_file() {
            let reason = "there is no kernelwright-hub beside the program: cargo build --workspace";
            assert!(std::env::var_os("KERNELWRIGHT_REQUIRE_OFFICIAL").is_none(), "{reason}");
            eprintln!("skipped: {reason}");
            return None;
        }
        let folder = tempfile::tempdir().expect("a folder");
        let made = Command::new(&program)
            .args(["token", "new"])
            .arg(folder.path())
            .args(["me", "--scope", "write"])
            .output();
        let token = String::from_utf8(made.expect("it starts").stdout).expect("text").trim_end().to_owned();
        let mut child = Command::new(&program)
            .arg(folder.path())
            .args(["--bind", "127.0.0.1:0", "--log", "none"])
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("it starts");
        let mut url = String::new();
        BufReader::new(child.stdout.take().expect("a pipe")).read_line(&mut url).expect("a line");
        assert!(!url.is_empty(), "the hub did not come up: {:?}", child.wait());
        Some(Self { child, folder, url: url.trim_end().to_owned(), token })
    }

    /// The program, told of this hub.
    pub(crate) fn command(&self, sandbox: &Sandbox, words: &[&str]) -> Command {
        let mut command = sandbox.command(words);
        command.env_remove("KERNELWRIGHT_OFFLINE").env("HF_ENDPOINT", &self.url).env("HF_TOKEN", &self.token);
        command
    }

    /// Where a branch is.
    pub(crate) fn head(&self, kernel: &str, branch: &str) -> Option<String> {
        let path = self.folder.path().join("kernels").join(kernel).join("refs/heads").join(branch);
        std::fs::read_to_string(path).ok()
    }

    /// The only blob with this content.
    fn blob(&self, content: &str) -> PathBuf {
        let mut found = Vec::new();
        for shard in std::fs::read_dir(self.folder.path().join("blobs/sha256")).expect("a folder").flatten() {
            let blobs =
                std::fs::read_dir(shard.path()).expect("a folder").flatten().map(|entry| entry.path());
            found.extend(blobs.filter(|path| std::fs::read(path).expect("a file") == content.as_bytes()));
        }
        assert_eq!(found.len(), 1, "{found:?}");
        found.remove(0)
    }
}

impl Drop for OwnHub {
    fn drop(&mut self) {
        // It may have ended; then there is nothing to do.
        let _ended = self.child.kill();
        let _ended = self.child.wait();
    }
}

fn publish(sandbox: &Sandbox, hub: &OwnHub, more: &[&str]) -> Ended {
    let words = ["publish", "fast-norm", "--to", "hf:me/fast-norm"];
    finish(&mut hub.command(sandbox, &[&words[..], more].concat()))
}

#[track_caller]
fn published(sandbox: &Sandbox, hub: &OwnHub, more: &[&str]) -> Ended {
    let sent = publish(sandbox, hub, more);
    assert_eq!(sent.code, 0, "{}", sent.stderr);
    sent
}

#[test]
fn a_break_on_a_hub_is_refused_with_what_changed_and_nothing_is_sent() {
    let (sandbox, Some(hub)) = (packaged(), OwnHub::start()) else { return };
    let first = published(&sandbox, &hub, &[]);
    assert!(first.stderr.contains("have no build yet"), "{}", first.stderr);
    let second = published(&sandbox, &hub, &[]);
    assert!(
        second.stdout.contains("unchanged in") && !second.stderr.contains("no build yet"),
        "{}",
        second.stderr
    );
    // More is no break.
    let more = NORMS.replace("eps=1e-6", "eps=1e-6, out=None");
    let added = INIT.replace("[\"rms_norm\", ", "[\"rms_norm\", \"layer_norm\", ");
    let schema = SCHEMA.replace("float eps", "float eps, *, int k=1");
    let with_layer = |norms: &str| format!("{norms}\ndef layer_norm(x):\n    return x\n");
    bundle(&sandbox, &added, &with_layer(&more), &schema, 1);
    published(&sandbox, &hub, &[]);
    let head = hub.head("me/fast-norm", "v1");
    for (init, norms, schema, words) in [
        (INIT, more.as_str(), schema.as_str(), "`layer_norm` is gone"),
        (added.as_str(), NORMS, schema.as_str(), "`rms_norm` takes no `out` any more"),
        (added.as_str(), more.as_str(), SCHEMA, "the operator `rms_norm` takes other arguments"),
        (added.as_str(), more.as_str(), "other(Tensor x) -> Tensor", "the operator `rms_norm` is gone"),
    ] {
        bundle(&sandbox, init, &with_layer(norms), schema, 1);
        for options in [&[][..], &["--dry-run"], &["--keep-stale"]] {
            publish(&sandbox, &hub, options)
                .refused(18, &["publish::api_break", "branch `v1` of `me/fast-norm`", words, "version = 2"]);
        }
        assert_eq!(hub.head("me/fast-norm", "v1"), head);
    }
    // Another branch is nobody's version, and a new version says that it breaks.
    published(&sandbox, &hub, &["--branch", "trial"]);
    bundle(&sandbox, INIT, NORMS, SCHEMA, 2);
    let sent = published(&sandbox, &hub, &[]);
    assert!(sent.stderr.contains("changed since version 1 of branch `v1`"), "{}", sent.stderr);
    assert!(sent.stderr.contains("`layer_norm` is gone"), "{}", sent.stderr);
    assert!(hub.head("me/fast-norm", "v2").is_some() && hub.head("me/fast-norm", "v1") == head);
}

#[test]
fn make_finds_out_where_to_before_it_does_any_work() {
    let sandbox = Sandbox::new();
    sandbox.project("fast-norm", "cpu");
    sandbox.fake("g++", "echo compiled >> ../compiled; exit 1");
    let make = |to: &str| sandbox.run(&["make", "fast-norm", "--to", to]);
    make("hf:nothing").refused(18, &["publish::bad_target", "OWNER/NAME"]);
    make("hf:me/fast-norm").refused(18, &["hub::offline", "KERNELWRIGHT_OFFLINE"]);
    let words = ["make", "fast-norm", "--to", "hf:me/fast-norm"];
    let mut nobody = sandbox.command(&words);
    nobody.env_remove("KERNELWRIGHT_OFFLINE").env("CI", "1");
    finish(&mut nobody).refused(18, &["hub::no_token", "publish to `me/fast-norm`", "HF_TOKEN"]);
    // The hub itself is asked, too: this one does not take the token.
    if let Some(hub) = OwnHub::start() {
        let mut stranger = hub.command(&sandbox, &words);
        stranger.env("HF_TOKEN", "nobody");
        let refused = finish(&mut stranger);
        assert_eq!(refused.code, 18, "{}", refused.stderr);
        assert!(
            refused.stderr.contains("hub::") && !refused.stderr.contains("verify against"),
            "{}",
            refused.stderr
        );
    }
    assert!(!sandbox.path("work/fast-norm/.kernelwright").exists());
    assert!(!sandbox.path("compiled").exists());
    assert!(!sandbox.path("work/hf:nothing").exists());
}

#[test]
fn one_variant_of_each_backend_is_compared_and_those_that_are_gone_are_named() {
    let (sandbox, Some(hub)) = (packaged(), OwnHub::start()) else { return };
    let other = "work/fast-norm/build/torch-cuda";
    let metadata = "{\"name\": \"fast-norm\", \"version\": 1, \"backend\": {\"type\": \"cuda\"}}\n";
    sandbox.write(&format!("{other}/metadata.json"), metadata);
    sandbox.write(&format!("{other}/__init__.py"), "def only_here(x):\n    return x\n");
    published(&sandbox, &hub, &[]);
    sandbox.write(&format!("{other}/__init__.py"), "x = 1\n");
    publish(&sandbox, &hub, &[]).refused(18, &["publish::api_break", "`only_here` is gone"]);
    std::fs::remove_dir_all(sandbox.path(other)).expect("a folder");
    let kept = published(&sandbox, &hub, &["--keep-stale"]);
    assert!(!kept.stderr.contains("is also for cuda"), "{}", kept.stderr);
    let sent = published(&sandbox, &hub, &[]);
    assert!(sent.stderr.contains("branch `v1` of `me/fast-norm` is also for cuda"), "{}", sent.stderr);
}

#[test]
fn the_branch_of_another_kernel_is_left_alone() {
    let (sandbox, Some(hub)) = (packaged(), OwnHub::start()) else { return };
    published(&sandbox, &hub, &[]);
    let head = hub.head("me/fast-norm", "v1");
    sandbox.project("slow-norm", "cpu");
    sandbox.write("work/slow-norm/build/CARD.md", "# slow-norm\n");
    sandbox
        .write("work/slow-norm/build/torch-cpu/metadata.json", "{\"name\": \"slow-norm\", \"version\": 1}\n");
    sandbox.write("work/slow-norm/build/torch-cpu/__init__.py", "x = 1\n");
    let words = ["publish", "slow-norm", "--to", "hf:me/fast-norm"];
    let place = "branch `v1` of `me/fast-norm` contains the kernel `fast-norm`, not `slow-norm`";
    finish(&mut hub.command(&sandbox, &words)).refused(18, &["publish::other_kernel", place]);
    assert_eq!(hub.head("me/fast-norm", "v1"), head);
    let elsewhere = finish(&mut hub.command(&sandbox, &[&words[..], &["--branch", "slow"]].concat()));
    assert_eq!(elsewhere.code, 0, "{}", elsewhere.stderr);
}

#[test]
fn what_was_published_unreadable_can_be_replaced_and_what_is_damaged_is_not_compared_with() {
    let (sandbox, Some(hub)) = (packaged(), OwnHub::start()) else { return };
    bundle(&sandbox, INIT, "def broken(:\n", SCHEMA, 1);
    sandbox.write(&format!("work/fast-norm/build/{VARIANT}/__init__.py"), "def broken(:\n");
    published(&sandbox, &hub, &[]);
    bundle(&sandbox, INIT, NORMS, SCHEMA, 1);
    let sent = published(&sandbox, &hub, &[]);
    assert!(sent.stderr.contains("cannot be parsed"), "{}", sent.stderr);
    // The other way round it is this package that is wrong.
    bundle(&sandbox, "def broken(:\n", NORMS, SCHEMA, 1);
    publish(&sandbox, &hub, &[]).refused(18, &["publish::unread_api", "__init__.py"]);
    // A file that was damaged on the hub's disk: the hub does not serve it.
    bundle(&sandbox, INIT, &NORMS.replace("eps", "epsilon"), SCHEMA, 1);
    std::fs::write(hub.blob(NORMS), NORMS.replace("eps", "EPS")).expect("a file");
    publish(&sandbox, &hub, &[]).refused(18, &["hub::broken", "norms.py", "is damaged"]);
}

#[test]
fn a_hub_without_pull_requests_is_asked_before_anything_is_made() {
    let (sandbox, Some(hub)) = (packaged(), OwnHub::start()) else { return };
    for options in [&["--create-pr"][..], &["--create-pr", "--dry-run"]] {
        publish(&sandbox, &hub, options).refused(18, &["hub::", "no pull requests"]);
    }
    assert!(!hub.folder.path().join("kernels/me/fast-norm").exists(), "the repository was made");
    published(&sandbox, &hub, &[]);
    let head = hub.head("me/fast-norm", "v1");
    publish(&sandbox, &hub, &["--create-pr", "--branch", "v2"]).refused(18, &["no pull requests"]);
    assert!(hub.head("me/fast-norm", "v2").is_none() && hub.head("me/fast-norm", "v1") == head);
}
