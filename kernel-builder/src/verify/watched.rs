//! Initialized data of loaded machine code, held against its first contents after every call.
//!
//! Owns: the requests that read the data, and the refusal where it changed. Never: talks to a worker.
//!
//! Tables, string literals and variables with an initializer lie in memory that code can write. Nothing in a cubin says
//! whether it does, so the contents decide.

use super::lab::Complaint;
use super::state::{Data, State};
use crate::base::files;
use crate::compile::nvrtc::Code;
use crate::device::wire::{Answer, Op, Place};

/// The first number of the buffers that stand for data; tensors have smaller ones.
const FIRST: u32 = 1_000_000;

/// The data of a candidate in one worker.
#[derive(Debug, Default)]
pub(super) struct Watched {
    data: Vec<(u32, Data)>,
    /// The number of each section's module.
    modules: Vec<u32>,
    /// What each section held before the first call, in hexadecimal.
    first: Vec<String>,
}

impl Watched {
    /// The data of machine code whose modules are numbered from `module` on.
    ///
    /// # Errors
    /// The machine code cannot be read; the reason.
    pub(super) fn of(code: &Code, module: u32) -> Result<Self, String> {
        let mut found = Self::default();
        for (number, cubin) in (module..).zip(&code.cubins) {
            let bytes = files::read(&cubin.path).map_err(|error| error.to_string())?;
            for data in State::of_cubin(&bytes)?.data {
                found.data.push((FIRST + found.data.len() as u32, data));
                found.modules.push(number);
            }
        }
        Ok(found)
    }

    /// Makes buffers of the data and reads them, right after the modules were loaded.
    pub(super) fn begin(&self) -> Vec<Op> {
        let adopted = self.data.iter().zip(&self.modules).map(|((buffer, data), module)| Op::Adopt {
            buffer: *buffer,
            module: *module,
            symbols: data.symbols.clone(),
            bytes: data.bytes,
        });
        adopted.chain(self.look()).collect()
    }

    /// Reads the data.
    pub(super) fn look(&self) -> Vec<Op> {
        let peek = |(buffer, data): &(u32, Data)| Op::Peek { at: Place::start(*buffer), bytes: data.bytes };
        self.data.iter().map(peek).collect()
    }

    /// Forgets the buffers.
    pub(super) fn end(&self) -> Vec<Op> {
        self.data.iter().map(|(buffer, _)| Op::Free { buffer: *buffer }).collect()
    }

    /// Takes the answers of a request that had nothing but [`Self::begin`] and [`Self::look`] to read: the first contents
    /// where they are new, and what changed since.
    pub(super) fn hear(&mut self, answers: &[Answer]) -> Option<Complaint> {
        let mut read = answers.iter().filter_map(|answer| match answer {
            Answer::Bytes { bytes } => Some(bytes),
            _ => None,
        });
        if self.first.is_empty() {
            self.first.extend(read.by_ref().take(self.data.len()).cloned());
        }
        let mut now = read.zip(self.data.iter().zip(&self.first).cycle());
        let (now, ((_, data), first)) = now.find(|(now, (_, first))| now != first)?;
        let byte =
            now.as_bytes().chunks(2).zip(first.as_bytes().chunks(2)).position(|(one, other)| one != other);
        let byte = byte.unwrap_or_default() as u64;
        let names = data.symbols.iter().filter(|(_, offset)| *offset <= byte);
        let name = names.max_by_key(|(_, offset)| *offset).map_or(&data.section, |(name, _)| name);
        let text = format!("writes memory that outlives a launch: `{name}` changed");
        Some(Complaint { code: "verify::state", text })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn watched() -> Watched {
        let symbols = vec![("table".to_owned(), 0), ("other".to_owned(), 2)];
        let data = Data { section: ".nv.global.init".to_owned(), bytes: 4, symbols };
        Watched { data: vec![(FIRST, data)], modules: vec![0], first: vec![] }
    }

    fn bytes(text: &str) -> Answer {
        Answer::Bytes { bytes: text.to_owned() }
    }

    #[test]
    fn data_that_changed_is_named() {
        let mut watched = watched();
        assert_eq!(watched.begin().len(), 2);
        assert_eq!(watched.hear(&[Answer::Done, bytes("01020304"), Answer::Done, bytes("01020304")]), None);
        assert_eq!(watched.hear(&[bytes("01020304")]), None);
        let complaint = watched.hear(&[bytes("01020305")]).unwrap();
        assert_eq!(complaint.code, "verify::state");
        assert!(complaint.text.contains("`other`"), "{}", complaint.text);
    }

    #[test]
    fn code_without_data_has_nothing_to_read() {
        let mut watched = Watched::default();
        assert!(watched.begin().is_empty() && watched.look().is_empty() && watched.end().is_empty());
        assert_eq!(watched.hear(&[Answer::Done]), None);
    }
}
