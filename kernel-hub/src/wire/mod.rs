//! What clients send, made into values that cannot be wrong.
//!
//! Owns: addresses, the body of a commit, ranges.
//! Never: reads a file or a socket; any bytes give a value or a refusal, never a panic.

pub mod commit;
pub mod lines;
pub mod range;
pub mod route;
pub mod xet;
