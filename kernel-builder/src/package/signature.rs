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

use crate::base::env;
use crate::base::files::{self, FileError};
use crate::base::process::{self, Finished, Limits, ProcessError};
use crate::exit::{self, StageError};

use super::is_shipped;

/// The list of digests.
const SUMS: &str = "SHA256SUMS";
/// Its signature, under the name that `ssh-keygen` gives to it.
const SIGNATURE: &str = "SHA256SUMS.sig";
/// The purpose that every signature names, so that one made for another purpose is refused.
const NAMESPACE: &str = "kernelwright";
/// Files of `build/` that are not listed: the list, its signature, and the card, which a hub keeps on another branch.
const UNLISTED: &[&str] = &[SUMS, SIGNATURE, "CARD.md"];
/// The ending of Sigstore's bundles, which may come later.
const BUNDLE: &str = ".sigstore";

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
    #[error("failed to sign with the key `{}`: {why}", key.display())]
    #[diagnostic(
        code(package::signing_key),
        help(
            "name a private SSH key without a passphrase (`ssh-keygen -t ed25519 -N '' -f FILE` makes one), or the .pub file of a key in ssh-agent"
        )
    )]
    Key {
        /// The file.
        key: PathBuf,
        /// The reason, from ssh-keygen.
        why: String,
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
    #[error("{SIGNATURE} is not a valid signature of {SUMS}: {why}")]
    #[diagnostic(
        code(package::bad_signature),
        help("the list or its signature was changed: download the package again, and do not use this one")
    )]
    Bad {
        /// The reason, from ssh-keygen.
        why: String,
    },
    /// The signature is of somebody else.
    #[error("the package is signed with the {key}, which `{}` does not accept: {why}", signers.display())]
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
        /// The reason, from ssh-keygen.
        why: String,
    },
    /// Files are not those that were signed.
    #[error("the files are not those that were signed:\n{}", listed(files))]
    #[diagnostic(
        code(package::unlike_signed),
        help(
            "do not use a package that you downloaded: download it again. Sign your own one again: `kernelwright sign`"
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
/// The key cannot sign, or a file cannot be read or written. An older signature is then gone.
pub fn sign(build: &Path, key: &Path) -> Result<Signed, SignatureError> {
    let wrong = |done: &Finished| SignatureError::Key { key: key.to_owned(), why: reason(done) };
    // A private key is asked for its public one first: without a terminal, nobody could answer for its passphrase.
    if key.extension().is_none_or(|ending| ending != "pub") {
        let done = run(&keygen().args(["-y", "-P", "", "-f"]).path(key))?;
        if !done.ending.success() {
            return Err(wrong(&done));
        }
    }
    remove(build)?;
    let sums = sums(build)?;
    let mut text = String::new();
    for (name, digest) in &sums {
        let _infallible = writeln!(text, "{digest}  {name}");
    }
    let list = build.join(SUMS);
    files::write(&list, &text)?;
    let agent = env::text(env::SSH_AGENT).map(|socket| (env::SSH_AGENT, socket));
    let mut line = keygen().args(["-Y", "sign", "-n", NAMESPACE, "-f"]).path(key).path(&list);
    line.env.extend(agent.map(|(name, value)| (name.to_owned(), value)));
    let done = run(&line)?;
    if !done.ending.success() {
        remove(build)?;
        return Err(wrong(&done));
    }
    Ok(Signed { key: genuine(build, &text)?, signer: None, files: sums.len() })
}

/// Takes away the list and its signature.
///
/// # Errors
/// A file that is there cannot be removed.
pub fn remove(build: &Path) -> Result<(), FileError> {
    let there = [SUMS, SIGNATURE].map(|name| build.join(name)).into_iter().filter(|path| files::exists(path));
    there.into_iter().try_for_each(|path| files::remove_file(&path))
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
    if let Some(file) = [SUMS, SIGNATURE].into_iter().find(|name| !files::exists(&build.join(name))) {
        return Err(SignatureError::Unsigned { dir: build.to_owned(), file });
    }
    let text = files::read_text(&build.join(SUMS))?;
    let key = genuine(build, &text)?;
    let signature = build.join(SIGNATURE);
    let unknown = |done: &Finished| SignatureError::Unknown {
        key: key.clone(),
        signers: signers.to_owned(),
        why: reason(done),
    };
    let found =
        run(&keygen().args(["-Y", "find-principals", "-f"]).path(signers).arg("-s").path(&signature))?;
    let names = found.stdout_text();
    let name = names.split(['\n', ',']).next().unwrap_or_default().trim();
    if !found.ending.success() || name.is_empty() {
        return Err(unknown(&found));
    }
    let line = keygen().args(["-Y", "verify", "-n", NAMESPACE, "-I", name, "-f"]);
    let done = told(&line.path(signers).arg("-s").path(&signature), &text)?;
    if !done.ending.success() {
        return Err(unknown(&done));
    }
    let files = unlike(build, &text)?;
    if !files.is_empty() {
        return Err(SignatureError::Unlike { files });
    }
    Ok(Signed { key, signer: Some(name.to_owned()), files: text.lines().count() })
}

/// The problem of a package whose files changed after it was signed; a package without a signature has none.
///
/// # Errors
/// A file cannot be read.
pub fn outdated(build: &Path) -> Result<Option<SignatureError>, FileError> {
    if !is_there(build) {
        return Ok(None);
    }
    let list = build.join(SUMS);
    let text = if files::exists(&list) { files::read_text(&list)? } else { String::new() };
    let files = unlike(build, &text)?;
    Ok((!files.is_empty()).then_some(SignatureError::Unlike { files }))
}

/// The key of a signature that fits the list, whoever's it is.
fn genuine(build: &Path, text: &str) -> Result<String, SignatureError> {
    let line = keygen().args(["-Y", "check-novalidate", "-n", NAMESPACE, "-s"]).path(&build.join(SIGNATURE));
    let done = told(&line, text)?;
    if !done.ending.success() {
        return Err(SignatureError::Bad { why: reason(&done) });
    }
    // `Good "kernelwright" signature with ED25519 key SHA256:...`
    let said = done.stdout_text();
    Ok(said.trim().split_once(" with ").map_or("unnamed key", |(_, key)| key).to_owned())
}

/// Problems with files, by their names in the publication. An unlisted file counts only in `build/`, which clients load:
/// a hub may keep other files beside it.
fn unlike(build: &Path, text: &str) -> Result<Vec<String>, FileError> {
    let now = sums(build)?;
    let then: BTreeMap<&str, &str> =
        text.lines().filter_map(|line| line.split_once("  ")).map(|(digest, name)| (name, digest)).collect();
    let mut found = Vec::new();
    for (name, digest) in &then {
        match now.get(*name) {
            None => found.push(format!("{name}: missing")),
            Some(other) if other != digest => found.push(format!("{name}: changed")),
            Some(_) => {}
        }
    }
    let more = now.keys().filter(|name| !then.contains_key(name.as_str()));
    let more = more.filter(|name| name.starts_with("build/") && !name.ends_with(BUNDLE));
    found.extend(more.map(|name| format!("{name}: not in the list")));
    Ok(found)
}

/// SHA-256 in hexadecimal of each file, by its name in the publication, which `build` and `benchmarks` lie in.
fn sums(build: &Path) -> Result<BTreeMap<String, String>, FileError> {
    let mut paths = Vec::new();
    for name in files::walk(build, is_shipped)? {
        if !UNLISTED.iter().any(|other| name.as_os_str() == *other) {
            paths.push((format!("build/{}", name.display()), build.join(&name)));
        }
    }
    // `build/..` of a path that ends in it need not be a parent by name.
    let extra = super::extra_files(&build.join(".."))?;
    paths.extend(extra.into_iter().map(|(name, path)| (name.display().to_string(), path)));
    paths
        .into_iter()
        .map(|(name, path)| {
            let digest = Sha256::digest(files::read(&path)?);
            Ok((name, digest.iter().map(|byte| format!("{byte:02x}")).collect()))
        })
        .collect()
}

fn keygen() -> CommandLine {
    CommandLine::new("ssh-keygen")
}

const LIMITS: Limits = Limits { wall: Duration::from_secs(60), output: 1 << 20, resident: None };

fn run(line: &CommandLine) -> Result<Finished, ProcessError> {
    process::run(line, LIMITS)
}

/// Runs a command with a text on its standard input.
fn told(line: &CommandLine, text: &str) -> Result<Finished, ProcessError> {
    let mut stdout = Vec::new();
    let mut done = process::converse(line, LIMITS, text.as_bytes(), &mut |line| {
        stdout.extend_from_slice(line.as_bytes());
        stdout.push(b'\n');
    })?;
    done.stdout = stdout;
    Ok(done)
}

/// The first line that says something, without the name of the program.
fn reason(done: &Finished) -> String {
    let text = done.stderr_text() + &done.stdout_text();
    let decoration = |line: &&str| !line.chars().all(|letter| "@ \t\r".contains(letter));
    text.lines().find(decoration).map_or_else(|| done.ending.to_string(), |line| line.trim().to_owned())
}
