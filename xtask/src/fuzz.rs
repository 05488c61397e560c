//! `cargo xtask fuzz`: every fuzz target for a while, from the committed seeds.
//!
//! Owns: which seeds a target starts from. Never: fuzzes itself; `cargo fuzz` does (`cargo install cargo-fuzz`).

use std::fs;
use std::process::{Command, ExitCode};

use crate::repo;

/// Where a target starts from, beside `fuzz/seeds/<target>`: folders of texts that the tests keep anyway.
const SEEDS: &[(&str, &[&str])] = &[
    ("build_toml", &["tests/spec"]),
    ("definition", &["kernel-builder/kernel-plan/tests/exchange"]),
    ("op_toml", &["tests/spec/err", "templates", "tests/cheats"]),
    ("update", &["tests/spec"]),
];

/// Runs the targets whose names are `wanted`, or all, each for `seconds`. Fails with the first finding.
pub(crate) fn run(seconds: &str, wanted: &[&str]) -> ExitCode {
    match run_all(seconds, wanted) {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("error: {message}");
            ExitCode::FAILURE
        }
    }
}

fn run_all(seconds: &str, wanted: &[&str]) -> Result<(), String> {
    let limit: u32 = seconds
        .parse()
        .map_err(|_| format!("`{seconds}` is not a number of seconds; try: cargo xtask fuzz 600"))?;
    let mut targets = targets()?;
    if let Some(unknown) = wanted.iter().find(|name| !targets.iter().any(|target| target == *name)) {
        return Err(format!("unknown target `{unknown}`; targets: {}", targets.join(", ")));
    }
    targets.retain(|target| wanted.is_empty() || wanted.contains(&target.as_str()));
    targets.iter().try_for_each(|target| fuzz(target, limit))
}

/// The names of the files in fuzz/fuzz_targets, sorted.
fn targets() -> Result<Vec<String>, String> {
    let folder = repo::root().join("fuzz/fuzz_targets");
    let entries = fs::read_dir(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let mut names: Vec<String> =
        names.filter_map(|name| Some(name.strip_suffix(".rs")?.to_owned())).collect();
    names.sort();
    Ok(names)
}

fn fuzz(target: &str, seconds: u32) -> Result<(), String> {
    let root = repo::root();
    // What is found on the way is kept here, untracked; folders behind the first are only read.
    let corpus = format!("fuzz/corpus/{target}");
    fs::create_dir_all(root.join(&corpus)).map_err(|error| format!("{corpus}: {error}"))?;
    let own = format!("fuzz/seeds/{target}");
    let shared = SEEDS.iter().find(|(name, _)| *name == target).map_or(&[][..], |(_, folders)| folders);
    let seeds = [own.as_str()].into_iter().chain(shared.iter().copied());
    let status = Command::new("cargo")
        .args(["fuzz", "run", target, &corpus])
        .args(seeds.filter(|folder| root.join(folder).is_dir()))
        .args([
            "--",
            &format!("-max_total_time={seconds}"),
            "-max_len=8192",
            "-timeout=10",
            "-print_final_stats=1",
        ])
        // The sanitizer's switches are unstable; this lets the toolchain of the repository take them.
        .env("RUSTC_BOOTSTRAP", "1")
        .current_dir(&root)
        .status()
        .map_err(|error| format!("cargo does not start: {error}"))?;
    if status.success() {
        Ok(())
    } else {
        Err(format!(
            "`{target}` failed ({status}); a finding is a file below fuzz/artifacts/{target}. Without cargo-fuzz: cargo install cargo-fuzz"
        ))
    }
}
