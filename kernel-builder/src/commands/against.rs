//! A package held against what is published of it: what its users count on is there, or the version says otherwise.
//!
//! Owns: which variants are compared with which. Never: says what a break is (`publish::api` does), changes either.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::base::files;
use crate::base::session::Session;
use crate::exit::Failure;
use crate::package::{Bundle, is_shipped};
use crate::publish::{ApiError, api};
use crate::toolchain;

/// A variant as it lies in a folder.
struct Published {
    folder: PathBuf,
    variant: String,
    backend: String,
    name: String,
    version: Option<u64>,
}

/// Compares with what a folder holds that is about to be replaced; a first publication has nothing to break.
///
/// # Errors
/// [`ApiError::Break`], or one of the two cannot be read.
pub(super) fn hold(bundle: &Bundle, dir: &Path, session: &Session) -> Result<(), Failure> {
    let old = variants(&dir.join("build"), session)?;
    if old.is_empty() { Ok(()) } else { compare(bundle, dir, &old, session) }
}

/// Compares with a folder that was named.
///
/// # Errors
/// As of [`hold`], and where the folder holds no kernel.
pub(super) fn published(bundle: &Bundle, dir: &Path, session: &Session) -> Result<(), Failure> {
    let old = variants(&dir.join("build"), session)?;
    if old.is_empty() {
        return Err(ApiError::Nothing { dir: dir.to_owned() }.into());
    }
    compare(bundle, dir, &old, session)
}

fn compare(bundle: &Bundle, dir: &Path, old: &[Published], session: &Session) -> Result<(), Failure> {
    // Another kernel is told by whoever sends; without a version there is nothing to hold.
    let of_this = |old: &&Published| old.name == bundle.name && old.version.is_some();
    let old: Vec<&Published> = old.iter().filter(of_this).collect();
    let Some(version) = old.iter().filter_map(|old| old.version).max() else { return Ok(()) };
    let new = variants(&bundle.dir, session)?;
    // The same variant, else another one for the same backend; a backend that is no longer there breaks no call.
    let pairs: Vec<(&Published, &Published)> = old
        .iter()
        .filter_map(|old| {
            let same = new.iter().find(|new| new.variant == old.variant);
            Some((*old, same.or_else(|| new.iter().find(|new| new.backend == old.backend))?))
        })
        .collect();
    let gone: BTreeSet<&str> = old
        .iter()
        .filter(|old| !new.iter().any(|new| new.backend == old.backend))
        .map(|old| old.backend.as_str())
        .collect();
    if !gone.is_empty() {
        let gone: Vec<_> = gone.into_iter().collect();
        session.report.warn(format!(
            "what is published in `{}` is also for {}, and this package is not",
            dir.display(),
            gone.join(" and ")
        ));
    }
    if pairs.is_empty() {
        return Ok(());
    }
    let folders: BTreeSet<&PathBuf> =
        pairs.iter().flat_map(|(old, new)| [&old.folder, &new.folder]).collect();
    let folders: Vec<PathBuf> = folders.into_iter().cloned().collect();
    let apis = api::of(&folders, &toolchain::plain_python()?)?;
    let apis: BTreeMap<&PathBuf, api::Api> = folders.iter().zip(apis).collect();
    let mut changes = BTreeSet::new();
    for (old, new) in pairs {
        if let (Some(old), Some(new)) = (apis.get(&old.folder), apis.get(&new.folder)) {
            changes.extend(api::breaks(old, new));
        }
    }
    if changes.is_empty() {
        return Ok(());
    }
    if bundle.version > version || (bundle.version, version) == (0, 0) {
        let changes: Vec<String> = changes.into_iter().collect();
        session.report.note(format!(
            "not as in version {version} of `{}`: {}",
            dir.display(),
            changes.join("; ")
        ));
        return Ok(());
    }
    let changes = changes.into_iter().collect();
    Err(ApiError::Break { name: bundle.name.clone(), version, dir: dir.to_owned(), changes }.into())
}

/// The variants in a folder `build`, by their metadata.
fn variants(build: &Path, session: &Session) -> Result<Vec<Published>, Failure> {
    if !files::is_dir(build) {
        return Ok(Vec::new());
    }
    let mut found = Vec::new();
    for path in files::walk(build, is_shipped)? {
        if !path.ends_with("metadata.json") || path.components().count() != 2 {
            continue;
        }
        let text = files::read(&build.join(&path))?;
        let Ok(metadata) = serde_json::from_slice::<Value>(&text) else {
            let path = build.join(&path);
            session
                .report
                .warn(format!("{} is damaged: nothing is held against that variant", path.display()));
            continue;
        };
        let word = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let variant = path.parent().map(|parent| parent.display().to_string()).unwrap_or_default();
        found.push(Published {
            folder: build.join(&variant),
            backend: word(&metadata["backend"]["type"]),
            name: word(&metadata["name"]),
            version: metadata["version"].as_u64(),
            variant,
        });
    }
    Ok(found)
}
