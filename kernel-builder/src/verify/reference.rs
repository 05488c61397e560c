//! The file of a project's reference, as it was before a candidate ran.
//!
//! Owns: its text, and whether the disk still holds the same. Never: lets a process of the judge read the file again.

use std::path::{Path, PathBuf};

use kernel_plan::spec::OpSpec;

use crate::base::digest::{Digest, DigestBuilder};
use crate::base::env;
use crate::base::files::{self, FileError};
use crate::protocol::SourceText;

/// The reference's file. A candidate runs with the rights of its user, so it can write to the file, or put bytecode for
/// Python beside it. Processes of the judge are therefore given this text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ReferenceFile {
    path: PathBuf,
    text: String,
}

impl ReferenceFile {
    /// Reads the file that op.toml names, relative to the project's folder.
    ///
    /// # Errors
    /// It cannot be read, or is not UTF-8.
    pub(crate) fn read(op: &OpSpec, project: &Path) -> Result<Self, FileError> {
        let path = env::absolute(&project.join(op.reference.file.as_str()));
        let text = files::read_text(&path)?;
        Ok(Self { path, text })
    }

    /// A file of this text that is nowhere.
    #[cfg(test)]
    pub(crate) fn with_text(text: &str) -> Self {
        Self { path: "reference.py".into(), text: text.to_owned() }
    }

    /// The path of the file, absolute.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Whether the file still holds the text.
    pub(crate) fn is_unchanged(&self) -> bool {
        files::read(&self.path).is_ok_and(|bytes| bytes == self.text.as_bytes())
    }

    /// The file as a message: processes of the judge run this text.
    pub(crate) fn source(&self) -> SourceText {
        SourceText { file: self.path.display().to_string(), text: self.text.clone() }
    }

    /// The digest of what an operation means: op.toml and this text.
    pub(crate) fn op_digest(&self, op: &OpSpec) -> Digest {
        DigestBuilder::new("operation")
            .field("op.toml", &op.file.text)
            .field("reference", self.text.as_bytes())
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use kernel_plan::diagnostic::SourceFile;

    use super::*;

    #[test]
    fn a_file_that_changes_is_noticed_and_its_first_text_is_what_runs() {
        let folder = files::scratch().unwrap();
        let text = include_str!("../../../examples/rms-norm-device/op.toml");
        let op = kernel_plan::spec::parse_op(SourceFile::new("op.toml", text)).0.unwrap();
        let path = folder.path().join("reference.py");
        files::write(&path, "one = 1\n").unwrap();
        let before = ReferenceFile::read(&op, folder.path()).unwrap();
        assert!(before.is_unchanged());
        files::write(&path, "one = 2\n").unwrap();
        assert!(!before.is_unchanged());
        assert_eq!((before.source().text.as_str(), before.path()), ("one = 1\n", path.as_path()));
        let after = ReferenceFile::read(&op, folder.path()).unwrap();
        assert_ne!(before.op_digest(&op), after.op_digest(&op));
        files::write(&path, [0xff, 0xfe]).unwrap();
        assert!(ReferenceFile::read(&op, folder.path()).is_err());
    }
}
