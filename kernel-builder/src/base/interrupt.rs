//! Ctrl-C and termination: one flag that every long step looks at.
//!
//! Owns: the signal handler.
//! Never: exits; whoever sees the flag unwinds, so that children are killed and temporary files removed.

use std::sync::atomic::{AtomicUsize, Ordering};

static REQUESTS: AtomicUsize = AtomicUsize::new(0);

/// The step was interrupted by the user.
#[derive(Debug, Clone, Copy, thiserror::Error)]
#[error("interrupted")]
pub struct Interrupted;

/// Installs the handler; later signals while unwinding are counted but change nothing.
pub fn install() {
    // A second installation can only happen in tests that share a process; the first handler stays.
    let _already_installed = ctrlc::set_handler(|| {
        REQUESTS.fetch_add(1, Ordering::SeqCst);
    });
}

/// Whether the user asked to stop.
pub fn requested() -> bool {
    REQUESTS.load(Ordering::SeqCst) > 0
}

/// Fails when the user asked to stop; for loops that do not run a process.
pub fn check() -> Result<(), Interrupted> {
    if requested() { Err(Interrupted) } else { Ok(()) }
}
