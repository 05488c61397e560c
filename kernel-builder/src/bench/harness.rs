//! The conversation with `harness/bench.py`, which times one artifact in a process of its own.
//!
//! Owns: the request, the lines that come back, the limits of the process.
//! Never: believes a line without the nonce of the request; what a kernel prints is not for us.

use std::collections::BTreeMap;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::path::Path;
use std::time::Duration;

use kernel_plan::spec::OpSpec;
use kernel_plan::spec::op::{Case, Device};
use kernel_plan::units::Dtype;
use serde::{Deserialize, Serialize};

use crate::base::process::{self, Finished, Limits};
use crate::base::session::Session;
use crate::base::{env, files};
use crate::compile::artifact::Artifact;
use crate::toolchain::PythonRuntime;

use super::record::SkippedContender;
use super::{BenchError, Options};

/// The Python that measures, written to a new folder for every run; the first is the entry.
const HARNESS: [(&str, &str); 2] = [
    ("bench.py", include_str!("../../harness/bench.py")),
    ("operands.py", include_str!("../../harness/operands.py")),
];
/// Regimes, their warm-up, compiling the reference and a first import of torch from a cold disk, for each case.
const CASE_ALLOWANCE: Duration = Duration::from_secs(240);
const OUTPUT: usize = 256 << 20;

/// What the harness is asked.
#[derive(Debug, Serialize)]
pub(super) struct Request {
    nonce: String,
    device: Device,
    package: String,
    id: String,
    reference: Reference,
    call: String,
    cases: Vec<Case>,
    /// The torch attribute of every dtype.
    dtypes: BTreeMap<&'static str, &'static str>,
    tolerance: Tolerance,
    seed: u64,
    budget: f64,
    threads: usize,
}

#[derive(Debug, Serialize)]
struct Reference {
    file: String,
    function: String,
    fused: Option<String>,
}

#[derive(Debug, Serialize)]
struct Tolerance {
    accumulate: Dtype,
    roundings: u32,
}

impl Request {
    /// The request for these cases, with absolute paths and a nonce of its own.
    pub(super) fn new(
        artifact: &Artifact,
        op: &OpSpec,
        project: &Path,
        device: Device,
        cases: Vec<Case>,
        options: &Options,
    ) -> Self {
        Self {
            nonce: nonce(),
            device,
            package: env::absolute(&artifact.dir).display().to_string(),
            id: artifact.id.clone(),
            reference: Reference {
                file: env::absolute(&project.join(op.reference.file.value.as_str())).display().to_string(),
                function: op.reference.function.value.to_string(),
                fused: op.reference.fused.as_ref().map(|fused| fused.value.to_string()),
            },
            call: op.call.function.value.to_string(),
            cases,
            dtypes: Dtype::ALL.iter().map(|dtype| (dtype.as_str(), dtype.torch_name())).collect(),
            tolerance: Tolerance {
                accumulate: op.tolerance.accumulate.value,
                roundings: op.tolerance.roundings.value,
            },
            seed: options.seed,
            budget: options.budget,
            threads: options.threads.unwrap_or_else(env::processors),
        }
    }

    /// The cases, in the order in which they are measured.
    pub(super) fn cases(&self) -> &[Case] {
        &self.cases
    }

    /// Whether the processor is measured.
    pub(super) fn on_host(&self) -> bool {
        self.device == Device::Cpu
    }
}

/// A word that nobody can guess; the standard library draws the keys of its hash maps from the operating system.
fn nonce() -> String {
    let word = || RandomState::new().build_hasher().finish();
    format!("{:016x}{:016x}", word(), word())
}

/// What the harness says.
#[derive(Debug, PartialEq, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub(super) enum Line {
    /// First of all: where it runs.
    Machine(Machine),
    /// A case was measured.
    Case(MeasuredCase),
    /// A case was not measured, and that is the kernel's or the reference's fault.
    Refused { case: String, finding: Finding, reason: String },
}

/// What the figures belong to.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub(super) struct Machine {
    pub(super) torch: String,
    pub(super) python: String,
    pub(super) threads: u64,
    /// `cpu` or the GPU's name; absent when the device asked for is not here.
    pub(super) device: Option<String>,
    /// Why it is absent.
    pub(super) reason: Option<String>,
}

/// One case with the samples of every regime.
#[derive(Debug, PartialEq, Deserialize)]
pub(super) struct MeasuredCase {
    pub(super) case: String,
    pub(super) bytes: u64,
    pub(super) regimes: Vec<Regime>,
}

/// The samples of one regime.
#[derive(Debug, PartialEq, Deserialize)]
pub(super) struct Regime {
    pub(super) regime: String,
    /// Seconds a call, one sample a block, by contender.
    pub(super) samples: BTreeMap<String, Vec<f64>>,
    /// Calls in each sample, by contender.
    pub(super) calls: BTreeMap<String, u64>,
    pub(super) skipped: Vec<SkippedContender>,
    /// Processors that others took; see [`super::Cpu`].
    #[serde(default)]
    pub(super) crowded: Option<f64>,
}

/// What was found against a case.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Finding {
    /// Outputs of timed calls are wrong.
    Wrong,
    /// Work outside of the stream.
    Escape,
    /// An exception.
    Raised,
}

/// The line's meaning; `None` for a line of somebody else, or without the nonce.
fn parse(text: &str, nonce: &str) -> Option<Line> {
    #[derive(Deserialize)]
    struct Signed {
        nonce: String,
    }
    let signed: Signed = serde_json::from_str(text).ok()?;
    if signed.nonce != nonce {
        return None;
    }
    serde_json::from_str(text).ok()
}

/// Runs the harness; every line of its own goes to `on_line` as it comes.
pub(super) fn run(
    request: &Request,
    python: &PythonRuntime,
    session: &Session,
    on_line: &mut dyn FnMut(Line),
) -> Result<Finished, BenchError> {
    let folder = files::scratch()?;
    for (name, text) in HARNESS {
        files::write(&folder.path().join(name), text)?;
    }
    let line = python
        .command()
        .arg(folder.path().join(HARNESS[0].0).display().to_string())
        .cwd(env::temp_dir())
        // What torch.compile makes is kept, so that a second measurement does not compile again; its worker processes
        // would take processor time from the contenders.
        .env("TORCHINDUCTOR_CACHE_DIR", session.cache.join("inductor").display().to_string())
        .env("TORCHINDUCTOR_COMPILE_THREADS", "1")
        .env("PYTHONDONTWRITEBYTECODE", "1");
    // Where the folder cannot be made, torch falls back to its own.
    let _own = files::create_dirs(&session.cache);
    let cases = u32::try_from(request.cases.len()).unwrap_or(u32::MAX);
    let sampling = Duration::try_from_secs_f64(4.0 * request.budget).unwrap_or(CASE_ALLOWANCE);
    let limits = Limits { output: OUTPUT, ..Limits::wall((sampling + CASE_ALLOWANCE).saturating_mul(cases)) };
    let input = serde_json::to_vec(request).unwrap_or_default();
    Ok(process::converse(&line, limits, &input, &mut |text| {
        if let Some(line) = parse(text, &request.nonce) {
            on_line(line);
        }
    })?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_needs_the_nonce() {
        let text =
            r#"{"nonce":"right","kind":"refused","case":"a/T=f32","finding":"wrong","reason":"far off"}"#;
        let refused =
            Line::Refused { case: "a/T=f32".into(), finding: Finding::Wrong, reason: "far off".into() };
        assert_eq!(parse(text, "right"), Some(refused));
        assert_eq!(parse(text, "other"), None);
        assert_eq!(parse("hello from a library", "right"), None);
        assert_eq!(parse(r#"{"nonce":"right","kind":"unheard-of"}"#, "right"), None);
    }

    #[test]
    fn the_lines_of_the_harness_are_understood() {
        let machine = r#"{"nonce":"n","kind":"machine","torch":"2.11.0","python":"3.12.3","threads":2,
            "device":null,"reason":"no GPU"}"#;
        let Some(Line::Machine(machine)) = parse(machine, "n") else { panic!("not understood") };
        assert_eq!((machine.device, machine.reason.as_deref()), (None, Some("no GPU")));
        let case = r#"{"nonce":"n","kind":"case","case":"c","bytes":12,"regimes":[{"regime":"host","sets":2,
            "samples":{"kernel":[1e-6]},"calls":{"kernel":200},"skipped":[{"name":"compile","reason":"no"}]}]}"#;
        let Some(Line::Case(case)) = parse(case, "n") else { panic!("not understood") };
        assert_eq!(case.regimes[0].samples["kernel"], [1e-6]);
        assert_eq!(case.regimes[0].skipped[0].name, "compile");
    }

    #[test]
    fn nonces_differ() {
        assert_ne!(nonce(), nonce());
    }
}
