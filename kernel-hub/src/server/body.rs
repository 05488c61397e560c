//! What is sent: nothing, a text, or a part of a file; and the line of the log when it has ended.
//!
//! Owns: which way a file takes: mapped, when it is in the page cache and the connection can send it by itself; else read
//! at once, or by another thread where the disk has to be waited for. Buffers are used again.
//! Never: holds more of a file in memory than one buffer a connection.

use std::fs::File;
use std::io::{self, IoSliceMut};
use std::os::unix::fs::FileExt as _;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use hyper::body::{Body, Bytes, Frame, SizeHint};
use rustix::io::{Errno, ReadWriteFlags, preadv2};
use tokio::task::JoinHandle;

use super::current::mappings;
use super::log::Line;
use super::mapped::Mapping;

/// What is read at a time: it stays in the second level cache of the processor until it is sent.
const CHUNK: usize = 256 * 1024;
/// What is sent at a time when it is in the page cache as a whole.
const MAPPED: u64 = 1024 * 1024;
/// Smaller parts are not worth a mapping.
const WORTH_MAPPING: u64 = 64 * 1024;
/// So many buffers are kept for later.
const KEPT: usize = 64;

/// A body of an answer.
#[derive(Debug)]
pub(super) struct Outgoing {
    content: Content,
    line: Option<Line>,
}

/// What is in it.
#[derive(Debug)]
pub(super) enum Content {
    /// Nothing.
    Empty,
    /// This.
    Text(Bytes),
    /// Bytes of a file.
    File(Part),
}

impl Outgoing {
    /// With the line that is written when it has been sent, or has failed.
    pub(super) fn new(content: Content, line: Line) -> Self {
        Self { content, line: Some(line) }
    }
}

impl Body for Outgoing {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        let polled = match &mut self.content {
            Content::Empty => Poll::Ready(None),
            Content::Text(text) => {
                let text = std::mem::take(text);
                self.content = Content::Empty;
                Poll::Ready((!text.is_empty()).then_some(Ok(text)))
            }
            Content::File(part) => part.poll_bytes(context),
        };
        if let (Poll::Ready(Some(Ok(bytes))), Some(line)) = (&polled, &mut self.line) {
            line.sent(bytes.len() as u64);
        }
        polled.map(|bytes| bytes.map(|bytes| bytes.map(Frame::data)))
    }

    fn is_end_stream(&self) -> bool {
        self.size_hint().exact() == Some(0)
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.content.length())
    }
}

impl Content {
    /// Bytes that are still to be sent.
    pub(super) fn length(&self) -> u64 {
        match self {
            Self::Empty => 0,
            Self::Text(text) => text.len() as u64,
            Self::File(part) => part.left,
        }
    }
}

/// Bytes of a file that are still to be sent.
#[derive(Debug)]
pub(super) struct Part {
    file: Arc<File>,
    at: u64,
    left: u64,
    buffers: Buffers,
    mapping: Option<Arc<Mapping>>,
    reading: Option<JoinHandle<io::Result<Filled>>>,
}

impl Part {
    /// `length` bytes from `start`.
    pub(super) fn new(file: File, start: u64, length: u64, buffers: Buffers) -> Self {
        let file = Arc::new(file);
        let mappings = mappings().filter(|_| length >= WORTH_MAPPING);
        // Where there is no mapping, it is read.
        let mapping = mappings.and_then(|mappings| mappings.map(file.clone(), start, length).ok());
        Self { file, at: start, left: length, buffers, mapping, reading: None }
    }

    /// Bytes of the mapping, when the disk need not be waited for: the first and the last of them are in the page cache.
    fn mapped(&self) -> Option<Bytes> {
        let mapping = self.mapping.as_ref()?;
        let length = self.left.min(MAPPED);
        for at in [self.at, self.at + length - 1] {
            let read = preadv2(&*self.file, &mut [IoSliceMut::new(&mut [0])], at, ReadWriteFlags::NOWAIT);
            if read != Ok(1) {
                return None;
            }
        }
        mapping.bytes(self.at, usize::try_from(length).ok()?)
    }

    fn poll_bytes(&mut self, context: &mut Context<'_>) -> Poll<Option<io::Result<Bytes>>> {
        if self.left == 0 {
            return Poll::Ready(None);
        }
        if self.reading.is_none()
            && let Some(bytes) = self.mapped()
        {
            self.at += bytes.len() as u64;
            self.left -= bytes.len() as u64;
            return Poll::Ready(Some(Ok(bytes)));
        }
        let filled = match &mut self.reading {
            Some(reading) => match Pin::new(reading).poll(context) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(filled) => {
                    self.reading = None;
                    filled.map_err(io::Error::other).flatten()
                }
            },
            None => {
                let mut filled = self.buffers.take(self.left);
                match filled.read_cached(&self.file, self.at) {
                    Ok(()) => Ok(filled),
                    Err(Errno::AGAIN | Errno::OPNOTSUPP | Errno::INVAL | Errno::NOSYS) => {
                        let (file, at) = (self.file.clone(), self.at);
                        let reading =
                            tokio::task::spawn_blocking(move || filled.read(&file, at).map(|()| filled));
                        self.reading = Some(reading);
                        return self.poll_bytes(context);
                    }
                    Err(error) => Err(error.into()),
                }
            }
        };
        Poll::Ready(Some(match filled {
            // The file is shorter than it was: the answer cannot be what its head says.
            Ok(filled) if filled.length == 0 => Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(filled) => {
                let length = filled.length as u64;
                self.at += length;
                self.left -= length;
                Ok(Bytes::from_owner(filled))
            }
            Err(error) => Err(error),
        }))
    }
}

/// Buffers that are not in use.
#[derive(Debug, Clone, Default)]
pub(super) struct Buffers(Arc<Mutex<Vec<Box<[u8]>>>>);

impl Buffers {
    fn take(&self, left: u64) -> Filled {
        let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let buffer = kept.unwrap_or_else(|| vec![0; CHUNK].into_boxed_slice());
        let length = usize::try_from(left).unwrap_or(CHUNK).min(CHUNK);
        Filled { buffer, length, home: self.clone() }
    }
}

/// A buffer, and how much of it is meant; it goes home when it has been sent.
#[derive(Debug)]
struct Filled {
    buffer: Box<[u8]>,
    length: usize,
    home: Buffers,
}

impl Filled {
    /// Reads what needs no wait for the disk.
    fn read_cached(&mut self, file: &File, at: u64) -> rustix::io::Result<()> {
        let wanted = self.buffer.get_mut(..self.length).unwrap_or_default();
        self.length = preadv2(file, &mut [IoSliceMut::new(wanted)], at, ReadWriteFlags::NOWAIT)?;
        Ok(())
    }

    fn read(&mut self, file: &File, at: u64) -> io::Result<()> {
        let wanted = self.buffer.get_mut(..self.length).unwrap_or_default();
        self.length = file.read_at(wanted, at)?;
        Ok(())
    }
}

impl AsRef<[u8]> for Filled {
    fn as_ref(&self) -> &[u8] {
        self.buffer.get(..self.length).unwrap_or_default()
    }
}

impl Drop for Filled {
    fn drop(&mut self) {
        let mut home = self.home.0.lock().unwrap_or_else(PoisonError::into_inner);
        if home.len() < KEPT {
            home.push(std::mem::take(&mut self.buffer));
        }
    }
}
