//! Counters, and their text for Prometheus (its text exposition format 0.0.4).
//!
//! Owns: what is counted. Never: a name of a kernel or a person; a scraper learns numbers alone.

use std::fmt::Write as _;
use std::sync::atomic::{AtomicU64, Ordering};

/// What happened since the start.
#[derive(Debug, Default)]
pub(super) struct Metrics {
    /// Answers by the first digit of their status, from 1xx.
    pub(super) answers: [AtomicU64; 5],
    /// Requests that are not answered yet.
    pub(super) in_flight: AtomicU64,
    /// Connections that are open.
    pub(super) connections: AtomicU64,
    /// Bytes of content that were sent.
    pub(super) sent: AtomicU64,
    /// Bytes of content that were received.
    pub(super) received: AtomicU64,
    /// Commits that were made.
    pub(super) commits: AtomicU64,
    /// Large files that were received.
    pub(super) uploads: AtomicU64,
    /// Tokens that nobody has.
    pub(super) wrong_tokens: AtomicU64,
    /// Connections that were closed because nothing moved.
    pub(super) stalled: AtomicU64,
    /// Microseconds from request to the end of the answer.
    pub(super) microseconds: AtomicU64,
}

/// Adds one.
pub(super) fn count(counter: &AtomicU64) {
    add(counter, 1);
}

/// Adds.
pub(super) fn add(counter: &AtomicU64, number: u64) {
    counter.fetch_add(number, Ordering::Relaxed);
}

impl Metrics {
    /// An answer of this status has ended.
    pub(super) fn answered(&self, status: u16, microseconds: u64) {
        if let Some(counter) =
            usize::from(status / 100).checked_sub(1).and_then(|class| self.answers.get(class))
        {
            count(counter);
        }
        add(&self.microseconds, microseconds);
    }

    /// The text.
    pub(super) fn text(&self, kernels: usize) -> String {
        let value = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let mut text = String::new();
        let mut family = |name: &str, kind: &str, help: &str, samples: &[(String, f64)]| {
            let _infallible = write!(
                text,
                "# HELP kernelwright_hub_{name} {help}\n# TYPE kernelwright_hub_{name} {kind}\n"
            );
            for (labels, value) in samples {
                let _infallible = writeln!(text, "kernelwright_hub_{name}{labels} {value}");
            }
        };
        #[expect(
            clippy::cast_precision_loss,
            reason = "the format has floating point numbers; 2^53 bytes are 8 PiB"
        )]
        let unlabelled = |number: u64| vec![(String::new(), number as f64)];
        let classes: Vec<_> = (1..=5)
            .zip(&self.answers)
            .flat_map(|(class, counter)| {
                unlabelled(value(counter))
                    .into_iter()
                    .map(move |(_, number)| (format!("{{status=\"{class}xx\"}}"), number))
            })
            .collect();
        family("responses_total", "counter", "Answers by class of status.", &classes);
        #[expect(clippy::cast_precision_loss, reason = "as above")]
        let seconds = vec![(String::new(), value(&self.microseconds) as f64 / 1e6)];
        family("response_seconds_total", "counter", "Time from request to the end of its answer.", &seconds);
        family("sent_bytes_total", "counter", "Bytes of content sent.", &unlabelled(value(&self.sent)));
        family(
            "received_bytes_total",
            "counter",
            "Bytes of content received.",
            &unlabelled(value(&self.received)),
        );
        family("commits_total", "counter", "Commits made.", &unlabelled(value(&self.commits)));
        family("uploads_total", "counter", "Large files received.", &unlabelled(value(&self.uploads)));
        family(
            "wrong_tokens_total",
            "counter",
            "Requests with an unknown token.",
            &unlabelled(value(&self.wrong_tokens)),
        );
        family(
            "stalled_total",
            "counter",
            "Connections closed because no data moved.",
            &unlabelled(value(&self.stalled)),
        );
        family("connections", "gauge", "Open connections.", &unlabelled(value(&self.connections)));
        family(
            "requests_in_flight",
            "gauge",
            "Requests not answered yet.",
            &unlabelled(value(&self.in_flight)),
        );
        family("kernels", "gauge", "Kernels on this hub.", &unlabelled(kernels as u64));
        text
    }
}
