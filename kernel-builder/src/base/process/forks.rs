//! Children that are forked from a Python that has imported torch already (harness/forks.py).
//!
//! Owns: one such server for each interpreter and environment, the request for a child, how it is heard of its end.
//! Never: is needed. Where there is no server, the caller starts the interpreter itself.
#![expect(clippy::disallowed_methods, reason = "a part of the door to other programs")]

use std::collections::HashMap;
use std::io::{ErrorKind, IoSlice, PipeReader, PipeWriter, Read, pipe};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use kernel_plan::plan::CommandLine;
use rustix::fs::{Mode, OFlags};
use rustix::net::{
    AddressFamily, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketFlags, SocketType,
};
use rustix::process::Pid;
use serde::Serialize;

use super::super::{env, guard, interrupt};

const SERVER: &str = include_str!("../../../harness/forks.py");
/// A first import of torch from a cold disk.
const START: Duration = Duration::from_secs(180);
/// A killed child is reaped at once, unless the machine is out of breath.
const REAP: Duration = Duration::from_secs(10);

/// What a server is asked for, as harness/forks.py reads it.
#[derive(Serialize)]
struct Request<'a> {
    /// The path of the script that the child runs.
    script: &'a str,
    /// Its whole environment.
    env: HashMap<String, String>,
    /// Its folder.
    cwd: &'a Path,
}

/// A child of a server.
pub(super) struct Forked {
    pub(super) id: Pid,
    pub(super) stdin: Option<PipeWriter>,
    pub(super) stdout: Option<PipeReader>,
    pub(super) stderr: Option<PipeReader>,
    answer: UnixStream,
    heard: Vec<u8>,
    ended: Option<ExitStatus>,
}

impl Forked {
    /// Its status, if it has ended.
    pub(super) fn try_wait(&mut self) -> Option<ExitStatus> {
        if self.ended.is_none() {
            match next_line(&mut self.answer, &mut self.heard) {
                Line::None => {}
                Line::Text(text) => self.ended = status(&text),
                // The server is gone, and nobody can say what became of the child: it counts as killed.
                Line::Closed => self.ended = Some(ExitStatus::from_raw(9)),
            }
        }
        self.ended
    }

    /// Waits until a child that was killed is reaped.
    pub(super) fn wait(&mut self) {
        let until = Instant::now() + REAP;
        let _set = self.answer.set_read_timeout(Some(Duration::from_millis(100)));
        let _blocks = self.answer.set_nonblocking(false);
        while self.try_wait().is_none() && Instant::now() < until {}
    }
}

/// `status N` with a wait status.
fn status(text: &str) -> Option<ExitStatus> {
    Some(ExitStatus::from_raw(text.strip_prefix("status ")?.parse().ok()?))
}

/// `pid N`.
fn pid(text: &str) -> Option<Pid> {
    Pid::from_raw(text.strip_prefix("pid ")?.parse().ok()?)
}

enum Line {
    None,
    Text(String),
    Closed,
}

/// The next line of a socket, as far as it has come.
fn next_line(from: &mut UnixStream, heard: &mut Vec<u8>) -> Line {
    loop {
        if let Some(end) = memchr::memchr(b'\n', heard) {
            let line: Vec<u8> = heard.drain(..=end).collect();
            return Line::Text(String::from_utf8_lossy(&line[..end]).into_owned());
        }
        let mut buffer = [0; 64];
        match from.read(&mut buffer) {
            Ok(0) => return Line::Closed,
            Ok(count) => heard.extend(&buffer[..count]),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                return Line::None;
            }
            Err(_) => return Line::Closed,
        }
    }
}

/// A server that runs, or has run.
struct Server {
    /// Where requests are sent. The server ends when this is closed.
    requests: OwnedFd,
    process: Child,
    _guarded: guard::Guarded,
}

impl Drop for Server {
    fn drop(&mut self) {
        // It has nothing to tidy up; its children are ended by those that asked for them.
        let _gone = self.process.kill();
        let _reaped = self.process.wait();
    }
}

/// What servers differ in: the interpreter with its flags, and where its packages are. All else that the environment says is
/// read later, by a child.
type Key = (PathBuf, Vec<String>, Option<String>);

/// Where packages of an interpreter are that are not its own (harness/main.py).
const SITE: &str = "KERNELWRIGHT_SITE";

/// The servers of this process; nothing where one could not be started, which is not tried again.
static SERVERS: OnceLock<Mutex<HashMap<Key, Option<Arc<Server>>>>> = OnceLock::new();

/// Forks a child for `line`, flags of a Python and a script. `None` if there is no server for it.
pub(super) fn fork(line: &CommandLine, wants_input: bool) -> Option<Forked> {
    let (script, flags) = line.args.split_last()?;
    let key: Key = (line.program.clone(), flags.to_vec(), line.env.get(SITE).cloned());
    let server = {
        let mut servers = SERVERS.get_or_init(Mutex::default).lock().unwrap_or_else(PoisonError::into_inner);
        servers.entry(key.clone()).or_insert_with(|| start(&key).map(Arc::new)).clone()?
    };
    let child = ask(&server, line, script, wants_input);
    if child.is_none() && !interrupt::requested() {
        let mut servers = SERVERS.get_or_init(Mutex::default).lock().unwrap_or_else(PoisonError::into_inner);
        servers.insert(key, None);
    }
    child
}

/// Ends all servers. Children that still run are not theirs to end.
pub(super) fn end_all() {
    if let Some(servers) = SERVERS.get() {
        servers.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }
}

fn start((program, flags, site): &Key) -> Option<Server> {
    let (ours, its) =
        rustix::net::socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)
            .ok()?;
    let mut command = Command::new(program);
    command.args(flags).args(["-c", SERVER]).env_clear().envs(env::inherited());
    command.envs(site.iter().map(|site| (SITE, site)));
    command.current_dir("/").process_group(0);
    command.stdin(Stdio::from(its)).stdout(Stdio::null()).stderr(Stdio::null());
    let process = command.spawn().ok()?;
    let _guarded = guard::watch(Pid::from_child(&process));
    Some(Server { requests: ours, process, _guarded })
}

fn ask(server: &Server, line: &CommandLine, script: &str, wants_input: bool) -> Option<Forked> {
    let (input, stdin) = if wants_input {
        let (reader, writer) = pipe().ok()?;
        (OwnedFd::from(reader), Some(writer))
    } else {
        (rustix::fs::open("/dev/null", OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()).ok()?, None)
    };
    let (stdout, output) = pipe().ok()?;
    let (stderr, errors) = pipe().ok()?;
    let (mut answer, its) = UnixStream::pair().ok()?;
    let environment: HashMap<String, String> = env::inherited()
        .into_iter()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
        .chain(line.env.clone())
        .collect();
    let cwd = line.cwd.as_deref().unwrap_or(Path::new("/"));
    let request = serde_json::to_string(&Request { script, env: environment, cwd }).ok()?;
    send(server, request.as_bytes(), &[input.as_fd(), output.as_fd(), errors.as_fd(), its.as_fd()])?;
    // Else this program would hold the other ends itself, and never see them closed.
    drop((input, output, errors, its));
    answer.set_read_timeout(Some(Duration::from_millis(20))).ok()?;
    let (mut heard, until) = (Vec::new(), Instant::now() + START);
    let id = loop {
        match next_line(&mut answer, &mut heard) {
            Line::Text(text) => break pid(&text)?,
            Line::None if Instant::now() < until && !interrupt::requested() => {}
            Line::None | Line::Closed => return None,
        }
    };
    answer.set_nonblocking(true).ok()?;
    Some(Forked { id, stdin, stdout: Some(stdout), stderr: Some(stderr), answer, heard, ended: None })
}

fn send(server: &Server, request: &[u8], descriptors: &[BorrowedFd<'_>; 4]) -> Option<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(4))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    ancillary.push(SendAncillaryMessage::ScmRights(descriptors)).then_some(())?;
    let sent =
        rustix::net::sendmsg(&server.requests, &[IoSlice::new(request)], &mut ancillary, SendFlags::NOSIGNAL);
    (sent.ok()? == request.len()).then_some(())
}

#[cfg(test)]
#[path = "forks_tests.rs"]
mod tests;
