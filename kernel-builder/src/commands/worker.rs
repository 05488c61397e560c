//! `--worker ROLE`: this program as a child of itself. Nobody types it.
//!
//! Owns: the names of the roles. Never: parses options; a worker is told all on its standard input, or becomes
//! another program.

use crate::compile::nvrtc;
use crate::device;
use crate::exit;
use crate::pipeline::candidates::cell;
use crate::selftest::hand_in;

/// Runs a role to its end; gives the exit code.
pub fn run(role: &str) -> u8 {
    match role {
        device::ROLE => device::serve(),
        nvrtc::ROLE => nvrtc::serve(),
        nvrtc::CONFINED => nvrtc::run_confined(),
        cell::ROLE => cell::run(),
        hand_in::ROLE => hand_in::run(),
        _ => exit::USAGE,
    }
}
