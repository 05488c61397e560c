//! A project of a published kernel's sources.
//!
//! Owns: which files are sources, and the build.toml of a kernel in Python alone. Never: runs what it fetched; overwrites.

use std::path::Path;

use kernel_plan::units::{KernelName, License, RepoId};
use miette::Diagnostic;
use thiserror::Error;

use crate::base::report::{ProgressKind, bytes};
use crate::base::session::Session;
use crate::exit::{self, Failure, StageError};
use crate::hub::find::Published;
use crate::hub::read::Entry;
use crate::hub::{Hub, facts};
use crate::pipeline::create::published::backend_here;
use crate::scaffold::FileSet;

/// More files or bytes are no sources of a kernel.
const FILES: usize = 2000;
const BYTES: u64 = 64 << 20;

/// What of a repository becomes a project.
enum Sources {
    /// It is a project, at this commit.
    Project { commit: String, files: Vec<Entry> },
    /// The package of this variant, in Python alone.
    Package { variant: String, files: Vec<Entry> },
}

/// What a published kernel has no sources of.
#[derive(Debug, Error, Diagnostic)]
enum PullError {
    #[error("`{kernel}` has no sources on the hub: {has}")]
    #[diagnostic(code(hub::no_sources), help("{help}"))]
    NoSources { kernel: String, has: String, help: String },
    #[error("`{kernel}` is not a valid kernel name")]
    #[diagnostic(
        code(hub::no_name),
        help("a kernel name begins with a letter; copy the files of its variant by hand")
    )]
    NoName { kernel: String },
    #[error("`{kernel}` is too large to be a project: {problem}")]
    #[diagnostic(code(hub::too_large), help("look at its page: {page}"))]
    TooLarge { kernel: String, problem: String, page: String },
}

impl StageError for PullError {
    fn exit(&self) -> u8 {
        exit::HUB
    }
}

/// What a project was made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Origin {
    /// The project as its authors keep it.
    Project,
    /// The Python package of its variants.
    Package,
}

impl Origin {
    /// For programs.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Project => "project",
            Self::Package => "package",
        }
    }

    /// For people.
    pub(crate) fn described(self) -> &'static str {
        match self {
            Self::Project => "the project of its authors",
            Self::Package => "the Python package of its variants, with a generated build.toml",
        }
    }
}

/// A project of a published kernel.
pub(crate) struct PulledProject {
    /// The kernel.
    pub(crate) kernel: Published,
    /// What the project was made of.
    pub(crate) origin: Origin,
    /// The files that were written.
    pub(crate) files: Vec<String>,
}

/// Writes a project of the sources of a published kernel to `dir`.
///
/// # Errors
/// The kernel has no sources there, they are too large, or a file of `dir` would be overwritten.
pub(crate) fn pull(
    repo: &RepoId,
    revision: Option<&str>,
    dir: &Path,
    session: &Session,
) -> Result<PulledProject, Failure> {
    let hub = Hub::connect(session)?;
    let kernel = hub.show(repo, revision)?;
    let sources = sources(&hub, repo, &kernel)?;
    let mut set = FileSet::default();
    let origin = match &sources {
        Sources::Project { commit, files } => {
            fetch(&hub, repo, commit, files, session, |path| Some(path.to_owned()), &mut set)?;
            Origin::Project
        }
        Sources::Package { variant, files } => {
            let name = kernel_name(repo).ok_or_else(|| PullError::NoName { kernel: kernel.id.clone() })?;
            let module = name.module().to_string();
            let commit = kernel.commit.clone().unwrap_or_default();
            let begin = format!("build/{variant}/");
            let place = |path: &str| {
                let inside = path.strip_prefix(&begin)?;
                // What the client writes and reads itself is made anew by a build.
                let made = ["metadata.json", "metadata.json.sigstore", "_ops.py"].contains(&inside);
                let second = inside == format!("{module}/__init__.py");
                (!made && !second).then(|| format!("torch-ext/{module}/{inside}"))
            };
            fetch(&hub, repo, &commit, files, session, place, &mut set)?;
            set.insert("build.toml", build_toml(&name, &kernel, &set))?;
            Origin::Package
        }
    };
    set.write_to(dir)?;
    let files: Vec<String> = set.iter().map(|(path, _)| path.display().to_string()).collect();
    Ok(PulledProject { kernel, origin, files })
}

/// Where the sources are: a project on the version's branch or on `main`, else a package in Python alone.
fn sources(hub: &Hub, repo: &RepoId, kernel: &Published) -> Result<Sources, Failure> {
    let refs = hub.refs(repo)?.unwrap_or_default();
    let commits = [kernel.commit.clone(), refs.head("main").map(str::to_owned)];
    let mut own: Vec<Entry> = Vec::new();
    for commit in commits.into_iter().flatten() {
        let files = hub.files(repo, &commit, "")?;
        if files.iter().any(|entry| entry.path == "build.toml") {
            let built = |path: &str| path.starts_with("build/") || path.starts_with(".git");
            let files = files.into_iter().filter(|entry| !built(&entry.path)).collect();
            return Ok(Sources::Project { commit, files });
        }
        if own.is_empty() {
            own = files;
        }
    }
    let in_python = |variant: &&String| {
        let begin = format!("build/{variant}/");
        let mut inside = own.iter().filter(|entry| entry.path.starts_with(&begin));
        // Text is kept by git; what is compiled ends like this, wherever it lies.
        !inside.any(|entry| [".so", ".pyd", ".dylib", ".dll"].iter().any(|end| entry.path.ends_with(end)))
    };
    let here = backend_here();
    let mut candidates: Vec<&String> = kernel.variants.iter().filter(in_python).collect();
    candidates.sort_by_key(|variant| facts::backend(variant) != Some(here));
    if let Some(variant) = candidates.first().map(|variant| (*variant).clone()) {
        let begin = format!("build/{variant}/");
        own.retain(|entry| entry.path.starts_with(&begin));
        return Ok(Sources::Package { variant, files: own });
    }
    Err(binaries_only(kernel).into())
}

fn binaries_only(kernel: &Published) -> PullError {
    let has = match kernel.variants.len() {
        0 => "it has no builds either".to_owned(),
        count => format!("it has {count} compiled variants ({})", kernel.backends.join(", ")),
    };
    let help = match (&kernel.source, &kernel.source_commit) {
        (Some(source), Some(commit)) => format!(
            "its metadata says where they are: git clone {source} {}, then git checkout {commit}",
            kernel.id.rsplit('/').next().unwrap_or("sources")
        ),
        (Some(source), None) => format!("its metadata says where they are: git clone {source}"),
        (None, _) => format!("its metadata names no sources; use it as it is: get_kernel(\"{}\")", kernel.id),
    };
    PullError::NoSources { kernel: kernel.id.clone(), has, help }
}

/// Fetches files to where `place` puts them; those without a place are left out.
fn fetch(
    hub: &Hub,
    repo: &RepoId,
    commit: &str,
    files: &[Entry],
    session: &Session,
    place: impl Fn(&str) -> Option<String>,
    set: &mut FileSet,
) -> Result<(), Failure> {
    let total: u64 = files.iter().map(|entry| entry.size).sum();
    if files.len() > FILES || total > BYTES {
        let problem = format!("{} files, {}", files.len(), bytes(total));
        return Err(PullError::TooLarge { kernel: repo.to_string(), problem, page: hub.page(repo) }.into());
    }
    let progress = session.report.progress("fetch", ProgressKind::Bytes, Some(total));
    for entry in files {
        let Some(place) = place(&entry.path) else { continue };
        let content = hub.listed(repo, commit, entry)?;
        progress.add(content.len() as u64);
        set.insert(place, content)?;
    }
    Ok(())
}

/// The kernel's name as build.toml allows it; nothing where no letter of it may stay.
fn kernel_name(repo: &RepoId) -> Option<KernelName> {
    let dashed: String = repo
        .name()
        .to_ascii_lowercase()
        .chars()
        .map(|letter| if letter.is_ascii_alphanumeric() { letter } else { '-' })
        .collect();
    let trimmed =
        dashed.trim_matches('-').trim_start_matches(|letter: char| letter.is_ascii_digit() || letter == '-');
    trimmed.parse().or_else(|_| format!("kernel-{trimmed}").parse()).ok()
}

/// build.toml of a kernel in Python alone.
fn build_toml(name: &KernelName, kernel: &Published, set: &FileSet) -> String {
    let quoted = |text: &str| toml_edit::Value::from(text).to_string().trim().to_owned();
    let license = kernel.license.clone().filter(|text| text.parse::<License>().is_ok());
    let backends: Vec<String> = kernel
        .variants
        .iter()
        .filter_map(|variant| facts::backend(variant))
        .filter(|backend| *backend != "tpu" && *backend != "neuron")
        .map(quoted)
        .collect();
    let mut backends = backends;
    backends.dedup();
    if backends.is_empty() {
        backends = vec![quoted("cpu"), quoted("cuda")];
    }
    let mut endings: Vec<String> = vec![quoted("py")];
    for (path, _) in set.iter() {
        let ending = path.extension().and_then(|ending| ending.to_str()).map(quoted);
        endings.extend(ending.filter(|ending| !endings.contains(ending)));
    }
    let version = kernel.revision.strip_prefix('v').and_then(|text| text.parse::<u64>().ok()).unwrap_or(1);
    format!(
        "# Made of {}, revision {}, commit {}, by `kernelwright hub pull`.\n\
         [general]\nname = {}\nversion = {version}\nedition = 5\nlicense = {}\nbackends = [{}]\n\n\
         [torch-noarch]\npyext = [{}]\n",
        kernel.id,
        kernel.revision,
        kernel.commit.as_deref().unwrap_or("unknown"),
        quoted(name.as_str()),
        quoted(license.as_deref().unwrap_or("unknown")),
        backends.join(", "),
        endings.join(", "),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repositories_are_called_as_build_toml_allows() {
        let cases =
            [("a/Flash_Attn.2", "flash-attn-2"), ("a/3d-rope", "d-rope"), ("a/x", "kernel-x"), ("a/9", "")];
        for (repo, name) in cases {
            let made = kernel_name(&repo.parse().unwrap());
            assert_eq!(made.as_ref().map_or("", |made| made.as_str()), name, "{repo}");
        }
    }
}
