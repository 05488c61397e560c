//! Standard input, for verbs that take `-` in place of a file.
//!
//! Owns: reading it, up to a limit. Never: asks a person; who types there ends with ctrl-D.

use std::io::{self, Read as _};

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
