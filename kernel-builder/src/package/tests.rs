//! Bundles of artifacts that are written by hand.
//!
//! Owns: a verified artifact of Python alone. Never: builds one.

use std::collections::BTreeMap;

use kernel_plan::diagnostic::SourceFile;
use kernel_plan::spec::parse_build;

use super::*;
use crate::bench::dispatch::{Dispatch, Point, Range};
use crate::compile::artifact::tree_digest;
use crate::verify::{PROTOCOL, recall};

const BUILD: &str = "[general]\nname = \"fast-norm\"\nversion = 3\nedition = 5\nlicense = \"Apache-2.0\"\nbackends = [\"cpu\", \"cuda\"]\nupstream = \"https://github.com/me/fast-norm\"\n\n[torch-noarch]\n";

fn verified(root: &Path, backend: &str) -> Verified<Artifact> {
    let dir = root.join(".kernelwright/artifacts").join(format!("torch-{backend}"));
    files::write(&dir.join("__init__.py"), format!("backend = '{backend}'\n")).unwrap();
    files::write(&dir.join("sub/more.py"), "x = 1\n").unwrap();
    let digest = tree_digest(&dir).unwrap();
    let artifact = Artifact {
        variant: format!("torch-{backend}"),
        backend: backend.to_owned(),
        library: None,
        id: format!("_fast_norm_{backend}_0123456789"),
        capabilities: if backend == "cuda" { vec!["9.0a".to_owned(), "12.0+PTX".to_owned()] } else { vec![] },
        digest,
        commit: None,
        tools: BTreeMap::from([("cxx".to_owned(), "12.2.0 ab".to_owned())]),
        outside: vec![],
        dir,
    };
    // Of the two, only the build for cuda was called.
    let calls = serde_json::json!({
        "name": "calls", "code": "verify::hang", "outcome": "passed", "summary": "8 calls in 2 cases", "facts": {},
    });
    let (checks, device) = if backend == "cuda" { (vec![calls], "NVIDIA H200") } else { (vec![], "cpu") };
    let evidence = serde_json::json!({
        "artifact": digest, "op": null, "protocol": PROTOCOL, "checks": checks, "when": 951_782_400,
        "environment": { "torch": "2.11.0+cu130", "python": null, "device": device, "driver": "580.1", "cpu": null },
    });
    let path = root.join("evidence.json");
    files::write(&path, evidence.to_string()).unwrap();
    recall(&artifact, &path, None).unwrap()
}

fn table() -> Dispatch {
    let lengths = |low, high| BTreeMap::from([("rows".to_owned(), [low, high])]);
    let point = Point {
        dtype: "bf16".to_owned(),
        axes: BTreeMap::from([("rows".to_owned(), 64)]),
        kernel: true,
        against: "eager, cold".to_owned(),
        low: 1.5,
        records: vec![],
    };
    Dispatch {
        format: 1,
        op: "norm".to_owned(),
        device: "NVIDIA H200".to_owned(),
        backend: "cuda".to_owned(),
        ranges: vec![Range { dtype: "bf16".to_owned(), axes: lengths(32, 128) }],
        points: vec![point],
    }
}

/// Bundles the artifacts of these backends, in this order, in a project at `root`.
fn bundled(root: &Path, backends: &[&str]) -> Result<Bundle, PackageError> {
    let (build, problems) = parse_build(SourceFile::new("build.toml", BUILD));
    let build = build.unwrap_or_else(|| panic!("{problems:?}"));
    let verified: Vec<_> = backends.iter().map(|backend| verified(root, backend)).collect();
    bundle(&Contents {
        project: root,
        build: &build,
        op: None,
        verified: &verified,
        measured: &[],
        provenance: Provenance { commit: Some("c0ffee".to_owned()), dirty: false },
        additions: Additions { dispatch: vec![table()], launchers: vec![] },
    })
}

fn contents(dir: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let names = files::walk(dir, |_| true).unwrap();
    names.into_iter().map(|name| (name.clone(), files::read(&dir.join(name)).unwrap())).collect()
}

#[test]
fn the_same_content_is_the_same_bytes_wherever_and_in_whatever_order() {
    let root = files::scratch().unwrap();
    let [one, other] = ["one", "other place/in/another folder"].map(|name| root.path().join(name));
    let first = bundled(&one, &["cpu", "cuda"]).unwrap();
    let second = bundled(&other, &["cuda", "cpu"]).unwrap();
    assert_eq!(contents(&first.dir), contents(&second.dir));
    assert_eq!(first.digest, second.digest);
    let names: Vec<String> =
        contents(&first.dir).iter().map(|(name, _)| name.display().to_string()).collect();
    assert_eq!(
        names,
        [
            "CARD.md",
            "torch-cpu/__init__.py",
            "torch-cpu/metadata.json",
            "torch-cpu/sub/more.py",
            "torch-cuda/__init__.py",
            "torch-cuda/dispatch.json",
            "torch-cuda/metadata.json",
            "torch-cuda/sub/more.py",
        ]
    );
    // Again in the same place, nothing is written.
    let stamp = files::stamp(&first.dir.join("CARD.md")).unwrap();
    assert_eq!(bundled(&one, &["cpu", "cuda"]).unwrap().digest, first.digest);
    assert_eq!(files::stamp(&first.dir.join("CARD.md")).unwrap(), stamp);
}

#[test]
fn metadata_has_every_field_and_the_card_what_is_served() {
    let root = files::scratch().unwrap();
    let made = bundled(root.path(), &["cuda"]).unwrap();
    let metadata = files::read_text(&made.dir.join("torch-cuda/metadata.json")).unwrap();
    insta::assert_snapshot!(metadata.replace(env!("CARGO_PKG_VERSION"), "[VERSION]"));
    let card = files::read_text(&made.dir.join("CARD.md")).unwrap();
    assert!(card.contains("- `torch-cuda`") && card.contains("Not measured yet."), "{card}");
    assert!(card.contains("| NVIDIA H200 | bf16 | rows 32 to 128 |"), "{card}");
    assert!(card.contains("- `torch-cuda`: results checked on NVIDIA H200 (driver 580.1, "), "{card}");
}

#[test]
fn publishing_reads_where_results_were_checked() {
    let root = files::scratch().unwrap();
    let made = bundled(root.path(), &["cpu", "cuda"]).unwrap();
    let words: Vec<_> = made.status.iter().map(|one| (one.variant.as_str(), one.results)).collect();
    assert_eq!(words, [("torch-cpu", "not checked"), ("torch-cuda", "checked")]);
    let (build, _) = parse_build(SourceFile::new("build.toml", BUILD));
    let build = build.unwrap();
    assert_eq!(existing(root.path(), &build).unwrap().unwrap().status, made.status);
    // As an earlier version of this program packaged it.
    let metadata = made.dir.join("torch-cuda/metadata.json");
    let mut fields: serde_json::Value = serde_json::from_slice(&files::read(&metadata).unwrap()).unwrap();
    fields["kernelwright"].as_object_mut().unwrap().remove("judged");
    files::write(&metadata, fields.to_string()).unwrap();
    let status = existing(root.path(), &build).unwrap().unwrap().status;
    assert_eq!(status[1].to_string(), "results not checked on a GPU");
}

#[test]
fn what_was_changed_after_packaging_is_not_published() {
    let root = files::scratch().unwrap();
    let made = bundled(root.path(), &["cpu"]).unwrap();
    let (build, _) = parse_build(SourceFile::new("build.toml", BUILD));
    let build = build.unwrap();
    let told = || match existing(root.path(), &build) {
        Ok(found) => found.map_or_else(Vec::new, |found| found.variants),
        Err(error) => vec![error.to_string()],
    };
    assert_eq!(told(), ["torch-cpu"]);
    let variant = made.dir.join("torch-cpu");
    files::write(&variant.join("metadata.json.sigstore"), "{}").unwrap();
    assert_eq!(told(), ["torch-cpu"]);
    files::write(&variant.join("x.py.sigstore"), "{}").unwrap();
    assert_eq!(told(), ["build/torch-cpu/x.py.sigstore was changed or added after packaging"]);
    files::remove_file(&variant.join("x.py.sigstore")).unwrap();
    files::write(&variant.join("__init__.py"), "backend = 'mine'\n").unwrap();
    assert_eq!(told(), ["build/torch-cpu/__init__.py was changed or added after packaging"]);
    files::write(&variant.join("__init__.py"), "backend = 'cpu'\n").unwrap();
    files::write(&variant.join("added.py"), "x = 1\n").unwrap();
    assert_eq!(told(), ["build/torch-cpu/added.py was changed or added after packaging"]);
    files::remove_file(&variant.join("added.py")).unwrap();
    files::remove_file(&variant.join("sub/more.py")).unwrap();
    assert_eq!(told(), ["build/torch-cpu/sub/more.py was changed or added after packaging"]);
}

#[test]
fn an_equal_bundle_keeps_its_signature() {
    let root = files::scratch().unwrap();
    let made = bundled(root.path(), &["cpu"]).unwrap();
    assert!(!made.lost_signature);
    let signature = made.dir.join("SHA256SUMS.sig");
    files::write(&made.dir.join("SHA256SUMS"), "list\n").unwrap();
    files::write(&signature, "signature\n").unwrap();
    let again = bundled(root.path(), &["cpu"]).unwrap();
    assert!(files::exists(&signature) && again.digest == made.digest && !again.lost_signature);
    let other = bundled(root.path(), &["cuda"]).unwrap();
    assert!(!files::exists(&signature) && other.lost_signature, "a signature of other files");
}

#[test]
fn a_card_that_is_no_text_is_told() {
    let root = files::scratch().unwrap();
    files::write(&root.path().join("CARD.md"), [0x23, 0xff, 0xfe]).unwrap();
    assert!(matches!(bundled(root.path(), &["cpu"]), Err(PackageError::File(_))));
    files::write(&root.path().join("CARD.md"), "# mine\n").unwrap();
    let made = bundled(root.path(), &["cpu"]).unwrap();
    assert!(files::read_text(&made.dir.join("CARD.md")).unwrap().starts_with("# mine\n\n## Variants"));
}

#[test]
fn what_is_not_clean_leaves_the_old_bundle() {
    let root = files::scratch().unwrap();
    let good = bundled(root.path(), &["cpu"]).unwrap();
    files::write(
        &root.path().join("benchmarks/benchmark.py"),
        format!("# glpat-{}\n", "aB3dE5gH7j".repeat(3)),
    )
    .unwrap();
    let error = bundled(root.path(), &["cuda"]).unwrap_err();
    assert!(matches!(&error, PackageError::Secret { line: 1, .. }), "{error}");
    assert!(files::exists(&good.dir.join("torch-cpu/metadata.json")));
    assert!(!files::exists(&good.dir.join("torch-cuda")));
}
