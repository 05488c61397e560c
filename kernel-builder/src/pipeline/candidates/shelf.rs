//! Candidates that are kept, without a judge: to be shown, and to be written into the project.
//!
//! Owns: what `--apply` writes. Never: judges; loses a kernel of the project that is not kept yet.

use std::path::{Path, PathBuf};

use miette::Diagnostic;
use thiserror::Error;

use crate::agent::kernel::{KernelRefusal, OpTextError, Origin, ProposedKernel, with_schedule};
use crate::agent::lineage::{CandidateStatus, Entry, Lineage};
use crate::agent::tuned as table;
use crate::base::files;
use crate::base::session::Session;
use crate::exit::{self, Failure, StageError};
use crate::pipeline::create::generate;
use crate::pipeline::project::device::{self, DeviceProject};
use crate::pipeline::project::kernel;

use super::past;
use super::store::Store;

/// What cannot be shown or applied.
#[derive(Debug, Error, Diagnostic)]
enum ShelfError {
    #[error("`{name}` does not match exactly one candidate")]
    #[diagnostic(
        code(agent::unknown_candidate),
        help("`kernelwright candidates DIR` lists them; `best` and `seed` are accepted, too")
    )]
    Unknown { name: String },
    #[error("candidate {id} cannot be written into {}", path.display())]
    #[diagnostic(code(agent::op_toml), help("fix the file: it must be valid TOML"))]
    NotToml {
        id: String,
        path: PathBuf,
        #[source]
        cause: Box<OpTextError>,
    },
    #[error("candidate {id} no longer fits the project: {refused}")]
    #[diagnostic(
        code(agent::stale_candidate),
        help("op.toml or the reference changed after it was made; its files are in {}", folder.display())
    )]
    Stale { id: String, refused: KernelRefusal, folder: PathBuf },
    #[error("candidate {id} was refused: {code}")]
    #[diagnostic(
        code(agent::not_right),
        help("`kernelwright candidates DIR {id}` shows the reason and the folder with its files")
    )]
    NotRight { id: String, code: String },
}

impl StageError for ShelfError {
    fn exit(&self) -> u8 {
        exit::AGENT
    }
}

/// The candidates of a project.
pub(crate) struct Shelf {
    project: DeviceProject,
    origin: Option<Origin>,
    store: Store,
}

/// Everything about one candidate.
pub(crate) struct CandidateDetails {
    /// What is kept of it.
    pub(crate) entry: Entry,
    /// Its files.
    pub(crate) folder: PathBuf,
    /// The candidate that `diff` is from.
    pub(crate) from: Option<String>,
    /// What it changes.
    pub(crate) diff: String,
}

/// Opens the candidates of the project in a folder.
///
/// # Errors
/// There is no such project, or the file of candidates cannot be read.
pub(crate) fn open(dir: &Path, session: &Session) -> Result<Shelf, Failure> {
    let project = device::read_code(dir, session)?;
    let (origin, store) = (kernel::origin(&project)?, Store::open(&project)?);
    Ok(Shelf { project, origin, store })
}

impl Shelf {
    /// All of them.
    pub(crate) fn lineage(&self) -> &Lineage {
        self.store.lineage()
    }

    fn find(&self, name: &str) -> Result<Entry, ShelfError> {
        self.lineage().find(name).cloned().ok_or_else(|| ShelfError::Unknown { name: name.to_owned() })
    }

    fn load(&self, id: &str) -> Result<ProposedKernel, Failure> {
        let stale = |refused| ShelfError::Stale { id: id.to_owned(), refused, folder: self.store.place(id) };
        let Some(origin) = &self.origin else {
            return Err(stale(KernelRefusal::op_toml("it has no [launch]")).into());
        };
        Ok(self.store.load(id, origin)?.map_err(stale)?)
    }

    /// One of them, and what it changes in another one, its parent if `None`.
    ///
    /// # Errors
    /// There is no such candidate.
    pub(crate) fn show(&self, name: &str, from: Option<&str>) -> Result<CandidateDetails, Failure> {
        let entry = self.find(name)?;
        let from = match from {
            Some(name) => Some(self.find(name)?.id),
            None => entry.parent.clone().filter(|parent| self.lineage().find(parent).is_some()),
        };
        let diff = match (&from, &self.origin) {
            (Some(from), Some(origin)) => {
                past::difference(&self.load(from)?, &self.load(&entry.id)?, &origin.op_name)
            }
            _ => String::new(),
        };
        Ok(CandidateDetails { folder: self.store.place(&entry.id), entry, from, diff })
    }

    /// Writes a candidate's files, its `[let]`, `[tune]` and `[launch]`, and the settings that were found for it, into the project.
    /// The project's own kernel is kept as a candidate before, if it is none yet. Gives the paths that were written.
    ///
    /// # Errors
    /// There is no such candidate, it was refused, or a file cannot be written.
    pub(crate) fn apply(&mut self, name: &str, session: &Session) -> Result<(Entry, Vec<String>), Failure> {
        let entry = self.find(name)?;
        if let Some(code) = entry.code.clone().filter(|_| entry.standing == CandidateStatus::Refused) {
            return Err(ShelfError::NotRight { id: entry.id, code }.into());
        }
        if matches!(entry.standing, CandidateStatus::Compiled | CandidateStatus::Right) {
            session
                .report
                .warn(format!("{} was never compared with the best; verify it before you use it", entry.id));
        }
        let proposed = self.load(&entry.id)?;
        self.keep_own()?;
        let mut written = Vec::new();
        for (name, text) in proposed.kernel.files() {
            if files::write_if_changed(&self.project.dir.join(name), text)? {
                written.push(name.clone());
            }
        }
        let path = self.project.dir.join(&self.project.op_name);
        let before = files::read_text(&path)?;
        let after = with_schedule(&before, proposed.kernel.schedule()).map_err(|cause| {
            ShelfError::NotToml { id: entry.id.clone(), path: path.clone(), cause: Box::new(cause) }
        })?;
        if after != before {
            files::rewrite(&path, &after)?;
            written.push(self.project.op_name.clone());
        }
        written.extend(self.settings(&entry.id, session)?);
        generate::after_fill(&path, session)?;
        Ok((entry, written))
    }

    /// Keeps the project's own kernel, so that `--apply` can put it back.
    fn keep_own(&mut self) -> Result<(), Failure> {
        let Some(origin) = &self.origin else { return Ok(()) };
        let Ok(own) = kernel::read(&self.project.dir, origin)? else { return Ok(()) };
        let id = own.kernel.id();
        if self.store.lineage().entries().iter().any(|entry| entry.id == id) {
            return Ok(());
        }
        self.store.keep(&own, origin, Entry::seed(id, files::now()))?;
        Ok(())
    }

    /// Copies the tables of settings of a candidate. A dispatch table of the project is not written over.
    fn settings(&self, id: &str, session: &Session) -> Result<Vec<String>, Failure> {
        let (place, mut written) = (self.store.place(id), Vec::new());
        if !files::is_dir(&place.join("tuned")) {
            return Ok(written);
        }
        for file in files::walk_unfollowed(&place.join("tuned"), |_| true)? {
            let name = format!("tuned/{}", file.display());
            let (text, to) = (files::read_text(&place.join(&name))?, self.project.dir.join(&name));
            if !table::is_settings(&text) {
                continue;
            }
            if files::exists(&to) && !table::is_settings(&files::read_text(&to)?) {
                session
                    .report
                    .note(format!("{name} is a dispatch table; the candidate's settings are not written"));
                continue;
            }
            if files::write_if_changed(&to, text)? {
                written.push(name);
            }
        }
        Ok(written)
    }
}
