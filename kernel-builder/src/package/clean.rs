//! What does not belong into a package: secrets, and files that a tool or a system left behind.
//!
//! Owns: the forms of secrets, the names of strays. Never: shows a secret; says where it is.

use std::path::{Path, PathBuf};

use super::error::PackageError;
use crate::base::files::{self, FileError};

/// A secret by the form that who issues it gives to it.
struct Form {
    /// How it begins.
    prefix: &'static str,
    /// Which letters follow, beside letters and digits.
    more: &'static str,
    /// How many of these there are at least.
    least: usize,
    what: &'static str,
}

const fn form(prefix: &'static str, more: &'static str, least: usize, what: &'static str) -> Form {
    Form { prefix, more, least, what }
}

/// Forms that are documented by who issues them, or that their own scanners look for.
const FORMS: &[Form] = &[
    form("hf_", "", 30, "a Hugging Face token"),
    form("api_org_", "", 30, "a Hugging Face token"),
    form("ghp_", "", 36, "a GitHub token"),
    form("gho_", "", 36, "a GitHub token"),
    form("ghu_", "", 36, "a GitHub token"),
    form("ghs_", "", 36, "a GitHub token"),
    form("ghr_", "", 36, "a GitHub token"),
    form("github_pat_", "_", 50, "a GitHub token"),
    form("glpat-", "-_", 20, "a GitLab token"),
    form("AKIA", "", 16, "an AWS access key"),
    form("ASIA", "", 16, "an AWS access key"),
    form("AIza", "-_", 35, "a Google API key"),
    form("xoxb-", "-", 20, "a Slack token"),
    form("xoxp-", "-", 20, "a Slack token"),
    form("sk-ant-", "-_", 30, "an Anthropic key"),
    form("sk-proj-", "-_", 40, "an OpenAI key"),
    form("sk-", "", 40, "a secret key"),
    form("npm_", "", 36, "an npm token"),
    form("dckr_pat_", "-_", 20, "a Docker token"),
    form("pypi-AgE", "-_", 50, "a token of a package index"),
    form("wandb_v1_", "_", 40, "a Weights & Biases key"),
];

/// How long an AWS key is: a longer run of letters is another word.
const AWS: usize = 16;

/// What begins the first line of a private key, and what ends it (RFC 7468, OpenSSH; RFC 9580).
const KEY: (&str, [&str; 2]) = ("-----BEGIN ", ["PRIVATE KEY-----", "PRIVATE KEY BLOCK-----"]);

/// What stands before the text of one that is locked by a password (RFC 1421).
const LOCKED: &[u8] = b"Proc-Type:4,ENCRYPTED";

/// Endings of what editors, merges, compilers and Python leave behind, and of what holds keys.
const STRAY_ENDINGS: &[&str] = &[
    "~", ".swp", ".swo", ".orig", ".rej", ".bak", ".tmp", ".pyc", ".pyo", ".o", ".d", ".log", ".pem", ".key",
    ".p12", ".pfx", ".ipynb",
];

/// Names of the same kind.
const STRAY_NAMES: &[&str] =
    &["Thumbs.db", "desktop.ini", "id_rsa", "id_dsa", "id_ecdsa", "id_ed25519", "core", "nohup.out"];

/// Everything that should not be published of these: their names in the publication, and where they lie.
///
/// # Errors
/// A file cannot be read.
pub(super) fn problems(contents: &[(PathBuf, PathBuf)]) -> Result<Vec<PackageError>, FileError> {
    let mut found = Vec::new();
    for (name, here) in contents {
        if let Some(problem) = stray(name) {
            found.push(PackageError::Stray { file: name.clone(), problem });
        }
        let bytes = files::read(here)?;
        found.extend(secrets(&bytes).into_iter().map(|(line, what)| PackageError::Secret {
            file: name.clone(),
            line,
            what: what.to_owned(),
        }));
    }
    Ok(found)
}

/// Why a file is none of a package, by its name.
fn stray(path: &Path) -> Option<String> {
    let mut parts = path.components().map(|part| part.as_os_str().to_string_lossy().into_owned());
    if let Some(hidden) = parts.clone().find(|part| part.starts_with('.')) {
        return Some(format!(
            "`{hidden}` is hidden: it belongs to an editor, git or the system, or may contain secrets"
        ));
    }
    let name = parts.next_back()?;
    let ending = STRAY_ENDINGS.iter().find(|ending| name.ends_with(**ending));
    if let Some(ending) = ending {
        return Some(format!("files that end in `{ending}` are left by tools, or contain keys"));
    }
    let known = STRAY_NAMES.contains(&name.as_str()) || (name.starts_with('#') && name.ends_with('#'));
    known.then(|| "it was left by an editor or the system, or contains a key".to_owned())
}

/// The secrets in some bytes, each by its line, from 1, and what it looks like.
fn secrets(bytes: &[u8]) -> Vec<(usize, &'static str)> {
    let mut found: Vec<(usize, &'static str)> = Vec::new();
    let mut claimed: Vec<usize> = Vec::new();
    for form in FORMS {
        for at in memchr::memmem::find_iter(bytes, form.prefix) {
            let before = at.checked_sub(1).map(|place| bytes[place]);
            if before.is_some_and(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
                || claimed.contains(&at)
            {
                continue;
            }
            let rest = &bytes[at + form.prefix.len()..];
            let fits = |byte: &&u8| byte.is_ascii_alphanumeric() || form.more.as_bytes().contains(byte);
            let length = rest.iter().take_while(fits).count();
            let aws = form.least == AWS;
            let upper =
                || rest[..length].iter().all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit());
            if length < form.least || (aws && (length != AWS || !upper())) || is_filler(&rest[..length]) {
                continue;
            }
            claimed.push(at);
            found.push((line_of(bytes, at), form.what));
        }
    }
    for at in memchr::memmem::find_iter(bytes, KEY.0) {
        let line = &bytes[at..bytes.len().min(at + 80)];
        let end = KEY.1.iter().find_map(|end| Some(memchr::memmem::find(line, end.as_bytes())? + end.len()));
        let Some(end) = end else { continue };
        // The words alone are in every library that reads keys; a key has its text behind them.
        let text = &bytes[at + end..];
        let text: Vec<u8> =
            text.iter().copied().take(200).filter(|byte| !b"\r\n\\n \"'".contains(byte)).collect();
        let base64 = |byte: &&u8| byte.is_ascii_alphanumeric() || b"+/=".contains(byte);
        if text.iter().take_while(base64).count() >= 40 || text.starts_with(LOCKED) {
            found.push((line_of(bytes, at), "a private key"));
        }
    }
    found.extend(passwords(bytes));
    found.sort_unstable();
    found
}

/// `https://name:password@host`, where the password is no placeholder.
fn passwords(bytes: &[u8]) -> Vec<(usize, &'static str)> {
    let mut found = Vec::new();
    for at in memchr::memmem::find_iter(bytes, "://") {
        let rest = &bytes[at + 3..bytes.len().min(at + 203)];
        let ends = |byte: &u8| !byte.is_ascii_graphic() || b"/\"'<>{}$`\\()".contains(byte);
        let authority = &rest[..rest.iter().position(ends).unwrap_or(rest.len())];
        let Some((user, _)) =
            authority.iter().position(|byte| *byte == b'@').map(|end| authority.split_at(end))
        else {
            continue;
        };
        let Some(colon) = user.iter().position(|byte| *byte == b':') else { continue };
        let password = &user[colon + 1..];
        let words: [&[u8]; 6] = [b"password", b"pass", b"token", b"secret", b"xxx", b"***"];
        if colon > 0 && password.len() >= 3 && !words.iter().any(|word| password.eq_ignore_ascii_case(word)) {
            found.push((line_of(bytes, at), "an address with a password"));
        }
    }
    found
}

/// `hf_xxxxxxxx`: what documents write in the place of a token.
fn is_filler(text: &[u8]) -> bool {
    let mut kinds: Vec<u8> = text.to_vec();
    kinds.sort_unstable();
    kinds.dedup();
    kinds.len() < 4
}

fn line_of(bytes: &[u8], at: usize) -> usize {
    memchr::memchr_iter(b'\n', &bytes[..at]).count() + 1
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Letters and digits without a pattern, so that no token stands in this file.
    fn drawn(length: usize) -> String {
        let letters = b"ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";
        (0..length).map(|place| char::from(letters[place * place * 7 % letters.len()])).collect()
    }

    #[test]
    fn every_form_is_found_with_its_line_and_a_shorter_twin_is_not() {
        for form in FORMS {
            let secret = format!("x = 1\nkey = \"{}{}\"\n", form.prefix, drawn(form.least));
            assert_eq!(secrets(secret.as_bytes()), [(2, form.what)], "{secret}");
            let short = format!("x = 1\nkey = \"{}{}\"\n", form.prefix, drawn(form.least.min(15) - 1));
            assert_eq!(secrets(short.as_bytes()), [], "{short}");
            let filler = format!("{}{}\n", form.prefix, "x".repeat(form.least));
            assert_eq!(secrets(filler.as_bytes()), [], "{filler}");
            let inside = format!("word{}{}\n", form.prefix, drawn(form.least));
            assert_eq!(secrets(inside.as_bytes()), [], "{inside}");
        }
    }

    #[test]
    fn a_private_key_is_its_text_and_not_its_words() {
        let line = format!("-----BEGIN {}PRIVATE KEY-----", "OPENSSH ");
        assert_eq!(secrets(format!("{line}\n{}\n", drawn(64)).as_bytes()), [(1, "a private key")]);
        assert_eq!(secrets(format!("a\n\"{line}\\n{}\\n\"", drawn(64)).as_bytes()), [(2, "a private key")]);
        assert_eq!(secrets(format!("{line}\0-----END\0").as_bytes()), []);
        let locked = format!("-----BEGIN RSA PRI{}\nProc-Type: 4,ENCRYPTED\nDEK-Info: x\n", "VATE KEY-----");
        assert_eq!(secrets(locked.as_bytes()), [(1, "a private key")]);
        let block = format!("-----BEGIN PGP PRI{}\n\n{}\n", "VATE KEY BLOCK-----", drawn(64));
        assert_eq!(secrets(block.as_bytes()), [(1, "a private key")]);
    }

    #[test]
    fn an_address_with_a_password_is_found_and_a_placeholder_is_not() {
        let with = |password: &str| format!("url = 'https://me:{password}@example.com/x'\n");
        assert_eq!(secrets(with("hunter2").as_bytes()), [(1, "an address with a password")]);
        for fine in ["{password}", "$TOKEN", "password", "***"] {
            assert_eq!(secrets(with(fine).as_bytes()), [], "{fine}");
        }
        assert_eq!(secrets(b"https://example.com:8080/a@b ssh://git@example.com/x"), []);
    }

    #[test]
    fn strays_are_known_by_their_names() {
        for name in [
            "build/torch-cpu/.env",
            "build/torch-cpu/.git/config",
            "build/torch-cpu/.DS_Store",
            "build/torch-cpu/__init__.py~",
            "build/torch-cpu/.__init__.py.swp",
            "build/torch-cpu/op.pyc",
            "build/torch-cpu/op.py.orig",
            "build/torch-cpu/#op.py#",
            "build/torch-cpu/server.pem",
            "benchmarks/id_rsa",
            "benchmarks/id_ecdsa",
        ] {
            assert!(stray(Path::new(name)).is_some(), "{name}");
        }
        for name in [
            "README.md",
            "build/torch-cpu/__init__.py",
            "build/torch-cpu/_k_cpu_0.abi3.so",
            "build/torch-cpu/metadata.json",
            "build/torch-cpu/metadata.json.sigstore",
            "build/torch-cpu/sub/core.py",
            "benchmarks/benchmark.py",
        ] {
            assert_eq!(stray(Path::new(name)), None, "{name}");
        }
    }
}
