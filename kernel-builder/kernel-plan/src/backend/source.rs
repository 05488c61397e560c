//! One source of a variant, as its compiler command sees it.
//!
//! Owns: all that decides the command. Never: makes it.

use crate::kit::Toolchain;
use crate::spec::build::Kernel;
use crate::units::RelPath;
use crate::variant::{Os, Toolkit};

/// A source that another one is translated to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Translated {
    /// The folder that holds a copy of the project, relative to the project.
    pub root: String,
    /// The file that is compiled, relative to the project.
    pub file: String,
}

/// One source with all that decides its command.
#[derive(Debug, Clone, Copy)]
pub struct Source<'a> {
    /// The file of build.toml, below the project's folder.
    pub path: &'a RelPath,
    /// The file that is compiled, relative to the project: the same one, or what it was translated to.
    pub file: &'a str,
    /// The kernel section that it belongs to; absent for a source of the binding.
    pub kernel: Option<&'a Kernel>,
    /// Every section of the variant: a source of the binding has no architectures of its own, and gets theirs.
    pub sections: &'a [&'a Kernel],
    /// Flags that every C++ command of the variant shares: macros, include folders.
    pub common: &'a [String],
    /// Language standard, e.g. `c++17`.
    pub standard: &'static str,
    /// Object file, relative to the project.
    pub object: &'a str,
    /// Dependency file, relative to the project.
    pub depfile: &'a str,
    /// The compilers.
    pub kit: &'a Toolchain,
    /// The toolkit of the variant.
    pub toolkit: Toolkit,
    /// Where the object runs.
    pub os: Os,
}

impl<'a> Source<'a> {
    /// The architectures that its device code is compiled for, each once, where `of` has those of a section.
    pub(super) fn archs<T: PartialEq>(&self, of: impl Fn(&'a Kernel) -> Vec<T>) -> Vec<T> {
        let all = if self.kernel.is_none() { self.sections } else { &[] };
        let mut archs = Vec::new();
        for arch in self.kernel.into_iter().chain(all.iter().copied()).flat_map(of) {
            if !archs.contains(&arch) {
                archs.push(arch);
            }
        }
        archs
    }
}
