//! The package index, by way of pip: which file a release is, where it lies, and its digest.
//!
//! Owns: a private pip of a known version, pip's command lines and reports.
//! Never: contains the address of an index, or writes one into the cache; pip's own settings decide.

use std::collections::BTreeMap;
use std::env::consts::ARCH;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use kernel_plan::plan::CommandLine;
use serde::{Deserialize, Serialize};

use thiserror::Error;

use super::error::ToolchainError;
use super::interpreter::Interpreter;
use super::missing::Missing;
pub(super) use super::pins::Target;
use super::pins::{self, Part};
use super::{room, state, used};
use crate::base::process::{self, Finished, Limits};
use crate::base::report::Event;
use crate::base::session::Session;
use crate::base::{env, files};

/// A file of the index.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Release {
    /// The wheel's file name.
    pub(super) file: String,
    /// SHA-256 of the whole wheel, as the index gives it, hexadecimal.
    pub(super) sha256: String,
}

/// A file of the index and, for the time of this run, its address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Located {
    pub(super) release: Release,
    pub(super) url: String,
}

impl Target {
    /// The interpreter that `Machine` stands for; PyTorch's headers are the same for all.
    const PYTHON: &str = "312";
    /// Platforms of `Machine`, the best first: glibc versions of PEP 600, and the older name that stands for 2.17.
    const PLATFORMS: &[&str] = &[
        "manylinux_2_28",
        "manylinux_2_27",
        "manylinux_2_26",
        "manylinux_2_24",
        "manylinux_2_17",
        "manylinux2014",
    ];

    fn tag(self, python: &Interpreter) -> String {
        match self {
            Self::Machine => format!("any-{ARCH}"),
            Self::Interpreter => python.tag.clone(),
        }
    }

    fn arguments(self) -> Vec<String> {
        match self {
            Self::Machine => {
                let python = Self::PYTHON;
                let mut all = vec![format!("--python-version={python}"), "--implementation=cp".to_owned()];
                all.push(format!("--abi=cp{python}"));
                all.extend(Self::PLATFORMS.iter().map(|platform| format!("--platform={platform}_{ARCH}")));
                all
            }
            Self::Interpreter => Vec::new(),
        }
    }
}

/// What is known from earlier runs about the wheel of a release.
pub(super) fn remembered_release(
    session: &Session,
    python: &Interpreter,
    target: Target,
    part: &Part,
) -> Option<Release> {
    state::load(&record(session, python, target, part))
}

fn record(session: &Session, python: &Interpreter, target: Target, part: &Part) -> PathBuf {
    let file = format!("{}-{}.json", part.name, part.version);
    session.cache.join("index").join(target.tag(python)).join(file)
}

/// Names and versions of the wheels that were ever asked for, by SHA-256.
pub(super) fn names(session: &Session) -> BTreeMap<String, String> {
    let mut names = BTreeMap::new();
    let root = session.cache.join("index");
    for file in files::walk(&root, |_| true).unwrap_or_default() {
        let Some(release) = state::load::<Release>(&root.join(&file)) else { continue };
        // NAME-VERSION-PYTHON-ABI-PLATFORM.whl, or with a build number before the last three.
        let mut parts = release.file.splitn(3, '-');
        let (name, version) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
        let tag = file.parent().and_then(Path::to_str).filter(|tag| !tag.starts_with("any-"));
        let whose = tag.map(|tag| format!(", what runs on {tag}")).unwrap_or_default();
        names.insert(release.sha256, format!("{} {version}{whose}", name.replace('_', "-")));
    }
    names
}

/// Asks pip for all of `parts` at once.
pub(super) fn locate(
    session: &Session,
    python: &Interpreter,
    target: Target,
    parts: &[&Part],
) -> Result<Vec<Located>, ToolchainError> {
    let scratch = files::scratch()?;
    let report = scratch.path().join("report.json");
    let wanted: Vec<String> = parts.iter().map(|part| format!("{}=={}", part.name, part.version)).collect();
    let line = pip(session, python, scratch.path())?
        .args(["install", "--dry-run", "--ignore-installed", "--no-deps", "--only-binary=:all:"])
        // Metadata by range: without it pip fetches each wheel to look into it.
        .args(["--use-feature=fast-deps", "--quiet", "--report"])
        .path(&report)
        .args(target.arguments())
        .args(&wanted);
    let done = process::run(&line, Limits::wall(Duration::from_secs(900)))?;
    let failed = |cause| ToolchainError::Index { wanted: wanted.join(", "), cause };
    if !done.ending.success() {
        return Err(room::or_else(&done, &wanted.join(", "), scratch.path(), || {
            failed(errors_of(&done).into())
        }));
    }
    let located = read_report(&files::read_text(&report)?, parts).map_err(|error| failed(error.into()))?;
    for (part, located) in parts.iter().zip(&located) {
        state::save(&record(session, python, target, part), &located.release)?;
    }
    Ok(located)
}

/// Installs requirements into a folder; `what` names them for people.
pub(super) fn install(
    session: &Session,
    python: &Interpreter,
    requirements: &[String],
    target: &Path,
) -> Result<(), ToolchainError> {
    let scratch = files::scratch()?;
    let line = pip(session, python, scratch.path())?
        .args([
            "install",
            "--only-binary=:all:",
            "--no-compile",
            "--no-user",
            "--quiet",
            "--no-warn-conflicts",
        ])
        .args(["--upgrade", "--target"])
        .path(target)
        .args(requirements);
    let done = process::run(&line, Limits::wall(Duration::from_secs(7200)))?;
    if done.ending.success() {
        return Ok(());
    }
    let wanted = requirements.join(", ");
    let failed = || ToolchainError::Install { wanted: wanted.clone(), output: errors_of(&done) };
    Err(room::or_else(&done, &wanted, target, failed))
}

/// Has pip fetch a whole wheel: for an index that wants credentials, which pip knows and we do not.
pub(super) fn download(
    session: &Session,
    python: &Interpreter,
    target: Target,
    part: &Part,
    folder: &Path,
) -> Result<(), ToolchainError> {
    let wanted = format!("{}=={}", part.name, part.version);
    let line = pip(session, python, folder)?
        .args(["download", "--no-deps", "--only-binary=:all:", "--quiet", "--dest"])
        .path(folder)
        .args(target.arguments())
        .arg(&wanted);
    let done = process::run(&line, Limits::wall(Duration::from_secs(7200)))?;
    if done.ending.success() {
        return Ok(());
    }
    let failed = || ToolchainError::Index { wanted: wanted.clone(), cause: errors_of(&done).into() };
    Err(room::or_else(&done, &wanted, folder, failed))
}

/// A command line that starts the private pip, which is fetched first where the cache has none.
fn pip(session: &Session, python: &Interpreter, cwd: &Path) -> Result<CommandLine, ToolchainError> {
    let version = pins::load().pip.version;
    let folder = session.cache.join("pip").join(&version);
    let program = folder.join("pip");
    used::folder(session, &folder);
    if !files::is_dir(&program) {
        fetch_pip(session, python, &version, &folder)?;
    }
    Ok(client(CommandLine::new(&python.program), cwd).path(&program))
}

/// Adds what pip and uv need from the environment, and takes away the settings that would send packages elsewhere.
fn client(line: CommandLine, cwd: &Path) -> CommandLine {
    // Started in a folder of its own, so that no module of the user's hides one of pip's.
    let mut line = line.cwd(cwd);
    for (name, value) in env::index_client() {
        line = line.env(name, value);
    }
    for (name, value) in [
        ("PIP_DISABLE_PIP_VERSION_CHECK", "1"),
        ("PIP_NO_INPUT", "1"),
        ("PIP_REQUIRE_VIRTUALENV", "0"),
        ("PIP_USER", "0"),
    ] {
        line = line.env(name, value);
    }
    line
}

/// Older pips fetch whole wheels to answer a question, so one of a known version is kept in the cache. It comes
/// through the pip that is there, or through uv.
fn fetch_pip(
    session: &Session,
    python: &Interpreter,
    version: &str,
    folder: &Path,
) -> Result<(), ToolchainError> {
    let wanted = format!("pip=={version}");
    if session.offline {
        return Err(ToolchainError::Offline { missing: vec![Missing::new(wanted, 2)] });
    }
    let started = Instant::now();
    let staging = files::staging_beside(folder)?;
    let scratch = files::scratch()?;
    let own = CommandLine::new(&python.program).args(["-m", "pip", "install", "--quiet", "--no-user"]);
    let mut line = own.args(["--no-deps", "--only-binary=:all:", "--no-compile", "--target"]);
    let here = CommandLine::new(&python.program).args(["-m", "pip", "--version"]).cwd(scratch.path());
    if !process::run(&here, Limits::wall(Duration::from_secs(60)))?.ending.success() {
        let uv =
            process::find("uv").ok_or_else(|| ToolchainError::NoPip { python: python.program.clone() })?;
        line = CommandLine::new(uv)
            .args(["pip", "install", "--quiet", "--no-deps", "--python"])
            .path(&python.program)
            .arg("--target");
    }
    let line = client(line, scratch.path()).path(staging.path()).arg(&wanted);
    let done = process::run(&line, Limits::wall(Duration::from_secs(600)))?;
    if !done.ending.success() {
        let failed = || ToolchainError::Index { wanted: wanted.clone(), cause: errors_of(&done).into() };
        return Err(room::or_else(&done, &wanted, staging.path(), failed));
    }
    files::replace_dir(staging, folder)?;
    session.report.emit(&Event::Done {
        action: "fetched",
        subject: &wanted,
        detail: "to query the package index without fetching whole wheels (1.8 MB)",
        seconds: started.elapsed().as_secs_f64(),
        cached: false,
    });
    Ok(())
}

/// Pip's `ERROR:` lines, else the end of what it printed.
fn errors_of(done: &Finished) -> String {
    let text = done.stderr_text();
    let errors: Vec<&str> = text.lines().filter_map(|line| line.trim().strip_prefix("ERROR: ")).collect();
    match errors.len() {
        0 => state::last_words(done),
        count => errors[count.saturating_sub(2)..].join("; "),
    }
}

/// A report of pip that cannot be used.
#[derive(Debug, Error)]
enum ReportError {
    #[error("failed to read its report")]
    Json(#[from] serde_json::Error),
    #[error("{0} is missing in its report")]
    Lacks(String),
    #[error("the package index has no SHA-256 for {0}")]
    NoDigest(String),
}

/// What pip's installation report (format 1) says about `parts`, in their order.
fn read_report(text: &str, parts: &[&Part]) -> Result<Vec<Located>, ReportError> {
    let report: Report = serde_json::from_str(text)?;
    parts
        .iter()
        .map(|part| {
            let entry = report
                .install
                .iter()
                .find(|entry| normal(&entry.metadata.name) == normal(&part.name))
                .ok_or_else(|| ReportError::Lacks(part.name.clone()))?;
            let hashes = entry.download_info.archive_info.hashes.as_ref();
            let sha256 = hashes
                .and_then(|hashes| hashes.sha256.clone())
                .ok_or_else(|| ReportError::NoDigest(part.name.clone()))?;
            let url = entry.download_info.url.clone();
            let name =
                url.split(['#', '?']).next().and_then(|url| url.rsplit('/').next()).unwrap_or_default();
            Ok(Located { release: Release { file: name.to_owned(), sha256 }, url })
        })
        .collect()
}

/// A project name as indexes compare it (PEP 503).
fn normal(name: &str) -> String {
    name.to_lowercase().replace(['_', '.'], "-")
}

#[derive(Deserialize)]
struct Report {
    install: Vec<Entry>,
}

#[derive(Deserialize)]
struct Entry {
    metadata: Metadata,
    download_info: DownloadInfo,
}

#[derive(Deserialize)]
struct Metadata {
    name: String,
}

#[derive(Deserialize)]
struct DownloadInfo {
    url: String,
    #[serde(default)]
    archive_info: ArchiveInfo,
}

#[derive(Deserialize, Default)]
struct ArchiveInfo {
    hashes: Option<Hashes>,
}

#[derive(Deserialize)]
struct Hashes {
    sha256: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    const REPORT: &str = r#"{"version": "1", "pip_version": "25.3", "install": [
        {"download_info": {"url": "https://mirror.invalid/packages/ab/Some_Part-1.2-py3-none-any.whl",
          "archive_info": {"hash": "sha256=00ff", "hashes": {"sha256": "00ff"}}},
         "is_direct": false, "requested": true, "metadata": {"name": "Some.Part", "version": "1.2"}},
        {"download_info": {"url": "https://mirror.invalid/other-1-py3-none-any.whl"},
         "metadata": {"name": "other", "version": "1"}}]}"#;

    fn part(name: &str) -> Part {
        Part { name: name.to_owned(), version: "1.2".to_owned(), megabytes: 1, take: vec![], skip: vec![] }
    }

    #[test]
    fn finds_address_and_digest_in_the_report() {
        let located = read_report(REPORT, &[&part("some-part")]).unwrap();
        assert_eq!(located[0].release.file, "Some_Part-1.2-py3-none-any.whl");
        assert_eq!(located[0].release.sha256, "00ff");
        assert!(located[0].url.starts_with("https://mirror.invalid/"));
    }

    #[test]
    fn says_what_the_report_lacks() {
        assert_eq!(
            read_report(REPORT, &[&part("absent")]).unwrap_err().to_string(),
            "absent is missing in its report"
        );
        assert_eq!(
            read_report(REPORT, &[&part("other")]).unwrap_err().to_string(),
            "the package index has no SHA-256 for other"
        );
    }
}
