//! The architectures in the binary are those that build.toml declares.
//!
//! Owns: the comparison, and how a capability becomes an architecture. Never: trusts the compiler's command line.

use std::collections::BTreeSet;

use kernel_plan::units::Capability;
use serde_json::json;

use super::super::code_error::CodeError;
use super::super::evidence::{CheckResult, Outcome};
use super::super::fatbin::{self, Entry, Kind};
use super::super::{Subject, VerifyError, cubin, elf};
use crate::base::causes::chain;
use crate::base::files;

const CODE: &str = "verify::archs";

/// Missing or additional machine code or PTX refuses the artifact; of a build for something else any does, and there is
/// nothing to say where there is none.
pub(crate) fn check(subject: &mut Subject<'_>) -> Result<Vec<CheckResult>, VerifyError> {
    if subject.artifact.backend != "cuda" {
        let Some(library) = &subject.artifact.library else { return Ok(vec![]) };
        let bytes = files::read(library)?;
        // What is no library is refused by the gates that follow.
        let found = elf::interface(&bytes).is_ok().then(|| judged(&bytes, Some(&[])));
        return Ok(found.into_iter().filter(|check| check.outcome == Outcome::Refused).collect());
    }
    let result = |outcome, summary: String, facts| {
        vec![CheckResult::new("architectures", CODE, outcome, summary, facts)]
    };
    let Some(library) = &subject.artifact.library else {
        let summary = "no library: a variant of Python only has no device code".to_owned();
        return Ok(result(Outcome::Skipped, summary, json!({})));
    };
    Ok(vec![judged(&files::read(library)?, Some(&subject.artifact.capabilities))])
}

/// The architectures in a library, held against those that are declared where anything is.
pub(in crate::verify) fn judged(library: &[u8], capabilities: Option<&[String]>) -> CheckResult {
    let result =
        |outcome, summary: String, facts| CheckResult::new("architectures", CODE, outcome, summary, facts);
    let found = match entries(library).and_then(|entries| inside(&entries)) {
        Ok(found) => found,
        Err(error) => {
            let summary = format!("the device code cannot be read: {}", chain(&error));
            return result(Outcome::Refused, summary, json!({}));
        }
    };
    let listed = || joined(&found.iter().cloned().collect::<Vec<_>>());
    let Some(capabilities) = capabilities else {
        let outcome = if found.is_empty() { Outcome::Passed } else { Outcome::Skipped };
        let note = if found.is_empty() { "" } else { "; there are no declared capabilities to compare with" };
        return result(outcome, format!("{}{note}", listed()), json!({ "found": found }));
    };
    let declared = declared(capabilities);
    let missing: Vec<_> = declared.difference(&found).cloned().collect();
    let extra: Vec<_> = found.difference(&declared).cloned().collect();
    let facts = json!({ "declared": declared, "found": found, "missing": missing, "extra": extra });
    let (outcome, summary) = match (missing.as_slice(), extra.as_slice()) {
        ([], []) => (Outcome::Passed, listed()),
        (missing, []) => (Outcome::Refused, format!("declared but not in the binary: {}", joined(missing))),
        ([], extra) => (Outcome::Refused, format!("in the binary but not declared: {}", joined(extra))),
        (missing, extra) => {
            let text = format!("not in the binary: {}; not declared: {}", joined(missing), joined(extra));
            (Outcome::Refused, text)
        }
    };
    result(outcome, summary, facts)
}

/// The device code of a library; none when it has no section for it.
pub(in crate::verify) fn entries(library: &[u8]) -> Result<Vec<Entry>, CodeError> {
    Ok(elf::section(library, ".nv_fatbin")?.map_or(Ok(vec![]), fatbin::entries)?)
}

/// `sm_90a` for machine code and `compute_120` for PTX; the code itself is asked, not only the container.
fn inside(entries: &[Entry]) -> Result<BTreeSet<String>, CodeError> {
    let mut found = BTreeSet::new();
    for entry in entries {
        let digits = entry.arch.trim_end_matches(['a', 'f']);
        match entry.kind {
            Kind::Cubin => {
                let actual = cubin::architecture(&entry.payload)?;
                if actual.to_string() != digits {
                    return Err(CodeError::OtherCode { label: entry.arch.clone(), actual });
                }
                found.insert(format!("sm_{}", entry.arch));
            }
            Kind::Ptx => {
                let text = String::from_utf8_lossy(&entry.payload);
                let target = format!(".target sm_{}", entry.arch);
                let named =
                    text.lines().any(|line| line.split(',').next().is_some_and(|line| line.trim() == target));
                if !named {
                    return Err(CodeError::OtherTarget(entry.arch.clone()));
                }
                found.insert(format!("compute_{}", entry.arch));
            }
        }
    }
    Ok(found)
}

fn declared(capabilities: &[String]) -> BTreeSet<String> {
    let mut declared = BTreeSet::new();
    for text in capabilities {
        // The plan was made from parsed capabilities, so each of them parses; another text matches no architecture.
        let Ok(capability) = text.parse::<Capability>() else {
            declared.insert(text.clone());
            continue;
        };
        declared.insert(format!("sm_{}", capability.digits()));
        if capability.ptx {
            declared.insert(format!("compute_{}", capability.digits()));
        }
    }
    declared
}

fn joined(archs: &[String]) -> String {
    if archs.is_empty() { "no device code".to_owned() } else { archs.join(", ") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn capabilities_become_architectures() {
        let capabilities = ["8.0", "9.0a", "10.0f", "12.0+PTX"].map(str::to_owned);
        let expected = ["compute_120", "sm_100f", "sm_120", "sm_80", "sm_90a"].map(str::to_owned);
        assert_eq!(declared(&capabilities), BTreeSet::from(expected));
    }

    #[test]
    fn ptx_must_be_for_the_target_of_its_label() {
        let entry = |arch: &str, text: &str| Entry {
            kind: Kind::Ptx,
            arch: arch.to_owned(),
            payload: text.as_bytes().to_vec(),
        };
        assert!(inside(&[entry("120", ".version 9.0\n.target sm_120\n")]).is_ok());
        assert!(inside(&[entry("120", ".version 9.0\n.target sm_120, debug\n")]).is_ok());
        assert!(inside(&[entry("120", ".version 9.0\n.target sm_120a\n")]).is_err());
    }
}
