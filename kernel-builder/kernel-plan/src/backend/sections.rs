//! Sources of several kernel sections.
//!
//! Owns: that a source is compiled once in a variant, and that no two share an object.
//! Never: decides a flag.

use std::collections::{BTreeMap, BTreeSet};

use crate::spec::Spanned;
use crate::spec::build::Kernel;
use crate::units::RelPath;

/// Every source once, in the order of build.toml, with the section that it belongs to. One that several sections list is
/// compiled with the include folders, the flags and the capabilities of all of them, as by the format's own builder
/// (huggingface/kernels, templates/kernel.cmake); a section without capabilities stands for the toolkit's. The sections
/// that are given back list no sources: with thousands of them, a list for each would be gigabytes.
pub(crate) fn sources(kernels: &[&Kernel]) -> Vec<(RelPath, Kernel)> {
    let mut sources: Vec<(RelPath, Kernel)> = Vec::new();
    let mut places: BTreeMap<&RelPath, usize> = BTreeMap::new();
    for kernel in kernels {
        let section = without_sources(kernel);
        for path in &kernel.src {
            if let Some(place) = places.get(&path.value) {
                join(&mut sources[*place].1, &section);
            } else {
                places.insert(&path.value, sources.len());
                sources.push((path.value.clone(), section.clone()));
            }
        }
    }
    sources
}

fn without_sources(kernel: &Kernel) -> Kernel {
    let mut section = kernel.clone();
    section.src = Vec::new();
    section
}

/// A source and the section that it is compiled for; none for one of the binding.
pub(crate) type Listed<'a> = (&'a RelPath, Option<&'a Kernel>);

/// The binding's sources, then those of the sections, that `compiles` says are compiled. One that both list is the
/// section's, which says more of it.
pub(crate) fn with_binding<'a>(
    binding: &'a [Spanned<RelPath>],
    sections: &'a [(RelPath, Kernel)],
    compiles: impl Fn(&RelPath) -> bool,
) -> Vec<Listed<'a>> {
    let mut known: BTreeSet<&RelPath> = sections.iter().map(|(path, _)| path).collect();
    let own: Vec<&RelPath> =
        binding.iter().map(|path| &path.value).filter(|path| known.insert(path)).collect();
    let sections = sections.iter().map(|(path, kernel)| (path, Some(kernel)));
    own.into_iter().map(|path| (path, None)).chain(sections).filter(|(path, _)| compiles(path)).collect()
}

/// Adds what another section asks of a source that both list. Every key is named, so that a new one is not forgotten.
fn join(known: &mut Kernel, other: &Kernel) {
    let Kernel {
        // The source is one of the first section. Variants without a section have left it out before.
        name: _,
        backend: _,
        src: _,
        cuda_minver: _,
        depends,
        include,
        cxx_flags,
        cuda_capabilities,
        cuda_flags,
        rocm_archs,
        hip_flags,
        sycl_flags,
    } = other;
    let unlisted = known.cuda_capabilities.is_empty() || cuda_capabilities.is_empty();
    add(&mut known.cuda_capabilities, cuda_capabilities);
    if unlisted {
        known.cuda_capabilities.clear();
    }
    let unlisted = known.rocm_archs.is_empty() || rocm_archs.is_empty();
    add(&mut known.rocm_archs, rocm_archs);
    if unlisted {
        known.rocm_archs.clear();
    }
    add(&mut known.include, include);
    add(&mut known.depends, depends);
    let flags = [
        (&mut known.cxx_flags, cxx_flags),
        (&mut known.cuda_flags, cuda_flags),
        (&mut known.hip_flags, hip_flags),
        (&mut known.sycl_flags, sycl_flags),
    ];
    for (known, other) in flags {
        // The same list is not repeated; of different ones every word counts, for a flag may take the next as its value.
        if !known.iter().map(|flag| &flag.value).eq(other.iter().map(|flag| &flag.value)) {
            known.extend(other.iter().cloned());
        }
    }
}

fn add<T: PartialEq + Clone>(known: &mut Vec<Spanned<T>>, others: &[Spanned<T>]) {
    for other in others {
        if known.iter().all(|one| one.value != other.value) {
            known.push(other.clone());
        }
    }
}

/// What a source's object is called, without its ending: the path with `__` for the slashes, and a number behind it
/// where another source has that name.
pub(crate) fn stems<'a>(paths: impl IntoIterator<Item = &'a RelPath>) -> BTreeMap<&'a RelPath, String> {
    let (mut stems, mut taken) = (BTreeMap::new(), BTreeSet::new());
    for path in paths {
        if stems.contains_key(path) {
            continue;
        }
        let plain = path.as_str().replace('/', "__");
        let numbered = (2..).map(|number| format!("{plain}.{number}"));
        let stem = std::iter::once(plain.clone()).chain(numbered).find(|name| taken.insert(name.clone()));
        stems.insert(path, stem.unwrap_or(plain));
    }
    stems
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_section_of_many_sources_is_not_copied_for_each() {
        let listed: Vec<String> = (0..30_000).map(|number| format!("\"csrc/k{number}.cpp\"")).collect();
        let text = format!(
            "[general]\nname = \"big\"\nversion = 1\nedition = 5\nlicense = \"MIT\"\nbackends = [\"cpu\"]\n[torch]\n\
             [kernel.a]\nbackend = \"cpu\"\ndepends = []\nsrc = [{}]\n\
             [kernel.b]\nbackend = \"cpu\"\ndepends = []\nsrc = [\"csrc/k7.cpp\"]\ncxx-flags = [\"-O1\"]\n",
            listed.join(", ")
        );
        let (build, problems) =
            crate::spec::parse_build(crate::diagnostic::SourceFile::new("build.toml", text));
        let build = build.unwrap_or_else(|| panic!("{problems:?}"));
        let kernels: Vec<&Kernel> = build.kernels.iter().collect();
        let found = sources(&kernels);
        assert_eq!(found.len(), 30_000);
        assert!(found.iter().all(|(_, kernel)| kernel.src.is_empty()));
        assert_eq!(found[7].1.cxx_flags.len(), 1, "of the other section");
        let binding = &build.kernels[0].src;
        assert_eq!(with_binding(binding, &found, |_| true).len(), 30_000);
    }

    #[test]
    fn objects_have_names_of_their_own() {
        let paths: Vec<RelPath> = ["a/b__c.cpp", "a__b/c.cpp", "a/b/c.cpp", "a/b__c.cpp"]
            .iter()
            .map(|path| path.parse().unwrap())
            .collect();
        let stems = stems(&paths);
        assert_eq!(stems[&paths[0]], "a__b__c.cpp");
        assert_eq!(stems[&paths[1]], "a__b__c.cpp.2");
        assert_eq!(stems[&paths[2]], "a__b__c.cpp.3");
    }
}
