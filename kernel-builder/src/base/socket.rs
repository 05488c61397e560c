//! Sockets in the file system: a server of lines for other processes of this machine, and a relay to one.
//!
//! Owns: listening, and ending when nobody is served any more. Never: interprets a line.

use std::io::{self, BufReader, Read, Write};
use std::net::Shutdown;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::time::{Duration, Instant};

use super::input::Lines;
use super::interrupt;

/// How often a wait looks for its end.
const LOOK: Duration = Duration::from_millis(20);

/// Waits for clients.
#[derive(Debug)]
pub(crate) struct Listener(UnixListener);

impl Listener {
    /// Listens at a path that is not there yet.
    ///
    /// # Errors
    /// The path is taken, longer than a socket's may be, or in a folder that cannot be written.
    pub(crate) fn at(path: &Path) -> io::Result<Self> {
        let listener = UnixListener::bind(path)?;
        listener.set_nonblocking(true)?;
        Ok(Self(listener))
    }

    /// The next client within so long.
    pub(crate) fn accept(&self, within: Duration) -> Option<Client> {
        let until = Instant::now() + within;
        loop {
            match self.0.accept() {
                Ok((stream, _)) if stream.set_nonblocking(false).is_ok() => return Some(Client(stream)),
                _ if Instant::now() >= until || interrupt::requested() => return None,
                _ => std::thread::sleep(LOOK),
            }
        }
    }
}

/// A client.
#[derive(Debug)]
pub(crate) struct Client(UnixStream);

impl Client {
    /// What it says, in lines of at most `longest` bytes.
    ///
    /// # Errors
    /// The system has no room for another descriptor.
    pub(crate) fn lines(&self, longest: usize) -> io::Result<Lines> {
        let stream = self.0.try_clone()?;
        Ok(Lines::from_stream(move || BufReader::new(stream), longest))
    }

    /// Says a line; one that nobody hears any more is lost.
    pub(crate) fn say(&mut self, line: &str) {
        let _gone = self.0.write_all(format!("{line}\n").as_bytes());
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        // A thread that reads ends, too.
        let _gone = self.0.shutdown(Shutdown::Both);
    }
}

/// Standard input goes to the server at `path`, and what it says to standard output, until either ends.
///
/// # Errors
/// Nobody listens there.
pub(crate) fn relay(path: &Path) -> io::Result<()> {
    let stream = UnixStream::connect(path)?;
    let mut to = stream.try_clone()?;
    std::thread::spawn(move || {
        let _closed = copy(&mut io::stdin().lock(), &mut to);
        let _gone = to.shutdown(Shutdown::Write);
    });
    let mut from = stream;
    copy(&mut from, &mut io::stdout().lock())
}

fn copy(from: &mut impl Read, to: &mut impl Write) -> io::Result<()> {
    let mut buffer = vec![0; 64 << 10];
    loop {
        match from.read(&mut buffer) {
            Ok(0) => return Ok(()),
            Ok(count) => {
                to.write_all(&buffer[..count])?;
                to.flush()?;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::files;
    use crate::base::input::Line;

    #[test]
    fn a_client_is_heard_and_answered() {
        let folder = files::scratch().unwrap();
        let path = folder.path().join("s");
        let listener = Listener::at(&path).unwrap();
        assert!(listener.accept(Duration::from_millis(30)).is_none());
        assert!(Listener::at(&path).is_err(), "the path is taken");
        let mut there = UnixStream::connect(&path).unwrap();
        let mut client = listener.accept(Duration::from_secs(20)).unwrap();
        let lines = client.lines(100).unwrap();
        there.write_all(b"one\ntwo").unwrap();
        assert_eq!(lines.next(Duration::from_secs(20)), Line::Text("one".to_owned()));
        client.say("heard");
        let mut answer = [0; 6];
        there.read_exact(&mut answer).unwrap();
        assert_eq!(&answer, b"heard\n");
        drop(client);
        assert_eq!(there.read(&mut answer).unwrap(), 0, "nobody is served any more");
    }
}
