//! What a hub has of a kernel already, as far as it says what users count on, brought into a folder.
//!
//! Owns: which branch, which variants of it and which of their files. Never: judges them; brings what lies here already;
//! runs anything of it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::base::files;
use crate::base::report::{ProgressKind, bytes};
use crate::base::session::Session;
use crate::hub::Hub;
use crate::hub::find::versions;
use crate::hub::read::{Entry, Refs};
use crate::package::Bundle;
use crate::publish::PublishError;

use super::{Target, local, plan};

/// A larger library is not brought here to be read.
const LARGEST: u64 = 200 << 20;
const METADATA: &str = "metadata.json";

/// A published kernel, in part: metadata of all variants, Python and libraries of one for each backend.
#[derive(Debug)]
pub struct Published {
    /// Where it is, for people: the branch, the repository.
    pub place: String,
    /// The folder that has its `build`; gone with this value.
    pub folder: tempfile::TempDir,
    /// The variants that were brought here.
    pub variants: Vec<String>,
}

/// What is published where `target` is, or of the version before; nothing where there is no build of it.
///
/// # Errors
/// The hub cannot be asked, or the branch of the target has another kernel.
pub fn fetch(
    bundle: &Bundle,
    target: &Target,
    hub: &Hub,
    session: &Session,
) -> Result<Option<Published>, PublishError> {
    let Some(refs) = hub.refs(&target.repo)? else { return Ok(None) };
    for branch in candidates(&refs, target, bundle.version) {
        let Some(commit) = refs.head(&branch) else { continue };
        let files = hub.files(&target.repo, commit, "build")?;
        let found = BuildBranch { bundle, target, hub, commit, files };
        let metadata = found.metadata()?;
        if metadata.is_empty() {
            continue;
        }
        let place = format!("branch `{branch}` of `{}`", target.repo);
        let named = metadata.values().filter_map(|metadata| metadata["name"].as_str());
        if branch == target.branch.as_str()
            && let Some(other) = named.into_iter().find(|name| *name != bundle.name)
        {
            let (there, ours) = (hub.shown(other), bundle.name.clone());
            return Err(PublishError::OtherKernel { place, there, ours });
        }
        return found.bring(&metadata, place, session).map(Some);
    }
    Ok(None)
}

/// The branch that is changed, where it is there; else that of the version before, which is only told about.
fn candidates(refs: &Refs, target: &Target, version: u64) -> Vec<String> {
    let own = target.branch.to_string();
    let earlier =
        versions(refs).into_iter().filter(|other| *other < version).map(|other| format!("v{other}"));
    if refs.head(&own).is_some() { vec![own] } else { earlier.take(1).collect() }
}

/// A branch that may have builds.
struct BuildBranch<'a> {
    bundle: &'a Bundle,
    target: &'a Target,
    hub: &'a Hub,
    commit: &'a str,
    files: Vec<Entry>,
}

impl BuildBranch<'_> {
    /// What each variant says of itself, where it does.
    fn metadata(&self) -> Result<BTreeMap<String, Value>, PublishError> {
        let mut found = BTreeMap::new();
        for entry in &self.files {
            if let Some((variant, METADATA)) = inside(entry) {
                let content = self.hub.listed(&self.target.repo, self.commit, entry)?;
                found.extend(serde_json::from_slice(&content).ok().map(|value| (variant.to_owned(), value)));
            }
        }
        Ok(found)
    }

    /// Of each backend one variant: one that the package has too, else the first.
    fn chosen(&self, metadata: &BTreeMap<String, Value>) -> Vec<String> {
        let mut chosen: BTreeMap<&str, &String> = BTreeMap::new();
        let is_ours = |variant: &String| self.bundle.variants.contains(variant);
        for (variant, metadata) in metadata {
            let backend = metadata["backend"]["type"].as_str().unwrap_or_default();
            let known = chosen.entry(backend).or_insert(variant);
            if is_ours(variant) && !is_ours(known) {
                *known = variant;
            }
        }
        chosen.into_values().cloned().collect()
    }

    fn bring(
        &self,
        metadata: &BTreeMap<String, Value>,
        place: String,
        session: &Session,
    ) -> Result<Published, PublishError> {
        let folder = files::scratch()?;
        for (variant, metadata) in metadata {
            let path = folder.path().join("build").join(variant).join(METADATA);
            files::write(&path, metadata.to_string())?;
        }
        let variants = self.chosen(metadata);
        let mut wanted: Vec<(&Entry, PathBuf)> = Vec::new();
        for entry in &self.files {
            let Some((variant, name)) = inside(entry) else { continue };
            if !variants.iter().any(|chosen| chosen == variant)
                || !(name.ends_with(".py") || name.ends_with(".so"))
            {
                continue;
            }
            let to = folder.path().join("build").join(variant).join(name);
            if self.is_here(entry, variant, name, &to)? {
                continue;
            }
            if entry.size > LARGEST {
                session.report.warn(format!(
                    "`{}` in {place} has {}: it was not fetched, and its operators were not compared",
                    self.hub.shown(&entry.path),
                    bytes(entry.size)
                ));
                continue;
            }
            wanted.push((entry, to));
        }
        self.fetch(&wanted, session)?;
        Ok(Published { place, folder, variants })
    }

    fn fetch(&self, wanted: &[(&Entry, PathBuf)], session: &Session) -> Result<(), PublishError> {
        let total = wanted.iter().map(|(entry, _)| entry.size).sum();
        // Where all of it lies here, there is nothing to see.
        let progress = match wanted {
            [] => return Ok(()),
            _ => session.report.progress("compare", ProgressKind::Bytes, Some(total)),
        };
        for (entry, to) in wanted {
            let content = self.hub.listed(&self.target.repo, self.commit, entry)?;
            progress.add(content.len() as u64);
            files::write(to, content)?;
        }
        Ok(())
    }

    /// Takes a file of the package, where it is the one of the hub.
    fn is_here(&self, entry: &Entry, variant: &str, name: &str, to: &Path) -> Result<bool, PublishError> {
        let own = self.bundle.dir.join(variant).join(name);
        if !files::exists(&own) || !plan::same(&local::read(entry.path.clone(), &own)?, entry) {
            return Ok(false);
        }
        files::link_or_copy(&own, to)?;
        Ok(true)
    }
}

/// A file of a variant: the variant, and its path there. What could lie elsewhere than in it is none.
fn inside(entry: &Entry) -> Option<(&str, &str)> {
    // As it is written, since that is what is joined: `build/a//etc/x` would begin anew at the root.
    let (variant, name) = entry.path.strip_prefix("build/")?.split_once('/')?;
    let plain = |part: &str| !part.is_empty() && part != "." && part != "..";
    (plain(variant) && name.split('/').all(plain)).then_some((variant, name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_variants_stay_in_them() {
        let entry = |path: &str| Entry {
            kind: "file".to_owned(),
            path: path.to_owned(),
            size: 1,
            oid: String::new(),
            lfs: None,
        };
        assert_eq!(inside(&entry("build/torch-cpu/a/b.py")), Some(("torch-cpu", "a/b.py")));
        for path in
            ["build/../x.py", "build/a/../../x.py", "/build/a/x.py", "build/a//x.py", "build/CARD.md", "x.py"]
        {
            assert_eq!(inside(&entry(path)), None, "{path}");
        }
    }
}
