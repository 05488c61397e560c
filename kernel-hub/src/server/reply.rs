//! Answers before they are sent, and refusals in the words that the client looks for.
//!
//! Owns: status, headers, `X-Error-Code` and `X-Error-Message` (huggingface_hub, `hf_raise_for_status`).
//! Never: says more of an inner error than that there was one.

use hyper::StatusCode;
use hyper::body::Bytes;
use hyper::header::{CONTENT_TYPE, HeaderName, HeaderValue, LOCATION, WWW_AUTHENTICATE};
use serde_json::{Value, json};

use crate::causes::chain;
use crate::name::{BadName, CommitId, FilePath};
use crate::store::StoreError;
use crate::wire::commit::WireError;
use crate::wire::route::BadRoute;

use super::body::Content;
use super::log;

/// The commit that an answer is about.
pub(super) const REPO_COMMIT: HeaderName = HeaderName::from_static("x-repo-commit");

/// An answer.
#[derive(Debug)]
pub(super) struct Reply {
    /// Its status.
    pub(super) status: StatusCode,
    /// Its headers, but those of its length.
    pub(super) headers: Vec<(HeaderName, HeaderValue)>,
    /// Its content.
    pub(super) content: Content,
}

impl Reply {
    /// A text of some type.
    pub(super) fn text(status: StatusCode, kind: &'static str, text: impl Into<Bytes>) -> Self {
        let headers = vec![(CONTENT_TYPE, HeaderValue::from_static(kind))];
        Self { status, headers, content: Content::Text(text.into()) }
    }

    /// A value.
    pub(super) fn json(value: &Value) -> Self {
        Self::text(StatusCode::OK, "application/json; charset=utf-8", value.to_string())
    }

    /// With one header more; one whose value cannot be in a header is left out.
    pub(super) fn with(mut self, name: HeaderName, value: &str) -> Self {
        self.headers.extend(HeaderValue::from_str(value).ok().map(|value| (name, value)));
        self
    }
}

/// An answer that is not what was asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Refusal {
    status: StatusCode,
    code: Option<&'static str>,
    message: String,
    commit: Option<CommitId>,
    url: Option<String>,
}

impl Refusal {
    /// Of this status, for this reason.
    pub(super) fn new(status: StatusCode, message: impl Into<String>) -> Self {
        Self { status, code: None, message: message.into(), commit: None, url: None }
    }

    /// A request that makes no sense.
    pub(super) fn bad(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, message)
    }

    /// With where the thing is, when it is there already; `create_repo(exist_ok=True)` reads it.
    pub(super) fn at(mut self, url: String) -> Self {
        self.url = (self.status == StatusCode::CONFLICT).then_some(url);
        self
    }

    /// The answer.
    pub(super) fn reply(&self) -> Reply {
        let mut body = json!({ "error": self.message });
        if let Some(url) = &self.url {
            body["url"] = url.as_str().into();
        }
        let mut reply = Reply::text(self.status, "application/json; charset=utf-8", body.to_string());
        // A header takes no line ends and no letters beyond ASCII.
        let line: String =
            self.message.chars().map(|c| if (' '..='~').contains(&c) { c } else { '?' }).collect();
        reply = reply.with(HeaderName::from_static("x-error-message"), &line);
        if let Some(code) = self.code {
            reply = reply.with(HeaderName::from_static("x-error-code"), code);
        }
        if let Some(commit) = &self.commit {
            reply = reply.with(REPO_COMMIT, commit.as_str());
        }
        if let (StatusCode::TEMPORARY_REDIRECT, Some(url)) = (self.status, &self.url) {
            reply = reply.with(LOCATION, url);
        }
        if self.status == StatusCode::UNAUTHORIZED {
            reply = reply.with(WWW_AUTHENTICATE, "Bearer");
        }
        reply
    }

    /// The content of a file cannot be sent.
    pub(super) fn of_content(error: StoreError, path: &FilePath) -> Self {
        if matches!(error, StoreError::Damaged { .. }) {
            log::say(&chain(&error));
            let what = format!("the hub's copy of `{path}` is damaged (see its log); upload the file again");
            return Self::new(StatusCode::INTERNAL_SERVER_ERROR, what);
        }
        error.into()
    }

    /// The kernel is at another address: its name there has the case that it was made with.
    pub(super) fn moved(location: String) -> Self {
        let mut refusal = Self::new(StatusCode::TEMPORARY_REDIRECT, format!("the kernel is at {location}"));
        refusal.url = Some(location);
        refusal
    }

    /// Something failed that the client can do nothing about.
    pub(super) fn inner(what: &str) -> Self {
        log::say(what);
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, "internal error of the hub; see its log")
    }
}

impl From<StoreError> for Refusal {
    fn from(error: StoreError) -> Self {
        let refusal =
            |status, code, commit| Self { status, code, message: error.to_string(), commit, url: None };
        match &error {
            StoreError::NoRepo(_) => refusal(StatusCode::NOT_FOUND, Some("RepoNotFound"), None),
            StoreError::NoRevision { .. } => refusal(StatusCode::NOT_FOUND, Some("RevisionNotFound"), None),
            StoreError::NoEntry { commit, .. } => {
                refusal(StatusCode::NOT_FOUND, Some("EntryNotFound"), commit.clone())
            }
            StoreError::Exists(_) => refusal(StatusCode::CONFLICT, None, None),
            StoreError::Moved { .. } => refusal(StatusCode::PRECONDITION_FAILED, None, None),
            StoreError::Name(_) | StoreError::Xet(_) | StoreError::Refused(_) => {
                refusal(StatusCode::BAD_REQUEST, None, None)
            }
            StoreError::Disk(disk) if disk.is_full() => {
                log::say(&error.to_string());
                Self::new(StatusCode::INSUFFICIENT_STORAGE, "the hub's disk is full; nothing was changed")
            }
            StoreError::Disk(_) | StoreError::Damaged { .. } | StoreError::Unreadable { .. } => {
                Self::inner(&chain(&error))
            }
        }
    }
}

impl From<WireError> for Refusal {
    fn from(error: WireError) -> Self {
        let status = match error {
            WireError::TooMany(_) => StatusCode::PAYLOAD_TOO_LARGE,
            WireError::Io(_) => return Self::inner(&error.to_string()),
            _ => StatusCode::BAD_REQUEST,
        };
        Self::new(status, error.to_string())
    }
}

impl From<BadName> for Refusal {
    fn from(error: BadName) -> Self {
        Self::bad(error.to_string())
    }
}

impl From<BadRoute> for Refusal {
    fn from(error: BadRoute) -> Self {
        let status = match &error {
            BadRoute::Unknown | BadRoute::OtherType | BadRoute::Revision(_) => StatusCode::NOT_FOUND,
            BadRoute::Method => StatusCode::METHOD_NOT_ALLOWED,
            BadRoute::Name(_) | BadRoute::Malformed(_) | BadRoute::Review => StatusCode::BAD_REQUEST,
        };
        // `publish --create-pr` asks before it sends anything, and knows the answer by this code.
        let code = match &error {
            BadRoute::Review => Some("PullRequestsNotSupported"),
            BadRoute::Revision(_) => Some("RevisionNotFound"),
            _ => None,
        };
        Self { code, ..Self::new(status, error.to_string()) }
    }
}

#[cfg(test)]
mod tests {
    use crate::store::disk::DiskError;

    use super::*;

    #[test]
    fn a_full_disk_is_told_from_a_broken_one() {
        let refusal = |kind: std::io::ErrorKind| {
            let error = DiskError { path: "blobs".into(), error: kind.into() };
            Refusal::from(StoreError::from(error))
        };
        let full = refusal(std::io::ErrorKind::StorageFull);
        assert_eq!((full.status.as_u16(), full.message.contains("disk is full")), (507, true));
        assert_eq!(refusal(std::io::ErrorKind::QuotaExceeded).status.as_u16(), 507);
        let broken = refusal(std::io::ErrorKind::PermissionDenied);
        assert_eq!((broken.status.as_u16(), broken.message.contains("blobs")), (500, false));
    }
}
