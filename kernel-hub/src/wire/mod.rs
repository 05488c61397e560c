//! What clients send, made into values that cannot be wrong.
//!
//! Owns: addresses and their options, the body of a commit, ranges, `.gitattributes`, xorbs and shards.
//! Never: reads a file or a socket; any bytes give a value or a refusal, never a panic.

pub mod attributes;
pub mod commit;
pub mod lines;
pub mod options;
pub mod range;
pub mod route;
pub mod xet;
