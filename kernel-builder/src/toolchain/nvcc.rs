//! NVIDIA's compiler driver for device code alone, with the C++ compiler whose preprocessor it uses.
//!
//! Owns: where it is looked for, and in which order. Never: compiles.
//!
//! An installed toolkit is taken first, then the wheels of which `build` makes a toolkit.

use std::path::PathBuf;

use super::compiler;
use super::error::ToolchainError;
use super::fetch::{self, Request};
use super::index::Target;
use super::interpreter::{self, Question};
use super::nvrtc::RELEASE;
use super::pins;
use super::supply::{self};
use super::taking::WheelCollector;
use super::{system, used, wheels};
use crate::base::digest::DigestBuilder;
use crate::base::session::Session;

/// A compiler driver with its headers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NvccKit {
    /// `nvcc`, absolute.
    pub nvcc: PathBuf,
    /// The C++ compiler that preprocesses for it, absolute.
    pub cxx: PathBuf,
    /// Folders to search for headers, in order.
    pub include: Vec<PathBuf>,
    /// Identity of all of it, hexadecimal.
    pub id: String,
}

/// Finds the compiler, or fetches it.
///
/// # Errors
/// There is no C++ compiler, or no nvcc and the index cannot be reached.
pub fn obtain(session: &Session) -> Result<NvccKit, ToolchainError> {
    let (cxx, _) = compiler::describe(session, &compiler::find()?)?;
    let cuda = match system::installed() {
        Some(cuda) => cuda,
        None => {
            supply::in_use(session);
            let cuda = pins::load();
            let cuda = cuda.cuda(RELEASE)?;
            let python = interpreter::active(session, Question::Identity)?;
            let requests: Vec<Request> = cuda
                .wheels
                .iter()
                .map(|part| Request { part: part.clone(), why: "parts of the CUDA compiler" })
                .collect();
            let stored =
                fetch::obtain(&WheelCollector::unlocked(session), &python, Target::Machine, &requests)?;
            let kit = wheels::toolkit(session, cuda, &stored, None)?;
            used::folder(session, &kit.root);
            kit
        }
    };
    let id = DigestBuilder::new("nvcc").field("cuda", &cuda.id).field("cxx", &cxx.id).finish();
    Ok(NvccKit { nvcc: cuda.nvcc, cxx: cxx.program, include: cuda.include, id: id.short(32) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_wheels_of_the_release_hold_a_compiler() {
        let pins = pins::load();
        let cuda = pins.cuda(RELEASE).unwrap();
        assert!(cuda.front.is_none(), "nvcc would be another release's");
        for part in ["bin/nvcc", "bin/ptxas", "nvvm/bin/cicc"] {
            let held = |root: &String| cuda.wheels.iter().any(|wheel| wheel.holds(&format!("{root}/{part}")));
            assert!(cuda.roots.iter().any(held), "{part}");
        }
    }
}
