//! `.kernelwright/candidates/` of a project.
//!
//! Owns: where candidates lie, and that a crash loses at most what was being written. Never: decides what a candidate is
//! worth. Every text that comes from outside loses known secrets before it is written.

use std::path::PathBuf;

use crate::agent::kernel::{KernelRefusal, Origin, Proposal, ProposedKernel, merged, schedule};
use crate::agent::lineage::{Entry, Lineage};
use crate::base::files::{self, FileError};
use crate::base::secrets;
use crate::exit::Failure;
use crate::pipeline::project::device::DeviceProject;
use crate::pipeline::project::kernel;

/// The folder.
const FOLDER: &str = ".kernelwright/candidates";
/// One line a candidate; later lines replace earlier ones.
const LINEAGE: &str = "lineage.jsonl";
/// A candidate's folder, laid out as the project is.
const PROJECT: &str = "project";

/// The candidates of an operation.
pub(crate) struct Store {
    folder: PathBuf,
    lineage: Lineage,
}

impl Store {
    /// Opens that of a project; there need be nothing yet.
    ///
    /// # Errors
    /// It is there and cannot be read.
    pub(crate) fn open(project: &DeviceProject) -> Result<Self, FileError> {
        let mut folder = project.dir.join(FOLDER);
        if project.is_beside() {
            folder = folder.join(project.op.name.value.as_str());
        }
        let mut store = Self { folder, lineage: Lineage::default() };
        store.refresh()?;
        Ok(store)
    }

    /// Reads again what other processes may have added.
    ///
    /// # Errors
    /// As [`Self::open`].
    pub(crate) fn refresh(&mut self) -> Result<(), FileError> {
        let path = self.folder.join(LINEAGE);
        let text = if files::exists(&path) { files::read_text(&path)? } else { String::new() };
        self.lineage = Lineage::read(&text);
        Ok(())
    }

    /// All candidates.
    pub(crate) fn lineage(&self) -> &Lineage {
        &self.lineage
    }

    /// The folder with what is kept of sessions.
    pub(crate) fn sessions(&self) -> PathBuf {
        self.folder.join("sessions")
    }

    /// The workspace that is handed out.
    pub(crate) fn workspace(&self) -> PathBuf {
        self.folder.join("handoff")
    }

    /// The lock of whoever searches.
    pub(crate) fn lock(&self) -> PathBuf {
        self.folder.join("lock")
    }

    /// A candidate's folder, laid out as the project is.
    pub(crate) fn place(&self, id: &str) -> PathBuf {
        self.folder.join(id).join(PROJECT)
    }

    /// Keeps a candidate: first its files, then its line.
    ///
    /// # Errors
    /// A file cannot be written.
    pub(crate) fn keep(
        &mut self,
        proposed: &ProposedKernel,
        origin: &Origin,
        entry: Entry,
    ) -> Result<(), FileError> {
        let place = self.place(&entry.id);
        if !files::is_dir(&place) {
            let staged = files::staging_beside(&place)?;
            kernel::lay_out(proposed, staged.path())?;
            files::write(&staged.path().join(&origin.op_name), &proposed.op.file.text)?;
            files::write(&staged.path().join(&origin.reference.0), &origin.reference.1)?;
            files::replace_dir(staged, &place)?;
        }
        self.note(entry)
    }

    /// Keeps what is new of a candidate.
    ///
    /// # Errors
    /// The line cannot be written.
    pub(crate) fn note(&mut self, entry: Entry) -> Result<(), FileError> {
        let hide = |text: Option<String>| text.map(|text| secrets::without(&text));
        let entry = Entry { note: hide(entry.note), text: hide(entry.text), ..entry };
        let line = serde_json::to_string(&entry).unwrap_or_default();
        files::append_line(&self.folder.join(LINEAGE), &line)?;
        self.lineage.put(entry);
        Ok(())
    }

    /// Reads a candidate back.
    ///
    /// # Errors
    /// Its files are gone. If the project's op.toml changed in what is frozen, it may be no candidate of it any more.
    pub(crate) fn load(
        &self,
        id: &str,
        origin: &Origin,
    ) -> Result<Result<ProposedKernel, KernelRefusal>, Failure> {
        let place = self.place(id);
        let op = files::read_text(&place.join(&origin.op_name))?;
        let schedule = schedule(&op);
        let proposal = Proposal { files: kernel::code(&place, origin)?, ..Proposal::default() };
        let with = schedule.and_then(|schedule| merged(&origin.op.file.text, &schedule));
        Ok(match with {
            Ok(op) => origin.propose(Proposal { op: Some(op), ..proposal }),
            Err(error) => Err(KernelRefusal::op_toml(&error.to_string())),
        })
    }
}
