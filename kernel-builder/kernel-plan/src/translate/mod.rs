//! Translates a person's function to kernels: graph, program, plan, text.
//!
//! Owns: the intermediate form and every step on it. Never: runs PyTorch or a compiler, writes a file.

mod builder;
mod choices;
mod emit;
mod fixed;
mod index;
mod kernel;
mod least;
mod length;
mod lower;
mod order;
mod pieces;
mod plan;
mod precision;
mod print;
mod program;
mod refusal;
mod regions;
mod results;
mod rows;
mod spell;
mod split;
mod traced;

pub use choices::{Choices, choosable};
pub use emit::{Emitted, Part, Project, Whole, emit, emit_whole, steps};
pub use fixed::FixedAxis;
pub use kernel::{Buffer, Form, Kernel};
pub use least::agree;
pub use length::Length;
pub use lower::{lower, lower_gradient};
pub use plan::{Plan, plan};
pub use program::{Class, Element, Program, Symbol, Tensor};
pub use refusal::Refusal;
pub use regions::{Division, Region, Step, divide};
pub use traced::TracedGraph;
