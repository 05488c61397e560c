//! A hub for kernels, for a team or a test: what Hugging Face's own clients need of one, over HTTP.
//!
//! Owns: the server and its folder. The program is `kernelwright-hub`; docs/hub.md says how it is used.
//! Never: is part of `kernelwright`, which finds the program beside itself and hands over its arguments.

pub mod auth;
pub mod causes;
pub mod name;
pub mod server;
pub mod store;
pub mod time;
pub mod trace;
pub mod wire;
