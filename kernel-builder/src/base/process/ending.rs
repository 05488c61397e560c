//! How a child ended, in words.
//!
//! Owns: the names of signals. Never: ends anything.

use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;

/// How a child ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// It returned this status.
    Exit(i32),
    /// This signal killed it.
    Signal(i32),
    /// It was killed at its deadline.
    Deadline,
    /// It was killed because it printed too much.
    OutputLimit,
    /// It was killed because it used too much memory.
    MemoryLimit,
}

impl Ending {
    /// Whether the child returned zero.
    pub fn success(self) -> bool {
        self == Self::Exit(0)
    }
}

impl std::fmt::Display for Ending {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Exit(code) => write!(out, "returned {code}"),
            Self::Signal(number) => match signal_name(*number) {
                Some(name) => write!(out, "was killed by {name}"),
                None => write!(out, "was killed by signal {number}"),
            },
            Self::Deadline => write!(out, "did not end before its deadline"),
            Self::OutputLimit => write!(out, "printed more than it may"),
            Self::MemoryLimit => write!(out, "used more memory than it may"),
        }
    }
}

fn signal_name(number: i32) -> Option<&'static str> {
    Some(match number {
        4 => "SIGILL (illegal instruction)",
        6 => "SIGABRT (abort)",
        7 => "SIGBUS (bad memory access)",
        8 => "SIGFPE (arithmetic error)",
        9 => "SIGKILL",
        11 => "SIGSEGV (bad memory access)",
        15 => "SIGTERM",
        _ => return None,
    })
}

pub(super) fn ending_of(status: ExitStatus) -> Ending {
    match (status.code(), status.signal()) {
        (Some(code), _) => Ending::Exit(code),
        (None, signal) => Ending::Signal(signal.unwrap_or(9)),
    }
}
