//! Why a person's file cannot be traced, as harness/loading.py reports it, and the error for each kind.
//!
//! Owns: the messages, with place and next step. Never: reads the file.

use miette::Diagnostic;
use serde::Deserialize;
use thiserror::Error;

/// A file that cannot be used.
#[derive(Debug, Clone, Deserialize)]
pub struct Unusable {
    /// The kind of problem.
    pub kind: Kind,
    /// Message of Python or the harness.
    pub reason: String,
    /// The file, the line, and the column if it is known.
    #[serde(default)]
    pub place: Option<(String, u64, Option<u64>)>,
    /// The line's text.
    #[serde(default)]
    pub text: String,
    /// The Python that read the file.
    #[serde(default)]
    pub python: String,
    /// The module that is missing.
    #[serde(default)]
    pub module: Option<String>,
    /// The function that was asked for.
    #[serde(default)]
    pub name: Option<String>,
    /// The functions and classes of the file, each with its line.
    #[serde(default)]
    pub names: Vec<(String, u64)>,
}

/// The kinds of a file that cannot be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// It is not Python.
    Syntax,
    /// It imports a module that is not installed.
    Module,
    /// It raises when it is imported.
    Fails,
    /// It has several functions, and none is named.
    Ambiguous,
    /// It does not have the function that is named.
    Unknown,
    /// Its function cannot be called.
    Other,
}

/// Why a reference cannot be traced.
#[derive(Debug, Error, Diagnostic)]
pub enum ReferenceError {
    /// The file is not Python.
    #[error("{place}: syntax error: {message}")]
    #[diagnostic(code(scaffold::reference_syntax), help("{}the file was parsed with {python}", quoted(text)))]
    Syntax {
        /// File, line and column.
        place: String,
        /// Python's message.
        message: String,
        /// The line.
        text: String,
        /// The Python.
        python: String,
    },
    /// The file imports what is not installed.
    #[error("{place}: the module `{module}` is not installed for {python}")]
    #[diagnostic(
        code(scaffold::missing_module),
        help(
            "{}install it (`{python} -m pip install PACKAGE`), or choose a Python that has it: activate its environment, or set \
             KERNELWRIGHT_PYTHON=/path/to/python",
            quoted(text)
        )
    )]
    MissingModule {
        /// File and line.
        place: String,
        /// The module.
        module: String,
        /// The line.
        text: String,
        /// The Python.
        python: String,
    },
    /// The file raises.
    #[error("{place}: failed to import the file: {exception}")]
    #[diagnostic(
        code(scaffold::reference_fails),
        help(
            "{}`new --from` imports the file with {python}: move code that should not run on import below `if __name__ == \"__main__\":`",
            quoted(text)
        )
    )]
    Fails {
        /// File and line.
        place: String,
        /// The exception.
        exception: String,
        /// The line.
        text: String,
        /// The Python.
        python: String,
    },
    /// Several functions, and none is named.
    #[error("`{file}` has several functions: {}", listed(names))]
    #[diagnostic(
        code(scaffold::ambiguous_function),
        help("pass the name of one: --from {file}:{}", first(names))
    )]
    Ambiguous {
        /// The file.
        file: String,
        /// The functions.
        names: Vec<(String, u64)>,
    },
    /// The file does not have the function.
    #[error("`{file}`: {problem}")]
    #[diagnostic(code(scaffold::unknown_function), help("{}", offered(file, names)))]
    Unknown {
        /// The file.
        file: String,
        /// The problem.
        problem: String,
        /// The functions.
        names: Vec<(String, u64)>,
    },
}

impl Unusable {
    /// The error, for a file that was given as `shown` and lies at `path`; `None` for one that has no kind of its own.
    pub fn error(self, shown: &str, path: &str) -> Option<ReferenceError> {
        let Self { kind, reason, place, text, python, module, names, .. } = self;
        let (file, line, column) = place.unwrap_or_else(|| (path.to_owned(), 1, None));
        let file = if file == path { shown.to_owned() } else { file };
        let column = column.map(|column| format!(":{column}")).unwrap_or_default();
        let place = format!("{file}:{line}{column}");
        let shown = shown.to_owned();
        Some(match kind {
            Kind::Syntax => ReferenceError::Syntax { place, message: reason, text, python },
            Kind::Module => {
                ReferenceError::MissingModule { place, module: module.unwrap_or_default(), text, python }
            }
            Kind::Fails => ReferenceError::Fails { place, exception: reason, text, python },
            Kind::Ambiguous => ReferenceError::Ambiguous { file: shown, names },
            Kind::Unknown => ReferenceError::Unknown { file: shown, problem: reason, names },
            Kind::Other => return None,
        })
    }
}

/// The line in question, before a help.
fn quoted(text: &str) -> String {
    if text.trim().is_empty() { String::new() } else { format!("the line is `{}`; ", text.trim()) }
}

/// `norm (line 5), Model (line 9)`.
fn listed(names: &[(String, u64)]) -> String {
    let lines = names.iter().map(|(name, line)| format!("{name} (line {line})"));
    lines.collect::<Vec<_>>().join(", ")
}

fn first(names: &[(String, u64)]) -> &str {
    names.first().map_or("NAME", |(name, _)| name)
}

fn offered(file: &str, names: &[(String, u64)]) -> String {
    if names.is_empty() {
        return "define a function of tensors or a torch.nn.Module in the file".to_owned();
    }
    format!("the file has: {}; pass one, such as --from {file}:{}", listed(names), first(names))
}
