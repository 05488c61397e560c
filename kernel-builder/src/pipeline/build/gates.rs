//! The gates of `build`: every binary is read before anything may package it.
//!
//! Owns: where their verdicts are remembered, and how they are told. Never: runs what was built.

use std::path::{Path, PathBuf};

use crate::base::session::Session;
use crate::compile::artifact::Artifact;
use crate::exit::{self, Failure};
use crate::pipeline::judge::Refusal;
use crate::pipeline::project::Project;
use crate::verify::{self, Gated, Options, Outcome};

/// Where the verdict of the gates on a variant lies in a project.
fn memory(project: &Path, variant: &str) -> PathBuf {
    project.join(".kernelwright/gates").join(format!("{variant}.json"))
}

/// What the gates say of an artifact that no gate refuses.
///
/// # Errors
/// Every refusal, with the code of its check; or the artifact could not be read.
pub(crate) fn judge(
    project: &Project,
    artifact: &Artifact,
    options: &Options,
    session: &Session,
) -> Result<Gated, Failure> {
    let variant = &artifact.variant;
    let log = memory(&project.dir, variant);
    let gated = verify::gate(artifact, options, &log, session)?;
    let refusals = gated.ended(Outcome::Refused).map(|check| {
        miette::Report::new(Refusal {
            variant: variant.clone(),
            code: check.code.clone(),
            summary: check.summary.clone(),
            log: log.clone(),
        })
    });
    let reports: Vec<_> = refusals.collect();
    if reports.is_empty() { Ok(gated) } else { Err(Failure { exit: exit::VERIFY, reports }) }
}

/// What a table says: `gates: 4 passed`, `gates: 3 passed, 1 warned`.
pub(crate) fn line(gated: &Gated) -> String {
    let counted = [(Outcome::Passed, "passed"), (Outcome::Warned, "warned"), (Outcome::Skipped, "skipped")];
    let counted = counted.map(|(outcome, word)| (gated.ended(outcome).count(), word));
    let told: Vec<_> = counted
        .iter()
        .filter(|(count, _)| *count > 0)
        .map(|(count, word)| format!("{count} {word}"))
        .collect();
    if told.is_empty() { "no gates: no library".to_owned() } else { format!("gates: {}", told.join(", ")) }
}
