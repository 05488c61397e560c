//! What keeps `cargo xtask test` from compiling anything twice.
//!
//! Owns: the features of dependencies with and without tests. Never: compiles anything, or uses the network.

use std::collections::BTreeSet;

use super::repository::Repository;
use crate::repo;

/// Cargo resolves the same features for `cargo build` and `cargo run` as for tests. Different features are different
/// fingerprints: cargo would compile a crate and everything above it twice.
pub(super) fn features_are_the_same_without_tests(repository: &Repository) -> Vec<String> {
    let tree = |edges: &str| tree(repository, edges);
    let (without, with) = match (tree("normal,build"), tree("normal,build,dev")) {
        (Ok(without), Ok(with)) => (without, with),
        // In a clone without downloaded crates this is known only later, when this rule runs as a test.
        (Err(error), _) | (_, Err(error)) if error.contains("offline") => {
            eprintln!("skipped a rule: cargo has not downloaded the dependencies yet");
            return vec![];
        }
        (Err(error), _) | (_, Err(error)) => return vec![format!("Cargo.toml: {error}")],
    };
    without
        .difference(&with)
        .map(|line| {
            format!(
                "xtask/dev-dependencies/Cargo.toml: tests use other features than `{line}`; list every external \
                 dev-dependency of the workspace there"
            )
        })
        .collect()
}

/// One line for each package and its features: `serde v1.0.0 [default,std]`.
fn tree(repository: &Repository, edges: &str) -> Result<BTreeSet<String>, String> {
    let mut command = repo::cargo();
    command.args([
        "tree",
        "--workspace",
        "--locked",
        "--offline",
        "--quiet",
        "--prefix",
        "none",
        "--no-dedupe",
    ]);
    command.args(["--format", "{p} [{f}]", "--edges", edges]).current_dir(&repository.root);
    let listed = command.output().map_err(|error| format!("failed to run cargo tree: {error}"))?;
    if !listed.status.success() {
        return Err(format!("cargo tree failed: {}", String::from_utf8_lossy(&listed.stderr).trim()));
    }
    Ok(String::from_utf8_lossy(&listed.stdout).lines().map(str::to_owned).collect())
}
