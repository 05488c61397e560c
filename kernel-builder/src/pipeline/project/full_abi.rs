//! Why a project is built for each torch anew, and what the stable ABI would save.
//!
//! Owns: the sentences. Never: finds a reason (kernel-plan does), changes what is built.

use std::collections::BTreeSet;

use kernel_plan::spec::full_abi::{self, Findings};
use kernel_plan::units::BackendId;
use kernel_plan::variant::{Matrix, Provision, Saving, saving};
use serde::Serialize;

use crate::pipeline::project::Project;

/// How many reasons a sentence has.
const NAMED: usize = 3;

/// A backend that is built with torch's full ABI.
#[derive(Debug, Serialize)]
pub(crate) struct FullAbi {
    /// The backend.
    pub(crate) backend: BackendId,
    /// Builds as it is, and with the stable ABI.
    #[serde(flatten)]
    pub(crate) saving: Saving,
    /// What forces it.
    #[serde(flatten)]
    pub(crate) findings: Findings,
}

/// Every backend of the project that is built with the full ABI, in the order of build.toml.
pub(crate) fn find(project: &Project, matrix: &Matrix, provision: &Provision) -> Vec<FullAbi> {
    let Project { build, files, sources, .. } = project;
    let mut seen = BTreeSet::new();
    let backends = build.general.backends.iter().map(|backend| backend.value);
    let full = backends.filter(|backend| seen.insert(*backend)).filter_map(|backend| {
        let saving = saving(build, matrix, provision, backend)?;
        Some(FullAbi { backend, saving, findings: full_abi::findings(build, backend, files, sources) })
    });
    full.collect()
}

/// One sentence a backend; backends with the same reasons share one. What is in doubt is not spoken of.
pub(crate) fn sentences(found: &[FullAbi]) -> Vec<String> {
    let mut groups: Vec<(&Findings, Vec<&FullAbi>)> = Vec::new();
    for one in found.iter().filter(|one| !one.findings.reasons.is_empty() || one.findings.nothing_forces()) {
        match groups.iter_mut().find(|(findings, _)| **findings == one.findings) {
            Some((_, group)) => group.push(one),
            None => groups.push((&one.findings, vec![one])),
        }
    }
    groups.iter().map(|(findings, group)| sentence(findings, group)).collect()
}

fn sentence(findings: &Findings, group: &[&FullAbi]) -> String {
    let backends: Vec<&str> = group.iter().map(|one| one.backend.as_str()).collect();
    let backends = backends.join(" and ");
    let sum = |of: fn(&Saving) -> usize| group.iter().map(|one| of(&one.saving)).sum::<usize>();
    let (builds, stable) = (sum(|saving| saving.builds), sum(|saving| saving.stable));
    let floor = group.iter().map(|one| one.saving.floor).max().unwrap_or_else(|| group[0].saving.floor);
    if findings.reasons.is_empty() {
        return format!(
            "nothing in the sources for {backends} needs torch's full ABI: `stable-abi = \"{floor}\"` in [torch] \
             would replace {builds} by {stable}",
            builds = counted(builds)
        );
    }
    let mut reasons: Vec<String> = findings.reasons.iter().take(NAMED).map(ToString::to_string).collect();
    match findings.reasons.len() - reasons.len() {
        0 => {}
        1 => reasons.push("and 1 more reason".to_owned()),
        more => reasons.push(format!("and {more} more reasons")),
    }
    let needs = if group.len() == 1 { "needs" } else { "need" };
    format!(
        "{backends} {needs} torch's full ABI, so every torch has its own builds, {} instead of {stable}: {}",
        counted(builds),
        reasons.join("; ")
    )
}

fn counted(builds: usize) -> String {
    if builds == 1 { "1 build".to_owned() } else { format!("{builds} builds") }
}
