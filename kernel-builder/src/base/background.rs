//! Work that is done in a thread of its own before anybody waits for it.
//!
//! Owns: the thread, and its end when nobody wants what it does. Never: knows what it does.

use std::thread::{Scope, ScopedJoinHandle};
use std::time::{Duration, Instant};

use super::interrupt::{self, StopFlag};

/// Work on its way. Dropped, it is stopped as by ctrl-C, and the scope waits for its end.
pub(crate) struct BackgroundTask<'scope, T> {
    thread: Option<ScopedJoinHandle<'scope, (T, Duration)>>,
    stop: StopFlag,
}

/// What was done, and how long that took.
#[derive(Debug, PartialEq)]
pub(crate) struct TaskResult<T> {
    pub result: T,
    /// From its beginning to its end.
    pub took: Duration,
    /// What of that somebody waited for.
    pub waited: Duration,
}

impl<'scope, T: Send + 'scope> BackgroundTask<'scope, T> {
    /// Begins.
    pub(crate) fn begin(scope: &'scope Scope<'scope, '_>, work: impl FnOnce() -> T + Send + 'scope) -> Self {
        let stop = StopFlag::default();
        let own = stop.clone();
        let since = Instant::now();
        let thread = scope.spawn(move || interrupt::within(Some(own), || (work(), since.elapsed())));
        Self { thread: Some(thread), stop }
    }

    /// Whether it is over, so that nobody would wait for it.
    pub(crate) fn has_ended(&self) -> bool {
        self.thread.as_ref().is_none_or(ScopedJoinHandle::is_finished)
    }

    /// Waits for the end. Whoever is interrupted meanwhile sees the work end by the same signal.
    pub(crate) fn wait(mut self) -> Option<TaskResult<T>> {
        let since = Instant::now();
        let thread = self.thread.take()?;
        match thread.join() {
            Ok((result, took)) => Some(TaskResult { result, took, waited: since.elapsed() }),
            Err(panic) => std::panic::resume_unwind(panic),
        }
    }
}

impl<T> Drop for BackgroundTask<'_, T> {
    fn drop(&mut self) {
        if self.thread.is_some() {
            self.stop.request();
        }
    }
}

#[cfg(test)]
mod tests {
    use kernel_plan::plan::CommandLine;

    use super::*;
    use crate::base::process::{self, Limits, ProcessError};

    #[test]
    fn work_is_done_before_it_is_waited_for() {
        let (tell, told) = std::sync::mpsc::channel();
        std::thread::scope(|scope| {
            let ahead = BackgroundTask::begin(scope, move || tell.send(7).is_ok());
            assert_eq!(told.recv(), Ok(7), "nobody waits yet");
            while !ahead.has_ended() {
                std::thread::yield_now();
            }
            let done = ahead.wait().unwrap();
            assert!(done.result && done.took > Duration::ZERO);
        });
    }

    #[test]
    fn what_nobody_wants_any_more_is_ended_with_its_processes_and_threads() {
        let folder = crate::base::files::scratch().unwrap();
        let began = folder.path().join("began");
        let script = format!(
            "echo $$ > '{}.new'; mv '{}.new' '{}'; sleep 600",
            began.display(),
            began.display(),
            began.display()
        );
        let line = CommandLine::new("sh").args(["-c", &script]);
        let mut ended = None;
        std::thread::scope(|scope| {
            let (send, receive) = std::sync::mpsc::channel();
            let line = &line;
            let ahead = BackgroundTask::begin(scope, move || {
                // A thread of the work is stopped with it.
                let stop = StopFlag::of_thread();
                let inner = std::thread::scope(|inner| {
                    let run = || process::run(line, Limits::wall(Duration::from_secs(600)));
                    inner.spawn(move || interrupt::within(stop, run)).join().unwrap()
                });
                send.send(inner.map(drop)).unwrap();
            });
            while !crate::base::files::exists(&began) {
                std::thread::yield_now();
            }
            drop(ahead);
            ended = receive.recv().ok();
        });
        assert!(matches!(ended, Some(Err(ProcessError::Interrupted))), "{ended:?}");
        assert!(!interrupt::requested(), "others go on");
        let id = crate::base::files::read_text(&began).unwrap();
        assert!(!crate::base::files::exists(std::path::Path::new(&format!("/proc/{}", id.trim()))));
    }
}
