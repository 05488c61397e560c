//! The Model Context Protocol, as far as a server of tools speaks it over standard input and output.
//!
//! Owns: what a line means, the tools with their arguments, the lines that answer. Never: reads or writes a stream, or does
//! what a tool says. Source: modelcontextprotocol.io, revisions 2024-11-05 to 2025-11-25; JSON-RPC 2.0.

mod rpc;
mod tools;

pub(crate) use rpc::{Call, LONGEST, Message, Outcome, answer, progress, read, too_long};
pub(crate) use tools::{History, Profile, Submit, Tool, Try};
