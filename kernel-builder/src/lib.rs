//! The parts of Kernelwright that touch the world.
//!
//! ARCHITECTURE.md draws the modules; one uses those on lower lines of the drawing only. They meet in the stages of
//! [`pipeline`] alone, which [`commands`] call.

mod agent;
pub mod archive;
pub mod base;
pub mod bench;
pub mod cli;
pub mod codes;
pub mod commands;
pub mod compile;
pub mod device;
pub mod exit;
pub mod hub;
mod mcp;
pub mod package;
pub mod pipeline;
mod protocol;
pub mod publish;
pub mod scaffold;
pub mod selftest;
pub mod toolchain;
pub mod verify;
