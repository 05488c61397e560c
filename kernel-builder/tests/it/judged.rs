//! The newest record of judged packages (bench/results/*-packages.jsonl) is of the examples as they are now.
//!
//! Owns: the digest of a project's sources, as bench/packages.py has it. Never: judges; looks at times of files.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;
use sha2::{Digest, Sha256};

/// Renews the record.
const RENEW: &str = "judge them again on an NVIDIA H200 (bench/README.md, \"Packages as they are shipped\"):\n  \
                     cargo build --bin kernelwright && python3 bench/packages.py carry FOLDER\n  \
                     python3 bench/packages.py judge FOLDER --out OUT        # on the GPU machine\n  \
                     python3 bench/packages.py record OUT --to bench/results/DATE-h200-packages.jsonl";

/// Not sources, beside names that begin with a dot and *.md; equal to NOT_SOURCES of bench/packages.py.
const NOT_SOURCES: &[&str] = &[
    "__pycache__",
    "_inject",
    "benchmarks",
    "build",
    "dist",
    "example.py",
    "flake.lock",
    "flake.nix",
    "kernelwright.lock",
    "tests",
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        write!(text, "{byte:02x}").expect("a string takes all");
        text
    })
}

/// Adds the sources in a folder, by their paths from the project.
fn collect(folder: &Path, prefix: &str, found: &mut BTreeMap<String, String>) {
    for entry in std::fs::read_dir(folder).expect("a folder").flatten() {
        let name = entry.file_name().into_string().expect("a name in UTF-8");
        let path = entry.path();
        if name.starts_with('.') || NOT_SOURCES.contains(&name.as_str()) {
            continue;
        }
        if path.is_dir() {
            collect(&path, &format!("{prefix}{name}/"), found);
        } else if !name.ends_with(".md") {
            let digest = hex(&Sha256::digest(std::fs::read(&path).expect("a file")));
            found.insert(format!("{prefix}{name}"), digest);
        }
    }
}

/// SHA-256 of what `sha256sum` prints of a project's sources, sorted by path.
fn sources(project: &Path) -> String {
    let mut found = BTreeMap::new();
    collect(project, "", &mut found);
    let lines: String = found.iter().map(|(path, digest)| format!("{digest}  {path}\n")).collect();
    hex(&Sha256::digest(lines))
}

/// The examples that are packages with CUDA sources, by name.
fn examples() -> BTreeMap<String, PathBuf> {
    let entries = std::fs::read_dir(root().join("examples")).expect("the examples").flatten();
    let has_cuda = |dir: &Path| {
        std::fs::read_to_string(dir.join("build.toml")).is_ok_and(|text| text.contains("\"cuda\""))
    };
    entries
        .filter(|entry| has_cuda(&entry.path()))
        .map(|entry| (entry.file_name().to_string_lossy().into_owned(), entry.path()))
        .collect()
}

/// The newest record; names begin with the date.
fn newest() -> Option<PathBuf> {
    let entries = std::fs::read_dir(root().join("bench/results")).expect("the records").flatten();
    entries.map(|entry| entry.path()).filter(|path| path.to_string_lossy().ends_with("-packages.jsonl")).max()
}

/// The problem with an example's line of the record, if there is one.
fn problem(line: Option<&Value>, now: &str) -> Option<String> {
    let Some(line) = line else { return Some("is not in it".to_owned()) };
    if line["sources"] != now {
        return Some(format!("has changed since commit {}", line["commit"].as_str().unwrap_or("unknown")));
    }
    (line["outcome"] != "verified").then(|| format!("is not verified: {}", line["why"]))
}

#[test]
fn every_example_was_judged_on_a_gpu_as_it_is_now() {
    let Some(record) = newest() else {
        println!("skipped: there is no bench/results/*-packages.jsonl yet; {RENEW}");
        return;
    };
    let text = std::fs::read_to_string(&record).expect("the record");
    let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let problems: Vec<String> = examples()
        .iter()
        .filter_map(|(name, dir)| {
            let line = lines.iter().find(|line| line["kind"] == "example" && line["name"] == name.as_str());
            problem(line, &sources(dir)).map(|problem| format!("example {name} {problem}"))
        })
        .collect();
    let record = record.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    assert!(problems.is_empty(), "bench/results/{record}:\n{}\n{RENEW}", problems.join("\n"));
}

#[test]
fn a_changed_example_is_a_problem_and_documentation_is_not() {
    let folder = tempfile::tempdir().expect("a folder");
    let write = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        std::fs::write(path, text).expect("a file");
    };
    for name in ["build.toml", "op.toml", "reference.py", "norm_cuda/norm.cu", "tuned/nvidia-h200.toml"] {
        write(name, name);
    }
    let before = sources(folder.path());
    let line = serde_json::json!({ "sources": before, "outcome": "verified", "commit": "c0ffee" });
    for name in ["README.md", "CARD.md", "tests/test_norm.py", "example.py", ".kernelwright/report.json"] {
        write(name, "other");
        assert_eq!(problem(Some(&line), &sources(folder.path())), None, "{name}");
    }
    for name in ["build.toml", "norm_cuda/norm.cu", "tuned/nvidia-h200.toml", "norm_cpu/new.cpp"] {
        write(name, "other");
        let told = problem(Some(&line), &sources(folder.path()));
        assert_eq!(told.as_deref(), Some("has changed since commit c0ffee"), "{name}");
        write(name, name);
    }
    assert!(problem(None, &before).is_some());
    let refused = serde_json::json!({ "sources": before, "outcome": "refused", "why": "verify::numerics" });
    assert!(problem(Some(&refused), &before).is_some_and(|told| told.contains("verify::numerics")));
}

#[test]
fn the_script_has_the_same_digests() {
    let examples = examples();
    assert!(!examples.is_empty());
    let mut command = Command::new("python3");
    command.arg(root().join("bench/packages.py")).arg("digest").args(examples.values());
    let Ok(done) = command.output() else {
        println!("skipped: python3 not found");
        return;
    };
    let theirs = String::from_utf8_lossy(&done.stdout).into_owned();
    let ours: String =
        examples.values().map(|dir| format!("{}  {}\n", sources(dir), dir.display())).collect();
    assert_eq!(theirs, ours, "{}", String::from_utf8_lossy(&done.stderr));
}
