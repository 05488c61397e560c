//! A web server for tests, on the loopback interface, with scripted faults.
//!
//! Owns: one file, served with or without byte ranges; the record of what was asked. Never: part of the program.

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

/// What goes wrong with one request; requests after the last fault succeed.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Fault {
    /// The answer is only this status.
    Status(u16),
    /// The connection closes after so many bytes of the body.
    CutAfter(usize),
}

/// A running server; its threads end with the test process.
pub(crate) struct Server {
    port: u16,
    state: Arc<State>,
}

struct State {
    body: Vec<u8>,
    ranges: bool,
    faults: Mutex<Vec<Fault>>,
    asked: Mutex<Vec<String>>,
    sent: Mutex<u64>,
}

impl Server {
    /// Serves `body` with ranges; the first requests meet `faults`, in order.
    pub(crate) fn start(body: Vec<u8>, faults: impl IntoIterator<Item = Fault>) -> Self {
        let mut faults: Vec<Fault> = faults.into_iter().collect();
        faults.reverse();
        Self::serve(body, true, faults)
    }

    /// Serves `body` as a server that knows no ranges.
    pub(crate) fn without_ranges(body: Vec<u8>) -> Self {
        Self::serve(body, false, Vec::new())
    }

    fn serve(body: Vec<u8>, ranges: bool, faults: Vec<Fault>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let state = Arc::new(State {
            body,
            ranges,
            faults: Mutex::new(faults),
            asked: Mutex::default(),
            sent: Mutex::default(),
        });
        let shared = Arc::clone(&state);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let state = Arc::clone(&shared);
                // A client that hangs up is what some tests are about.
                std::thread::spawn(move || state.answer(stream).unwrap_or_default());
            }
        });
        Self { port, state }
    }

    /// The address of the file.
    pub(crate) fn url(&self) -> String {
        format!("http://127.0.0.1:{}/part-1.0-py3-none-any.whl", self.port)
    }

    /// The Range header of each request so far; empty where there was none.
    pub(crate) fn ranges(&self) -> Vec<String> {
        self.state.asked.lock().unwrap().clone()
    }

    /// Bytes of bodies sent so far.
    pub(crate) fn sent(&self) -> u64 {
        *self.state.sent.lock().unwrap()
    }
}

impl State {
    fn answer(&self, mut stream: TcpStream) -> std::io::Result<()> {
        let mut range = String::new();
        for line in BufReader::new(stream.try_clone()?).lines() {
            let line = line?;
            if line.is_empty() {
                break;
            }
            if let Some((name, value)) = line.split_once(':')
                && name.eq_ignore_ascii_case("range")
            {
                value.trim().clone_into(&mut range);
            }
        }
        self.asked.lock().unwrap().push(range.clone());
        let fault = self.faults.lock().unwrap().pop();
        if let Some(Fault::Status(status)) = fault {
            return write!(stream, "HTTP/1.1 {status} No\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
        }
        let total = self.body.len();
        let wanted =
            range.strip_prefix("bytes=").and_then(|range| range.split_once('-')).filter(|_| self.ranges);
        let (start, end) = match wanted {
            Some((start, end)) => {
                (start.parse().unwrap(), end.parse().map_or(total, |end: usize| (end + 1).min(total)))
            }
            None => (0, total),
        };
        match wanted {
            Some(_) => write!(
                stream,
                "HTTP/1.1 206 Partial\r\nContent-Range: bytes {start}-{}/{total}\r\n",
                end - 1
            )?,
            None => write!(stream, "HTTP/1.1 200 OK\r\n")?,
        }
        write!(stream, "Content-Length: {}\r\nConnection: close\r\n\r\n", end - start)?;
        let cut = match fault {
            Some(Fault::CutAfter(bytes)) => (start + bytes).min(end),
            _ => end,
        };
        stream.write_all(&self.body[start..cut])?;
        *self.sent.lock().unwrap() += (cut - start) as u64;
        stream.flush()
    }
}
