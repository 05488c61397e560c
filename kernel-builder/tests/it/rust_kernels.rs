//! Published kernels of Rust crates, from a hub: what is locked, what the cache keeps, what is refused.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::json;
use sha2::{Digest as _, Sha256};

use super::fake_hub::{Blob, FakeHub};
use super::publishing_hub::online;
use super::sandbox::{Ended, Sandbox, finish};

const OP: &str = "format = 1\nname = \"gate\"\n[axes]\nn = { type = \"var\" }\n[inputs]\n\
    input = { shape = [\"n\"], dtype = \"f32\" }\n[outputs]\nout = { shape = [\"n\"], dtype = \"f32\" }\n\
    [reference]\nfile = \"reference.py\"\nfunction = \"gate\"\n[call]\nfunction = \"gate\"\nout = [\"out\"]\n\
    [tolerance]\naccumulate = \"f32\"\nlength = 1\nroundings = 1\n[launch]\nsource = \"gate.cu\"\n\
    [[launch.kernel]]\nentry = \"gate::run\"\ngrid = [\"n\"]\nblock = [32]\nargs = [\"out\", \"input\"]\n";
const FUNCTION: &str = "gate(out: &mut TensorMut<f32>, input: &Tensor<f32>)";
const VARIANT: &str = "torch-stable-abi210-cu130-x86_64-linux";
const DEPENDENCY: &str = "gate@1=hf:me/gate";

/// A hub with version 1 of a kernel, and a crate that uses it.
fn site() -> (Sandbox, FakeHub) {
    let (sandbox, hub) = (Sandbox::new(), FakeHub::start());
    let operation = json!({ "op": "gate", "file": "op.toml", "signature": FUNCTION, "text": OP, "settings": [], "code": [] });
    let launchers = json!({ "format": 1, "ops": [operation] }).to_string();
    let digest = STANDARD.encode(Sha256::digest(&launchers));
    let metadata = json!({
        "name": "gate", "version": 1, "backend": { "type": "cuda", "archs": ["9.0a"] },
        "digest": { "algorithm": "sha256", "files": { "launchers.json": digest } },
    });
    let [metadata_path, launchers_path] =
        ["metadata.json", "launchers.json"].map(|name| format!("build/{VARIANT}/{name}"));
    let files: &[(&str, &str)] = &[(&metadata_path, &metadata.to_string()), (&launchers_path, &launchers)];
    hub.repository("me/gate", &["main", "v1"], files);
    let dependencies =
        "[package.metadata.kernelwright.dependencies]\ngate = { version = \"1\", from = \"hf:me/gate\" }\n";
    sandbox.write("work/app/Cargo.toml", &format!("[package]\nname = \"app\"\n{dependencies}"));
    (sandbox, hub)
}

fn pin(sandbox: &Sandbox, hub: &FakeHub) -> Ended {
    finish(&mut online(sandbox, hub, &["pin", "app"]))
}

/// Generates the functions of the dependency.
fn embed(sandbox: &Sandbox, hub: &FakeHub, more: &[&str]) -> Ended {
    let lock = "app/rust-kernels.lock";
    let words = ["embed", "--stubs", "--out-dir", "out", "--dependency", DEPENDENCY, "--lock", lock];
    finish(&mut online(sandbox, hub, &[&words, more].concat()))
}

#[test]
fn a_kernel_of_a_hub_is_locked_by_its_commit_and_then_needs_no_network() {
    let (sandbox, hub) = site();
    embed(&sandbox, &hub, &[]).refused(14, &["it does not exist", "run `cargo kernelwright pin`"]);
    let pinned = pin(&sandbox, &hub);
    assert_eq!(pinned.code, 0, "{}", pinned.stderr);
    let lock = sandbox.read("work/app/rust-kernels.lock");
    let commit = hub.state().repos["me/gate"].branches["v1"].clone();
    for text in [commit.as_str(), VARIANT, FUNCTION, "from = \"hf:me/gate\""] {
        assert!(lock.contains(text), "{text}: {lock}");
    }
    embed(&sandbox, &hub, &["--offline"]).refused(14, &["is not in the cache", "--offline"]);
    let made = embed(&sandbox, &hub, &[]);
    assert_eq!(made.code, 0, "{}", made.stderr);
    assert!(sandbox.read("work/out/kernels.rs").contains("pub fn gate("));
    // The files are those of the lock, whatever is on the branch now.
    hub.state().repos.clear();
    assert_eq!(embed(&sandbox, &hub, &[]).code, 0);
    assert_eq!(embed(&sandbox, &hub, &["--offline"]).code, 0);
}

#[test]
fn other_bytes_than_those_of_the_lock_are_refused() {
    let (sandbox, hub) = site();
    assert_eq!(pin(&sandbox, &hub).code, 0);
    {
        let mut state = hub.state();
        let repo = state.repos.get_mut("me/gate").expect("the kernel");
        let commit = repo.branches["v1"].clone();
        let tree = repo.commits.get_mut(&commit).expect("the commit");
        tree.insert(format!("build/{VARIANT}/launchers.json"), Blob::Regular(b"{}".to_vec()));
    }
    let words = ["hash mismatch for `launchers.json` of `me/gate`", "do not use them"];
    embed(&sandbox, &hub, &[]).refused(14, &words);
}

#[test]
fn a_version_or_a_repository_that_is_not_there_is_told_with_what_there_is() {
    let (sandbox, hub) = site();
    let with = |from: &str, to: &str| {
        let manifest = sandbox.read("work/app/Cargo.toml").replace(from, to);
        sandbox.write("work/app/Cargo.toml", &manifest);
    };
    with("\"1\"", "\"3\"");
    pin(&sandbox, &hub).refused(14, &["has no kernel `gate` of version 3: versions there: 1"]);
    with("hf:me/gate", "hf:me/other");
    pin(&sandbox, &hub).refused(14, &["has no kernel `gate` of version 3: no such repository"]);
    with("\"3\"", "\"three\"");
    pin(&sandbox, &hub).refused(10, &["Cargo.toml:4: `gate` needs a version, which is a whole number"]);
}

#[test]
fn a_hub_that_does_not_answer_is_named() {
    let (sandbox, hub) = site();
    let mut command = online(&sandbox, &hub, &["pin", "app"]);
    // Nothing listens there.
    let ended = finish(command.env("HF_ENDPOINT", "http://127.0.0.1:9"));
    ended.refused(22, &["http://127.0.0.1:9"]);
}

#[test]
fn a_crate_without_published_kernels_has_nothing_to_lock() {
    let (sandbox, hub) = site();
    sandbox.write(
        "work/app/Cargo.toml",
        "[package]\nname = \"app\"\n[package.metadata.kernelwright]\nkernels = [\"k\"]\n",
    );
    pin(&sandbox, &hub).refused(10, &["uses no published kernels"]);
    let nowhere = finish(&mut online(&sandbox, &hub, &["pin", "/"]));
    nowhere.refused(10, &["is not a crate"]);
}
