//! A child, started as a program or forked from a Python that has imported torch.
//!
//! Owns: the difference between the two. Never: starts one.

use std::io::{Read, Write};
use std::process::{Child, ExitStatus};

use rustix::process::Pid;

use super::forks;

/// A child, whoever its parent is.
pub(super) enum ChildHandle {
    Started(Child),
    Forked(forks::Forked),
}

impl ChildHandle {
    pub(super) fn id(&self) -> Pid {
        match self {
            Self::Started(child) => Pid::from_child(child),
            Self::Forked(child) => child.id,
        }
    }

    /// Its status, if it has ended.
    pub(super) fn try_wait(&mut self) -> Option<ExitStatus> {
        match self {
            Self::Started(child) => child.try_wait().ok().flatten(),
            Self::Forked(child) => child.try_wait(),
        }
    }

    /// Waits for one that was killed.
    pub(super) fn wait(&mut self) {
        match self {
            Self::Started(child) => drop(child.wait()),
            Self::Forked(child) => child.wait(),
        }
    }

    pub(super) fn take_stdin(&mut self) -> Option<Box<dyn Write + Send>> {
        match self {
            Self::Started(child) => child.stdin.take().map(|pipe| Box::new(pipe) as _),
            Self::Forked(child) => child.stdin.take().map(|pipe| Box::new(pipe) as _),
        }
    }

    pub(super) fn take_stdout(&mut self) -> Option<Box<dyn Read + Send>> {
        match self {
            Self::Started(child) => child.stdout.take().map(|pipe| Box::new(pipe) as _),
            Self::Forked(child) => child.stdout.take().map(|pipe| Box::new(pipe) as _),
        }
    }

    pub(super) fn take_stderr(&mut self) -> Option<Box<dyn Read + Send>> {
        match self {
            Self::Started(child) => child.stderr.take().map(|pipe| Box::new(pipe) as _),
            Self::Forked(child) => child.stderr.take().map(|pipe| Box::new(pipe) as _),
        }
    }
}
