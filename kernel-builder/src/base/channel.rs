//! Standard output of a worker: answers for the process that started it, and nothing else.
//!
//! Owns: the descriptor behind standard output. Never: interprets an answer.

use std::fs::File;
use std::io::Write;

use serde::Serialize;

/// The way back to whoever started this process.
#[derive(Debug)]
pub struct Answers(Option<File>);

impl Answers {
    /// Keeps the pipe behind standard output, and leads standard output to standard error: what a library or a kernel
    /// prints is no answer.
    pub fn take_over() -> Self {
        let kept = rustix::io::dup(rustix::stdio::stdout()).ok();
        // Where it fails, both are closed, and nobody reads either.
        let _redirected = rustix::stdio::dup2_stdout(rustix::stdio::stderr());
        Self(kept.map(File::from))
    }

    /// Sends one line.
    pub fn say(&mut self, answer: &impl Serialize) {
        let line = serde_json::to_string(answer).unwrap_or_default();
        if let Some(pipe) = &mut self.0
            && pipe.write_all(format!("{line}\n").as_bytes()).is_err()
        {
            // Nobody listens any more; the closed input is going to say so.
            self.0 = None;
        }
    }
}
