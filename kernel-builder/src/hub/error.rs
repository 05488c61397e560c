//! What a hub's refusals mean, and what to do about each.
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

/// Why a hub could not be asked, or said no.
#[derive(Debug, Error, Diagnostic)]
pub enum HubError {
    /// A file here could not be read or written.
    #[error(transparent)]
    #[diagnostic(transparent)]
    File(#[from] FileError),
    /// Nothing may be asked.
    #[error("a hub cannot be asked: {setting} keeps this program off the network")]
    #[diagnostic(code(hub::offline), help("leave out {setting}; `publish --to DIR` needs no network"))]
    Offline {
        /// The option or variable.
        setting: &'static str,
    },
    /// `HF_ENDPOINT` is no address.
    #[error("HF_ENDPOINT is `{text}`, which is no address of a hub")]
    #[diagnostic(code(hub::bad_endpoint), help("write it as https://HOST or http://HOST:PORT, or unset it"))]
    BadEndpoint {
        /// What it is.
        text: String,
    },
    /// The token cannot be sent.
    #[error("{from} holds something that is no token: it has spaces or letters that a header cannot hold")]
    #[diagnostic(
        code(hub::bad_token),
        help("`hf auth login` writes a good one; HF_TOKEN is asked before the file")
    )]
    BadToken {
        /// Where it is from.
        from: String,
    },
    /// Nobody said who we are.
    #[error("could not {doing}: {endpoint} wants to know who asks, and there is no token")]
    #[diagnostic(
        code(hub::no_token),
        help(
            "set HF_TOKEN to a token with write access, or run `hf auth login`, which keeps it in the stock client's file"
        )
    )]
    NoToken {
        /// Completes "could not".
        doing: String,
        /// The hub.
        endpoint: String,
    },
    /// 401.
    #[error("could not {doing}: {endpoint} does not accept the token ({message})")]
    #[diagnostic(
        code(hub::unauthorized),
        help(
            "it may be revoked, expired, or of another hub: make a new one with write access, then set HF_TOKEN or run `hf auth login`"
        )
    )]
    Unauthorized {
        /// Completes "could not".
        doing: String,
        /// The hub.
        endpoint: String,
        /// The message of its answer.
        message: String,
    },
    /// 403.
    #[error("could not {doing}: {endpoint} does not permit it ({message})")]
    #[diagnostic(code(hub::forbidden), help("{help}"))]
    Forbidden {
        /// Completes "could not".
        doing: String,
        /// The hub.
        endpoint: String,
        /// The message of its answer.
        message: String,
        /// What to do.
        help: String,
    },
    /// 404.
    #[error("could not {doing}: {endpoint} has no such thing ({message})")]
    #[diagnostic(
        code(hub::not_found),
        help(
            "look at owner, name and version; of a private repository, a hub tells only those whose token may see it"
        )
    )]
    NotFound {
        /// Completes "could not".
        doing: String,
        /// The hub.
        endpoint: String,
        /// The message of its answer.
        message: String,
    },
    /// 409.
    #[error("could not {doing}: it conflicts with what {endpoint} has ({message})")]
    #[diagnostic(code(hub::conflict), help("look at the page of the repository, then run this again"))]
    Conflict {
        /// Completes "could not".
        doing: String,
        /// The hub.
        endpoint: String,
        /// The message of its answer.
        message: String,
    },
    /// 412, or the branch is not where it was.
    #[error("somebody else changed branch `{branch}` of `{repo}` meanwhile")]
    #[diagnostic(
        code(hub::moved),
        help(
            "nothing of theirs was overwritten; run this again: it compares with what is there now, and uploads nothing twice"
        )
    )]
    Moved {
        /// The repository.
        repo: String,
        /// The branch.
        branch: String,
    },
    /// 429, more often than there is patience for.
    #[error("could not {doing}: {endpoint} is asked too much (429){wait}")]
    #[diagnostic(
        code(hub::busy),
        help("wait, then run this again: what was uploaded stays, and is not sent again")
    )]
    Busy {
        /// Completes "could not".
        doing: String,
        /// The hub.
        endpoint: String,
        /// For how long, as the hub said.
        wait: String,
    },
    /// 402, 413, 507, or words about storage.
    #[error("could not {doing}: {endpoint} has no room for it ({message})")]
    #[diagnostic(
        code(hub::full),
        help("make room in the account or organisation, publish fewer variants, or ask for a larger quota")
    )]
    Full {
        /// Completes "could not".
        doing: String,
        /// The hub.
        endpoint: String,
        /// The message of its answer.
        message: String,
    },
    /// Any other 4xx.
    #[error("could not {doing}: {endpoint} refused the request, {status} ({message})")]
    #[diagnostic(
        code(hub::refused),
        help(
            "it says why; a hub that knows no kernels or other rules than the Hub's may refuse what the Hub takes"
        )
    )]
    Refused {
        /// Completes "could not".
        doing: String,
        /// The hub.
        endpoint: String,
        /// The status.
        status: u16,
        /// The message of its answer.
        message: String,
    },
    /// 5xx, again and again.
    #[error("could not {doing}: {endpoint} fails, {status} ({message})")]
    #[diagnostic(
        code(hub::broken),
        help("run this again later: what was uploaded stays, and is not sent again")
    )]
    Broken {
        /// Completes "could not".
        doing: String,
        /// The hub.
        endpoint: String,
        /// The status.
        status: u16,
        /// The message of its answer.
        message: String,
    },
    /// No answer.
    #[error("{endpoint} cannot be reached")]
    #[diagnostic(
        code(hub::unreachable),
        help(
            "look at the connection, the proxy (HTTPS_PROXY) and HF_ENDPOINT, then run this again: it goes on where it was"
        )
    )]
    Unreachable {
        /// The hub.
        endpoint: String,
        /// What happened last.
        #[source]
        cause: HttpError,
    },
    /// An answer of another kind than expected.
    #[error("could not {doing}: the answer of {endpoint} is not that of a hub ({problem})")]
    #[diagnostic(
        code(hub::malformed),
        help("is HF_ENDPOINT the address of a hub, and not of a page before it?")
    )]
    Malformed {
        /// Completes "could not".
        doing: String,
        /// The hub.
        endpoint: String,
        /// What is wrong with it, without the token: a text, since an error of the parser may quote the answer.
        problem: String,
    },
    /// The large file storage did not take a file.
    #[error("`{path}` could not be uploaded: {problem}")]
    #[diagnostic(code(hub::upload), help("run this again: what was uploaded stays, and is not sent again"))]
    Upload {
        /// The path in the repository.
        path: String,
        /// Why.
        problem: String,
    },
    /// The hub wants large files in a way that this program does not know.
    #[error("{endpoint} takes large files by `{transfer}` only, and this program sends them by git-lfs")]
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
    #[diagnostic(
        code(base::interrupted),
        help("what was uploaded stays; the same command goes on where this one was")
    )]
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
    /// What an answer that is not fine means. `message` is what the hub at `endpoint` says, `doing` completes
    /// "could not ...", and `has_token` says whether the hub was told who asks.
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
                let wait = answer.wait().map(|wait| format!(" and wants {} s of quiet", wait.as_secs()));
                Self::Busy { doing, endpoint, wait: wait.unwrap_or_default() }
            }
            status @ 500.. => Self::Broken { doing, endpoint, status, message },
            status => Self::Refused { doing, endpoint, status, message },
        }
    }
}

fn permission(endpoint: &str) -> String {
    let token =
        "the token needs write access to this owner's repositories (`hf auth whoami` says whose it is)";
    if endpoint == DEFAULT {
        format!(
            "{token}; and on the Hub, publishing kernels is for approved accounts: the user or organisation asks for it \
             there with \"Request Kernels Creation\". Without it, `--create-pr` proposes the change to a repository of others"
        )
    } else {
        format!("{token}; ask whoever runs this hub. `--create-pr` proposes the change instead")
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
