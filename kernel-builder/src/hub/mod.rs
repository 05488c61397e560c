//! A hub of kernels, as the stock client knows it: Hugging Face's, or whichever `HF_ENDPOINT` names.
//!
//! Owns: which hub it is, who asks (the token), the requests of its API and what its refusals mean.
//! Never: decides what is published; shows the token; opens a connection itself.
//!
//! The requests are those of huggingface_hub 2.4.0 (`hf_api.py`, `_commit_api.py`, `lfs.py`), without xet.

use std::time::Duration;

use kernel_plan::units::RepoId;

use crate::base::api::{Answer, Api, Credential, Request, origin};
use crate::base::http::{HttpError, Patience};
use crate::base::report::Progress;
use crate::base::session::Session;
use crate::base::{env, files};

mod endpoint;
pub mod error;
pub mod facts;
pub mod find;
pub mod lfs;
pub mod rank;
pub mod read;
pub mod subject;
pub mod write;

pub use endpoint::{DEFAULT, endpoint};
pub use error::HubError;

/// A hub that can be asked. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Hub {
    api: Api,
    endpoint: String,
    credential: Option<Credential>,
}

impl Hub {
    /// The hub of the environment, to be written to or read from at leisure.
    pub fn connect(session: &Session) -> Result<Self, HubError> {
        Self::with(session, Patience::default())
    }

    /// The hub of the environment, for a question that nobody waits for: it is asked once.
    pub fn glance(session: &Session, limit: Duration) -> Result<Self, HubError> {
        Self::with(session, Patience { attempts: 1, pause: Duration::ZERO, silence: limit })
    }

    fn with(session: &Session, patience: Patience) -> Result<Self, HubError> {
        if let Some(setting) = offline(session) {
            return Err(HubError::Offline { setting });
        }
        let endpoint = endpoint();
        // A name and a password in it would be in every message, too.
        let authority = endpoint.split("://").nth(1).and_then(|rest| rest.split('/').next());
        if let Some((_, host)) = authority.and_then(|authority| authority.rsplit_once('@')) {
            return Err(HubError::BadEndpoint { text: format!("...@{host}") });
        }
        if origin(&endpoint).is_none() {
            return Err(HubError::BadEndpoint { text: endpoint });
        }
        let credential = match token() {
            Some((token, from)) => {
                Some(Credential::new(&token, &endpoint).ok_or(HubError::BadToken { from: from.to_owned() })?)
            }
            None => None,
        };
        Ok(Self { api: Api::new(patience), endpoint, credential })
    }

    /// Its address, without a slash at the end.
    pub fn endpoint(&self) -> &str {
        &self.endpoint
    }

    /// Whether it is told who asks.
    pub fn knows_us(&self) -> bool {
        self.credential.is_some()
    }

    /// Whether the token would be read by whoever is on the way: plain http, and not to this machine.
    pub fn is_overheard(&self) -> bool {
        self.knows_us() && is_overheard(&self.endpoint)
    }

    /// The page of a kernel.
    pub fn page(&self, repo: &RepoId) -> String {
        format!("{}/kernels/{repo}", self.endpoint)
    }

    fn api_of(&self, repo: &RepoId, rest: &str) -> String {
        format!("{}/api/kernels/{repo}/{rest}", self.endpoint)
    }

    /// Asks with the token; whatever status the answer has.
    fn ask(&self, request: Request) -> Result<Answer, HubError> {
        self.ask_as(request.with(self.credential.as_ref()), &Progress::hidden())
    }

    /// Asks as the request stands.
    fn ask_as(&self, request: Request, progress: &Progress) -> Result<Answer, HubError> {
        self.api.ask(&request, progress).map_err(|error| match error {
            HttpError::Interrupted => HubError::Interrupted,
            HttpError::File(error) => HubError::File(error),
            cause => HubError::Unreachable { endpoint: self.endpoint.clone(), cause },
        })
    }

    /// What a hub calls something, as people may see it.
    pub fn shown(&self, text: &str) -> String {
        self.scrubbed(text)
    }

    /// A text of a server as it may be shown: one line, without the token and without control characters.
    fn scrubbed(&self, text: &str) -> String {
        let text = self.credential.as_ref().map_or_else(|| text.to_owned(), |own| own.scrub(text));
        let line: String =
            text.chars().map(|letter| if letter.is_control() { ' ' } else { letter }).collect();
        let line = line.split_whitespace().collect::<Vec<_>>().join(" ");
        match line.char_indices().nth(400) {
            Some((end, _)) => format!("{} ...", &line[..end]),
            None => line,
        }
    }

    /// The error of an unsuccessful answer. `doing` completes "failed to ...".
    fn refusal(&self, answer: &Answer, doing: &str) -> HubError {
        let message = self.scrubbed(&error::message(answer));
        HubError::from_answer(answer, message, doing, self.endpoint(), self.knows_us())
    }

    /// The answer's content where it is fine, else what its status means. `doing` completes "failed to ...".
    fn done(&self, answer: Answer, doing: &str) -> Result<Answer, HubError> {
        if answer.fine() { Ok(answer) } else { Err(self.refusal(&answer, doing)) }
    }

    /// The answer's content, read as JSON.
    fn read<T: serde::de::DeserializeOwned>(&self, answer: Answer, doing: &str) -> Result<T, HubError> {
        let answer = self.done(answer, doing)?;
        serde_json::from_slice(&answer.body).map_err(|error| HubError::Malformed {
            endpoint: self.endpoint.clone(),
            doing: doing.to_owned(),
            problem: self.scrubbed(&error.to_string()),
        })
    }
}

/// Whether others than this machine are on the way to an address, and can read what goes there.
fn is_overheard(url: &str) -> bool {
    let Some(origin) = origin(url) else { return false };
    let host = origin.strip_prefix("http://").and_then(|rest| rest.rsplit_once(':'));
    host.is_some_and(|(host, _)| !matches!(host, "localhost" | "127.0.0.1" | "[::1]"))
}

/// Why no hub may be asked, where that is so: the option, or the variable that says it.
pub fn offline(session: &Session) -> Option<&'static str> {
    if session.offline {
        return Some(if env::text(env::OFFLINE).is_some() { env::OFFLINE } else { "--offline" });
    }
    env::HUB_OFFLINE.iter().copied().find(|name| env::says_yes(name))
}

/// The token and where it is from: a variable, else the file of the stock client.
fn token() -> Option<(String, &'static str)> {
    let clean = |text: String| {
        let text = text.replace(['\r', '\n'], "").trim().to_owned();
        (!text.is_empty()).then_some(text)
    };
    if env::says_yes(env::HUB_NO_IMPLICIT_TOKEN) {
        return None;
    }
    let set = env::HUB_TOKENS.iter().find_map(|name| Some((clean(env::text(name)?)?, *name)));
    set.or_else(|| Some((clean(files::read_text_of_any(&env::hub_token_file()?).ok()?)?, "the token file")))
}

/// Part of a path of an address: everything but letters, digits and `-_.~` is escaped, `/` as well.
pub(crate) fn escaped(text: &str) -> String {
    let escape = |byte: u8| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => (byte as char).to_string(),
        other => format!("%{other:02X}"),
    };
    text.bytes().map(escape).collect()
}

/// A path inside a repository, escaped part by part.
pub(crate) fn escaped_path(path: &str) -> String {
    path.split('/').map(escaped).collect::<Vec<_>>().join("/")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_overheard_on_plain_lines_to_other_machines() {
        for url in ["http://hub.example.org", "HTTP://10.0.0.7:8800/offline", "http://localhost.example.org"]
        {
            assert!(is_overheard(url), "{url}");
        }
        for url in
            ["https://hub.example.org", "http://LOCALHOST", "http://127.0.0.1:1/offline", "http://[::1]:8800"]
        {
            assert!(!is_overheard(url), "{url}");
        }
    }
}
