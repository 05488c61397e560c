//! Where the results of a build were checked, or that they were not.
//!
//! Owns: the fact and its words, in metadata.json, in cards and in messages. Never: judges; reads evidence alone.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::base::date;
use crate::verify::{Evidence, Outcome};

/// The judgement that called a build.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Judgement {
    /// The GPU's name, or `cpu`.
    pub device: String,
    /// The version of the GPU's driver; absent for `cpu`, and in older evidence.
    #[serde(default)]
    pub driver: Option<String>,
    /// `torch.__version__`.
    #[serde(default)]
    pub torch: Option<String>,
    /// The protocol of the evidence.
    pub protocol: u32,
    /// The day, UTC.
    pub date: String,
}

impl Judgement {
    /// The judgement behind some evidence; `None` if the kernel was not called.
    pub fn from_evidence(evidence: &Evidence) -> Option<Self> {
        let environment = &evidence.environment;
        // A refused run may have ended before all calls were made.
        let counts = |outcome| outcome != Outcome::Skipped || evidence.refusal().is_some();
        let called = evidence.checks.iter().any(|check| check.name == "calls" && counts(check.outcome));
        let device = environment.device.clone().filter(|_| called)?;
        Some(Self {
            device,
            driver: environment.driver.clone(),
            torch: environment.torch.clone(),
            protocol: evidence.protocol,
            date: date::date_of(evidence.when),
        })
    }
}

impl fmt::Display for Judgement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.device.as_str() {
            "cpu" => f.write_str("a CPU")?,
            gpu => f.write_str(gpu)?,
        }
        let mut details = Vec::new();
        details.extend(self.driver.as_ref().map(|driver| format!("driver {driver}")));
        details.extend(self.torch.as_ref().map(|torch| format!("PyTorch {torch}")));
        details.push(format!("protocol {}", self.protocol));
        details.push(self.date.clone());
        write!(f, " ({})", details.join(", "))
    }
}

/// One build and the judgement of its results.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Status {
    /// The variant.
    pub variant: String,
    /// Its backend.
    pub backend: String,
    /// `checked`, `not checked on a GPU` or `not checked`.
    pub results: &'static str,
    /// The judgement; absent if results were not checked.
    pub judged: Option<Judgement>,
}

impl Status {
    /// Finds the words for a build of a backend.
    pub fn new(variant: &str, backend: &str, judged: Option<Judgement>) -> Self {
        let results = match (&judged, backend) {
            (Some(_), _) => "checked",
            (None, "cpu") => "not checked",
            (None, _) => "not checked on a GPU",
        };
        Self { variant: variant.to_owned(), backend: backend.to_owned(), results, judged }
    }

    /// A few words for the end of a line: the GPU, or the results that nothing checked. Empty for `cpu`.
    pub fn note(&self) -> String {
        match &self.judged {
            Some(judged) if judged.device == "cpu" => String::new(),
            Some(judged) => format!("; on {}", judged.device),
            None => format!("; results {}", self.results),
        }
    }

    /// The end of a step that refused nothing: a build is `verified` only if its kernel was called.
    pub fn action(&self) -> &'static str {
        if self.judged.is_some() { "verified" } else { "checked" }
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.judged {
            Some(judged) => write!(f, "results checked on {judged}"),
            None => write!(f, "results {}", self.results),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn evidence(device: Option<&str>, calls: Option<&str>) -> Evidence {
        let check =
            |outcome| json!({ "name": "calls", "code": "c", "outcome": outcome, "summary": "", "facts": {} });
        let checks: Vec<_> = calls.into_iter().map(check).collect();
        let environment =
            json!({ "torch": "2.11.0", "python": null, "device": device, "driver": "580.1", "cpu": null });
        serde_json::from_value(json!({
            "artifact": crate::base::digest::Digest::blake3(b"a"), "op": null, "protocol": 10, "checks": checks,
            "environment": environment, "when": 951_782_400,
        }))
        .unwrap()
    }

    #[test]
    fn only_a_kernel_that_was_called_was_judged() {
        let told = |backend, device, calls| {
            let status = Status::new("v", backend, Judgement::from_evidence(&evidence(device, calls)));
            (status.action(), status.to_string(), status.note())
        };
        let gpu = "results checked on NVIDIA H200 (driver 580.1, PyTorch 2.11.0, protocol 10, 2000-02-29)";
        let words = |text: &str, note: &str| (text.to_owned(), note.to_owned());
        let (text, note) = words(gpu, "; on NVIDIA H200");
        assert_eq!(told("cuda", Some("NVIDIA H200"), Some("passed")), ("verified", text, note));
        for (backend, device, calls, text) in [
            ("cuda", Some("cuda"), None, "results not checked on a GPU"),
            ("cuda", Some("NVIDIA H200"), Some("skipped"), "results not checked on a GPU"),
            ("cuda", None, Some("passed"), "results not checked on a GPU"),
            ("cpu", Some("cpu"), None, "results not checked"),
        ] {
            let (text, note) = words(text, &format!("; {text}"));
            assert_eq!(told(backend, device, calls), ("checked", text, note));
        }
    }
}
