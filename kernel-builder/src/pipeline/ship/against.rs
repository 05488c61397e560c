//! A package held against what is published of it: what its users count on is there, or the version says otherwise.
//!
//! Owns: which variants are compared with which. Never: says what a break is (`publish::api` does), changes either.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::base::files;
use crate::base::session::Session;
use crate::exit::Failure;
use crate::hub::Hub;
use crate::package::{Bundle, is_shipped};
use crate::publish::hub::published::{self, Published};
use crate::publish::hub::{StaleFiles, Target};
use crate::publish::{ApiError, PublishError, api};
use crate::toolchain;

/// A variant as it lies in a folder.
struct Variant {
    folder: PathBuf,
    variant: String,
    backend: String,
    name: String,
    version: Option<u64>,
}

/// A publication.
struct EarlierPublication<'a> {
    /// Where it is, for people.
    place: String,
    variants: Vec<Variant>,
    /// Whether variants that the package does not have stay there.
    stays: bool,
    /// Where a hub's copy lies; one of its files that cannot be parsed is nothing that anybody here can mend.
    copy: Option<&'a Path>,
}

impl<'a> EarlierPublication<'a> {
    fn read(dir: &Path, session: &Session) -> Result<Self, Failure> {
        let place = format!("`{}`", dir.display());
        Ok(Self { place, variants: variants(&dir.join("build"), session)?, stays: false, copy: None })
    }

    fn of_hub(published: &'a Published, stale: StaleFiles, session: &Session) -> Result<Self, Failure> {
        let (place, copy) = (published.place.clone(), published.folder.path());
        let variants = variants(&copy.join("build"), session)?;
        Ok(Self { place, variants, stays: stale == StaleFiles::Keep, copy: Some(copy) })
    }
}

/// Compares with what a folder holds that is about to be replaced; a first publication has nothing to break.
///
/// # Errors
/// [`ApiError::Break`], or one of the two cannot be read.
pub(crate) fn hold(bundle: &Bundle, dir: &Path, session: &Session) -> Result<(), Failure> {
    let earlier = EarlierPublication::read(dir, session)?;
    if earlier.variants.is_empty() { Ok(()) } else { compare(bundle, &earlier, None, session) }
}

/// Compares with a folder that was named.
///
/// # Errors
/// As of [`hold`], and where the folder holds no kernel.
pub(crate) fn published(bundle: &Bundle, dir: &Path, session: &Session) -> Result<(), Failure> {
    let earlier = EarlierPublication::read(dir, session)?;
    if earlier.variants.is_empty() {
        return Err(ApiError::Nothing { dir: dir.to_owned() }.into());
    }
    compare(bundle, &earlier, None, session)
}

/// Compares with what a hub has on the branch that is about to change, or of the version before.
///
/// # Errors
/// As of [`hold`]; the hub cannot be asked, or has another kernel there.
pub(crate) fn on_hub(bundle: &Bundle, target: &Target, hub: &Hub, session: &Session) -> Result<(), Failure> {
    let Some(published) = published::fetch(bundle, target, hub, session)? else {
        session.report.note(format!(
            "branch `{}` of `{}` and the versions before it have no build yet: there is no API to compare with",
            target.branch, target.repo
        ));
        return Ok(());
    };
    compare(
        bundle,
        &EarlierPublication::of_hub(&published, target.stale, session)?,
        Some(&published.variants),
        session,
    )
}

/// `only`: the variants of the publication that lie here as a whole.
fn compare(
    bundle: &Bundle,
    earlier: &EarlierPublication<'_>,
    only: Option<&[String]>,
    session: &Session,
) -> Result<(), Failure> {
    let place = &earlier.place;
    // Another kernel is told by whoever sends; without a version there is nothing to hold.
    let of_this = |old: &&Variant| old.name == bundle.name && old.version.is_some();
    let old: Vec<&Variant> = earlier.variants.iter().filter(of_this).collect();
    let Some(version) = old.iter().filter_map(|old| old.version).max() else {
        if earlier.copy.is_some() {
            session.report.note(format!(
                "{place} does not say that it is a version of `{}`, so its API was not compared",
                bundle.name
            ));
        }
        return Ok(());
    };
    let new = variants(&bundle.dir, session)?;
    // The same variant, else another one for the same backend; a backend that is no longer there breaks no call.
    let pairs: Vec<(&Variant, &Variant)> = old
        .iter()
        .filter(|old| only.is_none_or(|only| only.contains(&old.variant)))
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
    if !gone.is_empty() && !earlier.stays {
        let gone: Vec<_> = gone.into_iter().collect();
        session.report.warn(format!(
            "the publication in {place} is also for {}, but this package is not",
            gone.join(" and ")
        ));
    }
    if pairs.is_empty() {
        return Ok(());
    }
    let folders: BTreeSet<&PathBuf> =
        pairs.iter().flat_map(|(old, new)| [&old.folder, &new.folder]).collect();
    let folders: Vec<PathBuf> = folders.into_iter().cloned().collect();
    let apis = match api::read_packages(&folders, &toolchain::plain_python()?) {
        Err(PublishError::Api(ApiError::Unread { file }))
            if earlier.copy.is_some_and(|copy| file.starts_with(copy)) =>
        {
            session
                .report
                .warn(format!("the Python code in {place} cannot be parsed, so its API was not compared"));
            return Ok(());
        }
        other => other?,
    };
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
        session.report.note(format!("changed since version {version} of {place}: {}", changes.join("; ")));
        return Ok(());
    }
    let changes = changes.into_iter().collect();
    Err(ApiError::Break { name: bundle.name.clone(), version, place: place.clone(), changes }.into())
}

/// The variants in a folder `build`, by their metadata.
fn variants(build: &Path, session: &Session) -> Result<Vec<Variant>, Failure> {
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
            session.report.warn(format!("{} is damaged: this variant was not compared", path.display()));
            continue;
        };
        let word = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let variant = path.parent().map(|parent| parent.display().to_string()).unwrap_or_default();
        found.push(Variant {
            folder: build.join(&variant),
            backend: word(&metadata["backend"]["type"]),
            name: word(&metadata["name"]),
            version: metadata["version"].as_u64(),
            variant,
        });
    }
    Ok(found)
}
