//! What answering a request knows of its connection.
//!
//! Owns: for which connection the hub is at work. Never: reads or writes it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::mapped::Mappings;
use super::metrics::count;

tokio::task_local! {
    /// The connection whose request is answered.
    pub(super) static HERE: ConnectionState;
}

/// What answering a request knows of its connection.
#[derive(Debug, Clone)]
pub(super) struct ConnectionState {
    /// What the hub itself does for it: then it is no fault of the client's that nothing moves.
    pub(super) busy: Arc<AtomicU64>,
    /// Where files may be sent from; not with TLS, which has to read them.
    pub(super) mappings: Option<Mappings>,
}

/// Where a file may be mapped, so that the connection of this request sends it by itself.
pub(super) fn mappings() -> Option<Mappings> {
    HERE.try_with(|here| here.mappings.clone()).ok().flatten()
}

/// The hub is at work for the connection whose request this is part of, until the value goes.
pub(super) struct Busy(Option<Arc<AtomicU64>>);

impl Busy {
    /// From now on.
    pub(super) fn begin() -> Self {
        let busy = HERE.try_with(|here| here.busy.clone()).ok();
        busy.iter().for_each(|busy| count(busy));
        Self(busy)
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.iter().for_each(|busy| {
            busy.fetch_sub(1, Ordering::Relaxed);
        });
    }
}
