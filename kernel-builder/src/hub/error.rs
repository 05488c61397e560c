//! Errors of requests to a hub, each with the next step.
//!
//! Owns: the codes `hub::...`, how an answer is read as one of them. Never: holds a token.

use miette::Diagnostic;
use serde_json::Value;
use thiserror::Error;

use crate::base::api::Answer;
use crate::base::files::FileError;
use crate::base::http::HttpError;
use crate::exit::{self, StageError};

use super::endpoint::DEFAULT;

/// A request to a hub that failed.
#[derive(Debug, Error, Diagnostic)]
pub enum HubError {
    /// A file here could not be read or written.
    #[error(transparent)]
    #[diagnostic(transparent)]
    File(#[from] FileError),
    /// Network access is disabled.
    #[error("failed to contact the hub: network access is disabled by {setting}")]
    #[diagnostic(
        code(hub::offline),
        help("remove or unset {setting}; `publish --to DIR` works without a network")
    )]
    Offline {
        /// The option or variable.
        setting: &'static str,
    },
    /// `HF_ENDPOINT` is not a valid URL.
    #[error("HF_ENDPOINT is not a valid URL: `{text}`")]
    #[diagnostic(code(hub::bad_endpoint), help("use https://HOST or http://HOST:PORT, or unset it"))]
    BadEndpoint {
        /// What it is.
        text: String,
    },
    /// The token cannot be sent.
    #[error("{from} is not a valid token: it has spaces or characters that an HTTP header cannot contain")]
    #[diagnostic(
        code(hub::bad_token),
        help("run `hf auth login` to store a valid one; HF_TOKEN takes precedence over the token file")
    )]
    BadToken {
        /// Where it is from.
        from: String,
    },
    /// A request that needs a token, without one.
    #[error("failed to {doing}: {endpoint} requires authentication, but no token was found")]
    #[diagnostic(
        code(hub::no_token),
        help(
            "set HF_TOKEN to a token with write access, or run `hf auth login`, which stores one in \
             huggingface_hub's token file"
        )
    )]
    NoToken {
        /// Completes "failed to".
        doing: String,
        /// The hub.
        endpoint: String,
    },
    /// 401.
    #[error("failed to {doing}: {endpoint} rejected the token ({message})")]
    #[diagnostic(
        code(hub::unauthorized),
        help(
            "the token may be revoked, expired or for another hub: create one with write access, then set \
             HF_TOKEN or run `hf auth login`"
        )
    )]
    Unauthorized {
        /// Completes "failed to".
        doing: String,
        /// The hub.
        endpoint: String,
        /// The message of its answer.
        message: String,
    },
    /// 403.
    #[error("failed to {doing}: {endpoint} denied access ({message})")]
    #[diagnostic(code(hub::forbidden), help("{help}"))]
    Forbidden {
        /// Completes "failed to".
        doing: String,
        /// The hub.
        endpoint: String,
        /// The message of its answer.
        message: String,
        /// What to do.
        help: String,
    },
    /// 404.
    #[error("failed to {doing}: not found on {endpoint} ({message})")]
    #[diagnostic(
        code(hub::not_found),
        help(
            "check owner, name and version; a private repository is visible only with a token that has \
             access to it"
        )
    )]
    NotFound {
        /// Completes "failed to".
        doing: String,
        /// The hub.
        endpoint: String,
        /// The message of its answer.
        message: String,
    },
    /// 409.
    #[error("failed to {doing}: conflict with the state of {endpoint} ({message})")]
    #[diagnostic(code(hub::conflict), help("check the page of the repository, then run this again"))]
    Conflict {
        /// Completes "failed to".
        doing: String,
        /// The hub.
        endpoint: String,
        /// The message of its answer.
        message: String,
    },
    /// 412, or the branch is not where it was.
    #[error("branch `{branch}` of `{repo}` was changed by another process during this run")]
    #[diagnostic(
        code(hub::moved),
        help(
            "no change was overwritten; run this again: it compares with the current state, and uploads no \
             file twice"
        )
    )]
    Moved {
        /// The repository.
        repo: String,
        /// The branch.
        branch: String,
    },
    /// 429, also after several tries.
    #[error("failed to {doing}: rate limited by {endpoint} (HTTP 429){wait}")]
    #[diagnostic(
        code(hub::busy),
        help("wait, then run this again: uploaded files are kept, and not sent again")
    )]
    Busy {
        /// Completes "failed to".
        doing: String,
        /// The hub.
        endpoint: String,
        /// The time after which the hub accepts requests again, if it sent one.
        wait: String,
    },
    /// 402, 413, 507, or words about storage.
    #[error("failed to {doing}: not enough storage on {endpoint} ({message})")]
    #[diagnostic(
        code(hub::full),
        help("free space in the account or organisation, publish fewer variants, or request a larger quota")
    )]
    Full {
        /// Completes "failed to".
        doing: String,
        /// The hub.
        endpoint: String,
        /// The message of its answer.
        message: String,
    },
    /// Any other 4xx.
    #[error("failed to {doing}: {endpoint} rejected the request: HTTP {status} ({message})")]
    #[diagnostic(
        code(hub::refused),
        help(
            "the reason is in parentheses; a hub without kernels, or with other rules, may reject what the \
             Hub accepts"
        )
    )]
    Refused {
        /// Completes "failed to".
        doing: String,
        /// The hub.
        endpoint: String,
        /// The status.
        status: u16,
        /// The message of its answer.
        message: String,
    },
    /// 5xx, again and again.
    #[error("failed to {doing}: server error of {endpoint}: HTTP {status} ({message})")]
    #[diagnostic(
        code(hub::broken),
        help("run this again later: uploaded files are kept, and not sent again")
    )]
    Broken {
        /// Completes "failed to".
        doing: String,
        /// The hub.
        endpoint: String,
        /// The status.
        status: u16,
        /// The message of its answer.
        message: String,
    },
    /// No answer.
    #[error("failed to reach {endpoint}")]
    #[diagnostic(
        code(hub::unreachable),
        help(
            "check the network, the proxy (HTTPS_PROXY) and HF_ENDPOINT, then run the same command to resume"
        )
    )]
    Unreachable {
        /// The hub.
        endpoint: String,
        /// What happened last.
        #[source]
        cause: HttpError,
    },
    /// An answer that is not valid.
    #[error("failed to {doing}: unexpected answer from {endpoint} ({problem})")]
    #[diagnostic(
        code(hub::malformed),
        help("check that HF_ENDPOINT is the address of a hub, and not of a login page or a proxy")
    )]
    Malformed {
        /// Completes "failed to".
        doing: String,
        /// The hub.
        endpoint: String,
        /// What is wrong with it, without the token: a text, since an error of the parser may quote the answer.
        problem: String,
    },
    /// The large file storage did not take a file.
    #[error("failed to upload `{path}`: {problem}")]
    #[diagnostic(code(hub::upload), help("run this again: uploaded files are kept, and not sent again"))]
    Upload {
        /// The path in the repository.
        path: String,
        /// Why.
        problem: String,
    },
    /// The hub accepts large files only by a transfer that this program does not support.
    #[error(
        "{endpoint} accepts large files only over `{transfer}`, but this program sends them over git-lfs"
    )]
    #[diagnostic(
        code(hub::transfer),
        help("publish to a folder (`--to DIR`), and upload it with the hub's own client: `hf upload`")
    )]
    Transfer {
        /// The hub.
        endpoint: String,
        /// The transfer that it chose.
        transfer: String,
    },
    /// Ctrl-C.
    #[error("interrupted")]
    #[diagnostic(code(base::interrupted), help("uploaded files are kept; run the same command to resume"))]
    Interrupted,
}

impl StageError for HubError {
    fn exit(&self) -> u8 {
        match self {
            Self::File(error) => error.exit(),
            Self::Interrupted => exit::INTERRUPTED,
            _ => exit::HUB,
        }
    }
}

impl HubError {
    /// The error of an unsuccessful answer: `message` is the text from the hub at `endpoint`, `doing` completes
    /// "failed to ...", and `has_token` says whether the request had a token.
    pub(super) fn from_answer(
        answer: &Answer,
        message: String,
        doing: &str,
        endpoint: &str,
        has_token: bool,
    ) -> Self {
        let (doing, endpoint) = (doing.to_owned(), endpoint.to_owned());
        let room = ["quota", "storage limit", "storage space", "too large"];
        let low = message.to_lowercase();
        match answer.status {
            401 if !has_token => Self::NoToken { doing, endpoint },
            401 => Self::Unauthorized { doing, endpoint, message },
            402 | 413 | 507 => Self::Full { doing, endpoint, message },
            403 if room.iter().any(|word| low.contains(word)) => Self::Full { doing, endpoint, message },
            403 => {
                let help = permission(&endpoint);
                Self::Forbidden { doing, endpoint, message, help }
            }
            404 | 410 => Self::NotFound { doing, endpoint, message },
            409 => Self::Conflict { doing, endpoint, message },
            429 => {
                let wait = answer.wait().map(|wait| format!("; retry after {} s", wait.as_secs()));
                Self::Busy { doing, endpoint, wait: wait.unwrap_or_default() }
            }
            status @ 500.. => Self::Broken { doing, endpoint, status, message },
            status => Self::Refused { doing, endpoint, status, message },
        }
    }
}

fn permission(endpoint: &str) -> String {
    let token = "the token needs write access to this owner's repositories (`hf auth whoami` shows its user)";
    if endpoint == DEFAULT {
        format!(
            "{token}; on the Hub, only approved users and organisations can publish kernels: request \
             approval there with \"Request Kernels Creation\". Without approval, `--create-pr` proposes the \
             change to another owner's repository"
        )
    } else {
        format!("{token}; ask the administrator of this hub, or propose the change with `--create-pr`")
    }
}

/// What the server said: in a header, as JSON, or as text.
pub(super) fn message(answer: &Answer) -> String {
    let told = answer.header("x-error-message").map(str::to_owned);
    let json: Option<Value> = serde_json::from_slice(&answer.body).ok();
    let field = |name: &str| json.as_ref().and_then(|json| json[name].as_str()).map(str::to_owned);
    let several = || {
        let list = json.as_ref()?["errors"].as_array()?;
        Some(list.iter().filter_map(|one| one["message"].as_str()).collect::<Vec<_>>().join("; "))
    };
    let text = || {
        let text = String::from_utf8_lossy(&answer.body).into_owned();
        // A page is for a browser.
        (!text.trim_start().starts_with('<')).then_some(text)
    };
    told.or_else(|| field("error"))
        .or_else(|| field("message"))
        .or_else(several)
        .or_else(text)
        .filter(|text| !text.trim().is_empty())
        .or_else(|| answer.header("x-error-code").map(str::to_owned))
        .unwrap_or_else(|| format!("status {}, no reason given", answer.status))
}
