//! Processes: the only place that starts one.
//!
//! Owns: process groups, deadlines, caps on memory and output, the scrubbed environment, the end of every child.
//! Never: interprets what a child printed.
#![expect(clippy::disallowed_methods, reason = "this module is the door to other programs")]

use std::io::{Read, Write};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::time::{Duration, Instant};

use kernel_plan::plan::CommandLine;
use rustix::process::{Pid, Signal, kill_process_group};

use super::{env, guard, interrupt, memory};

mod born;
mod child;
mod dialogue;
mod ending;
mod forks;
mod logged;
mod marked;

use born::ChildHandle;
pub use child::{Finished, Limits, ProcessError, Start};
pub use dialogue::{Dialogue, DialogueEvent};
pub use ending::Ending;
use ending::ending_of;
pub use marked::{MARK, Mark};

/// What others see of a child while it runs.
#[derive(Debug, Default)]
pub struct Gauge {
    resident: AtomicU64,
}

impl Gauge {
    /// Bytes that the child and its descendants held when they were last looked at.
    pub fn resident(&self) -> u64 {
        self.resident.load(Ordering::Relaxed)
    }

    /// What a look found, for who decides with it and has no process.
    #[cfg(test)]
    pub(crate) fn set(&self, resident: u64) {
        self.resident.store(resident, Ordering::Relaxed);
    }

    /// Looks at them again; the most that they are known to have held at a time.
    fn read(&self, id: u32) -> u64 {
        let tree = memory::tree(id);
        self.resident.store(tree.resident, Ordering::Relaxed);
        // Between two looks a process may have held more than its present share; the kernel remembers its own peak.
        tree.resident.max(tree.largest)
    }
}

/// Runs a command to its end and keeps what it printed.
pub fn run(line: &CommandLine, limits: Limits) -> Result<Finished, ProcessError> {
    drive(line, Start::Exec, limits, &[], None, None)
}

/// Runs a command to its end, as [`run`], and counts the memory of all that it starts: a compiler's driver is small, and
/// what it calls is not.
pub fn run_gauged(line: &CommandLine, limits: Limits, gauge: &Gauge) -> Result<Finished, ProcessError> {
    drive(line, Start::Exec, limits, &[], None, Some(gauge))
}

/// Runs a command, feeds it `input`, and hands every line of its standard output to `on_line` as it comes.
pub fn converse(
    line: &CommandLine,
    limits: Limits,
    input: &[u8],
    on_line: &mut dyn FnMut(&str),
) -> Result<Finished, ProcessError> {
    drive(line, Start::Exec, limits, input, Some(on_line), None)
}

/// The same for a child that may come into being in another way.
pub fn converse_from(
    start: Start,
    line: &CommandLine,
    limits: Limits,
    input: &[u8],
    on_line: &mut dyn FnMut(&str),
) -> Result<Finished, ProcessError> {
    drive(line, start, limits, input, Some(on_line), None)
}

/// Ends the processes that children are forked from ([`Start::Fork`]); they begin again when they are needed.
pub fn end_forks() {
    forks::end_all();
}

/// Where an executable is, by `PATH` when it is a bare name.
pub fn find(program: &str) -> Option<PathBuf> {
    which::which(program).ok()
}

enum Piece {
    Out(Vec<u8>),
    Err(Vec<u8>),
}

/// Kills the group when dropped, whatever the reason for leaving: an error, a panic, ctrl-C.
struct Group {
    child: ChildHandle,
    id: Pid,
    _guarded: guard::Guarded,
}

impl Group {
    fn kill(&self) {
        // The group may be gone already; then there is nothing to kill.
        let _gone = kill_process_group(self.id, Signal::KILL);
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.kill();
        self.child.wait();
    }
}

/// Where the pieces of a child's output go.
struct Sink<'a, 'b> {
    stdout: Vec<u8>,
    stderr: Vec<u8>,
    partial: Vec<u8>,
    printed: usize,
    on_line: Option<&'a mut (dyn FnMut(&str) + 'b)>,
}

impl Sink<'_, '_> {
    fn take(&mut self, piece: Piece) {
        match piece {
            Piece::Out(bytes) => {
                self.printed += bytes.len();
                let Some(on_line) = self.on_line.as_mut() else { return self.stdout.extend(bytes) };
                self.partial.extend(bytes);
                while let Some(end) = self.partial.iter().position(|byte| *byte == b'\n') {
                    let line: Vec<u8> = self.partial.drain(..=end).collect();
                    on_line(String::from_utf8_lossy(&line[..end]).trim_end_matches('\r'));
                }
            }
            Piece::Err(bytes) => {
                self.printed += bytes.len();
                self.stderr.extend(bytes);
            }
        }
    }

    /// Hands over a last line that has no end.
    fn close(&mut self) {
        if let (false, Some(on_line)) = (self.partial.is_empty(), self.on_line.as_mut()) {
            on_line(&String::from_utf8_lossy(&self.partial));
        }
    }
}

fn drive(
    line: &CommandLine,
    start: Start,
    limits: Limits,
    input: &[u8],
    on_line: Option<&mut dyn FnMut(&str)>,
    gauge: Option<&Gauge>,
) -> Result<Finished, ProcessError> {
    logged::start(line, start);
    let done = attend(line, start, limits, input, on_line, gauge);
    logged::end(line, &done);
    done
}

fn attend(
    line: &CommandLine,
    start: Start,
    limits: Limits,
    input: &[u8],
    on_line: Option<&mut dyn FnMut(&str)>,
    gauge: Option<&Gauge>,
) -> Result<Finished, ProcessError> {
    if interrupt::requested() {
        return Err(ProcessError::Interrupted);
    }
    let started = Instant::now();
    let mut group = spawn(line, start, !input.is_empty(), Lifetime::OfThread)?;
    let pieces = readers(&mut group.child, input);
    let mut sink = Sink { stdout: vec![], stderr: vec![], partial: vec![], printed: 0, on_line };
    let (mut peak_resident, mut own, mut next_sample, mut open) = (0, 0, started, true);
    let ending = loop {
        match pieces.recv_timeout(Duration::from_millis(10)) {
            Ok(piece) => sink.take(piece),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => {
                // Both pipes are closed, so the child is about to end; recv returns at once from here on.
                open = false;
                std::thread::sleep(Duration::from_millis(1));
            }
        }
        if let Some(status) = group.child.try_wait() {
            if open {
                // Grandchildren that hold the pipes open end now; what they and the child wrote is still in the pipes.
                group.kill();
                drain(&pieces, &mut |piece| sink.take(piece));
            }
            break ending_of(status);
        }
        if interrupt::requested() {
            return Err(ProcessError::Interrupted);
        }
        if Instant::now() >= next_sample {
            next_sample = Instant::now() + Duration::from_millis(50);
            let id = group.child.id().as_raw_nonzero().get().cast_unsigned();
            own = own.max(memory::resident(id));
            peak_resident = peak_resident.max(gauge.map_or(own, |gauge| gauge.read(id)));
        }
        let over = [
            (started.elapsed() > limits.wall, Ending::Deadline),
            (sink.printed > limits.output, Ending::OutputLimit),
            (limits.resident.is_some_and(|cap| own > cap), Ending::MemoryLimit),
        ];
        if let Some((_, ending)) = over.into_iter().find(|(is_over, _)| *is_over) {
            break ending;
        }
    };
    sink.close();
    let Sink { stdout, stderr, .. } = sink;
    Ok(Finished { ending, stdout, stderr, wall: started.elapsed(), peak_resident })
}

/// Takes the output that is left in the pipes of a child that has ended, until they are closed, for two seconds at most.
fn drain(pieces: &Receiver<Piece>, take: &mut dyn FnMut(Piece)) {
    let give_up = Instant::now() + Duration::from_secs(2);
    while let Ok(piece) = pieces.recv_timeout(give_up.saturating_duration_since(Instant::now())) {
        take(piece);
    }
}

/// Whom a child dies with at the latest, should nobody be left to end it. The guard sees to the rest.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Lifetime {
    /// The thread that started it and waits for it.
    OfThread,
    /// The program: the thread that starts it may end before.
    OfProgram,
}

fn spawn(line: &CommandLine, start: Start, wants_input: bool, life: Lifetime) -> Result<Group, ProcessError> {
    if start == Start::Fork
        && let Some(child) = forks::fork(line, wants_input)
    {
        let id = child.id;
        return Ok(Group { child: ChildHandle::Forked(child), id, _guarded: guard::watch(id) });
    }
    if interrupt::requested() {
        return Err(ProcessError::Interrupted);
    }
    let program = if line.program.components().count() == 1 {
        which::which(&line.program).map_err(|_| ProcessError::Missing { program: line.program.clone() })?
    } else {
        line.program.clone()
    };
    let mut command = Command::new(&program);
    command.args(&line.args).env_clear().envs(env::inherited()).envs(&line.env);
    if let Some(dir) = &line.cwd {
        command.current_dir(dir);
    }
    command.stdin(if wants_input { Stdio::piped() } else { Stdio::null() });
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
    if life == Lifetime::OfThread {
        // SAFETY: between fork and exec only one system call is made (prctl), which is async-signal-safe.
        unsafe {
            command.pre_exec(|| {
                rustix::process::set_parent_process_death_signal(Some(Signal::KILL)).map_err(Into::into)
            });
        }
    }
    let child = command.spawn().map_err(|cause| match cause.kind() {
        std::io::ErrorKind::NotFound => ProcessError::Missing { program: program.clone() },
        _ => ProcessError::Start { program: program.clone(), cause },
    })?;
    let child = ChildHandle::Started(child);
    let id = child.id();
    Ok(Group { child, id, _guarded: guard::watch(id) })
}

fn readers(child: &mut ChildHandle, input: &[u8]) -> Receiver<Piece> {
    let (send, pieces) = mpsc::channel();
    if let Some(out) = child.take_stdout() {
        read_into(out, send.clone(), Piece::Out);
    }
    if let Some(err) = child.take_stderr() {
        read_into(err, send, Piece::Err);
    }
    if let Some(mut stdin) = child.take_stdin() {
        let input = input.to_vec();
        // A child that closes its input early is judged by how it ends.
        std::thread::spawn(move || stdin.write_all(&input));
    }
    pieces
}

fn read_into(mut from: impl Read + Send + 'static, send: Sender<Piece>, kind: fn(Vec<u8>) -> Piece) {
    std::thread::spawn(move || {
        let mut buffer = vec![0; 64 << 10];
        while let Ok(count @ 1..) = from.read(&mut buffer) {
            if send.send(kind(buffer[..count].to_vec())).is_err() {
                break;
            }
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> CommandLine {
        CommandLine::new("sh").args(["-c", script])
    }

    fn within(seconds: u64) -> Limits {
        Limits::wall(Duration::from_secs(seconds))
    }

    #[test]
    fn keeps_output_and_status() {
        let done = run(&shell("echo out; echo err >&2; exit 3"), within(20)).unwrap();
        assert_eq!(done.ending, Ending::Exit(3));
        assert_eq!(done.stdout_text(), "out\n");
        assert_eq!(done.stderr_text(), "err\n");
    }

    #[test]
    fn kills_the_whole_group_at_the_deadline() {
        let done = run(&shell("sleep 600 & sleep 600"), Limits::wall(Duration::from_millis(200))).unwrap();
        assert_eq!(done.ending, Ending::Deadline);
    }

    #[test]
    fn memory_of_what_a_child_starts_is_counted() {
        // Two grandchildren at a time, each with some 30 MB in a variable, below a shell that holds next to nothing.
        let script = "held() { a=$(yes x | head -c 30000000); sleep 0.3; echo ${#a}; }; held & held & wait";
        let gauge = Gauge::default();
        let done = run_gauged(&shell(script), within(60), &gauge).unwrap();
        assert_eq!(done.stdout_text(), "29999999\n29999999\n", "{}", done.stderr_text());
        assert!(done.peak_resident > 60_000_000, "{}", done.peak_resident);
    }

    #[test]
    fn names_the_signal() {
        let done = run(&shell("kill -SEGV $$"), within(20)).unwrap();
        assert_eq!(done.ending.to_string(), "was killed by SIGSEGV (bad memory access)");
    }

    #[test]
    fn caps_output() {
        let limits = Limits { output: 1 << 16, ..within(60) };
        assert_eq!(run(&shell("yes"), limits).unwrap().ending, Ending::OutputLimit);
    }

    #[test]
    fn scrubs_the_environment() {
        let done = run(&shell("env"), within(20)).unwrap();
        assert!(!done.stdout_text().contains("CARGO_PKG_NAME"), "{}", done.stdout_text());
    }

    #[test]
    fn hands_over_lines_and_feeds_input() {
        let mut lines = Vec::new();
        let done = converse(&shell("cat; printf end"), within(20), b"one\ntwo\n", &mut |line| {
            lines.push(line.to_owned());
        });
        assert!(done.unwrap().ending.success());
        assert_eq!(lines, ["one", "two", "end"]);
    }

    #[test]
    fn a_missing_program_is_named() {
        let error = run(&CommandLine::new("no-such-program-here"), within(1)).unwrap_err();
        assert_eq!(error.to_string(), "program not found: `no-such-program-here`");
    }
}
