//! bench/results/index.toml lists every record, beside it and in the archives, with its digest.
//!
//! Owns: the comparison. Never: judges a record.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use sha2::{Digest, Sha256};

use super::old_records::unpacked;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Index {
    archive: Vec<Archive>,
    record: Vec<Record>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Archive {
    name: String,
    sha256: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Record {
    name: String,
    sha256: String,
    #[serde(default)]
    protocol: Vec<u64>,
    what: String,
    archive: Option<String>,
}

fn results() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../bench/results")
}

fn digest(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().fold(String::new(), |mut text, byte| {
        write!(text, "{byte:02x}").expect("a string takes all");
        text
    })
}

/// The files of a folder, by name.
fn files(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let entries = std::fs::read_dir(folder).expect("the records").flatten();
    let file = |path: PathBuf| {
        let name = path.file_name().expect("a name").to_string_lossy().into_owned();
        (name, std::fs::read(&path).expect("a file"))
    };
    entries.map(|entry| file(entry.path())).collect()
}

/// The protocols of the measurements in a file of records.
fn protocols(name: &str, bytes: &[u8]) -> Vec<u64> {
    let lines =
        bytes.split(|byte| *byte == b'\n').filter(|line| !line.is_empty() && name.ends_with(".jsonl"));
    let read = |line| serde_json::from_slice::<serde_json::Value>(line).expect("JSON");
    let found: BTreeSet<u64> = lines.filter_map(|line| read(line)["protocol"].as_u64()).collect();
    found.into_iter().collect()
}

/// Where the index of a folder and its records differ.
fn problems(folder: &Path) -> Vec<String> {
    let mut here = files(folder);
    let index = String::from_utf8(here.remove("index.toml").expect("index.toml")).expect("UTF-8");
    let index: Index = toml::from_str(&index).expect("an index");
    let mut found = Vec::new();
    let mut places: BTreeMap<Option<String>, BTreeMap<String, Vec<u8>>> = BTreeMap::new();
    for archive in &index.archive {
        match here.remove(&archive.name) {
            Some(bytes) if digest(&bytes) == archive.sha256 => {
                places.insert(Some(archive.name.clone()), unpacked(&bytes));
            }
            Some(_) => found.push(format!("the digest of {} is another", archive.name)),
            None => found.push(format!("{} does not exist", archive.name)),
        }
    }
    places.insert(None, here);
    for record in &index.record {
        let place = record.archive.as_deref().unwrap_or("the folder");
        match places.get_mut(&record.archive).and_then(|files| files.remove(&record.name)) {
            None => found.push(format!("{} is not in {place}", record.name)),
            Some(bytes) if digest(&bytes) != record.sha256 => {
                found.push(format!("the digest of {} is another", record.name));
            }
            Some(bytes) if protocols(&record.name, &bytes) != record.protocol => {
                found.push(format!("the protocol of {} is another", record.name));
            }
            Some(_) if record.what.is_empty() => found.push(format!("{} has no description", record.name)),
            Some(_) => {}
        }
    }
    for (place, files) in places {
        let place = place.as_deref().unwrap_or("the folder");
        found.extend(files.into_keys().map(|name| format!("{name} in {place} is not in the index")));
    }
    found
}

#[test]
fn every_record_is_in_the_index_with_its_digest() {
    assert_eq!(problems(&results()), [""; 0]);
}

#[test]
fn a_record_that_changes_comes_or_goes_is_a_problem() {
    let folder = tempfile::tempdir().expect("a folder");
    for (name, bytes) in files(&results()) {
        std::fs::write(folder.path().join(name), bytes).expect("a file");
    }
    let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).expect("a file");
    write("2026-11-21-check.json", "{}");
    write("new.txt", "unlisted");
    std::fs::remove_file(folder.path().join("2026-11-23-h200-tests.txt")).expect("a file");
    let index = std::fs::read_to_string(folder.path().join("index.toml")).expect("the index");
    let lied = index.replace("protocol = [4]", "protocol = [6]");
    let hidden = lied.replacen("name = \"2026-11-22-h200-filled.jsonl\"", "name = \"x.jsonl\"", 1);
    write("index.toml", &hidden);
    let found = problems(folder.path());
    for problem in [
        "the digest of 2026-11-21-check.json is another",
        "new.txt in the folder is not in the index",
        "2026-11-23-h200-tests.txt is not in the folder",
        "the protocol of 2026-11-23-h200-rows-2.jsonl is another",
        "x.jsonl is not in archive-0.1.tar.xz",
        "2026-11-22-h200-filled.jsonl in archive-0.1.tar.xz is not in the index",
    ] {
        assert!(found.iter().any(|one| one == problem), "{problem}: {found:?}");
    }
    write("archive-0.1.tar.xz", "another");
    assert!(problems(folder.path()).contains(&"the digest of archive-0.1.tar.xz is another".to_owned()));
}
