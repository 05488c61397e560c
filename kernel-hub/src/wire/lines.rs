//! Lines of JSON of which long texts stay in the body they are read from.
//!
//! Owns: finding the ends of texts. Never: judges JSON; serde does, and sees a number in place of a long text.

use std::io::{self, BufRead, Read, Seek, SeekFrom};

/// Texts with more bytes stay in the body.
const LONG: usize = 1024;
/// The most bytes of a line without its long texts.
const LINE: usize = 1024 * 1024;

/// A text in a body: the bytes between its quotes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span {
    /// The first byte.
    pub start: u64,
    /// How many.
    pub length: u64,
    /// Whether some of them are escapes.
    pub escaped: bool,
}

impl Span {
    /// The bytes as they are in the body.
    ///
    /// # Errors
    /// The body cannot be read.
    pub fn read<'a, R: Read + Seek>(&self, body: &'a mut R) -> io::Result<io::Take<&'a mut R>> {
        body.seek(SeekFrom::Start(self.start))?;
        Ok(body.take(self.length))
    }

    /// The text that they mean. The body is afterwards where it was before.
    ///
    /// # Errors
    /// They are not a text of JSON, or the body cannot be read.
    pub fn text(&self, body: &mut (impl Read + Seek)) -> io::Result<String> {
        let here = body.stream_position()?;
        let mut quoted = vec![b'"'];
        self.read(body)?.read_to_end(&mut quoted)?;
        quoted.push(b'"');
        body.seek(SeekFrom::Start(here))?;
        Ok(serde_json::from_slice(&quoted)?)
    }
}

/// The line that was read last.
#[derive(Debug, Default)]
pub struct Lines {
    text: Vec<u8>,
    number: usize,
    at: u64,
}

/// A text that has begun.
struct Begun {
    /// Its quote in the line.
    quote: usize,
    start: u64,
    escaped: bool,
}

impl Lines {
    /// Reads the next line, and says what stays in the body: the first of these is 0 in the line, the second 1, and so on.
    ///
    /// # Errors
    /// The body cannot be read.
    pub fn next(&mut self, body: &mut impl BufRead) -> io::Result<Option<Vec<Span>>> {
        self.text.clear();
        self.number += 1;
        let (mut spans, mut begun, mut skip): (Vec<Span>, Option<Begun>, bool) = (Vec::new(), None, false);
        let first = self.at;
        loop {
            let buffer = body.fill_buf()?;
            if buffer.is_empty() {
                return Ok((self.at > first).then_some(spans));
            }
            if skip && buffer[0] != b'\n' {
                // What is escaped ends nothing.
                self.keep(&buffer[..1], begun.as_ref());
                body.consume(1);
                (self.at, skip) = (self.at + 1, false);
                continue;
            }
            let found = match begun {
                Some(_) => memchr::memchr3(b'"', b'\\', b'\n', buffer),
                None => memchr::memchr2(b'"', b'\n', buffer),
            };
            let plain = found.unwrap_or(buffer.len());
            self.keep(&buffer[..plain], begun.as_ref());
            let special = found.map(|at| buffer[at]);
            let used = plain + usize::from(special.is_some());
            body.consume(used);
            self.at += used as u64;
            match (special, &mut begun) {
                (None, _) => {}
                (Some(b'\n'), _) => return Ok(Some(spans)),
                (Some(b'\\'), Some(text)) => {
                    (skip, text.escaped) = (true, true);
                    self.keep(b"\\", begun.as_ref());
                }
                (Some(_), Some(text)) => {
                    let Begun { quote, start, escaped } = *text;
                    begun = None;
                    let length = self.at - 1 - start;
                    if length > LONG as u64 {
                        self.text.truncate(quote);
                        self.text.extend_from_slice(spans.len().to_string().as_bytes());
                        spans.push(Span { start, length, escaped });
                    } else {
                        self.text.push(b'"');
                    }
                }
                (Some(_), None) => {
                    begun = Some(Begun { quote: self.text.len(), start: self.at, escaped: false });
                    self.keep(b"\"", None);
                }
            }
        }
    }

    /// Adds to the line: of a text no more than tells that it is long.
    fn keep(&mut self, bytes: &[u8], begun: Option<&Begun>) {
        let most = begun.map_or(LINE + 1, |text| (text.quote + LONG + 2).min(LINE + 1));
        let room = most.saturating_sub(self.text.len());
        self.text.extend_from_slice(bytes.get(..room).unwrap_or(bytes));
    }

    /// The line.
    pub fn text(&self) -> &[u8] {
        &self.text
    }

    /// Its number, from 1.
    pub fn number(&self) -> usize {
        self.number
    }

    /// Whether it has more bytes than are kept.
    pub fn is_too_long(&self) -> bool {
        self.text.len() > LINE
    }
}
