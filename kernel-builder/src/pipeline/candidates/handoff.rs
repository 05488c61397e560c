//! A workspace for a person, or for a program on another machine.
//!
//! Owns: where it lies, and that nobody's work is written over. Never: starts anything.

use std::path::{Path, PathBuf};
use std::time::Duration;

use miette::Diagnostic;
use serde_json::Value;
use thiserror::Error;

use crate::base::files;
use crate::base::session::Session;
use crate::compile::nvrtc::Tool;
use crate::exit::{self, Failure, StageError};
use crate::mcp::{Outcome, Submit, Try};
use crate::pipeline::measure::screening::ScreeningError;

use super::task_text::HandInMethod;
use super::{Desk, at_desk};

/// What is wrong with what came back.
#[derive(Debug, Error, Diagnostic)]
enum HandoffError {
    #[error("there is no workspace at `{}`", folder.display())]
    #[diagnostic(
        code(agent::no_workspace),
        help("create one with `kernelwright fill DIR --agent handoff`, or name another folder with --from")
    )]
    NoWorkspace { folder: PathBuf },
    #[error("the candidate is {verdict}: {code}: {text}")]
    #[diagnostic(code(agent::refused), help("`kernelwright candidates DIR` lists the submitted candidates"))]
    Refused { verdict: String, code: String, text: String },
}

impl StageError for HandoffError {
    fn exit(&self) -> u8 {
        exit::AGENT
    }
}

/// A workspace.
pub(crate) struct Workspace {
    /// Its folder.
    pub(crate) folder: PathBuf,
    /// Whether it was there already.
    pub(crate) was_there: bool,
}

/// Makes a workspace, unless there is one.
///
/// # Errors
/// It cannot be written.
pub(crate) fn hand_out(dir: &Path, tool: Tool, session: &Session) -> Result<Workspace, Failure> {
    at_desk(dir, tool, Duration::from_secs(2), session, |desk| {
        let folder = desk.workspace();
        if files::is_dir(&folder) && !files::is_empty_dir(&folder) {
            return Ok(Workspace { folder, was_there: true });
        }
        let mut put = |name: &str, text: &str| Ok(files::write(&folder.join(name), text)?);
        desk.fill_workspace(&mut put, 0, HandInMethod::Files)?;
        Ok(Workspace { folder, was_there: false })
    })
}

/// Takes a workspace back: judges what is in it and holds it against the best. Gives what was said of it.
///
/// # Errors
/// There is no GPU, nothing was changed, or the candidate is refused.
pub(crate) fn take_in(
    dir: &Path,
    from: Option<&Path>,
    note: Option<String>,
    tool: Tool,
    patience: Duration,
    session: &Session,
) -> Result<Value, Failure> {
    at_desk(dir, tool, patience, session, |desk| {
        let folder = from.map_or_else(|| desk.workspace(), Path::to_owned);
        if !files::is_dir(&folder) {
            return Err(HandoffError::NoWorkspace { folder }.into());
        }
        if let Err(missing) = desk.judge.device()? {
            return Err(ScreeningError::no_gpu(missing));
        }
        let tried = fine(desk.attempt(Try { dir: Some(folder), note: note.clone(), ..Try::default() })?)?;
        let id = tried["id"].as_str().unwrap_or_default().to_owned();
        fine(desk.submit(&Submit { id, note })?)
    })
}

/// An answer that is no refusal.
fn fine(outcome: Outcome) -> Result<Value, Failure> {
    let data = outcome.data;
    let text = |key: &str| data[key].as_str().unwrap_or_default().to_owned();
    if outcome.failed || text("verdict") == "refused" {
        let verdict = if outcome.failed { "not judged".to_owned() } else { text("verdict") };
        return Err(HandoffError::Refused { verdict, code: text("code"), text: text("text") }.into());
    }
    Ok(data)
}

impl Desk<'_> {
    fn workspace(&self) -> PathBuf {
        self.store.workspace()
    }
}
