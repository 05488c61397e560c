//! Published kernels for Rust programs: by name and version, from a folder or a hub, with the machine code of the package.
//!
//! Owns: which variant a crate uses, that its files are those of the lock, the code in its library. Never: compiles; uses a
//! file before its digest was checked.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use kernel_plan::diagnostic::SourceFile;
use kernel_plan::host::rust::{self, RustPlan};
use kernel_plan::spec::parse_op;
use kernel_plan::units::Capability;
use serde_json::Value;

use crate::base::files;
use crate::base::session::Session;
use crate::compile::nvrtc::Form;
use crate::exit::Failure;
use crate::hub::find::versions;
use crate::hub::{Hub, HubError};
use crate::package::is_shipped;
use crate::package::launchers::{self, Launchers, Operation, sha256};
use crate::verify::machine_code::{DeviceCode, device_code};

mod error;
mod lock;

pub(crate) use error::PublishedError;
pub(crate) use lock::{Dependency, Lock, Locked, Place};

const METADATA: &str = "metadata.json";
/// Where the cache keeps files of a hub, by their digest.
const CACHE: &str = "published";

/// An operation of a published kernel.
pub(crate) struct PublishedOp {
    /// How it is started.
    pub(crate) plan: RustPlan,
    /// Where it is from, for people.
    pub(crate) origin: String,
    /// Its code.
    pub(crate) code: Vec<PublishedCode>,
}

/// Code of one part for one architecture.
pub(crate) struct PublishedCode {
    /// The place of the part.
    pub(crate) part: usize,
    /// What it was compiled for.
    pub(crate) target: (Capability, Form),
    /// The mangled names of its functions, in the order of the plan.
    pub(crate) names: Vec<String>,
    /// A cubin, or PTX.
    pub(crate) bytes: Vec<u8>,
}

/// What is asked of a published kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wanted {
    /// Its functions and its code.
    Code,
    /// Its functions.
    Functions,
}

/// Finds a kernel and the variant of it that Rust programs use.
///
/// # Errors
/// There is no such kernel, or it has nothing for Rust.
pub(crate) fn pin(dependency: &Dependency, session: &Session) -> Result<Locked, Failure> {
    let (found, revision) = match &dependency.place {
        Place::Folder(folder) => (in_folder(dependency, folder)?, None),
        Place::Hub(repo) => {
            let hub = Hub::connect(session)?;
            let branch = format!("v{}", dependency.version);
            let refs = hub.refs(repo)?.ok_or_else(|| not_published(dependency, "no such repository"))?;
            let Some(commit) = refs.head(&branch).map(str::to_owned) else {
                let known: Vec<String> = versions(&refs).iter().map(ToString::to_string).collect();
                let found = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
                return Err(not_published(dependency, &format!("versions there: {found}")).into());
            };
            let mut found: BTreeMap<String, Variant> = BTreeMap::new();
            for entry in hub.files(repo, &commit, "build")? {
                let inside = entry.path.strip_prefix("build/").and_then(|rest| rest.split_once('/'));
                let Some((variant, name @ (METADATA | launchers::FILE))) = inside else { continue };
                let content = hub.listed(repo, &commit, &entry)?;
                let known = found.entry(variant.to_owned()).or_default();
                if name == METADATA { known.metadata = content } else { known.launchers = Some(content) }
            }
            (found, Some(commit))
        }
    };
    let place = dependency.place.to_string();
    for variant in found.values() {
        variant.is_of(dependency)?;
    }
    let usable = |variant: &str| dependency.variant.as_deref().is_none_or(|wanted| wanted == variant);
    let Some((variant, chosen)) = choose(&found, usable) else {
        let names: Vec<&str> = found.keys().map(String::as_str).collect();
        let found = if names.is_empty() { "no variants".to_owned() } else { names.join(", ") };
        return Err(PublishedError::NoLaunchers { place, found }.into());
    };
    let launchers =
        chosen.launchers.as_deref().and_then(Launchers::read).ok_or_else(|| other_format(&place))?;
    Ok(Locked {
        name: dependency.name.clone(),
        version: dependency.version,
        from: dependency.place.locked(),
        revision,
        variant: variant.clone(),
        metadata: sha256(&chosen.metadata),
        functions: launchers.ops.iter().map(|op| op.signature.clone()).collect(),
    })
}

/// What is read of a variant to choose one.
#[derive(Debug, Default)]
struct Variant {
    metadata: Vec<u8>,
    launchers: Option<Vec<u8>>,
}

impl Variant {
    /// That it is the kernel that Cargo.toml names.
    fn is_of(&self, dependency: &Dependency) -> Result<(), PublishedError> {
        let metadata: Value = serde_json::from_slice(&self.metadata).unwrap_or(Value::Null);
        let (name, version) = (metadata["name"].as_str().unwrap_or("?"), &metadata["version"]);
        if name == dependency.name && version.as_u64() == Some(dependency.version) {
            return Ok(());
        }
        Err(not_published(dependency, &format!("it has `{name}` of version {version}")))
    }

    fn archs(&self) -> usize {
        let metadata: Value = serde_json::from_slice(&self.metadata).unwrap_or(Value::Null);
        metadata["backend"]["archs"].as_array().map_or(0, Vec::len)
    }
}

fn not_published(dependency: &Dependency, found: &str) -> PublishedError {
    PublishedError::NotPublished {
        place: dependency.place.to_string(),
        name: dependency.name.clone(),
        version: dependency.version,
        found: found.to_owned(),
    }
}

fn other_format(place: &str) -> PublishedError {
    let problem = "its format is another one than this program reads".to_owned();
    PublishedError::OtherLaunchers { place: place.to_owned(), problem }
}

fn in_folder(dependency: &Dependency, folder: &Path) -> Result<BTreeMap<String, Variant>, Failure> {
    let build = folder.join("build");
    if !files::is_dir(&build) {
        return Err(not_published(dependency, "no folder `build` in it").into());
    }
    let mut found: BTreeMap<String, Variant> = BTreeMap::new();
    for path in files::walk(&build, |folder| is_shipped(folder) && folder.components().count() == 1)? {
        let Some(variant) = path.parent().filter(|_| path.ends_with(METADATA)) else { continue };
        let launchers = build.join(variant).join(launchers::FILE);
        let known = found.entry(variant.display().to_string()).or_default();
        known.metadata = files::read(&build.join(&path))?;
        known.launchers = if files::exists(&launchers) { Some(files::read(&launchers)?) } else { None };
    }
    Ok(found)
}

/// The variant for Rust, if Cargo.toml names none: of most architectures, then of the oldest toolkit, whose code runs with most
/// drivers.
fn choose(found: &BTreeMap<String, Variant>, usable: impl Fn(&str) -> bool) -> Option<(&String, &Variant)> {
    let usable = found.iter().filter(|(name, variant)| variant.launchers.is_some() && usable(name));
    usable.max_by_key(|(name, variant)| (variant.archs(), Reverse(*name)))
}

/// The operations of a kernel, with the code of its library.
///
/// # Errors
/// The lock does not fit, files are not those of the lock, or the package is of another version of this program.
pub(crate) fn operations(
    dependency: &Dependency,
    (lock, path): (&Lock, &Path),
    wanted: Wanted,
    reads: &mut BTreeSet<PathBuf>,
    session: &Session,
) -> Result<Vec<PublishedOp>, Failure> {
    let locked = lock.locked(dependency, path)?;
    let package = Package { dependency, locked, session };
    let metadata = package.metadata(reads)?;
    let digest = |name: &str| {
        let text = metadata["digest"]["files"][name].as_str()?;
        Some(crate::base::digest::hex(&STANDARD.decode(text).ok()?))
    };
    let place = dependency.place.to_string();
    let missing = |name: &str| PublishedError::OtherLaunchers {
        place: place.clone(),
        problem: format!("{METADATA} has no digest of {name}"),
    };
    let mut file = |name: &str| -> Result<Vec<u8>, Failure> {
        let expected = digest(name).ok_or_else(|| missing(name))?;
        reads.extend(package.path(name));
        package.file(name, &expected)
    };
    let launchers = Launchers::read(&file(launchers::FILE)?).ok_or_else(|| other_format(&place))?;
    let mut libraries: BTreeMap<String, Vec<DeviceCode>> = BTreeMap::new();
    if wanted == Wanted::Code {
        for name in launchers.ops.iter().flat_map(|op| &op.code).map(|code| &code.library) {
            if !libraries.contains_key(name) {
                let code = device_code(&file(name)?).unwrap_or_default();
                libraries.insert(name.clone(), code);
            }
        }
    }
    let other = |problem: String| PublishedError::OtherLaunchers { place: place.clone(), problem };
    let read = |op: &Operation| operation(op, wanted, &libraries).map_err(other);
    let plans = launchers.ops.iter().map(|op| {
        let (plan, code) = read(op)?;
        let origin = format!("{} of {} {}", op.file, dependency.name, dependency.version);
        Ok(PublishedOp { plan, origin, code })
    });
    plans.collect()
}

/// The plan of an operation, and its code.
fn operation(
    op: &Operation,
    wanted: Wanted,
    libraries: &BTreeMap<String, Vec<DeviceCode>>,
) -> Result<(RustPlan, Vec<PublishedCode>), String> {
    let (spec, _) = parse_op(SourceFile::new(&op.file, op.text.clone()));
    let spec = spec.ok_or_else(|| format!("{} of `{}` is not valid here", op.file, op.op))?;
    let settings = op.settings.iter().map(launchers::Measured::settings).collect::<Option<Vec<_>>>();
    let settings = settings.ok_or_else(|| format!("the settings of `{}` are not valid here", op.op))?;
    let plan = rust::of_library(&spec, &settings).map_err(|error| error.to_string())?;
    if plan.signature() != op.signature {
        return Err(format!("`{}` is `{}` here, and was `{}`", op.op, plan.signature(), op.signature));
    }
    let mut code = vec![];
    for one in op.code.iter().filter(|_| wanted == Wanted::Code) {
        let fits = plan.parts.get(one.part).is_some_and(|part| part.expressions.len() == one.names.len());
        if !fits {
            return Err(format!("`{}` has other instances here than in its library", op.op));
        }
        let target: Capability =
            one.target.parse().map_err(|_| format!("`{}` is not an architecture", one.target))?;
        let inside = libraries.get(&one.library).into_iter().flatten();
        let found = inside.into_iter().find(|it| sha256(&it.bytes) == one.sha256);
        let found = found.ok_or_else(|| {
            format!("{} does not have the code of `{}` for {}", one.library, op.op, one.target)
        })?;
        let form = if target.ptx { Form::Ptx } else { Form::Cubin };
        code.push(PublishedCode {
            part: one.part,
            target: (target, form),
            names: one.names.clone(),
            bytes: found.bytes.clone(),
        });
    }
    Ok((plan, code))
}

/// The files of one variant, at the place that Cargo.toml names.
struct Package<'a> {
    dependency: &'a Dependency,
    locked: &'a Locked,
    session: &'a Session,
}

impl Package<'_> {
    /// A file here; none of a hub.
    fn path(&self, name: &str) -> Option<PathBuf> {
        match &self.dependency.place {
            Place::Folder(folder) => Some(folder.join("build").join(&self.locked.variant).join(name)),
            Place::Hub(_) => None,
        }
    }

    /// metadata.json, as it was locked.
    fn metadata(&self, reads: &mut BTreeSet<PathBuf>) -> Result<Value, Failure> {
        let path = self.path(METADATA);
        reads.extend(path.clone());
        // A folder can be published again: its functions may have changed, or only its code.
        if let Some(path) = path.filter(|path| files::exists(path)) {
            let got = sha256(&files::read(&path)?);
            if got != self.locked.metadata {
                self.same_functions()?;
                return Err(self.mismatch(METADATA, &self.locked.metadata, got).into());
            }
        }
        let bytes = self.file(METADATA, &self.locked.metadata)?;
        Ok(serde_json::from_slice(&bytes).unwrap_or(Value::Null))
    }

    /// That a folder that was published again has the functions of the lock.
    fn same_functions(&self) -> Result<(), Failure> {
        let now = pin(self.dependency, self.session)?.functions;
        let then = &self.locked.functions;
        let mut changes = vec![];
        changes.extend(then.iter().filter(|one| !now.contains(one)).map(|one| format!("  - {one}")));
        changes.extend(now.iter().filter(|one| !then.contains(one)).map(|one| format!("  + {one}")));
        if changes.is_empty() {
            return Ok(());
        }
        Err(PublishedError::ChangedSignature { place: self.dependency.place.to_string(), changes }.into())
    }

    fn mismatch(&self, name: &str, expected: &str, got: String) -> PublishedError {
        let help = match (&self.dependency.place, name) {
            (Place::Folder(_), METADATA) => {
                "another build was published there: run `cargo kernelwright pin` to take it"
            }
            (Place::Folder(_), _) => "the folder is damaged: publish the kernel again",
            (Place::Hub(_), _) => "the hub sent other bytes than those in the lock file: do not use them",
        };
        PublishedError::WrongDigest {
            file: name.to_owned(),
            place: self.dependency.place.to_string(),
            expected: expected.to_owned(),
            got,
            help: help.to_owned(),
        }
    }

    /// A file with this SHA-256.
    fn file(&self, name: &str, expected: &str) -> Result<Vec<u8>, Failure> {
        let repo = match &self.dependency.place {
            Place::Folder(folder) => {
                let path = folder.join("build").join(&self.locked.variant).join(name);
                if !files::exists(&path) {
                    return Err(self.mismatch(name, expected, "no file".to_owned()).into());
                }
                return self.checked(name, expected, files::read(&path)?);
            }
            Place::Hub(repo) => repo,
        };
        let kept = self.session.cache.join(CACHE).join(expected);
        if files::exists(&kept) {
            let bytes = files::read(&kept)?;
            if sha256(&bytes) == expected {
                return Ok(bytes);
            }
        }
        let hub = Hub::connect(self.session).map_err(|error| match error {
            HubError::Offline { setting } => {
                let place = format!("`{name}` of {}", self.dependency.place);
                Failure::from(PublishedError::NotCached { place, setting })
            }
            other => other.into(),
        })?;
        let revision = self.locked.revision.as_deref().unwrap_or_default();
        let path = format!("build/{}/{name}", self.locked.variant);
        let bytes = hub.file(repo, revision, &path)?;
        let bytes = bytes.ok_or_else(|| self.mismatch(name, expected, "no file".to_owned()))?;
        let bytes = self.checked(name, expected, bytes)?;
        files::write(&kept, &bytes)?;
        Ok(bytes)
    }

    fn checked(&self, name: &str, expected: &str, bytes: Vec<u8>) -> Result<Vec<u8>, Failure> {
        let got = sha256(&bytes);
        if got == expected { Ok(bytes) } else { Err(self.mismatch(name, expected, got).into()) }
    }
}

#[cfg(test)]
mod tests;
