//! Why the device code of a library or of a candidate cannot be read.
//!
//! Owns: the errors of all readers as one. Never: reads.

use thiserror::Error;

use super::cubin::CubinError;
use super::elf::ElfError;
use super::fatbin::FatbinError;
use crate::base::files::FileError;

/// Device code that cannot be read, or is labelled as other code.
#[derive(Debug, Error)]
pub(crate) enum CodeError {
    #[error(transparent)]
    File(#[from] FileError),
    #[error(transparent)]
    Library(#[from] ElfError),
    #[error(transparent)]
    Container(#[from] FatbinError),
    #[error(transparent)]
    Cubin(#[from] CubinError),
    #[error("an entry labelled sm_{label} holds code for sm_{actual}")]
    OtherCode { label: String, actual: u32 },
    #[error("an entry labelled compute_{0} holds PTX for another target")]
    OtherTarget(String),
    #[error("the machine code cannot be read")]
    MachineCode(#[source] CubinError),
}
