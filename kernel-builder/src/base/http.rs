//! Downloads of files. Connections are opened here and in [`super::api`], nowhere else.
//!
//! Owns: proxies and certificate authorities as the machine has them, byte ranges, retries, resuming.
//! Never: knows what the bytes are; the caller checks them.
//!
//! A transfer runs on a thread of its own and hands blocks over, so that ctrl-C and a stalled line end it at once,
//! whatever the socket is waiting for.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::{Duration, Instant};

use thiserror::Error;
use ureq::config::ConfigBuilder;
use ureq::tls::{Certificate, PemItem, RootCerts, TlsConfig, parse_pem};
use ureq::typestate::AgentScope;

use super::causes::chain;
use super::files::{self, FileError};
use super::report::{Progress, bytes, duration};
use super::{env, interrupt};

/// Why a download failed.
#[derive(Debug, Error)]
pub enum HttpError {
    /// The server's answer is final.
    #[error("the server answered {0}")]
    Status(u16),
    /// The server sends whole files only.
    #[error("the server does not support range requests")]
    NoRanges,
    /// The connection failed, several times.
    #[error("the connection failed (tries: {attempts})")]
    Connection {
        /// The number of tries without a single byte.
        attempts: u32,
        /// The last error.
        #[source]
        cause: ConnectionError,
    },
    /// The user pressed ctrl-C.
    #[error("interrupted")]
    Interrupted,
    /// The bytes could not be kept.
    #[error(transparent)]
    File(#[from] FileError),
}

/// Why one try of a request ended.
#[derive(Debug, Error)]
pub enum ConnectionError {
    /// The server is busy or broken.
    #[error("the server answered {0}")]
    Status(u16),
    /// The file on the server is shorter than what is here of it.
    #[error("the file on the server changed")]
    Changed,
    /// The server sent less than it announced.
    #[error("the connection ended early")]
    Early,
    /// No byte came for too long.
    #[error("the server sent no data for too long")]
    Silent,
    /// The answer is longer than one of an API may be.
    #[error("the server's answer is too long")]
    TooLong,
    /// More redirects than are followed.
    #[error("too many redirects")]
    Circle,
    /// The request could not be made, or was not answered.
    #[error(transparent)]
    Request(#[from] ureq::Error),
    /// The answer could not be read.
    #[error(transparent)]
    Read(#[from] std::io::Error),
}

/// Makes connections. Cheap to clone; clones share connections.
#[derive(Debug, Clone)]
pub struct Client {
    agent: ureq::Agent,
    patience: Patience,
}

/// When to give up.
#[derive(Debug, Clone, Copy)]
pub struct Patience {
    /// Tries in a row that bring no byte.
    pub attempts: u32,
    /// Pause after the first failure; doubles with each.
    pub pause: Duration,
    /// How long a connection may be silent before the try counts as failed.
    pub silence: Duration,
}

impl Default for Patience {
    fn default() -> Self {
        Self { attempts: 6, pause: Duration::from_millis(500), silence: Duration::from_secs(45) }
    }
}

/// The place where a transfer keeps its bytes, so that the next try continues there.
trait Store {
    fn len(&self) -> u64;
    fn append(&mut self, block: &[u8]) -> Result<(), FileError>;
    fn clear(&mut self) -> Result<(), FileError>;
}

impl Store for Vec<u8> {
    fn len(&self) -> u64 {
        self.len() as u64
    }

    fn append(&mut self, block: &[u8]) -> Result<(), FileError> {
        self.extend_from_slice(block);
        Ok(())
    }

    fn clear(&mut self) -> Result<(), FileError> {
        Vec::clear(self);
        Ok(())
    }
}

/// A partial download on disk, with its bar.
struct Part<'a> {
    path: &'a Path,
    file: File,
    length: u64,
    progress: &'a Progress,
}

impl Part<'_> {
    fn failed(&self, cause: std::io::Error) -> FileError {
        FileError { action: "write", path: PathBuf::from(self.path), cause }
    }
}

impl Store for Part<'_> {
    fn len(&self) -> u64 {
        self.length
    }

    fn append(&mut self, block: &[u8]) -> Result<(), FileError> {
        self.file.write_all(block).map_err(|cause| self.failed(cause))?;
        self.length += block.len() as u64;
        self.progress.add(block.len() as u64);
        Ok(())
    }

    fn clear(&mut self) -> Result<(), FileError> {
        self.file.set_len(0).and_then(|()| self.file.rewind()).map_err(|cause| self.failed(cause))?;
        self.length = 0;
        Ok(())
    }
}

/// The bytes wanted of a file: from `start` up to, and without, `end`; all of it when `end` is absent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span {
    /// First byte.
    pub start: u64,
    /// Byte after the last; absent for a whole file of unknown length.
    pub end: Option<u64>,
}

impl Span {
    /// The whole file.
    pub const WHOLE: Self = Self { start: 0, end: None };

    /// Bytes from `start` to before `end`.
    pub fn new(start: u64, end: u64) -> Self {
        Self { start, end: Some(end) }
    }
}

enum Message {
    Head { status: u16, first: Option<u64>, total: Option<u64>, length: Option<u64> },
    Block(Vec<u8>),
    End,
    Failed(ConnectionError),
}

/// How one try ended, unless it failed for good.
enum Try {
    Complete,
    Again(ConnectionError),
}

impl Client {
    /// A client that trusts what the machine trusts.
    pub fn new(patience: Patience) -> Self {
        Self { agent: settings().build().new_agent(), patience }
    }

    /// The length of the file; fails with [`HttpError::NoRanges`] where the server does not serve ranges.
    pub fn length(&self, url: &str) -> Result<u64, HttpError> {
        let mut total = None;
        self.transfer(url, Span::new(0, 1), &mut Vec::new(), &mut total)?;
        total.ok_or(HttpError::NoRanges)
    }

    /// Some bytes of a file, in memory.
    pub fn bytes(&self, url: &str, span: Span) -> Result<Vec<u8>, HttpError> {
        let mut bytes = Vec::new();
        self.transfer(url, span, &mut bytes, &mut None)?;
        Ok(bytes)
    }

    /// Some bytes of a file, into `part`; continues where an earlier run stopped. `progress` counts in bytes,
    /// those of earlier runs as well.
    pub fn download(&self, url: &str, span: Span, part: &Path, progress: &Progress) -> Result<(), HttpError> {
        let mut file = files::open_for_resume(part)?;
        let length = file.seek(SeekFrom::End(0)).map_err(|cause| FileError {
            action: "read",
            path: part.to_owned(),
            cause,
        })?;
        progress.add(length);
        let mut store = Part { path: part, file, length, progress };
        if span.end.is_some_and(|end| length > end - span.start) {
            store.clear()?;
        }
        self.transfer(url, span, &mut store, &mut None)
    }

    fn transfer(
        &self,
        url: &str,
        span: Span,
        store: &mut dyn Store,
        total: &mut Option<u64>,
    ) -> Result<(), HttpError> {
        let mut failures = 0;
        loop {
            if span.end.is_some_and(|end| store.len() >= end - span.start) {
                return Ok(());
            }
            let (before, since) = (store.len(), Instant::now());
            let outcome = self.attempt(url, span, store, total);
            let got = bytes(store.len().saturating_sub(before));
            let took = duration(since.elapsed());
            match &outcome {
                Ok(Try::Complete) => {
                    tracing::info!(target: "http", "GET {url}{} gave {got} in {took}", byte_range(span, before));
                }
                Ok(Try::Again(cause)) => {
                    tracing::info!(
                        target: "http",
                        "GET {url}{} gave {got} in {took}, then: {}",
                        byte_range(span, before),
                        chain(cause)
                    );
                }
                Err(error) => {
                    let (asked, error) = (byte_range(span, before), chain(error));
                    tracing::info!(target: "http", "GET {url}{asked} failed after {took}: {error}");
                }
            }
            let Try::Again(cause) = outcome? else { return Ok(()) };
            failures = if store.len() > before { 1 } else { failures + 1 };
            if failures >= self.patience.attempts {
                return Err(HttpError::Connection { attempts: failures, cause });
            }
            let wait = self.patience.pause * (1 << (failures - 1));
            log_retry(url, failures, wait, &cause);
            pause(wait)?;
        }
    }

    fn attempt(
        &self,
        url: &str,
        span: Span,
        store: &mut dyn Store,
        total: &mut Option<u64>,
    ) -> Result<Try, HttpError> {
        let from = span.start + store.len();
        let range = (from > 0 || span.end.is_some()).then(|| match span.end {
            Some(end) => format!("bytes={from}-{}", end - 1),
            None => format!("bytes={from}-"),
        });
        let messages = self.start(url, range.clone());
        let mut missing = None;
        loop {
            match next(&messages, self.patience.silence)? {
                Message::Head { status: 206, first, total: size, length } => {
                    if first.is_some_and(|first| first != from) {
                        return Err(HttpError::NoRanges);
                    }
                    (*total, missing) = (size, length);
                }
                Message::Head { status: 200, length, .. } => {
                    if span.end.is_some() {
                        return Err(HttpError::NoRanges);
                    }
                    // The server starts over, so the caller's file does as well.
                    store.clear()?;
                    (*total, missing) = (length, length);
                }
                // The part here is longer than the file is now.
                Message::Head { status: 416, .. } if store.len() > 0 && span.end.is_none() => {
                    store.clear()?;
                    return Ok(Try::Again(ConnectionError::Changed));
                }
                Message::Head { status: status @ (408 | 425 | 429 | 500..=599), .. } => {
                    return Ok(Try::Again(ConnectionError::Status(status)));
                }
                Message::Head { status, .. } => return Err(HttpError::Status(status)),
                Message::Block(block) => {
                    missing = missing.map(|missing| missing.saturating_sub(block.len() as u64));
                    store.append(&block)?;
                }
                Message::End if missing.is_some_and(|missing| missing > 0) => {
                    return Ok(Try::Again(ConnectionError::Early));
                }
                Message::End => return Ok(Try::Complete),
                Message::Failed(cause) => return Ok(Try::Again(cause)),
            }
        }
    }

    fn start(&self, url: &str, range: Option<String>) -> Receiver<Message> {
        let (send, messages) = sync_channel(32);
        let (agent, url) = (self.agent.clone(), url.to_owned());
        // Not joined: it ends when the receiver is gone and its next block cannot be sent.
        std::thread::spawn(move || {
            let last = match pour(&agent, &url, range.as_deref(), &send) {
                Ok(()) => Message::End,
                Err(cause) => Message::Failed(cause),
            };
            let _nobody_listens = send.send(last);
        });
        messages
    }
}

/// The bytes that are asked for, of which `had` are there.
fn byte_range(span: Span, had: u64) -> String {
    let from = span.start + had;
    match span.end {
        Some(end) => format!(" bytes {from}-{}", end.saturating_sub(1)),
        None if from > 0 => format!(" bytes {from}-"),
        None => String::new(),
    }
}

/// Logs that the request is repeated.
pub(super) fn log_retry(url: &str, failures: u32, wait: Duration, cause: &ConnectionError) {
    let (wait, cause) = (duration(wait), chain(cause));
    tracing::warn!(target: "http", "{url} again in {wait}, try {}: {cause}", failures + 1);
}

fn pour(
    agent: &ureq::Agent,
    url: &str,
    range: Option<&str>,
    send: &SyncSender<Message>,
) -> Result<(), ConnectionError> {
    let mut request = agent.get(url);
    if let Some(range) = range {
        request = request.header("range", range);
    }
    let answer = request.call()?;
    let header = |name: &str| answer.headers().get(name).and_then(|value| value.to_str().ok());
    let (first, total) = header("content-range").map_or((None, None), content_range);
    let length = header("content-length").and_then(|text| text.parse().ok());
    let status = answer.status().as_u16();
    let _nobody_listens = send.send(Message::Head { status, first, total, length });
    let mut body = answer.into_body().into_reader();
    let mut block = vec![0; 128 << 10];
    loop {
        match body.read(&mut block) {
            Ok(0) => return Ok(()),
            Ok(count) => {
                if send.send(Message::Block(block[..count].to_vec())).is_err() {
                    return Ok(());
                }
            }
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// First byte and length of the file in `bytes 5-9/100` (RFC 9110, 14.4).
fn content_range(text: &str) -> (Option<u64>, Option<u64>) {
    let Some((range, total)) = text.trim_start_matches("bytes").trim().split_once('/') else {
        return (None, None);
    };
    (range.split('-').next().and_then(|first| first.parse().ok()), total.parse().ok())
}

fn next(messages: &Receiver<Message>, silence: Duration) -> Result<Message, HttpError> {
    let give_up = Instant::now() + silence;
    loop {
        if interrupt::requested() {
            return Err(HttpError::Interrupted);
        }
        match messages.recv_timeout(Duration::from_millis(100)) {
            Ok(message) => return Ok(message),
            Err(RecvTimeoutError::Timeout) if Instant::now() < give_up => {}
            Err(_) => return Ok(Message::Failed(ConnectionError::Silent)),
        }
    }
}

pub(super) fn pause(length: Duration) -> Result<(), HttpError> {
    let end = Instant::now() + length;
    while Instant::now() < end {
        if interrupt::requested() {
            return Err(HttpError::Interrupted);
        }
        std::thread::sleep(Duration::from_millis(50).min(length));
    }
    Ok(())
}

/// The settings of every connection.
pub(super) fn settings() -> ConfigBuilder<AgentScope> {
    ureq::Agent::config_builder()
        .tls_config(TlsConfig::builder().root_certs(authorities()).build())
        .http_status_as_error(false)
        .timeout_connect(Some(Duration::from_secs(20)))
        .timeout_recv_response(Some(Duration::from_secs(60)))
        // A range of a compressed transfer would be a range of something else.
        .accept_encoding("identity")
        .user_agent(concat!("kernelwright/", env!("CARGO_PKG_VERSION")))
}

/// The machine's certificate authorities (SSL_CERT_FILE, SSL_CERT_DIR, else the system's bundle) and those that the
/// package index client is told to trust; Mozilla's list where there are none.
fn authorities() -> RootCerts {
    let mut found: Vec<Certificate<'static>> = rustls_native_certs::load_native_certs()
        .certs
        .iter()
        .map(|certificate| Certificate::from_der(certificate).to_owned())
        .collect();
    for path in env::CERTIFICATES.iter().filter_map(|name| env::text(name)) {
        // A bundle that cannot be read is pip's to complain about.
        let Ok(pem) = files::read(Path::new(&path)) else { continue };
        found.extend(parse_pem(&pem).filter_map(|item| match item {
            Ok(PemItem::Certificate(certificate)) => Some(certificate),
            _ => None,
        }));
    }
    if found.is_empty() { RootCerts::WebPki } else { RootCerts::new_with_certs(&found) }
}

#[cfg(test)]
mod tests {
    use super::super::loopback::{Fault, Server};
    use super::*;

    fn client() -> Client {
        Client::new(Patience {
            attempts: 3,
            pause: Duration::from_millis(1),
            silence: Duration::from_secs(10),
        })
    }

    #[test]
    fn reads_content_ranges() {
        assert_eq!(content_range("bytes 5-9/100"), (Some(5), Some(100)));
        assert_eq!(content_range("bytes */100"), (None, Some(100)));
        assert_eq!(content_range("nonsense"), (None, None));
    }

    #[test]
    fn a_cut_line_is_continued_where_it_ended() {
        let body: Vec<u8> = (0..200_000u32).map(|number| number as u8).collect();
        let server = Server::start(body.clone(), [Fault::CutAfter(70_000)]);
        let folder = files::scratch().unwrap();
        let part = folder.path().join("part");
        let span = Span::new(1_000, 150_000);
        client().download(&server.url(), span, &part, &Progress::hidden()).unwrap();
        assert_eq!(files::read(&part).unwrap(), body[1_000..150_000]);
        let ranges = server.ranges();
        assert_eq!(ranges[0], "bytes=1000-149999");
        let resumed: u64 = ranges[1].trim_start_matches("bytes=").split('-').next().unwrap().parse().unwrap();
        assert!((1_001..=71_000).contains(&resumed), "{ranges:?}");
    }

    #[test]
    fn an_earlier_run_is_continued() {
        let body = vec![7; 5_000];
        let server = Server::start(body.clone(), []);
        let folder = files::scratch().unwrap();
        let part = folder.path().join("part");
        files::write(&part, &body[..1_200]).unwrap();
        client().download(&server.url(), Span::WHOLE, &part, &Progress::hidden()).unwrap();
        assert_eq!(files::read(&part).unwrap(), body);
        assert_eq!(server.ranges(), ["bytes=1200-"]);
    }

    #[test]
    fn a_busy_server_is_asked_again_and_a_refusal_is_final() {
        let server = Server::start(vec![1; 64], [Fault::Status(503), Fault::Status(429)]);
        assert_eq!(client().bytes(&server.url(), Span::new(0, 8)).unwrap(), [1; 8]);
        let server = Server::start(vec![1; 64], [Fault::Status(404)]);
        let error = client().bytes(&server.url(), Span::new(0, 8)).unwrap_err();
        assert_eq!(error.to_string(), "the server answered 404");
        let server = Server::start(vec![1; 64], [503, 503, 503].map(Fault::Status));
        let error = client().bytes(&server.url(), Span::new(0, 8)).unwrap_err();
        assert_eq!(chain(&error), "the connection failed (tries: 3): the server answered 503");
    }

    #[test]
    fn a_server_without_ranges_is_recognised() {
        let server = Server::without_ranges(vec![3; 900]);
        assert!(matches!(client().length(&server.url()), Err(HttpError::NoRanges)));
        let folder = files::scratch().unwrap();
        let part = folder.path().join("part");
        files::write(&part, [3; 100]).unwrap();
        client().download(&server.url(), Span::WHOLE, &part, &Progress::hidden()).unwrap();
        assert_eq!(files::read(&part).unwrap(), [3; 900]);
    }
}
