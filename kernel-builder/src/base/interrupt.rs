//! Ctrl-C and termination: one flag that every long step looks at, and one for work that nobody waits for any more.
//!
//! Owns: the signal handler, and the end of a program that does not unwind.
//! Never: exits while the program can unwind: code that sees the flag does, so that children are killed and temporary
//! files removed. Only if a system call does not return, or the user insists, does the program end without that.

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::time::{Duration, Instant};

static REQUESTS: AtomicUsize = AtomicUsize::new(0);

/// The time that unwinding may take after the first signal.
const GRACE: Duration = Duration::from_secs(10);
/// A second signal within this time may be the first one again: a terminal and a wrapper such as `cargo run` both send it.
const SAME: Duration = Duration::from_secs(1);
/// The exit code of an interrupted program.
const INTERRUPTED: i32 = 130;

thread_local! {
    static OWN: RefCell<Option<StopFlag>> = const { RefCell::new(None) };
}

/// Stops the work of some threads as ctrl-C stops that of all.
#[derive(Debug, Clone, Default)]
pub struct StopFlag(Arc<AtomicBool>);

impl StopFlag {
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
pub fn within<T>(stop: Option<StopFlag>, work: impl FnOnce() -> T) -> T {
    let before = OWN.replace(stop);
    let done = work();
    OWN.set(before);
    done
}

/// The step was interrupted by the user.
#[derive(Debug, Clone, Copy, thiserror::Error)]
#[error("interrupted")]
pub struct Interrupted;

/// Installs the handler. The first signal sets the flag. The program ends at once at a later one, or if it has not unwound
/// within ten seconds: a read from a network file system, or a write to a full pipe, may never return.
pub fn install() {
    let mut first = None;
    // A second installation can only happen in tests that share a process; the first handler stays.
    let _already_installed = ctrlc::set_handler(move || {
        let count = REQUESTS.fetch_add(1, Ordering::SeqCst) + 1;
        let first = *first.get_or_insert_with(|| {
            // Without a thread, a further signal still ends the program.
            let _no_thread = std::thread::Builder::new().spawn(|| {
                std::thread::sleep(GRACE);
                end_now();
            });
            Instant::now()
        });
        if insists(count, first.elapsed()) {
            end_now();
        }
    });
}

/// Whether the `count`th signal, so long after the first, asks for the end without unwinding.
fn insists(count: usize, since_first: Duration) -> bool {
    count > 2 || (count == 2 && since_first > SAME)
}

/// Ends the program. Process groups of children end with it ([`super::guard`]); temporary files stay.
fn end_now() {
    std::process::exit(INTERRUPTED);
}

/// Does work that may wait for another program, such as reading from a pipe, and gives up when the user asks to stop.
/// `None`: the user did; the thread that does the work goes on until the program ends.
pub fn unless_requested<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Option<T> {
    let (send, done) = sync_channel(1);
    std::thread::spawn(move || {
        let _nobody_waits = send.send(work());
    });
    loop {
        match done.recv_timeout(Duration::from_millis(50)) {
            Ok(done) => return Some(done),
            Err(RecvTimeoutError::Timeout) if !requested() => {}
            Err(_) => return None,
        }
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signal_that_was_sent_twice_is_one_and_an_insisting_user_is_obeyed() {
        let insists_at = |count, millis| insists(count, Duration::from_millis(millis));
        assert!(!insists_at(1, 0) && !insists_at(1, 60_000));
        assert!(!insists_at(2, 20), "a terminal and a wrapper send the same ctrl-C");
        assert!(insists_at(2, 1_500) && insists_at(3, 20));
    }
}
