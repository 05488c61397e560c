//! Requests to a web API: a question with its whole answer, and a secret that only its own server is told.
//!
//! Owns: repeating, redirects, where a token goes, bodies that are parts of files.
//! Never: knows what is asked; shows a token to anyone but the server that it is for.
//!
//! A request runs on a thread of its own, so that ctrl-C and a stalled line end it at once.

use std::io::{Read, Seek, SeekFrom};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::time::{Duration, Instant};

use ureq::SendBody;
use ureq::http::{Method, Request as HttpRequest, Uri};

use super::causes::chain;
use super::http::{ConnectionError, HttpError, Patience, pause, settings};
use super::report::{Progress, bytes, duration};
use super::{files, http, interrupt, secrets};

/// The most that an answer may hold; what an API says is smaller.
const ANSWER: u64 = 256 << 20;
/// A server that asks for a longer pause is believed, and not waited for.
const LONGEST_PAUSE: Duration = Duration::from_secs(120);
/// Redirects that are followed.
const HOPS: usize = 5;

/// A token, and the one server that it is for. What is printed of it is its name.
#[derive(Clone)]
pub struct Credential {
    token: String,
    origin: String,
}

impl std::fmt::Debug for Credential {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "Credential(for {})", self.origin)
    }
}

impl Credential {
    /// A token for the server of `url`; nothing when it is no text that a header may hold.
    pub fn new(token: &str, url: &str) -> Option<Self> {
        secrets::hide(token);
        let fine = !token.is_empty() && token.bytes().all(|byte| byte.is_ascii_graphic());
        fine.then(|| Some(Self { token: token.to_owned(), origin: origin(url)? }))?
    }

    /// `text` without the token, should a server repeat it.
    pub fn scrub(&self, text: &str) -> String {
        text.replace(&self.token, "***")
    }

    fn header(&self, url: &str) -> Option<String> {
        (origin(url)? == self.origin).then(|| format!("Bearer {}", self.token))
    }
}

/// What a request carries.
#[derive(Debug, Clone)]
pub enum Body {
    /// Nothing.
    None,
    /// Bytes.
    Bytes(Arc<Vec<u8>>),
    /// Part of a file, read as it is sent.
    File {
        /// The file.
        path: PathBuf,
        /// Its first byte that is sent.
        start: u64,
        /// How many are.
        length: u64,
    },
}

impl Body {
    /// Bytes that are sent.
    fn len(&self) -> u64 {
        match self {
            Self::None => 0,
            Self::Bytes(bytes) => bytes.len() as u64,
            Self::File { length, .. } => *length,
        }
    }

    /// A value as JSON.
    pub fn json(value: &serde_json::Value) -> Self {
        Self::Bytes(Arc::new(value.to_string().into_bytes()))
    }
}

/// Whether it is harmless to ask the same again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Repeat {
    /// It is.
    Safe,
    /// The first request may have been heard although no answer came: whoever asks finds out.
    Once,
}

/// One request.
#[derive(Debug, Clone)]
pub struct Request {
    method: Method,
    url: String,
    headers: Vec<(String, String)>,
    credential: Option<Credential>,
    body: Body,
    repeat: Repeat,
}

impl Request {
    /// Asks for something.
    pub fn get(url: impl Into<String>) -> Self {
        Self::new(Method::GET, url, Body::None)
    }

    /// Hands something over.
    pub fn post(url: impl Into<String>, body: Body) -> Self {
        Self::new(Method::POST, url, body)
    }

    /// Puts something there.
    pub fn put(url: impl Into<String>, body: Body) -> Self {
        Self::new(Method::PUT, url, body)
    }

    fn new(method: Method, url: impl Into<String>, body: Body) -> Self {
        let (headers, repeat) = (Vec::new(), Repeat::Safe);
        Self { method, url: url.into(), headers, credential: None, body, repeat }
    }

    /// With this header.
    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    /// With a token, as far as the request goes to its server.
    pub fn with(mut self, credential: Option<&Credential>) -> Self {
        self.credential = credential.cloned();
        self
    }

    /// To be sent once: what it does is not to be done twice.
    pub fn once(mut self) -> Self {
        self.repeat = Repeat::Once;
        self
    }
}

/// What a server said.
#[derive(Debug, Clone)]
pub struct Answer {
    /// The status.
    pub status: u16,
    /// What was sent.
    pub body: Vec<u8>,
    headers: Vec<(String, String)>,
}

impl Answer {
    /// A header; the names know no case.
    pub fn header(&self, name: &str) -> Option<&str> {
        let found = self.headers.iter().find(|(known, _)| known.eq_ignore_ascii_case(name));
        found.map(|(_, value)| value.as_str())
    }

    /// Whether what was asked was done.
    pub fn fine(&self) -> bool {
        (200..300).contains(&self.status)
    }

    /// How long the server wants to be left alone: `Retry-After` in seconds, else `t` of `RateLimit`, as the Hub sends it
    /// (`"api";r=0;t=55`).
    pub fn wait(&self) -> Option<Duration> {
        let after = self.header("retry-after").and_then(|text| text.trim().parse().ok());
        let limit = self
            .header("ratelimit")
            .and_then(|text| text.split(';').find_map(|part| part.trim().strip_prefix("t=")?.parse().ok()));
        after.or(limit.filter(|_| self.status == 429)).map(Duration::from_secs)
    }

    fn is_passing(&self) -> bool {
        matches!(self.status, 408 | 425 | 429 | 500 | 502..=504)
    }
}

/// Asks servers. Cheap to clone; clones share connections.
#[derive(Debug, Clone)]
pub struct Api {
    agent: ureq::Agent,
    patience: Patience,
}

impl Api {
    /// A client that trusts what the machine trusts.
    pub fn new(patience: Patience) -> Self {
        let config = settings()
            // Where a redirect leads decides whether the token may go there, so each is followed here.
            .max_redirects(0)
            .max_redirects_will_error(false)
            // A commit of a thousand files takes a server a while.
            .timeout_recv_response(Some(Duration::from_secs(180)))
            .build();
        Self { agent: config.new_agent(), patience }
    }

    /// The answer to a request, whatever its status; one that passes (busy, broken) only after several tries.
    /// `progress` counts the bytes of a body that is a file.
    pub fn ask(&self, request: &Request, progress: &Progress) -> Result<Answer, HttpError> {
        let mut failures = 0;
        loop {
            let (cause, wait, heard) = match self.follow(request, progress) {
                Ok(answer) if !answer.is_passing() => return Ok(answer),
                Ok(answer) => {
                    failures += 1;
                    // That it is busy, a server says before it does anything.
                    let heard = request.repeat == Repeat::Once && !matches!(answer.status, 429 | 503);
                    let wait = answer.wait().unwrap_or_default();
                    if heard || failures >= self.patience.attempts || wait > LONGEST_PAUSE {
                        return Ok(answer);
                    }
                    (ConnectionError::Status(answer.status), wait, false)
                }
                Err(HttpError::Connection { cause, .. }) => {
                    failures += 1;
                    (cause, Duration::ZERO, true)
                }
                Err(error) => return Err(error),
            };
            // Without an answer it may have been heard.
            if failures >= self.patience.attempts || (request.repeat == Repeat::Once && heard) {
                return Err(HttpError::Connection { attempts: failures, cause });
            }
            let wait = wait.max(self.patience.pause * (1 << (failures - 1).min(5)));
            http::log_retry(&request.url, failures, wait, &cause);
            pause(wait)?;
        }
    }

    fn follow(&self, request: &Request, progress: &Progress) -> Result<Answer, HttpError> {
        let mut url = request.url.clone();
        for _ in 0..HOPS {
            let answer = self.once(request, &url, progress)?;
            let next = match (answer.status, &request.method) {
                (301..=303, &Method::GET) | (307 | 308, _) => {
                    answer.header("location").and_then(|to| resolve(&url, to))
                }
                _ => None,
            };
            match next {
                Some(next) => {
                    tracing::debug!(target: "http", "redirected from {url} to {next}");
                    url = next;
                }
                None => return Ok(answer),
            }
        }
        Err(HttpError::Connection { attempts: 1, cause: ConnectionError::Circle })
    }

    /// One exchange with one server.
    fn once(&self, request: &Request, url: &str, progress: &Progress) -> Result<Answer, HttpError> {
        let since = Instant::now();
        let outcome = self.exchange(request, url, progress);
        let (method, took) = (&request.method, since.elapsed());
        match &outcome {
            Ok(answer) => tracing::info!(
                target: "http",
                "{method} {url} {}, {} received, {} sent, {}",
                answer.status,
                bytes(answer.body.len() as u64),
                bytes(request.body.len()),
                duration(took),
            ),
            Err(error) => {
                let (took, error) = (duration(took), chain(error));
                tracing::info!(target: "http", "{method} {url} failed after {took}: {error}");
            }
        }
        outcome
    }

    fn exchange(&self, request: &Request, url: &str, progress: &Progress) -> Result<Answer, HttpError> {
        let failed = |cause| HttpError::Connection { attempts: 1, cause };
        let mut builder = HttpRequest::builder().method(request.method.clone()).uri(url);
        let elsewhere = origin(url) != origin(&request.url);
        for (name, value) in &request.headers {
            // What a header authorises is authorised where it was meant to go.
            if !(elsewhere && name.eq_ignore_ascii_case("authorization")) {
                builder = builder.header(name, value);
            }
        }
        if let Some(value) = request.credential.as_ref().and_then(|credential| credential.header(url)) {
            builder = builder.header("authorization", value);
        }
        let sent = Arc::new(AtomicU64::new(0));
        let length = request.body.len();
        let source = match &request.body {
            Body::None => Source::Nothing,
            Body::Bytes(bytes) => Source::Bytes(Arc::clone(bytes)),
            Body::File { path, start, length } => {
                let mut file = files::open(path)?;
                file.seek(SeekFrom::Start(*start)).map_err(|cause| files::FileError {
                    action: "read",
                    path: path.clone(),
                    cause,
                })?;
                Source::File(file.take(*length))
            }
        };
        if request.method != Method::GET {
            builder = builder.header("content-length", length);
        }
        let (agent, counter) = (self.agent.clone(), Arc::clone(&sent));
        let (send, answers) = sync_channel(1);
        // Not joined: after ctrl-C nobody waits for it, and the process ends.
        std::thread::spawn(move || {
            let body = match source {
                Source::Nothing => SendBody::none(),
                Source::Bytes(bytes) => {
                    let source = std::io::Cursor::new(Shared(bytes));
                    SendBody::from_owned_reader(Counted { source, counter })
                }
                Source::File(source) => SendBody::from_owned_reader(Counted { source, counter }),
            };
            let answer = builder
                .body(body)
                .map_err(|error| ConnectionError::from(ureq::Error::from(error)))
                .and_then(|request| Ok(agent.run(request)?))
                .and_then(whole);
            let _nobody_listens = send.send(answer);
        });
        let shown = matches!(request.body, Body::File { .. });
        let (mut told, mut heard) = (0, Instant::now());
        let outcome = loop {
            if interrupt::requested() {
                break Err(HttpError::Interrupted);
            }
            let waited = answers.recv_timeout(Duration::from_millis(50));
            let now = sent.load(Ordering::Relaxed);
            if now > told {
                progress.add(if shown { now - told } else { 0 });
                (told, heard) = (now, Instant::now());
            }
            match waited {
                Ok(answer) => break answer.map_err(failed),
                // While the server thinks about a whole body, its own time limit counts.
                Err(RecvTimeoutError::Timeout) if told >= length && length > 0 => {}
                Err(RecvTimeoutError::Timeout) if heard.elapsed() < self.patience.silence => {}
                Err(_) => break Err(failed(ConnectionError::Silent)),
            }
        };
        if shown && !outcome.as_ref().is_ok_and(Answer::fine) {
            progress.take_back(told);
        }
        outcome
    }
}

enum Source {
    Nothing,
    Bytes(Arc<Vec<u8>>),
    File(std::io::Take<std::fs::File>),
}

/// Bytes that several tries send without a copy.
struct Shared(Arc<Vec<u8>>);

impl AsRef<[u8]> for Shared {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

/// A source that says how much of it was read.
struct Counted<R> {
    source: R,
    counter: Arc<AtomicU64>,
}

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let count = self.source.read(buffer)?;
        self.counter.fetch_add(count as u64, Ordering::Relaxed);
        Ok(count)
    }
}

fn whole(answer: ureq::http::Response<ureq::Body>) -> Result<Answer, ConnectionError> {
    let status = answer.status().as_u16();
    let text = |value: &ureq::http::HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
    let headers = answer.headers().iter().map(|(name, value)| (name.to_string(), text(value))).collect();
    let mut body = Vec::new();
    answer.into_body().into_reader().take(ANSWER + 1).read_to_end(&mut body)?;
    if body.len() as u64 > ANSWER {
        return Err(ConnectionError::TooLong);
    }
    Ok(Answer { status, body, headers })
}

/// Scheme, host and port of an address, in one spelling; nothing for what is no `http` or `https` address.
pub fn origin(url: &str) -> Option<String> {
    let uri: Uri = url.parse().ok()?;
    let scheme = uri.scheme_str()?.to_ascii_lowercase();
    let default = match scheme.as_str() {
        "http" => 80,
        "https" => 443,
        _ => return None,
    };
    let host = uri.host()?.to_ascii_lowercase();
    Some(format!("{scheme}://{host}:{}", uri.port_u16().unwrap_or(default)))
}

/// Where a `Location` leads; nothing for what is neither an address nor a path from the root.
fn resolve(from: &str, to: &str) -> Option<String> {
    if origin(to).is_some() {
        return Some(to.to_owned());
    }
    let scheme = from.split_once("://")?.0;
    let start = scheme.len() + 3;
    let end = from[start..].find('/').map_or(from.len(), |at| at + start);
    match to.strip_prefix("//") {
        Some(rest) => Some(format!("{scheme}://{rest}")),
        None if to.starts_with('/') => Some(format!("{}{to}", &from[..end])),
        None => None,
    }
}

#[cfg(test)]
#[path = "api_tests.rs"]
mod tests;
