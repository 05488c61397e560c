//! Standard input: as a whole, for verbs that take `-` in place of a file, or line by line, for a server.
//!
//! Owns: reading it, up to a limit. Never: asks a person; who types there ends with ctrl-D.

use std::io::{self, BufRead, Read as _};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::time::{Duration, Instant};

use super::interrupt;

/// What a program may be fed: more is nobody's list of records.
const LIMIT: u64 = 1 << 30;

/// All of standard input as text.
///
/// # Errors
/// It cannot be read, is no UTF-8, or is longer than 1 GiB; or the user pressed ctrl-C.
pub fn text() -> io::Result<String> {
    interrupt::unless_requested(read).unwrap_or_else(|| Err(io::ErrorKind::Interrupted.into()))
}

fn read() -> io::Result<String> {
    let mut text = String::new();
    let read = io::stdin().lock().take(LIMIT + 1).read_to_string(&mut text)?;
    if read as u64 > LIMIT {
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, "it is longer than 1 GiB"));
    }
    Ok(text)
}

/// Lines that wait to be answered; whoever sends more waits.
const WAITING: usize = 64;
/// How often a wait looks for ctrl-C.
const LOOK: Duration = Duration::from_millis(50);

/// What came of waiting for a line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Line {
    /// A line without its end. Bytes that are not UTF-8 are replaced.
    Text(String),
    /// A line that is longer than the limit; it was thrown away.
    TooLong,
    /// Nothing came for so long.
    Silence,
    /// The input is closed, or the user pressed ctrl-C.
    End,
}

/// Lines of a stream, read in a thread of their own.
pub struct Lines(Receiver<Line>);

impl Lines {
    /// Those of standard input, of at most `longest` bytes each.
    pub fn of_stdin(longest: usize) -> Self {
        Self::from_stream(|| io::stdin().lock(), longest)
    }

    /// Those of a stream that is opened in the thread.
    pub(super) fn from_stream<R: BufRead>(open: impl FnOnce() -> R + Send + 'static, longest: usize) -> Self {
        let (send, lines) = sync_channel(WAITING);
        std::thread::spawn(move || {
            let mut stream = open();
            while let Some(line) = next(&mut stream, longest) {
                if send.send(line).is_err() {
                    break;
                }
            }
        });
        Self(lines)
    }

    /// The next line.
    pub fn next(&self, within: Duration) -> Line {
        let until = Instant::now() + within;
        loop {
            if interrupt::requested() {
                return Line::End;
            }
            let left = until.saturating_duration_since(Instant::now());
            match self.0.recv_timeout(left.min(LOOK)) {
                Ok(line) => return line,
                Err(RecvTimeoutError::Disconnected) => return Line::End,
                Err(RecvTimeoutError::Timeout) if left.is_zero() => return Line::Silence,
                Err(RecvTimeoutError::Timeout) => {}
            }
        }
    }
}

/// The next line of a stream; nothing at its end. Of a line that is too long no more than the limit is in memory.
fn next(stream: &mut impl BufRead, longest: usize) -> Option<Line> {
    let (mut line, mut is_long, mut any) = (Vec::new(), false, false);
    loop {
        let buffer = match stream.fill_buf() {
            Ok(buffer) => buffer,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(_) => return None,
        };
        if buffer.is_empty() && !any {
            return None;
        }
        any = true;
        let end = buffer.iter().position(|byte| *byte == b'\n');
        let part = &buffer[..end.unwrap_or(buffer.len())];
        is_long |= line.len() + part.len() > longest;
        if is_long {
            line.clear();
        } else {
            line.extend_from_slice(part);
        }
        let (used, is_over) = (end.map_or(buffer.len(), |end| end + 1), end.is_some() || buffer.is_empty());
        stream.consume(used);
        if is_over {
            let text = || Line::Text(String::from_utf8_lossy(&line).trim_end_matches('\r').to_owned());
            return Some(if is_long { Line::TooLong } else { text() });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_come_one_by_one_and_a_long_one_does_not_end_the_stream() {
        let bytes = [&b"one\r\n"[..], &[b'x'; 100], b"\n\ntwo\xff\nlast"].concat();
        let lines = Lines::from_stream(move || io::BufReader::with_capacity(7, io::Cursor::new(bytes)), 20);
        let all: Vec<Line> = std::iter::from_fn(|| match lines.next(Duration::from_secs(20)) {
            Line::End => None,
            line => Some(line),
        })
        .collect();
        let text = |text: &str| Line::Text(text.to_owned());
        assert_eq!(all[0], text("one"));
        assert_eq!(all[1], Line::TooLong);
        assert_eq!(all.last(), Some(&text("last")));
        assert_eq!(all.len(), 5, "{all:?}");
    }

    #[test]
    fn silence_is_told() {
        let (keep, wait) = std::sync::mpsc::channel::<()>();
        let open = move || {
            // It ends when the test does.
            let _ended = wait.recv();
            io::Cursor::new(Vec::new())
        };
        let lines = Lines::from_stream(open, 20);
        assert_eq!(lines.next(Duration::from_millis(10)), Line::Silence);
        drop(keep);
        assert_eq!(lines.next(Duration::from_secs(20)), Line::End);
    }
}
