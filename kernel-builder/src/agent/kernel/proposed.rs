//! A candidate held against the project that it is for.
//!
//! Owns: what of a proposal is taken and what is refused. Never: takes anything but device code, `[let]`, `[tune]` and `[launch]`
//! from one: the rest of op.toml is always the project's own.

use std::collections::BTreeMap;

use kernel_plan::diagnostic::{Problem, Severity, SourceFile};
use kernel_plan::spec::launch::Launch;
use kernel_plan::spec::{OpSpec, parse_op};

use super::{Kernel, KernelRefusal, OpTextError, difference, folder_of, is_code, merged, schedule};

/// The project's side.
#[derive(Debug, Clone)]
pub(crate) struct Origin {
    /// Its op.toml.
    pub(crate) op: OpSpec,
    /// The folder of its device code, empty for the project's own.
    pub(crate) folder: String,
    /// The name of its op.toml.
    pub(crate) op_name: String,
    /// Its reference: the path in the project, and the content.
    pub(crate) reference: (String, Vec<u8>),
}

/// What somebody hands in.
#[derive(Debug, Clone, Default)]
pub(crate) struct Proposal {
    /// Contents by path in the project.
    pub(crate) files: BTreeMap<String, Vec<u8>>,
    /// op.toml; the project's `[let]`, `[tune]` and `[launch]` if `None`.
    pub(crate) op: Option<String>,
    /// The reference, which must be the project's.
    pub(crate) reference: Option<Vec<u8>>,
}

/// A candidate that can be compiled.
#[derive(Debug, Clone)]
pub(crate) struct ProposedKernel {
    /// Its files and schedule.
    pub(crate) kernel: Kernel,
    /// The project's operation with the candidate's schedule.
    pub(crate) op: OpSpec,
    /// The path of its source in the project.
    pub(crate) source: String,
}

impl Origin {
    /// The project's side of an operation; `None` without `[launch]`.
    pub(crate) fn new(op: &OpSpec, op_name: &str, reference: Vec<u8>) -> Option<Self> {
        let source = op.launch.as_ref()?.source.value.as_str();
        let folder = folder_of(source).to_owned();
        let reference = (op.reference.file.value.to_string(), reference);
        Some(Self { op: op.clone(), folder, op_name: op_name.to_owned(), reference })
    }

    /// Whether a path can be device code of a candidate.
    pub(crate) fn is_code(&self, path: &str) -> bool {
        is_code(&self.folder, path) && !path.split('/').any(|part| part == "..")
    }

    /// Takes a proposal.
    ///
    /// # Errors
    /// It changes what is frozen, or is not a candidate; in one line.
    pub(crate) fn propose(&self, proposal: Proposal) -> Result<ProposedKernel, KernelRefusal> {
        let own = &self.op.file.text;
        let not_toml = |error: OpTextError| KernelRefusal::op_toml(&error.to_string());
        let schedule = match &proposal.op {
            Some(given) => {
                if let Some(key) = difference(own, given).map_err(not_toml)? {
                    return Err(KernelRefusal::frozen(&key));
                }
                // Read as it is written, for errors with lines of the candidate's own file.
                self.parsed(given)?;
                schedule(given).map_err(not_toml)?
            }
            None => schedule(own).map_err(not_toml)?,
        };
        if proposal.reference.is_some_and(|reference| reference != self.reference.1) {
            return Err(KernelRefusal::frozen(&self.reference.0));
        }
        let op = self.parsed(&merged(own, &schedule).map_err(not_toml)?)?;
        let source = match &op.launch {
            Some(Launch { source, .. }) => source.value.to_string(),
            None => return Err(KernelRefusal::op_toml("it has no [launch]")),
        };
        if !self.is_code(&source) {
            return Err(KernelRefusal::no_code(&source, &self.folder));
        }
        let mut files = proposal.files;
        files.retain(|name, _| self.is_code(name));
        let kernel = Kernel::new(files, &source, schedule)?;
        Ok(ProposedKernel { kernel, op, source })
    }

    fn parsed(&self, text: &str) -> Result<OpSpec, KernelRefusal> {
        let (op, problems) = parse_op(SourceFile::new(self.op_name.as_str(), text));
        let error = problems.iter().find(|problem| problem.severity == Severity::Error);
        match (op, error) {
            (Some(op), None) => Ok(op),
            (_, Some(problem)) => Err(KernelRefusal::op_toml(&line(problem))),
            (None, None) => Err(KernelRefusal::op_toml("it cannot be read")),
        }
    }
}

/// A problem in one line, with its place.
fn line(problem: &Problem) -> String {
    let place = problem.place().map(|place| format!("{}({}): ", place.file, place.start.line));
    format!("{}{}", place.unwrap_or_default(), problem.message)
}

#[cfg(test)]
mod tests {
    use super::*;

    const OP: &str = include_str!("../../../../examples/rms-norm-device/op.toml");
    const CODE: &str = include_str!("../../../../examples/rms-norm-device/rms_norm.cu");

    fn origin() -> Origin {
        let op = OP.replace("[workload.odd-hidden]\n", "[workload.odd-hidden]\nheld-out = true\n");
        let op = parse_op(SourceFile::new("op.toml", op)).0.unwrap();
        Origin::new(&op, "op.toml", b"def rms_norm(): ...".to_vec()).unwrap()
    }

    fn proposal(code: &str, op: Option<&str>) -> Proposal {
        let files = BTreeMap::from([("rms_norm.cu".to_owned(), code.as_bytes().to_vec())]);
        Proposal { files, op: op.map(str::to_owned), reference: None }
    }

    #[test]
    fn another_schedule_is_taken_and_everything_else_stays_the_projects() {
        let shown = super::super::visible(&origin().op.file.text).unwrap();
        let other = shown.replace("grid = [\"rows\"]", "grid = [\"rows + 0\"]");
        let proposed = origin().propose(proposal(CODE, Some(&other))).unwrap();
        assert_eq!(proposed.source, "rms_norm.cu");
        assert!(
            proposed.op.file.text.contains("rows + 0") && proposed.op.file.text.contains("held-out = true")
        );
        let same = origin().propose(proposal(CODE, None)).unwrap();
        assert_ne!(proposed.kernel.id(), same.kernel.id());
        assert_eq!(same.kernel.id(), origin().propose(proposal(CODE, Some(&shown))).unwrap().kernel.id());
    }

    #[test]
    fn what_is_frozen_is_refused_by_its_key() {
        let refused = |proposal| origin().propose(proposal).map(|_| ()).unwrap_err();
        let found = refused(proposal(CODE, Some(&OP.replace("roundings = 1", "roundings = 8"))));
        assert_eq!(found.code, "agent::frozen");
        assert!(found.text.starts_with("`tolerance.roundings` differs"), "{found}");
        let reference = Some(b"def rms_norm(): pass".to_vec());
        let found = refused(Proposal { reference, ..proposal(CODE, None) });
        assert!(found.code == "agent::frozen" && found.text.contains("`reference.py`"), "{found}");
        let reference = Some(b"def rms_norm(): ...".to_vec());
        assert!(origin().propose(Proposal { reference, ..proposal(CODE, None) }).is_ok());
    }

    #[test]
    fn a_wrong_schedule_is_told_with_the_line_of_the_candidates_file() {
        let shown = super::super::visible(&origin().op.file.text).unwrap();
        let wrong = shown.replace("grid = [\"rows\"]", "grid = [\"columns\"]");
        let line = 1 + wrong.lines().position(|line| line.contains("columns")).unwrap();
        let found = origin().propose(proposal(CODE, Some(&wrong))).unwrap_err();
        assert_eq!(found.code, "agent::op_toml");
        assert!(
            found.text.contains(&format!("op.toml({line})")) && found.text.contains("columns"),
            "{found}"
        );
        let (before, rest) = shown.split_once("\n[launch]\n").unwrap();
        let none = format!("{before}\n[workload{}", rest.split_once("[workload").unwrap().1);
        let found = origin().propose(proposal(CODE, Some(&none))).unwrap_err();
        assert!(found.text.contains("no [launch]"), "{found}");
        for source in ["../rms_norm.cu", "reference.py", ".hidden/x.cu"] {
            let other = shown.replace("source = \"rms_norm.cu\"", &format!("source = \"{source}\""));
            let found = origin().propose(proposal(CODE, Some(&other))).unwrap_err();
            assert!(["agent::no_source", "agent::op_toml"].contains(&found.code), "{found}");
        }
    }
}
