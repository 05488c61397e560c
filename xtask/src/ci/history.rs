//! What git says of the history of this checkout.
//!
//! Owns: the number of commits, by which successive commits take turns. Never: reads a file.

use std::path::Path;
use std::process::{Command, Stdio};

/// The number of commits up to this one, which says whose turn it is.
///
/// # Errors
/// git is missing or fails, or the history is cut off: the number would then be the same for every commit.
pub(crate) fn commits(root: &Path) -> Result<usize, String> {
    if git(root, &["rev-parse", "--is-shallow-repository"])? != "false" {
        return Err("failed to count the commits: this clone is shallow".to_owned());
    }
    let text = git(root, &["rev-list", "--count", "HEAD"])?;
    text.parse().map_err(|_| format!("failed to count commits: git printed `{text}`"))
}

fn git(root: &Path, arguments: &[&str]) -> Result<String, String> {
    let failed = |cause: String| format!("failed to run git {}: {cause}", arguments.join(" "));
    let output = Command::new("git")
        .args(arguments)
        .current_dir(root)
        .stdin(Stdio::null())
        .output()
        .map_err(|error| failed(error.to_string()))?;
    if !output.status.success() {
        return Err(failed(String::from_utf8_lossy(&output.stderr).trim().to_owned()));
    }
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}
