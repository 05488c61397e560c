//! The compiler's own process. Threads of one process compile one after the other, and a compiler that crashes takes its
//! process with it: so each is a process.
//!
//! Owns: the conversation. Never: keeps anything between two jobs but the library.

use std::io::BufRead;
use std::path::PathBuf;
use std::time::Instant;

use serde::{Deserialize, Serialize};

use super::library::{Nvrtc, SourceErrors};
use super::unit::{Form, MEMORY};
use crate::base::causes::chain;
use crate::base::channel::Answers;
use crate::base::{confine, files};

/// The role of the worker on the command line of this program.
pub const ROLE: &str = "nvrtc";

/// The first line: which library.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Opening {
    pub(super) library: PathBuf,
    pub(super) builtins: Option<PathBuf>,
    /// Paths that the process may read; `None` if the operating system cannot confine it.
    pub(super) readable: Option<Vec<PathBuf>>,
}

/// Each later line: one text to compile.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Job {
    /// The source's text.
    pub(super) text: String,
    /// What errors call it.
    pub(super) name: String,
    /// NVRTC's options.
    pub(super) options: Vec<String>,
    /// The kernels that are wanted.
    pub(super) expressions: Vec<String>,
    /// What is made.
    pub(super) form: Form,
    /// Where the machine code goes; the file appears whole or not at all.
    pub(super) cubin: PathBuf,
}

/// The answer to each line.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(super) struct CompileAnswer {
    /// The mangled names, in the order of the expressions.
    pub(super) names: Vec<String>,
    /// Warnings, or errors.
    pub(super) log: String,
    /// What failed; nothing when there is a cubin.
    pub(super) failed: Option<String>,
    /// Why the process cannot be confined; in the first answer alone.
    pub(super) unconfined: Option<String>,
    /// How long it took.
    pub(super) seconds: f64,
    /// The library's version; in the first answer alone.
    pub(super) version: Option<(i32, i32)>,
}

impl From<SourceErrors> for CompileAnswer {
    fn from(rejected: SourceErrors) -> Self {
        Self { log: rejected.log, failed: Some(rejected.status), ..Self::default() }
    }
}

/// Compiles what it is told until nothing more comes.
pub fn serve() -> u8 {
    let mut answers = Answers::take_over();
    let mut nvrtc = None;
    for line in std::io::stdin().lock().lines() {
        let Ok(line) = line else { break };
        let started = Instant::now();
        let done = match &nvrtc {
            None => match open(&line) {
                Ok((library, version)) => {
                    nvrtc = Some(library);
                    CompileAnswer { version: Some(version), ..CompileAnswer::default() }
                }
                Err(done) => done,
            },
            Some(nvrtc) => compile(nvrtc, &line),
        };
        answers.say(&CompileAnswer { seconds: started.elapsed().as_secs_f64(), ..done });
    }
    0
}

fn open(line: &str) -> Result<(Nvrtc, (i32, i32)), CompileAnswer> {
    let failed = |reason: String| CompileAnswer { failed: Some(reason), ..CompileAnswer::default() };
    let opening: Opening = serde_json::from_str(line).map_err(|error| failed(chain(&error)))?;
    let nvrtc =
        Nvrtc::load(&opening.library, opening.builtins.as_deref()).map_err(|error| failed(chain(&error)))?;
    let version = nvrtc.version()?;
    // After loading: from here on no candidate's text makes it read anything else, or have more memory.
    let confined = opening.readable.map_or(Ok(()), |readable| confine::reading(&readable));
    let confined = confined.and_then(|()| confine::memory(MEMORY));
    confined
        .map_err(|error| CompileAnswer { unconfined: Some(chain(&error)), ..CompileAnswer::default() })?;
    Ok((nvrtc, version))
}

fn compile(nvrtc: &Nvrtc, line: &str) -> CompileAnswer {
    let job: Job = match serde_json::from_str(line) {
        Ok(job) => job,
        Err(error) => return CompileAnswer { failed: Some(chain(&error)), ..CompileAnswer::default() },
    };
    match nvrtc.compile(&job.text, &job.name, &job.options, &job.expressions, job.form) {
        Ok(compiled) => match files::write(&job.cubin, compiled.code) {
            Ok(()) => CompileAnswer { names: compiled.names, log: compiled.log, ..CompileAnswer::default() },
            Err(error) => CompileAnswer { failed: Some(chain(&error)), ..CompileAnswer::default() },
        },
        Err(rejected) => rejected.into(),
    }
}
