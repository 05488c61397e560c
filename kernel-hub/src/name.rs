//! The words that cannot be wrong: names of kernels, refs and commits, paths in a kernel, digests.
//!
//! Owns: what each may look like, checked once as it comes in.
//! Never: looks at a file; a name that was checked is safe as part of a path on disk.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// A word that is not what it should be. The text is for people.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct BadName(pub(crate) String);

/// The longest name of an organization or a kernel; the client's own limit for both together.
const LONGEST_NAME: usize = 96;
/// The longest path of a file, in bytes.
pub const LONGEST_PATH: usize = 1024;
/// The longest part of a path: what file systems take.
const LONGEST_PART: usize = 255;
/// The longest name of a branch or tag; encoded for the disk it is at most three times as long.
const LONGEST_REF: usize = 80;
/// First words of addresses that are no organizations.
const RESERVED: &[&str] = &[
    "api",
    "kernels",
    "models",
    "datasets",
    "spaces",
    "metrics",
    "healthz",
    "offline",
    "lfs",
    "xet",
    "favicon.ico",
];

/// `org/name`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RepoId {
    org: String,
    name: String,
}

impl RepoId {
    /// From its two halves: letters, digits, `-`, `_` and `.`; none of the marks first or last, no two dots.
    ///
    /// # Errors
    /// Either is something else, or the organization's is an address of the hub itself.
    pub fn new(org: &str, name: &str) -> Result<Self, BadName> {
        for (what, word) in [("organization", org), ("kernel", name)] {
            let fine = !word.is_empty()
                && word.len() <= LONGEST_NAME
                && word.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte))
                && !word.starts_with(['-', '.'])
                && !word.ends_with(['-', '.'])
                && !word.contains("..")
                && !word.contains("--");
            if !fine {
                return Err(BadName(format!("{} is not a valid name of a {what}", shown(word))));
            }
        }
        if RESERVED.contains(&org)
            || std::path::Path::new(name).extension().is_some_and(|ending| ending == "git")
        {
            return Err(BadName(format!("the name `{org}/{name}` is reserved")));
        }
        Ok(Self { org: org.to_owned(), name: name.to_owned() })
    }

    /// Whose it is.
    pub fn org(&self) -> &str {
        &self.org
    }

    /// The name within the organization.
    pub fn name(&self) -> &str {
        &self.name
    }
}

impl fmt::Display for RepoId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.org, self.name)
    }
}

impl FromStr for RepoId {
    type Err = BadName;

    fn from_str(text: &str) -> Result<Self, BadName> {
        let (org, name) = text
            .split_once('/')
            .ok_or_else(|| BadName(format!("{} is not ORGANIZATION/NAME", shown(text))))?;
        Self::new(org, name)
    }
}

/// A file or folder in a kernel: relative, `/` between its parts, none of them `.`, `..` or empty.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct FilePath(String);

impl FilePath {
    /// The path as it was written.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether it lies somewhere below a folder.
    pub fn is_below(&self, folder: &str) -> bool {
        folder.is_empty() || self.0.strip_prefix(folder).is_some_and(|rest| rest.starts_with('/'))
    }
}

impl fmt::Display for FilePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for FilePath {
    type Err = BadName;

    fn from_str(text: &str) -> Result<Self, BadName> {
        let wrong = |why: &str| Err(BadName(format!("the path {} {why}", shown(text))));
        if text.is_empty() {
            return wrong("is empty");
        }
        if text.len() > LONGEST_PATH {
            return wrong(&format!("is longer than {LONGEST_PATH} bytes"));
        }
        if text.chars().any(|letter| letter.is_control() || letter == '\\') {
            return wrong("has a backslash or a control character");
        }
        for part in text.split('/') {
            if part.is_empty() || part == "." || part == ".." {
                return wrong("is absolute, has an empty part, `.` or `..`");
            }
            if part.len() > LONGEST_PART {
                return wrong(&format!("has a part longer than {LONGEST_PART} bytes"));
            }
            if part.eq_ignore_ascii_case(".git") {
                return wrong("has a part `.git`");
            }
        }
        Ok(Self(text.to_owned()))
    }
}

impl TryFrom<String> for FilePath {
    type Error = BadName;

    fn try_from(text: String) -> Result<Self, BadName> {
        text.parse()
    }
}

impl From<FilePath> for String {
    fn from(path: FilePath) -> Self {
        path.0
    }
}

/// The name of a branch or a tag: `main`, `v1`, `fix/rows`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RefName(String);

impl RefName {
    /// The branch that every kernel has.
    pub fn main() -> Self {
        Self("main".to_owned())
    }

    /// The name as it was written.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The major version of the kernel that a branch `v<N>` holds.
    pub fn version(&self) -> Option<u64> {
        let digits = self.0.strip_prefix('v')?;
        // `v01` is a name like any other: there is one branch for each version.
        digits.parse().ok().filter(|version: &u64| version.to_string() == digits)
    }

    /// As one part of a path: `/` is written `%2F`.
    pub fn file_name(&self) -> String {
        self.0.replace('/', "%2F")
    }

    /// Back from [`Self::file_name`]; nothing for any other file.
    pub fn of_file_name(text: &str) -> Option<Self> {
        text.replace("%2F", "/").parse().ok()
    }
}

impl fmt::Display for RefName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for RefName {
    type Err = BadName;

    /// As git has it (git-check-ref-format), and narrower: letters, digits, `-`, `_`, `.` and `/`.
    fn from_str(text: &str) -> Result<Self, BadName> {
        let fine = text.len() <= LONGEST_REF
            && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_./".contains(&byte))
            && !text.contains("..")
            && text.split('/').all(|part| {
                !part.is_empty()
                    && !part.starts_with(['.', '-'])
                    && !part.ends_with('.')
                    && !part.ends_with(".lock")
            })
            && !text.starts_with("refs/")
            && text.parse::<CommitId>().is_err();
        if fine {
            Ok(Self(text.to_owned()))
        } else {
            Err(BadName(format!("{} is not a valid name of a branch or tag", shown(text))))
        }
    }
}

/// A commit: 40 lower-case hexadecimal digits, as clients expect of git.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct CommitId(String);

impl CommitId {
    /// The digits.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for CommitId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for CommitId {
    type Err = BadName;

    fn from_str(text: &str) -> Result<Self, BadName> {
        if is_hex(text, 40) {
            Ok(Self(text.to_owned()))
        } else {
            Err(BadName(format!("{} is not a valid commit id", shown(text))))
        }
    }
}

impl TryFrom<String> for CommitId {
    type Error = BadName;

    fn try_from(text: String) -> Result<Self, BadName> {
        text.parse()
    }
}

impl From<CommitId> for String {
    fn from(id: CommitId) -> Self {
        id.0
    }
}

/// A SHA-256 digest: 64 lower-case hexadecimal digits.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Sha256(String);

impl Sha256 {
    /// Of 32 bytes.
    pub fn of_bytes(bytes: &[u8]) -> Self {
        Self(hex(bytes))
    }

    /// The digits.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Sha256 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for Sha256 {
    type Err = BadName;

    fn from_str(text: &str) -> Result<Self, BadName> {
        if is_hex(text, 64) {
            Ok(Self(text.to_owned()))
        } else {
            Err(BadName(format!("{} is not a valid SHA-256 digest", shown(text))))
        }
    }
}

impl TryFrom<String> for Sha256 {
    type Error = BadName;

    fn try_from(text: String) -> Result<Self, BadName> {
        text.parse()
    }
}

impl From<Sha256> for String {
    fn from(digest: Sha256) -> Self {
        digest.0
    }
}

/// The revision of a request: a commit, a branch or a tag.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Revision {
    /// This commit.
    Commit(CommitId),
    /// A branch, or else a tag, of this name.
    Named(RefName),
    /// `refs/heads/NAME`.
    Branch(RefName),
    /// `refs/tags/NAME`.
    Tag(RefName),
}

impl FromStr for Revision {
    type Err = BadName;

    fn from_str(text: &str) -> Result<Self, BadName> {
        if let Ok(id) = text.parse() {
            return Ok(Self::Commit(id));
        }
        if let Some(name) = text.strip_prefix("refs/heads/") {
            return name.parse().map(Self::Branch);
        }
        if let Some(name) = text.strip_prefix("refs/tags/") {
            return name.parse().map(Self::Tag);
        }
        text.parse().map(Self::Named)
    }
}

/// Lower-case hexadecimal digits.
pub fn hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    bytes
        .iter()
        .flat_map(|byte| [byte >> 4, byte & 15])
        .map(|digit| char::from(DIGITS[usize::from(digit)]))
        .collect()
}

fn is_hex(text: &str, length: usize) -> bool {
    text.len() == length && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

/// A text of a client, shortened and without control characters.
pub fn shown(text: &str) -> String {
    let mut short: String = text.chars().take(64).flat_map(char::escape_default).collect();
    if text.chars().nth(64).is_some() {
        short.push_str("...");
    }
    format!("`{short}`")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_words_of_one_part() {
        for good in ["me/fast-norm", "a/b", "Org_1/x.y", "0/9"] {
            assert_eq!(good.parse::<RepoId>().unwrap().to_string(), good);
        }
        let long = format!("me/{}", "x".repeat(97));
        let bad = [
            "me", "/x", "me/", "../x", "me/..", "me/.x", "me/x/y", "me/x y", "me/x\0", "api/x", "me/x.git",
            "me/-x", "me\\x/y", "me/x--y", "mé/x", &long,
        ];
        for bad in bad {
            assert!(bad.parse::<RepoId>().is_err(), "{bad}");
        }
    }

    #[test]
    fn paths_stay_below_their_kernel() {
        for good in ["README.md", "build/torch-cpu/__init__.py", "a b/ü.txt", "...", "a/..b"] {
            assert_eq!(good.parse::<FilePath>().unwrap().as_str(), good);
        }
        let long = "x/".repeat(600) + "x";
        let wide = "x".repeat(256);
        let bad = [
            "",
            "/etc/passwd",
            "..",
            "a/../b",
            "a/..",
            "./a",
            "a//b",
            "a/",
            "a\\b",
            "a\0b",
            "a\nb",
            "a/.git/b",
            ".GIT",
            "\u{85}x",
            &long,
            &wide,
        ];
        for bad in bad {
            assert!(bad.parse::<FilePath>().is_err(), "{bad:?}");
        }
        let path: FilePath = "build/a/x.py".parse().unwrap();
        assert!(
            path.is_below("build")
                && path.is_below("")
                && !path.is_below("buil")
                && !path.is_below("build/a/x.py")
        );
    }

    #[test]
    fn refs_are_gits_and_survive_the_disk() {
        for good in ["main", "v1", "fix/rows", "v1.2_x-y"] {
            let name: RefName = good.parse().unwrap();
            assert_eq!(RefName::of_file_name(&name.file_name()), Some(name));
        }
        let commit = "a".repeat(40);
        for bad in
            ["", "a..b", "/a", "a/", ".a", "-a", "a.lock", "a b", "a%2Fb", "refs/x", "a:b", "a\n", &commit]
        {
            assert!(bad.parse::<RefName>().is_err(), "{bad:?}");
        }
        let version = |text: &str| text.parse::<RefName>().unwrap().version();
        assert_eq!(
            (version("v12"), version("v0"), version("v"), version("vx"), version("v1.0"), version("v01")),
            (Some(12), Some(0), None, None, None, None)
        );
    }

    #[test]
    fn a_revision_is_read_as_clients_write_it() {
        let revision = |text: &str| text.parse::<Revision>();
        assert!(matches!(revision(&"0a".repeat(20)), Ok(Revision::Commit(_))));
        assert!(matches!(revision("refs/heads/v1"), Ok(Revision::Branch(_))));
        assert!(matches!(revision("refs/tags/v1.0"), Ok(Revision::Tag(_))));
        assert!(matches!(revision("v1"), Ok(Revision::Named(_))));
        assert!(revision("refs/pr/1").is_err() && revision("../x").is_err());
    }

    #[test]
    fn what_is_shown_harms_no_terminal() {
        assert_eq!(shown("a\u{1b}[31m\n"), "`a\\u{1b}[31m\\n`");
        assert!(shown(&"x".repeat(5000)).len() < 80);
    }
}
