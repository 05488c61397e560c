//! The stages of Kernelwright that touch the world.
//!
//! ARCHITECTURE.md draws the stages; one uses those on lower lines of the drawing only. Stages meet in [`commands`] alone.

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
pub mod publish;
pub mod scaffold;
pub mod selftest;
pub mod toolchain;
pub mod verify;
