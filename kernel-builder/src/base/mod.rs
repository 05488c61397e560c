//! The only doors to the outside: environment, files, processes, and what a person or a program reads.
//!
//! Owns: every call into the operating system.
//! Never: knows what a kernel is.

pub mod annotation;
pub mod api;
pub(crate) mod background;
pub mod become_program;
pub mod causes;
pub mod channel;
pub mod confine;
pub(crate) mod date;
pub mod digest;
pub mod disk;
pub mod env;
pub mod files;
mod guard;
pub mod http;
pub mod input;
pub mod interrupt;
pub mod log;
#[cfg(test)]
pub(crate) mod loopback;
pub mod memory;
pub(crate) mod nearest;
pub mod nvml;
mod paint;
pub mod process;
pub(crate) mod random;
pub mod report;
pub(crate) mod secrets;
pub mod session;
mod shell;
pub(crate) mod socket;
