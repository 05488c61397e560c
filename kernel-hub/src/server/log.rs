//! One line of JSON on standard error for each answer, when it has ended.
//!
//! Owns: what is in it. Never: a token, a query (signatures are there), or a body.

use std::io::Write as _;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::json;

use crate::time::{now, rfc3339};

use super::metrics::{Metrics, add};
use super::settings::LogTo;

/// A request that takes longer is in the log of what the hub does.
const SLOW: Duration = Duration::from_secs(1);

/// What is known of a request before it is answered.
#[derive(Debug, Clone)]
pub(super) struct RequestInfo {
    /// The name of the request, which the answer has as `X-Request-Id`.
    pub(super) id: String,
    /// Where it came from.
    pub(super) peer: String,
    /// How.
    pub(super) method: String,
    /// What, without the query.
    pub(super) path: String,
    /// By which program.
    pub(super) agent: String,
}

/// The line of one answer; written when the value goes.
#[derive(Debug)]
pub(super) struct Line {
    asked: RequestInfo,
    who: String,
    status: u16,
    started: Instant,
    sent: u64,
    announced: u64,
    metrics: Arc<Metrics>,
    to: LogTo,
}

impl Line {
    /// Of an answer of `announced` bytes.
    pub(super) fn new(
        asked: RequestInfo,
        who: String,
        status: u16,
        started: Instant,
        announced: u64,
        metrics: Arc<Metrics>,
        to: LogTo,
    ) -> Self {
        Self { asked, who, status, started, sent: 0, announced, metrics, to }
    }

    /// So many bytes more went out.
    pub(super) fn sent(&mut self, bytes: u64) {
        self.sent += bytes;
    }

    fn text(&self, took: Duration) -> String {
        let RequestInfo { id, peer, method, path, agent } = &self.asked;
        json!({
            "time": rfc3339(now()), "id": id, "peer": peer, "who": self.who, "method": method, "path": path,
            "status": self.status, "bytes": self.sent, "whole": self.sent == self.announced,
            "ms": took.as_millis() as u64, "agent": agent,
        })
        .to_string()
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        let took = self.started.elapsed();
        self.metrics.answered(self.status, u64::try_from(took.as_micros()).unwrap_or(u64::MAX));
        self.metrics.in_flight.fetch_sub(1, std::sync::atomic::Ordering::Relaxed);
        add(&self.metrics.sent, self.sent);
        if took >= SLOW {
            let RequestInfo { id, method, path, .. } = &self.asked;
            tracing::info!(target: "http", "slow: {method} {path} {}, {} of {} bytes sent, {} ms, request {id}", self.status, self.sent, self.announced, took.as_millis());
        }
        if self.to == LogTo::Stderr {
            put(&self.text(took));
        }
    }
}

/// Something that a person who runs the hub should know.
pub(super) fn say(text: &str) {
    put(&json!({ "time": rfc3339(now()), "note": text }).to_string());
}

/// Not `eprintln!`: a log whose reader has gone, or whose disk is full, must not end what serves everybody.
fn put(line: &str) {
    let _nobody_reads = writeln!(std::io::stderr().lock(), "{line}");
}
