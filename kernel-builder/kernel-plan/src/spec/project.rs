//! What rules ask of a project.
//!
//! Owns: the project as the caller hands it over, and questions that several rules ask. Never: reports a problem.

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Arc;

use crate::diagnostic::SourceFile;
use crate::spec::build::{Framework, Kernel};
use crate::spec::scan::{self, Compiled, Sources, sections};
use crate::spec::{BuildSpec, OpSpec, Spanned};
use crate::units::{BackendId, Capability, RelPath, Version};
use crate::variant::Matrix;

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

impl<'a> Project<'a> {
    /// Span of the file in build.toml or op.toml, or of the kernel's name if neither lists the file.
    pub(super) fn mention(&self, path: &RelPath) -> (&'a Arc<SourceFile>, &'a Range<usize>, &'static str) {
        match self.named_files().into_iter().find(|(_, listed)| listed.value == *path) {
            Some((file, listed)) => (file, &listed.span, "listed here"),
            None => (&self.build.file, &self.build.general.name.span, "of this kernel"),
        }
    }

    /// Every path that has to be a file, with the specification that names it.
    pub(super) fn named_files(&self) -> Vec<(&'a Arc<SourceFile>, &'a Spanned<RelPath>)> {
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
    pub(super) fn named_folders(&self) -> Vec<&'a Spanned<RelPath>> {
        sections(self.build).flat_map(|section| section.include).collect()
    }

    /// The file that `path` would be if upper and lower case were the same.
    pub(super) fn other_case(&self, path: &RelPath) -> Option<&'a str> {
        // The usual case first: all files are only compared with what is not among them.
        if self.files.contains(path) {
            return None;
        }
        let same = |known: &&RelPath| known.as_str().eq_ignore_ascii_case(path.as_str());
        self.files.iter().find(same).map(RelPath::as_str)
    }

    /// The folder that `path` would be if upper and lower case were the same.
    pub(super) fn other_case_of_folder(&self, path: &RelPath) -> Option<&'a str> {
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
    pub(super) fn has_vendored(&self, header: &str) -> bool {
        let ends =
            |known: &RelPath| known.as_str().strip_suffix(header).is_some_and(|rest| rest.ends_with('/'));
        self.files.iter().any(ends)
    }

    /// Every file that is compiled, once for each declared backend that has a kernel.
    pub(super) fn compiled(&self) -> Vec<(Compiled<'a>, BackendId)> {
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
    pub(super) fn capability_lists(&self) -> impl Iterator<Item = &'a [Spanned<Capability>]> {
        let noarch = match &self.build.framework {
            Framework::TorchNoarch(noarch) => noarch.cuda_capabilities.as_slice(),
            _ => &[],
        };
        let kernels = self.build.kernels.iter().map(|kernel| kernel.cuda_capabilities.as_slice());
        std::iter::once(noarch).chain(kernels)
    }

    /// The CUDA releases that the project is built with, oldest first.
    pub(super) fn cuda(&self) -> Vec<Version> {
        let all = self.matrix.cuda_versions().into_iter();
        all.filter(|version| self.build.general.cuda.contains(*version)).collect()
    }

    /// Those of them that one kernel is built with.
    pub(super) fn cuda_of(&self, kernel: &Kernel) -> Vec<Version> {
        let above = |version: &Version| kernel.cuda_minver.as_ref().is_none_or(|min| min.value <= *version);
        self.cuda().into_iter().filter(above).collect()
    }
}
