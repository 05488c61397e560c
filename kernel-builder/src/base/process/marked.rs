//! Processes that are known by a variable of their environment, wherever they went.
//!
//! Owns: the mark, and the end of all that have it. Never: starts a process.
#![expect(clippy::disallowed_methods, reason = "a part of the door to other programs")]

use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use super::super::guard;
use crate::base::random;

/// A mark in the environment of a process and of all that it starts, those in sessions of their own, too.
#[derive(Debug)]
pub struct Mark(String);

/// The variable with a mark.
pub const MARK: &str = "KERNELWRIGHT_SESSION";

impl Mark {
    /// A mark that no other process has.
    pub fn draw() -> Self {
        let mark = random::secret();
        guard::watch_mark(&mark);
        Self(mark)
    }

    /// The value of [`MARK`].
    pub fn value(&self) -> &str {
        &self.0
    }

    /// Ends every process that has it. One that begins another one meanwhile is found in the next round.
    pub fn end(&self) {
        let wanted = format!("{MARK}={}", self.0);
        for _ in 0..ROUNDS {
            let marked = having(&wanted);
            if marked.is_empty() {
                return;
            }
            for id in marked {
                // It may be gone already.
                let _gone = Pid::from_raw(id).map(|id| kill_process(id, Signal::KILL));
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Drop for Mark {
    fn drop(&mut self) {
        self.end();
    }
}

/// Rounds in which marked processes are looked for.
const ROUNDS: usize = 100;

/// The processes that have this in their environment, as Linux tells. Those of others cannot be looked at.
fn having(wanted: &str) -> Vec<i32> {
    let Ok(all) = std::fs::read_dir("/proc") else { return vec![] };
    let ids = all.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let has = |id: &i32| {
        let bytes = std::fs::read(format!("/proc/{id}/environ")).unwrap_or_default();
        bytes.split(|byte| *byte == 0).any(|variable| variable == wanted.as_bytes())
    };
    ids.filter(has).collect()
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use kernel_plan::plan::CommandLine;

    use super::super::{Limits, run};
    use super::*;
    use crate::base::files;

    #[test]
    fn a_process_in_a_session_of_its_own_ends_with_its_mark() {
        let folder = files::scratch().unwrap();
        let place = folder.path().join("id");
        let mark = Mark::draw();
        // The shell ends when the process has left its group, which is killed then.
        let script = format!(
            "setsid sh -c 'echo $$ > {0}.new; mv {0}.new {0}; sleep 600' >/dev/null 2>&1 &
            until [ -e {0} ]; do sleep 0.01; done",
            place.display()
        );
        let line = CommandLine::new("sh").args(["-c", &script]).env(MARK, mark.value());
        run(&line, Limits::wall(Duration::from_secs(20))).unwrap();
        let id: i32 = files::read_text(&place).unwrap().trim().parse().unwrap();
        let lives = || rustix::process::test_kill_process(Pid::from_raw(id).unwrap()).is_ok();
        assert!(lives());
        mark.end();
        let wanted = format!("{MARK}={}", mark.value());
        assert!(having(&wanted).is_empty());
    }
}
