//! The body of a commit: one JSON object a line, `{"key": ..., "value": {...}}`, the first of them the header.
//!
//! Owns: the form that huggingface_hub sends (`_prepare_commit_payload`), and its limits.
//! Never: looks whether a file is there; that is the store's. Holds a long content in memory; it stays in the body.

use std::fmt;
use std::io::{self, BufRead, Read, Seek};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::de::{Deserialize, Deserializer, Visitor};
use serde_json::value::RawValue;

use crate::name::{BadName, CommitId, FilePath, Sha256, shown};

use super::lines::{Lines, Span};

/// The longest title or description that is kept.
const LONGEST_TEXT: usize = 64 * 1024;

/// The limits of a commit.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Lines with a file in them.
    pub operations: usize,
    /// Bytes of one file within the body; larger ones go by LFS.
    pub inline: u64,
}

/// A commit, as a request describes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Commit {
    /// The first line of its message.
    pub summary: String,
    /// The rest.
    pub description: String,
    /// The commit that it must come after, or its first digits.
    pub parent: Option<String>,
    /// The changes, in this order.
    pub operations: Vec<Operation>,
}

/// One change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Operation {
    /// A file whose content is in the body.
    Put {
        /// Path of the file.
        path: FilePath,
        /// Its content.
        content: Content,
    },
    /// A file that was sent before, by LFS.
    Link {
        /// Path of the file.
        path: FilePath,
        /// The digest of its content.
        digest: Sha256,
        /// Its size, where the client says it: a copy does not.
        size: Option<u64>,
    },
    /// A file goes.
    Delete(FilePath),
    /// A folder goes, with all that is in it.
    DeleteFolder(FilePath),
}

/// The content of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Content {
    /// A short one.
    Bytes(Vec<u8>),
    /// Base64, in the body.
    Base64(Span),
    /// Text, in the body, as JSON writes it.
    Text(Span),
}

/// Why a body is not a valid commit.
#[derive(Debug, thiserror::Error)]
pub enum WireError {
    /// A line is not what it should be.
    #[error("line {line} of the commit: {problem}")]
    Line {
        /// From 1.
        line: usize,
        /// The reason.
        #[source]
        problem: LineError,
    },
    /// The header is missing.
    #[error(
        "the commit has no header: the first line must be {{\"key\": \"header\", \"value\": {{\"summary\": ...}}}}"
    )]
    NoHeader,
    /// Nothing changes.
    #[error("the commit is empty: it contains only its header")]
    Empty,
    /// More changes than are taken.
    #[error("the commit has more than {0} files; split it into several commits")]
    TooMany(usize),
    /// The body cannot be read.
    #[error("failed to read the body of the commit: {0}")]
    Io(#[from] io::Error),
}

/// Why a line of a commit is not what it should be, as the end of a sentence.
#[derive(Debug, thiserror::Error)]
pub enum LineError {
    /// Without its content it is longer than a line may be.
    #[error("the line is too long, even without its content")]
    TooLong,
    /// It is not an object with a key and a value.
    #[error("not an object with `key` and `value`: {0}")]
    Object(#[source] serde_json::Error),
    /// There is one already.
    #[error("a second header is not allowed")]
    SecondHeader,
    /// The value does not fit its key.
    #[error("the value is not valid: {0}")]
    Value(#[source] serde_json::Error),
    /// A text that stands in no place of the body.
    #[error("the value is not valid: not a string")]
    NoText,
    /// A text of the body that is not JSON.
    #[error("{what} is not valid: {cause}")]
    Text {
        /// Which text.
        what: &'static str,
        /// The reason.
        #[source]
        cause: io::Error,
    },
    /// A text that is too long.
    #[error("{what} is longer than {most} bytes")]
    LongText {
        /// Which text.
        what: &'static str,
        /// The largest number of bytes.
        most: usize,
    },
    /// A path or a digest that is not valid.
    #[error(transparent)]
    Name(#[from] BadName),
    /// A commit needs a summary.
    #[error("the summary is empty")]
    NoSummary,
    /// The parent cannot be a commit.
    #[error("parentCommit {0} is not a valid commit id")]
    Parent(String),
    /// LFS has one algorithm.
    #[error("the algorithm is not supported; use sha256")]
    Algorithm,
    /// Something else than a change of a file or a folder.
    #[error("unknown key {0}; use file, lfsFile, deletedFile or deletedFolder")]
    Key(String),
    /// A content that is not what its encoding says.
    #[error("the content of {name} is not valid base64: {cause}")]
    Base64 {
        /// The name of the file.
        name: String,
        /// The reason.
        #[source]
        cause: base64::DecodeError,
    },
    /// Another encoding.
    #[error("the encoding {0} is not supported; use base64")]
    Encoding(String),
    /// A file that is too large for a commit's body.
    #[error("{name} has {size} bytes; upload files over {most} bytes by LFS")]
    TooLarge {
        /// Which file.
        name: String,
        /// Its size.
        size: u64,
        /// The largest size that a commit takes.
        most: u64,
    },
}

/// The value stays text until it is known what it has to be: as a tree of values it may take thirty times its size.
#[derive(serde::Deserialize)]
struct Line<'a> {
    key: String,
    #[serde(borrow)]
    value: &'a RawValue,
}

/// A text of the line, or the number of one that stays in the body.
enum Text {
    Here(String),
    There(usize),
}

impl<'de> Deserialize<'de> for Text {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Either;

        impl Visitor<'_> for Either {
            type Value = Text;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string")
            }

            fn visit_str<E>(self, text: &str) -> Result<Text, E> {
                Ok(Text::Here(text.to_owned()))
            }

            fn visit_string<E>(self, text: String) -> Result<Text, E> {
                Ok(Text::Here(text))
            }

            fn visit_u64<E>(self, number: u64) -> Result<Text, E> {
                Ok(Text::There(usize::try_from(number).unwrap_or(usize::MAX)))
            }
        }

        from.deserialize_any(Either)
    }
}

#[derive(serde::Deserialize)]
struct Header {
    summary: Text,
    #[serde(default)]
    description: Option<Text>,
    #[serde(default, rename = "parentCommit")]
    parent: Option<String>,
}

#[derive(serde::Deserialize)]
struct File {
    path: Text,
    content: Text,
    #[serde(default)]
    encoding: Option<String>,
}

#[derive(serde::Deserialize)]
struct LfsFile {
    path: Text,
    oid: String,
    #[serde(default)]
    algo: Option<String>,
    #[serde(default)]
    size: Option<u64>,
}

#[derive(serde::Deserialize)]
struct Deleted {
    path: Text,
}

/// Reads a body.
///
/// # Errors
/// The first thing in it that is wrong.
pub fn parse(mut body: impl BufRead + Seek, limits: &Limits) -> Result<Commit, WireError> {
    let mut commit: Option<Commit> = None;
    let mut lines = Lines::default();
    while let Some(spans) = lines.next(&mut body)? {
        let index = lines.number();
        let at = |problem: LineError| WireError::Line { line: index, problem };
        if lines.is_too_long() {
            return Err(at(LineError::TooLong));
        }
        if lines.text().trim_ascii().is_empty() {
            continue;
        }
        let line: Line<'_> =
            serde_json::from_slice(lines.text()).map_err(|error| at(LineError::Object(error)))?;
        let mut reader = Reader { body: &mut body, spans: &spans, limits };
        match (&mut commit, line.key.as_str()) {
            (None, "header") => commit = Some(reader.header(line.value).map_err(at)?),
            (None, _) => return Err(WireError::NoHeader),
            (Some(_), "header") => return Err(at(LineError::SecondHeader)),
            (Some(commit), key) => {
                if commit.operations.len() == limits.operations {
                    return Err(WireError::TooMany(limits.operations));
                }
                commit.operations.push(reader.operation(key, line.value).map_err(at)?);
            }
        }
    }
    let commit = commit.ok_or(WireError::NoHeader)?;
    if commit.operations.is_empty() { Err(WireError::Empty) } else { Ok(commit) }
}

/// Makes a value of a line.
struct Reader<'a, R> {
    body: &'a mut R,
    spans: &'a [Span],
    limits: &'a Limits,
}

impl<R: Read + Seek> Reader<'_, R> {
    fn span(&self, number: usize) -> Result<Span, LineError> {
        self.spans.get(number).copied().ok_or(LineError::NoText)
    }

    /// A text that may have `most` bytes.
    fn text(&mut self, text: Text, what: &'static str, most: usize) -> Result<String, LineError> {
        let too_long = || LineError::LongText { what, most };
        let text = match text {
            Text::Here(text) => text,
            Text::There(number) => {
                let span = self.span(number)?;
                // An escape has at most six bytes for one.
                if span.length > 6 * most as u64 {
                    return Err(too_long());
                }
                span.text(self.body).map_err(|cause| LineError::Text { what, cause })?
            }
        };
        if text.len() > most { Err(too_long()) } else { Ok(text) }
    }

    fn path(&mut self, text: Text) -> Result<FilePath, LineError> {
        let text = self.text(text, "the path", LONGEST_TEXT)?;
        Ok(text.parse()?)
    }

    fn header(&mut self, value: &RawValue) -> Result<Commit, LineError> {
        let header: Header = read(value)?;
        let summary = self.text(header.summary, "the summary", LONGEST_TEXT)?;
        let description = match header.description {
            Some(text) => self.text(text, "the description", LONGEST_TEXT)?,
            None => String::new(),
        };
        if summary.trim().is_empty() {
            return Err(LineError::NoSummary);
        }
        if let Some(parent) = &header.parent
            && !(parent.len() >= 5
                && parent.len() <= 40
                && parent.bytes().all(|byte| byte.is_ascii_hexdigit()))
        {
            return Err(LineError::Parent(shown(parent)));
        }
        let parent = header.parent.map(|parent| parent.to_ascii_lowercase());
        Ok(Commit { summary, description, parent, operations: Vec::new() })
    }

    fn operation(&mut self, key: &str, value: &RawValue) -> Result<Operation, LineError> {
        match key {
            "file" => self.file(read(value)?),
            "lfsFile" => {
                let file: LfsFile = read(value)?;
                if file.algo.as_deref().is_some_and(|algo| algo != "sha256") {
                    return Err(LineError::Algorithm);
                }
                let digest = file.oid.parse()?;
                Ok(Operation::Link { path: self.path(file.path)?, digest, size: file.size })
            }
            "deletedFile" => Ok(Operation::Delete(self.path(read::<Deleted>(value)?.path)?)),
            "deletedFolder" => {
                // Clients end a folder with a slash.
                let folder = self.text(read::<Deleted>(value)?.path, "the path", LONGEST_TEXT)?;
                let folder = folder.strip_suffix('/').unwrap_or(&folder);
                Ok(Operation::DeleteFolder(folder.parse()?))
            }
            other => Err(LineError::Key(shown(other))),
        }
    }

    fn file(&mut self, file: File) -> Result<Operation, LineError> {
        let path = self.path(file.path)?;
        let (content, size) = match (file.encoding.as_deref(), file.content) {
            (Some("base64"), Text::Here(text)) => {
                let bytes = STANDARD.decode(text.as_bytes());
                let bytes = bytes.map_err(|cause| LineError::Base64 { name: shown(path.as_str()), cause })?;
                let size = bytes.len() as u64;
                (Content::Bytes(bytes), size)
            }
            (Some("base64"), Text::There(number)) => {
                let span = self.span(number)?;
                (Content::Base64(span), (span.length / 4 * 3).saturating_sub(2))
            }
            (None | Some("utf-8"), Text::Here(text)) => {
                let size = text.len() as u64;
                (Content::Bytes(text.into_bytes()), size)
            }
            (None | Some("utf-8"), Text::There(number)) => {
                let span = self.span(number)?;
                (Content::Text(span), span.length / 6)
            }
            (Some(other), _) => {
                return Err(LineError::Encoding(shown(other)));
            }
        };
        let most = self.limits.inline;
        if size > most {
            return Err(LineError::TooLarge { name: shown(path.as_str()), size, most });
        }
        Ok(Operation::Put { path, content })
    }
}

fn read<T: for<'de> Deserialize<'de>>(value: &RawValue) -> Result<T, LineError> {
    serde_json::from_str(value.get()).map_err(LineError::Value)
}

/// Whether `parent`, a commit or its first digits, is this one.
pub fn is_parent(parent: &str, head: &CommitId) -> bool {
    head.as_str().starts_with(parent)
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use proptest::prelude::*;

    use super::*;

    const LIMITS: Limits = Limits { operations: 3, inline: 8 };
    const HEADER: &str = "{\"key\":\"header\",\"value\":{\"summary\":\"s\",\"description\":\"\"}}";

    fn parsed(lines: &[&str]) -> Result<Commit, WireError> {
        parse(Cursor::new(lines.join("\n")), &LIMITS)
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
                Operation::Put { path: path("a/b.py"), content: Content::Bytes(b"hi".to_vec()) },
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
        refused("{\"key\":\"file\",\"value\":{\"path\":[]}}", "a string");
        refused("{\"key\":\"exec\",\"value\":{}}", "`exec`");
        refused(HEADER, "second header");
        refused("{\"key\":\"lfsFile\",\"value\":{\"path\":\"x\",\"oid\":\"ABC\"}}", "SHA-256");
        refused("{\"key\":\"lfsFile\",\"value\":{\"path\":\"x\",\"algo\":\"md5\",\"oid\":\"00\"}}", "sha256");
        refused("\u{0}", "object");
        let gone = "{\"key\":\"deletedFile\",\"value\":{\"path\":\"a\"}}";
        assert!(matches!(parsed(&[HEADER, gone, gone, gone, gone]), Err(WireError::TooMany(3))));
        assert!(matches!(parsed(&[gone]), Err(WireError::NoHeader)));
        assert!(matches!(parsed(&[]), Err(WireError::NoHeader)));
        assert!(matches!(parsed(&[HEADER]), Err(WireError::Empty)));
        let bad = "{\"key\":\"header\",\"value\":{\"summary\":\"s\",\"parentCommit\":\"../../x\"}}";
        assert!(parsed(&[bad, gone]).unwrap_err().to_string().contains("not a valid commit id"));
    }

    #[test]
    fn long_contents_stay_in_the_body() {
        let limits = Limits { operations: 9, inline: 1 << 20 };
        let (long, text) = ("ab".repeat(30_000), "line\n\u{1F980}".repeat(900));
        let line = |content: &str, encoding: &str| {
            serde_json::json!({"key": "file", "value": {"content": content, "path": "a/b", "encoding": encoding}}).to_string()
        };
        let encoded = STANDARD.encode(&long);
        let body =
            [HEADER, &line(&encoded, "base64"), &line(&text, "utf-8"), &line(&long, "utf-8")].join("\n");
        let commit = parse(Cursor::new(&body), &limits).unwrap();
        let contents: Vec<&Content> = commit
            .operations
            .iter()
            .map(|operation| match operation {
                Operation::Put { content, .. } => content,
                other => panic!("{other:?}"),
            })
            .collect();
        let [Content::Base64(first), Content::Text(second), Content::Text(third)] = contents.as_slice()
        else {
            panic!("{contents:?}")
        };
        let mut body = Cursor::new(&body);
        assert_eq!(first.text(&mut body).unwrap(), encoded);
        assert_eq!(second.text(&mut body).unwrap(), text);
        assert!(second.escaped && !third.escaped && third.text(&mut body).unwrap() == long);
        // A header may be long, too; neither a number in place of a text nor a long key means anything.
        let header =
            serde_json::json!({"key": "header", "value": {"summary": "s", "description": text}}).to_string();
        let gone = "{\"key\":\"deletedFile\",\"value\":{\"path\":\"a\"}}";
        let commit = parse(Cursor::new([&header, gone].join("\n")), &limits).unwrap();
        assert_eq!(commit.description, text);
        refused("{\"key\":\"file\",\"value\":{\"path\":\"a\",\"content\":0}}", "not a string");
        refused(&format!("{{\"{long}\":1}}"), "object");
        refused(&"[".repeat(2 << 20), "too long");
    }

    proptest! {
        #[test]
        fn any_bytes_are_answered(body in proptest::collection::vec(any::<u8>(), 0..400)) {
            let _either = parse(Cursor::new(&body), &LIMITS);
        }

        #[test]
        fn damage_to_a_good_body_never_lets_a_bad_path_in(at in 0_usize..300, byte in any::<u8>()) {
            let good = serde_json::json!({"key": "file", "value": {"path": "a/b", "content": "aGk=", "encoding": "base64"}});
            let mut body = format!("{HEADER}\n{good}\n").into_bytes();
            let at = at % body.len();
            body[at] = byte;
            if let Ok(commit) = parse(Cursor::new(&body), &LIMITS) {
                for operation in commit.operations {
                    if let Operation::Put { path, content } = operation {
                        prop_assert!(!path.as_str().contains("..") && !path.as_str().starts_with('/'));
                        prop_assert!(matches!(content, Content::Bytes(bytes) if bytes.len() <= 8));
                    }
                }
            }
        }
    }
}
