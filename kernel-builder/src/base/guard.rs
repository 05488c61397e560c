//! The end of every compiler even when this program is killed and can end nothing itself (`kill -9`).
//!
//! A child dies with its parent (`PR_SET_PDEATHSIG`), but what the child started does not: `g++` would be gone and
//! `cc1plus` go on for minutes. So a shell waits at the end of a pipe. It is told of every process group that begins and
//! ends; when the pipe closes, this program is gone, and the shell kills the groups that are left.
//!
//! Owns: the guarding shell. Never: ends anything while this program lives.
#![expect(clippy::disallowed_methods, reason = "a part of the door to other programs")]

use std::io::Write;
use std::os::unix::process::CommandExt;
use std::process::{ChildStdin, Command, Stdio};
use std::sync::{Mutex, OnceLock, PoisonError};

use rustix::process::Pid;

/// POSIX shell: `+ID` and `-ID` a line, and a mark `*WORD`; then the end of the input. A process with a mark in its
/// environment may have left its group.
const WATCH: &str = r#"live=" " marks=""
while read -r sign id; do
  case $sign in
    +) live="$live$id " ;;
    -) live="${live%% $id *} ${live#* $id }" ;;
    m) marks="$marks $id" ;;
  esac
done
for id in $live; do kill -s KILL -- "-$id" 2>/dev/null; done
for mark in $marks; do
  for round in 1 2 3; do
    for place in $(grep -lsa "$mark" /proc/[0-9]*/environ); do
      id=${place#/proc/}; kill -s KILL "${id%/environ}" 2>/dev/null
    done
  done
done"#;

/// The pipe to the guard; nothing where no shell could be started, as in a container without one.
static GUARD: OnceLock<Option<Mutex<ChildStdin>>> = OnceLock::new();

/// A process group that the guard knows of; forgotten when dropped.
#[derive(Debug)]
pub(super) struct Guarded(Pid);

/// Tells the guard of a new process group.
pub(super) fn watch(group: Pid) -> Guarded {
    tell('+', group);
    Guarded(group)
}

/// Tells the guard of a mark that processes have in their environment.
pub(super) fn watch_mark(mark: &str) {
    say(&format!("m {mark}\n"));
}

impl Drop for Guarded {
    fn drop(&mut self) {
        tell('-', self.0);
    }
}

fn tell(sign: char, group: Pid) {
    say(&format!("{sign} {}\n", group.as_raw_nonzero()));
}

fn say(line: &str) {
    let Some(pipe) = GUARD.get_or_init(start) else { return };
    let mut pipe = pipe.lock().unwrap_or_else(PoisonError::into_inner);
    // A guard that somebody has ended guards no more; children still die with this program.
    let _gone = pipe.write_all(line.as_bytes());
}

fn start() -> Option<Mutex<ChildStdin>> {
    let mut command = Command::new("/bin/sh");
    command.args(["-c", WATCH]).env_clear().current_dir("/").process_group(0);
    command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut shell = command.spawn().ok()?;
    // It is waited for by nobody: it ends after this program does.
    shell.stdin.take().map(Mutex::new)
}
