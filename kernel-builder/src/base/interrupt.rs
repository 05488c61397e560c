//! Ctrl-C and termination: one flag that every long step looks at, and one for work that nobody waits for any more.
//!
//! Owns: the signal handler.
//! Never: exits; whoever sees the flag unwinds, so that children are killed and temporary files removed.

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

static REQUESTS: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    static OWN: RefCell<Option<Stop>> = const { RefCell::new(None) };
}

/// Stops the work of some threads as ctrl-C stops that of all.
#[derive(Debug, Clone, Default)]
pub struct Stop(Arc<AtomicBool>);

impl Stop {
    /// What stops this thread, so that threads that it starts can be stopped with it.
    pub fn of_thread() -> Option<Self> {
        OWN.with_borrow(Clone::clone)
    }

    /// Stops whatever runs [`within`] it.
    pub fn request(&self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

/// Does something that `stop` ends, too.
pub fn within<T>(stop: Option<Stop>, work: impl FnOnce() -> T) -> T {
    let before = OWN.replace(stop);
    let done = work();
    OWN.set(before);
    done
}

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

/// Whether the user asked to stop, or nobody waits for this thread any more.
pub fn requested() -> bool {
    let own = || OWN.with_borrow(|own| own.as_ref().is_some_and(|stop| stop.0.load(Ordering::SeqCst)));
    REQUESTS.load(Ordering::SeqCst) > 0 || own()
}

/// Fails when the user asked to stop; for loops that do not run a process.
pub fn check() -> Result<(), Interrupted> {
    if requested() { Err(Interrupted) } else { Ok(()) }
}
