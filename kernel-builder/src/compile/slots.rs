//! The pool: how many compilers run at a time.
//!
//! Owns: the slots. Never: knows what a command makes.

use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

use kernel_plan::plan::CommandLine;

use crate::base::process::{self, Finished, Limits, ProcessError};

/// One command may take this long; a kernel with many large instantiations takes minutes, not an hour.
const DEADLINE: Duration = Duration::from_secs(3600);

/// For whom a command runs.
#[derive(Debug, Clone, Copy)]
pub struct Label<'a> {
    /// The variant.
    pub variant: &'a str,
    /// The source, or `link`.
    pub unit: &'a str,
    /// The part of the work, e.g. `compile`, `cicc sm_90a`.
    pub step: &'a str,
}

/// A bounded number of processes. Threads may be many; each waits here before it starts one.
#[derive(Debug)]
pub struct Slots {
    free: Mutex<usize>,
    freed: Condvar,
}

impl Slots {
    /// A pool of `jobs` processes, at least one.
    pub fn new(jobs: usize) -> Self {
        Self { free: Mutex::new(jobs.max(1)), freed: Condvar::new() }
    }

    /// Runs a command when a slot is free.
    ///
    /// # Errors
    /// It could not be started, or the user stopped.
    pub fn run(&self, _label: Label<'_>, command: &CommandLine) -> Result<Finished, ProcessError> {
        let free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        let mut free = self.freed.wait_while(free, |free| *free == 0).unwrap_or_else(PoisonError::into_inner);
        *free -= 1;
        drop(free);
        let _slot = Slot(self);
        process::run(command, Limits::wall(DEADLINE))
    }
}

/// A taken slot; free again when dropped.
struct Slot<'a>(&'a Slots);

impl Drop for Slot<'_> {
    fn drop(&mut self) {
        *self.0.free.lock().unwrap_or_else(PoisonError::into_inner) += 1;
        self.0.freed.notify_one();
    }
}
