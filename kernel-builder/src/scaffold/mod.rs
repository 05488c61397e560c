//! Renders a template and a person's answers to the files of a new project, in memory, and writes them last.
//!
//! Owns: templates, the file set, the refusal to overwrite.
//! Never: asks anything (the command does), changes a file that is there.

use std::path::PathBuf;

use miette::Diagnostic;
use thiserror::Error;

use crate::base::files::FileError;
use crate::exit::{self, StageError};

pub mod file_set;
pub mod host;
pub mod template;

pub use file_set::FileSet;
pub use template::{Answers, Template};

/// Why a project could not be made.
#[derive(Debug, Error, Diagnostic)]
pub enum ScaffoldError {
    /// No template has that name.
    #[error("there is no template `{name}`")]
    #[diagnostic(code(scaffold::unknown_template), help("{hint}"))]
    UnknownTemplate {
        /// What was asked for.
        name: String,
        /// The nearest name, or all of them.
        hint: String,
    },
    /// The template cannot serve a backend.
    #[error("the template `{template}` has no code for the backend `{backend}`")]
    #[diagnostic(code(scaffold::unknown_backend), help("it has: {}", offered.join(", ")))]
    UnknownBackend {
        /// The template.
        template: String,
        /// The backend that was asked for.
        backend: String,
        /// The backends that it has.
        offered: Vec<String>,
    },
    /// The name is not one that a kernel can have.
    #[error("`{name}` is not `OWNER/NAME`: {reason}")]
    #[diagnostic(
        code(scaffold::bad_name),
        help(
            "an owner is letters, digits, `-`, `_` and `.`; a kernel's name is lower-case letters, digits and `-`, starts with a letter and has at least two characters: me/rms-norm"
        )
    )]
    BadName {
        /// What was given.
        name: String,
        /// What is wrong.
        reason: String,
    },
    /// Files of the new project are there already.
    #[error("`{}` already has {}", dir.display(), existing.join(", "))]
    #[diagnostic(
        code(scaffold::would_overwrite),
        help("choose another folder, or move these files away; nothing was written")
    )]
    WouldOverwrite {
        /// The folder.
        dir: PathBuf,
        /// The files.
        existing: Vec<String>,
    },
    /// A template names a place outside of the project.
    #[error("the template writes to `{path}`, which is outside of the project")]
    #[diagnostic(code(scaffold::outside), help("this is a defect of the template"))]
    Outside {
        /// The path.
        path: String,
    },
    /// A template uses a name that it does not have, or is no template.
    #[error("the template file `{file}` cannot be rendered: {cause:#}")]
    #[diagnostic(code(scaffold::render), help("this is a defect of the template"))]
    Render {
        /// The file inside the template.
        file: String,
        /// What the engine said.
        #[source]
        cause: minijinja::Error,
    },
    /// `template.toml` is wrong.
    #[error("template.toml of `{name}` cannot be read: {cause}")]
    #[diagnostic(code(scaffold::manifest), help("this is a defect of the template"))]
    Manifest {
        /// The template.
        name: String,
        /// What the parser said.
        #[source]
        cause: toml::de::Error,
    },
    /// A host side cannot be generated.
    #[error("the host side of `{file}` cannot be generated: {cause}")]
    #[diagnostic(
        code(scaffold::host),
        help(
            "docs/formats.md says what a generated host side does; a binding written by hand may do more: torch-ext/torch_binding.cpp"
        )
    )]
    Host {
        /// op.toml, or backward.toml.
        file: String,
        /// What is in the way.
        #[source]
        cause: kernel_plan::host::HostError,
    },
    /// A template's op.toml is wrong.
    #[error("the template's `{file}` has errors")]
    #[diagnostic(code(scaffold::broken), help("this is a defect of the template"))]
    Broken {
        /// The file.
        file: String,
    },
    /// A required answer is missing and nobody can be asked.
    #[error("{what} is missing")]
    #[diagnostic(code(scaffold::missing_answer), help("{help}"))]
    MissingAnswer {
        /// What is missing.
        what: &'static str,
        /// How to give it.
        help: String,
    },
    /// A file could not be read or written.
    #[error(transparent)]
    #[diagnostic(transparent)]
    File(#[from] FileError),
}

impl StageError for ScaffoldError {
    fn exit(&self) -> u8 {
        match self {
            Self::MissingAnswer { .. } | Self::BadName { .. } => exit::USAGE,
            _ => exit::SCAFFOLD,
        }
    }
}
