//! Translates a person's function to kernels: graph, program, plan, text.
//!
//! Owns: the intermediate form and every step on it. Never: runs PyTorch or a compiler, writes a file.

mod index;
mod length;
mod lower;
mod program;
mod refusal;
mod spell;
mod traced;

pub use length::Length;
pub use lower::lower;
pub use program::{Class, Element, Program, Symbol, Tensor};
pub use refusal::Refusal;
pub use traced::Traced;
