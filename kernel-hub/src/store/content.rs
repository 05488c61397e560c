//! Contents of files on their way from the body of a commit to a blob.
//!
//! Owns: decoding and hashing a part at a time. Never: has more than a part of a long content in memory, but for one text
//! with escapes at a time.

use std::fs::File;
use std::io::{self, BufReader, Read, Seek as _, SeekFrom};

use base64::engine::general_purpose::STANDARD;
use base64::read::DecoderReader;

use crate::name::{FilePath, shown};
use crate::wire::commit::Content;
use crate::wire::lines::Span;

use super::disk::{Temporary, at};
use super::objects::{Digests, Entry};
use super::{Store, StoreError, guard};

/// What is decoded at a time.
const PART: usize = 256 * 1024;

impl Store {
    /// Brings a content of the body of a commit to the disk.
    pub(super) fn put_content(
        &self,
        path: FilePath,
        content: &Content,
        body: &mut File,
    ) -> Result<Entry, StoreError> {
        match content {
            Content::Bytes(bytes) => self.put_bytes(path, bytes),
            Content::Text(span) | Content::Base64(span) if span.escaped => {
                // Only its end is known to be its end: one at a time is read as a whole.
                let _alone = guard(&self.texts);
                let text = span.text(&mut BufReader::new(&mut *body)).map_err(|error| {
                    StoreError::Refused(format!(
                        "failed to read the content of {}: {error}",
                        shown(path.as_str())
                    ))
                })?;
                match content {
                    Content::Base64(_) => {
                        let length = decoded_length(text.len() as u64, text.as_bytes());
                        self.put_stream(path, length, DecoderReader::new(text.as_bytes(), &STANDARD))
                    }
                    _ => self.put_bytes(path, text.as_bytes()),
                }
            }
            Content::Text(span) => self.put_stream(path, span.length, span.read(body).map_err(unread)?),
            Content::Base64(span) => {
                let length = decoded_length(span.length, &last(span, body).map_err(unread)?);
                let encoded = BufReader::with_capacity(PART, span.read(body).map_err(unread)?);
                self.put_stream(path, length, DecoderReader::new(encoded, &STANDARD))
            }
        }
    }

    fn put_bytes(&self, path: FilePath, bytes: &[u8]) -> Result<Entry, StoreError> {
        let entry = Entry::regular(path, bytes);
        self.put_blob(&entry.digest, bytes)?;
        Ok(entry)
    }

    /// A content of this length, which git's name of it begins with.
    fn put_stream(&self, path: FilePath, length: u64, mut from: impl Read) -> Result<Entry, StoreError> {
        let name = shown(path.as_str());
        let mut temporary = Temporary::new(&self.temporaries())?;
        let (mut digests, mut part, mut size) = (Digests::of_length(length), vec![0; PART], 0);
        loop {
            let count = match from.read(&mut part) {
                Ok(0) => break,
                Ok(count) => count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) if error.kind() == io::ErrorKind::InvalidData => {
                    return Err(StoreError::Refused(format!(
                        "the content of {name} is not valid base64: {error}"
                    )));
                }
                Err(error) => return Err(unread(error)),
            };
            let bytes = part.get(..count).unwrap_or_default();
            digests.update(bytes);
            temporary.write(bytes)?;
            size += count as u64;
        }
        if size != length {
            return Err(StoreError::Refused(format!("the content of {name} ends early")));
        }
        let entry = digests.entry(path, size);
        if self.is_sound(&entry.digest, size)? {
            super::disk::sync_folder_of(&self.blob(&entry.digest))?;
        } else {
            temporary.keep_as(&self.blob(&entry.digest))?;
            self.note_sound(&entry.digest)?;
        }
        Ok(entry)
    }
}

/// Bytes of what base64 of this length stands for; `end` is its end.
fn decoded_length(length: u64, end: &[u8]) -> u64 {
    let padding = end.iter().rev().take(2).take_while(|byte| **byte == b'=').count();
    (length / 4 * 3).saturating_sub(padding as u64)
}

/// The last two bytes.
fn last(span: &Span, body: &mut File) -> io::Result<Vec<u8>> {
    body.seek(SeekFrom::Start(span.start + span.length.saturating_sub(2)))?;
    let mut end = Vec::new();
    body.take(2).read_to_end(&mut end)?;
    Ok(end)
}

fn unread(error: io::Error) -> StoreError {
    at(std::path::Path::new("the body of the commit"))(error).into()
}
