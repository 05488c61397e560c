//! The sources of a project, as far as rules look into them.
//!
//! Owns: which files are looked at, what each includes or imports, and which files an include leads to.
//! Never: opens a file; the caller is asked for each text.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::diagnostic::SourceFile;
use crate::units::{BackendId, RelPath};

use super::build::Framework;
use super::{BuildSpec, Spanned};

mod condition;
pub(crate) mod cpp;
pub(crate) mod python;

use cpp::{Cpp, Include};
use python::Python;

/// What sources and headers end in.
const CPP: &[&str] = &[
    "c", "cc", "cpp", "cu", "cuh", "cxx", "h", "hh", "hip", "hpp", "hxx", "inc", "inl", "m", "metal", "mm",
    "sycl",
];

/// What a compiler is started for; the others of [`CPP`] are included.
const COMPILED: &[&str] = &["c", "cc", "cpp", "cu", "cxx", "hip", "m", "metal", "mm", "sycl"];

/// The folders beside build.toml whose `<module>` is shipped as the Python package.
const PYTHON_FOLDERS: &[&str] = &["torch-ext", "tvm-ffi-ext"];

/// Every source that matters to a rule, read once.
#[derive(Debug, Default)]
pub struct Sources {
    cpp: BTreeMap<RelPath, (Arc<SourceFile>, Cpp)>,
    python: BTreeMap<RelPath, (Arc<SourceFile>, Python)>,
    unread: BTreeMap<RelPath, Unread>,
}

/// Why the text of a file is not known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Unread {
    /// It is longer than `limit` bytes.
    TooLong {
        /// The longest that is read, in bytes.
        limit: u64,
    },
    /// It is not UTF-8.
    NotText,
    /// The operating system refused, with these words.
    Refused(String),
}

/// A text or why there is none.
type Text = Result<Arc<SourceFile>, Unread>;

impl Sources {
    /// Asks `read` for every source that build.toml names, what those include of the project, and the Python files that
    /// are shipped. Each is asked for once.
    pub fn gather(
        build: &BuildSpec,
        files: &BTreeSet<RelPath>,
        read: &mut dyn FnMut(&RelPath) -> Text,
    ) -> Self {
        let mut sources = Self::default();
        for section in sections(build) {
            let mut pending: Vec<RelPath> =
                section.src.iter().map(|path| &path.value).filter(|path| is_cpp(path)).cloned().collect();
            let mut seen = BTreeSet::new();
            while let Some(path) = pending.pop() {
                if !files.contains(&path) || !seen.insert(path.clone()) {
                    continue;
                }
                sources.add_cpp(&path, read);
                let Some((_, cpp)) = sources.cpp.get(&path) else { continue };
                pending
                    .extend(cpp.includes.iter().filter_map(|include| section.resolve(&path, include, files)));
            }
        }
        let shipped = files.iter().filter(|path| is_shipped_python(build, path));
        for path in shipped {
            match read(path) {
                Ok(file) => {
                    let scanned = python::scan(&file.text);
                    sources.python.insert(path.clone(), (file, scanned));
                }
                Err(why) => {
                    sources.unread.insert(path.clone(), why);
                }
            }
        }
        sources
    }

    /// Notes that a file of the project cannot be read, whether or not another one was seen to include it.
    pub fn refuse(&mut self, path: RelPath, why: String) {
        self.unread.insert(path, Unread::Refused(why));
    }

    fn add_cpp(&mut self, path: &RelPath, read: &mut dyn FnMut(&RelPath) -> Text) {
        if self.cpp.contains_key(path) || self.unread.contains_key(path) {
            return;
        }
        match read(path) {
            Ok(file) => {
                let scanned = cpp::scan(&file.text);
                self.cpp.insert(path.clone(), (file, scanned));
            }
            Err(why) => {
                self.unread.insert(path.clone(), why);
            }
        }
    }

    /// The Python files that are shipped, by path.
    pub(crate) fn python(&self) -> impl Iterator<Item = (&RelPath, &Arc<SourceFile>, &Python)> {
        self.python.iter().map(|(path, (file, python))| (path, file, python))
    }

    /// The files whose text is not known.
    pub(crate) fn unread(&self) -> impl Iterator<Item = (&RelPath, &Unread)> {
        self.unread.iter()
    }

    /// What is compiled of a section for a backend: its sources, and the headers of the project that they include. A
    /// header that is listed and not included is no part of it.
    pub(crate) fn compiled<'a>(
        &'a self,
        section: &Section<'_>,
        backend: BackendId,
        files: &BTreeSet<RelPath>,
    ) -> Vec<Compiled<'a>> {
        let mut found = Vec::new();
        let mut seen = BTreeSet::new();
        let listed = section.src.iter().rev().map(|path| &path.value).filter(|path| is_compiled(path));
        let mut pending: Vec<RelPath> = listed.cloned().collect();
        // What is certainly included comes first, so that a header is not taken for a doubtful one.
        let mut doubtful = Vec::new();
        loop {
            let (path, certain) = match (pending.pop(), doubtful.pop()) {
                (Some(path), kept) => {
                    doubtful.extend(kept);
                    (path, true)
                }
                (None, Some(path)) => (path, false),
                (None, None) => return found,
            };
            if !seen.insert(path.clone()) {
                continue;
            }
            let Some((file, cpp)) = self.cpp.get(&path) else { continue };
            let mut outside = Vec::new();
            for include in &cpp.includes {
                let included = include.condition.under(backend);
                match section.resolve(&path, include, files) {
                    _ if included == Some(false) => {}
                    Some(inside) if certain && included == Some(true) => pending.push(inside),
                    Some(inside) => doubtful.push(inside),
                    None => outside.push((include, certain && included == Some(true))),
                }
            }
            found.push(Compiled { file, cpp, certain, outside });
        }
    }

    /// What a section includes from outside of the project, for a backend.
    pub(crate) fn outside<'a>(
        &'a self,
        section: &Section<'_>,
        backend: BackendId,
        files: &BTreeSet<RelPath>,
    ) -> Vec<Outside<'a>> {
        let compiled = self.compiled(section, backend, files).into_iter();
        compiled
            .flat_map(|compiled| {
                let file = compiled.file;
                compiled.outside.into_iter().map(move |(include, certain)| Outside { file, include, certain })
            })
            .collect()
    }
}

/// One file that is compiled.
#[derive(Debug, Clone)]
pub(crate) struct Compiled<'a> {
    /// Where it is.
    pub(crate) file: &'a Arc<SourceFile>,
    /// What is in it.
    pub(crate) cpp: &'a Cpp,
    /// Whether it is compiled without doubt.
    pub(crate) certain: bool,
    /// Its includes that lead out of the project, and whether each is compiled without doubt.
    pub(crate) outside: Vec<(&'a Include, bool)>,
}

/// An include that leads out of the project.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Outside<'a> {
    /// Where it stands.
    pub(crate) file: &'a Arc<SourceFile>,
    /// What it names.
    pub(crate) include: &'a Include,
    /// Whether it is compiled for the backend without doubt.
    pub(crate) certain: bool,
}

/// Sources that are compiled alike: the binding, or one `[kernel.NAME]`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Section<'a> {
    /// The sources and headers that it lists.
    pub(crate) src: &'a [Spanned<RelPath>],
    /// Its include folders.
    pub(crate) include: &'a [Spanned<RelPath>],
}

impl Section<'_> {
    /// The file of the project that an include means: beside the including file, in an include folder, or from the
    /// project's folder, where every compiler is started.
    fn resolve(&self, from: &RelPath, include: &Include, files: &BTreeSet<RelPath>) -> Option<RelPath> {
        let beside = from.as_str().rsplit_once('/').map_or("", |(folder, _)| folder);
        let quoted = (!include.angled).then_some(beside);
        let listed =
            self.include.iter().map(|folder| if folder.as_str() == "." { "" } else { folder.as_str() });
        let folders = quoted.into_iter().chain(listed).chain((!include.angled).then_some(""));
        folders.filter_map(|folder| below(folder, &include.path)).find(|path| files.contains(path))
    }
}

/// Every section of a build.toml: the binding, then the kernels in file order.
pub(crate) fn sections(build: &BuildSpec) -> impl Iterator<Item = Section<'_>> {
    binding(build).into_iter().chain(build.kernels.iter().map(of_kernel))
}

/// The binding's section, where the project has one.
pub(crate) fn binding(build: &BuildSpec) -> Option<Section<'_>> {
    let framework = &build.framework;
    let compiled = !matches!(framework, Framework::TorchNoarch(_));
    compiled.then(|| Section { src: framework.src(), include: framework.include() })
}

/// A kernel's section.
pub(crate) fn of_kernel(kernel: &super::build::Kernel) -> Section<'_> {
    Section { src: &kernel.src, include: &kernel.include }
}

/// The path that `relative` is, seen from `folder`; `None` where it leaves the project or has nothing to be.
fn below(folder: &str, relative: &str) -> Option<RelPath> {
    let mut parts: Vec<&str> = folder.split('/').filter(|part| !part.is_empty()).collect();
    for part in relative.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop()?;
            }
            _ => parts.push(part),
        }
    }
    parts.join("/").parse().ok()
}

/// Whether a file is code that is compiled or included, by its ending.
pub fn is_code(path: &RelPath) -> bool {
    is_cpp(path) || path.extension().is_some_and(|ending| ["def", "ipp", "tpp"].contains(&ending))
}

fn is_cpp(path: &RelPath) -> bool {
    path.extension().is_some_and(|ending| CPP.contains(&ending))
}

fn is_compiled(path: &RelPath) -> bool {
    path.extension().is_some_and(|ending| COMPILED.contains(&ending))
}

fn is_shipped_python(build: &BuildSpec, path: &RelPath) -> bool {
    let module = build.general.name.module();
    let inside = |folder: &str| {
        let rest = path.as_str().strip_prefix(folder).and_then(|rest| rest.strip_prefix('/'));
        rest.and_then(|rest| rest.strip_prefix(&module)).is_some_and(|rest| rest.starts_with('/'))
    };
    path.extension() == Some("py") && PYTHON_FOLDERS.iter().any(|folder| inside(folder))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn includes_lead_to_files_of_the_project() {
        let of = |folder: &str, relative: &str| below(folder, relative).map(|path| path.to_string());
        assert_eq!(of("torch-ext", "../norm/norm.h").as_deref(), Some("norm/norm.h"));
        assert_eq!(of("", "./a.h").as_deref(), Some("a.h"));
        assert_eq!(of("a/b", "c.h").as_deref(), Some("a/b/c.h"));
        assert_eq!(of("a", "../../b.h"), None);
        assert_eq!(of("", ""), None);
    }
}
