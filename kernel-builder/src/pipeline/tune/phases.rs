//! Where the time of a workload goes.
//!
//! Owns: what each second of a search is counted as, and the words for it. Never: reads a clock.

use std::time::Duration;

use serde_json::{Value, json};

/// The seconds of one workload.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Phases {
    /// All of them.
    pub(crate) all: Duration,
    /// Until the first candidate could be judged.
    pub(crate) start: Duration,
    /// What of the start was done while the workload before was at work; no part of `all`.
    pub(crate) ahead: Duration,
    /// The GPU had nothing to do until a compiler had ended.
    pub(crate) compile: Duration,
    /// The process that runs candidates was asked: it loads, calls and times.
    pub(crate) measure: Duration,
    /// The process that compares was asked: new contents, and every number.
    pub(crate) judge: Duration,
}

impl Phases {
    /// This program itself: what is proposed, read and written.
    fn rest(&self) -> Duration {
        let known = self.start + self.compile + self.measure + self.judge;
        self.all.saturating_sub(known)
    }

    /// The share of all in which a process of the GPU was asked for something, once it was ready.
    fn at_work(&self) -> f64 {
        (self.measure + self.judge).as_secs_f64() / self.all.as_secs_f64().max(1e-9)
    }

    /// For programs, in seconds.
    pub(crate) fn data(&self) -> Value {
        json!({
            "all": self.all.as_secs_f64(),
            "start": self.start.as_secs_f64(),
            "ahead": self.ahead.as_secs_f64(),
            "compile_wait": self.compile.as_secs_f64(),
            "measure": self.measure.as_secs_f64(),
            "judge": self.judge.as_secs_f64(),
            "rest": self.rest().as_secs_f64(),
        })
    }

    /// For people.
    pub(crate) fn words(&self) -> String {
        let ahead = match self.ahead.as_secs_f64() {
            seconds if seconds < 0.05 => String::new(),
            seconds => format!(" ({seconds:.1} more during the workload before)"),
        };
        format!(
            "{:.1} s: start {:.1}{ahead}, waiting for compilers {:.1}, measuring {:.1}, judging {:.1}, rest {:.1}; \
             the GPU's processes busy {:.0}% of the time",
            self.all.as_secs_f64(),
            self.start.as_secs_f64(),
            self.compile.as_secs_f64(),
            self.measure.as_secs_f64(),
            self.judge.as_secs_f64(),
            self.rest().as_secs_f64(),
            100.0 * self.at_work(),
        )
    }

    /// Those of several workloads, one after the other.
    pub(crate) fn sum(all: impl Iterator<Item = Self>) -> Self {
        all.fold(Self::default(), |sum, one| Self {
            all: sum.all + one.all,
            start: sum.start + one.start,
            ahead: sum.ahead + one.ahead,
            compile: sum.compile + one.compile,
            measure: sum.measure + one.measure,
            judge: sum.judge + one.judge,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_second_is_counted_once() {
        let seconds = Duration::from_secs_f64;
        let first = Phases {
            all: seconds(40.0),
            start: seconds(9.5),
            ahead: Duration::ZERO,
            compile: seconds(0.5),
            measure: seconds(18.0),
            judge: seconds(10.0),
        };
        let second = Phases { all: seconds(31.0), start: seconds(0.5), ahead: seconds(9.0), ..first };
        assert_eq!(first.data()["rest"], 2.0);
        assert_eq!(
            second.words(),
            "31.0 s: start 0.5 (9.0 more during the workload before), waiting for compilers 0.5, measuring 18.0, judging \
             10.0, rest 2.0; the GPU's processes busy 90% of the time"
        );
        let sum = Phases::sum([first, second].into_iter());
        assert_eq!((sum.all, sum.start, sum.rest()), (seconds(71.0), seconds(10.0), seconds(4.0)));
        assert!(!first.words().contains("before"));
    }
}
