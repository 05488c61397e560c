//! Initialized data of loaded machine code, held against its first contents after every call.
//!
//! Owns: the requests that read the data, and the refusal where it changed. Never: talks to a worker.
//!
//! Tables, string literals and variables with an initializer lie in memory that code can write. Nothing in a cubin says
//! whether it does, so the contents decide.

use super::code_error::CodeError;
use super::lab::refusal::CandidateRefusal;
use super::state::{State, Variable};
use crate::base::files;
use crate::compile::nvrtc::Code;
use crate::device::wire::{Answer, Op, Place};

/// The first number of the buffers that stand for data; tensors have smaller ones.
const FIRST: u32 = 1_000_000;

/// The data of a candidate in one worker.
#[derive(Debug, Default)]
pub(super) struct Watched {
    data: Vec<WatchedVariable>,
    /// What each variable held before the first call, in hexadecimal.
    first: Vec<String>,
}

/// One variable, as a buffer.
#[derive(Debug)]
struct WatchedVariable {
    buffer: u32,
    module: u32,
    variable: Variable,
}

impl Watched {
    /// The data of machine code whose modules are numbered from `module` on.
    ///
    /// # Errors
    /// The machine code cannot be read.
    pub(super) fn new(code: &Code, module: u32) -> Result<Self, CodeError> {
        let mut found = Self::default();
        for (number, cubin) in (module..).zip(&code.cubins) {
            let bytes = files::read(&cubin.path)?;
            for variable in State::of_cubin(&bytes)?.data {
                let buffer = FIRST + found.data.len() as u32;
                found.data.push(WatchedVariable { buffer, module: number, variable });
            }
        }
        Ok(found)
    }

    /// Makes buffers of the data and reads them, right after the modules were loaded.
    pub(super) fn begin(&self) -> Vec<Op> {
        let adopted = self.data.iter().map(|watch| Op::Adopt {
            buffer: watch.buffer,
            module: watch.module,
            symbol: watch.variable.name.clone(),
            bytes: watch.variable.bytes,
        });
        adopted.chain(self.look()).collect()
    }

    /// Reads the data.
    pub(super) fn look(&self) -> Vec<Op> {
        let peek = |watch: &WatchedVariable| Op::Peek {
            at: Place::start(watch.buffer),
            bytes: watch.variable.bytes,
        };
        self.data.iter().map(peek).collect()
    }

    /// Forgets the buffers.
    pub(super) fn end(&self) -> Vec<Op> {
        self.data.iter().map(|watch| Op::Free { buffer: watch.buffer }).collect()
    }

    /// Takes the answers of a request that had nothing but [`Self::begin`] and [`Self::look`] to read: the first contents
    /// where they are new, and what changed since.
    pub(super) fn hear(&mut self, answers: &[Answer]) -> Option<CandidateRefusal> {
        let mut read = answers.iter().filter_map(|answer| match answer {
            Answer::Bytes { bytes } => Some(bytes),
            _ => None,
        });
        if self.first.is_empty() {
            self.first.extend(read.by_ref().take(self.data.len()).cloned());
        }
        let mut now = read.zip(self.data.iter().zip(&self.first).cycle());
        let (_, (watch, _)) = now.find(|(now, (_, first))| now != first)?;
        let text = format!("writes memory that outlives a launch: `{}` changed", watch.variable.name);
        Some(CandidateRefusal { code: "verify::state", text })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn watched() -> Watched {
        let watch = |buffer, name: &str| WatchedVariable {
            buffer,
            module: 0,
            variable: Variable { name: name.to_owned(), bytes: 2 },
        };
        Watched { data: vec![watch(FIRST, "table"), watch(FIRST + 1, "other")], first: vec![] }
    }

    fn bytes(text: &str) -> Answer {
        Answer::Bytes { bytes: text.to_owned() }
    }

    #[test]
    fn data_that_changed_is_named() {
        let mut watched = watched();
        assert_eq!(watched.begin().len(), 4);
        let first = [Answer::Done, bytes("0102"), bytes("0304"), Answer::Done, bytes("0102"), bytes("0304")];
        assert_eq!(watched.hear(&first), None);
        assert_eq!(watched.hear(&[bytes("0102"), bytes("0304")]), None);
        let complaint = watched.hear(&[bytes("0102"), bytes("0305")]).unwrap();
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
