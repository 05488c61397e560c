//! What is being put together from wheels.
//!
//! Owns: which wheels went into it, and the lock that they agree with. Never: finds or fetches.

use std::ops::Deref;
use std::sync::{Mutex, PoisonError};

use super::lock::{Lock, Locked};
use crate::base::session::Session;

/// What is being put together from wheels, and which ones went into it.
#[derive(Debug)]
pub(super) struct WheelCollector<'a> {
    session: &'a Session,
    lock: Option<&'a Lock>,
    taken: Mutex<Vec<Locked>>,
}

impl<'a> WheelCollector<'a> {
    /// For what a lock has.
    pub(super) fn new(session: &'a Session, lock: &'a Lock) -> Self {
        Self { session, lock: Some(lock), taken: Mutex::default() }
    }

    /// For something that no lock speaks of.
    pub(super) fn unlocked(session: &'a Session) -> Self {
        Self { session, lock: None, taken: Mutex::default() }
    }

    /// The lock, where there is one.
    pub(super) fn lock(&self) -> Option<&Lock> {
        self.lock
    }

    /// Remembers what was taken.
    pub(super) fn note(&self, wheels: impl Iterator<Item = Locked>) {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner).extend(wheels);
    }

    /// All that was taken.
    pub(super) fn locked_wheels(&self) -> Vec<Locked> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Deref for WheelCollector<'_> {
    type Target = Session;
    fn deref(&self) -> &Session {
        self.session
    }
}
