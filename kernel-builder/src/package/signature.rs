//! The signature of a package: `build/SHA256SUMS`, in the format of `sha256sum`, and `build/SHA256SUMS.sig`, in that of
//! `ssh-keygen -Y sign` (OpenSSH's PROTOCOL.sshsig).
//!
//! Owns: which files are listed, how the list is signed and checked.
//! Never: reads a private key; `ssh-keygen` does. Lies in a variant's folder, where the stock client refuses unknown files.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use kernel_plan::plan::CommandLine;
use miette::Diagnostic;
use serde::Serialize;
use sha2::{Digest as _, Sha256};
use thiserror::Error;

use crate::base::digest::hex;
use crate::base::env;
use crate::base::files::{self, FileError};
use crate::base::process::{self, Finished, Limits, ProcessError};
use crate::exit::{self, StageError};

use super::shipped::{BENCHMARKS, extra_files, is_shipped};

/// The list of digests.
const SUMS: &str = "SHA256SUMS";
/// Its signature, under the name that `ssh-keygen` gives to it.
const SIGNATURE: &str = "SHA256SUMS.sig";
/// The purpose that every signature names, so that one made for another purpose is refused.
const NAMESPACE: &str = "kernelwright";
/// Files of `build/` that are not listed: the list, its signature, and the card, which a hub keeps on another branch.
const UNLISTED: &[&str] = &[SUMS, SIGNATURE, "CARD.md"];
/// The name of Sigstore's bundle in a variant's folder, which may be added after signing.
const BUNDLE: &str = "metadata.json.sigstore";

/// Why a package could not be signed, or is refused.
#[derive(Debug, Error, Diagnostic)]
pub enum SignatureError {
    /// A file could not be read or written.
    #[error(transparent)]
    #[diagnostic(transparent)]
    File(#[from] FileError),
    /// `ssh-keygen` could not be run.
    #[error(transparent)]
    #[diagnostic(transparent)]
    Process(#[from] ProcessError),
    /// The key cannot sign.
    #[error("failed to sign with the key `{}`: {output}", key.display())]
    #[diagnostic(
        code(package::signing_key),
        help(
            "use a private SSH key without a passphrase (create one with `ssh-keygen -t ed25519 -N '' -f \
             FILE`), or the .pub file of a key in ssh-agent"
        )
    )]
    Key {
        /// The file.
        key: PathBuf,
        /// What ssh-keygen printed.
        output: String,
    },
    /// There is no signature.
    #[error("`{}` is not signed: {file} is missing", dir.display())]
    #[diagnostic(
        code(package::unsigned),
        help(
            "do not use it; ask its author for a signed release. The author signs with `kernelwright sign`"
        )
    )]
    Unsigned {
        /// The folder.
        dir: PathBuf,
        /// The missing file.
        file: &'static str,
    },
    /// The signature does not fit the list.
    #[error("{SIGNATURE} is not a valid signature of {SUMS}: {output}")]
    #[diagnostic(
        code(package::bad_signature),
        help("the list or its signature was changed: download the package again, and do not use this one")
    )]
    Bad {
        /// What ssh-keygen printed.
        output: String,
    },
    /// Signed with a key that is not accepted.
    #[error("the package is signed with the {key}, which `{}` does not accept: {output}", signers.display())]
    #[diagnostic(
        code(package::unknown_signer),
        help(
            "do not use it, and do not add a key that came with the package; ask its author which key is right"
        )
    )]
    Unknown {
        /// The kind and fingerprint of the key.
        key: String,
        /// The file of accepted keys.
        signers: PathBuf,
        /// What ssh-keygen printed.
        output: String,
    },
    /// Files are not those that were signed.
    #[error("the files do not match the signature:\n{}", listed(files))]
    #[diagnostic(
        code(package::unlike_signed),
        help(
            "if you downloaded the package, do not use it: download it again; if it is yours, run \
             `kernelwright sign` again"
        )
    )]
    Unlike {
        /// Each with what is wrong.
        files: Vec<String>,
    },
}

fn listed(files: &[String]) -> String {
    files.iter().map(|file| format!("  {file}")).collect::<Vec<_>>().join("\n")
}

impl StageError for SignatureError {
    fn exit(&self) -> u8 {
        match self {
            Self::File(error) => error.exit(),
            Self::Process(error) => error.exit(),
            _ => exit::PACKAGE,
        }
    }
}

/// A signature that was made or accepted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Signed {
    /// The kind and fingerprint of the key.
    pub key: String,
    /// The name that the file of accepted keys gives to it; `None` for a new signature.
    pub signer: Option<String>,
    /// Number of files in the list.
    pub files: usize,
}

/// Lists the files of a package, and signs the list with a key. `build` is the folder with the variants.
///
/// # Errors
/// The key cannot sign, or a file cannot be read or written. An older signature then stays.
pub fn sign(build: &Path, key: &Path) -> Result<Signed, SignatureError> {
    let wrong = |done: &Finished| SignatureError::Key { key: key.to_owned(), output: first_line(done) };
    // A private key is asked for its public one first: without a terminal, nobody could answer for its passphrase.
    if key.extension().is_none_or(|ending| ending != "pub") {
        let done = run(&keygen().args(["-y", "-P", "", "-f"]).path(key))?;
        if !done.ending.success() {
            return Err(wrong(&done));
        }
    }
    let paths = shipped(build)?;
    let mut text = String::new();
    for (name, path) in &paths {
        let _infallible = writeln!(text, "{}  {name}", digest(path)?);
    }
    // In a folder of its own, so that a key that cannot sign leaves an older signature.
    let scratch = files::scratch()?;
    let list = scratch.path().join(SUMS);
    files::write(&list, &text)?;
    let agent = env::text(env::SSH_AGENT).map(|socket| (env::SSH_AGENT, socket));
    let mut line = keygen().args(["-Y", "sign", "-n", NAMESPACE, "-f"]).path(key).path(&list);
    line.env.extend(agent.map(|(name, value)| (name.to_owned(), value)));
    let done = run(&line)?;
    if !done.ending.success() {
        return Err(wrong(&done));
    }
    let key = genuine(scratch.path(), &text)?;
    files::write(&build.join(SUMS), &text)?;
    files::write(&build.join(SIGNATURE), files::read(&scratch.path().join(SIGNATURE))?)?;
    Ok(Signed { key, signer: None, files: paths.len() })
}

/// Whether a file of `build/` is the list of digests or its signature.
pub(super) fn is_of_signature(name: &Path) -> bool {
    [SUMS, SIGNATURE].iter().any(|other| name.as_os_str() == *other)
}

/// Whether a file of a variant's folder, by its name in it, is a Sigstore bundle, which may be added after packaging.
pub fn is_bundle(name: &Path) -> bool {
    name.as_os_str() == BUNDLE
}

/// Whether a package has a signature, by anyone.
pub fn is_there(build: &Path) -> bool {
    files::exists(&build.join(SIGNATURE))
}

/// Checks a package against the keys that may sign it; `signers` has the format of `ALLOWED SIGNERS` in ssh-keygen(1).
///
/// # Errors
/// There is no signature, it is not of this list or of none of these keys, or the files are not those of the list.
pub fn verify(build: &Path, signers: &Path) -> Result<Signed, SignatureError> {
    // ssh-keygen would say the same of a file that is not there and of one without the key.
    files::read(signers)?;
    let text = list_of(build)?;
    let key = genuine(build, &text)?;
    let signature = build.join(SIGNATURE);
    let unknown = |done: &Finished| SignatureError::Unknown {
        key: key.clone(),
        signers: signers.to_owned(),
        output: first_line(done),
    };
    let found =
        run(&keygen().args(["-Y", "find-principals", "-f"]).path(signers).arg("-s").path(&signature))?;
    let names = found.stdout_text();
    let name = names.split(['\n', ',']).next().unwrap_or_default().trim();
    if !found.ending.success() || name.is_empty() {
        return Err(unknown(&found));
    }
    let line = keygen().args(["-Y", "verify", "-n", NAMESPACE, "-I", name, "-f"]);
    let done = run_with_input(&line.path(signers).arg("-s").path(&signature), &text)?;
    if !done.ending.success() {
        return Err(unknown(&done));
    }
    // Every file counts: Python loads a cache in `__pycache__` in place of the signed file.
    unchanged(&all(build)?, &text)?;
    Ok(Signed { key, signer: Some(name.to_owned()), files: text.lines().count() })
}

/// Checks a package of one's own project before it is published. A package that was never signed passes; Python's caches
/// are not published, so they may be there.
///
/// # Errors
/// The list or the signature is missing or was changed, or the files are not those of the list.
pub fn outdated(build: &Path) -> Result<(), SignatureError> {
    if [SUMS, SIGNATURE].iter().all(|name| !files::exists(&build.join(name))) {
        return Ok(());
    }
    let text = list_of(build)?;
    genuine(build, &text)?;
    unchanged(&shipped(build)?, &text)
}

/// The text of the list, if the package has both the list and its signature.
fn list_of(build: &Path) -> Result<String, SignatureError> {
    if let Some(file) = [SUMS, SIGNATURE].into_iter().find(|name| !files::exists(&build.join(name))) {
        return Err(SignatureError::Unsigned { dir: build.to_owned(), file });
    }
    Ok(files::read_text(&build.join(SUMS))?)
}

/// The key of a signature that fits the list, whoever's it is.
fn genuine(build: &Path, text: &str) -> Result<String, SignatureError> {
    let line = keygen().args(["-Y", "check-novalidate", "-n", NAMESPACE, "-s"]).path(&build.join(SIGNATURE));
    let done = run_with_input(&line, text)?;
    if !done.ending.success() {
        return Err(SignatureError::Bad { output: first_line(&done) });
    }
    // `Good "kernelwright" signature with ED25519 key SHA256:...`
    let said = done.stdout_text();
    Ok(said.trim().split_once(" with ").map_or("unnamed key", |(_, key)| key).to_owned())
}

/// Compares files with the list. Only a Sigstore bundle of a variant's metadata may be missing in the list.
fn unchanged(now: &BTreeMap<String, PathBuf>, text: &str) -> Result<(), SignatureError> {
    let then: BTreeMap<&str, &str> =
        text.lines().filter_map(|line| line.split_once("  ")).map(|(digest, name)| (name, digest)).collect();
    let mut found = Vec::new();
    for (name, expected) in &then {
        match now.get(*name) {
            None => found.push(format!("{name}: missing")),
            Some(path) if digest(path)? != *expected => found.push(format!("{name}: changed")),
            Some(_) => {}
        }
    }
    let may_be_added = |name: &str| {
        let mut parts = name.split('/');
        parts.next() == Some("build") && parts.nth(1) == Some(BUNDLE) && parts.next().is_none()
    };
    let more = now.keys().filter(|name| !then.contains_key(name.as_str()) && !may_be_added(name));
    found.extend(more.map(|name| format!("{name}: not in the list")));
    if found.is_empty() { Ok(()) } else { Err(SignatureError::Unlike { files: found }) }
}

/// The files that are signed and published, by their names in the publication, which `build` and `benchmarks` lie in.
fn shipped(build: &Path) -> Result<BTreeMap<String, PathBuf>, FileError> {
    let mut paths = of_build(build, is_shipped)?;
    // `build/..` of a path that ends in it need not be a parent by name.
    let extra = extra_files(&build.join(".."))?;
    paths.extend(extra.into_iter().map(|(name, path)| (name.display().to_string(), path)));
    Ok(paths)
}

/// Every file of a publication in the folders that clients load and run, caches included.
fn all(build: &Path) -> Result<BTreeMap<String, PathBuf>, FileError> {
    let mut paths = of_build(build, |_| true)?;
    let benchmarks = build.join("..").join(BENCHMARKS);
    if files::is_dir(&benchmarks) {
        let names = files::walk(&benchmarks, |_| true)?.into_iter();
        paths.extend(names.map(|name| (format!("{}/{}", BENCHMARKS, name.display()), benchmarks.join(name))));
    }
    Ok(paths)
}

fn of_build(build: &Path, enter: impl Fn(&Path) -> bool) -> Result<BTreeMap<String, PathBuf>, FileError> {
    let names = files::walk(build, enter)?.into_iter();
    let listed = names.filter(|name| !UNLISTED.iter().any(|other| name.as_os_str() == *other));
    Ok(listed.map(|name| (format!("build/{}", name.display()), build.join(name))).collect())
}

/// SHA-256 of a file in hex.
fn digest(path: &Path) -> Result<String, FileError> {
    Ok(hex(&Sha256::digest(files::read(path)?)))
}

fn keygen() -> CommandLine {
    CommandLine::new("ssh-keygen")
}

const LIMITS: Limits = Limits { wall: Duration::from_secs(60), output: 1 << 20, resident: None };

fn run(line: &CommandLine) -> Result<Finished, ProcessError> {
    process::run(line, LIMITS)
}

/// Runs a command with a text on its standard input.
fn run_with_input(line: &CommandLine, text: &str) -> Result<Finished, ProcessError> {
    let mut stdout = Vec::new();
    let mut done = process::converse(line, LIMITS, text.as_bytes(), &mut |line| {
        stdout.extend_from_slice(line.as_bytes());
        stdout.push(b'\n');
    })?;
    done.stdout = stdout;
    Ok(done)
}

/// The first line that says something, without the name of the program.
fn first_line(done: &Finished) -> String {
    let text = done.stderr_text() + &done.stdout_text();
    let decoration = |line: &&str| !line.chars().all(|letter| "@ \t\r".contains(letter));
    text.lines().find(decoration).map_or_else(|| done.ending.to_string(), |line| line.trim().to_owned())
}
