//! The stages of Kernelwright that touch the world.
//!
//! Stages, in the order in which data flows: scaffold, agent, toolchain, compile, device, verify, bench,
//! archive, package, hub, publish.
//! A stage uses stages above it, [`base`], and for the messages of Python `protocol`; stages meet in [`commands`] alone.

mod agent;
pub mod archive;
pub mod base;
pub mod bench;
pub mod cli;
pub mod commands;
pub mod compile;
pub mod device;
pub mod exit;
pub mod hub;
pub mod package;
mod protocol;
pub mod publish;
pub mod scaffold;
pub mod selftest;
pub mod toolchain;
pub mod verify;
