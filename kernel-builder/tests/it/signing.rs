//! A signed package: what `sign` writes, standard tools and `verify-build` accept it, and refuse everything else.
//!
//! Owns: keys of its own. Never: asks an agent of the machine.

use std::fs::File;
use std::process::{Command, Stdio};

use super::packaged::{NORMS, PACKAGE, packaged, publish};
use super::sandbox::{Ended, Sandbox, finish};

const SUMS: &str = "work/dist/build/SHA256SUMS";
const SIGNATURE: &str = "work/dist/build/SHA256SUMS.sig";

/// A package with the keys `mine` and `other`, and `allowed` with the first of them; `None` without ssh-keygen.
fn with_keys() -> Option<Sandbox> {
    if Command::new("ssh-keygen").arg("--help").output().is_err() {
        eprintln!("skipped: ssh-keygen is not installed");
        return None;
    }
    let sandbox = packaged();
    for name in ["mine", "other"] {
        key(&sandbox, name, "");
    }
    let allowed = format!("me@example.com namespaces=\"kernelwright\" {}", sandbox.read("work/mine.pub"));
    sandbox.write("work/allowed", &allowed);
    Some(sandbox)
}

fn key(sandbox: &Sandbox, name: &str, passphrase: &str) {
    let mut line = Command::new("ssh-keygen");
    line.args(["-q", "-t", "ed25519", "-N", passphrase, "-C", name, "-f", name]).current_dir(sandbox.work());
    assert!(line.status().expect("ssh-keygen").success());
}

fn sign(sandbox: &Sandbox, key: &str) -> Ended {
    sandbox.run(&["sign", "fast-norm", "--key", key, "--message-format", "json"])
}

fn verify(sandbox: &Sandbox, signers: &str) -> Ended {
    sandbox.run(&["verify-build", "dist", "--signers", signers, "--signature-only"])
}

/// Signed and published to `dist`.
fn published() -> Option<Sandbox> {
    let sandbox = with_keys()?;
    let signed = sign(&sandbox, "mine");
    assert_eq!(signed.code, 0, "{}", signed.stdout);
    assert!(signed.event("result")["signature"]["key"].to_string().contains("ED25519 key SHA256:"));
    let sent = publish(&sandbox);
    assert_eq!(sent.code, 0, "{}", sent.stderr);
    Some(sandbox)
}

/// The two commands of docs/ci.md, which know nothing of this program.
fn standard_tools(sandbox: &Sandbox) -> [bool; 2] {
    let signature = ["-s", "build/SHA256SUMS.sig", "-n", "kernelwright"];
    let mut keygen = Command::new("ssh-keygen");
    keygen.args(["-Y", "verify", "-f", "../allowed", "-I", "me@example.com"]).args(signature);
    keygen.stdin(File::open(sandbox.path(SUMS)).map_or_else(|_| Stdio::null(), Stdio::from));
    let mut sha256sum = Command::new("sha256sum");
    sha256sum.args(["--check", "--strict", "--quiet", "build/SHA256SUMS"]);
    [keygen, sha256sum].map(|mut line| finish(line.current_dir(sandbox.path("work/dist"))).code == 0)
}

#[test]
fn a_signed_package_is_accepted_by_standard_tools_and_by_verify_build() {
    let Some(sandbox) = published() else { return };
    assert_eq!(standard_tools(&sandbox), [true, true]);
    let names: Vec<String> =
        sandbox.read(SUMS).lines().map(|line| line.split("  ").last().expect("a name").to_owned()).collect();
    assert!(names.iter().any(|name| name.ends_with("/metadata.json")), "{names:?}");
    assert!(names.iter().any(|name| name.starts_with("benchmarks/")), "{names:?}");
    let accepted = sandbox.run(&[
        "verify-build",
        "dist",
        "--signers",
        "allowed",
        "--signature-only",
        "--message-format",
        "json",
    ]);
    assert_eq!(accepted.code, 0, "{}", accepted.stdout);
    let signature = &accepted.event("result")["signature"];
    assert_eq!((&signature["signer"], &signature["files"]), (&"me@example.com".into(), &names.len().into()));
    // Bundles of Sigstore come later, and are not in the list.
    let package = PACKAGE.replace("work/fast-norm", "work/dist");
    sandbox.write(&format!("{package}/metadata.json.sigstore"), "{}\n");
    assert_eq!(verify(&sandbox, "allowed").code, 0);
    // Signed and published again, nothing changes: the signature of such a key follows from key and text.
    assert_eq!(sign(&sandbox, "mine").code, 0);
    let again = sandbox.run(&["publish", "fast-norm", "--to", "dist2", "--message-format", "json"]);
    assert_eq!(again.code, 0);
    assert_eq!(sandbox.read("work/dist2/build/SHA256SUMS.sig"), sandbox.read(SIGNATURE));
}

#[test]
fn changed_files_lists_and_signatures_are_refused() {
    let Some(sandbox) = published() else { return };
    let norms = format!("{}/norms.py", PACKAGE.replace("work/fast-norm", "work/dist"));
    sandbox.write(&norms, &format!("{NORMS}\nx = 1\n"));
    verify(&sandbox, "allowed")
        .refused(17, &["package::unlike_signed", "norms.py: changed", "download it again"]);
    assert_eq!(standard_tools(&sandbox), [true, false]);
    std::fs::remove_file(sandbox.path(&norms)).expect("a file");
    verify(&sandbox, "allowed").refused(17, &["package::unlike_signed", "norms.py: missing"]);
    sandbox.write(&norms, NORMS);
    let more = norms.replace("norms.py", "torch.py");
    sandbox.write(&more, "x = 1\n");
    verify(&sandbox, "allowed").refused(17, &["package::unlike_signed", "torch.py: not in the list"]);
    std::fs::remove_file(sandbox.path(&more)).expect("a file");
    assert_eq!(verify(&sandbox, "allowed").code, 0);

    // Somebody who changes a file also changes the list.
    let (list, signature) = (sandbox.read(SUMS), sandbox.read(SIGNATURE));
    sandbox.write(SUMS, &list.replacen('a', "b", 1));
    verify(&sandbox, "allowed").refused(17, &["package::bad_signature", "incorrect signature"]);
    assert!(!standard_tools(&sandbox)[0]);
    sandbox.write(SUMS, &list);
    sandbox.write(SIGNATURE, "garbage\n");
    verify(&sandbox, "allowed").refused(17, &["package::bad_signature"]);
    sandbox.write(SIGNATURE, &signature);
    for (file, text) in [(SIGNATURE, &signature), (SUMS, &list)] {
        std::fs::remove_file(sandbox.path(file)).expect("a file");
        let name = file.rsplit('/').next().expect("a name");
        verify(&sandbox, "allowed").refused(17, &["package::unsigned", &format!("{name} is missing")]);
        sandbox.write(file, text);
    }
    assert_eq!(verify(&sandbox, "allowed").code, 0);
}

#[test]
fn other_keys_and_other_purposes_are_refused() {
    let Some(sandbox) = published() else { return };
    let list = sandbox.read(SUMS);
    let other = format!("me@example.com {}", sandbox.read("work/other.pub"));
    sandbox.write("work/allowed-other", &other);
    verify(&sandbox, "allowed-other")
        .refused(17, &["package::unknown_signer", "SHA256:", "allowed-other", "do not add a key"]);
    verify(&sandbox, "nowhere").refused(1, &["nowhere"]);
    // A key that may sign for another purpose, or could until yesterday.
    let mine = sandbox.read("work/mine.pub");
    for options in ["namespaces=\"git\"", "valid-before=\"20200101\""] {
        sandbox.write("work/allowed-less", &format!("me@example.com {options} {mine}"));
        verify(&sandbox, "allowed-less").refused(17, &["package::unknown_signer"]);
    }
    // The right key, and a text that it signed for another purpose.
    let mut line = Command::new("ssh-keygen");
    line.args(["-q", "-Y", "sign", "-f", "mine", "-n", "git", "dist/build/SHA256SUMS"]);
    std::fs::remove_file(sandbox.path(SIGNATURE)).expect("a file");
    assert!(line.current_dir(sandbox.work()).status().expect("ssh-keygen").success());
    assert_eq!(sandbox.read(SUMS), list);
    verify(&sandbox, "allowed").refused(17, &["package::bad_signature", "namespace"]);
}

#[test]
fn a_package_that_changed_after_signing_is_not_published() {
    let Some(sandbox) = published() else { return };
    sandbox.write(&format!("{PACKAGE}/norms.py"), &format!("{NORMS}\n# later\n"));
    publish(&sandbox).refused(17, &["package::unlike_signed", "norms.py: changed", "kernelwright sign"]);
    assert_eq!(sign(&sandbox, "mine").code, 0);
    assert_eq!(publish(&sandbox).code, 0);
    assert_eq!(verify(&sandbox, "allowed").code, 0);
    // A key that cannot sign leaves the signature as it is, and makes none.
    let signature = "work/fast-norm/build/SHA256SUMS.sig";
    let (list, kept) = (sandbox.read("work/fast-norm/build/SHA256SUMS"), sandbox.read(signature));
    key(&sandbox, "locked", "secret");
    sandbox.write("work/no-key", "hello\n");
    let keys = [("locked", "passphrase"), ("no-key", "no-key"), ("absent", "absent"), ("mine.pub", "mine")];
    std::fs::rename(sandbox.path("work/mine"), sandbox.path("work/moved")).expect("a file");
    for is_signed in [true, false] {
        for (name, words) in keys {
            let refused = sandbox.run(&["sign", "fast-norm", "--key", name]);
            refused.refused(17, &["package::signing_key", words, "ssh-agent"]);
            if is_signed {
                assert_eq!(sandbox.read(signature), kept, "{name}");
                assert_eq!(sandbox.read("work/fast-norm/build/SHA256SUMS"), list, "{name}");
            } else {
                assert!(!sandbox.path(signature).exists(), "{name}");
            }
        }
        assert_eq!(publish(&sandbox).code, 0);
        for name in ["SHA256SUMS", "SHA256SUMS.sig"] {
            let path = sandbox.path("work/fast-norm/build").join(name);
            if path.exists() {
                std::fs::remove_file(path).expect("a file");
            }
        }
    }
}

/// Python loads caches in place of the signed files, and clients run every benchmark.
#[test]
fn files_that_python_would_run_are_refused_if_the_list_does_not_have_them() {
    let Some(sandbox) = published() else { return };
    let package = PACKAGE.replace("work/fast-norm", "work/dist");
    let variant = package.trim_start_matches("work/dist/");
    for name in [
        format!("{variant}/__pycache__/__init__.cpython-312.pyc"),
        format!("{variant}/sub/__pycache__/x.cpython-312.pyc"),
        "build/__pycache__/x.pyc".to_owned(),
        "benchmarks/more.py".to_owned(),
        "benchmarks/torch.pyc".to_owned(),
        "benchmarks/__pycache__/benchmark.cpython-312.pyc".to_owned(),
        "build/metadata.json.sigstore".to_owned(),
        format!("{variant}/x.py.sigstore"),
        format!("{variant}/sub/metadata.json.sigstore"),
    ] {
        let path = sandbox.path(&format!("work/dist/{name}"));
        sandbox.write(&format!("work/dist/{name}"), "x = 1\n");
        verify(&sandbox, "allowed")
            .refused(17, &["package::unlike_signed", &format!("{name}: not in the list")]);
        std::fs::remove_file(path).expect("a file");
    }
    assert_eq!(verify(&sandbox, "allowed").code, 0);
    // The caches that Python made in one's own project are neither signed nor a problem.
    sandbox.write(&format!("{PACKAGE}/__pycache__/__init__.cpython-312.pyc"), "cache");
    assert_eq!(sign(&sandbox, "mine").code, 0);
    assert_eq!(publish(&sandbox).code, 0);
    assert!(!sandbox.read(SUMS).contains("__pycache__"));
    assert_eq!(verify(&sandbox, "allowed").code, 0);
}

#[test]
fn a_list_that_was_changed_together_with_its_files_is_not_published() {
    let Some(sandbox) = published() else { return };
    let (list, norms) = ("work/fast-norm/build/SHA256SUMS", format!("{PACKAGE}/norms.py"));
    let signed = sandbox.read(list);
    sandbox.write(&norms, &format!("{NORMS}\n# later\n"));
    let sums = Command::new("sha256sum").arg(sandbox.path(&norms)).output().expect("sha256sum");
    let digest = String::from_utf8_lossy(&sums.stdout).split(' ').next().expect("a digest").to_owned();
    let changed = |line: &str| {
        if line.ends_with("/norms.py") { format!("{digest}{}\n", &line[64..]) } else { format!("{line}\n") }
    };
    sandbox.write(list, &signed.lines().map(changed).collect::<String>());
    publish(&sandbox).refused(17, &["package::bad_signature"]);
    sandbox.write(&norms, NORMS);
    sandbox.write(list, &signed);
    assert_eq!(publish(&sandbox).code, 0);
    // A list whose signature is gone is not sent unsigned.
    std::fs::remove_file(sandbox.path("work/fast-norm/build/SHA256SUMS.sig")).expect("a file");
    publish(&sandbox).refused(17, &["package::unsigned", "SHA256SUMS.sig is missing"]);
}

#[test]
fn a_tag_is_held_against_the_version() {
    let sandbox = packaged();
    let check = |tag: &str| sandbox.run(&["check", "fast-norm", "--tag", tag, "--message-format", "github"]);
    for tag in ["v1", "v1.0", "v1.2.30"] {
        assert_eq!(check(tag).code, 0, "{tag}: {}", check(tag).stdout);
    }
    for tag in ["v2", "1", "v10", "v1.", "v1.x", "v1-rc", "release", "", "v1\n::warning::x"] {
        let refused = check(tag);
        assert_eq!(refused.code, 10, "{tag}");
        let said =
            refused.stdout.lines().find(|line| line.contains("publish%3A%3Atag")).expect("an annotation");
        assert!(
            said.starts_with("::error file=fast-norm/build.toml,line=") && said.contains("version 1"),
            "{said}"
        );
        assert!(!refused.stdout.lines().any(|line| line.starts_with("::warning::")), "{}", refused.stdout);
    }
}
