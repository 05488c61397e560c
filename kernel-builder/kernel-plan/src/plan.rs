//! What would be run: commands, units and the plan of one variant, as plain values.
//!
//! Owns: the vocabulary between the backends (which decide) and the compiler pool (which acts).
//! Never: runs anything.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::units::{BackendId, RelPath};
use crate::variant::Variant;

/// One program with its arguments, to be started by `base::process` in the other crate.
///
/// The environment is what the child gets *in addition to* the scrubbed base set.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct CommandLine {
    /// The executable: an absolute path, or a name to look up on `PATH`.
    pub program: PathBuf,
    /// The arguments, in order.
    pub args: Vec<String>,
    /// Extra environment variables.
    pub env: BTreeMap<String, String>,
    /// Working directory; the caller's own when absent.
    pub cwd: Option<PathBuf>,
}

impl CommandLine {
    /// A command without arguments.
    pub fn new(program: impl Into<PathBuf>) -> Self {
        Self { program: program.into(), args: Vec::new(), env: BTreeMap::new(), cwd: None }
    }

    /// Adds one argument.
    #[must_use]
    pub fn arg(mut self, arg: impl Into<String>) -> Self {
        self.args.push(arg.into());
        self
    }

    /// Adds a path as an argument.
    #[must_use]
    pub fn path(self, path: &Path) -> Self {
        self.arg(path.display().to_string())
    }

    /// Adds several arguments.
    #[must_use]
    pub fn args<S: Into<String>>(mut self, args: impl IntoIterator<Item = S>) -> Self {
        self.args.extend(args.into_iter().map(Into::into));
        self
    }

    /// Sets one environment variable.
    #[must_use]
    pub fn env(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.env.insert(name.into(), value.into());
        self
    }

    /// Sets the working directory.
    #[must_use]
    pub fn cwd(mut self, dir: impl Into<PathBuf>) -> Self {
        self.cwd = Some(dir.into());
        self
    }
}

/// One source to be compiled.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Unit {
    /// The source, below the project's folder; also the unit's name in messages.
    pub name: String,
    /// The compiler's command; runs in the project's folder.
    pub command: CommandLine,
    /// The object that it makes, relative to the project.
    pub object: String,
    /// The dependency file that it writes, relative to the project.
    pub depfile: String,
    /// For a unit that carries the extension's name: the object with the real name in the place of [`PLACEHOLDER`],
    /// relative to the project. The name changes with every source of the variant; thanks to the placeholder this unit
    /// is compiled again only when it changes itself.
    pub named: Option<String>,
}

impl Unit {
    /// The object that is linked.
    pub fn linked(&self) -> &str {
        self.named.as_deref().unwrap_or(&self.object)
    }
}

/// What stands for the digest in an extension's name while a unit is compiled: as long as the digest, and of letters
/// that no digest has.
pub const PLACEHOLDER: &str = "zqjxvwkyzq";

/// The name that a unit is compiled with: the extension's own, its digest replaced by [`PLACEHOLDER`].
pub fn placeholder_name(extension: &str) -> String {
    let kept = extension.len().saturating_sub(PLACEHOLDER.len());
    format!("{}{PLACEHOLDER}", &extension[..kept])
}

/// All that is run to build one variant, and what goes into its package.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct VariantPlan {
    /// The axes.
    pub variant: Variant,
    /// The backend that compiles it.
    pub backend: BackendId,
    /// The variant's name.
    pub id: String,
    /// The folder that becomes the Python package, below the project's folder: `torch-ext/rms_norm`.
    pub package: String,
    /// The unique name of the extension module, `_<module>_<backend>_<digest>`.
    pub extension: String,
    /// File name of the shared library; empty for a variant of Python only.
    pub library: String,
    /// The units, in the order of build.toml; empty for a variant of Python only.
    pub units: Vec<Unit>,
    /// The link, after all units; absent for a variant of Python only.
    pub link: Option<CommandLine>,
    /// Files of the Python package, below the project's folder.
    pub python: Vec<RelPath>,
    /// CUDA capabilities that the binary must hold, as written in build.toml.
    pub capabilities: Vec<String>,
    /// Where the compiler of CUDA sources comes from, and what it leaves out: a sentence without a full stop.
    pub route: Option<String>,
}
