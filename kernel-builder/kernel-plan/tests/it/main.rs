//! The tests of this crate, one binary: whole files in, rendered text or plain values out.

mod argv;
mod errors;
mod expr;
mod op;
mod project;
mod spec;
mod tidy;
mod units;
mod variant;
