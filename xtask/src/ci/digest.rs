//! Digests of everything that an item is about, by git.
//!
//! Owns: the lists of files and their digests. Never: decides what is left out.

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use super::inputs;
use super::proven::Digests;
use super::steps::{self, STEPS};
use crate::repo;

/// The lists that the digests are of, for people who look for a difference; from the root.
const LISTS: &str = "target/ci/inputs";

/// The digest of every item of every step in the proven table, as the files are now.
///
/// # Errors
/// git is missing or fails.
pub(crate) fn current(root: &Path) -> Result<Digests, String> {
    let paths: Vec<String> = repo::files(root)?
        .into_iter()
        .filter_map(|path| path.into_os_string().into_string().ok())
        .filter(|path| !inputs::is_never(path))
        .collect();
    let hashes = hashes(root, &paths)?;
    let files: Vec<(&str, &str)> =
        paths.iter().map(String::as_str).zip(hashes.iter().map(String::as_str)).collect();
    let folder = root.join(LISTS);
    let failed = |error: std::io::Error| format!("failed to write {LISTS}: {error}");
    fs::create_dir_all(&folder).map_err(failed)?;
    let mut names = Vec::new();
    let mut lists = Vec::new();
    for step in STEPS.iter().filter(|step| step.turn.is_some()) {
        for item in steps::items(step, root)? {
            let file = format!("{LISTS}/{}.{item}", step.name);
            let text = list(&files, &inputs::item_inputs(step.name, &item, root));
            fs::write(root.join(&file), text).map_err(failed)?;
            names.push((step.name.to_owned(), item));
            lists.push(file);
        }
    }
    Ok(names.into_iter().zip(self::hashes(root, &lists)?).collect())
}

/// `path digest` of each input, a line each, in the order of `files`, which is sorted.
fn list(files: &[(&str, &str)], own: &[String]) -> String {
    let wanted = files.iter().filter(|(path, _)| inputs::covers(own, path));
    wanted.map(|(path, hash)| format!("{path} {hash}\n")).collect()
}

/// git's own digest of each file, all in one process.
fn hashes(root: &Path, paths: &[String]) -> Result<Vec<String>, String> {
    let failed = |cause: String| format!("failed to hash files by git: {cause}");
    let mut child = Command::new("git")
        .args(["hash-object", "--no-filters", "--stdin-paths"])
        .current_dir(root)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| failed(error.to_string()))?;
    let stdin = child.stdin.take();
    let all: String = paths.iter().map(|path| format!("{path}\n")).collect();
    // Written beside the reading, since both pipes are smaller than the lists.
    let writer =
        std::thread::spawn(move || stdin.map_or(Ok(()), |mut stdin| stdin.write_all(all.as_bytes())));
    let output = child.wait_with_output().map_err(|error| failed(error.to_string()))?;
    let written = writer.join().map_err(|_| failed("the writer panicked".to_owned()))?;
    if !output.status.success() {
        return Err(failed(String::from_utf8_lossy(&output.stderr).trim().to_owned()));
    }
    written.map_err(|error| failed(error.to_string()))?;
    let found: Vec<String> = String::from_utf8_lossy(&output.stdout).lines().map(str::to_owned).collect();
    if found.len() != paths.len() {
        return Err(failed(format!("{} digests for {} files", found.len(), paths.len())));
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_has_the_common_files_and_those_of_the_item_alone() {
        let files = [
            ("README.md", "1"),
            ("templates/rope/op.toml.j2", "2"),
            ("templates/swiglu/op.toml.j2", "3"),
            ("variants.toml", "4"),
        ];
        let own = ["templates/rope/".to_owned()];
        assert_eq!(list(&files, &own), "templates/rope/op.toml.j2 2\nvariants.toml 4\n");
    }

    #[test]
    fn git_hashes_in_the_order_of_the_paths() {
        let root = repo::root();
        let paths = ["Cargo.toml".to_owned(), "Cargo.lock".to_owned(), "Cargo.toml".to_owned()];
        let found = hashes(&root, &paths).unwrap();
        assert!(found[0] == found[2] && found[0] != found[1] && found[0].len() >= 40, "{found:?}");
        assert!(hashes(&root, &["no/such/file".to_owned()]).is_err());
    }
}
