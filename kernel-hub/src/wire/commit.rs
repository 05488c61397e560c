//! The body of a commit: one JSON object a line, `{"key": ..., "value": {...}}`, the first of them the header.
//!
//! Owns: the form that huggingface_hub sends (`_prepare_commit_payload`), and its limits.
//! Never: looks whether a file is there; that is the store's.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::name::{BadName, CommitId, FilePath, Sha256, shown};

/// The longest title or description that is kept.
const LONGEST_TEXT: usize = 64 * 1024;

/// How much a commit may bring.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Lines with a file in them.
    pub operations: usize,
    /// Bytes of one file within the body; larger ones go by LFS.
    pub inline: u64,
}

/// A commit as it was asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Commit {
    /// The first line of its message.
    pub summary: String,
    /// The rest.
    pub description: String,
    /// The commit that it must come after, or its first digits.
    pub parent: Option<String>,
    /// What changes, in this order.
    pub operations: Vec<Operation>,
}

/// One change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Operation {
    /// A file whose content is in the body.
    Put {
        /// Where.
        path: FilePath,
        /// What.
        content: Vec<u8>,
    },
    /// A file that was sent before, by LFS.
    Link {
        /// Where.
        path: FilePath,
        /// What: the digest of its content.
        digest: Sha256,
        /// Its size, where the client says it: a copy does not.
        size: Option<u64>,
    },
    /// A file goes.
    Delete(FilePath),
    /// A folder goes, with all that is in it.
    DeleteFolder(FilePath),
}

/// Why a body is no commit.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum WireError {
    /// A line is not what it should be.
    #[error("line {line} of the commit: {what}")]
    Line {
        /// From 1.
        line: usize,
        /// What is wrong.
        what: String,
    },
    /// There is no header.
    #[error(
        "the commit has no header: the first line must be {{\"key\": \"header\", \"value\": {{\"summary\": ...}}}}"
    )]
    NoHeader,
    /// Nothing changes.
    #[error("the commit changes nothing: it has no line but its header")]
    Empty,
    /// More changes than are taken.
    #[error("the commit has more than {0} files; send several")]
    TooMany(usize),
}

/// The value stays text until it is known what it has to be: as a tree of values it may take thirty times its size.
#[derive(Deserialize)]
struct Line<'a> {
    key: String,
    #[serde(borrow)]
    value: &'a RawValue,
}

#[derive(Deserialize)]
struct Header {
    summary: String,
    #[serde(default)]
    description: Option<String>,
    #[serde(default, rename = "parentCommit")]
    parent: Option<String>,
}

#[derive(Deserialize)]
struct File {
    path: String,
    content: String,
    #[serde(default)]
    encoding: Option<String>,
}

#[derive(Deserialize)]
struct LfsFile {
    path: String,
    oid: String,
    #[serde(default)]
    algo: Option<String>,
    #[serde(default)]
    size: Option<u64>,
}

#[derive(Deserialize)]
struct Deleted {
    path: String,
}

/// Reads a body.
///
/// # Errors
/// The first thing in it that is wrong.
pub fn parse(body: &[u8], limits: &Limits) -> Result<Commit, WireError> {
    let mut commit: Option<Commit> = None;
    for (index, text) in body.split(|byte| *byte == b'\n').enumerate() {
        if text.trim_ascii().is_empty() {
            continue;
        }
        let at = |what: String| WireError::Line { line: index + 1, what };
        let line: Line<'_> =
            serde_json::from_slice(text).map_err(|error| at(format!("is no such object: {error}")))?;
        match (&mut commit, line.key.as_str()) {
            (None, "header") => commit = Some(header(line.value).map_err(at)?),
            (None, _) => return Err(WireError::NoHeader),
            (Some(_), "header") => return Err(at("is a second header".to_owned())),
            (Some(commit), key) => {
                if commit.operations.len() == limits.operations {
                    return Err(WireError::TooMany(limits.operations));
                }
                commit.operations.push(operation(key, line.value, limits).map_err(at)?);
            }
        }
    }
    let commit = commit.ok_or(WireError::NoHeader)?;
    if commit.operations.is_empty() { Err(WireError::Empty) } else { Ok(commit) }
}

fn header(value: &RawValue) -> Result<Commit, String> {
    let header: Header = read(value)?;
    let description = header.description.unwrap_or_default();
    if header.summary.trim().is_empty() {
        return Err("the summary is empty".to_owned());
    }
    if header.summary.len() > LONGEST_TEXT || description.len() > LONGEST_TEXT {
        return Err(format!("the message is longer than {LONGEST_TEXT} bytes"));
    }
    if let Some(parent) = &header.parent
        && !(parent.len() >= 5 && parent.len() <= 40 && parent.bytes().all(|byte| byte.is_ascii_hexdigit()))
    {
        return Err(format!("parentCommit {} is no commit", shown(parent)));
    }
    let parent = header.parent.map(|parent| parent.to_ascii_lowercase());
    Ok(Commit { summary: header.summary, description, parent, operations: Vec::new() })
}

fn operation(key: &str, value: &RawValue, limits: &Limits) -> Result<Operation, String> {
    match key {
        "file" => {
            let file: File = read(value)?;
            let path = path(&file.path)?;
            let content = match file.encoding.as_deref() {
                Some("base64") => STANDARD.decode(file.content.as_bytes()).map_err(|error| {
                    format!("the content of {} is no base64: {error}", shown(path.as_str()))
                })?,
                None | Some("utf-8") => file.content.into_bytes(),
                Some(other) => {
                    return Err(format!("the encoding {} is not known; there is base64", shown(other)));
                }
            };
            if content.len() as u64 > limits.inline {
                let (size, most) = (content.len(), limits.inline);
                return Err(format!("{} has {size} bytes; more than {most} go by LFS", shown(path.as_str())));
            }
            Ok(Operation::Put { path, content })
        }
        "lfsFile" => {
            let file: LfsFile = read(value)?;
            if file.algo.as_deref().is_some_and(|algo| algo != "sha256") {
                return Err("the algorithm is not sha256".to_owned());
            }
            let digest = file.oid.parse().map_err(|error: BadName| error.to_string())?;
            Ok(Operation::Link { path: path(&file.path)?, digest, size: file.size })
        }
        "deletedFile" => Ok(Operation::Delete(path(&read::<Deleted>(value)?.path)?)),
        "deletedFolder" => {
            // Clients end a folder with a slash.
            let folder = read::<Deleted>(value)?.path;
            Ok(Operation::DeleteFolder(path(folder.strip_suffix('/').unwrap_or(&folder))?))
        }
        other => Err(format!(
            "the key {} is not known; there are file, lfsFile, deletedFile and deletedFolder",
            shown(other)
        )),
    }
}

fn read<T: for<'de> Deserialize<'de>>(value: &RawValue) -> Result<T, String> {
    serde_json::from_str(value.get()).map_err(|error| format!("the value is not understood: {error}"))
}

fn path(text: &str) -> Result<FilePath, String> {
    text.parse().map_err(|error: BadName| error.to_string())
}

/// Whether `parent`, a commit or its first digits, is this one.
pub fn is_parent(parent: &str, head: &CommitId) -> bool {
    head.as_str().starts_with(parent)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const LIMITS: Limits = Limits { operations: 3, inline: 8 };
    const HEADER: &str = "{\"key\":\"header\",\"value\":{\"summary\":\"s\",\"description\":\"\"}}";

    fn parsed(lines: &[&str]) -> Result<Commit, WireError> {
        parse(lines.join("\n").as_bytes(), &LIMITS)
    }

    #[track_caller]
    fn refused(line: &str, words: &str) {
        let told = parsed(&[HEADER, line]).expect_err("a refusal").to_string();
        assert!(told.contains(words) && told.contains("line 2"), "{told}");
    }

    #[test]
    fn what_clients_send_is_read() {
        let digest = "ab".repeat(32);
        let commit = parsed(&[
            "{\"key\":\"header\",\"value\":{\"summary\":\"s\",\"description\":\"d\",\"parentCommit\":\"ABCDEF0\"}}",
            "{\"key\":\"file\",\"value\":{\"content\":\"aGk=\",\"path\":\"a/b.py\",\"encoding\":\"base64\"}}",
            &format!("{{\"key\":\"lfsFile\",\"value\":{{\"path\":\"x.so\",\"algo\":\"sha256\",\"oid\":\"{digest}\",\"size\":5}}}}"),
            "{\"key\":\"deletedFolder\",\"value\":{\"path\":\"old/\"}}",
            "",
        ])
        .unwrap();
        assert_eq!(commit.parent.as_deref(), Some("abcdef0"));
        let path = |text: &str| text.parse::<FilePath>().unwrap();
        assert_eq!(
            commit.operations,
            [
                Operation::Put { path: path("a/b.py"), content: b"hi".to_vec() },
                Operation::Link { path: path("x.so"), digest: digest.parse().unwrap(), size: Some(5) },
                Operation::DeleteFolder(path("old")),
            ]
        );
    }

    #[test]
    fn what_is_wrong_is_told_with_its_line() {
        let file = |path: &str, content: &str| {
            serde_json::json!({"key": "file", "value": {"path": path, "content": content, "encoding": "base64"}}).to_string()
        };
        refused(&file("../x", "aGk="), "`..`");
        refused(&file("/etc/passwd", "aGk="), "absolute");
        refused(&file("x", "a"), "base64");
        refused(&file("x", "MTIzNDU2Nzg5"), "by LFS");
        refused("{\"key\":\"file\"}", "value");
        refused("[]", "object");
        refused("{\"key\":\"file\",\"value\":{\"path\":3}}", "a string");
        refused("{\"key\":\"exec\",\"value\":{}}", "`exec`");
        refused(HEADER, "second header");
        refused("{\"key\":\"lfsFile\",\"value\":{\"path\":\"x\",\"oid\":\"ABC\"}}", "SHA-256");
        refused("{\"key\":\"lfsFile\",\"value\":{\"path\":\"x\",\"algo\":\"md5\",\"oid\":\"00\"}}", "sha256");
        refused("\u{0}", "object");
        let gone = "{\"key\":\"deletedFile\",\"value\":{\"path\":\"a\"}}";
        assert_eq!(parsed(&[HEADER, gone, gone, gone, gone]), Err(WireError::TooMany(3)));
        assert_eq!(parsed(&[gone]), Err(WireError::NoHeader));
        assert_eq!(parsed(&[]), Err(WireError::NoHeader));
        assert_eq!(parsed(&[HEADER]), Err(WireError::Empty));
        let bad = "{\"key\":\"header\",\"value\":{\"summary\":\"s\",\"parentCommit\":\"../../x\"}}";
        assert!(parsed(&[bad, gone]).unwrap_err().to_string().contains("no commit"));
    }

    proptest! {
        #[test]
        fn any_bytes_are_answered(body in proptest::collection::vec(any::<u8>(), 0..400)) {
            let _either = parse(&body, &LIMITS);
        }

        #[test]
        fn damage_to_a_good_body_never_lets_a_bad_path_in(at in 0_usize..300, byte in any::<u8>()) {
            let good = serde_json::json!({"key": "file", "value": {"path": "a/b", "content": "aGk=", "encoding": "base64"}});
            let mut body = format!("{HEADER}\n{good}\n").into_bytes();
            let at = at % body.len();
            body[at] = byte;
            if let Ok(commit) = parse(&body, &LIMITS) {
                for operation in commit.operations {
                    if let Operation::Put { path, content } = operation {
                        prop_assert!(!path.as_str().contains("..") && !path.as_str().starts_with('/'));
                        prop_assert!(content.len() <= 8);
                    }
                }
            }
        }
    }
}
