//! Why a candidate is refused before anything of it is compiled.
//!
//! Owns: the limits, codes and words, one line each. Never: decides.

use std::fmt;

/// Files that a candidate may have.
pub(crate) const MOST_FILES: usize = 64;
/// Bytes of all its files together.
pub(crate) const MOST_BYTES: usize = 256 << 10;

/// A refusal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct KernelRefusal {
    /// Its code.
    pub(crate) code: &'static str,
    /// One line: what is wrong, and what to do.
    pub(crate) text: String,
}

impl KernelRefusal {
    fn new(code: &'static str, text: String) -> Self {
        Self { code, text }
    }

    /// A key of op.toml, or the reference, differs from the project's.
    pub(crate) fn frozen(what: &str) -> Self {
        Self::new(
            "agent::frozen",
            format!(
                "`{what}` differs from the project's; a candidate changes only device code, [let], [tune] and [launch]"
            ),
        )
    }

    /// op.toml of the candidate cannot be read.
    pub(crate) fn op_toml(problem: &str) -> Self {
        let first = problem.lines().find(|line| !line.trim().is_empty()).unwrap_or(problem);
        Self::new("agent::op_toml", format!("op.toml of the candidate is not valid: {}", first.trim()))
    }

    pub(super) fn not_text(name: &str) -> Self {
        Self::new("agent::not_text", format!("`{name}` is not UTF-8 text"))
    }

    /// A link: its target may be any file of the user.
    pub(crate) fn link(name: &str) -> Self {
        Self::new(
            "agent::link",
            format!("`{name}` is a link; a candidate has regular files only, so copy the file"),
        )
    }

    /// A pipe, a socket or a device.
    pub(crate) fn irregular(name: &str) -> Self {
        Self::new("agent::link", format!("`{name}` is not a regular file"))
    }

    pub(super) fn no_source(name: &str) -> Self {
        let text = format!(
            "`{name}`, the source of [launch], is not among the candidate's files; it must be device code in the folder \
             of the project's own source"
        );
        Self::new("agent::no_source", text)
    }

    /// A file that is not device code of the folder.
    pub(crate) fn no_code(name: &str, folder: &str) -> Self {
        let place =
            if folder.is_empty() { "the project's folder".to_owned() } else { format!("`{folder}/`") };
        let text = format!(
            "`{name}` cannot be part of a candidate: device code (.cu, .cuh, .h, .inl) in {place} and op.toml can"
        );
        Self::new("agent::no_source", text)
    }

    /// The same bytes as the candidate that it was made of.
    pub(crate) fn unchanged(id: &str) -> Self {
        Self::new("agent::unchanged", format!("the files are those of {id}; change them before `try`"))
    }

    /// A key or token that this program knows.
    pub(crate) fn secret(name: &str) -> Self {
        Self::new("agent::secret", format!("`{name}` contains a key or token of the environment"))
    }

    pub(super) fn empty(name: &str) -> Self {
        Self::new("agent::empty", format!("`{name}` is empty"))
    }

    pub(super) fn too_large(files: usize, bytes: usize) -> Self {
        let text = format!(
            "the candidate has {files} files with {bytes} bytes; at most {MOST_FILES} files and {MOST_BYTES} bytes are allowed"
        );
        Self::new("agent::too_large", text)
    }

    /// A single file that is longer than all files may be.
    pub(crate) fn long_file(name: &str) -> Self {
        Self::new("agent::too_large", format!("`{name}` is longer than {MOST_BYTES} bytes"))
    }
}

impl fmt::Display for KernelRefusal {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}: {}", self.code, self.text)
    }
}
