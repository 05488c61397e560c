//! A child that is asked many things: a line in, a line out, until it is told to end or does not answer.
//!
//! Owns: the deadline of each answer, what becomes of a child that ends in between.
//! Never: interprets a line.

use std::io::Write;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use kernel_plan::plan::CommandLine;

use super::{Ending, Group, Lifetime, Piece, ProcessError, Start, drain, ending_of, logged, readers, spawn};
use crate::base::interrupt;

/// How much of the error output is kept: its end says why a child died.
const KEPT_ERRORS: usize = 64 << 10;

/// A running child with both pipes open. It is killed with its group when this is dropped.
pub struct Dialogue {
    group: Group,
    stdin: Option<Box<dyn Write + Send>>,
    pieces: Receiver<Piece>,
    heard: Vec<u8>,
    stderr: Vec<u8>,
    since: Instant,
}

impl Drop for Dialogue {
    fn drop(&mut self) {
        logged::dialogue_over(self.id(), self.since.elapsed());
    }
}

/// What came of waiting for a line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DialogueEvent {
    /// One line, without its end.
    Line(String),
    /// Nothing before the deadline; the child still runs.
    Silence,
    /// The child has ended, and all that it said was heard.
    Ended(Ending),
}

impl Dialogue {
    /// Starts a child.
    ///
    /// # Errors
    /// When the program is not there or cannot be started, or the user pressed ctrl-C.
    pub fn start(line: &CommandLine) -> Result<Self, ProcessError> {
        Self::start_from(Start::Exec, line)
    }

    /// Starts a child that may come into being in another way.
    ///
    /// # Errors
    /// As [`Self::start`].
    pub fn start_from(start: Start, line: &CommandLine) -> Result<Self, ProcessError> {
        if interrupt::requested() {
            return Err(ProcessError::Interrupted);
        }
        logged::dialogue(line, start);
        let mut group = spawn(line, start, true, Lifetime::OfProgram)?;
        let stdin = group.child.take_stdin();
        let pieces = readers(&mut group.child, &[]);
        Ok(Self { group, stdin, pieces, heard: vec![], stderr: vec![], since: Instant::now() })
    }

    /// Sends one line. A child that no longer reads is known by the next [`Self::hear`].
    pub fn say(&mut self, text: &str) {
        if let Some(stdin) = &mut self.stdin
            && stdin.write_all(text.as_bytes()).and_then(|()| stdin.write_all(b"\n")).is_err()
        {
            self.stdin = None;
        }
    }

    /// Closes the child's input, which tells a well-behaved one to end.
    pub fn close(&mut self) {
        self.stdin = None;
    }

    /// Waits for the next line.
    ///
    /// # Errors
    /// When the user pressed ctrl-C.
    pub fn hear(&mut self, within: Duration) -> Result<DialogueEvent, ProcessError> {
        let until = Instant::now() + within;
        loop {
            if let Some(line) = self.next_line() {
                return Ok(DialogueEvent::Line(line));
            }
            if interrupt::requested() {
                return Err(ProcessError::Interrupted);
            }
            let left = until.saturating_duration_since(Instant::now());
            match self.pieces.recv_timeout(left.min(Duration::from_millis(50))) {
                Ok(piece) => self.take(piece),
                Err(RecvTimeoutError::Timeout) if left.is_zero() => return Ok(DialogueEvent::Silence),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => std::thread::sleep(Duration::from_millis(1)),
            }
            if let Some(status) = self.group.child.try_wait() {
                self.take_rest();
                return Ok(match self.next_line() {
                    Some(line) => DialogueEvent::Line(line),
                    None => DialogueEvent::Ended(ending_of(status)),
                });
            }
            if left.is_zero() {
                return Ok(DialogueEvent::Silence);
            }
        }
    }

    /// The child's process.
    pub fn id(&self) -> u32 {
        self.group.id.as_raw_nonzero().get().cast_unsigned()
    }

    /// The end of what the child wrote to standard error so far.
    pub fn stderr_end(&mut self) -> String {
        while let Ok(piece) = self.pieces.try_recv() {
            self.take(piece);
        }
        String::from_utf8_lossy(&self.stderr).into_owned()
    }

    fn take(&mut self, piece: Piece) {
        match piece {
            Piece::Out(bytes) => self.heard.extend(bytes),
            Piece::Err(bytes) => {
                self.stderr.extend(bytes);
                let surplus = self.stderr.len().saturating_sub(KEPT_ERRORS);
                self.stderr.drain(..surplus);
            }
        }
    }

    /// Takes the output that is left when the child has ended.
    fn take_rest(&mut self) {
        // Grandchildren that hold the pipes open end now.
        self.group.kill();
        let mut rest = Vec::new();
        drain(&self.pieces, &mut |piece| rest.push(piece));
        for piece in rest {
            self.take(piece);
        }
    }

    fn next_line(&mut self) -> Option<String> {
        let end = memchr::memchr(b'\n', &self.heard)?;
        let line: Vec<u8> = self.heard.drain(..=end).collect();
        Some(String::from_utf8_lossy(&line[..end]).trim_end_matches('\r').to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOON: Duration = Duration::from_secs(20);

    fn shell(script: &str) -> Dialogue {
        Dialogue::start(&CommandLine::new("sh").args(["-c", script])).unwrap()
    }

    #[test]
    fn a_line_in_a_line_out() {
        let mut child = shell("while read -r word; do echo \"$word $word\"; done; echo bye; exit 3");
        for word in ["one", "two"] {
            child.say(word);
            assert_eq!(child.hear(SOON).unwrap(), DialogueEvent::Line(format!("{word} {word}")));
        }
        child.close();
        assert_eq!(child.hear(SOON).unwrap(), DialogueEvent::Line("bye".to_owned()));
        assert_eq!(child.hear(SOON).unwrap(), DialogueEvent::Ended(Ending::Exit(3)));
        assert_eq!(child.hear(SOON).unwrap(), DialogueEvent::Ended(Ending::Exit(3)));
    }

    #[test]
    fn silence_is_told_and_the_child_lives() {
        let mut child = shell("read -r word; echo late");
        assert_eq!(child.hear(Duration::from_millis(60)).unwrap(), DialogueEvent::Silence);
        child.say("");
        assert_eq!(child.hear(SOON).unwrap(), DialogueEvent::Line("late".to_owned()));
    }

    #[test]
    fn a_child_that_dies_is_named_with_its_last_words() {
        let mut child = shell("read -r word; echo sorry >&2; kill -SEGV $$");
        child.say("go");
        assert_eq!(child.hear(SOON).unwrap(), DialogueEvent::Ended(Ending::Signal(11)));
        assert_eq!(child.stderr_end(), "sorry\n");
        child.say("nobody hears this");
        assert_eq!(child.hear(SOON).unwrap(), DialogueEvent::Ended(Ending::Signal(11)));
    }

    #[test]
    fn a_child_outlives_the_thread_that_started_it() {
        let mut child =
            std::thread::spawn(|| shell("while read -r word; do echo \"$word\"; done")).join().unwrap();
        // The system would have killed it by now.
        std::thread::sleep(Duration::from_millis(50));
        child.say("still here");
        assert_eq!(child.hear(SOON).unwrap(), DialogueEvent::Line("still here".to_owned()));
    }

    #[test]
    fn a_child_is_gone_when_it_is_dropped() {
        let child = shell("sleep 600");
        let id = rustix::process::Pid::from_raw(child.id().cast_signed()).unwrap();
        drop(child);
        assert!(rustix::process::test_kill_process(id).is_err());
    }
}
