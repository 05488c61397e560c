//! Copies of kernel projects, to build in.
//!
//! Owns: what of a project is its source. Never: builds it.

use std::fs;
use std::path::Path;

/// Copies a project without what was built in it.
pub(crate) fn sources(from: &Path, to: &Path) -> std::io::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let name = entry.file_name();
        if [".kernelwright", "build", "dist", "__pycache__"].iter().any(|generated| name == *generated) {
            continue;
        }
        if entry.file_type()?.is_dir() {
            sources(&entry.path(), &to.join(&name))?;
        } else {
            fs::copy(entry.path(), to.join(&name))?;
        }
    }
    Ok(())
}
