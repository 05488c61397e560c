//! `rust-kernels.lock`: which bytes of published kernels a crate uses.
//!
//! Owns: its format, and that it fits the dependencies of a crate. Never: asks a hub.

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use kernel_plan::units::RepoId;
use serde::{Deserialize, Serialize};

use super::PublishedError;
use crate::base::env;
use crate::base::files::{self, FileError};

/// The format that is written, and the only one that is read.
const FORMAT: u64 = 1;
const HEAD: &str = "# Written by `cargo kernelwright pin`. Commit this file.\n";

/// A kernel that Cargo.toml names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Dependency {
    /// Its name in build.toml.
    pub(crate) name: String,
    /// Its version.
    pub(crate) version: u64,
    /// The variant whose code is used, if Cargo.toml names one.
    pub(crate) variant: Option<String>,
    /// Where it is published.
    pub(crate) place: Place,
}

/// Where a kernel is published.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Place {
    /// A folder that `publish` wrote.
    Folder(PathBuf),
    /// A repository of the hub.
    Hub(RepoId),
}

impl FromStr for Dependency {
    type Err = PublishedError;

    fn from_str(text: &str) -> Result<Self, PublishedError> {
        let bad = || PublishedError::BadDependency { text: text.to_owned() };
        let (name, rest) = text.split_once('@').ok_or_else(bad)?;
        let (version, place) = rest.split_once('=').ok_or_else(bad)?;
        let (version, variant) = match version.split_once('/') {
            Some((version, variant)) => (version, Some(variant.to_owned())),
            None => (version, None),
        };
        let version = version.parse().map_err(|_| bad())?;
        let place = match place.strip_prefix("hf:") {
            Some(repo) => Place::Hub(repo.parse().map_err(|_| bad())?),
            None if place.is_empty() => return Err(bad()),
            None => Place::Folder(env::absolute(Path::new(place))),
        };
        if name.is_empty() { Err(bad()) } else { Ok(Self { name: name.to_owned(), version, variant, place }) }
    }
}

/// For people.
impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Folder(folder) => write!(f, "`{}`", folder.display()),
            Self::Hub(repo) => write!(f, "`{repo}`"),
        }
    }
}

impl Place {
    /// As the lock has it. A folder may lie elsewhere on another machine; its content is locked.
    pub(super) fn locked(&self) -> String {
        match self {
            Self::Folder(_) => "folder".to_owned(),
            Self::Hub(repo) => format!("hf:{repo}"),
        }
    }
}

/// The file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Lock {
    format: u64,
    /// The kernels, by name.
    #[serde(default)]
    pub(crate) kernel: Vec<Locked>,
}

/// A kernel with the digest of its metadata, which has those of all files of the variant.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Locked {
    pub(crate) name: String,
    pub(crate) version: u64,
    /// `folder`, or `hf:OWNER/NAME`.
    pub(crate) from: String,
    /// The commit, on a hub.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) revision: Option<String>,
    /// The variant whose library has the code.
    pub(crate) variant: String,
    /// SHA-256 of its metadata.json, in hex.
    pub(crate) metadata: String,
    /// The generated functions.
    pub(crate) functions: Vec<String>,
}

impl Lock {
    pub(crate) fn new(mut kernel: Vec<Locked>) -> Self {
        kernel.sort_by(|one, other| one.name.cmp(&other.name));
        Self { format: FORMAT, kernel }
    }

    /// Writes the file; gives whether it was another one.
    ///
    /// # Errors
    /// It cannot be written.
    pub(crate) fn write(&self, path: &Path) -> Result<bool, FileError> {
        let text = toml::to_string(self).unwrap_or_default();
        files::write_if_changed(path, format!("{HEAD}\n{text}"))
    }

    /// Reads the file.
    ///
    /// # Errors
    /// It is missing, or not one of this program.
    pub(crate) fn read(path: &Path) -> Result<Self, PublishedError> {
        let out_of_date = |problem: String| PublishedError::LockOutOfDate { lock: path.to_owned(), problem };
        if !files::exists(path) {
            return Err(out_of_date("it does not exist".to_owned()));
        }
        let text = files::read_text(path).map_err(|error| out_of_date(error.to_string()))?;
        let lock: Self = toml::from_str(&text).map_err(|error| out_of_date(error.message().to_owned()))?;
        if lock.format == FORMAT {
            return Ok(lock);
        }
        Err(out_of_date(format!("it has format {}, and this program reads {FORMAT}", lock.format)))
    }

    /// What is locked of a dependency.
    ///
    /// # Errors
    /// Nothing, or another version or place.
    pub(crate) fn locked(&self, dependency: &Dependency, path: &Path) -> Result<&Locked, PublishedError> {
        let Dependency { name, version, variant, place } = dependency;
        let problem = match self.kernel.iter().find(|locked| locked.name == *name) {
            None => format!("`{name}` is missing"),
            Some(locked) if locked.version != *version => {
                format!("it has version {} of `{name}`, and Cargo.toml asks for {version}", locked.version)
            }
            Some(locked) if locked.from != place.locked() => {
                format!(
                    "it has `{name}` from `{}`, and Cargo.toml asks for `{}`",
                    locked.from,
                    place.locked()
                )
            }
            Some(locked) if variant.as_ref().is_some_and(|variant| *variant != locked.variant) => {
                format!("it has the variant {} of `{name}`, and Cargo.toml names another one", locked.variant)
            }
            Some(locked) => return Ok(locked),
        };
        Err(PublishedError::LockOutOfDate { lock: path.to_owned(), problem })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::causes::chain;

    fn locked() -> Locked {
        Locked {
            name: "rms-norm".to_owned(),
            version: 1,
            from: "hf:me/rms-norm".to_owned(),
            revision: Some("c0ffee".to_owned()),
            variant: "torch-cuda".to_owned(),
            metadata: "ab".to_owned(),
            functions: vec!["rms_norm()".to_owned()],
        }
    }

    #[test]
    fn a_dependency_is_a_name_a_version_and_a_place() {
        let dependency: Dependency = "rms-norm@1=hf:me/rms-norm".parse().unwrap();
        assert_eq!(dependency.place, Place::Hub("me/rms-norm".parse().unwrap()));
        let folder: Dependency = "k@2/torch-cu130=/at/a=b".parse().unwrap();
        assert_eq!((dependency.variant, folder.variant.as_deref()), (None, Some("torch-cu130")));
        assert_eq!((folder.version, folder.place), (2, Place::Folder("/at/a=b".into())));
        for text in ["k", "k@1", "k@one=/at", "@1=/at", "k@1=", "k@1=hf:me"] {
            let error = text.parse::<Dependency>().unwrap_err();
            assert_eq!(chain(&error), format!("not a valid dependency: `{text}`"));
        }
    }

    #[test]
    fn a_lock_is_read_as_it_was_written_and_stays_when_nothing_changes() {
        let folder = files::scratch().unwrap();
        let path = folder.path().join("rust-kernels.lock");
        let lock = Lock::new(vec![locked()]);
        assert!(lock.write(&path).unwrap() && !lock.write(&path).unwrap());
        assert_eq!(Lock::read(&path).unwrap(), lock);
        assert!(files::read_text(&path).unwrap().starts_with("# Written by"));
    }

    #[test]
    fn a_lock_that_does_not_fit_says_why() {
        let folder = files::scratch().unwrap();
        let path = folder.path().join("rust-kernels.lock");
        let problem = |result: Result<(), PublishedError>| match result {
            Err(PublishedError::LockOutOfDate { problem, .. }) => problem,
            other => panic!("{other:?}"),
        };
        assert_eq!(problem(Lock::read(&path).map(|_| ())), "it does not exist");
        files::write(&path, "format = 1\nkernels = 3\n").unwrap();
        assert!(problem(Lock::read(&path).map(|_| ())).contains("unknown field `kernels`"));
        files::write(&path, "format = 2\n").unwrap();
        assert_eq!(problem(Lock::read(&path).map(|_| ())), "it has format 2, and this program reads 1");
        let lock = Lock::new(vec![locked()]);
        let of = |text: &str| lock.locked(&text.parse().unwrap(), &path).map(|_| ());
        of("rms-norm@1=hf:me/rms-norm").unwrap();
        assert_eq!(problem(of("softmax@1=hf:me/softmax")), "`softmax` is missing");
        assert_eq!(
            problem(of("rms-norm@2=hf:me/rms-norm")),
            "it has version 1 of `rms-norm`, and Cargo.toml asks for 2"
        );
        assert_eq!(
            problem(of("rms-norm@1/torch-cpu=hf:me/rms-norm")),
            "it has the variant torch-cuda of `rms-norm`, and Cargo.toml names another one"
        );
        assert_eq!(
            problem(of("rms-norm@1=/here")),
            "it has `rms-norm` from `hf:me/rms-norm`, and Cargo.toml asks for `folder`"
        );
    }
}
