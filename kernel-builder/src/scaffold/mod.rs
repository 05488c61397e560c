//! Renders a template and a person's answers to the files of a new project, in memory, and writes them last.
//!
//! Owns: templates and their holes, which of them serves a reference, the file set, the refusal to overwrite.
//! Never: asks anything (the command does), changes a file that is there.

use std::path::PathBuf;

use miette::Diagnostic;
use thiserror::Error;

use crate::base::causes::Cause;
use crate::base::files::FileError;
use crate::exit::{self, StageError};

pub mod adopt;
mod ci;
mod claims;
pub mod file_set;
pub mod fit;
#[cfg(test)]
mod fit_tests;
pub mod hole;
#[cfg(test)]
mod hole_tests;
pub mod host;
pub(crate) mod launchers;
pub mod observed;
mod operation_name;
mod ops;
pub mod report;
pub(crate) mod rust_crate;
pub mod serves;
pub mod settings;
pub(crate) mod skill;
pub mod template;
pub mod translated;
pub mod unusable;

pub use ci::Ci;
pub use file_set::FileSet;
pub use template::{Answers, Template};

/// Why a project could not be made.
#[derive(Debug, Error, Diagnostic)]
pub enum ScaffoldError {
    /// No template has that name.
    #[error("template `{name}` not found")]
    #[diagnostic(code(scaffold::unknown_template), help("{hint}"))]
    UnknownTemplate {
        /// What was asked for.
        name: String,
        /// The nearest name, or all of them.
        hint: String,
    },
    /// The template cannot serve a backend.
    #[error("template `{template}` does not support the backend `{backend}`")]
    #[diagnostic(code(scaffold::unknown_backend), help("supported backends: {}", offered.join(", ")))]
    UnknownBackend {
        /// The template.
        template: String,
        /// The backend that was asked for.
        backend: String,
        /// The backends that it has.
        offered: Vec<String>,
    },
    /// The template's own binding is for another framework.
    #[error("template `{template}` does not support {framework}: its binding is for torch only")]
    #[diagnostic(
        code(scaffold::unknown_framework),
        help("leave out --framework, or use a template without its own binding, such as rms-norm")
    )]
    UnknownFramework {
        /// The template.
        template: String,
        /// The framework that was asked for.
        framework: &'static str,
    },
    /// The name is not one that a kernel can have.
    #[error("`{name}` is not a valid kernel name of the form `OWNER/NAME`")]
    #[diagnostic(
        code(scaffold::bad_name),
        help(
            "OWNER: letters, digits, `-`, `_` and `.`; \
             NAME: at least two lower-case letters, digits and `-`, first a letter; such as me/rms-norm"
        )
    )]
    BadName {
        /// What was given.
        name: String,
        /// What is wrong.
        #[source]
        cause: Cause,
    },
    /// Files of the new project are there already.
    #[error("`{}` already has {}", dir.display(), first_few(existing))]
    #[diagnostic(
        code(scaffold::would_overwrite),
        help("nothing was written; name another folder after OWNER/NAME, or move these files away")
    )]
    WouldOverwrite {
        /// The folder.
        dir: PathBuf,
        /// The files.
        existing: Vec<String>,
    },
    /// A template names a place outside of the project.
    #[error("the template writes to `{path}`, which is outside of the project")]
    #[diagnostic(code(scaffold::outside), help("this is a bug in the template"))]
    Outside {
        /// The path.
        path: String,
    },
    /// A template uses a name that it does not have, or is no template.
    #[error("failed to render the template file `{file}`")]
    #[diagnostic(code(scaffold::render), help("this is a bug in the template"))]
    Render {
        /// The file inside the template.
        file: String,
        /// What the engine said.
        #[source]
        cause: minijinja::Error,
    },
    /// `template.toml` is wrong.
    #[error("failed to read template.toml of `{name}`")]
    #[diagnostic(code(scaffold::manifest), help("this is a bug in the template"))]
    Manifest {
        /// The template.
        name: String,
        /// What the parser said.
        #[source]
        cause: toml::de::Error,
    },
    /// A host side cannot be generated.
    #[error("failed to generate the host code of `{file}`")]
    #[diagnostic(
        code(scaffold::host),
        help(
            "docs/reference/host-side.md lists what generated host code supports; \
             for other cases, write the binding by hand"
        )
    )]
    Host {
        /// op.toml, or backward.toml.
        file: String,
        /// What is in the way.
        #[source]
        cause: kernel_plan::host::HostError,
    },
    /// `template.toml` says what is not so.
    #[error("template.toml of `{template}` is not valid: {what}")]
    #[diagnostic(
        code(scaffold::claim),
        help("this is a bug in the template; templates/README.md describes the format")
    )]
    Claim {
        /// The template.
        template: String,
        /// What it claims.
        what: String,
    },
    /// What was set is no hole of the template.
    #[error("template `{template}` does not have a hole `{name}`")]
    #[diagnostic(code(scaffold::unknown_hole), help("{}", settable(template, offered)))]
    UnknownHole {
        /// The template.
        template: String,
        /// What was set.
        name: String,
        /// The holes that can be set.
        offered: Vec<String>,
    },
    /// A value that the hole does not take.
    #[error("`{value}` is not a valid value of `{name}`: {problem}")]
    #[diagnostic(code(scaffold::bad_hole), help("valid values: {}", admitted.join(", ")))]
    BadHole {
        /// The hole.
        name: String,
        /// What was set.
        value: String,
        /// Why not.
        problem: String,
        /// What it takes.
        admitted: Vec<String>,
    },
    /// Code is no value of a command line.
    #[error("the hole `{name}` is code, and cannot be set with --set")]
    #[diagnostic(
        code(scaffold::code_hole),
        help(
            "create the project, then edit the code between `// hole: {name}` \
             and `// end of hole: {name}` in {file}"
        )
    )]
    CodeHole {
        /// The hole.
        name: String,
        /// Its file.
        file: String,
    },
    /// Values that do not go together.
    #[error("op.toml does not allow {}: {problem}", set.join(" with "))]
    #[diagnostic(
        code(scaffold::inadmissible),
        help(
            "`[tune]` and `[scalars]` of op.toml define the valid combinations; \
             `kernelwright templates NAME` lists the values"
        )
    )]
    Inadmissible {
        /// What was set.
        set: Vec<String>,
        /// The problem that op.toml's reader found.
        problem: String,
    },
    /// A reference that cannot be traced.
    #[error("failed to trace `{file}`: {problem}")]
    #[diagnostic(
        code(scaffold::untraceable),
        help(
            "use a function of tensors, or a torch.nn.Module whose constructor takes no arguments \
             or one length; for other modules, define `example_module()` in the file; for the arguments \
             of a call, define `example_inputs()`"
        )
    )]
    Untraceable {
        /// The file.
        file: String,
        /// Why.
        problem: String,
        /// Why the answer of the process that traces it cannot be read, if that is the problem.
        #[source]
        cause: Option<serde_json::Error>,
    },
    /// No template serves a reference.
    #[error("no template matches `{name}`, which has {}", listed(ops))]
    #[diagnostic(code(scaffold::nothing_fits), help("{help}"))]
    NothingFits {
        /// The function.
        name: String,
        /// Its operators.
        ops: Vec<String>,
        /// The nearest template, why it does not fit, and what to do.
        help: String,
    },
    /// No template serves a reference, and it has no translation.
    #[error("failed to translate `{name}` of `{file}`: {what}")]
    #[diagnostic(code(scaffold::untranslated), help("{help}"))]
    Untranslated {
        /// The function.
        name: String,
        /// The person's file.
        file: String,
        /// What is in the way, with the operator and its line.
        what: String,
        /// The nearest template, and what to do.
        help: String,
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
    /// A reference cannot be traced.
    #[error(transparent)]
    #[diagnostic(transparent)]
    Reference(#[from] unusable::ReferenceError),
    /// A file could not be read or written.
    #[error(transparent)]
    #[diagnostic(transparent)]
    File(#[from] FileError),
}

fn settable(template: &str, offered: &[String]) -> String {
    if offered.is_empty() {
        return format!("no hole of it can be set; `kernelwright templates {template}` lists its holes");
    }
    format!("holes to set: {}; `kernelwright templates {template}` lists their values", offered.join(", "))
}

/// The first of some files, and how many more there are.
fn first_few(paths: &[String]) -> String {
    match paths.len().saturating_sub(3) {
        0 => paths.join(", "),
        more => format!("{} and {more} more files of the new project", paths[..3].join(", ")),
    }
}

fn listed(ops: &[String]) -> String {
    if ops.is_empty() {
        "no visible operators".to_owned()
    } else {
        format!("the operators {}", ops.join(", "))
    }
}

impl StageError for ScaffoldError {
    fn exit(&self) -> u8 {
        match self {
            Self::MissingAnswer { .. } | Self::BadName { .. } => exit::USAGE,
            _ => exit::SCAFFOLD,
        }
    }
}
