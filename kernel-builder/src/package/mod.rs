//! Bundles verified artifacts in the hub's layout: `build/<variant>/...` with `metadata.json`, `build/CARD.md`.
//!
//! Owns: the layout, the metadata, the card, the signature.
//! Never: puts an artifact that was not verified into a bundle, which alone can be published; sends anything anywhere.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use kernel_plan::spec::BuildSpec;
use serde::Serialize;

use crate::base::digest::{Digest, DigestBuilder};
use crate::base::files::{self, FileError};
use crate::bench::dispatch::{self, Dispatch};
use crate::compile::artifact::Artifact;
use crate::verify::{self, Outcome, Verified};

pub mod card;
mod clean;
mod contents;
mod error;
mod judged;
pub(crate) mod launchers;
pub mod metadata;
mod shipped;
pub mod signature;

pub use contents::{Additions, Contents};
pub use error::PackageError;
pub use judged::{Judgement, Status};
pub use launchers::LauncherSource;
pub use metadata::Provenance;
use shipped::extra_files;
pub(crate) use shipped::is_shipped;

/// A kernel in the hub's layout, ready to be published.
#[derive(Debug, Clone, Serialize)]
pub struct Bundle {
    /// The kernel's name.
    pub name: String,
    /// The kernel's major version: its branch on a hub is `v<version>`.
    pub version: u64,
    /// The folder: `build` of the project.
    pub dir: PathBuf,
    /// The variants inside.
    pub variants: Vec<String>,
    /// Where the results of each were checked.
    pub status: Vec<Status>,
    /// Files outside of the variants that are published too, as (path in the publication, path here).
    pub extra: Vec<(PathBuf, PathBuf)>,
    /// Digest over every file of the bundle but its signature.
    pub digest: Digest,
    /// The operations that Rust programs can call, too.
    pub for_rust: Vec<String>,
    /// Whether an older bundle with a signature was replaced: this one has none.
    #[serde(skip)]
    pub lost_signature: bool,
}

/// Makes `build/` of the project: every variant with its metadata, and the card. The old folder is replaced as a whole.
pub fn bundle(contents: &Contents<'_>) -> Result<Bundle, PackageError> {
    of_the_project_alone(contents.verified.iter().map(Verified::inner))?;
    let dir = contents.project.join("build");
    let staged = files::staging_beside(&dir)?;
    let (mut status, mut for_rust) = (Vec::new(), BTreeSet::new());
    for verified in contents.verified {
        let artifact = verified.inner();
        let origin = (contents.build, &contents.provenance);
        let judged = Judgement::from_evidence(verified.evidence());
        let folder = staged.path().join(&artifact.variant);
        for_rust.extend(variant(origin, artifact, &contents.additions, judged.as_ref(), &folder)?);
        status.push(Status::new(&artifact.variant, &artifact.backend, judged));
    }
    status.sort_by(|a, b| a.variant.cmp(&b.variant));
    files::write(&staged.path().join("CARD.md"), card::render(contents, &status)?)?;
    let extra = extra_files(contents.project)?;
    clean(staged.path(), &extra, Vec::new())?;
    let digest = bundle_digest(staged.path())?;
    // An equal bundle stays as it is, so that its time stamps do not say that something happened, and with its signature.
    let is_replaced = !files::is_dir(&dir) || bundle_digest(&dir)? != digest;
    let lost_signature = is_replaced && signature::is_there(&dir);
    if is_replaced {
        files::replace_dir(staged, &dir)?;
    }
    let general = &contents.build.general;
    Ok(Bundle {
        name: general.name.to_string(),
        version: general.version.value,
        variants: status.iter().map(|one| one.variant.clone()).collect(),
        status,
        extra,
        digest,
        for_rust: for_rust.into_iter().collect(),
        lost_signature,
        dir,
    })
}

/// Refuses builds that read files outside of the project.
///
/// # Errors
/// All of them.
pub fn of_the_project_alone<'a>(
    artifacts: impl IntoIterator<Item = &'a Artifact>,
) -> Result<(), PackageError> {
    let outside = artifacts.into_iter().filter(|artifact| !artifact.outside.is_empty());
    let mut found: Vec<PackageError> = outside
        .map(|artifact| PackageError::Outside {
            variant: artifact.variant.clone(),
            files: artifact.outside.clone(),
        })
        .collect();
    match found.len() {
        0 => Ok(()),
        1 => Err(found.remove(0)),
        _ => Err(PackageError::Several(found)),
    }
}

/// The folder of one variant: the package, its additions and its metadata, with the judgement that called it. Gives the
/// operations that Rust programs can call.
pub(crate) fn variant(
    (build, provenance): (&BuildSpec, &Provenance),
    artifact: &Artifact,
    additions: &Additions,
    judged: Option<&Judgement>,
    folder: &Path,
) -> Result<Vec<String>, PackageError> {
    for name in files::walk(&artifact.dir, is_shipped)? {
        files::copy(&artifact.dir.join(&name), &folder.join(&name))?;
    }
    let tables: Vec<Dispatch> =
        additions.dispatch.iter().filter(|table| table.backend == artifact.backend).cloned().collect();
    if let Some(table) = dispatch::for_package(&tables) {
        files::write(&folder.join("dispatch.json"), format!("{table}\n"))?;
    }
    let for_rust = launchers::write(&additions.launchers, artifact, folder)?;
    let shipped = metadata::digests(folder)?;
    let text = metadata::render(build, artifact, provenance, judged, &shipped);
    files::write(&folder.join("metadata.json"), text)?;
    Ok(for_rust)
}

/// Builds that were judged by what can be read from them, and not verified.
#[derive(Debug)]
pub struct Unverified<'a> {
    /// build.toml.
    pub build: &'a BuildSpec,
    /// The builds.
    pub artifacts: &'a [Artifact],
    /// Where the sources came from.
    pub provenance: Provenance,
    /// What is laid out with them.
    pub additions: Additions,
}

/// Puts builds that nobody verified into the hub's layout, at a place of their own: `to/<variant>`, or `to` itself when
/// there is one. They get no card, by which [`existing`] knows a bundle, so nothing publishes them.
///
/// # Errors
/// A file could not be read or written.
pub fn lay_out(contents: &Unverified<'_>, to: &Path, alone: bool) -> Result<(), PackageError> {
    of_the_project_alone(contents.artifacts)?;
    let staged = files::staging_beside(to)?;
    for artifact in contents.artifacts {
        let own = staged.path().join(&artifact.variant);
        let folder = if alone { staged.path() } else { own.as_path() };
        variant((contents.build, &contents.provenance), artifact, &contents.additions, None, folder)?;
    }
    Ok(files::replace_dir(staged, to)?)
}

/// Refuses secrets, strays, and libraries that cannot be in one process, beside what was found already.
fn clean(dir: &Path, extra: &[(PathBuf, PathBuf)], mut found: Vec<PackageError>) -> Result<(), PackageError> {
    let mut contents = extra.to_vec();
    for name in files::walk(dir, is_shipped)? {
        contents.push((Path::new("build").join(&name), dir.join(&name)));
    }
    found.extend(clean::problems(&contents)?);
    let mut libraries = Vec::new();
    for (name, here) in contents {
        if verify::is_library(&here)? {
            libraries.push((name, here));
        }
    }
    let clash = verify::clashes_among(&libraries)?.filter(|check| check.outcome == Outcome::Refused);
    found.extend(clash.map(|check| PackageError::Clash { summary: check.summary }));
    match found.len() {
        0 => Ok(()),
        1 => Err(found.remove(0)),
        _ => Err(PackageError::Several(found)),
    }
}

/// The bundle that lies in `build/` of a project, for `publish` on its own; `None` when there is none.
pub fn existing(project: &Path, build: &BuildSpec) -> Result<Option<Bundle>, PackageError> {
    checked(project, build, |dir| signature::outdated(dir).map_err(PackageError::Signature))
}

/// The same for `sign`: files may have changed since they were signed, so an older signature is not checked.
pub fn to_sign(project: &Path, build: &BuildSpec) -> Result<Option<Bundle>, PackageError> {
    checked(project, build, |_| Ok(()))
}

/// The bundle in `build/`, if neither its files nor `extra_check` of the folder have problems.
fn checked(
    project: &Path,
    build: &BuildSpec,
    extra_check: impl Fn(&Path) -> Result<(), PackageError>,
) -> Result<Option<Bundle>, PackageError> {
    let dir = project.join("build");
    if !files::exists(&dir.join("CARD.md")) {
        return Ok(None);
    }
    let mut variants: Vec<String> = files::walk(&dir, is_shipped)?
        .iter()
        .filter(|path| path.ends_with("metadata.json") && path.components().count() == 2)
        .filter_map(|path| Some(path.parent()?.display().to_string()))
        .collect();
    variants.sort();
    let extra = extra_files(project)?;
    // The folder may have been changed since it was made.
    let mut found = Vec::new();
    let now = (build.general.name.to_string(), build.general.version.value);
    for variant in &variants {
        let place = Path::new("build").join(variant);
        if let Some(then) = metadata::named(&dir.join(variant))?.filter(|then| *then != now) {
            let [then, now] = [&then, &now].map(|(name, version)| format!("{name} {version}"));
            found.push(PackageError::Stale { variant: place.clone(), then, now });
        }
        let names = metadata::changed(&dir.join(variant))?.into_iter();
        found.extend(names.map(|name| PackageError::Changed { file: place.join(name) }));
    }
    found.extend(extra_check(&dir).err());
    clean(&dir, &extra, found)?;
    let general = &build.general;
    let status = variants.iter().map(|variant| metadata::status(variant, &dir.join(variant)));
    let status = status.collect::<Result<_, _>>()?;
    let for_rust = for_rust(&dir, &variants)?;
    Ok(Some(Bundle {
        name: general.name.to_string(),
        version: general.version.value,
        variants,
        status,
        extra,
        digest: bundle_digest(&dir)?,
        for_rust,
        lost_signature: false,
        dir,
    }))
}

/// The operations of variants that Rust programs can call.
fn for_rust(dir: &Path, variants: &[String]) -> Result<Vec<String>, FileError> {
    let mut ops = BTreeSet::new();
    for path in variants.iter().map(|variant| dir.join(variant).join(launchers::FILE)) {
        if files::exists(&path) {
            let found = launchers::Launchers::read(&files::read(&path)?);
            ops.extend(found.into_iter().flat_map(|found| found.ops).map(|op| op.op));
        }
    }
    Ok(ops.into_iter().collect())
}

fn bundle_digest(dir: &Path) -> Result<Digest, FileError> {
    let mut builder = DigestBuilder::new("bundle-1");
    let names = files::walk(dir, is_shipped)?.into_iter();
    for name in names.filter(|name| !signature::is_of_signature(name)) {
        builder = builder.file(&name.display().to_string(), &dir.join(&name))?;
    }
    Ok(builder.finish())
}

#[cfg(test)]
mod tests;
