//! The hub as a program, seen from outside: what it promises to those who read and write, and what it refuses.
//!
//! Owns: starting and ending it, and asking it over HTTP. Never: looks at its inner parts.
#![expect(
    clippy::disallowed_methods,
    clippy::disallowed_macros,
    reason = "tests start programs, look at files and say why they skip"
)]

mod clients;
mod crash;
mod limits;
mod names;
mod parity;
mod readers;
mod refusals;
mod secure;
mod server;
mod trace;
mod xet;
