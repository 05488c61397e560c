//! What must hold between the files of a project, one file per rule.
//!
//! Owns: the list of rules, what several of them ask of a project, and the order of what they report.
//! Never: lists a folder or opens a file; the caller says which files there are and what is in them.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;

use crate::diagnostic::{Problem, SourceFile, in_words};
use crate::units::{BackendId, Capability, RelPath, Version};
use crate::variant::Matrix;

use super::build::{Framework, Kernel, VersionRange};
use super::scan::{self, Compiled, Sources, sections};
use super::{BuildSpec, OpSpec, Spanned};

mod backend_without_kernel;
mod capability_toolkit;
mod cuda_minver;
mod cuda_range;
mod duplicate_backend;
mod duplicate_capability;
mod fixed_namespace;
mod foreign_dependency;
mod foreign_import;
mod missing_dependency;
mod missing_package;
mod pybind;
mod python_depends;
mod repeated_source;
mod self_import;
mod source_case;
mod source_missing;
mod torch_range;
mod undeclared_backend;
mod unknown_capability;
mod unlisted_header;
mod unread_source;
mod unreadable_source;
mod unstable_header;
mod unused_dependency;
mod useless_ptx;
mod withdrawn_arch;

/// A project as far as its specifications, file names and sources go.
#[derive(Debug, Clone, Copy)]
pub struct Project<'a> {
    /// build.toml.
    pub build: &'a BuildSpec,
    /// op.toml, where the project has one.
    pub op: Option<&'a OpSpec>,
    /// Every file of the project, from its folder.
    pub files: &'a BTreeSet<RelPath>,
    /// What is in those of them that are compiled or shipped.
    pub sources: &'a Sources,
    /// Every variant that is built.
    pub matrix: &'a Matrix,
}

/// One rule.
#[derive(Debug, Clone, Copy)]
pub struct Rule {
    /// The name of its file and of its code.
    pub name: &'static str,
    /// Everything that breaks it.
    pub check: fn(&Project<'_>) -> Vec<Problem>,
}

/// Every rule, in the order in which they run.
pub const RULES: &[Rule] = &[
    Rule { name: "backend_without_kernel", check: backend_without_kernel::check },
    Rule { name: "capability_toolkit", check: capability_toolkit::check },
    Rule { name: "cuda_minver", check: cuda_minver::check },
    Rule { name: "cuda_range", check: cuda_range::check },
    Rule { name: "duplicate_backend", check: duplicate_backend::check },
    Rule { name: "duplicate_capability", check: duplicate_capability::check },
    Rule { name: "fixed_namespace", check: fixed_namespace::check },
    Rule { name: "foreign_dependency", check: foreign_dependency::check },
    Rule { name: "foreign_import", check: foreign_import::check },
    Rule { name: "missing_dependency", check: missing_dependency::check },
    Rule { name: "missing_package", check: missing_package::check },
    Rule { name: "pybind", check: pybind::check },
    Rule { name: "python_depends", check: python_depends::check },
    Rule { name: "repeated_source", check: repeated_source::check },
    Rule { name: "self_import", check: self_import::check },
    Rule { name: "source_case", check: source_case::check },
    Rule { name: "source_missing", check: source_missing::check },
    Rule { name: "torch_range", check: torch_range::check },
    Rule { name: "undeclared_backend", check: undeclared_backend::check },
    Rule { name: "unknown_capability", check: unknown_capability::check },
    Rule { name: "unlisted_header", check: unlisted_header::check },
    Rule { name: "unread_source", check: unread_source::check },
    Rule { name: "unreadable_source", check: unreadable_source::check },
    Rule { name: "unstable_header", check: unstable_header::check },
    Rule { name: "unused_dependency", check: unused_dependency::check },
    Rule { name: "useless_ptx", check: useless_ptx::check },
    Rule { name: "withdrawn_arch", check: withdrawn_arch::check },
];

/// Everything that breaks a rule: build.toml first, then op.toml, then sources by path, each in file order.
pub fn check(project: &Project<'_>) -> Vec<Problem> {
    let mut problems: Vec<_> = RULES.iter().flat_map(|rule| (rule.check)(project)).collect();
    let op = project.op.map(|op| op.file.name.as_str());
    in_order(&mut problems, &project.build.file.name, op.unwrap_or_default());
    problems
}

/// Sorts problems as they are told: those of build.toml, of op.toml, of other files by name, each in file order.
pub fn in_order(problems: &mut [Problem], build: &str, op: &str) {
    problems.sort_by_cached_key(|problem| {
        let name = problem.source.as_ref().map(|file| file.name.clone()).unwrap_or_default();
        (name != build, name != op, name, problem.offset())
    });
}

impl<'a> Project<'a> {
    /// Span of the file in build.toml or op.toml, or of the kernel's name if neither lists the file.
    fn mention(&self, path: &RelPath) -> (&'a Arc<SourceFile>, &'a Range<usize>, &'static str) {
        match self.named_files().into_iter().find(|(_, listed)| listed.value == *path) {
            Some((file, listed)) => (file, &listed.span, "listed here"),
            None => (&self.build.file, &self.build.general.name.span, "of this kernel"),
        }
    }

    /// Every path that has to be a file, with the specification that names it.
    fn named_files(&self) -> Vec<(&'a Arc<SourceFile>, &'a Spanned<RelPath>)> {
        let build = sections(self.build).flat_map(|section| section.src);
        let mut named: Vec<_> = build.map(|path| (&self.build.file, path)).collect();
        if let Some(op) = self.op {
            // Of a project for the processor alone nobody starts device code.
            let launched = op.launch.iter().filter(|_| self.build.declares(BackendId::Cuda));
            let launched = launched.map(|launch| &launch.source);
            named.extend([&op.reference.file].into_iter().chain(launched).map(|path| (&op.file, path)));
        }
        named
    }

    /// Every path of build.toml that has to be a folder.
    fn named_folders(&self) -> Vec<&'a Spanned<RelPath>> {
        sections(self.build).flat_map(|section| section.include).collect()
    }

    /// The file that `path` would be if upper and lower case were the same.
    fn other_case(&self, path: &RelPath) -> Option<&'a str> {
        // The usual case first: all files are only compared with what is not among them.
        if self.files.contains(path) {
            return None;
        }
        let same = |known: &&RelPath| known.as_str().eq_ignore_ascii_case(path.as_str());
        self.files.iter().find(same).map(RelPath::as_str)
    }

    /// The folder that `path` would be if upper and lower case were the same.
    fn other_case_of_folder(&self, path: &RelPath) -> Option<&'a str> {
        if self.files.iter().any(|known| known.is_under(path)) {
            return None;
        }
        let length = path.as_str().len();
        self.files.iter().find_map(|known| {
            let (folder, rest) = known.as_str().split_at_checked(length)?;
            (rest.starts_with('/') && folder.eq_ignore_ascii_case(path.as_str())).then_some(folder)
        })
    }

    /// Whether the project brings a header of its own by this name, to be found by a flag.
    fn has_vendored(&self, header: &str) -> bool {
        let ends =
            |known: &RelPath| known.as_str().strip_suffix(header).is_some_and(|rest| rest.ends_with('/'));
        self.files.iter().any(ends)
    }

    /// Every file that is compiled, once for each declared backend that has a kernel.
    fn compiled(&self) -> Vec<(Compiled<'a>, BackendId)> {
        let build = self.build;
        let mut found = Vec::new();
        for backend in BackendId::ALL.iter().copied().filter(|backend| build.declares(*backend)) {
            let kernels: Vec<_> = build.kernels_of(backend).map(scan::of_kernel).collect();
            let binding = scan::binding(build).filter(|_| !kernels.is_empty());
            for section in binding.into_iter().chain(kernels) {
                let compiled = self.sources.compiled(&section, backend, self.files);
                found.extend(compiled.into_iter().map(|compiled| (compiled, backend)));
            }
        }
        found
    }

    /// Every list of capabilities.
    fn capability_lists(&self) -> impl Iterator<Item = &'a [Spanned<Capability>]> {
        let noarch = match &self.build.framework {
            Framework::TorchNoarch(noarch) => noarch.cuda_capabilities.as_slice(),
            _ => &[],
        };
        let kernels = self.build.kernels.iter().map(|kernel| kernel.cuda_capabilities.as_slice());
        std::iter::once(noarch).chain(kernels)
    }

    /// The CUDA releases that the project is built with, oldest first.
    fn cuda(&self) -> Vec<Version> {
        let all = self.matrix.cuda_versions().into_iter();
        all.filter(|version| self.build.general.cuda.contains(*version)).collect()
    }

    /// Those of them that one kernel is built with.
    fn cuda_of(&self, kernel: &Kernel) -> Vec<Version> {
        let above = |version: &Version| kernel.cuda_minver.as_ref().is_none_or(|min| min.value <= *version);
        self.cuda().into_iter().filter(above).collect()
    }
}

/// How many problems of one kind are told of one source. More are the same mistake, and would bury the rest.
const MOST_OF_A_KIND: usize = 50;

/// Without those that point where an earlier one points, as a file may be compiled several times; and of each file the
/// first ones, the last of which says how many there are more. All are of one rule.
fn once(mut problems: Vec<Problem>) -> Vec<Problem> {
    problems.sort_by_key(Problem::offset);
    let mut told = BTreeSet::new();
    let mut counts = BTreeMap::new();
    problems.retain(|problem| {
        let name = problem.source.as_ref().map(|file| file.name.clone());
        let new = told.insert((name.clone(), problem.offset()));
        let count = counts.entry(name).or_insert(0_usize);
        *count += usize::from(new);
        new && *count <= MOST_OF_A_KIND
    });
    for (name, count) in counts.into_iter().filter(|(_, count)| *count > MOST_OF_A_KIND) {
        let mut of_file = problems.iter_mut().rev();
        let last = of_file.find(|problem| problem.source.as_ref().map(|file| &file.name) == name.as_ref());
        if let Some(last) = last {
            last.message += &format!(", and {} more of this kind in the file", count - MOST_OF_A_KIND);
        }
    }
    problems
}

/// Versions in one line: `12.6, 12.8 and 13.0`.
fn list(versions: &[Version]) -> String {
    in_words(&versions.iter().map(ToString::to_string).collect::<Vec<_>>())
}

/// An error for a range that no version of `what` lies in; `None` where the range has no bound or excludes itself.
fn range_problem(
    code: &'static str,
    what: &str,
    file: &Arc<SourceFile>,
    range: &VersionRange,
) -> Option<Problem> {
    let (bounds, labels) = match (&range.min, &range.max) {
        (Some(min), Some(max)) if min.value > max.value => return None,
        (Some(min), Some(max)) if min.value == max.value => (format!("{}", min.value), vec![min, max]),
        (Some(min), Some(max)) => (format!("{} to {}", min.value, max.value), vec![min, max]),
        (Some(min), None) => (format!("{} or later", min.value), vec![min]),
        (None, Some(max)) => (format!("{} or earlier", max.value), vec![max]),
        (None, None) => return None,
    };
    let mut problem = Problem::error(code, format!("no variant is built for {what} {bounds}"));
    for bound in labels {
        problem = problem.at(file, &bound.span, "this bound");
    }
    Some(problem)
}
