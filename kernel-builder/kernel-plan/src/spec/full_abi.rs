//! What in a project's sources needs torch's full ABI, so that a build serves one torch alone.
//!
//! Owns: finding the includes, the registrations and the names that force it, each with its first place.
//! Never: an error, and never a guess: what may not be compiled is no reason.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde::Serialize;

use crate::diagnostic::SourceFile;
use crate::units::{BackendId, RelPath};

use super::scan::{self, Compiled, Sources};
use super::{BuildSpec, headers};

/// What is known of one backend.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Findings {
    /// Everything that forces the full ABI: includes first, then registrations, then names; each once.
    pub reasons: Vec<Reason>,
    /// Whether something could not be looked into, or may be compiled: then no reason does not mean that there is none.
    pub doubtful: bool,
}

impl Findings {
    /// Whether the sources do without the full ABI for sure.
    pub fn nothing_forces(&self) -> bool {
        self.reasons.is_empty() && !self.doubtful
    }
}

/// One thing that forces the full ABI.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Reason {
    /// The file of its first place, as the project shows it.
    pub file: String,
    /// The line of its first place, from 1.
    pub line: usize,
    /// What is done there.
    pub what: TorchUse,
    /// The header, macro or name.
    pub name: String,
    /// How many places there are.
    pub places: usize,
}

/// What a source does with something of torch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum TorchUse {
    /// It includes a header outside of the stable ABI.
    Includes,
    /// It registers operators with a macro of torch/library.h.
    Registers,
    /// It uses a name outside of `torch::stable` and `torch::headeronly`.
    Uses,
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = match self.what {
            TorchUse::Includes => "includes",
            TorchUse::Registers => "registers with",
            TorchUse::Uses => "uses",
        };
        write!(f, "{}:{} {word} {}", self.file, self.line, self.name)?;
        if self.places > 1 { write!(f, " ({} places)", self.places) } else { Ok(()) }
    }
}

/// How the macros of torch/library.h begin, and those of the hub's registration.h that stand for them.
const MACRO: &str = "TORCH_LIBRARY";

/// The namespaces whose names keep their meaning.
const STABLE: &[&str] = &["torch::stable", "torch::headeronly"];

/// What forces the full ABI for one backend that the project compiles.
pub fn findings(
    build: &BuildSpec,
    backend: BackendId,
    files: &BTreeSet<RelPath>,
    sources: &Sources,
) -> Findings {
    let mut found = FullAbiFindings::default();
    let sections = scan::binding(build).into_iter().chain(build.kernels_of(backend).map(scan::of_kernel));
    let compiled: Vec<Compiled<'_>> =
        sections.flat_map(|section| sources.compiled(&section, backend, files)).collect();
    let mut seen = BTreeSet::new();
    for one in compiled.iter().filter(|one| seen.insert(one.file.name.clone())) {
        found.look_at(one, backend);
    }
    // Names of c10 are in the header-only part as well: without another header they come from there.
    let foreign = found.places.keys().any(|(what, _)| *what != TorchUse::Uses) || found.doubtful;
    found.places.retain(|(what, _), _| *what != TorchUse::Uses || foreign);
    let mut reasons: Vec<(usize, Reason)> = found.places.into_values().collect();
    reasons.sort_by_key(|(order, reason)| (reason.what, *order));
    let unread = sources.unread().next().is_some();
    Findings {
        reasons: reasons.into_iter().map(|(_, reason)| reason).collect(),
        doubtful: found.doubtful || unread,
    }
}

#[derive(Default)]
struct FullAbiFindings {
    /// By what and name, with the order of the first place.
    places: BTreeMap<(TorchUse, String), (usize, Reason)>,
    doubtful: bool,
}

impl FullAbiFindings {
    fn look_at(&mut self, compiled: &Compiled<'_>, backend: BackendId) {
        for (include, certain) in &compiled.outside {
            if headers::is_unstable(&include.path) || headers::is_pybind(&include.path) {
                let certain = Some(*certain).filter(|certain| *certain);
                self.add(compiled.file, TorchUse::Includes, &include.path, include.span.start, certain);
            }
        }
        let certain = |condition: Option<bool>| match condition {
            Some(false) => Some(false),
            Some(true) if compiled.certain => Some(true),
            _ => None,
        };
        for registration in &compiled.cpp.registrations {
            if registration.name.starts_with(MACRO) {
                let certain = certain(registration.condition.under(backend));
                let start = registration.span.start;
                self.add(compiled.file, TorchUse::Registers, &registration.name, start, certain);
            }
        }
        for name in &compiled.cpp.names {
            let stable = STABLE.iter().any(|stable| {
                name.path.strip_prefix(stable).is_some_and(|rest| rest.is_empty() || rest.starts_with("::"))
            });
            // A doubtful name is nothing to doubt: what brings it is an include.
            let what = if name.path.starts_with(MACRO) { TorchUse::Registers } else { TorchUse::Uses };
            if !stable && certain(name.condition.under(backend)) == Some(true) {
                self.add(compiled.file, what, &name.path, name.span.start, Some(true));
            }
        }
    }

    /// `certain`: it is compiled, it is not, or nobody knows.
    fn add(&mut self, file: &SourceFile, what: TorchUse, name: &str, start: usize, certain: Option<bool>) {
        match certain {
            Some(true) => {}
            Some(false) => return,
            None => {
                self.doubtful = true;
                return;
            }
        }
        let order = self.places.len();
        let reason = || Reason {
            file: file.name.clone(),
            line: file.position(start).line,
            what,
            name: name.to_owned(),
            places: 0,
        };
        let (_, reason) = self.places.entry((what, name.to_owned())).or_insert_with(|| (order, reason()));
        reason.places += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::parse_build;

    const BUILD: &str = "[general]\nname = \"norm\"\nversion = 1\nedition = 5\nlicense = \"MIT\"\n\
        backends = [\"cpu\", \"cuda\"]\n[torch]\nsrc = [\"ext/b.cpp\", \"ext/b.h\"]\n\
        [kernel.a]\nbackend = \"cpu\"\ndepends = []\nsrc = [\"a.cpp\"]\n\
        [kernel.b]\nbackend = \"cuda\"\ndepends = []\nsrc = [\"a.cu\"]\n";

    /// The reasons for cuda, and whether there is doubt, in a project of these files.
    #[track_caller]
    fn check(texts: &[(&str, &str)], want: &[&str], doubtful: bool) {
        let (build, problems) = parse_build(SourceFile::new("build.toml", BUILD));
        assert!(problems.is_empty());
        let build = build.expect("a spec");
        let files: BTreeSet<RelPath> = texts.iter().map(|(name, _)| name.parse().expect("a path")).collect();
        let sources = Sources::gather(&build, &files, &mut |path| {
            let (name, text) = texts.iter().find(|(name, _)| *name == path.as_str()).expect("a text");
            Ok(SourceFile::new(*name, *text))
        });
        let found = findings(&build, BackendId::Cuda, &files, &sources);
        let reasons: Vec<_> = found.reasons.iter().map(ToString::to_string).collect();
        assert_eq!(
            (reasons, found.doubtful),
            (want.iter().map(|text| (*text).to_owned()).collect(), doubtful)
        );
    }

    #[test]
    fn includes_come_first_each_with_its_first_place() {
        check(
            &[
                (
                    "ext/b.cpp",
                    "#include \"b.h\"\n#include <torch/library.h>\nTORCH_LIBRARY_EXPAND(A, m) {}\n",
                ),
                ("ext/b.h", "#pragma once\n#include <torch/all.h>\nat::Tensor f(at::Tensor x);\n"),
                (
                    "a.cu",
                    "// torch/x.h\n#include <torch/all.h>\nvoid f() { TORCH_LIBRARY(x, m) {} c10::f(); }\n",
                ),
            ],
            &[
                "ext/b.cpp:2 includes torch/library.h",
                "ext/b.h:2 includes torch/all.h (2 places)",
                "ext/b.cpp:3 registers with TORCH_LIBRARY_EXPAND",
                "a.cu:3 registers with TORCH_LIBRARY",
                "ext/b.h:3 uses at::Tensor (2 places)",
                "a.cu:3 uses c10::f",
            ],
            false,
        );
    }

    #[test]
    fn the_stable_abi_and_other_backends_are_no_reason() {
        let stable = "#include <torch/csrc/stable/tensor.h>\n#include <torch/headeronly/util/Half.h>\n\
            torch::stable::Tensor f(c10::Half x);\nSTABLE_TORCH_LIBRARY_EXPAND(A, m) {}\n";
        let of_cpu = "#ifdef CPU_KERNEL\n#include <ATen/ATen.h>\nat::Tensor g();\n#endif\n";
        check(&[("ext/b.cpp", stable), ("a.cpp", "#include <torch/all.h>"), ("a.cu", of_cpu)], &[], false);
        check(
            &[("a.cu", "using torch::stable_sort;\n#include <ATen/Dispatch.h>\n")],
            &["a.cu:2 includes ATen/Dispatch.h", "a.cu:1 uses torch::stable_sort"],
            false,
        );
    }

    #[test]
    fn what_nobody_knows_is_no_reason_and_leaves_doubt() {
        check(&[("a.cu", "#ifdef MINE\n#include <torch/all.h>\n#endif\n")], &[], true);
    }
}
