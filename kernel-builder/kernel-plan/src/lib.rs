//! Decides what a kernel project means and which commands would build it.
//!
//! Owns: the two specification languages, the variant matrix, the backends, the arithmetic of tolerances.
//! Never: reads a file, starts a process, opens a socket, looks at a clock.

pub mod backend;
pub mod diagnostic;
pub mod exchange;
pub mod host;
pub mod kit;
pub mod numbers;
pub mod plan;
pub mod spec;
pub mod steps;
pub mod translate;
pub mod units;
pub mod variant;
